//! What the servers for events and webhooks share: whole bodies within bounds, and plain answers.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use everflow_env::{BoxFuture, Clock, Stream, within};
use everflow_notify::event::LARGEST_BODY;
use everflow_runtime::Signal;
use everflow_serve::{Connection, Limits, Port, RequestBody};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use tokio::net::TcpListener;

/// How long a request may take to be read.
const READING: Duration = Duration::from_secs(30);
/// So many bytes of bodies are held at once; who comes when there are more is asked to come again.
const BODIES: usize = 48 << 20;
/// Connections at once. Whoever posts comes through few addresses: other controllers, or an ingress.
const CONNECTIONS: usize = 1_024;

/// A request, read to its end.
#[derive(Debug)]
pub(crate) struct Inbound {
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) text: String,
}

impl Answer {
    /// One without a body.
    pub(crate) fn status(status: u16) -> Self {
        Answer {
            status,
            headers: Vec::new(),
            text: String::new(),
        }
    }

    /// One that asks to come again.
    pub(crate) fn later() -> Self {
        let mut answer = Answer::status(503);
        answer.headers.push(("retry-after", "5".to_owned()));
        answer
    }

    /// One with a line of text, as Go's servers give it.
    pub(crate) fn text(status: u16, text: &str) -> Self {
        let headers = [
            ("content-type", "text/plain; charset=utf-8"),
            ("x-content-type-options", "nosniff"),
        ];
        Answer {
            status,
            headers: headers.map(|(name, value)| (name, value.to_owned())).into(),
            text: format!("{text}\n"),
        }
    }

    pub(crate) fn response(self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(self.text));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in self.headers {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value)) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

/// What answers requests.
pub(crate) trait Answering: Send + Sync + 'static {
    /// An answer that needs no body, which is then not read.
    fn at_once(&self, target: &str) -> Option<Answer>;
    /// Answers a request.
    fn answer(self: Arc<Self>, inbound: Inbound) -> BoxFuture<'static, Answer>;
}

/// A server. Clones share its bounds.
pub(crate) struct Web<A> {
    clock: Arc<dyn Clock>,
    port: Port,
    held: Arc<AtomicUsize>,
    answering: Arc<A>,
}

impl<A> Clone for Web<A> {
    fn clone(&self) -> Self {
        Web {
            clock: self.clock.clone(),
            port: self.port.clone(),
            held: self.held.clone(),
            answering: self.answering.clone(),
        }
    }
}

/// Bytes that are held, given back when it is dropped.
struct Held {
    all: Arc<AtomicUsize>,
    own: usize,
}

impl Held {
    /// Whether there is room for more.
    fn grow(&mut self, more: usize) -> bool {
        self.own += more;
        self.all.fetch_add(more, Ordering::SeqCst) + more <= BODIES
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.own, Ordering::SeqCst);
    }
}

impl<A: Answering> Web<A> {
    pub(crate) fn new(clock: &Arc<dyn Clock>, answering: A) -> Self {
        let limits = Limits {
            per_address: CONNECTIONS,
            head: Duration::from_secs(10),
            ..Limits::for_connections(CONNECTIONS)
        };
        Web {
            clock: clock.clone(),
            port: Port::new(clock.clone(), limits),
            held: Arc::default(),
            answering: Arc::new(answering),
        }
    }

    /// Serves all connections of a listener until told to stop.
    pub(crate) async fn run(&self, listener: TcpListener, stop: Signal) {
        let speak = |connection| self.clone().speak(connection);
        self.port.run(listener, stop.raised(), speak).await;
    }

    /// Serves one connection to its end.
    pub(crate) async fn serve(&self, stream: impl Stream + 'static) {
        let speak = |connection| self.clone().speak(connection);
        self.port.serve(stream, speak).await;
    }

    async fn speak<S: Stream + 'static>(self, connection: Connection<S>) {
        let service = service_fn(move |request: Request<RequestBody>| {
            let web = self.clone();
            async move { Ok::<_, Infallible>(web.answer(request).await.response().map(Full::new)) }
        });
        connection.http1(service).await;
    }

    pub(crate) async fn answer(&self, request: Request<RequestBody>) -> Answer {
        let target = request.uri().path_and_query();
        let target = target.map_or_else(|| "/".to_owned(), ToString::to_string);
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > LARGEST_BODY) {
            return Answer::status(413);
        }
        if let Some(answer) = self.answering.at_once(&target) {
            return answer;
        }
        let mut held = Held {
            all: self.held.clone(),
            own: 0,
        };
        let (head, body) = request.into_parts();
        let body = match within(&*self.clock, READING, read(body, &mut held)).await {
            Ok(Ok(body)) => body,
            Ok(Err(answer)) => return answer,
            Err(_) => return Answer::status(408),
        };
        let inbound = Inbound {
            target,
            headers: head.headers,
            body,
        };
        self.answering.clone().answer(inbound).await
    }
}

async fn read(mut body: RequestBody, held: &mut Held) -> Result<Vec<u8>, Answer> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        // Whoever breaks off is not there to hear of it.
        let frame = frame.map_err(|_| Answer::status(400))?;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        if bytes.len() + data.len() > LARGEST_BODY {
            return Err(Answer::status(413));
        }
        if !held.grow(data.len()) {
            return Err(Answer::later());
        }
        bytes.extend_from_slice(data);
    }
    Ok(bytes)
}
