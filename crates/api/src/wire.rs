//! How values are read from JSON and written back.
//!
//! What is read can be written back exactly: fields that nobody knows, and known ones in another
//! spelling than ours (`60s` for one minute, an explicit `false`, an explicit `null`), are kept in
//! the `extra` of the record around them.

use std::collections::BTreeMap;

use everflow_json::{Map, Value};
use everflow_time::{Duration, Timestamp};

use crate::describe::{Field, Record, Shape};
use crate::error::{At, FieldError};

/// Fields of an object as they were read: unknown ones, and known ones in another spelling.
pub type Extra = Map;

/// A value with a form in JSON.
pub trait Wire: Sized + PartialEq {
    /// What it is, for the definition of the kind.
    const SHAPE: Shape;
    /// Whether a field of this type must be there.
    const REQUIRED: bool = true;

    /// Reads it.
    ///
    /// # Errors
    /// Says where the value stands and what is wrong with it.
    fn read(value: &Value, at: &At<'_>) -> Result<Self, FieldError>;

    /// As [`Wire::read`] for a field that may be left out; `None` also for a value that Flux takes
    /// for one left out.
    ///
    /// # Errors
    /// As [`Wire::read`].
    fn read_optional(value: &Value, at: &At<'_>) -> Result<Option<Self>, FieldError> {
        Self::read(value, at).map(Some)
    }

    /// What the field is when it is not there; nothing when it must be.
    fn absent() -> Option<Self> {
        None
    }

    /// Writes it; `None` leaves the field out. Without `exact`, what only `extra` holds is left
    /// out too.
    fn write(&self, exact: bool) -> Option<Value>;

    /// Whether [`Wire::write`] writes anything.
    fn is_written(&self) -> bool {
        true
    }

    /// Whether [`Wire::write`] gives this value back, from which it was read.
    fn is_spelling(&self, value: &Value) -> bool {
        let _ = value;
        true
    }
}

/// A record as JSON, with all that is in its `extra`.
pub fn to_value<T: Wire>(value: &T) -> Value {
    value.write(true).unwrap_or(Value::Null)
}

/// Reads a field of a record into its place.
pub(crate) fn take<T: Wire>(
    map: &Map,
    field: &'static Field,
    at: &At<'_>,
    place: &mut T,
    extra: &mut Extra,
) -> Result<(), FieldError> {
    let at = At::Field(at, field.name);
    let found = map.get(field.name);
    // Kubernetes takes `null` for nothing.
    let read = match found.filter(|value| !value.is_null()) {
        Some(value) => {
            let read = T::read(value, &at)?;
            if !read.is_spelling(value) {
                keep(field.name, value, extra);
            }
            Some(read)
        }
        None if field.is_required_zero() => None,
        None => {
            if let Some(null) = found {
                keep(field.name, null, extra);
            }
            T::absent()
        }
    };
    *place = read.ok_or_else(|| at.wrong("is required but missing"))?;
    Ok(())
}

// What does not depend on the type of a field is apart, so that it is compiled once.

/// Keeps a value as it is spelt.
#[inline(never)]
fn keep(name: &str, value: &Value, extra: &mut Extra) {
    extra.insert(name.into(), value.clone());
}

/// The fields that the record does not know.
#[inline(never)]
pub(crate) fn take_unknown(map: &Map, record: &Record) -> Extra {
    let mut extra = Extra::new();
    for (name, value) in map {
        if !record.fields.iter().any(|field| field.name == name) {
            extra.insert(name.clone(), value.clone());
        }
    }
    extra
}

/// Writes a field of a record over what `extra` holds of it; a required one also when it is zero.
pub(crate) fn put<T: Wire>(map: &mut Map, field: &Field, value: &T, exact: bool) {
    let is_kept = match map.get(field.name) {
        None => false,
        Some(Value::Null) => T::absent().as_ref() == Some(value),
        Some(original) => T::read(original, &At::Root).as_ref() == Ok(value),
    };
    if !is_kept {
        store(map, field, value.write(exact));
    }
}

#[inline(never)]
fn store(map: &mut Map, field: &Field, value: Option<Value>) {
    match value {
        Some(value) => map.insert(field.name.into(), value),
        None if field.is_required_zero() => map.insert(field.name.into(), zero(&field.shape)),
        None => map.remove(field.name),
    };
}

/// The object that a value is.
pub(crate) fn object<'v>(value: &'v Value, at: &At<'_>) -> Result<&'v Map, FieldError> {
    value
        .as_object()
        .ok_or_else(|| mismatch(value, at, "an object"))
}

pub(crate) fn mismatch(value: &Value, at: &At<'_>, expected: &str) -> FieldError {
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("the text {:?}", shortened(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    at.wrong(format!("expected {expected}, found {found}"))
}

/// Enough of a text to recognise it.
pub(crate) fn shortened(text: &str) -> String {
    const ENOUGH: usize = 60;
    match text.char_indices().nth(ENOUGH) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

impl Wire for String {
    const SHAPE: Shape = Shape::Text;

    fn read(value: &Value, at: &At<'_>) -> Result<Self, FieldError> {
        let text = value
            .as_str()
            .ok_or_else(|| mismatch(value, at, "a text"))?;
        Ok(text.to_owned())
    }

    /// Flux takes the empty text for none.
    fn read_optional(value: &Value, at: &At<'_>) -> Result<Option<Self>, FieldError> {
        Self::read(value, at).map(|text| Some(text).filter(|text| !text.is_empty()))
    }

    fn write(&self, _: bool) -> Option<Value> {
        Some(Value::String(self.clone().into()))
    }
}

/// A text that Flux does not take for none when it is empty.
impl Wire for Box<str> {
    const SHAPE: Shape = Shape::Text;

    fn read(value: &Value, at: &At<'_>) -> Result<Self, FieldError> {
        String::read(value, at).map(String::into_boxed_str)
    }

    fn write(&self, _: bool) -> Option<Value> {
        Some(Value::from(self.as_ref()))
    }
}

/// A flag that is off when it is not there.
impl Wire for bool {
    const SHAPE: Shape = Shape::Flag;
    const REQUIRED: bool = false;

    fn read(value: &Value, at: &At<'_>) -> Result<Self, FieldError> {
        value
            .as_bool()
            .ok_or_else(|| mismatch(value, at, "true or false"))
    }

    fn absent() -> Option<Self> {
        Some(false)
    }

    fn write(&self, _: bool) -> Option<Value> {
        self.then_some(Value::Bool(true))
    }

    fn is_written(&self) -> bool {
        *self
    }

    fn is_spelling(&self, _: &Value) -> bool {
        *self
    }
}

/// A number that is zero when it is not there.
impl Wire for i64 {
    const SHAPE: Shape = Shape::Number;
    const REQUIRED: bool = false;

    fn read(value: &Value, at: &At<'_>) -> Result<Self, FieldError> {
        let whole = value.as_f64().filter(|number| number.fract() == 0.0);
        match (value.as_i64(), whole) {
            (Some(number), _) => Ok(number),
            // A whole number may be spelt `1.0` or `1e3`.
            (None, Some(number)) if number.abs() < 9e15 => Ok(number as i64),
            _ => Err(mismatch(value, at, "a whole number")),
        }
    }

    fn absent() -> Option<Self> {
        Some(0)
    }

    fn write(&self, _: bool) -> Option<Value> {
        (*self != 0).then(|| Value::from(*self))
    }

    fn is_written(&self) -> bool {
        *self != 0
    }

    fn is_spelling(&self, value: &Value) -> bool {
        self.write(true).as_ref() == Some(value)
    }
}

impl Wire for Duration {
    const SHAPE: Shape = Shape::Text;

    fn read(value: &Value, at: &At<'_>) -> Result<Self, FieldError> {
        const EXPECTED: &str = "a duration such as 30s, 10m or 1h30m";
        let text = value
            .as_str()
            .ok_or_else(|| mismatch(value, at, EXPECTED))?;
        Duration::parse(text)
            .map_err(|_| at.wrong(format!("expected {EXPECTED}, found {:?}", shortened(text))))
    }

    fn write(&self, _: bool) -> Option<Value> {
        Some(Value::String(self.to_string().into()))
    }

    fn is_spelling(&self, value: &Value) -> bool {
        value.as_str() == Some(self.to_string().as_str())
    }
}

impl Wire for Timestamp {
    const SHAPE: Shape = Shape::Moment;

    fn read(value: &Value, at: &At<'_>) -> Result<Self, FieldError> {
        let parsed = value.as_str().and_then(Timestamp::parse);
        parsed.ok_or_else(|| mismatch(value, at, "a time such as 2006-01-02T15:04:05Z"))
    }

    fn write(&self, _: bool) -> Option<Value> {
        Some(Value::String(self.rfc3339().into()))
    }

    fn is_spelling(&self, value: &Value) -> bool {
        value.as_str() == Some(self.rfc3339().as_str())
    }
}

impl Wire for Value {
    const SHAPE: Shape = Shape::Any;

    fn read(value: &Value, _: &At<'_>) -> Result<Self, FieldError> {
        Ok(value.clone())
    }

    fn write(&self, _: bool) -> Option<Value> {
        Some(self.clone())
    }
}

impl<T: Wire> Wire for Option<T> {
    const SHAPE: Shape = T::SHAPE;
    const REQUIRED: bool = false;

    fn read(value: &Value, at: &At<'_>) -> Result<Self, FieldError> {
        T::read_optional(value, at)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    /// A flag that is off, a zero or an empty list are written when they are there.
    fn write(&self, exact: bool) -> Option<Value> {
        self.as_ref()
            .map(|value| value.write(exact).unwrap_or_else(|| zero(&T::SHAPE)))
    }

    fn is_written(&self) -> bool {
        self.is_some()
    }

    fn is_spelling(&self, value: &Value) -> bool {
        match self {
            None => false,
            Some(inner) => match inner.is_written() {
                true => inner.is_spelling(value),
                false => zero(&T::SHAPE) == *value,
            },
        }
    }
}

fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::Flag => Value::Bool(false),
        Shape::Number => Value::from(0),
        Shape::List(_) => Value::Array(Vec::new()),
        _ => Value::Object(Map::new()),
    }
}

impl<T: Wire> Wire for Box<T> {
    const SHAPE: Shape = T::SHAPE;
    const REQUIRED: bool = T::REQUIRED;

    fn read(value: &Value, at: &At<'_>) -> Result<Self, FieldError> {
        T::read(value, at).map(Box::new)
    }

    fn write(&self, exact: bool) -> Option<Value> {
        (**self).write(exact)
    }

    fn is_written(&self) -> bool {
        (**self).is_written()
    }

    fn is_spelling(&self, value: &Value) -> bool {
        (**self).is_spelling(value)
    }
}

/// A list that is empty when it is not there.
impl<T: Wire> Wire for Vec<T> {
    const SHAPE: Shape = Shape::List(&T::SHAPE);
    const REQUIRED: bool = false;

    fn read(value: &Value, at: &At<'_>) -> Result<Self, FieldError> {
        let items = value
            .as_array()
            .ok_or_else(|| mismatch(value, at, "a list"))?;
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            list.push(T::read(item, &At::Index(at, index))?);
        }
        Ok(list)
    }

    fn absent() -> Option<Self> {
        Some(Vec::new())
    }

    fn write(&self, exact: bool) -> Option<Value> {
        let mut items = Vec::with_capacity(self.len());
        for item in self {
            items.push(item.write(exact).unwrap_or_else(|| zero(&T::SHAPE)));
        }
        (!items.is_empty()).then_some(Value::Array(items))
    }

    fn is_written(&self) -> bool {
        !self.is_empty()
    }

    fn is_spelling(&self, value: &Value) -> bool {
        let same = |items: &Vec<Value>| {
            let mut pairs = self.iter().zip(items);
            pairs.all(|(item, value)| item.is_spelling(value))
        };
        !self.is_empty() && value.as_array().is_some_and(same)
    }
}

/// A map that is empty when it is not there.
impl<T: Wire> Wire for BTreeMap<String, T> {
    const SHAPE: Shape = Shape::Map(&T::SHAPE);
    const REQUIRED: bool = false;

    fn read(value: &Value, at: &At<'_>) -> Result<Self, FieldError> {
        let mut map = BTreeMap::new();
        for (name, value) in object(value, at)? {
            map.insert(name.to_string(), T::read(value, &At::Field(at, name))?);
        }
        Ok(map)
    }

    fn absent() -> Option<Self> {
        Some(BTreeMap::new())
    }

    fn write(&self, exact: bool) -> Option<Value> {
        let mut map = Map::new();
        for (name, value) in self {
            let value = value.write(exact).unwrap_or_else(|| zero(&T::SHAPE));
            map.insert(name.clone().into(), value);
        }
        (!map.is_empty()).then_some(Value::Object(map))
    }

    fn is_written(&self) -> bool {
        !self.is_empty()
    }

    fn is_spelling(&self, value: &Value) -> bool {
        let same = |map: &Map| {
            let mut pairs = self.values().zip(map.values());
            pairs.all(|(item, value)| item.is_spelling(value))
        };
        !self.is_empty() && value.as_object().is_some_and(same)
    }
}

/// The error that a value is none of the texts that are known.
pub(crate) fn not_among(value: &Value, at: &At<'_>, texts: &[&str]) -> FieldError {
    mismatch(value, at, &format!("one of {}", texts.join(", ")))
}
