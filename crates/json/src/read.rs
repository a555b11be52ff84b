//! Trees from whatever can be deserialized.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::{Map, Number, Text, Value};

/// What was read of lists and maps that are not whole yet. Each takes its own from the end when it is whole, and so has
/// no more room than it needs.
#[derive(Default)]
struct Open {
    items: Vec<Value>,
    entries: Vec<(Text, Value)>,
}

/// Takes whatever comes.
struct AnyValue<'o>(&'o mut Open);

/// Takes a map.
struct AnyMap<'o>(&'o mut Open);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        AnyValue(&mut Open::default()).deserialize(deserializer)
    }
}

impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AnyMap(&mut Open::default()))
    }
}

impl<'de> DeserializeSeed<'de> for AnyValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyMap<'_> {
    type Value = Map;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_unit<E>(self) -> Result<Map, E> {
        Ok(Map::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map, A::Error> {
        let start = self.0.entries.len();
        while let Some(key) = map.next_key()? {
            let value = map.next_value_seed(AnyValue(self.0))?;
            self.0.entries.push((key, value));
        }
        Ok(Map::of_entries(self.0.entries.split_off(start)))
    }
}

impl<'de> Visitor<'de> for AnyValue<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(Text::new(text)))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text.into()))
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let start = self.0.items.len();
        while let Some(item) = list.next_element_seed(AnyValue(self.0))? {
            self.0.items.push(item);
        }
        Ok(Value::Array(self.0.items.split_off(start)))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        AnyMap(self.0).visit_map(map).map(Value::Object)
    }
}
