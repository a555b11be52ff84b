//! What many functions need: Go's idea of text, equality and panics.

use everflow_gotemplate::{
    BYTES_OF_A_STEP, FuncError, FuncResult, GoStr, GoType, Held, ITEM_BYTES, List, Map, Meter,
    Value, gofmt, text_bytes,
};

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

/// The result, or what is made of the complaint; only what was used up stays an error.
pub(crate) fn or_told(
    result: Result<Value, FuncError>,
    told: impl FnOnce(String) -> Value,
) -> FuncResult {
    match result {
        Err(error) if error.exceeded().is_none() => Ok(told(error.to_string())),
        other => other,
    }
}

/// Go's panic when a nil interface is used as a value.
pub(crate) fn nil_dereference() -> FuncError {
    FuncError::new("runtime error: invalid memory address or nil pointer dereference")
}

/// A value as `%v` prints it.
pub(crate) fn display(value: &Value, meter: &Meter<'_>) -> Result<GoStr, FuncError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        _ => {
            let text = gofmt::sprint(std::slice::from_ref(value), meter)?;
            meter.charge(text_bytes(text.len()))?;
            Ok(text)
        }
    }
}

/// A value as text: byte slices are taken as text, the rest as `%v` prints it.
pub(crate) fn to_text(value: &Value, meter: &Meter<'_>) -> Result<GoStr, FuncError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::List(list) if list.go_type() == GoType::BYTES => {
            meter.charge(text_bytes(list.len()))?;
            Ok(GoStr::from_bytes(
                &value.as_byte_slice().unwrap_or_default(),
            ))
        }
        _ => display(value, meter),
    }
}

/// The items of a list as texts without nils; anything else is one text.
pub(crate) fn to_texts(value: &Value, meter: &Meter<'_>) -> Result<Vec<GoStr>, FuncError> {
    match value {
        Value::List(list) => {
            meter.charge(list.len() * ITEM_BYTES)?;
            meter
                .items(list)?
                .iter()
                .filter(|item| !matches!(item, Value::Nil))
                .map(|item| to_text(item, meter))
                .collect()
        }
        Value::Nil => Ok(Vec::new()),
        other => Ok(vec![to_text(other, meter)?]),
    }
}

/// Texts with a separator between them.
pub(crate) fn joined(
    texts: &[GoStr],
    separator: &[u8],
    meter: &Meter<'_>,
) -> Result<Value, FuncError> {
    let texts_length: usize = texts.iter().map(GoStr::len).sum();
    let gaps = texts.len().saturating_sub(1);
    let length = texts_length.saturating_add(gaps.saturating_mul(separator.len()));
    let _held = meter.hold(length.saturating_mul(2))?;
    let parts: Vec<&[u8]> = texts.iter().map(GoStr::as_bytes).collect();
    Ok(Value::String(GoStr::from_vec(parts.join(separator))))
}

/// Text that is charged while it grows.
pub(crate) struct Output<'m> {
    bytes: Vec<u8>,
    held: Held<'m>,
}

impl<'m> Output<'m> {
    pub(crate) fn new(capacity: usize, meter: &'m Meter<'_>) -> Result<Self, FuncError> {
        let mut held = meter.nothing();
        held.grow_to(capacity)?;
        Ok(Output {
            bytes: Vec::with_capacity(capacity),
            held,
        })
    }

    pub(crate) fn push(&mut self, more: &[u8]) -> Result<(), FuncError> {
        self.held
            .grow_to(self.bytes.len().saturating_add(more.len()))?;
        self.bytes.extend_from_slice(more);
        Ok(())
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Texts that are charged while they are collected.
pub(crate) struct Parts<'m> {
    pub(crate) values: Vec<Value>,
    meter: &'m Meter<'m>,
}

impl<'m> Parts<'m> {
    pub(crate) fn new(meter: &'m Meter<'m>) -> Self {
        Parts {
            values: Vec::new(),
            meter,
        }
    }

    pub(crate) fn push(&mut self, part: &[u8]) -> Result<(), FuncError> {
        self.meter.steps(1)?;
        // The list may have grown to twice its size.
        self.meter.charge(2 * ITEM_BYTES + text_bytes(part.len()))?;
        self.values.push(Value::String(GoStr::from_bytes(part)));
        Ok(())
    }
}

/// Go's `reflect.DeepEqual`. Values that nest too deep count as different.
pub(crate) fn deep_equal(
    left: &Value,
    right: &Value,
    meter: &Meter<'_>,
) -> Result<bool, FuncError> {
    equal_at(left, right, 0, meter)
}

fn equal_at(
    left: &Value,
    right: &Value,
    depth: usize,
    meter: &Meter<'_>,
) -> Result<bool, FuncError> {
    meter.steps(1)?;
    if depth > MAX_NESTING || left.go_type() != right.go_type() {
        return Ok(false);
    }
    Ok(match (left, right) {
        (Value::Nil, Value::Nil) | (Value::NilPointer(_), Value::NilPointer(_)) => true,
        (Value::Bool(l), Value::Bool(r)) => l == r,
        (Value::String(l), Value::String(r)) => {
            let compared = if l.len() == r.len() { l.len() } else { 0 };
            meter.steps((compared / BYTES_OF_A_STEP) as u64)?;
            l == r
        }
        (Value::Complex128(a, b), Value::Complex128(c, d)) => a == c && b == d,
        (Value::List(l), Value::List(r)) => lists_equal(l, r, depth, meter)?,
        (Value::Map(l), Value::Map(r)) => maps_equal(l, r, depth, meter)?,
        (Value::Object(l), Value::Object(r)) => {
            std::rc::Rc::ptr_eq(l, r) || objects_equal(left, right, depth, meter)?
        }
        (Value::Func(_), Value::Func(_)) => false,
        _ => match (left.as_float(), right.as_float()) {
            (Some(l), Some(r)) => l == r,
            _ => left.as_int() == right.as_int() && left.as_uint() == right.as_uint(),
        },
    })
}

fn lists_equal(l: &List, r: &List, depth: usize, meter: &Meter<'_>) -> Result<bool, FuncError> {
    if l.is_nil() != r.is_nil() || l.len() != r.len() {
        return Ok(false);
    }
    if l.is_same(r) {
        return Ok(true);
    }
    for (left, right) in meter.items(l)?.iter().zip(meter.items(r)?) {
        if !equal_at(left, right, depth + 1, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps_equal(l: &Map, r: &Map, depth: usize, meter: &Meter<'_>) -> Result<bool, FuncError> {
    if l.is_nil() != r.is_nil() {
        return Ok(false);
    }
    if l.is_same(r) {
        return Ok(true);
    }
    if l.len() != r.len() {
        return Ok(false);
    }
    for (key, value) in l.read().iter() {
        let Some(other) = r.get(key) else {
            return Ok(false);
        };
        if !equal_at(value, &other, depth + 1, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn objects_equal(
    left: &Value,
    right: &Value,
    depth: usize,
    meter: &Meter<'_>,
) -> Result<bool, FuncError> {
    let (Value::Object(l), Value::Object(r)) = (left, right) else {
        return Ok(false);
    };
    let (fields, others) = (l.fields(), r.fields());
    if fields.is_empty() {
        return Ok(l.equals(r.as_ref()).unwrap_or(false));
    }
    if fields.len() != others.len() {
        return Ok(false);
    }
    for ((_, left), (_, right)) in fields.iter().zip(&others) {
        if !equal_at(left, right, depth + 1, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}
