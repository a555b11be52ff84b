//! Arithmetic, comparison, indexing.

use std::cmp::Ordering;
use std::rc::Rc;

use super::{Outcome, boolean};
use crate::error::EvalError;
use crate::eval::list_like;
use crate::time::Duration;
use crate::value::{Key, List, ListKind, Value, item_key};

pub(super) fn call(name: &str, args: &[Value]) -> Option<Outcome> {
    match (name, args) {
        ("_==_", [left, right]) => boolean(left.equals(right)),
        ("_!=_", [left, right]) => boolean(!left.equals(right)),
        ("_<_", [left, right]) => Some(ordered(left, right, |order| order == Ordering::Less)),
        ("_<=_", [left, right]) => Some(ordered(left, right, |order| order != Ordering::Greater)),
        ("_>_", [left, right]) => Some(ordered(left, right, |order| order == Ordering::Greater)),
        ("_>=_", [left, right]) => Some(ordered(left, right, |order| order != Ordering::Less)),
        ("!_", [Value::Bool(flag)]) => boolean(!flag),
        ("-_", [Value::Int(value)]) => Some(checked(value.checked_neg().map(Value::Int))),
        ("-_", [Value::Double(value)]) => Some(Ok(Value::Double(-value))),
        ("_+_", [left, right]) => Some(add(left, right)),
        ("_-_", [left, right]) => Some(subtract(left, right)),
        ("_*_", [left, right]) => Some(multiply(left, right)),
        ("_/_", [left, right]) => Some(divide(left, right)),
        ("_%_", [left, right]) => Some(remainder(left, right)),
        ("@in", [item, collection]) => Some(contains(item, collection)),
        ("_[_]", [collection, index]) => Some(at(collection, index)),
        ("_[?_]", [collection, index]) => Some(optional_at(collection, index)),
        _ => None,
    }
}

fn checked(value: Option<Value>) -> Outcome {
    value.ok_or(EvalError::Overflow)
}

fn unsigned(value: Option<u64>) -> Outcome {
    value.map(Value::Uint).ok_or(EvalError::UintOverflow)
}

fn ordered(left: &Value, right: &Value, holds: fn(Ordering) -> bool) -> Outcome {
    let comparable = matches!(
        (left, right),
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_)
        ) | (Value::Bool(_), Value::Bool(_))
            | (Value::String(_), Value::String(_))
            | (Value::Bytes(_), Value::Bytes(_))
            | (Value::Timestamp(_), Value::Timestamp(_))
            | (Value::Duration(_), Value::Duration(_))
    );
    if !comparable {
        return Err(EvalError::NoSuchOverload);
    }
    match left.compare(right) {
        Some(order) => Ok(Value::Bool(holds(order))),
        None => Err(EvalError::other("NaN values cannot be ordered")),
    }
}

fn add(left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Int(l), Value::Int(r)) => checked(l.checked_add(*r).map(Value::Int)),
        (Value::Uint(l), Value::Uint(r)) => unsigned(l.checked_add(*r)),
        (Value::Double(l), Value::Double(r)) => Ok(Value::Double(l + r)),
        (Value::String(l), Value::String(r)) => Ok(Value::string(format!("{l}{r}"))),
        (Value::Bytes(l), Value::Bytes(r)) => Ok(Value::Bytes([&**l, &**r].concat().into())),
        (Value::List(l), Value::List(r)) => Ok(concatenated(l, r)),
        (Value::Timestamp(t), Value::Duration(d)) | (Value::Duration(d), Value::Timestamp(t)) => {
            checked(t.plus(*d).map(Value::Timestamp))
        }
        (Value::Duration(l), Value::Duration(r)) => checked(
            l.0.checked_add(r.0)
                .map(|sum| Value::Duration(Duration(sum))),
        ),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// Sets and maps keep one of each item, the later one.
fn concatenated(left: &List, right: &List) -> Value {
    let mut items = left.items.clone();
    for item in &right.items {
        let same = match &left.kind {
            ListKind::Atomic => None,
            ListKind::Set => items.iter().position(|known| known.equals(item)),
            ListKind::Map(keys) => {
                let key = item_key(item, keys);
                items.iter().position(|known| {
                    item_key(known, keys)
                        .iter()
                        .zip(&key)
                        .all(|pair| match pair {
                            (Some(l), Some(r)) => l.equals(r),
                            (l, r) => l.is_none() && r.is_none(),
                        })
                })
            }
        };
        match same {
            Some(index) => items[index] = item.clone(),
            None => items.push(item.clone()),
        }
    }
    list_like(items, left)
}

fn subtract(left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Int(l), Value::Int(r)) => checked(l.checked_sub(*r).map(Value::Int)),
        (Value::Uint(l), Value::Uint(r)) => unsigned(l.checked_sub(*r)),
        (Value::Double(l), Value::Double(r)) => Ok(Value::Double(l - r)),
        (Value::Timestamp(l), Value::Timestamp(r)) => checked(l.minus(*r).map(Value::Duration)),
        (Value::Timestamp(t), Value::Duration(d)) => checked(
            d.0.checked_neg()
                .and_then(|negated| t.plus(Duration(negated)))
                .map(Value::Timestamp),
        ),
        (Value::Duration(l), Value::Duration(r)) => checked(
            l.0.checked_sub(r.0)
                .map(|rest| Value::Duration(Duration(rest))),
        ),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn multiply(left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Int(l), Value::Int(r)) => checked(l.checked_mul(*r).map(Value::Int)),
        (Value::Uint(l), Value::Uint(r)) => unsigned(l.checked_mul(*r)),
        (Value::Double(l), Value::Double(r)) => Ok(Value::Double(l * r)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn divide(left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            Err(EvalError::DivisionByZero)
        }
        (Value::Int(l), Value::Int(r)) => checked(l.checked_div(*r).map(Value::Int)),
        (Value::Uint(l), Value::Uint(r)) => checked(l.checked_div(*r).map(Value::Uint)),
        (Value::Double(l), Value::Double(r)) => Ok(Value::Double(l / r)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn remainder(left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            Err(EvalError::ModulusByZero)
        }
        (Value::Int(l), Value::Int(r)) => checked(l.checked_rem(*r).map(Value::Int)),
        (Value::Uint(l), Value::Uint(r)) => checked(l.checked_rem(*r).map(Value::Uint)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn contains(item: &Value, collection: &Value) -> Outcome {
    match collection {
        Value::List(list) => Ok(Value::Bool(
            list.items.iter().any(|known| known.equals(item)),
        )),
        Value::Map(map) => Ok(Value::Bool(
            item.to_key().is_some_and(|key| map.contains_key(&key)),
        )),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn at(collection: &Value, index: &Value) -> Outcome {
    match collection {
        Value::Optional(_) => optional_at(collection, index),
        Value::List(list) => {
            let Some(Key::Int(index)) = index.to_key() else {
                return Err(EvalError::NoSuchOverload);
            };
            usize::try_from(index)
                .ok()
                .and_then(|index| list.items.get(index))
                .cloned()
                .ok_or(EvalError::IndexOutOfBounds(index))
        }
        Value::Map(map) => {
            let missing = || EvalError::NoSuchKey(shown(index));
            let key = index.to_key().ok_or_else(missing)?;
            map.get(&key).cloned().ok_or_else(missing)
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Uint(uint) => uint.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Double(double) => double.to_string(),
        other => other.type_name().to_owned(),
    }
}

fn optional_at(collection: &Value, index: &Value) -> Outcome {
    let inner = match collection {
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => inner,
        other => other,
    };
    match at(inner, index) {
        Ok(value) => Ok(Value::Optional(Some(Rc::new(value)))),
        Err(EvalError::NoSuchKey(_) | EvalError::IndexOutOfBounds(_)) => Ok(Value::Optional(None)),
        Err(error) => Err(error),
    }
}
