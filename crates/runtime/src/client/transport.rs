//! How requests get to an API server.

use std::fmt;
use std::pin::Pin;

use bytes::Bytes;
use everflow_env::BoxFuture;
use futures_util::Stream;

/// The body of an answer, as it arrives.
pub type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, TransportError>> + Send>>;

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
    /// Sends a request with a path and query but no host.
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<BodyStream>, TransportError>>;

    /// Whether the API server is in the same process: then it is sent to with [`Transport::send_in_process`].
    fn is_in_process(&self) -> bool {
        false
    }

    /// Sends a request to an API server in the same process. The body may be a tree; an answer that is an object is the
    /// `Stored` in its extensions, a watch the `Watching` there, and no text is made of any of them.
    fn send_in_process(
        &self,
        _request: everflow_cluster::Request,
    ) -> BoxFuture<'static, Result<http::Response<BodyStream>, TransportError>> {
        let elsewhere = TransportError::text("the API server is not in this process");
        Box::pin(std::future::ready(Err(elsewhere)))
    }

    /// A request got no answer: whatever connections are open may be dead.
    fn suspect(&self) {}

    /// The server does not know the caller: whatever credentials are remembered may be old.
    /// Returns whether there may be newer ones.
    fn refresh(&self) -> bool {
        false
    }
}
