//! From messages to JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_json::{Map, Number, Value};

use super::malformed;
use super::reader::{Fields, Wire, packed_varints};
use super::special::{JSON_SCHEMA_PROPS, Special, kind_inside};
use crate::error::Error;
use crate::model::{
    Field, ObjectType, ScalarKind, Shape, TypeId, TypeTable, WireEncoding, WireField,
};
use crate::time;

/// Messages nested deeper are refused instead of overflowing the stack.
const MAX_DEPTH: usize = 100;

/// Decodes the message of a type into the JSON that Go prints for it.
pub fn decode_message(types: &TypeTable, type_id: TypeId, message: &[u8]) -> Result<Value, Error> {
    Decoder {
        types,
        path: Vec::new(),
        depth: 0,
    }
    .message(type_id, message)
}

struct Decoder<'t> {
    types: &'t TypeTable,
    path: Vec<&'t str>,
    depth: usize,
}

impl<'t> Decoder<'t> {
    fn fail(&self, problem: impl Into<String>) -> Error {
        let path: String = self.path.iter().map(|step| format!(".{step}")).collect();
        malformed(&path, problem)
    }

    fn message(&mut self, type_id: TypeId, message: &[u8]) -> Result<Value, Error> {
        if self.depth >= MAX_DEPTH {
            return Err(self.fail(format!(
                "messages are nested deeper than {MAX_DEPTH} levels"
            )));
        }
        self.depth += 1;
        let value = self.message_inside(type_id, message);
        self.depth -= 1;
        value
    }

    fn message_inside(&mut self, type_id: TypeId, message: &[u8]) -> Result<Value, Error> {
        let types = self.types;
        let node = types
            .get(type_id)
            .ok_or_else(|| self.fail("unknown type"))?;
        match Special::of(node) {
            Special::Plain => {}
            Special::Quantity => return self.quantity(message),
            Special::IntOrString => return self.int_or_string(message),
            Special::Time { micro } => return self.time(message, micro),
            Special::RawJson => return self.raw_json(message),
            special => return self.schema_or(special, message),
        }
        match &node.shape {
            Shape::Object(object) => {
                let mut value = self.object(object, message)?;
                add_kinds_inside(node.name.as_deref(), &mut value);
                Ok(value)
            }
            Shape::List(list) => self.list_message(list.item, message),
            _ => Err(self.fail("a message where a plain value is expected")),
        }
    }

    fn object(&mut self, object: &'t ObjectType, message: &[u8]) -> Result<Value, Error> {
        let mut out = Map::new();
        self.collect(object, message, [0, 0], &mut out)?;
        for field in &object.fields {
            let Some(wire) = &field.wire else { continue };
            self.path.push(&field.name);
            self.settle(field, wire, &mut out)?;
            self.path.pop();
        }
        Ok(Value::Object(out))
    }

    /// Reads the fields that stand in one message, following embedded ones.
    fn collect(
        &mut self,
        object: &'t ObjectType,
        message: &[u8],
        inside: [u32; 2],
        out: &mut Map,
    ) -> Result<(), Error> {
        let mut fields = Fields::new(message);
        while let Some(read) = fields.next() {
            let (number, value) = read.map_err(|problem| self.fail(problem))?;
            let known = object.fields.iter().find_map(|field| {
                let wire = field.wire.as_ref()?;
                (wire.number == number && wire.embedded_in == inside).then_some((field, wire))
            });
            if let Some((field, wire)) = known {
                self.path.push(&field.name);
                self.add(field, wire, value, out)?;
                self.path.pop();
                continue;
            }
            let deeper = if inside[0] == 0 {
                [number, 0]
            } else {
                [inside[0], number]
            };
            let embeds = object
                .fields
                .iter()
                .filter_map(|field| field.wire.as_ref())
                .any(|wire| {
                    wire.embedded_in[0] == deeper[0]
                        && (deeper[1] == 0 || wire.embedded_in[1] == deeper[1])
                });
            if let (true, Wire::Bytes(nested)) = (embeds && deeper != inside, value) {
                self.collect(object, nested, deeper, out)?;
            }
        }
        Ok(())
    }

    /// Adds one wire value of a field to what was read before.
    fn add(
        &mut self,
        field: &Field,
        wire: &WireField,
        value: Wire<'_>,
        out: &mut Map,
    ) -> Result<(), Error> {
        let types = self.types;
        let shape = types.get(field.type_id).map(|node| &node.shape);
        match shape {
            Some(Shape::List(list)) if wire.encoding != WireEncoding::ListMessage => {
                let items = self.items(list.item, wire.encoding, value)?;
                let slot = out
                    .entry(field.name.as_str())
                    .or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(known) = slot {
                    known.extend(items);
                }
            }
            Some(Shape::Object(ObjectType {
                additional: Some(values),
                ..
            })) => {
                let (key, entry) = self.map_entry(*values, wire.encoding, value)?;
                let slot = out
                    .entry(field.name.as_str())
                    .or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(known) = slot {
                    known.insert(key.into(), entry);
                }
            }
            _ => {
                let single = self.single(field.type_id, wire.encoding, value)?;
                out.insert(field.name.clone(), single);
            }
        }
        Ok(())
    }

    /// Gives a field the value that JSON shows when the message lacks it or has it empty.
    fn settle(&mut self, field: &'t Field, wire: &WireField, out: &mut Map) -> Result<(), Error> {
        let found = out.get(field.name.as_str());
        if wire.pointer {
            if found.is_none() && !wire.omit_empty {
                out.insert(field.name.clone(), Value::Null);
            }
            return Ok(());
        }
        match found {
            Some(value) if wire.omit_empty => {
                if is_empty(value) {
                    out.remove(field.name.as_str());
                }
            }
            Some(_) => {}
            None if wire.omit_empty => {}
            None => {
                let empty = self.empty(field.type_id, wire.encoding)?;
                out.insert(field.name.clone(), empty);
            }
        }
        Ok(())
    }

    /// What Go prints for the zero value of a field that is not left out.
    fn empty(&mut self, type_id: TypeId, encoding: WireEncoding) -> Result<Value, Error> {
        let types = self.types;
        let shape = types.get(type_id).map(|node| &node.shape);
        let is_list_or_map = matches!(
            shape,
            Some(
                Shape::List(_)
                    | Shape::Object(ObjectType {
                        additional: Some(_),
                        ..
                    })
            )
        );
        Ok(match encoding {
            _ if is_list_or_map => Value::Null,
            WireEncoding::Bytes | WireEncoding::ListMessage => Value::Null,
            WireEncoding::Varint | WireEncoding::Double | WireEncoding::Float => Value::from(0),
            WireEncoding::Bool => Value::Bool(false),
            WireEncoding::String => Value::from(""),
            WireEncoding::Message => return self.message(type_id, &[]),
        })
    }

    fn items(
        &mut self,
        item: TypeId,
        encoding: WireEncoding,
        value: Wire<'_>,
    ) -> Result<Vec<Value>, Error> {
        match (encoding, value) {
            (WireEncoding::Varint | WireEncoding::Bool, Wire::Bytes(packed)) => {
                let values = packed_varints(packed).map_err(|problem| self.fail(problem))?;
                values
                    .into_iter()
                    .map(|value| self.single(item, encoding, Wire::Varint(value)))
                    .collect()
            }
            _ => Ok(vec![self.single(item, encoding, value)?]),
        }
    }

    fn map_entry(
        &mut self,
        values: TypeId,
        encoding: WireEncoding,
        value: Wire<'_>,
    ) -> Result<(String, Value), Error> {
        let Wire::Bytes(entry) = value else {
            return Err(self.fail("a map entry is not a message"));
        };
        let mut key = String::new();
        let mut found = None;
        let mut fields = Fields::new(entry);
        while let Some(read) = fields.next() {
            match read.map_err(|problem| self.fail(problem))? {
                (1, Wire::Bytes(text)) => key = self.text(text)?,
                (2, value) => found = Some(self.single(values, encoding, value)?),
                _ => {}
            }
        }
        let value = match (found, encoding) {
            (Some(value), _) => value,
            (None, WireEncoding::Bytes) => Value::from(""),
            (None, _) => self.empty(values, encoding)?,
        };
        Ok((key, value))
    }

    fn single(
        &mut self,
        type_id: TypeId,
        encoding: WireEncoding,
        value: Wire<'_>,
    ) -> Result<Value, Error> {
        Ok(match (encoding, value) {
            (WireEncoding::Varint, Wire::Varint(value)) => Value::from(value.cast_signed()),
            (WireEncoding::Bool, Wire::Varint(value)) => Value::Bool(value != 0),
            (WireEncoding::Double, Wire::Fixed64(bytes)) => number(f64::from_le_bytes(bytes)),
            (WireEncoding::Float, Wire::Fixed32(bytes)) => {
                number(f64::from(f32::from_le_bytes(bytes)))
            }
            (WireEncoding::String, Wire::Bytes(bytes)) => Value::from(self.text(bytes)?),
            (WireEncoding::Bytes, Wire::Bytes(bytes)) => Value::from(STANDARD.encode(bytes)),
            (WireEncoding::Message | WireEncoding::ListMessage, Wire::Bytes(bytes)) => {
                self.message(type_id, bytes)?
            }
            _ => return Err(self.fail("the wire type does not fit the field")),
        })
    }

    fn text(&self, bytes: &[u8]) -> Result<String, Error> {
        String::from_utf8(bytes.to_vec()).map_err(|_| self.fail("text is not UTF-8"))
    }

    /// A list inside a message of its own: all of them are lists of strings.
    fn list_message(&mut self, item: TypeId, message: &[u8]) -> Result<Value, Error> {
        let mut items = Vec::new();
        let mut fields = Fields::new(message);
        while let Some(read) = fields.next() {
            if let (1, value) = read.map_err(|problem| self.fail(problem))? {
                items.push(self.single(item, self.scalar_encoding(item), value)?);
            }
        }
        Ok(Value::Array(items))
    }

    fn scalar_encoding(&self, type_id: TypeId) -> WireEncoding {
        match self.types.get(type_id).map(|node| &node.shape) {
            Some(Shape::Scalar {
                scalar: ScalarKind::String,
                ..
            }) => WireEncoding::String,
            Some(Shape::Scalar {
                scalar: ScalarKind::Integer,
                ..
            }) => WireEncoding::Varint,
            Some(Shape::Scalar {
                scalar: ScalarKind::Boolean,
                ..
            }) => WireEncoding::Bool,
            Some(Shape::Scalar {
                scalar: ScalarKind::Number,
                ..
            }) => WireEncoding::Double,
            _ => WireEncoding::Message,
        }
    }

    /// The values of the fields 1, 2 and 3 of a special message.
    fn parts<'b>(&self, message: &'b [u8]) -> Result<[Vec<Wire<'b>>; 3], Error> {
        let mut parts = [Vec::new(), Vec::new(), Vec::new()];
        let mut fields = Fields::new(message);
        while let Some(read) = fields.next() {
            let (number, value) = read.map_err(|problem| self.fail(problem))?;
            if let Some(part) = (number as usize)
                .checked_sub(1)
                .and_then(|at| parts.get_mut(at))
            {
                part.push(value);
            }
        }
        Ok(parts)
    }

    fn quantity(&self, message: &[u8]) -> Result<Value, Error> {
        let [text, ..] = self.parts(message)?;
        Ok(match text.last() {
            Some(Wire::Bytes(bytes)) if !bytes.is_empty() => Value::from(self.text(bytes)?),
            _ => Value::from("0"),
        })
    }

    fn int_or_string(&self, message: &[u8]) -> Result<Value, Error> {
        let [kind, integer, text] = self.parts(message)?;
        Ok(match kind.last() {
            Some(Wire::Varint(1)) => match text.last() {
                Some(Wire::Bytes(bytes)) => Value::from(self.text(bytes)?),
                _ => Value::from(""),
            },
            _ => Value::from(integer_of(&integer)),
        })
    }

    fn time(&self, message: &[u8], micro: bool) -> Result<Value, Error> {
        let [seconds, nanos, _] = self.parts(message)?;
        let (seconds, nanos) = (integer_of(&seconds), integer_of(&nanos));
        if seconds == 0 && nanos == 0 {
            return Ok(Value::Null);
        }
        let in_range = (-62_135_596_800..253_402_300_800).contains(&seconds)
            && (0..1_000_000_000).contains(&nanos);
        if !in_range {
            return Err(self.fail("the time is outside of the years 1 to 9999"));
        }
        Ok(Value::from(time::format(seconds, nanos, micro)))
    }

    fn raw_json(&self, message: &[u8]) -> Result<Value, Error> {
        let [raw, ..] = self.parts(message)?;
        match raw.last() {
            Some(Wire::Bytes(text)) if !text.is_empty() => everflow_json::from_slice(text)
                .map_err(|error| self.fail(format!("JSON inside the message: {error}"))),
            _ => Ok(Value::Null),
        }
    }

    fn schema_or(&mut self, special: Special, message: &[u8]) -> Result<Value, Error> {
        let [first, second, _] = self.parts(message)?;
        let (schema, other) = match special {
            Special::SchemaOrBool => (second, first),
            _ => (first, second),
        };
        match special {
            Special::SchemaOrArray if !other.is_empty() => return self.schemas(&other),
            Special::SchemaOrStrings if !other.is_empty() => {
                let texts = other.iter().map(|value| match value {
                    Wire::Bytes(bytes) => Ok(Value::from(self.text(bytes)?)),
                    _ => Err(self.fail("the wire type does not fit the field")),
                });
                return texts.collect();
            }
            _ => {}
        }
        match (schema.last(), special) {
            (Some(value), _) => self.schema(*value),
            (None, Special::SchemaOrBool) => Ok(Value::Bool(integer_of(&other) != 0)),
            (None, _) => Ok(Value::Null),
        }
    }

    fn schemas(&mut self, values: &[Wire<'_>]) -> Result<Value, Error> {
        values.iter().map(|value| self.schema(*value)).collect()
    }

    fn schema(&mut self, value: Wire<'_>) -> Result<Value, Error> {
        let props = self
            .types
            .iter()
            .find(|(_, node)| node.name.as_deref() == Some(JSON_SCHEMA_PROPS));
        match (props, value) {
            (Some((type_id, _)), Wire::Bytes(bytes)) => self.message(type_id, bytes),
            _ => Err(self.fail("the wire type does not fit the field")),
        }
    }
}

/// Adds the kind to whole objects inside another kind.
fn add_kinds_inside(definition: Option<&str>, value: &mut Value) {
    let Value::Object(fields) = value else { return };
    for (name, field) in fields {
        let Some((api_version, kind)) = kind_inside(definition, name) else {
            continue;
        };
        for item in field
            .as_array_mut()
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            item.insert("apiVersion".into(), Value::from(api_version));
            item.insert("kind".into(), Value::from(kind));
        }
    }
}

fn integer_of(values: &[Wire<'_>]) -> i64 {
    match values.last() {
        Some(Wire::Varint(value)) => value.cast_signed(),
        _ => 0,
    }
}

/// Go prints whole floats without a fraction.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(_) => false,
    }
}
