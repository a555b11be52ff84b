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
            let text = cause.to_string();
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
    request.map(|body| match body {
        Some(tree) => everflow_json::text::to_vec(tree).into(),
        None => Bytes::new(),
    })
}
