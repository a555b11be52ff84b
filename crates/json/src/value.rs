//! Values.

use std::fmt;
use std::io;
use std::str::FromStr;

use serde::ser::{Serialize, Serializer};

use crate::{Error, Map, Number, Text};

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
        struct Out<'a, 'b>(&'a mut fmt::Formatter<'b>);
        impl io::Write for Out<'_, '_> {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
                self.0.write_str(text).map_err(io::Error::other)?;
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let written = match f.alternate() {
            true => serde_json::to_writer_pretty(Out(f), self),
            false => serde_json::to_writer(Out(f), self),
        };
        written.map_err(|_| fmt::Error)
    }
}

impl FromStr for Value {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        serde_json::from_str(text)
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
