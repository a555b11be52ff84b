//! A first look at documents: most of them fit their schema, and then nothing has to be said about them.

use everflow_json::Value;
use everflow_schema::{ScalarKind, Shape};

use super::list_items::item_element;
use super::types::{RAW_EXTENSION, TypeNode, TypeView};
use crate::depth::fits_in;

/// As [`surely_fits`] of a whole object that may have duplicates, without a look at `metadata.managedFields`.
pub(super) fn surely_fits_beside_managed_fields(
    object: &Value,
    view: TypeView<'_>,
    levels: usize,
) -> bool {
    let fits = |value: &Value, view, levels| surely_fits(value, view, true, levels);
    all_fields(object, view, |key, value, view| match (key, value) {
        ("metadata", Value::Object(_)) => all_fields(value, view, |key, value, view| {
            key == "managedFields" || fits(value, view, levels - 2)
        }),
        _ => fits(value, view, levels - 1),
    })
}

/// Whether a value is an object of a declared type with nothing but known fields that all pass.
fn all_fields<'s>(
    value: &Value,
    view: TypeView<'s>,
    passes: impl Fn(&str, &Value, TypeView<'s>) -> bool,
) -> bool {
    let TypeNode::Declared(node) = view.node else {
        return false;
    };
    let (Shape::Object(object), Value::Object(fields)) = (&node.shape, value) else {
        return false;
    };
    fields.iter().all(|(key, value)| {
        let inner = view.of_key(object, key);
        inner.is_some_and(|inner| passes(key, value, inner))
    })
}

/// Whether a value is known to fit its type and to nest no deeper than so many levels. False means unknown: what is
/// rare is not looked at.
pub(super) fn surely_fits(
    value: &Value,
    view: TypeView<'_>,
    allow_duplicates: bool,
    levels: usize,
) -> bool {
    let TypeNode::Declared(node) = view.node else {
        return fits_in(value, levels);
    };
    match (&node.shape, value) {
        (_, Value::Null) => true,
        (Shape::Any | Shape::IntOrString, _) => fits_in(value, levels),
        (Shape::Quantity | Shape::Time | Shape::MicroTime, scalar) => {
            !matches!(scalar, Value::Array(_) | Value::Object(_))
        }
        (Shape::Scalar { scalar, .. }, value) => matches!(
            (scalar, value),
            (ScalarKind::Integer | ScalarKind::Number, Value::Number(_))
                | (ScalarKind::Boolean, Value::Bool(_))
                | (ScalarKind::String, Value::String(_))
        ),
        (Shape::Object(_), value) if node.name.as_deref() == Some(RAW_EXTENSION) => {
            fits_in(value, levels)
        }
        (Shape::Object(_), Value::Object(_)) => {
            levels > 0
                && all_fields(value, view, |_, value, inner| {
                    surely_fits(value, inner, allow_duplicates, levels - 1)
                })
        }
        (Shape::List(_), Value::Array(items)) => {
            let Some(list) = view.atom().list.filter(|_| levels > 0) else {
                return false;
            };
            // Duplicates of an associative list are left to those who can tell of them.
            let are_told_apart = list.associative.is_none()
                || (allow_duplicates && items.iter().all(|item| item_element(&list, item).is_ok()));
            are_told_apart
                && items
                    .iter()
                    .all(|item| surely_fits(item, list.item, allow_duplicates, levels - 1))
        }
        _ => false,
    }
}
