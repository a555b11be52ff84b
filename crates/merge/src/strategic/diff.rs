//! Making of strategic merge patches.

use everflow_json::{Map, Value, json};

use super::lists::{deduplicated, items_are_maps};
use super::maps::same_key;
use super::order::{Identity, as_map, sort_by};
use super::types::{FieldRule, PatchType, Strategy};
use super::{DELETE, DELETE_FROM_LIST, DIRECTIVE, RETAIN_KEYS, SET_ORDER, failure, no_merge_key};
use crate::MergeError;
use crate::go_text;

/// What a patch is to hold.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DiffOptions {
    /// Write `$setElementOrder` lists.
    pub(super) set_element_order: bool,
    /// Leave changes and additions out.
    pub(super) ignore_changes: bool,
    /// Leave deletions out.
    pub(super) ignore_deletions: bool,
    /// Write `$retainKeys` for this object.
    pub(super) retain_keys: bool,
}

/// The patch from one object to another.
pub(super) fn diff_maps(
    original: &Map,
    modified: &Map,
    object: PatchType<'_>,
    options: DiffOptions,
) -> Result<Map, MergeError> {
    let mut patch = Map::new();
    for (key, new) in modified {
        match original.get(key) {
            None => put(&mut patch, key, new, options),
            Some(old) if key == DIRECTIVE => {
                let (Some(old), Some(new)) = (old.as_str(), new.as_str()) else {
                    return Err(failure(format!(
                        "invalid value for special key: {DIRECTIVE}"
                    )));
                };
                if old != new {
                    patch.insert(key.clone(), json!(new));
                }
            }
            Some(old) => diff_field(&mut patch, key, old, new, object, options)?,
        }
    }
    if !options.ignore_deletions {
        for key in original.keys().filter(|key| !modified.contains_key(key)) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    if options.retain_keys {
        let kept: Vec<Value> = modified
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, _)| json!(key))
            .collect();
        let loses = original
            .iter()
            .any(|(key, value)| !value.is_null() && !modified.contains_key(key));
        if !kept.is_empty() && (!patch.is_empty() || loses) {
            patch.insert(RETAIN_KEYS.into(), Value::Array(kept));
        }
    }
    Ok(patch)
}

fn put(patch: &mut Map, key: &str, new: &Value, options: DiffOptions) {
    if !options.ignore_changes {
        patch.insert(key.into(), new.clone());
    }
}

fn diff_field(
    patch: &mut Map,
    key: &str,
    old: &Value,
    new: &Value,
    object: PatchType<'_>,
    options: DiffOptions,
) -> Result<(), MergeError> {
    match (old, new) {
        (Value::Object(old_map), Value::Object(new_map)) => {
            let (inner, rule) = match object.object_field(key) {
                Ok(found) => found,
                Err(_) if old == new => return Ok(()),
                Err(error) => return Err(error),
            };
            if rule.strategy == Strategy::Replace {
                put(patch, key, new, options);
                return Ok(());
            }
            let options = DiffOptions {
                retain_keys: rule.retain_keys,
                ..options
            };
            let change = diff_maps(old_map, new_map, inner, options)?;
            if !change.is_empty() {
                patch.insert(key.into(), Value::Object(change));
            }
            Ok(())
        }
        (Value::Array(old_list), Value::Array(new_list)) => {
            let (item, rule) = match object.list_field(key) {
                Ok(found) => found,
                Err(_) if old == new => return Ok(()),
                Err(error) => return Err(error),
            };
            if rule.strategy == Strategy::Merge {
                let options = DiffOptions {
                    retain_keys: rule.retain_keys,
                    ..options
                };
                return diff_lists(patch, key, (old_list, new_list), item, rule, options);
            }
            if old != new {
                put(patch, key, new, options);
            }
            Ok(())
        }
        (old, new) => {
            if old != new {
                put(patch, key, new, options);
            }
            Ok(())
        }
    }
}

fn diff_lists(
    patch: &mut Map,
    key: &str,
    (old, new): (&[Value], &[Value]),
    item: PatchType<'_>,
    rule: FieldRule<'_>,
    options: DiffOptions,
) -> Result<(), MergeError> {
    if old.is_empty() {
        if !new.is_empty() && !options.ignore_changes {
            patch.insert(key.into(), Value::Array(new.to_vec()));
        }
        return Ok(());
    }
    let found = if items_are_maps([old, new])? {
        diff_items(old, new, item, rule.merge_key, options)?
    } else {
        diff_scalars(old, new, options)?
    };
    let mut insert = |key: String, list: Vec<Value>| {
        if !list.is_empty() {
            patch.insert(key.into(), Value::Array(list));
        }
    };
    insert(key.to_owned(), found.changes);
    insert(format!("{DELETE_FROM_LIST}/{key}"), found.deletions);
    insert(format!("{SET_ORDER}/{key}"), found.order);
    Ok(())
}

/// The parts of a patch for one list.
struct ListDiff {
    changes: Vec<Value>,
    deletions: Vec<Value>,
    order: Vec<Value>,
}

fn diff_scalars(
    old: &[Value],
    new: &[Value],
    options: DiffOptions,
) -> Result<ListDiff, MergeError> {
    let sorted = |items: &[Value]| {
        let mut items: Vec<(String, Value)> = items
            .iter()
            .map(|item| (go_text::plain(item), item.clone()))
            .collect();
        items.sort_by(|a, b| a.0.cmp(&b.0));
        items
    };
    let (old_sorted, new_sorted) = (sorted(old), sorted(new));
    let (mut changes, mut deletions) = (Vec::new(), Vec::new());
    let (mut o, mut n) = (0, 0);
    loop {
        let order = match (old_sorted.get(o), new_sorted.get(n)) {
            (None, None) => break,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(a), Some(b)) => a.0.cmp(&b.0),
        };
        if order.is_lt() && !options.ignore_deletions {
            deletions.push(old_sorted[o].1.clone());
        }
        if order.is_gt() && !options.ignore_changes {
            changes.push(new_sorted[n].1.clone());
        }
        o += usize::from(order.is_le());
        n += usize::from(order.is_ge());
    }
    let deletions = deduplicated(deletions);
    let changes = sort_by(
        changes,
        new,
        Identity {
            merge_key: "",
            of_maps: false,
        },
    )?;
    // The real code compares with the old list after sorting it in place.
    let is_same = old_sorted.iter().map(|(_, item)| item).eq(new);
    let wants_order = (!options.ignore_deletions && !deletions.is_empty())
        || (!options.ignore_changes && !is_same);
    let order = if options.set_element_order && wants_order {
        new.to_vec()
    } else {
        Vec::new()
    };
    Ok(ListDiff {
        changes,
        deletions,
        order,
    })
}

fn diff_items(
    old: &[Value],
    new: &[Value],
    item: PatchType<'_>,
    merge_key: &str,
    options: DiffOptions,
) -> Result<ListDiff, MergeError> {
    let (old_sorted, new_sorted) = (sorted_items(old, merge_key)?, sorted_items(new, merge_key)?);
    let (mut changes, mut deletions) = (Vec::new(), Vec::new());
    let (mut o, mut n) = (0, 0);
    loop {
        let order = match (old_sorted.get(o), new_sorted.get(n)) {
            (None, None) => break,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(a), Some(b)) => a.key.cmp(&b.key),
        };
        match order {
            std::cmp::Ordering::Equal => {
                let (old, new) = (&old_sorted[o], &new_sorted[n]);
                let mut change = diff_maps(old.map, new.map, item, options)?;
                if !change.is_empty() {
                    change.insert(merge_key.into(), new.key_value.clone());
                    changes.push(Value::Object(change));
                }
            }
            std::cmp::Ordering::Greater if !options.ignore_changes => {
                changes.push(Value::Object(new_sorted[n].map.clone()));
            }
            std::cmp::Ordering::Less if !options.ignore_deletions => {
                let mut deletion = Map::new();
                deletion.insert(merge_key.into(), old_sorted[o].key_value.clone());
                deletion.insert(DIRECTIVE.into(), json!(DELETE));
                deletions.push(Value::Object(deletion));
            }
            _ => {}
        }
        o += usize::from(order.is_le());
        n += usize::from(order.is_ge());
    }
    let identity = Identity {
        merge_key,
        of_maps: true,
    };
    let mut changes = sort_by(changes, new, identity)?;
    let same_order = same_order(old, new, merge_key)?;
    changes.extend(deletions);
    let wants_order = (!options.ignore_changes && (!changes.is_empty() || !same_order))
        || (!options.ignore_deletions && !changes.is_empty());
    let order = if options.set_element_order && wants_order {
        new.iter()
            .map(|item| json!({merge_key: item.get(merge_key).cloned().unwrap_or_default()}))
            .collect()
    } else {
        Vec::new()
    };
    Ok(ListDiff {
        changes,
        deletions: Vec::new(),
        order,
    })
}

struct SortedItem<'v> {
    key: String,
    key_value: Value,
    map: &'v Map,
}

fn sorted_items<'v>(
    items: &'v [Value],
    merge_key: &str,
) -> Result<Vec<SortedItem<'v>>, MergeError> {
    let mut sorted = Vec::with_capacity(items.len());
    for item in items {
        let map = as_map(item)?;
        let key_value = map
            .get(merge_key)
            .ok_or_else(|| no_merge_key(map, merge_key))?
            .clone();
        sorted.push(SortedItem {
            key: go_text::plain(&key_value),
            key_value,
            map,
        });
    }
    sorted.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(sorted)
}

fn same_order(old: &[Value], new: &[Value], merge_key: &str) -> Result<bool, MergeError> {
    if old.len() != new.len() {
        return Ok(false);
    }
    for (old, new) in old.iter().zip(new) {
        if !same_key(old, new, merge_key)? {
            return Ok(false);
        }
    }
    Ok(true)
}
