//! `len`, `index` and `slice`.

use super::builtin::prepare;
use super::operand::{Form, Operand, map_element};
use crate::error::FuncError;
use crate::text::GoStr;
use crate::types::{GoType, Kind};
use crate::value::Value;

type Indexed = Result<Operand, FuncError>;

/// The value behind pointers and names that indexing looks at; an error text when it is nil.
fn behind(operand: &Operand, action: &str) -> Result<Value, FuncError> {
    let nil = || FuncError::new(format!("{action} of nil pointer"));
    if operand.is_nil_interface() {
        return Err(nil());
    }
    match &operand.value {
        Value::NilPointer(_) => Err(nil()),
        value => Ok(value.basic()),
    }
}

fn int(n: usize) -> Value {
    Value::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

pub(super) fn len(item: &Operand) -> Indexed {
    let value = behind(item, "len")?;
    let length = match &value {
        Value::String(text) => text.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Nil => {
            return Err(FuncError::new(
                "reflect: call of reflect.Value.Type on zero Value",
            ));
        }
        _ => {
            let go_type = item.value.type_name();
            let go_type = go_type.trim_start_matches('*');
            return Err(format!("len of type {go_type}").into());
        }
    };
    Ok(Operand::concrete(int(length)))
}

/// A position in a slice or string. An interface is no number, whatever it holds.
fn position(index: &Operand, capacity: usize) -> Result<usize, FuncError> {
    let number = match (index.value.as_int(), index.value.as_uint()) {
        _ if index.form == Form::Interface => {
            return Err(FuncError::new(
                "cannot index slice/array with type interface {}",
            ));
        }
        (Some(n), _) => n,
        (_, Some(n)) => n.cast_signed(),
        _ if index.value.kind() == Kind::Invalid => {
            return Err(FuncError::new("cannot index slice/array with nil"));
        }
        _ => {
            let go_type = index.value.type_name();
            return Err(format!("cannot index slice/array with type {go_type}").into());
        }
    };
    match usize::try_from(number) {
        Ok(place) if place <= capacity => Ok(place),
        _ => Err(format!("index out of range: {number}").into()),
    }
}

/// `index x 1 2` is `x[1][2]`.
pub(super) fn index(args: Vec<Operand>) -> Indexed {
    let mut args = args.into_iter();
    let mut item = args.next().unwrap_or(Operand::INVALID).inside();
    if item.is_invalid() {
        return Err(FuncError::new("index of untyped nil"));
    }
    for key in args {
        item = index_once(&item, key.inside())?;
    }
    Ok(item)
}

fn index_once(item: &Operand, key: Operand) -> Indexed {
    match &behind(item, "index")? {
        Value::List(list) => {
            let place = position(&key, list.len())?;
            let element = list.go_type().element().unwrap_or(GoType::Any);
            match list.get(place) {
                Some(value) => Ok(Operand::in_place(value.clone(), element)),
                None => Err(FuncError::new("reflect: slice index out of range")),
            }
        }
        Value::String(text) => match text.as_bytes().get(position(&key, text.len())?) {
            Some(byte) => Ok(Operand::concrete(Value::Uint8(*byte))),
            None => Err(FuncError::new("reflect: string index out of range")),
        },
        Value::Map(map) => {
            let Value::String(key) = prepare(key, GoType::String)? else {
                return Err(FuncError::new("map keys are strings"));
            };
            let element = map.go_type().element().unwrap_or(GoType::Any);
            Ok(map_element(map, key.as_bytes())
                .unwrap_or_else(|| Operand::of_type(Value::zero(element), element)))
        }
        _ => {
            let go_type = item.value.type_name();
            let go_type = go_type.trim_start_matches('*');
            Err(format!("can't index item of type {go_type}").into())
        }
    }
}

/// `slice x 1 2` is `x[1:2]`.
pub(super) fn slice(args: Vec<Operand>) -> Indexed {
    let mut args = args.into_iter();
    let item = args.next().unwrap_or(Operand::INVALID).inside();
    if item.is_invalid() {
        return Err(FuncError::new("slice of untyped nil"));
    }
    let value = behind(&item, "slice")?;
    let indexes: Vec<Operand> = args.collect();
    if indexes.len() > 3 {
        return Err(format!("too many slice indexes: {}", indexes.len()).into());
    }
    let (length, capacity) = match &value {
        Value::String(_) if indexes.len() == 3 => {
            return Err(FuncError::new("cannot 3-index slice a string"));
        }
        Value::String(text) => (text.len(), text.len()),
        Value::List(list) => (list.len(), list.capacity()),
        _ => {
            let go_type = item.value.type_name();
            let go_type = go_type.trim_start_matches('*');
            return Err(format!("can't slice item of type {go_type}").into());
        }
    };
    let mut bounds = [0, length, capacity];
    for (bound, index) in bounds.iter_mut().zip(&indexes) {
        *bound = position(index, capacity)?;
    }
    let [from, to, most] = bounds;
    if from > to {
        return Err(format!("invalid slice index: {from} > {to}").into());
    }
    if to > most {
        return Err(format!("invalid slice index: {to} > {most}").into());
    }
    let out_of_range = || FuncError::new("reflect.Value.Slice: slice index out of bounds");
    match &value {
        Value::String(text) => {
            let part = text.as_bytes().get(from..to).ok_or_else(out_of_range)?;
            Ok(Operand::concrete(Value::String(GoStr::from_bytes(part))))
        }
        Value::List(list) => {
            let part = list.slice(from, to).ok_or_else(out_of_range)?;
            Ok(Operand::concrete(Value::List(part)))
        }
        _ => Err(out_of_range()),
    }
}
