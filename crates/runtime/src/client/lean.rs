//! Objects read without their `managedFields`, which are half of an object and which hardly anybody
//! looks at: skipping them costs a fraction of building them.

use std::fmt;

use everflow_json::{Map, Text, Value};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// Which part of an answer is read.
#[derive(Debug, Clone, Copy)]
enum Part {
    Event,
    Object,
    Metadata,
}

/// Reads an object.
pub(super) fn object(bytes: &[u8]) -> everflow_json::Result<Value> {
    read(Part::Object, bytes)
}

/// Reads an event of a watch.
pub(super) fn event(bytes: &[u8]) -> everflow_json::Result<Value> {
    read(Part::Event, bytes)
}

fn read(part: Part, bytes: &[u8]) -> everflow_json::Result<Value> {
    let mut from = everflow_json::Deserializer::from_slice(bytes);
    let read = part.deserialize(&mut from);
    match read.and_then(|value| from.end().map(|()| value)) {
        Ok(value) => Ok(value),
        // Something that is not where it should be: it is read, or refused, as what it is.
        Err(_) => everflow_json::from_slice(bytes),
    }
}

impl<'de> DeserializeSeed<'de> for Part {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Part {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = map.next_key::<Text>()? {
            let value = match (self, key.as_str()) {
                (Part::Metadata, "managedFields") => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                (Part::Event, "object") => map.next_value_seed(Part::Object)?,
                (Part::Object, "metadata") => map.next_value_seed(Part::Metadata)?,
                _ => map.next_value()?,
            };
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn only_managed_fields_of_the_metadata_are_left_out() {
        let whole = json!({"kind": "Toy", "spec": {"managedFields": [1]},
            "metadata": {"name": "a", "managedFields": [{"manager": "m"}], "labels": {"managedFields": "x"}}});
        let lean = json!({"kind": "Toy", "spec": {"managedFields": [1]},
            "metadata": {"name": "a", "labels": {"managedFields": "x"}}});
        assert_eq!(object(whole.to_string().as_bytes()).unwrap(), lean);
        let told = json!({"type": "ADDED", "object": whole});
        let read = event(told.to_string().as_bytes()).unwrap();
        assert_eq!(read, json!({"type": "ADDED", "object": lean}));
    }

    #[test]
    fn what_is_no_object_is_read_as_it_is() {
        for text in [
            "null",
            "[1,2]",
            r#"{"metadata":null}"#,
            r#"{"metadata":[]}"#,
        ] {
            let plain: Value = everflow_json::from_str(text).unwrap();
            assert_eq!(object(text.as_bytes()).unwrap(), plain);
        }
        for text in ["", "{", r#"{"metadata":{"managedFields":[}}"#, "{} x"] {
            assert!(object(text.as_bytes()).is_err(), "{text}");
        }
    }
}
