//! What many functions need: Go's idea of text, equality and panics.

use everflow_gotemplate::{FuncError, GoStr, GoType, Value, gofmt};

/// How deep values may nest before walks over them stop.
pub(crate) const MAX_NESTING: usize = 500;

/// Reads or makes at most this many items or bytes in one call, so that a hostile template cannot
/// take all memory.
pub(crate) const MAX_ITEMS: i64 = 16 << 20;
/// The longest text one call may make.
pub(crate) const MAX_TEXT: usize = 256 << 20;

pub(crate) fn fail<T>(message: impl Into<String>) -> Result<T, FuncError> {
    Err(FuncError::new(message))
}

/// Go's panic when a nil interface is used as a value.
pub(crate) fn nil_dereference() -> FuncError {
    FuncError::new("runtime error: invalid memory address or nil pointer dereference")
}

/// A value as `%v` prints it.
pub(crate) fn display(value: &Value) -> Result<GoStr, FuncError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        _ => gofmt::sprint(std::slice::from_ref(value)),
    }
}

/// A value as text: byte slices are taken as text, the rest as `%v` prints it.
pub(crate) fn to_text(value: &Value) -> Result<GoStr, FuncError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::List(list) if list.go_type() == GoType::BYTES => {
            Ok(GoStr::from_vec(value.as_byte_slice().unwrap_or_default()))
        }
        _ => display(value),
    }
}

/// The items of a list as texts without nils; anything else is one text.
pub(crate) fn to_texts(value: &Value) -> Result<Vec<GoStr>, FuncError> {
    match value {
        Value::List(list) => list
            .items()
            .iter()
            .filter(|item| !matches!(item, Value::Nil))
            .map(to_text)
            .collect(),
        Value::Nil => Ok(Vec::new()),
        other => Ok(vec![to_text(other)?]),
    }
}

/// Go's `reflect.DeepEqual`. Values that nest too deep count as different.
pub(crate) fn deep_equal(left: &Value, right: &Value) -> bool {
    equal_at(left, right, 0)
}

fn equal_at(left: &Value, right: &Value, depth: usize) -> bool {
    if depth > MAX_NESTING || left.go_type() != right.go_type() {
        return false;
    }
    match (left, right) {
        (Value::Nil, Value::Nil) | (Value::NilPointer(_), Value::NilPointer(_)) => true,
        (Value::Bool(l), Value::Bool(r)) => l == r,
        (Value::String(l), Value::String(r)) => l == r,
        (Value::Complex128(a, b), Value::Complex128(c, d)) => a == c && b == d,
        (Value::List(l), Value::List(r)) => {
            l.is_nil() == r.is_nil()
                && l.len() == r.len()
                && (l.is_same(r)
                    || l.items()
                        .iter()
                        .zip(r.items())
                        .all(|(l, r)| equal_at(l, r, depth + 1)))
        }
        (Value::Map(l), Value::Map(r)) => {
            l.is_nil() == r.is_nil()
                && (l.is_same(r)
                    || l.len() == r.len()
                        && l.snapshot().iter().all(|(key, value)| {
                            r.get(key)
                                .is_some_and(|other| equal_at(value, &other, depth + 1))
                        }))
        }
        (Value::Object(l), Value::Object(r)) => {
            std::rc::Rc::ptr_eq(l, r) || objects_equal(left, right, depth)
        }
        (Value::Func(_), Value::Func(_)) => false,
        _ => match (left.as_float(), right.as_float()) {
            (Some(l), Some(r)) => l == r,
            _ => left.as_int() == right.as_int() && left.as_uint() == right.as_uint(),
        },
    }
}

fn objects_equal(left: &Value, right: &Value, depth: usize) -> bool {
    let (Value::Object(l), Value::Object(r)) = (left, right) else {
        return false;
    };
    let (fields, others) = (l.fields(), r.fields());
    if fields.is_empty() {
        return l.equals(r.as_ref()).unwrap_or(false);
    }
    fields.len() == others.len()
        && fields
            .iter()
            .zip(&others)
            .all(|((_, l), (_, r))| equal_at(l, r, depth + 1))
}
