//! What changed between two documents of one type.

use std::collections::BTreeMap;

use everflow_json::{Map, Value};

use super::errors::FieldErrors;
use super::list_items::item_element;
use super::types::{ListView, MapView, Scalar, Sort, TypeView};
use super::validate::scalar_error;
use crate::fieldpath::{FieldSet, FieldSetBuilder, PathElement, values_equal};

/// The fields that differ between two documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that only the old document has.
    pub removed: FieldSet,
    /// Fields that both have with different values.
    pub modified: FieldSet,
    /// Fields that only the new document has.
    pub added: FieldSet,
}

impl Comparison {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Applies the same filter to all three sets.
    pub(crate) fn map(self, filter: impl Fn(FieldSet) -> FieldSet) -> Self {
        Self {
            removed: filter(self.removed),
            modified: filter(self.modified),
            added: filter(self.added),
        }
    }
}

/// Compares two documents of one type.
pub(crate) fn compare(
    old: &Value,
    new: &Value,
    view: TypeView<'_>,
) -> Result<Comparison, FieldErrors> {
    let mut errors = FieldErrors::default();
    // To see whether all is equal would be to look at all that is equal twice.
    let found = compare_parts(
        Pair {
            old: Some(old),
            new: Some(new),
        },
        view,
        &mut errors,
    );
    errors.into_result()?;
    Ok(found.below)
}

#[derive(Clone, Copy)]
pub(super) struct Pair<'v> {
    pub(super) old: Option<&'v Value>,
    pub(super) new: Option<&'v Value>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Here {
    Same,
    Removed,
    Modified,
    Added,
}

/// What a walk found: how the place itself changed, and the changes below it.
pub(super) struct Found {
    here: Here,
    /// The place was compared as one value.
    is_leaf: bool,
    below: Comparison,
}

impl Found {
    pub(super) fn leaf(pair: Pair<'_>) -> Self {
        let here = match (pair.old, pair.new) {
            (None, _) => Here::Added,
            (_, None) => Here::Removed,
            (Some(old), Some(new)) if values_equal(old, new) => Here::Same,
            _ => Here::Modified,
        };
        Self {
            here,
            is_leaf: true,
            below: Comparison::default(),
        }
    }

    /// A place that was compared by what is in it.
    pub(super) fn container(pair: Pair<'_>, below: Comparison) -> Self {
        let here = match (pair.old, pair.new) {
            (None, _) => Here::Added,
            (_, None) => Here::Removed,
            _ => Here::Same,
        };
        Self {
            here,
            is_leaf: false,
            below,
        }
    }
}

pub(super) fn compare_pair(pair: Pair<'_>, view: TypeView<'_>, errors: &mut FieldErrors) -> Found {
    // Equal values differ nowhere, whatever their types.
    if let (Some(old), Some(new)) = (pair.old, pair.new)
        && old == new
    {
        return Found {
            here: Here::Same,
            is_leaf: false,
            below: Comparison::default(),
        };
    }
    compare_parts(pair, view, errors)
}

fn compare_parts(pair: Pair<'_>, view: TypeView<'_>, errors: &mut FieldErrors) -> Found {
    let atom = view.atom();
    let (old_atom, new_atom) = (atom.narrowed(pair.old), atom.narrowed(pair.new));
    let mut found = if pair.new.is_none() {
        compare_as(old_atom.sort(), pair, errors)
    } else if pair.old.is_none() || old_atom.same_sorts(&new_atom) {
        compare_as(new_atom.sort(), pair, errors)
    } else {
        let as_old = compare_as(old_atom.sort(), pair, errors);
        let as_new = compare_as(new_atom.sort(), pair, errors);
        let here = if as_new.here == Here::Same {
            as_old.here
        } else {
            as_new.here
        };
        Found {
            here,
            is_leaf: as_new.is_leaf,
            below: Comparison {
                removed: as_old.below.removed.union(&as_new.below.removed),
                modified: as_old.below.modified.union(&as_new.below.modified),
                added: as_old.below.added.union(&as_new.below.added),
            },
        }
    };
    if !found.is_leaf {
        if pair.old.is_none() {
            found.here = Here::Added;
        } else if pair.new.is_none() {
            found.here = Here::Removed;
        }
    }
    found
}

fn compare_as(sort: Sort<'_>, pair: Pair<'_>, errors: &mut FieldErrors) -> Found {
    match sort {
        Sort::Scalar(scalar) => compare_scalars(scalar, pair, errors),
        Sort::List(list) => {
            let old = list_items(pair.old);
            let new = list_items(pair.new);
            if list.associative.is_none() || (old.is_empty() && new.is_empty()) {
                return Found::leaf(pair);
            }
            Found {
                here: Here::Same,
                is_leaf: false,
                below: compare_items(&list, old, new, errors),
            }
        }
        Sort::Map(map) => {
            let old = pair.old.and_then(Value::as_object);
            let new = pair.new.and_then(Value::as_object);
            if map.atomic || (old.is_none_or(Map::is_empty) && new.is_none_or(Map::is_empty)) {
                return Found::leaf(pair);
            }
            Found {
                here: Here::Same,
                is_leaf: false,
                below: compare_fields(&map, old, new, errors),
            }
        }
    }
}

fn list_items(side: Option<&Value>) -> &[Value] {
    side.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn compare_scalars(scalar: Scalar, pair: Pair<'_>, errors: &mut FieldErrors) -> Found {
    let old_error = pair.old.and_then(|old| scalar_error(scalar, old, "lhs: "));
    let new_error = pair.new.and_then(|new| scalar_error(scalar, new, "rhs: "));
    if let (Some(old_error), Some(new_error)) = (old_error, new_error) {
        errors.add(old_error);
        errors.add(new_error);
        return Found {
            here: Here::Same,
            is_leaf: false,
            below: Comparison::default(),
        };
    }
    Found::leaf(pair)
}

/// Collects the changes of the children of one place.
#[derive(Default)]
pub(super) struct Changes {
    removed: FieldSetBuilder,
    modified: FieldSetBuilder,
    added: FieldSetBuilder,
}

impl Changes {
    fn push(&mut self, element: &PathElement, found: Found) {
        let Found { here, below, .. } = found;
        let put = |set: &mut FieldSetBuilder, member: bool, below: FieldSet| {
            if member || !below.is_empty() {
                set.push(element.clone(), member, below);
            }
        };
        put(&mut self.removed, here == Here::Removed, below.removed);
        put(&mut self.modified, here == Here::Modified, below.modified);
        put(&mut self.added, here == Here::Added, below.added);
    }

    /// As [`Changes::push`] for the field with the next greater name.
    pub(super) fn push_next(&mut self, key: &str, found: Found) {
        let Found { here, below, .. } = found;
        if here == Here::Same && below.is_same() {
            return;
        }
        let put = |set: &mut FieldSetBuilder, member: bool, below: FieldSet| {
            if member || !below.is_empty() {
                set.push_next(PathElement::field(key), member, below);
            }
        };
        put(&mut self.removed, here == Here::Removed, below.removed);
        put(&mut self.modified, here == Here::Modified, below.modified);
        put(&mut self.added, here == Here::Added, below.added);
    }

    pub(super) fn finish(self) -> Comparison {
        Comparison {
            removed: self.removed.finish(),
            modified: self.modified.finish(),
            added: self.added.finish(),
        }
    }
}

fn compare_fields(
    map: &MapView<'_>,
    old: Option<&Map>,
    new: Option<&Map>,
    errors: &mut FieldErrors,
) -> Comparison {
    let mut changes = Changes::default();
    super::zip_maps(old, new, |key, old, new| {
        let Some(view) = map.value_type(key) else {
            return;
        };
        let mut below = FieldErrors::default();
        let found = compare_pair(Pair { old, new }, view, &mut below);
        if below.is_empty() && found.here == Here::Same && found.below.is_same() {
            return;
        }
        let element = PathElement::field(key);
        errors.add_below(&element, below);
        changes.push(&element, found);
    });
    changes.finish()
}

fn compare_items(
    list: &ListView<'_>,
    old: &[Value],
    new: &[Value],
    errors: &mut FieldErrors,
) -> Comparison {
    let mut sides: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for (index, item) in old.iter().enumerate() {
        match item_element(list, item) {
            Ok(element) => sides.entry(element).or_default().0.push(item),
            Err(reason) => errors.add(format!("element {index}: {reason}")),
        }
    }
    for (index, item) in new.iter().enumerate() {
        match item_element(list, item) {
            Ok(element) => sides.entry(element).or_default().1.push(item),
            Err(reason) => errors.add(format!("element {index}: {reason}")),
        }
    }
    let mut changes = Changes::default();
    for (element, (old, new)) in sides {
        let found = compare_same_key(list, &element, &old, &new, errors);
        for found in found {
            changes.push(&element, found);
        }
    }
    changes.finish()
}

/// Compares the items that share one key. Several on one side are one value together.
fn compare_same_key(
    list: &ListView<'_>,
    element: &PathElement,
    old: &[&Value],
    new: &[&Value],
    errors: &mut FieldErrors,
) -> Vec<Found> {
    let mut one = |old: Option<&Value>, new: Option<&Value>| {
        let mut below = FieldErrors::default();
        let found = compare_pair(Pair { old, new }, list.item, &mut below);
        errors.add_below(element, below);
        found
    };
    let marker = |here| Found {
        here,
        is_leaf: true,
        below: Comparison::default(),
    };
    match (old.len(), new.len()) {
        (0 | 1, 0 | 1) => vec![one(old.first().copied(), new.first().copied())],
        (0 | 1, _) => {
            let gone = old.first().map(|old| one(Some(old), None));
            gone.into_iter().chain([marker(Here::Added)]).collect()
        }
        (_, 0 | 1) => {
            let come = new.first().map(|new| one(None, Some(new)));
            come.into_iter().chain([marker(Here::Removed)]).collect()
        }
        _ => {
            let equal =
                old.len() == new.len() && old.iter().zip(new).all(|(a, b)| values_equal(a, b));
            if equal {
                Vec::new()
            } else {
                vec![marker(Here::Modified)]
            }
        }
    }
}
