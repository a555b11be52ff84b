//! Rendered manifests as text, to be kept and compared.

use std::collections::BTreeMap;

use everflow_api::inventory::ObjectId;
use everflow_api::{names, view};
use everflow_apply::inventory::Inventory;
use everflow_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use crate::applied::applied_by;

/// What a Kustomization renders to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The Kustomization, as `Kind/namespace/name`.
    pub kustomization: String,
    /// The name of a file for it.
    pub file: String,
    /// The manifests, in the order of the inventory.
    pub text: String,
}

/// What Kustomizations applied. Values of Secrets are not shown.
pub fn render(objects: &[Value], deployed: &BTreeMap<ObjectId, Value>) -> Vec<Rendered> {
    let kustomizations = objects
        .iter()
        .filter(|object| object["kind"] == "Kustomization");
    let mut all: Vec<Rendered> = kustomizations
        .map(|kustomization| {
            let inventory = Inventory::read(&kustomization["status"]["inventory"]);
            let inventory = inventory.unwrap_or_default();
            let manifests = inventory.entries().iter().filter_map(|entry| {
                let manifest = manifest(deployed.get(&entry.id)?)?;
                Some(everflow_yaml::emit::sigs(&manifest))
            });
            let manifests: Vec<String> = manifests.collect();
            Rendered {
                kustomization: view::name_of(kustomization),
                file: format!(
                    "{}.{}.yaml",
                    view::namespace(kustomization),
                    view::name(kustomization)
                ),
                text: manifests.join("---\n"),
            }
        })
        .collect();
    all.sort_by(|one, two| one.file.cmp(&two.file));
    all
}

/// The manifest of a live object, as it was applied.
pub fn manifest(live: &Value) -> Option<Value> {
    let mut manifest = applied_by(live, "kustomize-controller")?;
    if manifest["kind"] == "Secret" {
        for field in ["data", "stringData"] {
            for value in manifest[field].as_object_mut().into_iter().flatten() {
                *value.1 = json!("***");
            }
        }
    }
    // The owner is the Kustomization, which the file is named after.
    if let Some(labels) = manifest
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
    {
        labels.remove(names::label::KUSTOMIZATION_NAME);
        labels.remove(names::label::KUSTOMIZATION_NAMESPACE);
        if labels.is_empty()
            && let Some(metadata) = manifest["metadata"].as_object_mut()
        {
            metadata.remove("labels");
        }
    }
    Some(manifest)
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
