//! Merging of objects.

use everflow_json::{Map, Text, Value};

use super::lists::{items_are_maps, live_order_after_merge, merge_lists, unknown_directive};
use super::order::{Identity, as_map, interleave, partition, split_deletions};
use super::types::{FieldRule, PatchType, Strategy};
use super::{
    A_LIST, DELETE, DELETE_FROM_LIST, DIRECTIVE, REPLACE, RETAIN_KEYS, SET_ORDER, failure,
    malformed, no_merge_key, wrong_type,
};
use crate::MergeError;
use crate::go_text;

/// How a patch is merged.
#[derive(Debug, Clone, Copy)]
pub(super) struct MergeOptions {
    /// Carry out the directives of lists; otherwise keep them, to merge a patch into a patch.
    pub(super) merge_parallel_lists: bool,
    /// Drop nulls for what is not there; otherwise keep them.
    pub(super) ignore_unmatched_nulls: bool,
}

/// Merges a patch into an object.
pub(super) fn merge_maps(
    mut original: Map,
    mut patch: Map,
    object: PatchType<'_>,
    options: MergeOptions,
) -> Result<Map, MergeError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some(REPLACE) => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some(DELETE) => Ok(Map::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch, options)?;
    set_orders(&mut original, &mut patch, object, options)?;
    for (key, change) in patch {
        let (key, is_deletion) = match key.strip_prefix(DELETE_FROM_LIST) {
            Some(_) if !options.merge_parallel_lists => {
                original.insert(key, change);
                continue;
            }
            Some(rest) => match rest.strip_prefix('/') {
                Some(field) => (Text::from(field), true),
                None => return Err(malformed("invalid patch format of primitive list")),
            },
            None => (key, false),
        };
        merge_field(&mut original, key, change, is_deletion, object, options)?;
    }
    Ok(original)
}

fn merge_field(
    original: &mut Map,
    key: Text,
    change: Value,
    is_deletion: bool,
    object: PatchType<'_>,
    options: MergeOptions,
) -> Result<(), MergeError> {
    if change.is_null() {
        original.remove(&key);
        if options.ignore_unmatched_nulls {
            return Ok(());
        }
    }
    let current = match original.get_mut(&key) {
        Some(current) if go_text::type_name(current) == go_text::type_name(&change) => {
            current.take()
        }
        _ => {
            if !is_deletion {
                take(original, key, change, options);
            }
            return Ok(());
        }
    };
    match (current, change) {
        (Value::Object(current), Value::Object(change)) => {
            let (inner, rule) = object.object_field(&key)?;
            let merged = match rule.strategy {
                Strategy::Replace => change,
                _ => merge_maps(current, change, inner, options)?,
            };
            original.insert(key, Value::Object(merged));
        }
        (Value::Array(current), Value::Array(change)) => {
            let (item, rule) = object.list_field(&key)?;
            let merged = merge_list_field(current, change, item, rule, is_deletion, options)?;
            original.insert(key, Value::Array(merged));
        }
        (_, change) => {
            original.insert(key, change);
        }
    }
    Ok(())
}

fn merge_list_field(
    current: Vec<Value>,
    change: Vec<Value>,
    item: PatchType<'_>,
    rule: FieldRule<'_>,
    is_deletion: bool,
    options: MergeOptions,
) -> Result<Vec<Value>, MergeError> {
    if rule.strategy == Strategy::Merge || is_deletion {
        merge_lists(current, change, item, rule.merge_key, options, is_deletion)
    } else {
        Ok(change)
    }
}

/// Takes the patch's value where there is nothing to merge with.
fn take(original: &mut Map, key: Text, mut change: Value, options: MergeOptions) {
    if options.ignore_unmatched_nulls {
        drop_nulls(&mut change);
    }
    match without_directives(change) {
        Some(value) => original.insert(key, value),
        None => original.remove(&key),
    };
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, item| !item.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The value without the parts that are directives; none when it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(
            map.into_iter()
                .filter_map(|(key, item)| without_directives(item).map(|item| (key, item)))
                .collect(),
        )),
        Value::Array(items) => Some(Value::Array(
            items.into_iter().filter_map(without_directives).collect(),
        )),
        other => Some(other),
    }
}

/// Carries out `$retainKeys`: clears all fields that it does not list.
fn retain_keys(
    original: &mut Map,
    patch: &mut Map,
    options: MergeOptions,
) -> Result<(), MergeError> {
    let Some(listed) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    if !options.merge_parallel_lists {
        match original.get(RETAIN_KEYS) {
            Some(known) if *known != listed => {
                return Err(failure(format!(
                    "{} and {} are not deep equal: this may happen when calculating the 3-way diff patch",
                    go_text::plain(known),
                    go_text::plain(&listed)
                )));
            }
            Some(_) => {}
            None => {
                original.insert(RETAIN_KEYS.into(), listed);
            }
        }
        return Ok(());
    }
    let invalid = || malformed("invalid patch format of retainKeys");
    let Value::Array(listed) = listed else {
        return Err(invalid());
    };
    let is_listed = |key: &str| listed.iter().any(|item| item.as_str() == Some(key));
    for (key, change) in patch.iter() {
        let is_directive = key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ORDER);
        if !change.is_null() && !is_directive && !is_listed(key) {
            return Err(invalid());
        }
    }
    original.retain(|key, _| is_listed(key));
    Ok(())
}

/// Carries out `$setElementOrder` directives together with the lists they are for.
fn set_orders(
    original: &mut Map,
    patch: &mut Map,
    object: PatchType<'_>,
    options: MergeOptions,
) -> Result<(), MergeError> {
    let keys: Vec<Text> = patch
        .keys()
        .filter(|key| key.starts_with(SET_ORDER))
        .cloned()
        .collect();
    for key in keys {
        let Some(order) = patch.remove(&key) else {
            continue;
        };
        if !options.merge_parallel_lists {
            match original.get(&key) {
                Some(known) if *known != order => {
                    return Err(malformed("invalid patch format of setElementOrder list"));
                }
                Some(_) => {}
                None => {
                    original.insert(key.clone(), order.clone());
                }
            }
        }
        let Value::Array(order) = order else {
            return Err(wrong_type(A_LIST, &order));
        };
        let Some(field) = key
            .strip_prefix(SET_ORDER)
            .and_then(|rest| rest.strip_prefix('/'))
        else {
            return Err(malformed("invalid patch format of setElementOrder list"));
        };
        set_order(original, patch, field, &order, object, options)?;
    }
    Ok(())
}

fn list_at(map: &Map, field: &str) -> Result<Option<Vec<Value>>, MergeError> {
    match map.get(field) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.clone())),
        Some(other) => Err(wrong_type(A_LIST, other)),
    }
}

fn set_order(
    original: &mut Map,
    patch: &mut Map,
    field: &str,
    order: &[Value],
    object: PatchType<'_>,
    options: MergeOptions,
) -> Result<(), MergeError> {
    let current = list_at(original, field)?;
    let change = list_at(patch, field)?;
    let (item, rule) = object.list_field(field)?;
    check_order(change.as_deref().unwrap_or_default(), order, rule.merge_key)?;
    let mut live = current.clone().unwrap_or_default();
    let listed = change.clone().unwrap_or_default();
    let merged = match (current, change) {
        (None, None) => return Ok(()),
        (Some(current), None) => current,
        (None, Some(change)) => change.into_iter().filter_map(without_directives).collect(),
        (Some(current), Some(change)) => {
            if rule.strategy == Strategy::Merge && !rule.merge_key.is_empty() {
                live = live_order_after_merge(&live, &listed, rule.merge_key);
            }
            merge_list_field(current, change, item, rule, false, options)?
        }
    };
    let by_key = Identity {
        merge_key: rule.merge_key,
        of_maps: !rule.merge_key.is_empty(),
    };
    let (patched, untouched) = partition(merged, order, by_key)?;
    let of_maps = items_are_maps([&live, &listed])?;
    let identity = Identity {
        merge_key: rule.merge_key,
        of_maps,
    };
    let all = interleave(patched, untouched, order, &live, identity)?;
    original.insert(field.into(), Value::Array(all));
    patch.remove(field);
    Ok(())
}

/// Checks that the items of the patch are in the order list, and in its order.
fn check_order(change: &[Value], order: &[Value], merge_key: &str) -> Result<(), MergeError> {
    if change.is_empty() || order.is_empty() {
        return Ok(());
    }
    let kept = if merge_key.is_empty() {
        change.to_vec()
    } else {
        split_deletions(change.to_vec())?.0
    };
    let (mut at, mut ordered) = (0, 0);
    while let (Some(item), Some(wanted)) = (kept.get(at), order.get(ordered)) {
        if item.get(DIRECTIVE).is_some() {
            at += 1;
            continue;
        }
        if same_key(item, wanted, merge_key)? {
            at += 1;
        }
        ordered += 1;
    }
    if at < kept.len() && ordered >= order.len() {
        let list = |items: &[Value]| go_text::plain(&Value::Array(items.to_vec()));
        return Err(failure(format!(
            "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
            list(change),
            list(order)
        )));
    }
    Ok(())
}

/// Whether two items have the same merge key, or are the same where there is none.
pub(super) fn same_key(left: &Value, right: &Value, merge_key: &str) -> Result<bool, MergeError> {
    if merge_key.is_empty() {
        return Ok(left == right);
    }
    let (left, right) = (as_map(left)?, as_map(right)?);
    let key_of = |map: &Map| {
        map.get(merge_key)
            .cloned()
            .ok_or_else(|| no_merge_key(map, merge_key))
    };
    Ok(key_of(left)? == key_of(right)?)
}
