//! Comparing results with recorded answers.

use everflow_json::{Map, Value};

/// Sets or removes `metadata.managedFields`.
pub fn set_entries(object: &mut Value, entries: Option<Value>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    match entries {
        Some(entries) => metadata.insert("managedFields".into(), entries),
        None => metadata.remove("managedFields"),
    };
}

/// Takes out of a created object what the server added after ownership was recorded.
pub fn without_allocated(object: &mut Value, request: &Value) {
    if object["kind"] == "Service" {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if request.pointer(&format!("/spec/{field}")).is_none()
                && let Some(spec) = object["spec"].as_object_mut()
            {
                spec.remove(field);
            }
        }
    }
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for field in ["uid", "creationTimestamp", "resourceVersion", "generation"] {
        metadata.remove(field);
    }
    if request.pointer("/metadata/generateName").is_some() {
        metadata.remove("name");
    }
}

/// Compares ownership; the difference as text.
pub fn same_owners(
    live: &Value,
    found: &Value,
    wanted: &Value,
    now: &str,
    strict_time: bool,
) -> Option<String> {
    let known_times: Vec<&Value> = entries(live).iter().map(|entry| &entry["time"]).collect();
    let normal = |entry: &Value, is_found: bool| {
        let mut entry = entry.clone();
        let time = entry["time"].clone();
        let text = match &time {
            Value::Null => "none",
            // A time that the live object does not have is the time of this write.
            _ if strict_time
                && ((is_found && time == now) || (!is_found && !known_times.contains(&&time))) =>
            {
                "now"
            }
            Value::String(text) if strict_time => text,
            _ => "some",
        };
        entry["time"] = Value::from(text);
        entry.to_string()
    };
    let mut ours: Vec<String> = entries(found)
        .iter()
        .map(|entry| normal(entry, true))
        .collect();
    let mut theirs: Vec<String> = entries(wanted)
        .iter()
        .map(|entry| normal(entry, false))
        .collect();
    ours.sort();
    theirs.sort();
    if ours == theirs {
        return None;
    }
    let only = |left: &[String], right: &[String]| -> String {
        left.iter()
            .filter(|entry| !right.contains(entry))
            .map(|entry| format!("\n      {entry}"))
            .collect()
    };
    Some(format!(
        "owners\n    found{}\n    wanted{}",
        only(&ours, &theirs),
        only(&theirs, &ours)
    ))
}

fn entries(object: &Value) -> &[Value] {
    object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The result as the server would keep it: with what the resource resets as it was before.
pub fn with_reset(subresource: &str, live: Option<&Value>, found: &Value, wanted: &Value) -> Value {
    let mut found = found.clone();
    let before = |key: &str| live.and_then(|live| live.get(key)).cloned();
    if let Some(fields) = found.as_object_mut() {
        let reset: &[&str] = match subresource {
            "" => &["status"],
            _ => &["spec", "data"],
        };
        for key in reset {
            match before(key).or_else(|| wanted.get(*key).cloned()) {
                Some(value) => fields.insert((*key).into(), value),
                None => fields.remove(key),
            };
        }
    }
    found
}

/// Compares what is not ownership; the difference as text. The answer may have more: the server's
/// defaults.
pub fn same_content(found: &Value, wanted: &Value, is_builtin: bool) -> Option<String> {
    let found = essence(found, is_builtin).unwrap_or_default();
    let wanted = essence(wanted, is_builtin).unwrap_or_default();
    difference("", &found, &wanted)
}

/// The live object with the owners of the result, where nothing else changed.
pub fn with_new_owners(live: &Value, found: Value, is_builtin: bool) -> Value {
    if essence(live, is_builtin) != essence(&found, is_builtin) {
        return found;
    }
    let mut same = live.clone();
    set_entries(&mut same, found.pointer("/metadata/managedFields").cloned());
    same
}

/// The value without nulls, empty containers and what the server sets in metadata.
fn essence(value: &Value, is_builtin: bool) -> Option<Value> {
    match value {
        Value::Null => None,
        // Built-in kinds leave zero values out.
        Value::Bool(false) if is_builtin => None,
        Value::String(text) if is_builtin && text.is_empty() => None,
        Value::Number(number) if is_builtin && number.as_f64() == Some(0.0) => None,
        Value::Object(map) => {
            let fields: Map = map
                .iter()
                .filter_map(|(key, value)| {
                    let value = match (key.as_str(), value) {
                        ("metadata", Value::Object(metadata)) => {
                            let mut metadata = metadata.clone();
                            for field in [
                                "managedFields",
                                "resourceVersion",
                                "generation",
                                "uid",
                                "creationTimestamp",
                                "selfLink",
                            ] {
                                metadata.remove(field);
                            }
                            essence(&Value::Object(metadata), is_builtin)
                        }
                        _ => essence(value, is_builtin),
                    };
                    value.map(|value| (key.clone(), value))
                })
                .collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => Some(Value::Array(
            items
                .iter()
                .map(|item| essence(item, is_builtin).unwrap_or_default())
                .collect(),
        )),
        other => Some(other.clone()),
    }
}

/// The first place where `wanted` does not hold what `found` has.
fn difference(path: &str, found: &Value, wanted: &Value) -> Option<String> {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => found.iter().find_map(|(key, value)| {
            difference(
                &format!("{path}.{key}"),
                value,
                wanted.get(key).unwrap_or(&Value::Null),
            )
        }),
        (Value::Array(found), Value::Array(wanted)) if found.len() == wanted.len() => found
            .iter()
            .zip(wanted)
            .enumerate()
            .find_map(|(index, (found, wanted))| {
                difference(&format!("{path}[{index}]"), found, wanted)
            }),
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => None,
        (found, wanted) if found == wanted => None,
        (found, wanted) => Some(format!(
            "content {path}\n    found  {found}\n    wanted {wanted}"
        )),
    }
}
