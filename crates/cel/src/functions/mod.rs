//! Operators and functions.

mod collections;
mod convert;
mod cost;
pub(crate) mod format;
mod kubernetes;
mod operators;
mod strings;
mod times;

use std::cell::Cell;

use crate::error::EvalError;
use crate::value::Value;
use crate::work::Work;

/// Names before the dot of a function's name.
pub(crate) const NAMESPACES: [&str; 9] = [
    "optional", "math", "sets", "format", "ip", "strings", "base64", "cidr", "lists",
];

type Outcome = Result<Value, EvalError>;

/// A group of functions; nothing for a name or arguments that it does not know.
type Family = fn(&str, &[Value]) -> Option<Outcome>;

/// Calls a function; `method` tells that the first argument is the receiver. `left` is what is
/// left of the budget.
pub(crate) fn call(
    name: &str,
    args: &[Value],
    method: bool,
    left: &Cell<u64>,
    work: &Work,
) -> Outcome {
    work.before(name, args)?;
    let outcome = match strings::search(name, args, work) {
        Some(outcome) => outcome,
        None => dispatch(name, args, method),
    };
    if let Ok(result) = &outcome {
        work.after(name, result)?;
    }
    let cost = cost::cost(name, args, outcome.as_ref().ok());
    match left.get().checked_sub(cost) {
        Some(rest) => {
            left.set(rest);
            outcome
        }
        None => {
            left.set(0);
            Err(EvalError::TooExpensive)
        }
    }
}

fn dispatch(name: &str, args: &[Value], method: bool) -> Outcome {
    let families: [Family; 5] = [
        operators::call,
        convert::call,
        strings::call,
        collections::call,
        times::call,
    ];
    let is_operator = name.starts_with('_') && !matches!(name, "_==_" | "_!=_" | "_[_]" | "_[?_]");
    if is_operator && matches!(args, [Value::Null, _]) {
        return Err(EvalError::NoSuchOverloadFor(name.to_owned()));
    }
    for family in families {
        if let Some(outcome) = family(name, args) {
            return outcome;
        }
    }
    kubernetes::call(name, args, method).unwrap_or_else(|| Err(no_overload(name, args)))
}

fn no_overload(name: &str, args: &[Value]) -> EvalError {
    if name == "matches" || name.starts_with(['_', '@', '!', '-']) {
        return EvalError::NoSuchOverload;
    }
    let types: Vec<&str> = args.iter().map(Value::type_name).collect();
    EvalError::NoSuchOverloadFor(format!("{name}({})", types.join(", ")))
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
