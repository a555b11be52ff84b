//! An HTTP/1.1 client over the `Env`'s dialer.
//!
//! One [`Client`] is one set of options: whom to trust, who we are, which proxy, which limits. It
//! keeps a few connections open between requests. Nothing runs in the background.

mod body;
mod origin;
#[cfg(test)]
mod origin_tests;
mod private;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use ::http::{Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use everflow_connect::{HTTP, Spans, configure, same_host};
use everflow_env::{Env, Stream};
use http_body_util::Full;
use hyper_util::rt::TokioIo;

pub use body::Body;
use body::Connection;
pub use everflow_connect::printable;
pub use everflow_connect::{Proxy, TlsOptions};
pub use origin::may_send_credentials;
pub(crate) use private::is_private;

use crate::{Deadline, Error, Secret, Url};

type RequestBody = Full<Bytes>;

/// How long and how large things may get.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Until a connection is open.
    pub connect: Duration,
    /// Until it is secure.
    pub tls: Duration,
    /// Until the answer begins.
    pub headers: Duration,
    /// Between two pieces of the answer.
    pub idle: Duration,
    /// Bytes of one answer, decoded.
    pub body: u64,
    /// How many times a server may send us elsewhere.
    pub redirects: usize,
}

impl Default for Limits {
    /// 30 s to connect, 10 s for TLS, 60 s for the first byte and between two, 1 GiB, 10 redirects.
    fn default() -> Self {
        Limits {
            connect: Duration::from_secs(30),
            tls: Duration::from_secs(10),
            headers: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            body: 1 << 30,
            redirects: 10,
        }
    }
}

impl Limits {
    /// How long the steps of a connection may take.
    pub fn spans(&self) -> Spans {
        Spans {
            connect: self.connect,
            tls: self.tls,
        }
    }
}

/// Makes a plain connection secure, for protocols that begin in plain text.
///
/// # Errors
/// When certificates or keys cannot be used, or the other side is not trusted.
pub async fn start_tls(
    env: &Env,
    options: &TlsOptions,
    host: &str,
    stream: Box<dyn Stream>,
    limits: &Limits,
    deadline: &Deadline,
) -> Result<Box<dyn Stream>, Error> {
    let config = configure(options, &env.clock, &[HTTP])?;
    let spans = limits.spans();
    let secured = everflow_connect::secure(config, host, stream, spans, deadline).await?;
    Ok(Box::new(secured))
}

/// Who we are to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// A user and a password.
    Basic {
        /// The user.
        username: String,
        /// The password.
        password: Secret<String>,
    },
    /// A token.
    Bearer(Secret<String>),
}

impl Auth {
    fn header(&self) -> Option<HeaderValue> {
        let text = match self {
            Auth::Basic { username, password } => {
                let pair = format!("{username}:{}", password.reveal());
                format!("Basic {}", STANDARD.encode(pair))
            }
            Auth::Bearer(token) => format!("Bearer {}", token.reveal()),
        };
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// What all requests of a client have in common.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    /// Whom to trust, and our certificate.
    pub tls: TlsOptions,
    /// A proxy for all requests.
    pub proxy: Option<Proxy>,
    /// How long and how large things may get.
    pub limits: Limits,
    /// The name of this program; `everflow/VERSION` when empty.
    pub user_agent: String,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    /// GET, POST and so on.
    pub method: Method,
    /// Where to.
    pub url: Url,
    /// Headers beside those that the client sets.
    pub headers: HeaderMap,
    /// Sent to the host of `url` only, never to one that it redirects to.
    pub auth: Option<Auth>,
    /// What to send.
    pub body: Bytes,
    /// Ask for a compressed answer and decode it.
    pub compressed: bool,
    /// Refuse to be sent to a private address by another host.
    pub guarded: bool,
    /// The body holds credentials: it is sent to no other server.
    pub secret_body: bool,
    /// The server that named the address: it must not be a private one unless that server's is.
    pub named_by: Option<Url>,
    /// Whether another server is asked than the first one was, at which address.
    detour: Option<Detour>,
}

/// Where a redirect led.
#[derive(Debug, Clone, Copy)]
struct Detour {
    /// Whether it is another server, by scheme, host or port.
    foreign: bool,
    /// The address that was judged and is dialled.
    address: Option<std::net::IpAddr>,
}

impl Request {
    /// A GET. Credentials in the address are used.
    pub fn get(url: &Url) -> Self {
        let auth = url.username.as_ref().map(|username| Auth::Basic {
            username: username.clone(),
            password: url.password.clone().unwrap_or_default(),
        });
        Request {
            method: Method::GET,
            url: url.without_credentials(),
            headers: HeaderMap::new(),
            auth,
            body: Bytes::new(),
            compressed: true,
            guarded: false,
            secret_body: false,
            named_by: None,
            detour: None,
        }
    }

    /// A POST.
    pub fn post(url: &Url, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Request {
            method: Method::POST,
            body: body.into(),
            ..Request::get(url)
        }
        .with_header(header::CONTENT_TYPE, content_type)
    }

    /// With another method.
    pub fn with_method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// With credentials; those of the address stay when there are none here.
    pub fn with_auth(mut self, auth: Option<Auth>) -> Self {
        self.auth = auth.or(self.auth);
        self
    }

    /// With a header more. A value that is no header value is left out.
    pub fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }
}

/// An answer; the body is still to be read.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The address that answered, after redirects.
    pub url: Url,
    /// Whether another server answered than the one that was asked.
    pub foreign: bool,
    /// The body.
    pub body: Body,
}

impl Response {
    /// The answer when its status is one of success.
    pub fn success(self) -> Result<Self, Error> {
        match self.status.is_success() {
            true => Ok(self),
            false => Err(Error::Status {
                status: self.status.as_u16(),
                url: self.url.to_string(),
            }),
        }
    }

    /// The start of the body of a refusal, to be shown; nothing of a server that was not asked, since
    /// whoever redirects to it could read it so.
    pub async fn complaint(self, bound: usize) -> Vec<u8> {
        match self.foreign {
            true => Vec::new(),
            false => self.body.read_some(bound).await,
        }
    }

    /// The value of a header, when it is text.
    pub fn header(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Connections to one server that wait for their next request.
#[derive(Clone)]
pub(crate) struct Pool {
    idle: Arc<Mutex<Vec<(String, Connection)>>>,
    key: String,
}

const POOLED: usize = 8;

impl Pool {
    fn put(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() >= POOLED {
            idle.remove(0);
        }
        idle.push((self.key.clone(), connection));
    }

    fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let at = idle.iter().rposition(|(key, _)| *key == self.key)?;
        Some(idle.remove(at).1)
    }
}

/// Sends requests.
pub struct Client {
    env: Env,
    options: ClientOptions,
    /// Made when it is first needed, unless something in it may be wrong.
    tls: OnceLock<Arc<rustls::ClientConfig>>,
    idle: Arc<Mutex<Vec<(String, Connection)>>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("options", &self.options)
            .finish()
    }
}

impl Client {
    /// A client with these options; an error when certificates or keys cannot be used.
    pub fn new(env: &Env, mut options: ClientOptions) -> Result<Self, Error> {
        let tls = OnceLock::new();
        let proxy = options.proxy.take();
        options.proxy = proxy.map(|proxy| proxy.trusting(&options.tls));
        if !options.tls.is_plain() {
            let _ = tls.set(configure(&options.tls, &env.clock, &[HTTP])?);
        }
        Ok(Client {
            env: env.clone(),
            options,
            tls,
            idle: Arc::default(),
        })
    }

    fn tls(&self) -> Result<Arc<rustls::ClientConfig>, Error> {
        if let Some(tls) = self.tls.get() {
            return Ok(tls.clone());
        }
        let tls = configure(&self.options.tls, &self.env.clock, &[HTTP])?;
        Ok(self.tls.get_or_init(|| tls).clone())
    }

    /// The same without our certificate, for servers that it was not given for.
    fn impersonal_tls(&self) -> Result<Arc<rustls::ClientConfig>, Error> {
        let options = TlsOptions {
            client: None,
            ..self.options.tls.clone()
        };
        Ok(configure(&options, &self.env.clock, &[HTTP])?)
    }

    /// A deadline on this client's clock.
    pub fn deadline(&self, span: Duration) -> Deadline {
        Deadline::after(&self.env.clock, span)
    }

    /// Sends a request and follows redirects, until the head of the answer is there. The deadline
    /// holds for reading the body too.
    pub async fn send(&self, request: Request, deadline: &Deadline) -> Result<Response, Error> {
        let verb = verb(&request.method);
        let first = request.url.clone();
        let mut request = request;
        for _ in 0..=self.options.limits.redirects {
            let shown = request.url.to_string();
            let named_by = request.named_by.take();
            let named = |cause: Error| match cause {
                Error::Url(text) => Error::Url(text),
                cause => Error::Request {
                    verb: verb.clone(),
                    url: shown.clone(),
                    cause: Box::new(cause),
                },
            };
            if let Some(by) = named_by.filter(|_| self.options.proxy.is_none()) {
                let judged = private::check_address(&self.env, &by, &request.url).await;
                request.detour = Some(Detour {
                    foreign: false,
                    address: judged.map_err(named)?,
                });
            }
            let response = self.send_once(&request, deadline).await.map_err(named)?;
            match redirected(&request, &response, &first) {
                None => return Ok(response),
                Some(next) => {
                    let mut next = next.map_err(named)?;
                    if next.guarded && self.options.proxy.is_none() {
                        let judged = private::check_address(&self.env, &first, &next.url).await;
                        let address = judged.map_err(named)?;
                        next.detour = next.detour.map(|detour| Detour { address, ..detour });
                    }
                    // A small body is read to its end, so that the connection can go on.
                    response.body.read_some(4096).await;
                    request = next;
                }
            }
        }
        Err(Error::Request {
            verb,
            url: request.url.to_string(),
            cause: Box::new(Error::Protocol(format!(
                "stopped after {} redirects",
                self.options.limits.redirects
            ))),
        })
    }

    /// A GET whose answer must be a success, as a whole.
    pub async fn get(
        &self,
        url: &Url,
        auth: Option<&Auth>,
        bound: u64,
        deadline: &Deadline,
    ) -> Result<Vec<u8>, Error> {
        let request = Request::get(url).with_auth(auth.cloned());
        let response = self.send(request, deadline).await?.success()?;
        response.body.read_all(bound).await
    }

    async fn send_once(&self, request: &Request, deadline: &Deadline) -> Result<Response, Error> {
        let url = &request.url;
        let secure = match url.scheme.as_str() {
            "http" => false,
            "https" => true,
            other => {
                let text = format!("unsupported protocol scheme {other:?}");
                return Err(Error::Protocol(text));
            }
        };
        let pool = Pool {
            idle: self.idle.clone(),
            key: format!(
                "{}://{}:{} {:?}",
                url.scheme,
                url.host,
                url.port_or_default(),
                request.detour
            ),
        };
        let limits = &self.options.limits;
        // A pooled connection may have been closed meanwhile: then a new one is tried.
        if let Some(mut connection) = pool.take()
            && let Ok(Ok(())) = deadline
                .wait_at_most(limits.connect, connection.ready())
                .await
        {
            match self
                .exchange(request, connection, pool.clone(), deadline)
                .await
            {
                Err(Error::Protocol(_)) => {}
                other => return other,
            }
        }
        let connection = self.connect(request, secure, deadline).await?;
        self.exchange(request, connection, pool, deadline).await
    }

    async fn connect(
        &self,
        request: &Request,
        secure: bool,
        deadline: &Deadline,
    ) -> Result<Connection, Error> {
        let spans = self.options.limits.spans();
        let url = &request.url;
        let (host, port) = (&url.host, url.port_or_default());
        let foreign = request.detour.is_some_and(|detour| detour.foreign);
        let judged = request.detour.and_then(|detour| detour.address);
        let dialled = judged.map_or_else(|| host.clone(), |address| address.to_string());
        let proxy = self.options.proxy.as_ref();
        let mut stream = match proxy {
            Some(proxy) if !secure && !proxy.is_socks() => {
                everflow_connect::dial_proxy(&self.env, proxy, spans, deadline).await?
            }
            _ => {
                everflow_connect::tunnel(&self.env, proxy, &dialled, port, spans, deadline).await?
            }
        };
        if secure {
            let tls = match foreign && self.options.tls.client.is_some() {
                true => self.impersonal_tls()?,
                false => self.tls()?,
            };
            let secured = everflow_connect::secure(tls, host, stream, spans, deadline).await?;
            stream = Box::new(secured);
        }
        let shaking = hyper::client::conn::http1::Builder::new()
            .max_headers(256)
            .max_buf_size(256 * 1024)
            .handshake(TokioIo::new(stream));
        let (sender, driver) = match deadline.wait(shaking).await {
            None => return Err(Error::Deadline("")),
            Some(done) => done.map_err(|error| transport_error(&error))?,
        };
        Ok(Connection::new(sender, Box::pin(driver)))
    }

    async fn exchange(
        &self,
        request: &Request,
        mut connection: Connection,
        pool: Pool,
        deadline: &Deadline,
    ) -> Result<Response, Error> {
        let head = self.head(request)?;
        let limits = &self.options.limits;
        let answer = match deadline
            .wait_at_most(limits.headers, connection.send(head))
            .await
        {
            Ok(answer) => answer.map_err(|error| match error.is_incomplete_message() {
                true => Error::Protocol("EOF".to_owned()),
                false => transport_error(&error),
            })?,
            Err(true) => return Err(Error::Deadline("")),
            Err(false) => {
                let text = "net/http: timeout awaiting response headers".to_owned();
                return Err(Error::Dial(text));
            }
        };
        let (mut parts, incoming) = answer.into_parts();
        let gzip = request.compressed
            && parts
                .headers
                .get(header::CONTENT_ENCODING)
                .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"gzip"));
        if gzip {
            parts.headers.remove(header::CONTENT_ENCODING);
            parts.headers.remove(header::CONTENT_LENGTH);
        }
        let limits = limits.clone();
        let deadline = deadline.clone();
        Ok(Response {
            status: parts.status,
            headers: parts.headers,
            url: request.url.clone(),
            foreign: request.detour.is_some_and(|detour| detour.foreign),
            body: Body::new(incoming, connection, Some(pool), gzip, limits, deadline),
        })
    }

    fn head(&self, request: &Request) -> Result<::http::Request<RequestBody>, Error> {
        let url = &request.url;
        let proxied = self
            .options
            .proxy
            .as_ref()
            .filter(|proxy| url.scheme == "http" && !proxy.is_socks());
        let target = match proxied {
            Some(_) => format!("http://{}{}", url.authority(), url.target()),
            None => url.target(),
        };
        let mut head = ::http::Request::builder()
            .method(request.method.clone())
            .uri(target)
            .body(Full::new(request.body.clone()))
            .map_err(|error| Error::Url(format!("parse {:?}: {error}", url.to_string())))?;
        let headers = head.headers_mut();
        *headers = request.headers.clone();
        let text = |text: &str| {
            HeaderValue::from_str(text)
                .map_err(|_| Error::Url(format!("parse {:?}: invalid host", url.to_string())))
        };
        headers.insert(header::HOST, text(&url.authority())?);
        if !headers.contains_key(header::USER_AGENT) {
            let agent = match self.options.user_agent.as_str() {
                "" => concat!("everflow/", env!("CARGO_PKG_VERSION")),
                agent => agent,
            };
            headers.insert(header::USER_AGENT, text(agent)?);
        }
        if request.compressed && !headers.contains_key(header::ACCEPT_ENCODING) {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if let Some(auth) = &request.auth {
            let value = auth.header().ok_or_else(|| {
                Error::Authentication(
                    "the credentials hold characters that no HTTP header may".into(),
                )
            })?;
            headers.insert(header::AUTHORIZATION, value);
        }
        if let Some(value) = proxied.and_then(Proxy::authorization) {
            let mut value = text(&value)?;
            value.set_sensitive(true);
            headers.insert(header::PROXY_AUTHORIZATION, value);
        }
        Ok(head)
    }
}

/// `GET` as Go's messages write it: `Get`.
fn verb(method: &Method) -> String {
    let text = method.as_str();
    let (first, rest) = text.split_at(text.len().min(1));
    format!("{first}{}", rest.to_ascii_lowercase())
}

/// The request that follows an answer which sends us elsewhere.
fn redirected(
    request: &Request,
    response: &Response,
    first: &Url,
) -> Option<Result<Request, Error>> {
    let keep = match response.status.as_u16() {
        301..=303 => matches!(request.method, Method::GET | Method::HEAD),
        307 | 308 => true,
        _ => return None,
    };
    let location = response.header(header::LOCATION)?;
    let next = request.url.join(location).map_err(Error::from);
    let next = next.and_then(|url| {
        if request.guarded && !same_host(&url.host, &first.host) && is_private(&url.host) {
            return Err(Error::Protocol(format!(
                "refusing to be redirected by {:?} to the private address {:?}",
                first.host, url.host
            )));
        }
        let mut next = request.clone();
        if !keep {
            next.method = Method::GET;
            next.body = Bytes::new();
            next.headers.remove(header::CONTENT_TYPE);
        }
        let foreign = !may_send_credentials(first, &url);
        if foreign {
            if next.secret_body && !next.body.is_empty() {
                return Err(Error::Protocol(format!(
                    "refusing to send credentials to {}, where {} redirects to",
                    url.origin(),
                    first.origin()
                )));
            }
            next.auth = None;
            next.headers = origin::impersonal(&next.headers);
        }
        next.detour = Some(Detour {
            foreign,
            address: None,
        });
        next.url = url.without_credentials();
        Ok(next)
    });
    Some(next)
}

/// What went wrong below the protocol, in Go's words.
pub(crate) fn transport_error(error: &hyper::Error) -> Error {
    use std::error::Error as _;
    if let Some(cause) = error
        .source()
        .and_then(|cause| cause.downcast_ref::<std::io::Error>())
    {
        return Error::Protocol(everflow_connect::describe(cause, ""));
    }
    if error.is_incomplete_message() {
        return Error::Protocol("unexpected EOF".to_owned());
    }
    if error.is_closed() || error.is_canceled() {
        return Error::Protocol("EOF".to_owned());
    }
    if error.is_parse() {
        return Error::Protocol(format!(
            "net/http: HTTP/1.x transport connection broken: malformed HTTP response ({error})"
        ));
    }
    Error::Protocol(error.to_string())
}
