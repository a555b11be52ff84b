//! Two documents that both fit their schema, checked and compared in one walk.
//!
//! To check one, to check the other and to compare them asks three times for the type of every field. What is rare is
//! left to those three.

use everflow_json::{Map, Value};
use everflow_schema::{ObjectType, Shape};

use super::compare::{Changes, Comparison, Found, Pair, compare_pair};
use super::errors::FieldErrors;
use super::fits::surely_fits;
use super::types::{RAW_EXTENSION, TypeNode, TypeView};
use crate::depth::MAX_DEPTH;

/// What [`compare`](super::compare::compare) finds between two objects that are known to fit their type, both without
/// their `metadata.managedFields`. None means unknown:
/// run the full comparison.
pub(crate) fn compare(old: &Value, new: &Value, view: TypeView<'_>) -> Option<Comparison> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return None;
    };
    let object = plain_object(view)?;
    let mut found = Changes::default();
    walk_fields(Some(old), Some(new), |key, pair| {
        let view = view.of_key(object, key)?;
        match key {
            "metadata" => metadata(key, pair, view, &mut found),
            _ => place(key, pair, view, MAX_DEPTH - 1, &mut found),
        }
    })?;
    Some(found.finish())
}

/// The object shape of a type that is nothing but an object and merges field by field.
fn plain_object(view: TypeView<'_>) -> Option<&ObjectType> {
    let TypeNode::Declared(node) = view.node else {
        return None;
    };
    match &node.shape {
        Shape::Object(object) => {
            let is_plain = node.json_type.is_some()
                && node.name.as_deref() != Some(RAW_EXTENSION)
                && !view.is_atomic(object);
            is_plain.then_some(object)
        }
        _ => None,
    }
}

/// Walks two maps key by key in order until a visit has no answer.
fn walk_fields<'v>(
    old: Option<&'v Map>,
    new: Option<&'v Map>,
    mut visit: impl FnMut(&'v str, Pair<'v>) -> Option<()>,
) -> Option<()> {
    let mut olds = old.into_iter().flatten();
    let mut news = new.into_iter().flatten();
    let (mut old, mut new) = (olds.next(), news.next());
    loop {
        let order = match (old, new) {
            (None, None) => return Some(()),
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
        };
        let here_old = old.filter(|_| order.is_le());
        let here_new = new.filter(|_| order.is_ge());
        let (key, _) = here_old.or(here_new)?;
        let pair = Pair {
            old: here_old.map(|(_, value)| value),
            new: here_new.map(|(_, value)| value),
        };
        visit(key, pair)?;
        if order.is_le() {
            old = olds.next();
        }
        if order.is_ge() {
            new = news.next();
        }
    }
}

/// Compares `metadata` but for the list of managers.
fn metadata(key: &str, pair: Pair<'_>, view: TypeView<'_>, out: &mut Changes) -> Option<()> {
    const LIST: &str = "managedFields";
    let object = plain_object(view)?;
    let (old, new) = (fields_of_side(pair.old)?, fields_of_side(pair.new)?);
    // Of metadata that comes or goes it matters whether there is anything but the list.
    let has_list = |fields: Option<&Map>| fields.is_some_and(|fields| fields.contains_key(LIST));
    if (old.is_none() || new.is_none()) && (has_list(old) || has_list(new)) {
        return None;
    }
    let mut below = Changes::default();
    walk_fields(old, new, |key, pair| {
        let view = view.of_key(object, key)?;
        match key {
            LIST => Some(()),
            _ => place(key, pair, view, MAX_DEPTH - 2, &mut below),
        }
    })?;
    out.push_next(key, Found::container(pair, below.finish()));
    Some(())
}

/// The fields of a side that is absent or an object.
fn fields_of_side(side: Option<&Value>) -> Option<Option<&Map>> {
    match side {
        None => Some(None),
        Some(Value::Object(fields)) => Some(Some(fields)),
        Some(_) => None,
    }
}

/// Compares the values under one key.
fn place(
    key: &str,
    pair: Pair<'_>,
    view: TypeView<'_>,
    levels: usize,
    out: &mut Changes,
) -> Option<()> {
    let TypeNode::Declared(node) = view.node else {
        return anything(key, pair, view, levels, out);
    };
    match &node.shape {
        Shape::Scalar { .. } | Shape::Quantity | Shape::Time | Shape::MicroTime => {
            let fits = |side: Option<&Value>| {
                side.is_none_or(|value| surely_fits(value, view, true, levels))
            };
            if !(fits(pair.old) && fits(pair.new)) {
                return None;
            }
            out.push_next(key, Found::leaf(pair));
            Some(())
        }
        Shape::Object(_) => {
            let sides = (fields_of_side(pair.old), fields_of_side(pair.new));
            let (Some(object), (Some(old), Some(new))) = (plain_object(view), sides) else {
                return anything(key, pair, view, levels, out);
            };
            if levels == 0 {
                return None;
            }
            let mut below = Changes::default();
            walk_fields(old, new, |key, pair| {
                let view = view.of_key(object, key)?;
                place(key, pair, view, levels - 1, &mut below)
            })?;
            out.push_next(key, Found::container(pair, below.finish()));
            Some(())
        }
        _ => anything(key, pair, view, levels, out),
    }
}

/// Compares the values under one key, whatever they are.
fn anything(
    key: &str,
    pair: Pair<'_>,
    view: TypeView<'_>,
    levels: usize,
    out: &mut Changes,
) -> Option<()> {
    let fits = |value: &Value| surely_fits(value, view, true, levels);
    if let (Some(old), Some(new)) = (pair.old, pair.new)
        && old == new
    {
        return fits(new).then_some(());
    }
    if !(pair.old.is_none_or(fits) && pair.new.is_none_or(fits)) {
        return None;
    }
    let mut errors = FieldErrors::default();
    let found = compare_pair(pair, view, &mut errors);
    if !errors.is_empty() {
        return None;
    }
    out.push_next(key, found);
    Some(())
}
