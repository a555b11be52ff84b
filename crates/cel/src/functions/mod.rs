//! Operators and functions.

mod collections;
mod convert;
mod kubernetes;
mod operators;
mod strings;
mod times;

use std::cell::Cell;

use crate::error::EvalError;
use crate::value::Value;

/// Names before the dot of a function's name.
pub(crate) const NAMESPACES: [&str; 8] = [
    "optional", "math", "sets", "format", "ip", "strings", "base64", "cidr",
];

type Outcome = Result<Value, EvalError>;

/// A group of functions; nothing for a name or arguments that it does not know.
type Family = fn(&str, &[Value]) -> Option<Outcome>;

/// Calls a function; `method` tells that the first argument is the receiver. `steps` is what is
/// left of the budget: functions that walk long values take from it.
pub(crate) fn call(name: &str, args: &[Value], method: bool, steps: &Cell<u64>) -> Outcome {
    charge(args, steps)?;
    let families: [Family; 5] = [
        operators::call,
        convert::call,
        strings::call,
        collections::call,
        times::call,
    ];
    for family in families {
        if let Some(outcome) = family(name, args) {
            return outcome;
        }
    }
    kubernetes::call(name, args, method).unwrap_or(Err(EvalError::NoSuchOverload))
}

/// Long texts and lists cost more than short ones.
fn charge(args: &[Value], steps: &Cell<u64>) -> Result<(), EvalError> {
    let mut cost = 0u64;
    for arg in args {
        cost += match arg {
            Value::String(text) => text.len() as u64 / 10,
            Value::Bytes(bytes) => bytes.len() as u64 / 10,
            Value::List(list) => list.items.len() as u64 / 10,
            Value::Map(map) => map.len() as u64 / 10,
            _ => 0,
        };
    }
    match steps.get().checked_sub(cost) {
        Some(left) => {
            steps.set(left);
            Ok(())
        }
        None => Err(EvalError::TooExpensive),
    }
}

fn text(value: impl AsRef<str>) -> Option<Outcome> {
    Some(Ok(Value::string(value)))
}

fn boolean(value: bool) -> Option<Outcome> {
    Some(Ok(Value::Bool(value)))
}

fn int(value: i64) -> Option<Outcome> {
    Some(Ok(Value::Int(value)))
}

fn failed(message: impl Into<String>) -> Option<Outcome> {
    Some(Err(EvalError::other(message)))
}
