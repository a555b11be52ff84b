//! The annotation of client-side apply, which the manager `kubectl` takes over and keeps.

use everflow_json::{Map, Value, json};

/// The annotation in which `kubectl apply` keeps what it applied last.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The only manager that takes over from client-side apply.
pub(super) const KUBECTL: &str = "kubectl";

/// All annotations together may not be larger.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The annotation's text, when it is there and not empty.
pub(super) fn last_applied(object: &Value) -> Option<&str> {
    object
        .get("metadata")?
        .get("annotations")?
        .get(LAST_APPLIED)?
        .as_str()
        .filter(|text| !text.is_empty())
}

/// Records the applied document in the annotation of the object.
pub(super) fn record(object: &mut Value, applied: &Value) {
    let text = text_of(applied);
    let Some(annotations) = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"))
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    annotations.insert(LAST_APPLIED.into(), json!(text));
    let size: usize = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MAX_ANNOTATIONS {
        annotations.remove(LAST_APPLIED);
    }
}

/// The document without the annotation as one line of JSON, HTML characters escaped.
fn text_of(applied: &Value) -> String {
    let mut applied = applied.clone();
    if let Some(annotations) = applied
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"))
    {
        match annotations {
            Value::Object(map) => {
                map.remove(LAST_APPLIED);
            }
            other => *other = Value::Object(Map::new()),
        }
    }
    let mut text = applied
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    text.push('\n');
    text
}
