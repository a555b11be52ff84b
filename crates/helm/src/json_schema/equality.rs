//! The types of values, and when values are the same.

use std::hash::{DefaultHasher, Hash, Hasher};

use everflow_gotemplate::BYTES_OF_A_STEP;
use everflow_json::Value;

use super::number::Exact;
use super::run::Run;

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

/// Equality by value: `1` and `1.0` are the same number. Nothing is equal once the validation ends.
pub(super) fn equal(left: &Value, right: &Value, run: &Run<'_>) -> bool {
    if !run.steps(1) {
        return false;
    }
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => Exact::new(left) == Exact::new(right),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| equal(l, r, run))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| {
                    right.get(key).is_some_and(|other| equal(value, other, run))
                })
        }
        (Value::String(left), Value::String(right)) => {
            run.steps(left.len() / BYTES_OF_A_STEP) && left == right
        }
        _ => left == right,
    }
}

/// The same number for values that are [`equal`]; `None` once the validation ends.
pub(super) fn hash(value: &Value, run: &Run<'_>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    add_hash(value, &mut hasher, run);
    run.steps(1).then(|| hasher.finish())
}

fn add_hash(value: &Value, hasher: &mut DefaultHasher, run: &Run<'_>) {
    if !run.steps(1) {
        return;
    }
    type_name(value).hash(hasher);
    match value {
        Value::Null => {}
        Value::Bool(flag) => flag.hash(hasher),
        Value::Number(number) => Exact::new(number).hash(hasher),
        Value::String(text) => {
            run.steps(text.len() / BYTES_OF_A_STEP);
            text.hash(hasher);
        }
        Value::Array(items) => items.iter().for_each(|item| add_hash(item, hasher, run)),
        Value::Object(entries) => {
            for (key, value) in entries {
                key.hash(hasher);
                add_hash(value, hasher, run);
            }
        }
    }
}
