//! `eq`, `lt` and their kin.

use std::rc::Rc;

use super::operand::Operand;
use crate::error::FuncError;
use crate::gofmt;
use crate::meter::Meter;
use crate::types::{GoType, Kind};
use crate::value::Value;

const BAD_TYPE: &str = "invalid type for comparison";

/// The sorts of values that compare with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basic {
    None,
    Bool,
    Complex,
    Int,
    Float,
    String,
    Uint,
}

fn basic(value: &Value) -> Basic {
    match value.kind() {
        Kind::Bool => Basic::Bool,
        Kind::Float32 | Kind::Float64 => Basic::Float,
        Kind::Complex128 => Basic::Complex,
        Kind::String => Basic::String,
        kind if kind.is_signed() => Basic::Int,
        kind if kind.is_unsigned() => Basic::Uint,
        _ => Basic::None,
    }
}

fn int(value: &Value) -> i64 {
    value.as_int().unwrap_or(0)
}

fn uint(value: &Value) -> u64 {
    value.as_uint().unwrap_or(0)
}

fn float(value: &Value) -> f64 {
    value.basic().as_float().unwrap_or(0.0)
}

fn incompatible(first: &Value, second: &Value) -> FuncError {
    let (first, second) = (first.type_name(), second.type_name());
    FuncError::new(format!(
        "incompatible types for comparison: {first} and {second}"
    ))
}

/// Whether the first equals any of the others.
pub(super) fn eq(args: Vec<Operand>, meter: &Meter<'_>) -> Result<bool, FuncError> {
    let mut args = args.into_iter().map(Operand::inside);
    let first = args.next().unwrap_or(Operand::INVALID).value;
    if args.len() == 0 {
        return Err(FuncError::new("missing argument for comparison"));
    }
    for other in args {
        if equal(&first, &other.value, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn equal(first: &Value, second: &Value, meter: &Meter<'_>) -> Result<bool, FuncError> {
    let (kind, other) = (basic(first), basic(second));
    match (kind, other) {
        (Basic::Int, Basic::Uint) => Ok(u64::try_from(int(first)) == Ok(uint(second))),
        (Basic::Uint, Basic::Int) => Ok(u64::try_from(int(second)) == Ok(uint(first))),
        _ if kind != other => match (first, second) {
            (Value::Nil, _) | (_, Value::Nil) => Ok(false),
            _ => Err(incompatible(first, second)),
        },
        (Basic::Bool, _) => Ok(first.basic().as_bool() == second.basic().as_bool()),
        (Basic::Int, _) => Ok(int(first) == int(second)),
        (Basic::Uint, _) => Ok(uint(first) == uint(second)),
        (Basic::Float, _) => Ok(float(first) == float(second)),
        (Basic::String, _) => Ok(first.basic().as_text() == second.basic().as_text()),
        (Basic::Complex, _) => match (first, second) {
            (Value::Complex128(a, b), Value::Complex128(c, d)) => Ok(a == c && b == d),
            _ => Ok(false),
        },
        (Basic::None, _) => equal_others(first, second, meter),
    }
}

fn shown(value: &Value, meter: &Meter<'_>) -> Result<String, FuncError> {
    let text = gofmt::sprintf(b"%s", std::slice::from_ref(value), meter)?;
    Ok(text.to_str_lossy().into_owned())
}

/// Values that are neither numbers nor strings nor booleans.
fn equal_others(first: &Value, second: &Value, meter: &Meter<'_>) -> Result<bool, FuncError> {
    let (kind, other) = (first.kind(), second.kind());
    if kind != other && kind != Kind::Invalid && other != Kind::Invalid {
        let shown_first = shown(first, meter)?;
        let shown_second = gofmt::sprint(std::slice::from_ref(second), meter)?;
        let (first, second) = (first.type_name(), second.type_name());
        return Err(FuncError::new(format!(
            "non-comparable types {shown_first}: {first}, {second}: {shown_second}"
        )));
    }
    if first.is_nil() || second.is_nil() {
        return Ok(first.is_nil() == second.is_nil());
    }
    let comparable = match (first, second) {
        (Value::Object(first), Value::Object(second)) => {
            let is_pointer = |value: &GoType| matches!(value, GoType::Pointer(_));
            if first.go_type() != second.go_type() {
                Some(false)
            } else if is_pointer(&first.go_type()) {
                Some(Rc::ptr_eq(first, second))
            } else {
                first.equals(second.as_ref())
            }
        }
        _ => None,
    };
    match comparable {
        Some(result) => Ok(result),
        None => {
            let (text, go_type) = (shown(second, meter)?, second.type_name());
            Err(FuncError::new(format!(
                "non-comparable type {text}: {go_type}"
            )))
        }
    }
}

/// `first < second`.
pub(super) fn less(first: Operand, second: Operand) -> Result<bool, FuncError> {
    let (first, second) = (first.inside().value, second.inside().value);
    let (kind, other) = (basic(&first), basic(&second));
    if kind == Basic::None || other == Basic::None {
        return Err(FuncError::new(BAD_TYPE));
    }
    match (kind, other) {
        (Basic::Int, Basic::Uint) => {
            Ok(int(&first) < 0 || int(&first).cast_unsigned() < uint(&second))
        }
        (Basic::Uint, Basic::Int) => {
            Ok(int(&second) >= 0 && uint(&first) < int(&second).cast_unsigned())
        }
        _ if kind != other => Err(incompatible(&first, &second)),
        (Basic::Int, _) => Ok(int(&first) < int(&second)),
        (Basic::Uint, _) => Ok(uint(&first) < uint(&second)),
        (Basic::Float, _) => Ok(float(&first) < float(&second)),
        (Basic::String, _) => Ok(first.basic().as_text() < second.basic().as_text()),
        _ => Err(FuncError::new(BAD_TYPE)),
    }
}

/// `first <= second`.
pub(super) fn less_or_equal(
    first: Operand,
    second: Operand,
    meter: &Meter<'_>,
) -> Result<bool, FuncError> {
    if less(first.clone(), second.clone())? {
        return Ok(true);
    }
    eq(vec![first, second], meter)
}
