//! Strategic merge patch: merge patches that know from the schema which lists merge by key.
//!
//! Directives in a patch: `$patch` (replace, delete), `$retainKeys`,
//! `$deleteFromPrimitiveList/FIELD` and `$setElementOrder/FIELD`.

mod diff;
mod lists;
mod maps;
mod order;
mod three_way;
mod types;

use everflow_json::{Map, Value};
use everflow_schema::SchemaView;

pub use three_way::{create_three_way, has_conflicts};

use crate::MergeError;
use crate::depth::ensure_depth;
use types::PatchType;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";
const REPLACE: &str = "replace";
const DELETE: &str = "delete";
const MERGE: &str = "merge";

/// Applies a strategic merge patch to an object of the schema's kind.
///
/// # Errors
/// [`MergeError::Strategic`] for a patch that does not apply (the server answers 500),
/// [`MergeError::StrategicFormat`] for malformed directives (400),
/// [`MergeError::StrategicListOfLists`] (422), and [`MergeError::MergePatchNotAnObject`] for a
/// patch that is no object (400).
pub fn apply(object: &Value, patch: &Value, schema: SchemaView<'_>) -> Result<Value, MergeError> {
    ensure_depth(object)?;
    ensure_depth(patch)?;
    let Value::Object(patch) = patch else {
        return Err(MergeError::MergePatchNotAnObject {
            found: crate::go_text::json_kind(patch),
        });
    };
    let original = object.as_object().cloned().unwrap_or_default();
    let options = maps::MergeOptions {
        merge_parallel_lists: true,
        ignore_unmatched_nulls: true,
    };
    let merged = maps::merge_maps(original, patch.clone(), PatchType::root(schema), options)?;
    Ok(Value::Object(merged))
}

/// The strategic merge patch that turns `original` into `modified`; an empty object when they are
/// equal.
///
/// # Errors
/// [`MergeError::Strategic`] when a list that merges by key has items without it.
pub fn create(
    original: &Value,
    modified: &Value,
    schema: SchemaView<'_>,
) -> Result<Value, MergeError> {
    ensure_depth(original)?;
    ensure_depth(modified)?;
    let options = diff::DiffOptions {
        set_element_order: true,
        ..diff::DiffOptions::default()
    };
    let patch = diff::diff_maps(
        object_of(original),
        object_of(modified),
        PatchType::root(schema),
        options,
    )?;
    Ok(Value::Object(patch))
}

fn object_of(value: &Value) -> &Map {
    static EMPTY: std::sync::LazyLock<Map> = std::sync::LazyLock::new(Map::new);
    value.as_object().unwrap_or(&EMPTY)
}

/// A directive that is not as it has to be.
fn malformed(message: &'static str) -> MergeError {
    MergeError::StrategicFormat { message }
}

fn failure(message: impl Into<String>) -> MergeError {
    MergeError::Strategic {
        message: message.into(),
    }
}

/// `map: map[image:r] does not contain declared merge key: name`
fn no_merge_key(item: &Map, key: &str) -> MergeError {
    let item = crate::go_text::plain(&Value::Object(item.clone()));
    failure(format!(
        "map: {item} does not contain declared merge key: {key}"
    ))
}

/// `expected a map[string]interface {}, but received a string`
fn wrong_type(expected: &str, found: &Value) -> MergeError {
    let found = match found {
        Value::Null => "%!s(<nil>)",
        found => crate::go_text::type_name(found),
    };
    failure(format!("expected a {expected}, but received a {found}"))
}

const A_MAP: &str = "map[string]interface {}";
const A_LIST: &str = "[]interface {}";
