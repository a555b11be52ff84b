//! Merging of lists.

use everflow_json::{Map, Value};

use super::maps::{MergeOptions, merge_maps};
use super::order::{Identity, interleave, partition};
use super::types::PatchType;
use super::{DELETE, DIRECTIVE, MERGE, REPLACE, failure, no_merge_key};
use crate::MergeError;
use crate::go_text;

/// Whether the items of the lists are maps; they all have to be of one type, and no lists.
pub(super) fn items_are_maps(lists: [&[Value]; 2]) -> Result<bool, MergeError> {
    let mut items = lists.into_iter().flatten();
    let Some(first) = items.next() else {
        return Err(failure("no elements in any of the given slices"));
    };
    if first.is_array() {
        return Err(MergeError::StrategicListOfLists);
    }
    if first.is_null() || items.any(|item| go_text::type_name(item) != go_text::type_name(first)) {
        let lists: Vec<Value> = lists
            .iter()
            .map(|list| Value::Array(list.to_vec()))
            .collect();
        let lists = go_text::plain(&Value::Array(lists));
        return Err(failure(format!(
            "list element types are not identical: {lists}"
        )));
    }
    Ok(first.is_object())
}

/// Merges a list of a patch into the original one; `is_deletion` for a list of what to delete.
pub(super) fn merge_lists(
    original: Vec<Value>,
    patch: Vec<Value>,
    item: PatchType<'_>,
    merge_key: &str,
    options: MergeOptions,
    is_deletion: bool,
) -> Result<Vec<Value>, MergeError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let of_maps = items_are_maps([&original, &patch])?;
    let (merged, original, patch) = if of_maps {
        if merge_key.is_empty() {
            let kind = item.go_kind();
            return Err(failure(format!(
                "cannot merge lists without merge key for {kind}"
            )));
        }
        let (original, patch) = apply_directives(original, patch, merge_key)?;
        let merged = merge_items(original.clone(), patch.clone(), item, merge_key, options)?;
        (merged, original, patch)
    } else {
        if options.merge_parallel_lists && is_deletion {
            let gone = Identity {
                merge_key: "",
                of_maps: false,
            }
            .positions(&patch);
            return Ok(original
                .into_iter()
                .filter(|item| gone.of(item).is_none())
                .collect());
        }
        let mut merged = original.clone();
        merged.extend(patch.iter().cloned());
        (deduplicated(merged), original, patch)
    };
    let by_key = Identity {
        merge_key,
        of_maps: !merge_key.is_empty(),
    };
    let (patched, untouched) = partition(merged, &patch, by_key)?;
    interleave(
        patched,
        untouched,
        &patch,
        &original,
        Identity { merge_key, of_maps },
    )
}

/// Carries out `$patch` directives of items: what is left of the original, and of the patch.
fn apply_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), MergeError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        let empty = Map::new();
        let map = item.as_object().unwrap_or(&empty);
        let Some(directive) = map.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some(DELETE) => {
                let wanted = map
                    .get(merge_key)
                    .ok_or_else(|| no_merge_key(map, merge_key))?;
                original.retain(|item| item.get(merge_key) != Some(wanted));
            }
            Some(REPLACE) => replace = true,
            Some(MERGE) => {
                return Err(failure(
                    "merging lists cannot yet be specified in the patch",
                ));
            }
            _ => return Err(unknown_directive(directive, map)),
        }
    }
    if replace {
        Ok((plain, Vec::new()))
    } else {
        Ok((original, plain))
    }
}

/// `unknown patch type: foo in map: map[$patch:foo name:x]`
pub(super) fn unknown_directive(directive: &Value, map: &Map) -> MergeError {
    let directive = match directive {
        Value::String(text) => text.clone(),
        Value::Null => "%!s(<nil>)".into(),
        other => format!(
            "%!s({}={})",
            go_text::type_name(other),
            go_text::plain(other)
        )
        .into(),
    };
    let map = go_text::plain(&Value::Object(map.clone()));
    failure(format!("unknown patch type: {directive} in map: {map}"))
}

/// The list that the real code takes for the live order after it merged into it in place: deleted
/// items are closed up from the right, and new items fill the places that became free.
pub(super) fn live_order_after_merge(
    live: &[Value],
    patch: &[Value],
    merge_key: &str,
) -> Vec<Value> {
    let directive_of = |item: &Value| {
        item.get(DIRECTIVE)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let mut order: Vec<&Value> = live.iter().collect();
    let mut used = order.len();
    for item in patch
        .iter()
        .filter(|item| directive_of(item).as_deref() == Some(DELETE))
    {
        let Some(wanted) = item.get(merge_key) else {
            continue;
        };
        let gone = |item: &&Value| item.get(merge_key) == Some(wanted);
        while let Some(position) = order[..used].iter().position(gone) {
            order.copy_within(position + 1..used, position);
            used -= 1;
        }
    }
    let replaces = patch
        .iter()
        .any(|item| directive_of(item).as_deref() == Some(REPLACE));
    for item in patch
        .iter()
        .filter(|item| !replaces && directive_of(item).is_none())
    {
        if used == order.len() {
            break;
        }
        let key = item.get(merge_key);
        if !order[..used]
            .iter()
            .any(|known| known.get(merge_key) == key)
        {
            order[used] = item;
            used += 1;
        }
    }
    order.into_iter().cloned().collect()
}

/// Merges items by key; new ones go to the end.
fn merge_items(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    item_type: PatchType<'_>,
    merge_key: &str,
    options: MergeOptions,
) -> Result<Vec<Value>, MergeError> {
    let mut positions = Identity {
        merge_key,
        of_maps: true,
    }
    .positions(&original);
    for item in patch {
        let Value::Object(change) = item else {
            continue;
        };
        if !change.contains_key(merge_key) {
            return Err(no_merge_key(&change, merge_key));
        }
        let item = Value::Object(change);
        let position = positions.of(&item).filter(|position| {
            original
                .get(*position)
                .is_some_and(|o| o.get(merge_key).is_some())
        });
        match (position, item) {
            (Some(position), Value::Object(change)) => {
                let current = match original[position].take() {
                    Value::Object(current) => current,
                    _ => Map::new(),
                };
                original[position] =
                    Value::Object(merge_maps(current, change, item_type, options)?);
            }
            (_, item) => {
                positions.note(&item, original.len());
                original.push(item);
            }
        }
    }
    Ok(original)
}

/// The scalars without repetitions. A repeated one gives its place to the last of the list.
pub(super) fn deduplicated(mut items: Vec<Value>) -> Vec<Value> {
    let mut i = 0;
    while i < items.len() {
        let mut j = i + 1;
        while j < items.len() {
            if items[i] == items[j] {
                items.swap_remove(j);
            } else {
                j += 1;
            }
        }
        i += 1;
    }
    items
}
