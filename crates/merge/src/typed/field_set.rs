//! The set of all fields and items that a document mentions.

use std::collections::BTreeMap;

use everflow_json::{Map, Value};

use super::list_items::item_element;
use super::types::{ListView, MapView, Sort, TypeView};
use crate::fieldpath::{FieldSet, FieldSetBuilder, PathElement};

/// The leaves, list items and map keys that a value mentions.
pub(crate) fn field_set(value: &Value, view: TypeView<'_>) -> FieldSet {
    fields_of(value, view).below
}

/// What a walk found: whether the place itself is a member, and the members below it.
struct Found {
    here: bool,
    below: FieldSet,
}

impl Found {
    const fn leaf() -> Self {
        Self {
            here: true,
            below: FieldSet::new(),
        }
    }

    const fn nothing() -> Self {
        Self {
            here: false,
            below: FieldSet::new(),
        }
    }
}

fn fields_of(value: &Value, view: TypeView<'_>) -> Found {
    match view.atom().narrowed(Some(value)).sort() {
        Sort::Scalar(_) => Found::leaf(),
        Sort::List(list) if list.associative.is_none() => Found::leaf(),
        Sort::List(list) => match value {
            Value::Array(items) => Found {
                here: false,
                below: items_of(items, &list),
            },
            _ => Found::nothing(),
        },
        Sort::Map(map) if map.atomic => Found::leaf(),
        Sort::Map(map) => match value {
            Value::Object(fields) => Found {
                here: false,
                below: keys_of(fields, &map),
            },
            _ => Found::nothing(),
        },
    }
}

fn items_of(items: &[Value], list: &ListView<'_>) -> FieldSet {
    let mut elements: Vec<Option<PathElement>> = Vec::with_capacity(items.len());
    let mut counts: BTreeMap<PathElement, usize> = BTreeMap::new();
    for item in items {
        let element = item_element(list, item).ok();
        if let Some(element) = &element {
            *counts.entry(element.clone()).or_default() += 1;
        }
        elements.push(element);
    }
    let mut set = FieldSetBuilder::with_capacity(items.len());
    for (item, element) in items.iter().zip(elements) {
        let Some(element) = element else { continue };
        // Items that occur twice are owned as a whole.
        let twice = counts.get(&element).is_some_and(|count| *count > 1);
        let below = if twice {
            FieldSet::new()
        } else {
            fields_of(item, list.item).below
        };
        set.push(element, true, below);
    }
    set.finish()
}

fn keys_of(fields: &Map, map: &MapView<'_>) -> FieldSet {
    let mut set = FieldSetBuilder::with_capacity(fields.len());
    for (key, value) in fields {
        let Some(view) = map.value_type(key) else {
            continue;
        };
        let found = fields_of(value, view);
        let is_empty = match value {
            Value::Null => true,
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        let here = found.here || is_empty || !map.has_field(key);
        set.push(PathElement::field(key), here, found.below);
    }
    set.finish()
}
