//! The rules for metadata that hold for every kind.

use everflow_json::{Map, Value};

use super::names;
use crate::field::{Errors, FieldError, Path, go_quote};

/// The most bytes all annotations of an object may have together.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The metadata of an object.
pub fn metadata(object: &Value) -> Option<&Map> {
    object.get("metadata").and_then(Value::as_object)
}

/// The metadata of an object, made if it is missing.
pub fn metadata_mut(object: &mut Value) -> &mut Map {
    let map = static_object(object);
    if !map.contains_key("metadata") {
        map.insert("metadata".into(), Value::Null);
    }
    match map.get_mut("metadata") {
        Some(metadata) => static_object(metadata),
        None => unreachable!("put there above"),
    }
}

fn static_object(value: &mut Value) -> &mut Map {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// A text field of the metadata, empty when missing.
pub fn text<'o>(object: &'o Value, key: &str) -> &'o str {
    metadata(object)
        .and_then(|map| map.get(key))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Sets or removes a metadata field.
pub fn set(object: &mut Value, key: &str, value: Option<Value>) {
    let map = metadata_mut(object);
    match (value, map.get_mut(key)) {
        (Some(value), Some(slot)) => *slot = value,
        (Some(value), None) => drop(map.insert(key.into(), value)),
        (None, Some(_)) => drop(map.remove(key)),
        (None, None) => {}
    }
}

/// The finalizers of an object.
pub fn finalizers(object: &Value) -> Vec<&str> {
    metadata(object)
        .and_then(|map| map.get("finalizers"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Whether the object is being deleted.
pub fn is_terminating(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// The generation of an object, zero when it has none.
pub fn generation(object: &Value) -> i64 {
    metadata(object)
        .and_then(|map| map.get("generation"))
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// Checks labels.
pub fn check_labels(labels: Option<&Value>, path: &Path, errors: &mut Errors) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        for problem in names::qualified_name(key) {
            errors.push(FieldError::invalid(path, key.as_str(), problem));
        }
        let text = value.as_str().unwrap_or_default();
        for problem in names::label_value(text) {
            errors.push(FieldError::invalid(path, text, problem));
        }
    }
}

/// Checks annotations.
pub fn check_annotations(annotations: Option<&Value>, path: &Path, errors: &mut Errors) {
    let mut total = 0;
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        for problem in names::qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid(path, key.as_str(), problem));
        }
        total += key.len() + value.as_str().map_or(0, str::len);
    }
    if total > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long(path, ANNOTATIONS_LIMIT as i64));
    }
}

fn check_owners(owners: Option<&Value>, path: &Path, errors: &mut Errors) {
    let Some(list) = owners.and_then(Value::as_array) else {
        return;
    };
    let mut controller = String::new();
    for owner in list {
        let field = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        let given = field("apiVersion");
        let (group, version) = if given.matches('/').count() > 1 {
            ("", "")
        } else {
            everflow_schema::split_api_version(given)
        };
        if version.is_empty() {
            errors.push(FieldError::invalid(
                &path.child("apiVersion"),
                field("apiVersion"),
                "version must not be empty",
            ));
        }
        for (name, value) in [
            ("kind", field("kind")),
            ("name", field("name")),
            ("uid", field("uid")),
        ] {
            if value.is_empty() {
                errors.push(FieldError::invalid(
                    &path.child(name),
                    value,
                    "must not be empty",
                ));
            }
        }
        if (group, version, field("kind")) == ("", "v1", "Event") {
            errors.push(FieldError::invalid_shown(
                path,
                owner_text(owner),
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let current = format!("{}/{}", field("kind"), field("name"));
            if controller.is_empty() {
                controller = current;
            } else {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {controller} and {current}"
                );
                errors.push(FieldError::invalid_shown(
                    path,
                    format!(
                        "[{}]",
                        list.iter().map(owner_text).collect::<Vec<_>>().join(",")
                    ),
                    detail,
                ));
            }
        }
    }
}

/// An owner reference with its fields in Go's order.
fn owner_text(owner: &Value) -> String {
    let types = everflow_schema::gotypes::types();
    types
        .struct_named("v1.OwnerReference")
        .map_or_else(|| owner.to_string(), |ty| types.ordered_text(&ty, owner))
}

/// Warnings about finalizers that could belong to anybody.
pub fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let before = old.map(finalizers).unwrap_or_default();
    let odd = finalizers(new).into_iter().filter(|name| {
        !before.contains(name)
            && !name.contains('/')
            && !matches!(*name, "kubernetes" | "orphan" | "foregroundDeletion")
    });
    odd.map(|name| format!("metadata.finalizers: {}: prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers", go_quote(name))).collect()
}

/// A finalizer of a built-in kind says whose it is.
fn check_finalizer_word(name: &str, path: &Path, errors: &mut Errors) {
    if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
        errors.push(FieldError::invalid(
            path,
            name,
            "name is neither a standard finalizer name nor is it fully qualified",
        ));
    }
}

fn check_finalizers(object: &Value, path: &Path, errors: &mut Errors) {
    let list = finalizers(object);
    for name in &list {
        for problem in names::qualified_name(name) {
            errors.push(FieldError::invalid(path, *name, problem));
        }
    }
    if list.contains(&"orphan") && list.contains(&"foregroundDeletion") {
        let all: Vec<Value> = list.iter().map(|name| Value::from(*name)).collect();
        errors.push(FieldError::invalid(
            path,
            Value::Array(all),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}

fn check_managed_fields(object: &Value, path: &Path, errors: &mut Errors) {
    let entries = metadata(object)
        .and_then(|map| map.get("managedFields"))
        .and_then(Value::as_array);
    for (index, entry) in entries.into_iter().flatten().enumerate() {
        let here = || path.child("managedFields").index(index);
        let field = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        if !matches!(field("operation"), "Apply" | "Update") {
            errors.push(FieldError::invalid(
                &here().child("operation"),
                field("operation"),
                "must be `Apply` or `Update`",
            ));
        }
        if !matches!(field("fieldsType"), "" | "FieldsV1") {
            errors.push(FieldError::invalid(
                &here().child("fieldsType"),
                field("fieldsType"),
                "must be `FieldsV1`",
            ));
        }
        if !is_plain_name(field("manager")) {
            check_manager(field("manager"), &here().child("manager"), errors);
        }
        if field("subresource").len() > 256 {
            errors.push(FieldError::too_long(&here().child("subresource"), 256));
        }
    }
}

/// Whether a name of a field manager surely breaks no rule.
fn is_plain_name(manager: &str) -> bool {
    manager.len() <= 128 && manager.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

/// Checks the name of a field manager.
pub fn check_manager(manager: &str, path: &Path, errors: &mut Errors) {
    if manager.len() > 128 {
        errors.push(FieldError::too_long(path, 128));
    }
    for (at, c) in manager.char_indices() {
        if c.is_control() || (c.is_whitespace() && c != ' ') || c == '\u{ad}' {
            let shown = if c.is_control() {
                format!("U+{:04X}", c as u32)
            } else {
                format!("U+{:04X} '{c}'", c as u32)
            };
            errors.push(FieldError::invalid(
                path,
                manager,
                format!("invalid character {shown} (at position {at})"),
            ));
        }
    }
}

/// Checks the metadata of a new object.
pub fn validate(
    object: &Value,
    namespaced: bool,
    builtin: bool,
    name_rule: fn(&str) -> Vec<String>,
    errors: &mut Errors,
) {
    let path = Path::new("metadata");
    let prefix = text(object, "generateName");
    if !prefix.is_empty() {
        for problem in names::as_prefix(name_rule, prefix) {
            errors.push(FieldError::invalid(
                &path.child("generateName"),
                prefix,
                problem,
            ));
        }
    }
    let name = text(object, "name");
    if name.is_empty() {
        errors.push(FieldError::required(
            &path.child("name"),
            "name or generateName is required",
        ));
    } else {
        for problem in name_rule(name) {
            errors.push(FieldError::invalid(&path.child("name"), name, problem));
        }
    }
    let namespace = text(object, "namespace");
    if namespaced {
        if namespace.is_empty() {
            errors.push(FieldError::required(&path.child("namespace"), ""));
        }
        for problem in if namespace.is_empty() {
            Vec::new()
        } else {
            names::dns_label(namespace)
        } {
            errors.push(FieldError::invalid(
                &path.child("namespace"),
                namespace,
                problem,
            ));
        }
    } else if !namespace.is_empty() {
        errors.push(FieldError::forbidden(
            &path.child("namespace"),
            "not allowed on this type",
        ));
    }
    if generation(object) < 0 {
        errors.push(FieldError::invalid(
            &path.child("generation"),
            generation(object),
            "must be greater than or equal to 0",
        ));
    }
    let map = metadata(object);
    let get = |key: &str| map.and_then(|map| map.get(key));
    check_maps_and_owners(object, &path, errors);
    if get("finalizers").is_some() {
        check_finalizers(object, &path.child("finalizers"), errors);
    }
    check_managed_fields(object, &path, errors);
    check_finalizer_words(object, &path, builtin, errors);
}

/// Labels, annotations and owners, which are checked in this order. Paths are made only for what is there.
fn check_maps_and_owners(object: &Value, path: &Path, errors: &mut Errors) {
    let get = |key: &str| metadata(object).and_then(|map| map.get(key));
    if let labels @ Some(_) = get("labels") {
        check_labels(labels, &path.child("labels"), errors);
    }
    if let annotations @ Some(_) = get("annotations") {
        check_annotations(annotations, &path.child("annotations"), errors);
    }
    if let owners @ Some(_) = get("ownerReferences") {
        check_owners(owners, &path.child("ownerReferences"), errors);
    }
}

/// Checks the words of finalizers, which built-in kinds do.
pub fn validate_finalizer_words(object: &Value, builtin: bool, errors: &mut Errors) {
    check_finalizer_words(object, &Path::new("metadata"), builtin, errors);
}

fn check_finalizer_words(object: &Value, path: &Path, builtin: bool, errors: &mut Errors) {
    for (index, name) in finalizers(object).iter().enumerate().filter(|_| builtin) {
        check_finalizer_word(name, &path.child("finalizers").index(index), errors);
    }
}

/// Checks the metadata of a changed object. `builtin` kinds also check the words of finalizers.
pub fn validate_update(new: &Value, old: &Value, builtin: bool, errors: &mut Errors) {
    let path = Path::new("metadata");
    validate_changes(new, old, errors);
    check_maps_and_owners(new, &path, errors);
    check_managed_fields(new, &path, errors);
    check_finalizer_words(new, &path, builtin, errors);
}

/// Checks what an update of metadata must not change.
pub fn validate_changes(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("metadata");
    if is_terminating(old) {
        let before = finalizers(old);
        let mut extra: Vec<&str> = finalizers(new)
            .into_iter()
            .filter(|name| !before.contains(name))
            .collect();
        extra.sort_unstable();
        extra.dedup();
        if !extra.is_empty() {
            let shown: Vec<String> = extra.iter().map(|name| go_quote(name)).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                shown.join(", ")
            );
            errors.push(FieldError::forbidden(&path.child("finalizers"), detail));
        }
    }
    if text(new, "resourceVersion").is_empty() {
        errors.push(FieldError::invalid(
            &path.child("resourceVersion"),
            "",
            "must be specified for an update",
        ));
    }
    if generation(new) < generation(old) {
        errors.push(FieldError::invalid(
            &path.child("generation"),
            generation(new),
            "must not be decremented",
        ));
    }
    let (new_metadata, old_metadata) = (metadata(new), metadata(old));
    for key in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let (after, before) = (
            new_metadata.and_then(|map| map.get(key)),
            old_metadata.and_then(|map| map.get(key)),
        );
        if after != before {
            let missing = if matches!(key, "name" | "namespace" | "uid") {
                Value::from("")
            } else {
                Value::Null
            };
            errors.push(FieldError::invalid(
                &path.child(key),
                after.cloned().unwrap_or(missing),
                "field is immutable",
            ));
        }
    }
}
