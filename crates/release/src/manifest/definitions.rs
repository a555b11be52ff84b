//! Custom resource definitions of a chart.

use everflow_helm::chart::Chart;
use everflow_helm::manifests::split_manifests;
use everflow_json::{Value, json};
use everflow_yaml::sigs;

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
/// When a file cannot be read.
pub fn definitions(chart: &Chart, namespace: &str, name: &str) -> Result<Definitions, Error> {
    let mut found = Definitions::default();
    let labels = origin_labels(namespace, name).labels;
    for (path, file) in chart.crds() {
        for document in split_manifests(&file.text()) {
            let mut object = sigs::yaml_to_json(document.as_bytes()).map_err(|error| {
                Error::Definitions(format!(
                    "failed to parse CustomResourceDefinitions from {path}: {error}"
                ))
            })?;
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
