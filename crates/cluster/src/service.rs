//! The server as an in-process HTTP service: what a client library talks to instead of a socket.

mod stream;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request as HttpRequest, Response as HttpResponse, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use smol_str::SmolStr;

use crate::auth::User;
use crate::auth::certificates::Peer;
use crate::faults::{Faults, Line, NoFaults, Verdict, View};
use crate::rest::request::{Answer, Body, Request, parse_query, percent_decode};
use crate::rest::request_body::RequestBody;
use crate::server_core::ApiServer;
use crate::status::ApiError;
use stream::Connection;
pub use stream::{Events, Watching};

/// The body of an HTTP answer.
pub type ApiBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// Bodies beyond this size are not read at all.
const READ_LIMIT: usize = 3 * 1024 * 1024 + 64 * 1024;
/// Answers beyond this size are compressed where the client asks for it.
const GZIP_FROM: usize = 128 * 1024;

/// An HTTP service over the server. Cheap to clone.
#[derive(Clone)]
pub struct ApiService {
    server: ApiServer,
    faults: Arc<dyn Faults>,
    line: Option<Arc<Line>>,
    user: Option<Arc<User>>,
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
            line: None,
            user: None,
            peer_refused: false,
        }
    }

    /// The same service with every request made by one caller.
    #[must_use]
    pub fn as_user(mut self, user: User) -> Self {
        self.user = Some(Arc::new(user));
        self
    }

    /// The same service for a connection of somebody.
    #[must_use]
    pub fn from_peer(mut self, peer: Peer) -> Self {
        match peer {
            Peer::Unknown => {}
            Peer::Known(user) => self.user = Some(Arc::new(user)),
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

    /// The same service as one of an API server that has seen only what a view shows.
    #[must_use]
    pub fn with_view(mut self, view: Arc<View>) -> Self {
        self.server = self.server.seen_through(view);
        self
    }

    /// The same service behind a line that can be cut.
    #[must_use]
    pub fn with_line(mut self, line: Arc<Line>) -> Self {
        self.line = Some(line);
        self
    }

    /// Answers one request.
    pub async fn answer<B>(self, request: HttpRequest<B>) -> HttpResponse<ApiBody>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let mut plain = self.read(&parts);
        match Limited::new(body, READ_LIMIT).collect().await {
            Ok(collected) => plain.body = collected.to_bytes().into(),
            Err(_) => {
                return respond(
                    Answer::failure(&ApiError::too_large(
                        "Request entity too large: limit is 3145728",
                    )),
                    false,
                    &plain,
                    None,
                );
            }
        }
        self.carry_out(plain).await
    }

    /// Answers a request from the same process: an answer that is an object comes as the
    /// [`Stored`](crate::store::Stored) in its extensions, a watch as the [`Watching`] there.
    ///
    /// What has to wait for it is small: there are very many of them.
    pub fn answer_in_process(
        self,
        mut request: Request,
    ) -> impl Future<Output = HttpResponse<ApiBody>> + Send + 'static {
        request.in_process = true;
        request.user = self.user.clone();
        request.certificate_refused = self.peer_refused;
        self.carry_out(request)
    }

    /// A request without its body.
    fn read(&self, parts: &http::request::Parts) -> Request {
        let headers = parts.headers.iter().map(|(name, value)| {
            let value = match value.to_str() {
                Ok(text) => text.into(),
                Err(_) => String::from_utf8_lossy(value.as_bytes()).into(),
            };
            (name.as_str().into(), value)
        });
        Request {
            method: parts.method.as_str().into(),
            path: percent_decode(parts.uri.path(), false).into(),
            query: parse_query(parts.uri.query().unwrap_or_default()),
            headers: headers.collect(),
            body: RequestBody::default(),
            user: self.user.clone(),
            certificate_refused: self.peer_refused,
            in_process: false,
        }
    }

    /// Handles a request as the faults let it.
    async fn carry_out(self, plain: Request) -> HttpResponse<ApiBody> {
        let gzip = plain
            .first_header("accept-encoding")
            .is_some_and(|value| value.contains("gzip"));
        let connection = Connection::open(&self.server, self.line.as_deref());
        let mut twice = false;
        match self.faults.before(&plain) {
            Verdict::Pass => {}
            Verdict::Delay(time) => tokio::time::sleep(time).await,
            Verdict::Fail(error) => return respond(Answer::failure(&error), gzip, &plain, None),
            Verdict::Drop => return broken(),
            Verdict::Duplicate => twice = true,
            Verdict::Crash => self.server.crash(),
            Verdict::Later { after, breaks } => {
                let done = self.later(plain.clone(), after);
                if breaks {
                    return broken();
                }
                return match done.await {
                    Ok(answer) if !connection.is_cut() => respond(answer, gzip, &plain, None),
                    _ => broken(),
                };
            }
        }
        if connection.is_cut() {
            return broken();
        }
        self.faults.handling(&plain);
        let mut answer = self.server.handle(&plain);
        match self.faults.after(&plain, answer.status) {
            Verdict::Pass => {}
            Verdict::Delay(time) => tokio::time::sleep(time).await,
            Verdict::Fail(error) => answer = Answer::failure(&error),
            Verdict::Drop | Verdict::Later { .. } => return broken(),
            Verdict::Duplicate => twice = true,
            Verdict::Crash => self.server.crash(),
        }
        if twice && !connection.is_cut() {
            self.faults.handling(&plain);
            answer = self.server.handle(&plain);
        }
        if connection.is_cut() {
            return broken();
        }
        respond(answer, gzip, &plain, Some((self.faults, connection)))
    }
}

impl ApiService {
    /// Handles a request after a while, whoever still waits for it then.
    fn later(
        &self,
        request: Request,
        after: std::time::Duration,
    ) -> tokio::sync::oneshot::Receiver<Answer> {
        let (tell, told) = tokio::sync::oneshot::channel();
        let (server, faults) = (self.server.clone(), self.faults.clone());
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            faults.handling(&request);
            let answer = server.handle(&request);
            faults.after(&request, answer.status);
            // Whoever asked may be gone.
            let _ = tell.send(answer);
        });
        told
    }
}

fn is_json(headers: &[(SmolStr, SmolStr)]) -> bool {
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
    let value: everflow_json::Value = everflow_json::from_slice(text).ok()?;
    everflow_json::to_vec_pretty(&value).ok().map(Bytes::from)
}

fn lost() -> std::io::Error {
    std::io::Error::new(
        std::io::ErrorKind::ConnectionReset,
        "the connection was lost",
    )
}

/// A connection that breaks before the answer is complete.
fn broken() -> HttpResponse<ApiBody> {
    let failed = futures_util::stream::once(async { Err(lost()) });
    let mut response = HttpResponse::new(StreamBody::new(failed).boxed_unsync());
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

fn respond(
    answer: Answer,
    gzip: bool,
    request: &Request,
    open: Option<(Arc<dyn Faults>, Connection)>,
) -> HttpResponse<ApiBody> {
    let mut headers = answer.headers;
    let mut watching = None;
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
        Body::Watch(watch) => match open {
            Some((faults, connection)) => {
                let events = Events::new(watch, faults, connection);
                match request.in_process {
                    true => {
                        watching = Some(Watching::new(events));
                        nothing()
                    }
                    false => events.into_body(),
                }
            }
            None => nothing(),
        },
    };
    let mut response = HttpResponse::new(body);
    if let Some(watching) = watching {
        response.extensions_mut().insert(watching);
    }
    if let Some(object) = answer.object {
        response.extensions_mut().insert(object);
    }
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in headers {
        if let Some((name, value)) = header(&name, &value) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

/// A header in its own form, unless it cannot be one. Nearly all answers have the same, which is not read each time.
fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    if (name, value) == ("content-type", "application/json") {
        let value = HeaderValue::from_static("application/json");
        return Some((http::header::CONTENT_TYPE, value));
    }
    let name = HeaderName::try_from(name).ok()?;
    Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
}

/// A body without content.
fn nothing() -> ApiBody {
    Full::default()
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
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
