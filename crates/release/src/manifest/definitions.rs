//! Custom resource definitions of a chart.

use std::fmt::Display;

use everflow_helm::chart::Chart;
use everflow_helm::manifests::split_manifests;
use everflow_json::{Value, json};
use everflow_limits::Budget;
use everflow_yaml::{cost, sigs};

use crate::error::Error;
use crate::render::origin_labels;

/// The definitions under `crds/` of a chart and its dependencies.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Definitions {
    /// The definitions, each with the labels of the HelmRelease that it comes from.
    pub objects: Vec<Value>,
    /// What else stands in these files, as KIND/NAME. It is not applied.
    pub ignored: Vec<String>,
}

/// The definitions of a chart whose dependencies are chosen. They are no part of the manifest, of its
/// drift or of what is uninstalled.
///
/// # Errors
/// When a file cannot be read, or all of them take more than they may.
pub fn definitions(
    chart: &Chart,
    namespace: &str,
    name: &str,
    budget: &Budget,
) -> Result<Definitions, Error> {
    let mut found = Definitions::default();
    let labels = origin_labels(namespace, name).labels;
    for (path, file) in chart.crds() {
        for document in split_manifests(&file.text()) {
            let unread = |error: &dyn Display| {
                Error::Definitions(format!(
                    "failed to parse CustomResourceDefinitions from {path}: {error}"
                ))
            };
            let document = document.as_bytes();
            let (held, limits) = cost::reading(budget, document).map_err(|error| unread(&error))?;
            let mut object =
                sigs::to_json(document, false, limits).map_err(|error| unread(&error))?;
            drop(held);
            let taken = budget.charge(cost::of_json(&object));
            taken.map_err(|error| unread(&error))?;
            if !object.is_object() {
                continue;
            }
            if !is_definition(&object) {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let named = format!(
                    "{}/{}",
                    text(&object["kind"]),
                    text(&object["metadata"]["name"])
                );
                found.ignored.push(named);
                continue;
            }
            for (key, value) in &labels {
                object["metadata"]["labels"][key.as_str()] = json!(value);
            }
            found.objects.push(object);
        }
    }
    Ok(found)
}

fn is_definition(object: &Value) -> bool {
    let group = object["apiVersion"].as_str().unwrap_or_default();
    object["kind"] == "CustomResourceDefinition" && group.starts_with("apiextensions.k8s.io/")
}
