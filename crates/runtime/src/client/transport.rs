//! How requests get to an API server, and how answers come back.

use std::fmt;
use std::pin::Pin;

use bytes::Bytes;
use everflow_env::BoxFuture;
use everflow_json::Value;
use futures_util::Stream;

/// A request: a path with a query but no host, and the tree of its body. A transport writes the tree as text or hands it
/// over.
pub type Request<'v> = http::Request<Option<&'v Value>>;

/// An answer.
pub type Response = http::Response<Body>;

/// The text of an answer, as it arrives.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, TransportError>> + Send>>;

/// The events of a watch, one by one.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<WatchPayload, TransportError>> + Send>>;

/// A tree that belongs to whoever answers: what is needed for longer is copied out of it.
pub type SharedTree = Box<dyn AsRef<Value> + Send + Sync>;

/// The body of an answer. What it says is the same in either form; only the decoder tells them apart.
pub enum Body {
    /// Text.
    Bytes(ByteStream),
    /// An object, without text in between.
    Tree(SharedTree),
    /// The events of a watch, without text in between.
    Events(EventStream),
}

/// An event of a watch, in either form.
pub enum WatchPayload {
    /// The line of text.
    Line(Bytes),
    /// Its type, such as `ADDED`, and its object.
    Tree(&'static str, SharedTree),
}

impl Body {
    /// Text that is all there.
    pub fn full(text: Bytes) -> Self {
        Body::Bytes(Box::pin(futures_util::stream::iter([Ok(text)])))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Body::Bytes(_) => "Bytes",
            Body::Tree(_) => "Tree",
            Body::Events(_) => "Events",
        })
    }
}

impl fmt::Debug for WatchPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchPayload::Line(line) => f.debug_tuple("Line").field(&line.len()).finish(),
            WatchPayload::Tree(kind, _) => f.debug_tuple("Tree").field(kind).finish(),
        }
    }
}

/// Why a request did not get an answer, or not a whole one.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{why}")]
pub struct TransportError {
    /// What happened, with its causes.
    pub why: String,
}

impl TransportError {
    /// An error with all its causes in one line.
    pub fn new(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut why = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = match cause.downcast_ref::<std::io::Error>() {
                // rustls says more, with an address of its documentation; for whoever reads it, the server has gone.
                Some(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    "unexpected EOF".to_owned()
                }
                _ => cause.to_string(),
            };
            if !why.ends_with(&text) {
                why.push_str(": ");
                why.push_str(&text);
            }
            source = cause.source();
        }
        TransportError { why }
    }

    /// An error from a text.
    pub fn text(why: impl Into<String>) -> Self {
        TransportError { why: why.into() }
    }
}

/// Sends requests to one API server. Credentials are its business; deadlines, retries and the
/// meaning of answers are not.
pub trait Transport: Send + Sync + fmt::Debug {
    /// Sends a request.
    fn send(&self, request: Request<'_>) -> BoxFuture<'static, Result<Response, TransportError>>;

    /// A request got no answer: whatever connections are open may be dead.
    fn suspect(&self) {}

    /// The server does not know the caller: whatever credentials are remembered may be old.
    /// Returns whether there may be newer ones.
    fn refresh(&self) -> bool {
        false
    }
}

/// The same request with its body as text.
pub fn to_wire(request: Request<'_>) -> http::Request<Bytes> {
    let content_type = request.headers().get(http::header::CONTENT_TYPE);
    let is_json_patch = content_type.is_some_and(|kind| kind == "application/json-patch+json");
    request.map(|body| match body {
        Some(tree) if is_json_patch => escaped(everflow_json::text::to_vec(tree)).into(),
        Some(tree) => everflow_json::text::to_vec(tree).into(),
        None => Bytes::new(),
    })
}

/// JSON with the letters escaped that Go's encoder escapes. The API servers compare the texts of a `test` of a JSON patch
/// byte by byte with what they encode themselves: an `&` as it is fails every test of a message that has one.
fn escaped(text: Vec<u8>) -> Vec<u8> {
    let is_odd = |byte: &u8| matches!(byte, b'<' | b'>' | b'&' | 0xe2);
    if !text.iter().any(is_odd) {
        return text;
    }
    let mut out = Vec::with_capacity(text.len() + 64);
    let mut rest = text.as_slice();
    while let [first, after @ ..] = rest {
        // None of them stands outside of strings.
        let (written, next): (&[u8], &[u8]) = match (first, after) {
            (b'<', _) => (b"\\u003c", after),
            (b'>', _) => (b"\\u003e", after),
            (b'&', _) => (b"\\u0026", after),
            (0xe2, [0x80, 0xa8, next @ ..]) => (b"\\u2028", next),
            (0xe2, [0x80, 0xa9, next @ ..]) => (b"\\u2029", next),
            _ => (std::slice::from_ref(first), after),
        };
        out.extend_from_slice(written);
        rest = next;
    }
    out
}

#[cfg(test)]
mod tests {
    use everflow_json::{Value, json};

    use super::*;

    fn sent(content_type: &str, tree: &Value) -> String {
        let request = http::Request::patch("/").header(http::header::CONTENT_TYPE, content_type);
        let wire = to_wire(request.body(Some(tree)).unwrap());
        String::from_utf8(wire.into_body().to_vec()).unwrap()
    }

    #[test]
    fn end_of_a_connection_is_named_in_two_words() {
        #[derive(Debug, thiserror::Error)]
        #[error("error reading a body from connection")]
        struct Outer(#[source] std::io::Error);
        let eof = std::io::ErrorKind::UnexpectedEof;
        let outer = Outer(std::io::Error::new(
            eof,
            "peer closed connection: https://docs.example.com",
        ));
        let shown = TransportError::new(&outer).to_string();
        assert_eq!(
            shown,
            "error reading a body from connection: unexpected EOF"
        );
    }

    #[test]
    fn json_patch_is_escaped_as_the_api_servers_escape() {
        let tree = json!([{"op": "test", "path": "/a", "value": "a&b <c> \u{2028}\u{2029} \u{2014} \u{e9}\u{1f600}\u{7f}\n\""}]);
        let text = sent("application/json-patch+json", &tree);
        let escapes =
            "a\\u0026b \\u003cc\\u003e \\u2028\\u2029 \u{2014} \u{e9}\u{1f600}\u{7f}\\n\\\"";
        assert!(text.contains(escapes), "{text}");
        assert_eq!(everflow_json::from_str::<Value>(&text).unwrap(), tree);
        let plain = sent("application/merge-patch+json", &tree);
        assert!(plain.contains("a&b <c>"), "{plain}");
    }
}
