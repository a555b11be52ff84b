//! Patches of a FluxInstance, applied as kustomize applies them.

use everflow_json::{Value, json};
use everflow_kustomize::{MemoryView, Options, Plugins, Reorder};
use everflow_limits::{Budget, Stop};
use everflow_yaml::documents::yaml_or_json_decoder;

use crate::error::Error;

/// What one patch may take in memory.
const MEMORY: u64 = 256 << 20;
/// A field that shows which objects a target selects.
const PROBE: &str = "everflow-probe";

/// A patch and its place in the list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patch<'a> {
    pub(super) index: usize,
    value: &'a Value,
}

impl<'a> Patch<'a> {
    pub(super) fn read(index: usize, value: &'a Value) -> Result<Self, Error> {
        let patch = Patch { index, value };
        match value["patch"].as_str() {
            None | Some("") => Err(patch.failed("the field patch is required")),
            Some(_) => Ok(patch),
        }
    }

    pub(super) fn failed(&self, why: impl Into<String>) -> Error {
        Error::Patch {
            index: self.index,
            why: why.into(),
        }
    }

    /// What it is for, as people wrote it.
    pub(super) fn target(&self) -> String {
        match &self.value["target"] {
            Value::Null => {
                let body = self.body();
                let kind = body["kind"].as_str().unwrap_or_default().to_owned();
                format!(
                    "{kind} {}",
                    body["metadata"]["name"].as_str().unwrap_or_default()
                )
            }
            target => target.to_string(),
        }
    }

    pub(super) fn has_target(&self) -> bool {
        !self.value["target"].is_null()
    }

    /// The name of the object that it is, when it is one.
    pub(super) fn body_name(&self) -> String {
        let body = self.body();
        body["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The patch as an object; null when it is a list of operations.
    fn body(&self) -> Value {
        let text = self.value["patch"].as_str().unwrap_or_default();
        let first = yaml_or_json_decoder(text.as_bytes()).next();
        let value = first
            .and_then(Result::ok)
            .and_then(|document| document.into_object().ok());
        value.flatten().unwrap_or_default()
    }

    /// Which objects it is for.
    pub(super) fn selects(&self, objects: &[Value]) -> Result<Vec<bool>, Error> {
        if self.value["target"].is_null() {
            let body = self.body();
            let is_it = |object: &Value| {
                object["kind"] == body["kind"]
                    && object["metadata"]["name"] == body["metadata"]["name"]
            };
            return Ok(objects.iter().map(is_it).collect());
        }
        let operations = format!("[{{\"op\": \"add\", \"path\": \"/{PROBE}\", \"value\": true}}]");
        let probe = json!({"target": self.value["target"], "patch": operations});
        let built = build(objects, &probe).map_err(|why| self.failed(why))?;
        let shown = |object: &Value| {
            let mut of = built.iter().filter(|other| is_same(object, other));
            of.any(|other| other[PROBE] == true)
        };
        Ok(objects.iter().map(shown).collect())
    }

    /// The objects with the patch.
    pub(super) fn apply(&self, objects: &[Value]) -> Result<Vec<Value>, Error> {
        build(objects, self.value).map_err(|why| self.failed(why))
    }
}

/// Whether two objects are one in two states.
pub(super) fn is_same(one: &Value, other: &Value) -> bool {
    let id = |object: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (
            text(&object["kind"]),
            text(&object["metadata"]["namespace"]),
            text(&object["metadata"]["name"]),
        )
    };
    id(one) == id(other)
}

fn build(objects: &[Value], patch: &Value) -> Result<Vec<Value>, String> {
    let file = json!({"resources": ["objects.yaml"], "patches": [patch]}).to_string();
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    let view: MemoryView = [
        ("/kustomization.yaml", file.into_bytes()),
        ("/objects.yaml", texts.join("\n---\n").into_bytes()),
    ]
    .into_iter()
    .collect();
    let options = Options {
        reorder: Reorder::None,
        ..Options::default()
    };
    let budget = Budget::new(Stop::new(), MEMORY);
    let built = everflow_kustomize::build(&view, "/", &options, Plugins::default(), &budget);
    let text = built
        .and_then(|output| output.to_yaml_within(&budget))
        .map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for document in yaml_or_json_decoder(text.as_bytes()) {
        let object = document
            .and_then(|document| document.into_object())
            .map_err(|error| error.to_string())?;
        found.extend(object);
    }
    Ok(found)
}
