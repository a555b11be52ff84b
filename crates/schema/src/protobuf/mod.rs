//! Kubernetes' protobuf bodies: the `k8s\0` envelope and the messages of built-in kinds.
//!
//! Decoding gives the JSON that Go gives for the same object, so nothing behind it needs to know
//! how a body travelled. Encoding writes what Go writes.

mod decode;
mod encode;
mod envelope;
mod reader;
mod special;
mod writer;

pub use decode::decode_message;
pub use encode::encode_message;
pub use envelope::{Envelope, MAGIC};

use everflow_json::Value;

use crate::error::Error;
use crate::model::TypeId;
use crate::registry::builtin;

/// Decodes a whole body: envelope and object.
pub fn decode(body: &[u8]) -> Result<Value, Error> {
    let envelope = Envelope::parse(body)?;
    if envelope.content_type == "application/json" {
        return everflow_json::from_slice(envelope.raw)
            .map_err(|error| malformed("", format!("the JSON inside the envelope: {error}")));
    }
    let type_id = type_of(&envelope.api_version, &envelope.kind)?;
    let mut value = decode_message(builtin().types(), type_id, envelope.raw)?;
    if let Some(object) = value.as_object_mut() {
        for (key, text) in [
            ("apiVersion", &envelope.api_version),
            ("kind", &envelope.kind),
        ] {
            if !text.is_empty() {
                object.insert(key.into(), Value::from(text.as_str()));
            }
        }
    }
    Ok(value)
}

/// Encodes a whole object of a built-in kind, with the envelope.
pub fn encode(object: &Value) -> Result<Vec<u8>, Error> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let raw = encode_message(builtin().types(), type_of(api_version, kind)?, object)?;
    Ok(Envelope::write(api_version, kind, &raw))
}

/// Encodes a watch event as it stands in a stream: its length in four bytes, the event's type,
/// and the encoded object with its own envelope.
pub fn encode_watch_event(event_type: &str, object: &Value) -> Result<Vec<u8>, Error> {
    let mut raw = writer::Writer::default();
    raw.bytes(1, &encode(object)?);
    let mut event = writer::Writer::default();
    event.bytes(1, event_type.as_bytes());
    event.bytes(2, &raw.finish());
    let event = event.finish();
    let length = u32::try_from(event.len()).map_err(|_| Error::NotEncodable {
        path: String::new(),
        problem: "the event is too long".to_owned(),
    })?;
    Ok([&length.to_be_bytes()[..], &event].concat())
}

fn type_of(api_version: &str, kind: &str) -> Result<TypeId, Error> {
    // Discovery documents have a kind only.
    let wanted = if api_version.is_empty() {
        "v1"
    } else {
        api_version
    };
    builtin()
        .type_of_api_version(wanted, kind)
        .ok_or_else(|| Error::UnknownKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })
}

fn malformed(path: &str, problem: impl Into<String>) -> Error {
    Error::MalformedProtobuf {
        path: path.to_owned(),
        problem: problem.into(),
    }
}
