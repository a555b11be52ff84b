//! The definitions of Flux's kinds, and of kinds beside them that repositories use and nobody here
//! takes care of.

use everflow_json::{Value, json};
use everflow_runtime::client::Resource;

const IMAGE: &str = "image.toolkit.fluxcd.io";
const OPERATOR: &str = "fluxcd.controlplane.io";

/// Kinds of Flux and its operator that nobody here takes care of yet.
pub static KINDS: [Resource; 8] = [
    Resource::namespaced(IMAGE, "v1", "imagerepositories", "ImageRepository"),
    Resource::namespaced(IMAGE, "v1", "imagepolicies", "ImagePolicy"),
    Resource::namespaced(
        IMAGE,
        "v1",
        "imageupdateautomations",
        "ImageUpdateAutomation",
    ),
    Resource::namespaced(
        "source.extensions.fluxcd.io",
        "v1beta1",
        "artifactgenerators",
        "ArtifactGenerator",
    ),
    Resource::namespaced(OPERATOR, "v1", "fluxinstances", "FluxInstance"),
    Resource::namespaced(OPERATOR, "v1", "fluxreports", "FluxReport"),
    Resource::namespaced(OPERATOR, "v1", "resourcesets", "ResourceSet"),
    Resource::namespaced(
        OPERATOR,
        "v1",
        "resourcesetinputproviders",
        "ResourceSetInputProvider",
    ),
];

/// Keeps what a repository says about Flux's own definitions from replacing them.
const KEPT: &str = "kustomize.toolkit.fluxcd.io/reconcile";

/// All definitions.
pub fn definitions() -> Vec<Value> {
    let own = everflow_api::crds().into_iter().map(|mut definition| {
        allow_operator(&mut definition);
        definition["metadata"]["annotations"][KEPT] = json!("disabled");
        definition
    });
    own.chain(KINDS.iter().map(accepting)).collect()
}

/// What installing Flux brings beside the definitions: the accounts that Kustomizations may be applied
/// as, with the rights that they have.
pub fn accounts() -> Vec<Value> {
    let namespace = crate::entry::FLUX_SYSTEM;
    let names = ["kustomize-controller", "helm-controller", "flux-operator"];
    let account = |name: &&str| {
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "namespace": namespace, "name": name },
        })
    };
    let subject =
        |name: &&str| json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name });
    let first = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": "cluster-reconciler-flux-system" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin",
        },
        "subjects": names.iter().map(subject).collect::<Vec<_>>(),
    });
    let accounts = names.iter().map(account);
    [first]
        .into_iter()
        .chain(accounts)
        .chain([binding])
        .collect()
}

/// The operator of Flux lets Alerts and Receivers speak of its own kinds.
fn allow_operator(definition: &mut Value) {
    let versions = definition["spec"]["versions"].as_array_mut();
    for version in versions.into_iter().flatten() {
        for field in ["eventSources", "resources"] {
            let at = format!(
                "/schema/openAPIV3Schema/properties/spec/properties/{field}/items/properties/kind/enum"
            );
            if let Some(kinds) = version.pointer_mut(&at).and_then(Value::as_array_mut) {
                let own = KINDS.iter().filter(|kind| kind.group == OPERATOR);
                kinds.extend(own.map(|kind| json!(kind.kind)));
            }
        }
    }
}

/// A definition that accepts whatever is written.
fn accepting(kind: &Resource) -> Value {
    let mut versions: Vec<&str> = vec![&kind.version];
    if kind.group == IMAGE {
        versions.extend(["v1beta2", "v1beta1"]);
    }
    let version = |name: &&str| {
        json!({
            "name": name,
            "served": true,
            "storage": **name == *kind.version,
            "subresources": { "status": {} },
            "schema": {
                "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            },
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{}", kind.plural, kind.group),
            "annotations": { KEPT: "disabled" },
        },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": { "kind": kind.kind, "plural": kind.plural },
            "versions": versions.iter().map(version).collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_beside_fluxs_own() {
        let all = definitions();
        let of = |kind: &str| {
            let mut all = all.iter();
            all.find(|one| one["spec"]["names"]["kind"] == kind)
                .unwrap()
        };
        assert!(of("Alert").to_string().contains("\"FluxInstance\""));
        assert_eq!(of("ImagePolicy")["spec"]["versions"][2]["name"], "v1beta1");
        // A repository's own definition would take other versions, or have rules about statuses.
        assert!(
            all.iter()
                .all(|one| one["metadata"]["annotations"][KEPT] == "disabled")
        );
    }
}
