//! Answers, be they text or trees, become objects here and nowhere else.
//!
//! Objects can be read without their `managedFields`, which are half of an object and which hardly anybody looks at:
//! skipping them costs a fraction of building them.

use bytes::{Bytes, BytesMut};
use everflow_json::text::{read, read_without};
use everflow_json::{Map, Value};
use everflow_limits::Budget;
use futures_util::StreamExt as _;
use smol_str::SmolStr;

use super::answers;
use super::lines::LineBuffer;
use super::transport::{Body, ByteStream, EventStream, TransportError, WatchPayload};
use crate::error::Error;

/// The field of the metadata that is left out.
const MANAGED_FIELDS: &str = "managedFields";
/// The largest answer that is read.
const LONGEST_ANSWER: usize = 256 << 20;
/// The longest line of a watch.
const LONGEST_LINE: usize = 64 << 20;

/// How much of an object is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// All but its `managedFields`.
    WithoutManagedFields,
    /// Only its metadata, without `managedFields`.
    Metadata,
}

/// Why a body cannot be read.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// It broke off.
    Broken(TransportError),
    /// It makes no sense.
    Undecodable(String),
}

impl Unreadable {
    /// The error of a request.
    pub(super) fn of(self, what: String) -> Error {
        match self {
            Unreadable::Broken(source) => Error::Transport { what, source },
            Unreadable::Undecodable(why) => Error::Undecodable { what, why },
        }
    }
}

impl From<TransportError> for Unreadable {
    fn from(error: TransportError) -> Self {
        Unreadable::Broken(error)
    }
}

impl Part {
    /// Of an object's text. The server sends no more than the metadata where it is asked for no more.
    fn of_text(self, bytes: &[u8]) -> everflow_json::Result<Value> {
        match self {
            Part::Whole => read(bytes),
            Part::WithoutManagedFields | Part::Metadata => {
                read_without(bytes, &["metadata", MANAGED_FIELDS])
            }
        }
    }

    /// Of an object.
    fn of_tree(self, object: &Value) -> Value {
        let (Part::WithoutManagedFields | Part::Metadata, Value::Object(map)) = (self, object)
        else {
            return object.clone();
        };
        let is_read = |field: &str| self != Part::Metadata || field == "metadata";
        let fields = map.iter().filter(|(field, _)| is_read(field));
        let fields = fields.map(|(field, value)| {
            let kept = match value {
                Value::Object(metadata) if field == "metadata" => without_managed(metadata),
                value => value.clone(),
            };
            (field.clone(), kept)
        });
        fields.collect()
    }

    /// Of the object that an answer is.
    pub(super) async fn of_body(
        self,
        body: Body,
        budget: Option<&Budget>,
    ) -> Result<Value, Unreadable> {
        if let Body::Tree(tree) = &body {
            return Ok(self.of_tree((**tree).as_ref()));
        }
        let bytes = text(body, budget).await?;
        let object = self.of_text(&bytes);
        object.map_err(|error| Unreadable::Undecodable(error.to_string()))
    }
}

fn without_managed(metadata: &Map) -> Value {
    let kept = metadata
        .iter()
        .filter(|(field, _)| *field != MANAGED_FIELDS);
    kept.map(|(field, value)| (field.clone(), value.clone()))
        .collect()
}

/// All of a body as text. What it and the tree that is made of it take is charged.
pub(super) async fn text(body: Body, budget: Option<&Budget>) -> Result<Bytes, Unreadable> {
    let mut stream = match body {
        Body::Bytes(stream) => stream,
        Body::Tree(tree) => return Ok(everflow_json::text::to_vec((*tree).as_ref()).into()),
        Body::Events(_) => return Err(Unreadable::Undecodable("it is a watch".to_owned())),
    };
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk?;
        if let Some(budget) = budget {
            answers::charge(budget, &chunk).map_err(Unreadable::Undecodable)?;
        }
        if first.len() + rest.len() + chunk.len() > LONGEST_ANSWER {
            let why = format!("it is longer than {LONGEST_ANSWER} bytes");
            return Err(Unreadable::Undecodable(why));
        }
        match first.is_empty() && rest.is_empty() {
            true => first = chunk,
            false => {
                if !first.is_empty() {
                    rest.extend_from_slice(&std::mem::take(&mut first));
                }
                rest.extend_from_slice(&chunk);
            }
        }
    }
    Ok(match rest.is_empty() {
        true => first,
        false => rest.freeze(),
    })
}

/// The events of a watch.
pub(super) enum Events {
    /// From text, line by line.
    Lines(ByteStream, LineBuffer),
    /// One by one.
    Trees(EventStream),
}

impl Events {
    /// The events that an answer is made of.
    pub(super) fn of(body: Body) -> Self {
        match body {
            Body::Bytes(stream) => Events::Lines(stream, LineBuffer::default()),
            Body::Events(stream) => Events::Trees(stream),
            // A watch of one object: it is no event, which is said when it is read.
            Body::Tree(tree) => {
                let tree = Ok(WatchPayload::Tree("", tree));
                Events::Trees(Box::pin(futures_util::stream::iter([tree])))
            }
        }
    }

    /// The next event; `None` is an orderly end.
    pub(super) async fn next(&mut self) -> Result<Option<WatchPayload>, Unreadable> {
        let (stream, lines) = match self {
            Events::Lines(stream, lines) => (stream, lines),
            Events::Trees(stream) => return Ok(stream.next().await.transpose()?),
        };
        let undecodable = |why: &str| Err(Unreadable::Undecodable(why.to_owned()));
        loop {
            if let Some(line) = lines.line() {
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(Some(WatchPayload::Line(line.freeze())));
            }
            if lines.bytes.len() > LONGEST_LINE {
                return undecodable("an event has no end");
            }
            match stream.next().await {
                Some(chunk) => lines.bytes.extend_from_slice(&chunk?),
                None if lines.bytes.iter().all(u8::is_ascii_whitespace) => return Ok(None),
                None => return undecodable("it ends in the middle of an event"),
            }
        }
    }
}

/// The type of an event of a watch, and its object.
pub(super) fn event(payload: &WatchPayload, part: Part) -> everflow_json::Result<(SmolStr, Value)> {
    match payload {
        WatchPayload::Tree(kind, tree) => {
            let part = match *kind {
                "ERROR" => Part::Whole,
                _ => part,
            };
            let object = part.of_tree((**tree).as_ref());
            Ok((SmolStr::new_static(kind), object))
        }
        WatchPayload::Line(line) => {
            let mut event = read_without(line, &["object", "metadata", MANAGED_FIELDS])?;
            let object = event.get_mut("object").map(Value::take).unwrap_or_default();
            let kind = event.get("type").and_then(Value::as_str);
            Ok((kind.unwrap_or_default().into(), object))
        }
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    /// A tree that an API server would share.
    fn shared(tree: &Value) -> super::super::transport::SharedTree {
        struct Own(Value);
        impl AsRef<Value> for Own {
            fn as_ref(&self) -> &Value {
                &self.0
            }
        }
        Box::new(Own(tree.clone()))
    }

    #[tokio::test]
    async fn only_managed_fields_of_the_metadata_are_left_out() {
        let whole = json!({"kind": "Toy", "spec": {"managedFields": [1]},
            "metadata": {"name": "a", "managedFields": [{"manager": "m"}], "labels": {"managedFields": "x"}}});
        let lean = json!({"kind": "Toy", "spec": {"managedFields": [1]},
            "metadata": {"name": "a", "labels": {"managedFields": "x"}}});
        for (part, expected) in [(Part::WithoutManagedFields, &lean), (Part::Whole, &whole)] {
            let text = Body::full(whole.to_string().into());
            assert_eq!(part.of_body(text, None).await.unwrap(), *expected);
            let tree = Body::Tree(shared(&whole));
            assert_eq!(part.of_body(tree, None).await.unwrap(), *expected);
        }
        let line = json!({"type": "ADDED", "object": whole}).to_string();
        for payload in [
            WatchPayload::Line(line.into()),
            WatchPayload::Tree("ADDED", shared(&whole)),
        ] {
            let (kind, object) = event(&payload, Part::WithoutManagedFields).unwrap();
            assert_eq!((&*kind, object), ("ADDED", lean.clone()));
        }
        let payload = WatchPayload::Tree("ADDED", shared(&whole));
        let (_, metadata) = event(&payload, Part::Metadata).unwrap();
        assert_eq!(metadata, json!({"metadata": lean["metadata"]}));
    }

    #[test]
    fn values_that_are_not_objects_are_read_unchanged() {
        for text in [
            "null",
            "[1,2]",
            r#"{"metadata":null}"#,
            r#"{"metadata":[]}"#,
        ] {
            let plain: Value = everflow_json::from_str(text).unwrap();
            let part = Part::WithoutManagedFields;
            assert_eq!(part.of_text(text.as_bytes()).unwrap(), plain);
            assert_eq!(part.of_tree(&plain), plain);
        }
        for text in ["", "{", r#"{"metadata":{"managedFields":[}}"#, "{} x"] {
            let read = Part::WithoutManagedFields.of_text(text.as_bytes());
            assert!(read.is_err(), "{text}");
        }
    }
}
