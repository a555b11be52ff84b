//! The types of values, and when values are the same.

use everflow_json::Value;

use super::number::Exact;

pub(super) fn type_names(types: &Value) -> Vec<String> {
    const KNOWN: [&str; 7] = [
        "null", "boolean", "number", "integer", "string", "array", "object",
    ];
    let wanted: Vec<&str> = match types {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    KNOWN
        .iter()
        .filter(|name| wanted.contains(name))
        .map(|name| (*name).to_owned())
        .collect()
}

pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

pub(super) fn is_of_type(value: &Value, name: &str) -> bool {
    match (name, value) {
        ("integer", Value::Number(number)) => Exact::new(number).is_integer(),
        _ => type_name(value) == name,
    }
}

/// Equality by value: `1` and `1.0` are the same number.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => Exact::new(left) == Exact::new(right),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| equal(l, r))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, value)| right.get(key).is_some_and(|other| equal(value, other)))
        }
        _ => left == right,
    }
}
