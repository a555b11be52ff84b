//! Conversion between the served versions of kinds that have more than one.

use serde_json::Value;

use crate::resource::Resource;

/// Turns an object of the request's version into the storage version.
pub fn to_storage(resource: &Resource, value: Value) -> Value {
    let _ = resource;
    value
}

/// Turns a stored object into the request's version.
pub fn from_storage(resource: &Resource, value: Value) -> Value {
    let _ = resource;
    value
}

/// Whether the request's version is the one objects are stored in.
pub fn is_storage(resource: &Resource) -> bool {
    resource
        .table
        .split_once('/')
        .is_some_and(|(group, _)| group == resource.group)
        && resource.storage_version == resource.version
}
