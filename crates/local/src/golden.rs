//! Rendered manifests as text, to be kept and compared.

use std::collections::BTreeMap;

use everflow_api::inventory::ObjectId;
use everflow_api::names::{label, manager};
use everflow_api::view;
use everflow_apply::inventory::Inventory;
use everflow_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use crate::applied::applied_by;

/// What a Kustomization or a HelmRelease renders to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The Kustomization or HelmRelease, as `Kind/namespace/name`.
    pub owner: String,
    /// The name of a file for it.
    pub file: String,
    /// The manifests, in the order of the inventory.
    pub text: String,
}

/// Labels that say who the owner is.
const OWNER_LABELS: [&str; 4] = [
    label::KUSTOMIZATION_NAME,
    label::KUSTOMIZATION_NAMESPACE,
    label::HELM_RELEASE_NAME,
    label::HELM_RELEASE_NAMESPACE,
];
/// Annotations that say who the owner is.
const OWNER_ANNOTATIONS: [&str; 2] = [
    "meta.helm.sh/release-name",
    "meta.helm.sh/release-namespace",
];

/// Objects that deploy others, each with the manifests of what it deployed.
pub(crate) fn by_owner<'o>(
    objects: &'o [Value],
    deployed: &BTreeMap<ObjectId, Value>,
    hooks: &BTreeMap<ObjectId, Vec<Value>>,
) -> Vec<(&'o Value, Vec<(ObjectId, Value)>)> {
    let owners = objects.iter().filter_map(|object| {
        let manager = manager_of(object)?;
        let inventory = Inventory::read(&object["status"]["inventory"]);
        let inventory = inventory.unwrap_or_default();
        let entries = inventory.entries().iter();
        let mut manifests: Vec<(ObjectId, Value)> = entries
            .filter_map(|entry| {
                let manifest = manifest(deployed.get(&entry.id)?, manager)?;
                Some((entry.id.clone(), manifest))
            })
            .collect();
        let hooks = hooks.get(&ObjectId::of(object));
        for hook in hooks.into_iter().flatten() {
            manifests.push((ObjectId::of(hook), shown(hook.clone())));
        }
        Some((object, manifests))
    });
    owners.collect()
}

/// In whose name a kind applies what it deploys.
fn manager_of(object: &Value) -> Option<&'static str> {
    match object["kind"].as_str()? {
        "Kustomization" => Some(manager::KUSTOMIZE),
        "HelmRelease" => Some(manager::HELM),
        _ => None,
    }
}

/// What Kustomizations and HelmReleases applied. Values of Secrets are not shown.
pub fn render(owners: &[(&Value, Vec<(ObjectId, Value)>)]) -> Vec<Rendered> {
    let mut all: Vec<Rendered> = owners
        .iter()
        .map(|(owner, manifests)| {
            let texts = manifests
                .iter()
                .map(|(_, it)| everflow_yaml::emit::sigs(it));
            let texts: Vec<String> = texts.collect();
            // Both kinds may have objects of one name.
            let kind = match owner["kind"] == "HelmRelease" {
                true => ".helmrelease",
                false => "",
            };
            Rendered {
                owner: view::name_of(owner),
                file: format!(
                    "{}.{}{kind}.yaml",
                    view::namespace(owner),
                    view::name(owner)
                ),
                text: texts.join("---\n"),
            }
        })
        .collect();
    all.sort_by(|one, two| one.file.cmp(&two.file));
    all
}

/// The manifest of a live object, as a manager applied it.
fn manifest(live: &Value, manager: &str) -> Option<Value> {
    applied_by(live, manager).map(shown)
}

/// A manifest as it may be shown.
fn shown(mut manifest: Value) -> Value {
    if manifest["kind"] == "Secret" {
        for field in ["data", "stringData"] {
            let values = manifest.get_mut(field).and_then(Value::as_object_mut);
            for value in values.into_iter().flatten() {
                *value.1 = json!("***");
            }
        }
    }
    // The owner is what the file is named after.
    let owners = [
        ("labels", &OWNER_LABELS[..]),
        ("annotations", &OWNER_ANNOTATIONS),
    ];
    for (field, names) in owners {
        let Some(metadata) = manifest["metadata"].as_object_mut() else {
            continue;
        };
        let Some(Value::Object(map)) = metadata.get_mut(field) else {
            continue;
        };
        for name in names {
            map.remove(name);
        }
        if map.is_empty() {
            metadata.remove(field);
        }
    }
    manifest
}

/// The lines that differ, with a little around them.
pub fn difference(before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    let mut text = String::new();
    for (index, group) in diff.grouped_ops(3).iter().enumerate() {
        if index > 0 {
            text += "  …\n";
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            text += &format!("{sign} {}", change.value());
            if !change.value().ends_with('\n') {
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_owner_has_a_file_of_what_it_applied_without_secrets_and_owners() {
        let owner = |kind: &str, group: &str, objects: &[&str]| {
            let entries: Vec<Value> = objects
                .iter()
                .map(|id| json!({"id": id, "v": "v1"}))
                .collect();
            json!({
                "apiVersion": format!("{group}/v2"), "kind": kind,
                "metadata": {"namespace": "apps", "name": "web"},
                "status": {"inventory": {"entries": entries}},
            })
        };
        let objects = [
            owner("Kustomization", "kustomize.toolkit.fluxcd.io", &[]),
            owner(
                "HelmRelease",
                "helm.toolkit.fluxcd.io",
                &["apps_keys__Secret"],
            ),
        ];
        let annotations = json!({"meta.helm.sh/release-name": "web"});
        let labels = json!({"helm.toolkit.fluxcd.io/name": "web", "mine": "yes"});
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "data": {"token": "aHVudGVyMg=="},
            "metadata": {
                "namespace": "apps", "name": "keys", "annotations": annotations, "labels": labels,
                "managedFields": [{"manager": "helm-controller", "operation": "Apply", "fieldsV1": {
                    "f:data": {"f:token": {}},
                    "f:metadata": {"f:annotations": {"f:meta.helm.sh/release-name": {}}, "f:labels": {
                        "f:helm.toolkit.fluxcd.io/name": {}, "f:mine": {},
                    }},
                }}],
            },
        });
        let hook = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "apps", "name": "hook"},
        });
        let deployed = BTreeMap::from([(ObjectId::of(&secret), secret)]);
        let hooks = BTreeMap::from([(ObjectId::of(&objects[1]), vec![hook])]);
        let rendered = render(&by_owner(&objects, &deployed, &hooks));
        let files: Vec<(&str, &str)> = rendered
            .iter()
            .map(|it| (it.file.as_str(), it.text.as_str()))
            .collect();
        let text = "apiVersion: v1\ndata:\n  token: '***'\nkind: Secret\nmetadata:\n  labels:\n    mine: \"yes\"\n  name: \
                    keys\n  namespace: apps\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: hook\n  namespace: apps\n";
        assert_eq!(
            files,
            [("apps.web.helmrelease.yaml", text), ("apps.web.yaml", "")]
        );
    }
}
