//! Whether a value fits its schema.

use std::collections::BTreeSet;

use everflow_json::{Map, Value};

use super::errors::FieldErrors;
use super::list_items::item_element;
use super::types::{ListView, MapView, Scalar, Sort, TypeView};
use crate::fieldpath::PathElement;
use crate::go_text;

/// Checks a value against its type.
pub(crate) fn validate(
    value: &Value,
    view: TypeView<'_>,
    allow_duplicates: bool,
) -> Result<(), FieldErrors> {
    let mut errors = FieldErrors::default();
    check(value, view, allow_duplicates, &mut errors);
    errors.into_result()
}

fn check(value: &Value, view: TypeView<'_>, allow_duplicates: bool, errors: &mut FieldErrors) {
    match view.atom().narrowed(Some(value)).sort() {
        Sort::Scalar(scalar) => {
            if let Some(message) = scalar_error(scalar, value, "") {
                errors.add(message);
            }
        }
        Sort::List(list) => match value {
            Value::Null => {}
            Value::Array(items) => check_items(items, &list, allow_duplicates, errors),
            other => errors.add(format!("expected list, got &{{{}}}", go_text::plain(other))),
        },
        Sort::Map(map) => match value {
            Value::Null => {}
            Value::Object(fields) => check_fields(fields, &map, allow_duplicates, errors),
            other => errors.add(format!("expected map, got &{{{}}}", go_text::plain(other))),
        },
    }
}

/// What is wrong with a value where a scalar of this type is declared; null is always fine.
pub(super) fn scalar_error(scalar: Scalar, value: &Value, side: &str) -> Option<String> {
    match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Numeric, Value::Number(_))
        | (Scalar::String, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Untyped, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (Scalar::Numeric, other) => Some(format!(
            "{side}expected numeric (int or float), got {}",
            go_text::type_name(other)
        )),
        (Scalar::String, other) => Some(format!(
            "{side}expected string, got &value.valueUnstructured{{Value:{}}}",
            go_text::syntax(other)
        )),
        (Scalar::Boolean, other) => Some(format!(
            "{side}expected boolean, got &{{{}}}",
            go_text::plain(other)
        )),
        (Scalar::Untyped, other) => Some(format!(
            "{side}expected any scalar, got &{{{}}}",
            go_text::plain(other)
        )),
    }
}

fn check_items(
    items: &[Value],
    list: &ListView<'_>,
    allow_duplicates: bool,
    errors: &mut FieldErrors,
) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let element = if list.associative.is_none() {
            PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX))
        } else {
            match item_element(list, item) {
                Ok(element) => element,
                // Without an identity nothing behind the item can be named; stop here.
                Err(reason) => return errors.add(format!("element {index}: {reason}")),
            }
        };
        if list.associative.is_some() && !allow_duplicates && !seen.insert(element.clone()) {
            errors.add(format!("duplicate entries for key {element}"));
        }
        let mut below = FieldErrors::default();
        check(item, list.item, allow_duplicates, &mut below);
        errors.add_below(&element, below);
    }
}

fn check_fields(fields: &Map, map: &MapView<'_>, allow_duplicates: bool, errors: &mut FieldErrors) {
    for (key, value) in fields {
        let mut below = FieldErrors::default();
        let Some(view) = map.value_type(key) else {
            below.add("field not declared in schema");
            errors.add_below(&PathElement::field(key), below);
            return;
        };
        check(value, view, allow_duplicates, &mut below);
        if !below.is_empty() {
            errors.add_below(&PathElement::field(key), below);
        }
    }
}
