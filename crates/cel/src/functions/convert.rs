//! Conversions between types, and `size`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Outcome, failed, int, text};
use crate::time::{Duration, Timestamp};
use crate::value::Value;

pub(super) fn call(name: &str, args: &[Value]) -> Option<Outcome> {
    match (name, args) {
        ("size", [Value::String(value)]) => int(value.chars().count() as i64),
        ("size", [Value::Bytes(value)]) => int(value.len() as i64),
        ("size", [Value::List(list)]) => int(list.items.len() as i64),
        ("size", [Value::Map(map)]) => int(map.len() as i64),
        ("type", [value]) => Some(Ok(Value::Type(value.type_name().into()))),
        ("dyn", [value]) => Some(Ok(value.clone())),
        ("bool", [value]) => to_bool(value),
        ("int", [value]) => to_int(value),
        ("uint", [value]) => to_uint(value),
        ("double", [value]) => to_double(value),
        ("string", [value]) => to_string(value),
        ("bytes", [Value::String(value)]) => Some(Ok(Value::Bytes(value.as_bytes().into()))),
        ("bytes", [Value::Bytes(value)]) => Some(Ok(Value::Bytes(value.clone()))),
        ("timestamp", [Value::String(value)]) => match Timestamp::parse(value) {
            Some(timestamp) => Some(Ok(Value::Timestamp(timestamp))),
            None => conversion_error("string", "google.protobuf.Timestamp"),
        },
        ("timestamp", [Value::Timestamp(value)]) => Some(Ok(Value::Timestamp(*value))),
        ("timestamp", [Value::Int(seconds)]) => Some(Ok(Value::Timestamp(Timestamp {
            seconds: *seconds,
            nanos: 0,
        }))),
        ("duration", [Value::String(value)]) => match Duration::parse(value) {
            Some(duration) => Some(Ok(Value::Duration(duration))),
            None => conversion_error("string", "google.protobuf.Duration"),
        },
        ("duration", [Value::Int(_)]) => conversion_error("int", "google.protobuf.Duration"),
        ("duration", [Value::Duration(value)]) => Some(Ok(Value::Duration(*value))),
        ("base64.encode", [Value::Bytes(value)]) => text(STANDARD.encode(value)),
        ("base64.decode", [Value::String(value)]) => match STANDARD.decode(value.as_bytes()) {
            Ok(bytes) => Some(Ok(Value::Bytes(bytes.into()))),
            Err(error) => failed(error.to_string()),
        },
        _ => None,
    }
}

fn to_bool(value: &Value) -> Option<Outcome> {
    match value {
        Value::Bool(flag) => Some(Ok(Value::Bool(*flag))),
        Value::String(value) => match &**value {
            "true" | "TRUE" | "True" | "t" | "1" => Some(Ok(Value::Bool(true))),
            "false" | "FALSE" | "False" | "f" | "0" => Some(Ok(Value::Bool(false))),
            _ => failed("type conversion error from 'string' to 'bool'"),
        },
        _ => None,
    }
}

fn to_int(value: &Value) -> Option<Outcome> {
    let range = || failed("integer overflow");
    match value {
        Value::Int(value) => int(*value),
        Value::Uint(value) => i64::try_from(*value).map_or_else(|_| range(), int),
        Value::Double(value) => {
            // The bounds are those that a double can hold exactly.
            match *value > -9.223_372_036_854_775e18 && *value < 9.223_372_036_854_775e18 {
                true => int(*value as i64),
                false => range(),
            }
        }
        Value::String(value) => match value.parse() {
            Ok(value) => int(value),
            Err(_) => failed("type conversion error from 'string' to 'int'"),
        },
        Value::Timestamp(value) => int(value.seconds),
        Value::Duration(value) => int(value.0),
        _ => None,
    }
}

fn to_uint(value: &Value) -> Option<Outcome> {
    let range = || failed("unsigned integer overflow");
    let uint = |value: u64| Some(Ok(Value::Uint(value)));
    match value {
        Value::Uint(value) => uint(*value),
        Value::Int(value) => u64::try_from(*value).map_or_else(|_| range(), uint),
        Value::Double(value) => match *value >= 0.0 && *value < 1.844_674_407_370_955e19 {
            true => uint(*value as u64),
            false => range(),
        },
        Value::String(value) => match value.parse() {
            Ok(value) => uint(value),
            Err(_) => failed("type conversion error from 'string' to 'uint'"),
        },
        _ => None,
    }
}

fn to_double(value: &Value) -> Option<Outcome> {
    let double = |value: f64| Some(Ok(Value::Double(value)));
    match value {
        Value::Double(value) => double(*value),
        Value::Int(value) => double(*value as f64),
        Value::Uint(value) => double(*value as f64),
        Value::String(value) => match value.parse() {
            Ok(value) => double(value),
            Err(_) => failed("type conversion error from 'string' to 'double'"),
        },
        _ => None,
    }
}

fn to_string(value: &Value) -> Option<Outcome> {
    match value {
        Value::String(value) => text(value),
        Value::Bool(value) => text(value.to_string()),
        Value::Int(value) => text(value.to_string()),
        Value::Uint(value) => text(value.to_string()),
        Value::Double(value) => text(double_text(*value)),
        Value::Bytes(value) => match std::str::from_utf8(value) {
            Ok(value) => text(value),
            Err(_) => failed("invalid UTF-8 in bytes, cannot convert to string"),
        },
        Value::Timestamp(value) => text(value.to_string()),
        Value::Duration(value) => text(value.to_string()),
        Value::Ip(value) => text(value.to_string()),
        Value::Cidr(value) => text(value.to_string()),
        _ => None,
    }
}

/// Go's shortest form with an exponent where that is customary.
pub(super) fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let exponent = match value == 0.0 {
        true => 0,
        false => value.abs().log10().floor() as i32,
    };
    if (-4..21).contains(&exponent) {
        return value.to_string();
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((mantissa, power)) => {
            let (sign, digits) = match power.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', power),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

fn conversion_error(from: &str, to: &str) -> Option<Outcome> {
    failed(format!("type conversion error from '{from}' to '{to}'"))
}
