//! Data into values, by the schema.

use std::collections::BTreeMap;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_json::{Map, Value as Json};
use everflow_schema::{JsonType, ListKind as SchemaListKind, Shape, TypeId, TypeTable};

use super::decl::has_metadata;
use crate::escape::escape;
use crate::time::{Duration, Timestamp};
use crate::value::{Key, List, ListKind, Value};

/// The value of data at a node; `is_root` for whole objects, whose metadata is always visible.
pub(super) fn value(types: &TypeTable, id: TypeId, data: &Json, is_root: bool) -> Value {
    let Some(node) = types.get(id) else {
        return Value::from_json(data);
    };
    let is_root = is_root || node.embedded_resource;
    match (&node.shape, data) {
        (Shape::IntOrString, _) => Value::from_json(data),
        (Shape::List(list), Json::Array(items)) => {
            let kind = match &list.kind {
                SchemaListKind::Atomic => ListKind::Atomic,
                SchemaListKind::Set => ListKind::Set,
                SchemaListKind::Map { keys } => {
                    let names = keys
                        .iter()
                        .map(|key| escape(key).unwrap_or_else(|| key.to_string()));
                    ListKind::Map(names.collect())
                }
            };
            let items = items
                .iter()
                .map(|item| value(types, list.item, item, false))
                .collect();
            Value::List(Rc::new(List { items, kind }))
        }
        (Shape::Object(object), Json::Object(map)) => match object.additional {
            Some(additional) if object.fields.is_empty() => Value::map(
                map.iter()
                    .map(|(key, data)| (key.to_string(), value(types, additional, data, false))),
            ),
            _ => fields(types, id, map, is_root),
        },
        (Shape::Any, Json::Object(map)) if is_root => fields(types, id, map, true),
        (_, Json::String(text)) if node.json_type == Some(JsonType::String) => {
            let format = match &node.shape {
                Shape::Scalar { format, .. } => format.as_deref(),
                _ => None,
            };
            formatted(text, format)
        }
        (_, Json::Number(number)) if node.json_type == Some(JsonType::Number) => {
            Value::Double(number.as_f64().unwrap_or(f64::NAN))
        }
        _ => Value::from_json(data),
    }
}

fn formatted(text: &str, format: Option<&str>) -> Value {
    let known = match format {
        Some("duration") => Duration::parse(text).map(Value::Duration),
        Some("date") => Timestamp::parse(&format!("{text}T00:00:00Z")).map(Value::Timestamp),
        Some("date-time") => Timestamp::parse(text).map(Value::Timestamp),
        Some("byte") => STANDARD
            .decode(text)
            .ok()
            .map(|bytes| Value::Bytes(bytes.into())),
        _ => None,
    };
    known.unwrap_or_else(|| Value::string(text))
}

/// An object with known fields. Those that rules cannot see only count when objects are compared.
fn fields(types: &TypeTable, id: TypeId, map: &Map, is_root: bool) -> Value {
    let object = types.get(id).and_then(|node| node.as_object());
    let adds_metadata = is_root && object.is_none_or(|object| !has_metadata(types, object));
    let mut entries = BTreeMap::new();
    for (name, data) in map {
        if adds_metadata && matches!(name.as_str(), "kind" | "apiVersion") {
            entries.insert(Key::String(name.as_str().into()), Value::from_json(data));
            continue;
        }
        if adds_metadata && name == "metadata" {
            let data = data.as_object().into_iter().flatten();
            let names = data.map(|(name, data)| {
                let name = Rc::from(name.as_str());
                let key = match &*name {
                    "name" | "generateName" => Key::String(name),
                    _ => Key::Hidden(name),
                };
                (key, Value::from_json(data))
            });
            let metadata = Value::Map(Rc::new(names.collect()));
            entries.insert(Key::String("metadata".into()), metadata);
            continue;
        }
        let field = object.and_then(|object| object.field(name));
        match (field, escape(name)) {
            // A null is as good as nothing.
            (Some(_), Some(_)) if data.is_null() => {}
            (Some(field), Some(escaped)) => {
                let data = value(types, field.type_id, data, false);
                entries.insert(Key::String(escaped.into()), data);
            }
            _ => {
                entries.insert(Key::Hidden(name.as_str().into()), Value::from_json(data));
            }
        }
    }
    Value::Map(Rc::new(entries))
}
