//! Whatever can be deserialized, from trees.

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor, value::BorrowedStrDeserializer,
};
use serde::forward_to_deserialize_any;

use crate::{Error, Map, Value, map};

/// Reads something from a tree.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    T::deserialize(&value)
}

impl Value {
    fn unexpected(&self) -> Unexpected<'_> {
        match self {
            Value::Null => Unexpected::Unit,
            Value::Bool(flag) => Unexpected::Bool(*flag),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(whole), ..) => Unexpected::Unsigned(whole),
                (_, Some(whole), _) => Unexpected::Signed(whole),
                (.., float) => Unexpected::Float(float.unwrap_or_default()),
            },
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        }
    }

    fn refused(&self, expected: &dyn serde::de::Expected) -> Error {
        Error::invalid_type(self.unexpected(), expected)
    }
}

fn read_list<'de, V: Visitor<'de>>(list: &'de [Value], visitor: V) -> Result<V::Value, Error> {
    let mut items = Items { items: list.iter() };
    let value = visitor.visit_seq(&mut items)?;
    match items.items.len() {
        0 => Ok(value),
        _ => Err(Error::invalid_length(
            list.len(),
            &"fewer elements in array",
        )),
    }
}

fn read_map<'de, V: Visitor<'de>>(map: &'de Map, visitor: V) -> Result<V::Value, Error> {
    let mut entries = Entries {
        entries: map.iter(),
        value: None,
    };
    let value = visitor.visit_map(&mut entries)?;
    match entries.entries.len() {
        0 => Ok(value),
        _ => Err(Error::invalid_length(map.len(), &"fewer elements in map")),
    }
}

impl<'de> Deserializer<'de> for &'de Value {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::Number(number) => number.deserialize_any(visitor),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => read_list(items, visitor),
            Value::Object(map) => read_map(map, visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Value::String(name) => visitor.visit_enum(Chosen { name, value: None }),
            Value::Object(map) => {
                let mut entries = map.iter();
                match (entries.next(), entries.next()) {
                    (Some((name, value)), None) => visitor.visit_enum(Chosen {
                        name,
                        value: Some(value),
                    }),
                    _ => Err(Error::invalid_value(
                        Unexpected::Map,
                        &"map with a single key",
                    )),
                }
            }
            other => Err(other.refused(&"string or map")),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier
    }
}

/// The items of a list that are left.
struct Items<'de> {
    items: std::slice::Iter<'de, Value>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        self.items
            .next()
            .map(|item| seed.deserialize(item))
            .transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// The entries of a map that are left, and the value of the one whose key was read.
struct Entries<'de> {
    entries: map::Iter<'de>,
    value: Option<&'de Value>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some((key, value)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        seed.deserialize(BorrowedStrDeserializer::new(key))
            .map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        match self.value.take() {
            Some(value) => seed.deserialize(value),
            None => Err(Error::custom("value is missing")),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// Which variant, and what is in it.
struct Chosen<'de> {
    name: &'de str,
    value: Option<&'de Value>,
}

impl<'de> EnumAccess<'de> for Chosen<'de> {
    type Error = Error;
    type Variant = Content<'de>;

    fn variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<(T::Value, Content<'de>), Error> {
        let variant = seed.deserialize(BorrowedStrDeserializer::<Error>::new(self.name))?;
        Ok((variant, Content(self.value)))
    }
}

struct Content<'de>(Option<&'de Value>);

impl<'de> VariantAccess<'de> for Content<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.0 {
            None | Some(Value::Null) => Ok(()),
            Some(other) => Err(other.refused(&"unit variant")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        match self.0 {
            Some(value) => seed.deserialize(value),
            None => Err(Error::invalid_type(
                Unexpected::UnitVariant,
                &"newtype variant",
            )),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Some(Value::Array(items)) if items.is_empty() => visitor.visit_unit(),
            Some(Value::Array(items)) => read_list(items, visitor),
            Some(other) => Err(other.refused(&"tuple variant")),
            None => Err(Error::invalid_type(
                Unexpected::UnitVariant,
                &"tuple variant",
            )),
        }
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Some(Value::Object(map)) => read_map(map, visitor),
            Some(other) => Err(other.refused(&"struct variant")),
            None => Err(Error::invalid_type(
                Unexpected::UnitVariant,
                &"struct variant",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::{Text, json};

    #[derive(Debug, PartialEq, Deserialize)]
    enum Shape {
        Unit,
        One(u8),
        Two(u8, String),
        Named { a: Option<f64> },
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct All {
        shapes: Vec<Shape>,
        #[serde(default)]
        long_name: BTreeMap<String, i64>,
        text: Text,
        tree: Value,
    }

    #[test]
    fn typed_values_are_read_like_serde_json() {
        let value = json!({
            "shapes": ["Unit", {"One": 1}, {"Two": [2, "x"]}, {"Named": {"a": 0.5}}],
            "longName": {"a": -1},
            "text": "t",
            "tree": {"b": [null, true]},
        });
        let all: All = from_value(value.clone()).unwrap();
        let theirs: All = serde_json::from_str(&value.to_string()).unwrap();
        assert_eq!(all, theirs);
        assert_eq!(all.shapes[1], Shape::One(1));
    }

    #[test]
    fn refusals_are_those_of_serde_json() {
        for wrong in [
            json!({"shapes": 1, "text": "", "tree": 1}),
            json!({"shapes": [null], "text": "", "tree": 1}),
            json!({"shapes": [{"One": 300}], "text": "", "tree": 1}),
            json!({"shapes": [{"Other": 1}], "text": "", "tree": 1}),
            json!({"shapes": [{"One": 1, "Two": 2}], "text": "", "tree": 1}),
            json!({"shapes": [], "text": null, "tree": 1}),
            json!({"shapes": [], "text": "", "tree": 1, "more": 1}),
            json!({"shapes": [{"Two": [1]}], "text": "", "tree": 1}),
            json!({"shapes": [{"Two": [1, "", 3]}], "text": "", "tree": 1}),
        ] {
            let theirs: serde_json::Value = serde_json::from_str(&wrong.to_string()).unwrap();
            let theirs = serde_json::from_value::<All>(theirs).unwrap_err();
            let ours = from_value::<All>(wrong.clone()).unwrap_err();
            assert_eq!(ours.to_string(), theirs.to_string(), "{wrong}");
        }
    }
}
