//! What calls cost when they are evaluated, as the API server counts it.

use crate::value::Value;

/// The cost of a call that was made.
pub(crate) fn cost(name: &str, args: &[Value], result: Option<&Value>) -> u64 {
    let at = |index: usize| args.get(index).map_or(1, size);
    let tenth = |size: u64| size.div_ceil(10);
    let fifth = |size: u64| size.div_ceil(5);
    let quarter = |size: u64| size.div_ceil(4);
    let made = || result.map_or(0, size);
    match name {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            args.first().map_or(0, traversal)
        }
        "startsWith" | "endsWith" | "strings.quote" | "format" | "url" | "lowerAscii"
        | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR" | "quantity"
        | "isQuantity" | "semver" | "isSemver" => tenth(at(0)),
        "bytes" | "string" if matches!(args, [Value::String(_) | Value::Bytes(_)]) => {
            let same = matches!(
                (name, args),
                ("string", [Value::String(_)]) | ("bytes", [Value::Bytes(_)])
            );
            if same { 1 } else { tenth(at(0)) }
        }
        "ip" => match args {
            [Value::Cidr(_)] => 1,
            _ => tenth(at(0)),
        },
        "ip.isCanonical" | "replace" | "split" => fifth(at(0)),
        "join" => fifth(made()),
        "@in" => match args {
            [_, Value::List(list)] => list.items.len() as u64,
            _ => 1,
        },
        "_==_" | "_!=_" => match args.first() {
            Some(
                Value::Quantity(_)
                | Value::Ip(_)
                | Value::Cidr(_)
                | Value::Format(_)
                | Value::Url(_)
                | Value::Semver(_),
            ) => 1,
            _ => tenth(at(0).min(at(1))),
        },
        "_<_" | "_<=_" | "_>_" | "_>=_" => match args.first() {
            Some(Value::String(_) | Value::Bytes(_)) => tenth(at(0).min(at(1))),
            _ => 1,
        },
        "_+_" => match args.first() {
            Some(Value::String(_) | Value::Bytes(_)) => tenth(at(0) + at(1)),
            _ => 1,
        },
        "matches" | "find" | "findAll" => tenth(at(0) + 1) * quarter(at(1)),
        "contains" => tenth(at(0)) * tenth(at(1)),
        "validate" => tenth(at(1) + 1) * 32,
        "containsIP" | "containsCIDR" => {
            let mut cost = 1;
            if name == "containsCIDR" {
                cost += 2;
            }
            if let Some(Value::String(_)) = args.get(1) {
                cost += tenth(at(1));
            }
            cost
        }
        "sets.contains" | "sets.intersects" => 1 + at(0) * at(1),
        "sets.equivalent" => 1 + 2 * at(0) * at(1),
        "slice" | "lists.range" => 11 + made(),
        "reverse" if matches!(args.first(), Some(Value::List(_))) => 11 + made(),
        "flatten" => 11 + at(0),
        "distinct" | "sort" => 11 + self_compare(args.first()),
        "@sortByAssociatedKeys" => 11 + self_compare(args.get(1)),
        _ => 1,
    }
}

fn self_compare(list: Option<&Value>) -> u64 {
    let Some(Value::List(list)) = list else {
        return 0;
    };
    let count = list.items.len() as u64;
    let tenths = match list.items.first() {
        Some(Value::String(_) | Value::Bytes(_)) => 21,
        _ => 20,
    };
    count * count * tenths / 10
}

fn size(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.chars().count() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::List(list) => list.items.len() as u64,
        Value::Map(map) => map.len() as u64,
        Value::Optional(Some(inner)) => size(inner),
        _ => 1,
    }
}

/// The cost of walking over everything in a value.
fn traversal(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 / 10,
        Value::Bytes(bytes) => bytes.len() as u64 / 10,
        Value::List(list) => list.items.iter().map(traversal).sum(),
        Value::Map(map) => map
            .iter()
            .map(|(key, value)| traversal(&key.to_value()) + traversal(value))
            .sum(),
        _ => 1,
    }
}
