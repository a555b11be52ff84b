//! Definitions as plain facts.

use std::collections::BTreeSet;

use everflow_json::Value;

/// What a definition says, one line for each value, without descriptions and without the note of
/// the generator.
pub fn facts(definition: &Value) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    collect(definition, name, "", false, &mut facts);
    facts
}

/// In `properties`, `description` is the name of a field and no text.
fn collect(value: &Value, name: &str, path: &str, fields: bool, facts: &mut BTreeSet<String>) {
    let is_leaf = |value: &Value| !value.is_array() && !value.is_object();
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let is_note = key == "controller-gen.kubebuilder.io/version";
                if is_note || (key == "description" && !fields) {
                    continue;
                }
                let joined = match path {
                    "" => key.clone(),
                    path => format!("{path}.{key}").into(),
                };
                collect(value, name, &joined, key == "properties" && !fields, facts);
            }
        }
        Value::Array(items) if !items.iter().all(is_leaf) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, name, &format!("{path}[{index}]"), false, facts);
            }
        }
        leaf => {
            facts.insert(format!("{name} {path}: {leaf}"));
        }
    }
}
