//! Functions on lists, maps, sets and optionals.

use std::cmp::Ordering;
use std::rc::Rc;

use super::{Outcome, boolean, failed, int};
use crate::error::EvalError;
use crate::time::Duration;
use crate::value::Value;

pub(super) fn call(name: &str, args: &[Value]) -> Option<Outcome> {
    match (name, args) {
        ("isSorted", [Value::List(list)]) => {
            let pairs = list.items.windows(2);
            boolean(pairs.into_iter().all(|pair| {
                pair[0]
                    .compare(&pair[1])
                    .is_some_and(|order| order != Ordering::Greater)
            }))
        }
        ("sum", [Value::List(list)]) => Some(sum(&list.items)),
        ("min", [Value::List(list)]) => extreme(&list.items, Ordering::Less, "min"),
        ("max", [Value::List(list)]) => extreme(&list.items, Ordering::Greater, "max"),
        ("math.greatest", [Value::List(list)]) => {
            extreme(&list.items, Ordering::Greater, "math.greatest")
        }
        ("math.least", [Value::List(list)]) => extreme(&list.items, Ordering::Less, "math.least"),
        ("math.greatest", items) => extreme(items, Ordering::Greater, name),
        ("math.least", items) => extreme(items, Ordering::Less, name),
        ("indexOf", [Value::List(list), item]) => int(list
            .items
            .iter()
            .position(|known| known.equals(item))
            .map_or(-1, |i| i as i64)),
        ("lastIndexOf", [Value::List(list), item]) => int(list
            .items
            .iter()
            .rposition(|known| known.equals(item))
            .map_or(-1, |i| i as i64)),
        ("reverse", [Value::List(list)]) => {
            Some(Ok(Value::list(list.items.iter().rev().cloned().collect())))
        }
        ("distinct", [Value::List(list)]) => {
            let mut kept: Vec<Value> = Vec::new();
            for item in &list.items {
                if !kept.iter().any(|known| known.equals(item)) {
                    kept.push(item.clone());
                }
            }
            Some(Ok(Value::list(kept)))
        }
        ("flatten", [Value::List(list)]) => {
            let mut flat = Vec::new();
            for item in &list.items {
                match item {
                    Value::List(inner) => flat.extend(inner.items.iter().cloned()),
                    other => flat.push(other.clone()),
                }
            }
            Some(Ok(Value::list(flat)))
        }
        ("flatten", [Value::List(list), Value::Int(depth)]) => {
            if *depth < 0 {
                return failed("level must be non-negative");
            }
            let mut flat = Vec::new();
            flatten(&list.items, *depth, &mut flat);
            Some(Ok(Value::list(flat)))
        }
        ("sort", [Value::List(list)]) => Some(sorted(&list.items, &list.items)),
        ("@sortByAssociatedKeys", [Value::List(list), Value::List(keys)]) => {
            Some(sorted(&list.items, &keys.items))
        }
        ("lists.range", [Value::Int(count)]) => {
            const MOST: i64 = 1_000_000;
            match *count > MOST {
                true => Some(Err(EvalError::TooExpensive)),
                false => Some(Ok(Value::list((0..*count).map(Value::Int).collect()))),
            }
        }
        ("first", [Value::List(list)]) => Some(Ok(Value::Optional(
            list.items.first().cloned().map(Rc::new),
        ))),
        ("last", [Value::List(list)]) => {
            Some(Ok(Value::Optional(list.items.last().cloned().map(Rc::new))))
        }
        ("optional.unwrap" | "unwrapOpt", [Value::List(list)]) => Some(unwrapped(&list.items)),
        ("slice", [Value::List(list), Value::Int(from), Value::Int(to)]) => {
            let range = usize::try_from(*from).ok().zip(usize::try_from(*to).ok());
            if range.is_none() {
                return failed(format!(
                    "cannot slice({from}, {to}), negative indexes not supported"
                ));
            }
            if from > to {
                return failed(format!(
                    "cannot slice({from}, {to}), start index must be less than or equal to end \
                     index"
                ));
            }
            match range.and_then(|(from, to)| list.items.get(from..to)) {
                Some(items) => Some(Ok(Value::list(items.to_vec()))),
                None => failed(format!(
                    "cannot slice({from}, {to}), list is length {}",
                    list.items.len()
                )),
            }
        }
        ("sets.contains", [Value::List(left), Value::List(right)]) => {
            boolean(contains_all(&left.items, &right.items))
        }
        ("sets.intersects", [Value::List(left), Value::List(right)]) => boolean(
            left.items
                .iter()
                .any(|l| right.items.iter().any(|r| l.equals(r))),
        ),
        ("sets.equivalent", [Value::List(left), Value::List(right)]) => boolean(
            contains_all(&left.items, &right.items) && contains_all(&right.items, &left.items),
        ),
        ("optional.of", [value]) => Some(Ok(some(value))),
        ("optional.none", []) => Some(Ok(Value::Optional(None))),
        ("optional.ofNonZeroValue", [value]) => Some(Ok(match is_zero(value) {
            true => Value::Optional(None),
            false => some(value),
        })),
        ("hasValue", [Value::Optional(inner)]) => boolean(inner.is_some()),
        ("value", [Value::Optional(inner)]) => match inner {
            Some(inner) => Some(Ok((**inner).clone())),
            None => failed("optional.none() dereference"),
        },
        _ => None,
    }
}

fn flatten(items: &[Value], depth: i64, flat: &mut Vec<Value>) {
    for item in items {
        match item {
            Value::List(inner) if depth > 0 => flatten(&inner.items, depth - 1, flat),
            other => flat.push(other.clone()),
        }
    }
}

/// The items in the order of their keys.
fn sorted(items: &[Value], keys: &[Value]) -> Outcome {
    if items.len() != keys.len() {
        return Err(EvalError::other(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys \
             list, but got {} and {} elements respectively",
            items.len(),
            keys.len()
        )));
    }
    let Some(first) = keys.first() else {
        return Ok(Value::list(Vec::new()));
    };
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(EvalError::other("list elements must have the same type"));
    }
    if first.compare(first).is_none() && !matches!(first, Value::Double(_)) {
        return Err(EvalError::other("list elements must be comparable"));
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|left, right| {
        keys[*left]
            .compare(&keys[*right])
            .unwrap_or(Ordering::Equal)
    });
    Ok(Value::list(
        order.into_iter().map(|at| items[at].clone()).collect(),
    ))
}

fn unwrapped(items: &[Value]) -> Outcome {
    let mut values = Vec::new();
    for item in items {
        match item {
            Value::Optional(inner) => values.extend(inner.as_deref().cloned()),
            other => {
                return Err(EvalError::other(format!(
                    "value {} is not optional",
                    other.type_name()
                )));
            }
        }
    }
    Ok(Value::list(values))
}

fn some(value: &Value) -> Value {
    Value::Optional(Some(Rc::new(value.clone())))
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Int(int) => *int == 0,
        Value::Uint(uint) => *uint == 0,
        Value::Double(double) => *double == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.items.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Duration(duration) => duration.0 == 0,
        _ => false,
    }
}

fn contains_all(all: &[Value], some: &[Value]) -> bool {
    some.iter()
        .all(|item| all.iter().any(|known| known.equals(item)))
}

fn sum(items: &[Value]) -> Outcome {
    let mut total = match items.first() {
        None | Some(Value::Int(_)) => Value::Int(0),
        Some(Value::Uint(_)) => Value::Uint(0),
        Some(Value::Double(_)) => Value::Double(0.0),
        Some(Value::Duration(_)) => Value::Duration(Duration(0)),
        Some(_) => return Err(EvalError::NoSuchOverload),
    };
    for item in items {
        let pair = [total, item.clone()];
        total = super::operators::call("_+_", &pair).unwrap_or(Err(EvalError::NoSuchOverload))?;
    }
    Ok(total)
}

fn extreme(items: &[Value], wanted: Ordering, name: &str) -> Option<Outcome> {
    let Some((first, rest)) = items.split_first() else {
        return failed(format!("{name} called on empty list"));
    };
    let mut best = first;
    for item in rest {
        match item.compare(best) {
            Some(order) if order == wanted => best = item,
            Some(_) => {}
            None => return Some(Err(EvalError::NoSuchOverload)),
        }
    }
    Some(Ok(best.clone()))
}
