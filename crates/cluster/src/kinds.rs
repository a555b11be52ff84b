//! The rules of kinds as this server asks for them, by its own resources.

use everflow_json::Value;

pub use everflow_builtins::{
    Context, Generation, KindRules, defaults, go_group, meta, names, prepare, rules, service,
    storage_version, validation,
};

use crate::resource::Resource;
use crate::rest::Call;
use crate::status::ApiResult;
use crate::store::Stored;

/// Conversion between the served versions of kinds that have more than one.
pub mod convert {
    use everflow_builtins::convert;
    pub use everflow_builtins::convert::metadata_of;
    use everflow_json::Value;

    use crate::resource::Resource;

    /// Turns an object of the request's version into the storage version.
    pub fn to_storage(resource: &Resource, value: Value) -> Value {
        convert::to_storage(resource.collection(), value)
    }

    /// Turns a stored object into the request's version.
    pub fn from_storage(resource: &Resource, value: Value) -> Value {
        convert::from_storage(resource.collection(), value)
    }

    /// Whether the request's version is the one objects are stored in.
    pub fn is_storage(resource: &Resource) -> bool {
        resource
            .table
            .split_once('/')
            .is_some_and(|(group, _)| group == resource.group)
            && resource.storage_version == resource.version
    }
}

/// The data of ControllerRevisions as it was sent.
pub mod sent_data {
    pub use everflow_builtins::sent_data::{compact, form, hide, keep};

    use crate::resource::Resource;

    /// Whether a kind compares bytes.
    pub fn applies(resource: &Resource) -> bool {
        everflow_builtins::sent_data::applies(resource.collection())
    }
}

/// Whether an object without finalizers may leave the store; namespaces also wait for their own list.
pub fn may_disappear(resource: &Resource, object: &Value) -> bool {
    everflow_builtins::may_disappear(resource.collection(), object)
}

/// Whether the real server stores a new object without something that it fills in on every read.
pub fn fills_in_on_read(resource: &Resource, object: &Value) -> bool {
    everflow_builtins::fills_in_on_read(resource.collection(), object)
}

/// The grace period of a deletion; `None` for kinds that have none.
pub fn grace_period(resource: &Resource, object: &Value, asked: Option<i64>) -> Option<i64> {
    everflow_builtins::grace_period(resource.collection(), object, asked)
}

/// Deleting a namespace marks it; it goes when its own finalizers are gone.
pub fn namespace_delete(
    call: &Call<'_>,
    current: &std::sync::Arc<Stored>,
    finalizers: Vec<String>,
    dry_run: bool,
) -> ApiResult<Option<Value>> {
    if !(call.resource.group.is_empty() && call.resource.plural == "namespaces") {
        return Ok(None);
    }
    let waiting = current
        .value
        .pointer("/spec/finalizers")
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty());
    if !waiting && meta::finalizers(&current.value).is_empty() {
        return Ok(None);
    }
    let mut object = current.value.clone();
    meta::set(
        &mut object,
        "finalizers",
        (!finalizers.is_empty()).then(|| finalizers.into()),
    );
    if !meta::is_terminating(&object) {
        meta::set(
            &mut object,
            "deletionTimestamp",
            Some(call.server.env().now().rfc3339().into()),
        );
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("phase".into(), "Terminating".into());
    }
    if dry_run || object == current.value {
        return Ok(Some(object));
    }
    let key = call.resource.key("", meta::text(&object, "name"));
    let written = call
        .server
        .store()
        .update(&call.resource.table, &key, current.revision, object)
        .map_err(|error| {
            crate::rest::write::store_error(call, meta::text(&current.value, "name"), &error)
        })?;
    crate::controllers::after_write(call, &written.value, Some(&current.value));
    Ok(Some(written.value.clone()))
}

/// The refusal of an unknown field in a field selector.
pub fn unknown_field_selector(resource: &Resource, field: &str) -> String {
    let quoted = crate::field::go_quote(field);
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("batch", "jobs") => format!("field label {quoted} not supported for Job"),
        _ if resource.rules.selectable.is_empty() && !crate::crd::has_selectable(resource) => {
            format!(
                "{quoted} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )
        }
        _ => format!("field label not supported: {field}"),
    }
}

/// The object of a bookmark as the kind encodes it.
pub fn bookmark(resource: &Resource, object: Value) -> Value {
    crate::rest::decode::normalize(resource, &object)
}
