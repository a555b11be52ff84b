//! The server as an in-process HTTP service: what a client library talks to instead of a socket.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use http::{HeaderName, HeaderValue, Request as HttpRequest, Response as HttpResponse, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::Frame;

use crate::auth::User;
use crate::auth::certificates::Peer;
use crate::faults::{EventVerdict, Faults, NoFaults, Verdict};
use crate::rest::request::{Answer, Body, Request, parse_query, percent_decode};
use crate::rest::watch::Watch;
use crate::server_core::ApiServer;
use crate::status::ApiError;

/// The body of an HTTP answer.
pub type ApiBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// Bodies beyond this size are not read at all.
const READ_LIMIT: usize = 3 * 1024 * 1024 + 64 * 1024;
/// Answers beyond this size are compressed where the client asks for it.
const GZIP_FROM: usize = 128 * 1024;
/// How long a quiet watch sleeps at most before it looks at the clock.
const IDLE: Duration = Duration::from_secs(30);

/// An HTTP service over the server. Cheap to clone.
#[derive(Clone)]
pub struct ApiService {
    server: ApiServer,
    faults: Arc<dyn Faults>,
    user: Option<User>,
    peer_refused: bool,
}

impl std::fmt::Debug for ApiService {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ApiService")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl ApiService {
    /// A service whose callers are known by their credentials.
    pub fn new(server: ApiServer) -> Self {
        ApiService {
            server,
            faults: Arc::new(NoFaults),
            user: None,
            peer_refused: false,
        }
    }

    /// The same service with every request made by one caller.
    #[must_use]
    pub fn as_user(mut self, user: User) -> Self {
        self.user = Some(user);
        self
    }

    /// The same service for a connection of somebody.
    #[must_use]
    pub fn from_peer(mut self, peer: Peer) -> Self {
        match peer {
            Peer::Unknown => {}
            Peer::Known(user) => self.user = Some(user),
            Peer::Refused => self.peer_refused = true,
        }
        self
    }

    /// The same service with faults.
    #[must_use]
    pub fn with_faults(mut self, faults: Arc<dyn Faults>) -> Self {
        self.faults = faults;
        self
    }

    /// Answers one request.
    pub async fn answer<B>(self, request: HttpRequest<B>) -> HttpResponse<ApiBody>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let gzip = parts
            .headers
            .get("accept-encoding")
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.contains("gzip"));
        let mut plain = Request {
            method: parts.method.as_str().to_owned(),
            path: percent_decode(parts.uri.path(), false),
            query: parse_query(parts.uri.query().unwrap_or_default()),
            headers: parts
                .headers
                .iter()
                .map(|(name, value)| {
                    (
                        name.as_str().to_owned(),
                        String::from_utf8_lossy(value.as_bytes()).into_owned(),
                    )
                })
                .collect(),
            body: Bytes::new(),
            user: self.user.clone(),
            certificate_refused: self.peer_refused,
        };
        match Limited::new(body, READ_LIMIT).collect().await {
            Ok(collected) => plain.body = collected.to_bytes(),
            Err(_) => {
                return respond(
                    Answer::failure(&ApiError::too_large(
                        "Request entity too large: limit is 3145728",
                    )),
                    false,
                    &plain,
                    &self.faults,
                );
            }
        }
        match self.faults.before(&plain) {
            Verdict::Pass => {}
            Verdict::Delay(time) => tokio::time::sleep(time).await,
            Verdict::Fail(error) => {
                return respond(Answer::failure(&error), gzip, &plain, &self.faults);
            }
            Verdict::Drop => return broken(),
        }
        let answer = self.server.handle(&plain);
        match self.faults.after(&plain, answer.status) {
            Verdict::Pass => {}
            Verdict::Delay(time) => tokio::time::sleep(time).await,
            Verdict::Fail(error) => {
                return respond(Answer::failure(&error), gzip, &plain, &self.faults);
            }
            Verdict::Drop => return broken(),
        }
        respond(answer, gzip, &plain, &self.faults)
    }
}

fn is_json(headers: &[(String, String)]) -> bool {
    headers
        .iter()
        .any(|(name, value)| name == "content-type" && value == "application/json")
}

/// People who look at answers with a browser or curl get them indented.
fn wants_indent(request: &Request) -> bool {
    match request.param("pretty") {
        Some(text) => matches!(text, "" | "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => request.first_header("user-agent").is_some_and(|agent| {
            ["curl", "Wget", "Mozilla/5.0"]
                .iter()
                .any(|known| agent.starts_with(known))
        }),
    }
}

fn indent(text: &[u8]) -> Option<Bytes> {
    let value: serde_json::Value = serde_json::from_slice(text).ok()?;
    serde_json::to_vec_pretty(&value).ok().map(Bytes::from)
}

/// A connection that breaks before the answer is complete.
fn broken() -> HttpResponse<ApiBody> {
    let failed = futures_util::stream::once(async {
        Err(std::io::Error::new(
            std::io::ErrorKind::ConnectionReset,
            "the connection was lost",
        ))
    });
    let mut response = HttpResponse::new(StreamBody::new(failed).boxed_unsync());
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

fn respond(
    answer: Answer,
    gzip: bool,
    request: &Request,
    faults: &Arc<dyn Faults>,
) -> HttpResponse<ApiBody> {
    let mut headers = answer.headers;
    let body: ApiBody = match answer.body {
        Body::Full(bytes) => {
            let bytes = if is_json(&headers) && wants_indent(request) {
                indent(&bytes).unwrap_or(bytes)
            } else {
                bytes
            };
            let bytes = match (gzip && bytes.len() >= GZIP_FROM)
                .then(|| compress(&bytes))
                .flatten()
            {
                Some(smaller) => {
                    headers.push(("content-encoding".into(), "gzip".into()));
                    headers.push(("vary".into(), "Accept-Encoding".into()));
                    smaller
                }
                None => bytes,
            };
            let bytes = if request.method == "HEAD" {
                Bytes::new()
            } else {
                bytes
            };
            Full::new(bytes)
                .map_err(|never: Infallible| match never {})
                .boxed_unsync()
        }
        Body::Watch(watch) => stream(watch, faults.clone()),
    };
    let mut response = HttpResponse::new(body);
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (
            HeaderName::try_from(name),
            HeaderValue::from_bytes(value.as_bytes()),
        ) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

fn compress(bytes: &[u8]) -> Option<Bytes> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(
        Vec::with_capacity(bytes.len() / 6),
        flate2::Compression::fast(),
    );
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

struct Streaming {
    watch: Box<Watch>,
    faults: Arc<dyn Faults>,
    server: ApiServer,
    closed: bool,
}

/// A watch as a body. It reads from the log only when the client takes more, so a slow client costs nothing.
fn stream(watch: Box<Watch>, faults: Arc<dyn Faults>) -> ApiBody {
    let server = watch.server().clone();
    let state = Streaming {
        watch,
        faults,
        server,
        closed: false,
    };
    let frames = unfold(state, |mut state| async move {
        let chunk = state.next().await?;
        Some((Ok(Frame::data(chunk)), state))
    });
    StreamBody::new(frames).boxed_unsync()
}

impl Streaming {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.closed {
                return None;
            }
            let mut chunk: Vec<u8> = Vec::new();
            for event in self.watch.poll() {
                match self
                    .faults
                    .event(self.watch.request(), event.kind, &event.line)
                {
                    EventVerdict::Pass => chunk.extend_from_slice(&event.line),
                    EventVerdict::Delay(time) => {
                        tokio::time::sleep(time).await;
                        chunk.extend_from_slice(&event.line);
                    }
                    EventVerdict::Drop => {}
                    EventVerdict::Duplicate => {
                        chunk.extend_from_slice(&event.line);
                        chunk.extend_from_slice(&event.line);
                    }
                    EventVerdict::Close => {
                        self.closed = true;
                        break;
                    }
                }
            }
            if !chunk.is_empty() {
                return Some(chunk.into());
            }
            if self.watch.is_over() {
                return None;
            }
            let now = self.server.env().now();
            let left = self.watch.deadline().map_or(IDLE, |end| {
                Duration::from_micros(end.micros().saturating_sub(now.micros()).max(1000) as u64)
            });
            let _ = tokio::time::timeout(left.min(IDLE), self.watch.changed()).await;
        }
    }
}

impl<B> tower_service::Service<HttpRequest<B>> for ApiService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = HttpResponse<ApiBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}
