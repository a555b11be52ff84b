//! What is in the cluster at a step of a scenario, as far as it was said and not done by controllers.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_api::common::ConfigKind;
use everflow_api::helm::HelmRelease;
use everflow_api::object::Object;
use everflow_helm::chart::{Chart, ChartFile, load_files};
use everflow_helm::values::Warnings;
use everflow_json::{Map, Value, json};

use crate::corpus::list;

/// ConfigMaps, Secrets, HelmReleases and charts.
pub struct World {
    pub namespace: String,
    configs: BTreeMap<(String, String), Value>,
    pub releases: BTreeMap<String, Value>,
    charts: Vec<Map>,
}

impl World {
    pub fn new(scenario: &Value) -> Self {
        let mut world = World {
            namespace: scenario["name"].as_str().unwrap().to_owned(),
            configs: BTreeMap::new(),
            releases: BTreeMap::new(),
            charts: Vec::new(),
        };
        world.chart(&scenario["chart"]);
        for object in list(&scenario["objects"]) {
            world.apply(object);
        }
        world
    }

    /// What a step does.
    pub fn advance(&mut self, step: &Value) {
        for key in ["publish", "pushed", "committed", "chartWeb"] {
            self.chart(&step[key]);
        }
        let rejected = list(&step["rejected"]);
        for object in list(&step["apply"]) {
            let name = &object["metadata"]["name"];
            if !rejected.iter().any(|refused| refused["name"] == *name) {
                self.apply(object);
            }
        }
        let annotate = &step["annotate"];
        let name = annotate["name"].as_str().unwrap_or_default();
        if let Some(release) = self.releases.get_mut(name)
            && annotate["kind"] == "HelmRelease"
        {
            merge(
                &mut release["metadata"]["annotations"],
                &annotate["annotations"],
            );
        }
        let patch = &step["patch"];
        let key = |part: &Value| {
            let text = |field: &str| part[field].as_str().unwrap_or_default().to_owned();
            (text("kind"), text("name"))
        };
        if let Some(config) = self.configs.get_mut(&key(patch)) {
            merge(config, &patch["body"]);
        }
        self.configs.remove(&key(&step["delete"]));
    }

    fn chart(&mut self, files: &Value) {
        if let Value::Object(files) = files {
            self.charts.push(files.clone());
        }
    }

    fn apply(&mut self, object: &Value) {
        let mut object = object.clone();
        let kind = object["kind"].as_str().unwrap().to_owned();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        if object["metadata"].get("namespace").is_none() {
            object["metadata"]["namespace"] = json!(self.namespace);
        }
        if let Value::Object(texts) = object["stringData"].take() {
            for (key, text) in &texts {
                object["data"][key.as_str()] = json!(STANDARD.encode(text.as_str().unwrap()));
            }
        }
        match kind.as_str() {
            "HelmRelease" => {
                self.releases.insert(name, object);
            }
            "ConfigMap" | "Secret" => {
                self.configs.insert((kind, name), object);
            }
            _ => {}
        }
    }

    /// A HelmRelease as it was asked for, with what the controller knew of it.
    pub fn release(&self, name: &str, status: &Value) -> Option<Object<HelmRelease>> {
        let mut object = self.releases.get(name)?.clone();
        if status.is_object() {
            object["status"] = status.clone();
        }
        if let Some(status) = object.get_mut("status") {
            without_placeholders(status);
        }
        Some(Object::read(&object).unwrap())
    }

    pub fn config(&self, kind: ConfigKind, name: &str) -> Option<&Value> {
        self.configs
            .get(&(kind.as_str().to_owned(), name.to_owned()))
    }

    /// The newest chart of that name and version that was there.
    pub fn loaded(&self, name: &str, version: &str) -> Option<Chart> {
        let base = version.split('+').next().unwrap();
        let mut charts = self.charts.iter().rev().map(|files| {
            let files = files
                .iter()
                .map(|(path, text)| {
                    ChartFile::new(path.as_str(), text.as_str().unwrap().as_bytes())
                })
                .collect();
            load_files(files, &mut Warnings::default()).unwrap()
        });
        let mut chart =
            charts.find(|chart| chart.metadata.name == name && chart.metadata.version == base)?;
        version.clone_into(&mut chart.metadata.version);
        Some(chart)
    }
}

/// A JSON merge patch.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.as_object_mut().unwrap().remove(key);
            }
            value => merge(&mut target[key.as_str()], value),
        }
    }
}

/// Times in the place of their placeholders, so that the status can be read.
fn without_placeholders(value: &mut Value) {
    match value {
        Value::String(text) if text == "$TIME" => *value = json!("2026-01-01T00:00:00Z"),
        Value::String(text) if text == "$DURATION" => *value = json!("1s"),
        Value::Array(items) => items.iter_mut().for_each(without_placeholders),
        Value::Object(map) => map.values_mut().for_each(without_placeholders),
        _ => {}
    }
}
