//! A chart as release records hold it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_json::{Map, Value, json};

use crate::chart::{Chart, ChartFile, Dependency, Metadata};

/// Go's zero time, which helm writes where it has none.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// The chart's JSON in a release record. Dependencies are not part of it: helm leaves them out.
pub fn chart_record(chart: &Chart) -> Value {
    json!({
        "metadata": metadata_record(&chart.metadata),
        "lock": chart.lock,
        "templates": files(&chart.templates),
        "values": chart.values,
        "schema": chart.schema.as_ref().map(|schema| STANDARD.encode(schema)),
        "schemamodtime": ZERO_TIME,
        "files": files(&chart.files),
    })
}

fn files(files: &[ChartFile]) -> Value {
    match files {
        [] => Value::Null,
        files => files
            .iter()
            .map(|file| json!({"name": file.name, "data": STANDARD.encode(&file.data)}))
            .collect(),
    }
}

/// `Chart.yaml` with the fields that are not empty.
pub(crate) fn metadata_record(metadata: &Metadata) -> Value {
    let mut out = Map::new();
    let texts = [
        ("name", &metadata.name),
        ("home", &metadata.home),
        ("version", &metadata.version),
        ("description", &metadata.description),
        ("icon", &metadata.icon),
        ("apiVersion", &metadata.api_version),
        ("condition", &metadata.condition),
        ("tags", &metadata.tags),
        ("appVersion", &metadata.app_version),
        ("kubeVersion", &metadata.kube_version),
        ("type", &metadata.kind),
    ];
    for (key, text) in texts {
        super::put_text(&mut out, key, text);
    }
    super::put_list(&mut out, "sources", &metadata.sources);
    super::put_list(&mut out, "keywords", &metadata.keywords);
    if metadata.deprecated {
        out.insert("deprecated".into(), json!(true));
    }
    if !metadata.annotations.is_empty() {
        let annotations: Map = metadata
            .annotations
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        out.insert("annotations".into(), Value::Object(annotations));
    }
    if !metadata.maintainers.is_empty() {
        let maintainers: Vec<Value> = metadata
            .maintainers
            .iter()
            .flatten()
            .map(|maintainer| {
                let mut entry = Map::new();
                super::put_text(&mut entry, "name", &maintainer.name);
                super::put_text(&mut entry, "email", &maintainer.email);
                super::put_text(&mut entry, "url", &maintainer.url);
                Value::Object(entry)
            })
            .collect();
        out.insert("maintainers".into(), Value::Array(maintainers));
    }
    if !metadata.dependencies.is_empty() {
        let all = metadata
            .dependencies
            .iter()
            .flatten()
            .map(dependency_record);
        out.insert("dependencies".into(), all.collect());
    }
    Value::Object(out)
}

/// A dependency with the fields that are not empty.
pub(crate) fn dependency_record(dependency: &Dependency) -> Value {
    let mut out = Map::new();
    out.insert("name".into(), json!(dependency.name));
    super::put_text(&mut out, "version", &dependency.version);
    out.insert("repository".into(), json!(dependency.repository));
    super::put_text(&mut out, "condition", &dependency.condition);
    super::put_list(&mut out, "tags", &dependency.tags);
    if dependency.enabled {
        out.insert("enabled".into(), json!(true));
    }
    if !dependency.import_values.is_empty() {
        out.insert(
            "import-values".into(),
            Value::Array(dependency.import_values.clone()),
        );
    }
    super::put_text(&mut out, "alias", &dependency.alias);
    Value::Object(out)
}
