//! Trees from whatever can be serialized.

use serde::Serialize;
use serde::ser::{self, Error as _};

use crate::{Error, Map, Number, Text, Value};

/// The tree of something that can be serialized.
pub fn to_value<T: Serialize>(value: T) -> Result<Value, Error> {
    value.serialize(ToTree)
}

/// As [`to_value`], for what is known to have a tree.
///
/// # Panics
///
/// When it has none: a map with other keys than texts, or a type that refuses.
#[doc(hidden)]
pub fn value_of<T: Serialize + ?Sized>(value: &T) -> Value {
    match value.serialize(ToTree) {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

struct ToTree;

/// The items of a list, within a variant where it has a name.
struct ToList {
    variant: Option<&'static str>,
    items: Vec<Value>,
}

/// The entries of a map, within a variant where it has a name.
struct ToMap {
    variant: Option<&'static str>,
    map: Map,
    key: Option<Text>,
}

fn within(variant: Option<&'static str>, value: Value) -> Value {
    match variant {
        Some(name) => Value::Object(Map::from([(Text::new_static(name), value)])),
        None => value,
    }
}

impl ToList {
    fn new(variant: Option<&'static str>, size: Option<usize>) -> Self {
        ToList {
            variant,
            items: Vec::with_capacity(size.unwrap_or_default()),
        }
    }

    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.items.push(value.serialize(ToTree)?);
        Ok(())
    }

    fn done(self) -> Value {
        within(self.variant, Value::Array(self.items))
    }
}

impl ToMap {
    fn new(variant: Option<&'static str>, size: Option<usize>) -> Self {
        ToMap {
            variant,
            map: Map::with_capacity(size.unwrap_or_default()),
            key: None,
        }
    }

    fn insert<T: Serialize + ?Sized>(&mut self, key: Text, value: &T) -> Result<(), Error> {
        self.map.insert(key, value.serialize(ToTree)?);
        Ok(())
    }

    fn done(self) -> Value {
        within(self.variant, Value::Object(self.map))
    }
}

fn key_text(key: Value) -> Result<Text, Error> {
    match key {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string().into()),
        Value::Bool(flag) => Ok(Text::new_static(if flag { "true" } else { "false" })),
        _ => Err(Error::custom("key must be a string")),
    }
}

macro_rules! numbers {
    ($($name:ident $ty:ty),*) => {$(
        fn $name(self, number: $ty) -> Result<Value, Error> {
            Ok(Value::from(number))
        }
    )*};
}

impl ser::Serializer for ToTree {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = ToList;
    type SerializeTuple = ToList;
    type SerializeTupleStruct = ToList;
    type SerializeTupleVariant = ToList;
    type SerializeMap = ToMap;
    type SerializeStruct = ToMap;
    type SerializeStructVariant = ToMap;

    numbers!(
        serialize_bool bool, serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64,
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64, serialize_f64 f64,
        serialize_str &str
    );

    fn serialize_f32(self, number: f32) -> Result<Value, Error> {
        Ok(Value::from(f64::from(number)))
    }

    fn serialize_char(self, letter: char) -> Result<Value, Error> {
        let mut buffer = [0; 4];
        Ok(Value::from(&*letter.encode_utf8(&mut buffer)))
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<Value, Error> {
        let numbers = bytes.iter().map(|byte| Number::from(*byte));
        Ok(numbers.collect())
    }

    fn serialize_none(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Value, Error> {
        Ok(Value::String(Text::new_static(variant)))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        Ok(within(Some(variant), value.serialize(self)?))
    }

    fn serialize_seq(self, size: Option<usize>) -> Result<ToList, Error> {
        Ok(ToList::new(None, size))
    }

    fn serialize_tuple(self, size: usize) -> Result<ToList, Error> {
        Ok(ToList::new(None, Some(size)))
    }

    fn serialize_tuple_struct(self, _: &'static str, size: usize) -> Result<ToList, Error> {
        Ok(ToList::new(None, Some(size)))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        size: usize,
    ) -> Result<ToList, Error> {
        Ok(ToList::new(Some(variant), Some(size)))
    }

    fn serialize_map(self, size: Option<usize>) -> Result<ToMap, Error> {
        Ok(ToMap::new(None, size))
    }

    fn serialize_struct(self, _: &'static str, size: usize) -> Result<ToMap, Error> {
        Ok(ToMap::new(None, Some(size)))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        size: usize,
    ) -> Result<ToMap, Error> {
        Ok(ToMap::new(Some(variant), Some(size)))
    }
}

macro_rules! lists {
    ($($name:ident $push:ident),*) => {$(
        impl ser::$name for ToList {
            type Ok = Value;
            type Error = Error;

            fn $push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.push(value)
            }

            fn end(self) -> Result<Value, Error> {
                Ok(self.done())
            }
        }
    )*};
}
lists!(
    SerializeSeq serialize_element, SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field, SerializeTupleVariant serialize_field
);

macro_rules! structs {
    ($($name:ident),*) => {$(
        impl ser::$name for ToMap {
            type Ok = Value;
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.insert(Text::new(key), value)
            }

            fn end(self) -> Result<Value, Error> {
                Ok(self.done())
            }
        }
    )*};
}
structs!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for ToMap {
    type Ok = Value;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = Some(key_text(key.serialize(ToTree)?)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        match self.key.take() {
            Some(key) => self.insert(key, value),
            None => Err(Error::custom("value without a key")),
        }
    }

    fn end(self) -> Result<Value, Error> {
        Ok(self.done())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Serialize)]
    enum Shape {
        Unit,
        One(u8),
        Two(u8, char),
        Named { a: Option<f32>, b: () },
    }

    /// The text is that of `serde_json`.
    #[test]
    fn trees_are_those_of_serde_json() {
        #[derive(Serialize)]
        struct All {
            shapes: Vec<Shape>,
            numbered: BTreeMap<u8, bool>,
            tuple: (i64, u64, String),
            tree: Value,
        }
        let all = All {
            shapes: vec![
                Shape::Unit,
                Shape::One(1),
                Shape::Two(2, 'ß'),
                Shape::Named {
                    a: Some(0.5),
                    b: (),
                },
            ],
            numbered: [(1, true), (10, false)].into(),
            tuple: (-1, u64::MAX, "long enough not to be kept in place".into()),
            tree: crate::json!({"a": [1, null]}),
        };
        let theirs = serde_json::to_value(&all).unwrap();
        assert_eq!(to_value(&all).unwrap().to_string(), theirs.to_string());
        assert!(to_value(BTreeMap::from([((), 1)])).is_err());
    }
}
