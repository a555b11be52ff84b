//! What is written on objects so that they can be given back.

use everflow_json::{Map, Value, json};

/// On a controller of Flux: how many replicas it had.
pub const REPLICAS: &str = "adopt.everflow.dev/replicas";
/// On what was there before: how it was.
pub const BEFORE: &str = "adopt.everflow.dev/before";
/// Which annotations were set beside these, separated by commas.
pub const SET: &str = "adopt.everflow.dev/set";
/// The label of all objects that an adoption has applied.
pub const ENGINE: &str = "adopt.everflow.dev/engine";

/// What keeps others from setting an object right again: a Kustomization, a HelmRelease.
const HANDS_OFF: [&str; 2] = [
    "kustomize.toolkit.fluxcd.io/reconcile",
    "helm.toolkit.fluxcd.io/driftDetection",
];

/// Annotations that keep others off an object, and the note of which of them are new.
pub fn hands_off(live: &Value) -> Map {
    let annotations = &live["metadata"]["annotations"];
    let mut set = Map::new();
    let mut new = Vec::new();
    for name in HANDS_OFF {
        if annotations[name].is_null() {
            set.insert(name.into(), json!("disabled"));
            new.push(name);
        }
    }
    match annotations[SET].as_str() {
        // Set by a run before this one.
        Some(before) => set.insert(SET.into(), json!(before)),
        None => set.insert(SET.into(), json!(new.join(","))),
    };
    set
}

/// A merge patch of annotations that takes the notes off again.
pub fn without_notes(live: &Value) -> Map {
    let annotations = &live["metadata"]["annotations"];
    let mut gone = Map::new();
    let set = annotations[SET].as_str().unwrap_or_default();
    for name in set.split(',').filter(|name| !name.is_empty()) {
        gone.insert(name.into(), Value::Null);
    }
    for name in [REPLICAS, BEFORE, SET] {
        if !annotations[name].is_null() {
            gone.insert(name.into(), Value::Null);
        }
    }
    gone
}

/// How an object is now, without what the API server fills in.
pub fn before(live: &Value) -> Value {
    let mut kept = Map::new();
    for (field, value) in live.as_object().into_iter().flatten() {
        if !matches!(&**field, "apiVersion" | "kind" | "metadata" | "status") {
            kept.insert(field.clone(), value.clone());
        }
    }
    let labels = live["metadata"]["labels"].clone();
    json!({"fields": kept, "labels": labels})
}

/// The object as it was before, without notes; `None` when nothing is noted.
pub fn restored(live: &Value) -> Option<Value> {
    let text = live["metadata"]["annotations"][BEFORE].as_str()?;
    let before: Value = everflow_json::from_str(text).ok()?;
    let mut object = live.clone();
    let gone = without_notes(live);
    let fields = object.as_object_mut()?;
    for (field, value) in before["fields"].as_object()? {
        fields.insert(field.clone(), value.clone());
    }
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    match &before["labels"] {
        Value::Null => metadata.remove("labels"),
        labels => metadata.insert("labels".into(), labels.clone()),
    };
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        for (name, _) in &gone {
            annotations.remove(name);
        }
    }
    Some(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noted_object_is_restored_as_it_was() {
        let old = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "s", "labels": {"a": "b"},
                "annotations": {"x": "y", "kustomize.toolkit.fluxcd.io/reconcile": "disabled"}},
            "spec": {"selector": {"app": "source-controller"}}});
        let mut live = old.clone();
        let annotations = live["metadata"]["annotations"].as_object_mut().unwrap();
        for (name, value) in &hands_off(&old) {
            annotations.insert(name.clone(), value.clone());
        }
        annotations.insert(BEFORE.into(), json!(before(&old).to_string()));
        live["spec"]["selector"] = json!({"app": "everflow"});
        live["metadata"]["labels"] = json!({"a": "b", ENGINE: "true"});
        // A second run notes nothing anew.
        assert_eq!(
            hands_off(&live)[SET],
            "helm.toolkit.fluxcd.io/driftDetection"
        );
        assert_eq!(restored(&live).unwrap(), old);
        assert!(restored(&old).is_none());
    }
}
