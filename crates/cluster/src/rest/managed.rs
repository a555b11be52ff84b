//! Who owns which field: the seam to the structured merge.

use everflow_json::{Map, Value, json};
use everflow_merge::apply::{FieldManager, ResetFields, Versions, Writer};
use everflow_schema::SchemaView;

use super::Call;
use crate::codec::gotypes::types;
use crate::kinds::{convert, meta};
use crate::resource::{Resource, split_version};
use crate::status::{ApiError, ApiResult};

/// The versions of a resource's kind as the structured merge needs them.
struct KindVersions<'r> {
    call: &'r Call<'r>,
    /// The version of the request and its schema, which nearly all questions are about.
    own: (&'r str, Option<SchemaView<'r>>),
}

fn schema_of<'r>(resource: &'r Resource, api_version: &str) -> Option<SchemaView<'r>> {
    let (group, version) = split_version(api_version);
    match &resource.custom {
        Some(custom) => (group == resource.group)
            .then(|| custom.schema_of(version))
            .flatten(),
        // What was managed through another group is not known to this one.
        None => (group == resource.group)
            .then(|| everflow_schema::builtin().schema(group, version, &resource.kind))
            .flatten(),
    }
}

impl Versions for KindVersions<'_> {
    fn schema(&self, api_version: &str) -> Option<SchemaView<'_>> {
        if api_version == self.own.0 {
            return self.own.1;
        }
        schema_of(&self.call.resource, api_version)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let (group, version) = split_version(api_version);
        let from = object
            .get("apiVersion")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if from == api_version {
            return Ok(object.clone());
        }
        let resource = &self.call.resource;
        if resource.is_custom() {
            let mut converted = object.clone();
            converted["apiVersion"] = api_version.into();
            return Ok(converted);
        }
        let source = self
            .call
            .registry
            .find_kind(from, &resource.kind)
            .cloned()
            .ok_or_else(|| format!("no kind {} in {from}", resource.kind))?;
        let target = self
            .call
            .registry
            .find(group, version, &resource.plural)
            .cloned()
            .ok_or_else(|| format!("no kind {} in {api_version}", resource.kind))?;
        Ok(convert::from_storage(
            &target,
            convert::to_storage(&source, object.clone()),
        ))
    }
}

/// An object of the kind with nothing set.
pub fn zero(resource: &Resource) -> Value {
    let mut value = match &resource.go_type {
        Some(ty) => types().zero(ty),
        None => Value::Object(Map::new()),
    };
    value["apiVersion"] = resource.api_version().into();
    value["kind"] = resource.kind.as_str().into();
    value
}

fn with_manager<T>(
    call: &Call<'_>,
    subresource: &str,
    live: Option<&Value>,
    work: impl FnOnce(&FieldManager<'_>, &Value, &str) -> T,
) -> T {
    let resource = &call.resource;
    let reset = match &resource.custom {
        Some(custom) => ResetFields::of_custom_resource(custom.status, subresource),
        None => ResetFields::of_builtin(&resource.group, &resource.plural, subresource),
    };
    // An object whose fields are managed is never compared with an empty one.
    let is_managed = live.is_some_and(|live| {
        let metadata = live.get("metadata");
        metadata
            .and_then(|metadata| metadata.get("managedFields"))
            .and_then(Value::as_array)
            .is_some_and(|entries| !entries.is_empty())
    });
    let zero = match is_managed {
        true => Value::Null,
        false => zero(resource),
    };
    let api_version = resource.api_version();
    let versions = KindVersions {
        call,
        own: (api_version, schema_of(resource, api_version)),
    };
    let manager = FieldManager {
        versions: &versions,
        api_version,
        kind: &resource.kind,
        subresource,
        reset: &reset,
        zero: &zero,
    };
    let now = call.server.env().now().rfc3339();
    work(&manager, live.unwrap_or(&zero), &now)
}

/// Records what an update changed under the name of its manager. `live` is in the request's version.
pub fn track_update(
    call: &Call<'_>,
    live: Option<&Value>,
    object: &mut Value,
    manager: &str,
    subresource: &str,
) -> ApiResult<()> {
    let new = std::mem::take(object);
    *object = with_manager(call, subresource, live, |fields, live, now| {
        fields.update_or_forget(live, new, Writer { manager, now })
    });
    Ok(())
}

/// Merges an applied document into the live object, which is in the request's version.
pub fn apply(
    call: &Call<'_>,
    live: Option<&Value>,
    applied: &Value,
    manager: &str,
    force: bool,
) -> ApiResult<Value> {
    let subresource = &call.target.subresource;
    with_manager(call, subresource, live, |fields, live, now| {
        fields.apply(live, applied, Writer { manager, now }, force)
    })
    .map_err(merge_error)
}

/// The failure of a merge as the server answers it.
pub fn merge_error(error: everflow_merge::MergeError) -> Box<ApiError> {
    match error {
        everflow_merge::MergeError::BadRequest { message } => ApiError::bad_request(message),
        everflow_merge::MergeError::Conflict(conflicts) => {
            let causes: Vec<Value> = conflicts.causes().into_iter().map(|cause| json!({"reason": everflow_merge::apply::Conflicts::CAUSE_REASON, "message": cause.message, "field": cause.field})).collect();
            ApiError::new(409, "Conflict", conflicts.to_string())
                .with_details(json!({"causes": causes}))
        }
        other => ApiError::internal_plain(other.to_string()),
    }
}

/// A write that would change nothing but the times of managed fields changes nothing.
pub fn ignore_time_only_changes(new: &mut Value, old: &Value) {
    let taken = std::mem::take(new);
    *new = everflow_merge::apply::without_time_only_changes(old, taken);
    let _ = meta::metadata(new);
}
