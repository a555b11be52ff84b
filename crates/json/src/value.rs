//! Values.

use std::fmt;
use std::str::FromStr;

use serde::ser::{Serialize, Serializer};

use crate::{Error, Map, Number, Text, text};

/// Any JSON value.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(Text),
    /// A list.
    Array(Vec<Value>),
    /// A map.
    Object(Map),
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("Null"),
            Value::Bool(flag) => write!(f, "Bool({flag})"),
            Value::Number(number) => fmt::Debug::fmt(number, f),
            Value::String(text) => write!(f, "String({text:?})"),
            Value::Array(items) => {
                f.write_str("Array ")?;
                fmt::Debug::fmt(items, f)
            }
            Value::Object(map) => {
                f.write_str("Object ")?;
                fmt::Debug::fmt(map, f)
            }
        }
    }
}

/// The JSON text; with `{:#}` on many lines.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match f.alternate() {
            true => serde_json::to_string_pretty(self).map_err(|_| fmt::Error)?,
            false => {
                let mut line = String::new();
                text::write(self, &mut line);
                line
            }
        };
        f.write_str(&text)
    }
}

impl FromStr for Value {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self, Error> {
        text::read(line.as_bytes())
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(flag) => serializer.serialize_bool(*flag),
            Value::Number(number) => number.serialize(serializer),
            Value::String(text) => serializer.serialize_str(text),
            Value::Array(items) => items.serialize(serializer),
            Value::Object(map) => map.serialize(serializer),
        }
    }
}
