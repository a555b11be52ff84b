//! Removing fields and items from a document.

use everflow_json::{Map, Value};

use super::list_items::item_element;
use super::types::{Sort, TypeView};
use crate::fieldpath::{FieldSet, PathElement};

/// The value without the given fields and items. What becomes empty by that stays as an empty
/// container.
pub(crate) fn remove_items(value: Value, gone: &FieldSet, view: TypeView<'_>) -> Value {
    if gone.is_empty() {
        return value;
    }
    match (view.atom().narrowed(Some(&value)).sort(), value) {
        (Sort::Scalar(_), value) => value,
        (Sort::List(list), Value::Array(items))
            if !items.is_empty() && list.associative.is_some() =>
        {
            let mut kept = Vec::with_capacity(items.len());
            let mut had_matches = false;
            for item in items {
                match item_element(&list, &item)
                    .ok()
                    .and_then(|element| gone.step(&element))
                {
                    Some((true, _)) => {}
                    Some((false, below)) => {
                        had_matches = true;
                        kept.push(remove_below(item, below, list.item));
                    }
                    None => kept.push(item),
                }
            }
            if kept.is_empty() && !had_matches {
                Value::Null
            } else {
                Value::Array(kept)
            }
        }
        (Sort::Map(map), Value::Object(fields)) if !fields.is_empty() && !map.atomic => {
            let mut kept = Map::new();
            let mut had_matches = false;
            for (key, item) in fields {
                match gone.step(&PathElement::field(&key)) {
                    Some((true, _)) => {}
                    Some((false, below)) => {
                        had_matches = true;
                        let item = match map.value_type(&key) {
                            Some(view) => remove_below(item, below, view),
                            None => item,
                        };
                        kept.insert(key, item);
                    }
                    None => {
                        kept.insert(key, item);
                    }
                }
            }
            if kept.is_empty() && !had_matches {
                Value::Null
            } else {
                Value::Object(kept)
            }
        }
        _ => Value::Null,
    }
}

/// Removes inside of a kept value; a container that loses everything stays, empty.
fn remove_below(value: Value, gone: &FieldSet, view: TypeView<'_>) -> Value {
    let empty = match &value {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        _ => Value::Null,
    };
    match remove_items(value, gone, view) {
        Value::Null => empty,
        other => other,
    }
}
