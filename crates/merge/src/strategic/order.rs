//! The order of list items after a patch.

use std::collections::BTreeMap;

use everflow_json::{Map, Value};

use super::{A_MAP, DELETE, DIRECTIVE, no_merge_key, wrong_type};
use crate::MergeError;

/// What identifies the items of a list: a field of theirs, or (empty key) themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity<'k> {
    pub(super) merge_key: &'k str,
    pub(super) of_maps: bool,
}

impl<'k> Identity<'k> {
    /// The identity of an item as text.
    fn text(self, item: &Value) -> String {
        if !self.of_maps {
            return item.to_string();
        }
        item.get(self.merge_key)
            .map_or_else(|| "null".to_owned(), Value::to_string)
    }

    /// The first position of each identity.
    pub(super) fn positions(self, items: &[Value]) -> Positions<'k> {
        let mut found = BTreeMap::new();
        for (position, item) in items.iter().enumerate() {
            found.entry(self.text(item)).or_insert(position);
        }
        Positions {
            identity: self,
            found,
        }
    }
}

/// Where the items of a list are.
#[derive(Debug)]
pub(super) struct Positions<'k> {
    identity: Identity<'k>,
    found: BTreeMap<String, usize>,
}

impl Positions<'_> {
    /// The first position of an item with the same identity.
    pub(super) fn of(&self, item: &Value) -> Option<usize> {
        self.found.get(&self.identity.text(item)).copied()
    }

    /// Notes an item that was put at `position`.
    pub(super) fn note(&mut self, item: &Value, position: usize) {
        self.found
            .entry(self.identity.text(item))
            .or_insert(position);
    }
}

/// Checks that all items are maps with the merge key.
fn check_merge_key(key: &str, lists: [&[Value]; 2]) -> Result<(), MergeError> {
    for item in lists.into_iter().flatten() {
        let map = as_map(item)?;
        if !map.contains_key(key) {
            return Err(no_merge_key(map, key));
        }
    }
    Ok(())
}

/// The item as a map.
pub(super) fn as_map(item: &Value) -> Result<&Map, MergeError> {
    item.as_object().ok_or_else(|| wrong_type(A_MAP, item))
}

/// Splits off the items that ask for deletion.
pub(super) fn split_deletions(items: Vec<Value>) -> Result<(Vec<Value>, Vec<Value>), MergeError> {
    for item in &items {
        as_map(item)?;
    }
    Ok(items
        .into_iter()
        .partition(|item| item.get(DIRECTIVE).and_then(Value::as_str) != Some(DELETE)))
}

/// Sorts items by the order of another list; deletions go last.
pub(super) fn sort_by(
    items: Vec<Value>,
    order: &[Value],
    identity: Identity<'_>,
) -> Result<Vec<Value>, MergeError> {
    let (items, deletions) = if identity.of_maps {
        check_merge_key(identity.merge_key, [&items, order])?;
        split_deletions(items)?
    } else {
        (items, Vec::new())
    };
    let positions = identity.positions(order);
    let mut keyed: Vec<(Option<usize>, Value)> = items
        .into_iter()
        .map(|item| (positions.of(&item), item))
        .collect();
    keyed.sort_by_key(|(position, _)| *position);
    Ok(keyed
        .into_iter()
        .map(|(_, item)| item)
        .chain(deletions)
        .collect())
}

/// Brings patched and untouched items into one order: each side keeps its own, and an untouched
/// item goes before a patched one only where the live list had it before.
pub(super) fn interleave(
    patched: Vec<Value>,
    untouched: Vec<Value>,
    patch_order: &[Value],
    live_order: &[Value],
    identity: Identity<'_>,
) -> Result<Vec<Value>, MergeError> {
    let patched = sort_by(patched, patch_order, identity)?;
    let untouched = sort_by(untouched, live_order, identity)?;
    let live = identity.positions(live_order);
    let mut all = Vec::with_capacity(patched.len() + untouched.len());
    let mut untouched = untouched.into_iter().peekable();
    for item in patched {
        let here = live.of(&item);
        while let Some(left) = untouched.peek() {
            match (live.of(left), here) {
                (Some(left), Some(here)) if left < here => all.extend(untouched.next()),
                _ => break,
            }
        }
        all.push(item);
    }
    all.extend(untouched);
    Ok(all)
}

/// Splits items into those that `by` has and the others.
pub(super) fn partition(
    items: Vec<Value>,
    by: &[Value],
    identity: Identity<'_>,
) -> Result<(Vec<Value>, Vec<Value>), MergeError> {
    if identity.of_maps {
        for item in &items {
            let map = as_map(item)?;
            if !map.contains_key(identity.merge_key) {
                return Err(no_merge_key(map, identity.merge_key));
            }
        }
    }
    let positions = identity.positions(by);
    Ok(items
        .into_iter()
        .partition(|item| positions.of(item).is_some()))
}
