//! Fills in defaults, removes nulls that have no meaning.

use everflow_json::Value;

use crate::model::{Shape, Type, TypeId, TypeTable};
use crate::schema::SchemaView;

/// Gives missing fields, and nulls that are not allowed, their defaults.
pub fn apply_defaults(value: &mut Value, schema: SchemaView<'_>) {
    fill(value, schema.root, schema.types);
}

fn fill(value: &mut Value, type_id: TypeId, types: &TypeTable) {
    let Some(node) = types.get(type_id) else {
        return;
    };
    match (value, &node.shape) {
        (Value::Object(fields), Shape::Object(object)) => {
            for field in &object.fields {
                let Some(default) = &field.default else {
                    continue;
                };
                let empty = match fields.get(field.name.as_str()) {
                    None => true,
                    Some(value) => is_forbidden_null(value, types.get(field.type_id)),
                };
                if empty && !default.is_null() {
                    fields.insert(field.name.clone(), default.clone());
                }
            }
            for (name, inner) in fields.iter_mut() {
                if let Some(field) = object.field(name) {
                    fill(inner, field.type_id, types);
                } else if let Some(additional) = object.additional {
                    fill_entry(inner, additional, types);
                }
            }
        }
        (Value::Array(items), Shape::List(list)) => {
            for item in items {
                fill_entry(item, list.item, types);
            }
        }
        _ => {}
    }
}

/// An entry of a list or map: only a null takes the default.
fn fill_entry(value: &mut Value, type_id: TypeId, types: &TypeTable) {
    let node = types.get(type_id);
    if is_forbidden_null(value, node) {
        *value = node
            .and_then(|node| node.default.clone())
            .unwrap_or(Value::Null);
    }
    fill(value, type_id, types);
}

fn is_forbidden_null(value: &Value, node: Option<&Type>) -> bool {
    value.is_null() && node.is_some_and(|node| !node.nullable)
}

/// Removes nulls in objects that are not allowed and have no default. Those in lists stay.
pub fn prune_nulls(value: &mut Value, schema: SchemaView<'_>) {
    remove_nulls(value, Some(schema.root), schema.types);
}

fn remove_nulls(value: &mut Value, type_id: Option<TypeId>, types: &TypeTable) {
    let shape = type_id.and_then(|id| types.get(id)).map(|node| &node.shape);
    match value {
        Value::Object(fields) => {
            let object = match shape {
                Some(Shape::Object(object)) => Some(object),
                _ => None,
            };
            fields.retain(|name, inner| {
                let next = object.and_then(|object| object.child(name));
                let node = next.and_then(|id| types.get(id));
                if is_forbidden_null(inner, node) && node.is_some_and(no_default) {
                    return false;
                }
                remove_nulls(inner, next, types);
                true
            });
        }
        Value::Array(items) => {
            let next = match shape {
                Some(Shape::List(list)) => Some(list.item),
                _ => None,
            };
            for item in items {
                remove_nulls(item, next, types);
            }
        }
        _ => {}
    }
}

fn no_default(node: &Type) -> bool {
    node.default.as_ref().is_none_or(Value::is_null)
}
