//! Uniqueness in lists of the types `set` and `map`.

use std::collections::BTreeMap;

use everflow_json::{Map, Value};

use super::field_error::FieldError;
use crate::model::{ListKind, Shape, TypeId, TypeTable};
use crate::schema::SchemaView;

/// Finds items that are in a set, or keys that are in a map, twice.
pub fn check_lists(value: &Value, schema: SchemaView<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // Paths are made only when there is something to say.
    if repeats_nothing(value, schema.root, schema.types) {
        return errors;
    }
    node(value, schema.root, schema.types, "", &mut errors);
    errors
}

/// Whether there is surely nothing to find.
fn repeats_nothing(value: &Value, type_id: TypeId, types: &TypeTable) -> bool {
    let Some(shape) = types.get(type_id).map(|node| &node.shape) else {
        return true;
    };
    match (value, shape) {
        (Value::Object(fields), Shape::Object(object)) => fields.iter().all(|(name, inner)| {
            let below = |type_id| repeats_nothing(inner, type_id, types);
            object.field(name).is_none_or(|field| below(field.type_id))
                && object.additional.is_none_or(below)
        }),
        (Value::Array(items), Shape::List(list)) => {
            let differ = |same: &dyn Fn(&Value, &Value) -> bool| {
                let mut pairs = items.iter().enumerate();
                pairs.all(|(at, item)| !items[..at].iter().any(|earlier| same(earlier, item)))
            };
            let is_unique = match &list.kind {
                ListKind::Atomic => true,
                // To compare all with all pays for few only.
                _ if items.len() > 16 => false,
                ListKind::Set => differ(&|one, other| one == other),
                ListKind::Map { keys } => {
                    let same = |one: &Value, other: &Value| {
                        let same_key = |key: &smol_str::SmolStr| {
                            one.get(key.as_str()) == other.get(key.as_str())
                        };
                        keys.iter().all(same_key)
                    };
                    items.iter().all(Value::is_object) && differ(&same)
                }
            };
            is_unique && (items.iter()).all(|item| repeats_nothing(item, list.item, types))
        }
        _ => true,
    }
}

fn node(
    value: &Value,
    type_id: TypeId,
    types: &TypeTable,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let Some(shape) = types.get(type_id).map(|node| &node.shape) else {
        return;
    };
    match (value, shape) {
        (Value::Object(fields), Shape::Object(object)) => {
            if let Some(additional) = object.additional {
                for (name, inner) in fields {
                    node(inner, additional, types, &format!("{path}[{name}]"), errors);
                }
            }
            for (name, inner) in fields {
                if let Some(field) = object.field(name) {
                    let below = if path.is_empty() {
                        name.to_string()
                    } else {
                        format!("{path}.{name}")
                    };
                    node(inner, field.type_id, types, &below, errors);
                }
            }
        }
        (Value::Array(items), Shape::List(list)) => {
            match &list.kind {
                ListKind::Atomic => {}
                ListKind::Set => {
                    for at in repeated(items) {
                        errors.push(FieldError::duplicate(
                            format!("{path}[{at}]"),
                            items[at].clone(),
                        ));
                    }
                }
                ListKind::Map { keys } => map_list(items, keys, path, errors),
            }
            for (at, item) in items.iter().enumerate() {
                node(item, list.item, types, &format!("{path}[{at}]"), errors);
            }
        }
        _ => {}
    }
}

fn map_list(items: &[Value], keys: &[smol_str::SmolStr], path: &str, errors: &mut Vec<FieldError>) {
    let wrong = items
        .iter()
        .position(|item| !item.is_object() && !item.is_null());
    if let Some(at) = wrong {
        errors.push(FieldError::invalid(
            format!("{path}[{at}]"),
            items[at].clone(),
            "must be an object for an array of list-type map",
        ));
        return;
    }
    let key_of = |item: &Value| {
        let found = keys
            .iter()
            .filter_map(|key| Some((key.to_string(), item.get(key.as_str())?.clone())));
        Value::Object(found.collect::<Map>())
    };
    let of_items: Vec<Value> = items.iter().map(key_of).collect();
    for at in repeated(&of_items) {
        errors.push(FieldError::duplicate(
            format!("{path}[{at}]"),
            of_items[at].clone(),
        ));
    }
}

/// The positions where a value is seen for the second time (not the third).
fn repeated(values: &[Value]) -> Vec<usize> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            found.push(at);
        }
    }
    found
}
