//! From built objects to those that are applied.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use everflow_api::kustomization::Kustomization;
use everflow_api::object::Object;
use everflow_json::{Map, Value, json};

const OWNER_NAME: &str = "kustomize.toolkit.fluxcd.io/name";
const OWNER_NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";
const DECRYPT: &str = "kustomize.toolkit.fluxcd.io/decrypt";

/// Takes lists apart and drops configuration of kustomize.
pub fn expand(objects: Vec<Value>) -> Vec<Value> {
    let mut expanded = Vec::with_capacity(objects.len());
    for mut object in objects {
        if let Some(Value::Array(items)) = object.get_mut("items") {
            expanded.append(items);
        } else if !is_kustomize_config(&object) {
            expanded.push(object);
        }
    }
    expanded
}

fn is_kustomize_config(object: &Value) -> bool {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    text("kind").eq_ignore_ascii_case("kustomization")
        && text("apiVersion").starts_with("kustomize.config.k8s.io/")
}

/// What [`add_metadata`] adds to each object.
pub fn bytes(kustomization: &Object<Kustomization>) -> usize {
    /// What an entry of a map takes beside long texts.
    const ENTRY: usize = 128;
    let common = kustomization.spec.common_metadata.iter();
    let pairs = common.flat_map(|common| common.labels.iter().chain(&common.annotations));
    let each = |(key, value): (&String, &String)| ENTRY + key.len() + value.len();
    2 * ENTRY + pairs.map(each).sum::<usize>()
}

/// Marks an object as owned, and adds what the Kustomization adds to all objects: the latter wins.
pub fn add_metadata(object: &mut Value, kustomization: &Object<Kustomization>) {
    let meta = &kustomization.metadata;
    let namespace = meta.namespace().to_owned();
    set(object, "labels", OWNER_NAME, &meta.name);
    set(object, "labels", OWNER_NAMESPACE, &namespace);
    let Some(common) = &kustomization.spec.common_metadata else {
        return;
    };
    for (key, value) in &common.labels {
        set(object, "labels", key, value);
    }
    for (key, value) in &common.annotations {
        set(object, "annotations", key, value);
    }
}

fn set(object: &mut Value, field: &str, key: &str, value: &str) {
    let Value::Object(object) = object else {
        return;
    };
    let meta = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if !meta.is_object() {
        return;
    }
    // Flux reads the map as one of texts: a null is an empty text, and anything else empties the map.
    let texts = meta[field].as_object().filter(|map| {
        let mut values = map.values();
        values.all(|value| value.is_string() || value.is_null())
    });
    let mut texts = texts.cloned().unwrap_or_default();
    for value in texts.values_mut().filter(|value| value.is_null()) {
        *value = json!("");
    }
    meta[field] = Value::Object(texts);
    meta[field][key] = json!(value);
}

/// Whether an object asks to be left encrypted.
pub fn stays_encrypted(object: &Value) -> bool {
    object["metadata"]["annotations"][DECRYPT]
        .as_str()
        .is_some_and(|value| value.eq_ignore_ascii_case("disabled"))
}

/// Whether an object is a Secret with the mark of SOPS.
pub fn is_encrypted_secret(object: &Value) -> bool {
    object["kind"] == "Secret" && object["apiVersion"] == "v1" && object.get("sops").is_some()
}

/// The bytes of a value in a Secret.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// A value for a Secret.
pub fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_string_labels_are_dropped() {
        let mut object = json!({ "metadata": { "labels": { "a": true, "b": "c" } } });
        set(&mut object, "labels", "own", "1");
        assert_eq!(object["metadata"]["labels"], json!({ "own": "1" }));
        let mut object = json!({ "metadata": { "labels": { "a": null, "b": "c" } } });
        set(&mut object, "labels", "own", "1");
        let expected = json!({ "a": "", "b": "c", "own": "1" });
        assert_eq!(object["metadata"]["labels"], expected);
    }
}
