//! Merging an applied document into the live one.
//!
//! Nothing is removed here. Leaves take the applied value where there is one. Associative lists
//! take the order of the applied list, with items that only the live list has kept around them.

use std::collections::BTreeMap;

use everflow_json::{Map, Value};

use super::errors::FieldErrors;
use super::list_items::item_element;
use super::types::{ListView, MapView, Sort, TypeView};
use super::validate::scalar_error;
use crate::fieldpath::PathElement;

/// Merges `applied` into `live`.
pub(crate) fn merge(
    live: &Value,
    applied: &Value,
    view: TypeView<'_>,
) -> Result<Value, FieldErrors> {
    let mut errors = FieldErrors::default();
    let merged = merge_pair(Some(live), Some(applied), view, &mut errors);
    errors.into_result()?;
    Ok(merged.unwrap_or(Value::Null))
}

fn merge_pair(
    live: Option<&Value>,
    applied: Option<&Value>,
    view: TypeView<'_>,
    errors: &mut FieldErrors,
) -> Option<Value> {
    let atom = view.atom();
    let (live_atom, applied_atom) = (atom.narrowed(live), atom.narrowed(applied));
    if applied.is_none() {
        return merge_as(live_atom.sort(), live, applied, errors);
    }
    if live.is_some() && !live_atom.same_sorts(&applied_atom) {
        // The live value is of another sort: it is only looked at for errors.
        merge_as(live_atom.sort(), live, applied, errors);
    }
    merge_as(applied_atom.sort(), live, applied, errors)
}

/// The applied value, else the live one.
fn leaf(live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    applied.or(live).cloned()
}

fn merge_as(
    sort: Sort<'_>,
    live: Option<&Value>,
    applied: Option<&Value>,
    errors: &mut FieldErrors,
) -> Option<Value> {
    match sort {
        Sort::Scalar(scalar) => {
            let live_error = live.and_then(|value| scalar_error(scalar, value, "lhs: "));
            let applied_error = applied.and_then(|value| scalar_error(scalar, value, "rhs: "));
            if let (Some(live_error), Some(applied_error)) = (live_error, applied_error) {
                errors.add(live_error);
                errors.add(applied_error);
                return None;
            }
            leaf(live, applied)
        }
        Sort::List(list) => {
            let live_items = live
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice);
            let applied_items = applied
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice);
            let both_empty = live_items.is_empty() && applied_items.is_empty();
            if list.associative.is_none() || both_empty {
                return leaf(live, applied);
            }
            let merged = ListMerge::new(&list, live_items, applied_items, errors)?.run(errors);
            (!merged.is_empty()).then_some(Value::Array(merged))
        }
        Sort::Map(map) => {
            let live_fields = live.and_then(Value::as_object);
            let applied_fields = applied.and_then(Value::as_object);
            let both_empty =
                live_fields.is_none_or(Map::is_empty) && applied_fields.is_none_or(Map::is_empty);
            if map.atomic || both_empty {
                return leaf(live, applied);
            }
            let merged = merge_fields(&map, live_fields, applied_fields, errors);
            (!merged.is_empty()).then_some(Value::Object(merged))
        }
    }
}

fn merge_fields(
    map: &MapView<'_>,
    live: Option<&Map>,
    applied: Option<&Map>,
    errors: &mut FieldErrors,
) -> Map {
    let mut merged = Map::new();
    super::zip_maps(live, applied, |key, live, applied| {
        let value = match (map.value_type(key), applied) {
            (Some(view), Some(_)) => {
                let mut below = FieldErrors::default();
                let value = merge_pair(live, applied, view, &mut below);
                if !below.is_empty() {
                    errors.add_below(&PathElement::field(key), below);
                }
                value
            }
            (_, _) => leaf(live, applied),
        };
        if let Some(value) = value {
            merged.insert(key.into(), value);
        }
    });
    merged
}

/// The merge of two associative lists.
struct ListMerge<'l, 'v> {
    list: &'l ListView<'l>,
    live: Vec<(PathElement, &'v Value)>,
    applied: Vec<(PathElement, &'v Value)>,
    /// Live items by key; null where several share it, those are not merged into.
    live_by_key: BTreeMap<PathElement, &'v Value>,
    /// The position of each applied item.
    applied_by_key: BTreeMap<PathElement, usize>,
}

const DUPLICATED: &Value = &Value::Null;

impl<'l, 'v> ListMerge<'l, 'v> {
    fn new(
        list: &'l ListView<'l>,
        live: &'v [Value],
        applied: &'v [Value],
        errors: &mut FieldErrors,
    ) -> Option<Self> {
        let before = errors.0.len();
        let mut applied_by_key = BTreeMap::new();
        let mut applied_items = Vec::with_capacity(applied.len());
        for (index, item) in applied.iter().enumerate() {
            match item_element(list, item) {
                Err(reason) => errors.add(format!("element {index}: {reason}")),
                Ok(element) if applied_by_key.contains_key(&element) => {
                    errors.add(format!("duplicate entries for key {element}"));
                }
                Ok(element) => {
                    applied_by_key.insert(element.clone(), applied_items.len());
                    applied_items.push((element, item));
                }
            }
        }
        let mut live_by_key = BTreeMap::new();
        let mut live_items = Vec::with_capacity(live.len());
        for (index, item) in live.iter().enumerate() {
            match item_element(list, item) {
                Err(reason) => errors.add(format!("element {index}: {reason}")),
                Ok(element) => {
                    live_by_key
                        .entry(element.clone())
                        .and_modify(|known| *known = DUPLICATED)
                        .or_insert(item);
                    live_items.push((element, item));
                }
            }
        }
        (errors.0.len() == before).then_some(Self {
            list,
            live: live_items,
            applied: applied_items,
            live_by_key,
            applied_by_key,
        })
    }

    fn run(&self, errors: &mut FieldErrors) -> Vec<Value> {
        let mut merged = Vec::with_capacity(self.live.len().max(self.applied.len()));
        // The items that both lists have, in the order of the applied one.
        let mut shared = self
            .applied
            .iter()
            .map(|(element, _)| element)
            .filter(|element| self.live_by_key.contains_key(element));
        let mut next_shared = shared.next();
        let (mut l, mut a) = (0, 0);
        let mut done: usize = 0;
        while l < self.live.len() || a < self.applied.len() {
            if let (Some((live, _)), Some((applied, _))) = (self.live.get(l), self.applied.get(a)) {
                if live == applied {
                    self.take_applied(a, &mut merged, errors);
                    (l, a, done) = (l + 1, a + 1, a + 1);
                    next_shared = shared.next();
                    continue;
                }
                let waits = next_shared.is_some_and(|next| next != live);
                if waits && self.applied_by_key.contains_key(live) {
                    // Shared, but not the one whose turn it is.
                    l += 1;
                    continue;
                }
            }
            if let Some((live, item)) = self.live.get(l) {
                if !self.applied_by_key.contains_key(live) {
                    merged.push((*item).clone());
                    l += 1;
                    continue;
                }
                if self.is_done(live, done) {
                    l += 1;
                }
            }
            if a < self.applied.len() {
                self.take_applied(a, &mut merged, errors);
                if next_shared.is_some_and(|next| *next == self.applied[a].0) {
                    next_shared = shared.next();
                }
                (a, done) = (a + 1, a + 1);
            }
        }
        merged
    }

    /// Whether the applied item with this key is among the first `done` ones. Applied items are
    /// taken in order, so these are all that are merged already.
    fn is_done(&self, element: &PathElement, done: usize) -> bool {
        self.applied_by_key
            .get(element)
            .is_some_and(|position| *position < done)
    }

    fn take_applied(&self, position: usize, merged: &mut Vec<Value>, errors: &mut FieldErrors) {
        let (element, item) = &self.applied[position];
        let live = self.live_by_key.get(element).copied();
        let mut below = FieldErrors::default();
        merged.extend(merge_pair(live, Some(item), self.list.item, &mut below));
        errors.add_below(element, below);
    }
}
