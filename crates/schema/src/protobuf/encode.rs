//! From JSON to messages, byte for byte as Go writes them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_json::Value;

use super::special::{JSON_SCHEMA_PROPS, Special};
use super::writer::Writer;
use crate::error::Error;
use crate::model::{Field, ObjectType, Shape, TypeId, TypeTable, WireEncoding, WireField};
use crate::time;

/// Encodes a value as the message of a type. Keys without a field are left out.
pub fn encode_message(types: &TypeTable, type_id: TypeId, value: &Value) -> Result<Vec<u8>, Error> {
    Encoder {
        types,
        path: Vec::new(),
    }
    .message(type_id, value)
}

struct Encoder<'t> {
    types: &'t TypeTable,
    path: Vec<String>,
}

/// A field to write, or a message with the fields that JSON has inline.
enum Slot<'t> {
    Field(&'t Field, &'t WireField),
    Embedded(BTreeMap<u32, Slot<'t>>),
}

impl<'t> Encoder<'t> {
    fn fail(&self, problem: impl Into<String>) -> Error {
        let path = self.path.iter().map(|step| format!(".{step}")).collect();
        Error::NotEncodable {
            path,
            problem: problem.into(),
        }
    }

    fn message(&mut self, type_id: TypeId, value: &Value) -> Result<Vec<u8>, Error> {
        let types = self.types;
        let node = types
            .get(type_id)
            .ok_or_else(|| self.fail("unknown type"))?;
        match Special::of(node) {
            Special::Plain => {}
            Special::Quantity => return self.quantity(value),
            Special::IntOrString => return self.int_or_string(value),
            Special::Time { micro } => return self.time(value, micro),
            Special::RawJson => return Ok(raw_json(value)),
            special => return self.schema_or(special, value),
        }
        match &node.shape {
            Shape::Object(object) => {
                if !value.is_object() && !value.is_null() {
                    return Err(self.fail("an object is expected"));
                }
                let mut writer = Writer::default();
                self.slots(&slots(object), value, &mut writer)?;
                Ok(writer.finish())
            }
            Shape::List(_) => self.list_message(value),
            _ => Err(self.fail("the type has no message")),
        }
    }

    fn slots(
        &mut self,
        slots: &BTreeMap<u32, Slot<'t>>,
        value: &Value,
        writer: &mut Writer,
    ) -> Result<(), Error> {
        for (number, slot) in slots {
            match slot {
                Slot::Field(field, wire) => {
                    self.path.push(field.name.to_string());
                    self.field(
                        field,
                        wire,
                        value.get(field.name.as_str()).unwrap_or(&Value::Null),
                        writer,
                    )?;
                    self.path.pop();
                }
                Slot::Embedded(nested) => {
                    let mut inner = Writer::default();
                    self.slots(nested, value, &mut inner)?;
                    writer.bytes(*number, &inner.finish());
                }
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &Field,
        wire: &WireField,
        value: &Value,
        writer: &mut Writer,
    ) -> Result<(), Error> {
        let types = self.types;
        match types.get(field.type_id).map(|node| &node.shape) {
            Some(Shape::List(list)) if wire.encoding != WireEncoding::ListMessage => {
                let items = match value {
                    Value::Null => return Ok(()),
                    Value::Array(items) => items,
                    _ => return Err(self.fail("a list is expected")),
                };
                for item in items {
                    self.single(wire.number, list.item, wire.encoding, item, writer)?;
                }
                Ok(())
            }
            Some(Shape::Object(ObjectType {
                additional: Some(values),
                ..
            })) => self.map(wire, *values, value, writer),
            _ if value.is_null() && (wire.pointer || wire.encoding == WireEncoding::Bytes) => {
                Ok(())
            }
            _ => self.single(wire.number, field.type_id, wire.encoding, value, writer),
        }
    }

    fn map(
        &mut self,
        wire: &WireField,
        values: TypeId,
        value: &Value,
        writer: &mut Writer,
    ) -> Result<(), Error> {
        let entries = match value {
            Value::Null => return Ok(()),
            Value::Object(entries) => entries,
            _ => return Err(self.fail("an object is expected")),
        };
        for (key, entry) in entries {
            let mut inner = Writer::default();
            inner.bytes(1, key.as_bytes());
            self.path.push(key.to_string());
            self.single(2, values, wire.encoding, entry, &mut inner)?;
            self.path.pop();
            writer.bytes(wire.number, &inner.finish());
        }
        Ok(())
    }

    /// Writes one value; null stands for the zero value.
    fn single(
        &mut self,
        number: u32,
        type_id: TypeId,
        encoding: WireEncoding,
        value: &Value,
        writer: &mut Writer,
    ) -> Result<(), Error> {
        match encoding {
            WireEncoding::Varint => writer.varint(number, self.integer(value)?.cast_unsigned()),
            WireEncoding::Bool => match value {
                Value::Null => writer.varint(number, 0),
                Value::Bool(flag) => writer.varint(number, u64::from(*flag)),
                _ => return Err(self.fail("a boolean is expected")),
            },
            WireEncoding::Double => writer.fixed64(number, self.float(value)?.to_le_bytes()),
            WireEncoding::Float => {
                writer.fixed32(number, (self.float(value)? as f32).to_le_bytes())
            }
            WireEncoding::String => writer.bytes(number, self.text(value)?.as_bytes()),
            WireEncoding::Bytes => {
                let bytes = STANDARD
                    .decode(self.text(value)?)
                    .map_err(|_| self.fail("base64 is expected"))?;
                writer.bytes(number, &bytes);
            }
            WireEncoding::Message | WireEncoding::ListMessage => {
                let message = self.message(type_id, value)?;
                writer.bytes(number, &message);
            }
        }
        Ok(())
    }

    fn integer(&self, value: &Value) -> Result<i64, Error> {
        match value {
            Value::Null => Ok(0),
            _ => value
                .as_i64()
                .ok_or_else(|| self.fail("an integer is expected")),
        }
    }

    fn float(&self, value: &Value) -> Result<f64, Error> {
        match value {
            Value::Null => Ok(0.0),
            _ => value
                .as_f64()
                .ok_or_else(|| self.fail("a number is expected")),
        }
    }

    fn text<'v>(&self, value: &'v Value) -> Result<&'v str, Error> {
        match value {
            Value::Null => Ok(""),
            _ => value
                .as_str()
                .ok_or_else(|| self.fail("a string is expected")),
        }
    }

    fn list_message(&mut self, value: &Value) -> Result<Vec<u8>, Error> {
        let mut writer = Writer::default();
        match value {
            Value::Null => {}
            Value::Array(items) => {
                for item in items {
                    writer.bytes(1, self.text(item)?.as_bytes());
                }
            }
            _ => return Err(self.fail("a list is expected")),
        }
        Ok(writer.finish())
    }

    fn quantity(&self, value: &Value) -> Result<Vec<u8>, Error> {
        let text = match value {
            Value::Null => "0".to_owned(),
            Value::Number(number) => number.to_string(),
            _ => self.text(value)?.to_owned(),
        };
        let mut writer = Writer::default();
        writer.bytes(1, text.as_bytes());
        Ok(writer.finish())
    }

    fn int_or_string(&self, value: &Value) -> Result<Vec<u8>, Error> {
        let (kind, integer, text) = match value {
            Value::String(text) => (1, 0, text.as_str()),
            _ => (0, self.integer(value)?, ""),
        };
        let mut writer = Writer::default();
        writer.varint(1, kind);
        writer.varint(2, integer.cast_unsigned());
        writer.bytes(3, text.as_bytes());
        Ok(writer.finish())
    }

    fn time(&self, value: &Value, micro: bool) -> Result<Vec<u8>, Error> {
        let mut writer = Writer::default();
        if !value.is_null() {
            let parsed = value.as_str().and_then(time::parse);
            let (seconds, nanos) =
                parsed.ok_or_else(|| self.fail("an RFC 3339 time is expected"))?;
            writer.varint(1, seconds.cast_unsigned());
            writer.varint(
                2,
                if micro {
                    (nanos / 1000 * 1000).cast_unsigned()
                } else {
                    0
                },
            );
        }
        Ok(writer.finish())
    }

    fn schema_or(&mut self, special: Special, value: &Value) -> Result<Vec<u8>, Error> {
        let mut writer = Writer::default();
        match (special, value) {
            (_, Value::Null) => {}
            (Special::SchemaOrBool, Value::Bool(flag)) => writer.varint(1, u64::from(*flag)),
            (Special::SchemaOrBool, _) => {
                writer.varint(1, 1);
                writer.bytes(2, &self.schema(value)?);
            }
            (Special::SchemaOrStrings, Value::Array(items)) => {
                for item in items {
                    writer.bytes(2, self.text(item)?.as_bytes());
                }
            }
            (_, Value::Array(items)) => {
                for item in items {
                    writer.bytes(2, &self.schema(item)?);
                }
            }
            _ => writer.bytes(1, &self.schema(value)?),
        }
        Ok(writer.finish())
    }

    fn schema(&mut self, value: &Value) -> Result<Vec<u8>, Error> {
        let props = self
            .types
            .iter()
            .find(|(_, node)| node.name.as_deref() == Some(JSON_SCHEMA_PROPS));
        match props {
            Some((type_id, _)) => self.message(type_id, value),
            None => Err(self.fail("the type of schemas is unknown")),
        }
    }
}

/// The fields of an object in the order of their numbers, embedded ones in their messages.
fn slots(object: &ObjectType) -> BTreeMap<u32, Slot<'_>> {
    let mut slots = BTreeMap::new();
    for field in &object.fields {
        if let Some(wire) = &field.wire {
            let path = wire
                .embedded_in
                .iter()
                .copied()
                .take_while(|number| *number != 0);
            put(&mut slots, path, field, wire);
        }
    }
    slots
}

fn put<'t>(
    slots: &mut BTreeMap<u32, Slot<'t>>,
    mut path: impl Iterator<Item = u32>,
    field: &'t Field,
    wire: &'t WireField,
) {
    let Some(number) = path.next() else {
        slots.insert(wire.number, Slot::Field(field, wire));
        return;
    };
    let slot = slots
        .entry(number)
        .or_insert_with(|| Slot::Embedded(BTreeMap::new()));
    if let Slot::Embedded(nested) = slot {
        let rest: Vec<u32> = path.collect();
        put(nested, rest.into_iter(), field, wire);
    }
}

fn raw_json(value: &Value) -> Vec<u8> {
    let mut writer = Writer::default();
    if !value.is_null() {
        writer.bytes(1, value.to_string().as_bytes());
    }
    writer.finish()
}
