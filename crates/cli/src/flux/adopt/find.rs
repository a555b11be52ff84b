//! Which Flux is in a cluster: its controllers, and who keeps them up.

use std::collections::BTreeMap;

use everflow_json::Value;
use everflow_runtime::client::{Resource, Selection, annotation, meta_text};

use super::notes;
use crate::exit::Failure;
use crate::flux::connection::Session;

/// The controllers whose work this program does.
pub const REPLACED: [&str; 4] = [
    "source-controller",
    "kustomize-controller",
    "helm-controller",
    "notification-controller",
];
/// Controllers of Flux that go on beside this program.
pub const BESIDE: [&str; 3] = [
    "image-reflector-controller",
    "image-automation-controller",
    "source-watcher",
];
const PART_OF_FLUX: &str = "app.kubernetes.io/part-of=flux";

/// Who keeps an installation as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manager {
    /// A Kustomization of Flux itself, after `flux bootstrap`.
    Kustomization { namespace: String, name: String },
    /// A Helm release.
    Chart { namespace: String, name: String },
    /// A FluxInstance.
    Operator,
    /// Nobody: `flux install` or plain manifests.
    Nobody,
}

/// A controller of Flux.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    pub namespace: String,
    pub name: String,
    /// As `source-controller`, also of a shard.
    pub component: &'static str,
    pub replicas: i64,
    /// How many it had before this program stopped it.
    pub noted: Option<i64>,
    pub version: String,
    pub args: Vec<String>,
}

impl Controller {
    /// Whether this program does its work.
    pub fn is_replaced(&self) -> bool {
        REPLACED.contains(&self.component)
    }
}

/// Flux in one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Install {
    pub namespace: String,
    pub manager: Manager,
    pub controllers: Vec<Controller>,
}

impl Install {
    /// Whether any controller runs whose work this program does.
    pub fn runs(&self) -> bool {
        let mut replaced = self.controllers.iter().filter(|one| one.is_replaced());
        replaced.any(|one| one.replicas > 0)
    }

    /// Whether this program has stopped a controller of it.
    pub fn is_noted(&self) -> bool {
        self.controllers.iter().any(|one| one.noted.is_some())
    }

    /// Who would undo what a bootstrap does.
    pub fn foreign_manager(&self) -> Option<String> {
        match &self.manager {
            Manager::Chart { namespace, name } => {
                Some(format!("the Helm release {namespace}/{name}"))
            }
            Manager::Operator => Some("the Flux operator".to_owned()),
            Manager::Kustomization { .. } | Manager::Nobody => None,
        }
    }

    /// The newest version that a controller says it is part of.
    pub fn version(&self) -> &str {
        let versions = self.controllers.iter().map(|one| one.version.as_str());
        versions.max().unwrap_or_default()
    }
}

/// Whether a Deployment of this name is a controller whose work this program does, a shard included.
pub fn is_controller_of_flux(name: &str) -> bool {
    component_named(name).is_some_and(|component| REPLACED.contains(&component))
}

fn component_named(name: &str) -> Option<&'static str> {
    let mut known = REPLACED.iter().chain(&BESIDE);
    known
        .find(|known| {
            let rest = name.strip_prefix(**known);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
        .copied()
}

/// All installations of Flux, by namespace.
pub async fn installation(session: &Session) -> Result<Vec<Install>, Failure> {
    let deployments = Resource::namespaced("apps", "v1", "deployments", "Deployment");
    let selection = Selection::labelled(PART_OF_FLUX);
    let listed = session
        .client
        .list_all(&deployments, None, &selection)
        .await;
    let listed = listed.map_err(|error| Failure::Work(session.told_of(&error)))?;
    Ok(installs(&listed.items))
}

/// The installations that Deployments belong to.
pub fn installs(deployments: &[Value]) -> Vec<Install> {
    let mut found: BTreeMap<String, Install> = BTreeMap::new();
    for deployment in deployments {
        let Some(controller) = controller(deployment) else {
            continue;
        };
        let namespace = controller.namespace.clone();
        let install = found.entry(namespace.clone()).or_insert_with(|| Install {
            namespace,
            manager: Manager::Nobody,
            controllers: Vec::new(),
        });
        if install.manager == Manager::Nobody {
            install.manager = manager(deployment);
        }
        install.controllers.push(controller);
    }
    found.into_values().collect()
}

fn controller(deployment: &Value) -> Option<Controller> {
    let labels = &deployment["metadata"]["labels"];
    let name = meta_text(deployment, "name");
    let labelled = labels["app.kubernetes.io/component"]
        .as_str()
        .unwrap_or_default();
    let component = component_named(name).or_else(|| component_named(labelled))?;
    // One of ours may stand for a component by its label.
    if labels["app.kubernetes.io/name"] == "everflow" {
        return None;
    }
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let args = container["args"].as_array().into_iter().flatten();
    Some(Controller {
        namespace: meta_text(deployment, "namespace").to_owned(),
        name: name.to_owned(),
        component,
        replicas: deployment["spec"]["replicas"].as_i64().unwrap_or(1),
        noted: annotation(deployment, notes::REPLICAS).and_then(|text| text.parse().ok()),
        version: labels["app.kubernetes.io/version"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        args: args.filter_map(Value::as_str).map(str::to_owned).collect(),
    })
}

fn manager(deployment: &Value) -> Manager {
    let labels = &deployment["metadata"]["labels"];
    let label = |name: &str| labels[name].as_str().filter(|text| !text.is_empty());
    let is_operated = |text: &str| text == "flux-operator";
    if label("app.kubernetes.io/managed-by").is_some_and(is_operated)
        || label("fluxcd.controlplane.io/name").is_some()
    {
        return Manager::Operator;
    }
    let own = meta_text(deployment, "namespace");
    if let Some(name) = annotation(deployment, "meta.helm.sh/release-name") {
        let namespace = annotation(deployment, "meta.helm.sh/release-namespace").unwrap_or(own);
        return Manager::Chart {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
    }
    match label("kustomize.toolkit.fluxcd.io/name") {
        Some(name) => Manager::Kustomization {
            namespace: label("kustomize.toolkit.fluxcd.io/namespace")
                .unwrap_or(own)
                .to_owned(),
            name: name.to_owned(),
        },
        None => Manager::Nobody,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    fn deployment(name: &str, labels: Value) -> Value {
        json!({"metadata": {"namespace": "flux-system", "name": name, "labels": labels,
            "annotations": {"adopt.everflow.dev/replicas": "2"}},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"args": ["--a"]}]}}}})
    }

    #[test]
    fn controllers_are_known_by_name_and_shards_too() {
        assert!(is_controller_of_flux("source-controller"));
        assert!(is_controller_of_flux("kustomize-controller-shard1"));
        assert!(!is_controller_of_flux("image-reflector-controller"));
        assert!(!is_controller_of_flux("everflow"));
        assert!(!is_controller_of_flux("source-controllers"));
    }

    #[test]
    fn owners_of_flux_controllers_are_found_by_labels() {
        let bootstrapped = json!({"kustomize.toolkit.fluxcd.io/name": "flux-system"});
        let found = installs(&[
            deployment("everflow", json!({})),
            deployment("source-controller", bootstrapped),
        ]);
        let [install] = &found[..] else {
            panic!("{found:?}")
        };
        assert!(
            matches!(&install.manager, Manager::Kustomization { name, .. } if name == "flux-system")
        );
        assert_eq!(install.foreign_manager(), None);
        assert_eq!(install.controllers[0].noted, Some(2));
        assert!(install.runs());
        let operated = json!({"app.kubernetes.io/managed-by": "flux-operator"});
        let found = installs(&[deployment("helm-controller", operated)]);
        assert_eq!(found[0].manager, Manager::Operator);
    }
}
