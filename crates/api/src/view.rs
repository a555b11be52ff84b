//! Looks into objects that are kept as JSON, without reading the whole of them.

use everflow_json::Value;

use crate::names::{annotation, condition};

fn text<'v>(value: &'v Value, path: &[&str]) -> Option<&'v str> {
    let found = path.iter().try_fold(value, |value, name| value.get(name));
    found
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// The namespace of an object, empty when it has none.
pub fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"]).unwrap_or_default()
}

/// The name of an object.
pub fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"]).unwrap_or_default()
}

/// `KIND/NAMESPACE/NAME`, as messages name objects; parts that are missing are left out.
pub fn name_of(object: &Value) -> String {
    name_as(text(object, &["kind"]).unwrap_or("object"), object)
}

/// As [`name_of`] for an object whose kind is known.
pub fn name_as(kind: &str, object: &Value) -> String {
    joined(kind, namespace(object), name(object))
}

/// `KIND/NAMESPACE/NAME` without the parts that are empty.
pub fn joined(kind: &str, namespace: &str, name: &str) -> String {
    let parts = [kind, namespace, name];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

/// How often the spec of an object has changed.
pub fn generation(object: &Value) -> i64 {
    object
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// The generation that the status tells of; `-1` before the first attempt.
pub fn observed_generation(object: &Value) -> i64 {
    object
        .pointer("/status/observedGeneration")
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// The value of an annotation.
pub fn annotation<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    text(object, &["metadata", "annotations", name])
}

/// The value of a label.
pub fn label<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    text(object, &["metadata", "labels", name])
}

/// The value of the annotation that asks for an attempt at once.
pub fn requested_at(object: &Value) -> Option<&str> {
    annotation(object, annotation::REQUESTED_AT)
}

/// The last such value that was heeded.
pub fn last_handled_reconcile_at(object: &Value) -> Option<&str> {
    text(object, &["status", "lastHandledReconcileAt"])
}

/// Whether an object is suspended.
pub fn is_suspended(object: &Value) -> bool {
    object.pointer("/spec/suspend") == Some(&Value::Bool(true))
}

/// Whether the deletion of an object was asked for.
pub fn is_deleted(object: &Value) -> bool {
    text(object, &["metadata", "deletionTimestamp"]).is_some()
}

/// Whether an object has a finalizer.
pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    let finalizers = object.pointer("/metadata/finalizers");
    let mut finalizers = finalizers.and_then(Value::as_array).into_iter().flatten();
    finalizers.any(|present| present.as_str() == Some(finalizer))
}

/// A condition of an object.
pub fn condition<'v>(object: &'v Value, condition_type: &str) -> Option<&'v Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let is_type = |condition: &&Value| text(condition, &["type"]) == Some(condition_type);
    conditions.iter().find(is_type)
}

/// Whether a condition of an object is `True`.
pub fn is_true(object: &Value, condition_type: &str) -> bool {
    condition(object, condition_type).and_then(|condition| text(condition, &["status"]))
        == Some("True")
}

/// Why an object is not ready, in its own words; none when it says nothing of the kind.
pub fn complaint(object: &Value) -> Option<&str> {
    let ready = condition(object, condition::READY)?;
    let is_false = text(ready, &["status"]) == Some("False");
    text(ready, &["message"]).filter(|words| is_false && !words.is_empty())
}

/// Whether an object is ready and its status tells of its newest spec.
pub fn is_current(object: &Value) -> bool {
    is_true(object, condition::READY) && observed_generation(object) == generation(object)
}

/// The revision of the artifact of a source.
pub fn artifact_revision(object: &Value) -> Option<&str> {
    text(object, &["status", "artifact", "revision"])
}

/// The digest of the artifact of a source.
pub fn artifact_digest(object: &Value) -> Option<&str> {
    text(object, &["status", "artifact", "digest"])
}
