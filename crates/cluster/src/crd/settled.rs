//! Whether an object is already what reading it would make of it: to look costs much less than to try.

use everflow_json::Value;
use everflow_schema::structural::is_settled;

use super::{CustomKind, DROPPED_WHEN_EMPTY, is_empty_part};
use crate::codec::gotypes::types;
use crate::kinds::meta;
use crate::resource::{Resource, split_version};

/// Whether [`decode`](crate::rest::decode::decode_tree) of an object is known to give the object itself and to find
/// nothing. False means unknown: decode it.
pub fn is_surely_decoded(resource: &Resource, object: &Value) -> bool {
    let text = |field: &str| {
        object
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (Some(custom), Some(metadata)) = (&resource.custom, object.get("metadata")) else {
        return false;
    };
    let metadata_type = types().struct_named("v1.ObjectMeta");
    split_version(text("apiVersion")) == (resource.group.as_str(), resource.version.as_str())
        && text("kind") == resource.kind
        && metadata_type.is_some_and(|ty| types().is_surely_encoded(&ty, metadata))
        && custom.view().is_none_or(|view| is_settled(object, view))
        && all_numbers_are_whole(object)
}

fn all_numbers_are_whole(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_i64(),
        Value::Array(items) => items.iter().all(all_numbers_are_whole),
        Value::Object(map) => map.values().all(all_numbers_are_whole),
        _ => true,
    }
}

/// Whether [`on_read`](super::on_read) is known to change nothing. False means unknown: read it in full.
pub(super) fn is_surely_read_as_it_is(
    resource: &Resource,
    custom: &CustomKind,
    object: &Value,
) -> bool {
    let api_version = object.get("apiVersion").and_then(Value::as_str);
    let (group, version) = split_version(api_version.unwrap_or_default());
    let is_empty = |key: &str| {
        let value = meta::metadata(object).and_then(|metadata| metadata.get(key));
        value.is_some_and(is_empty_part)
    };
    group == resource.group
        && version == resource.version
        && !DROPPED_WHEN_EMPTY.into_iter().any(is_empty)
        && custom
            .view_of(version)
            .is_none_or(|view| is_settled(object, view))
}
