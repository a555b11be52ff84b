//! The patch of a client-side apply, from three documents.

use std::collections::BTreeMap;

use everflow_json::{Map, Value};
use everflow_schema::SchemaView;

use super::diff::{DiffOptions, diff_maps};
use super::lists::{deduplicated, items_are_maps};
use super::maps::{MergeOptions, merge_maps};
use super::types::{FieldRule, PatchType, Strategy};
use super::{DIRECTIVE, RETAIN_KEYS, failure, object_of};
use crate::MergeError;
use crate::depth::ensure_depth;
use crate::go_text;

/// The patch from `current` to `modified` that leaves alone what only `current` has, and removes
/// what `original` (the document applied last) had and `modified` has no more.
///
/// # Errors
/// [`MergeError::Strategic`] when a list that merges by key has items without it.
pub fn create_three_way(
    original: &Value,
    modified: &Value,
    current: &Value,
    schema: SchemaView<'_>,
) -> Result<Value, MergeError> {
    for document in [original, modified, current] {
        ensure_depth(document)?;
    }
    let object = PatchType::root(schema);
    let options = DiffOptions {
        set_element_order: true,
        ..DiffOptions::default()
    };
    let changes = DiffOptions {
        ignore_deletions: true,
        ..options
    };
    let deletions = DiffOptions {
        ignore_changes: true,
        ..options
    };
    let changes = diff_maps(object_of(current), object_of(modified), object, changes)?;
    let deletions = diff_maps(object_of(original), object_of(modified), object, deletions)?;
    let keep_all = MergeOptions {
        merge_parallel_lists: false,
        ignore_unmatched_nulls: false,
    };
    Ok(Value::Object(merge_maps(
        deletions, changes, object, keep_all,
    )?))
}

/// Whether two patches for one kind change the same thing in different ways.
///
/// # Errors
/// [`MergeError::Strategic`] for lists that cannot be compared.
pub fn has_conflicts(
    left: &Value,
    right: &Value,
    schema: SchemaView<'_>,
) -> Result<bool, MergeError> {
    ensure_depth(left)?;
    ensure_depth(right)?;
    values_conflict(
        left,
        right,
        Some(PatchType::root(schema)),
        FieldRule::default(),
    )
}

fn values_conflict(
    left: &Value,
    right: &Value,
    object: Option<PatchType<'_>>,
    rule: FieldRule<'_>,
) -> Result<bool, MergeError> {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            if left.get(DIRECTIVE) != right.get(DIRECTIVE) {
                return Ok(true);
            }
            if rule.strategy == Strategy::Replace {
                return Ok(false);
            }
            maps_conflict(left, right, object)
        }
        (Value::Array(left), Value::Array(right)) => lists_conflict(left, right, object, rule),
        (left, right) => Ok(left != right),
    }
}

fn maps_conflict(
    left: &Map,
    right: &Map,
    object: Option<PatchType<'_>>,
) -> Result<bool, MergeError> {
    for (key, left) in left
        .iter()
        .filter(|(key, _)| *key != DIRECTIVE && *key != RETAIN_KEYS)
    {
        let Some(right) = right.get(key) else {
            continue;
        };
        let (inner, rule) = match (left, object) {
            (Value::Array(_), Some(object)) => {
                let (item, rule) = object.list_field(key)?;
                (Some(item), rule)
            }
            (Value::Object(_), Some(object)) => {
                let (inner, rule) = object.object_field(key)?;
                (Some(inner), rule)
            }
            _ => (None, FieldRule::default()),
        };
        if values_conflict(left, right, inner, rule)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn lists_conflict(
    left: &[Value],
    right: &[Value],
    item: Option<PatchType<'_>>,
    rule: FieldRule<'_>,
) -> Result<bool, MergeError> {
    let of_maps = items_are_maps([left, right])?;
    if rule.strategy == Strategy::Merge {
        if !of_maps {
            return Ok(false);
        }
        let (left, right) = (
            by_key(left, rule.merge_key)?,
            by_key(right, rule.merge_key)?,
        );
        for (key, left) in left {
            if let Some(right) = right.get(&key)
                && values_conflict(left, right, item, FieldRule::default())?
            {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    if left.len() != right.len() {
        return Ok(true);
    }
    let ordered = |items: &[Value]| {
        let mut items = items.to_vec();
        if !of_maps {
            items = deduplicated(items);
            items.sort_by_key(go_text::plain);
        }
        items
    };
    let (left, right) = (ordered(left), ordered(right));
    if left.len() != right.len() {
        return Ok(true);
    }
    for (left, right) in left.iter().zip(&right) {
        if values_conflict(left, right, item, FieldRule::default())? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn by_key<'v>(items: &'v [Value], key: &str) -> Result<BTreeMap<String, &'v Value>, MergeError> {
    let mut found = BTreeMap::new();
    for item in items {
        let Some(value) = item.get(key) else {
            return Err(failure(format!(
                "cannot find merge key `{key}` in merging list element:{}",
                go_text::plain(item)
            )));
        };
        found.insert(go_text::plain(value), item);
    }
    Ok(found)
}
