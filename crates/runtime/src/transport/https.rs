//! A real cluster, over HTTP/2 or HTTP/1.1 and TLS, on connections from the [`Env`]'s dialer.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use everflow_env::{BoxFuture, Clock, Env, Stream, within};
use futures_util::StreamExt as _;
use http::Uri;
use http_body_util::{BodyExt as _, Full};
use hyper::rt::ReadBufCursor;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

use super::config::{ClientCertificate, ClusterConfig};
use super::credentials::Credentials;
use super::tls;
use crate::client::{Body, Request, Response, Transport, TransportError, to_wire};
use crate::error::Error;

/// How long opening a connection may take, TLS included.
const CONNECT: Duration = Duration::from_secs(10);
/// How often a connection in use is asked whether it lives, and how long it may think about it.
const PING: Duration = Duration::from_secs(15);
const PONG: Duration = Duration::from_secs(10);
/// At most so often all connections are given up because one was bad.
const RENEW: Duration = Duration::from_secs(5);

type Http = Client<Connector, Full<Bytes>>;

/// Sends requests to a real cluster.
#[derive(Debug)]
pub struct HttpsTransport {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    env: Env,
    config: ClusterConfig,
    credentials: Credentials,
    current: Mutex<Option<Current>>,
}

#[derive(Debug)]
struct Current {
    client: Http,
    certificate: Option<Arc<ClientCertificate>>,
    made: Duration,
    bad: bool,
}

impl HttpsTransport {
    /// A transport to a cluster. Nothing is connected yet, but certificates are checked.
    pub fn new(env: &Env, config: ClusterConfig) -> Result<Self, Error> {
        let credentials = Credentials::new(env.clock.clone(), config.login.clone());
        let shared = Shared {
            env: env.clone(),
            credentials,
            current: Mutex::default(),
            config,
        };
        shared.connect(None).map_err(|error| Error::Config {
            path: shared.config.url(),
            why: error.why,
        })?;
        Ok(HttpsTransport {
            shared: Arc::new(shared),
        })
    }
}

impl Shared {
    fn connect(&self, shown: Option<&ClientCertificate>) -> Result<Http, TransportError> {
        let certificate = shown.or(self.config.certificate.as_ref());
        let tls = match self.config.tls {
            true => Some(tls::configure(&self.config, certificate)?),
            false => None,
        };
        let connector = Connector {
            env: self.env.clone(),
            host: self.config.host.clone().into(),
            port: self.config.port,
            name: self.config.server_name.clone().map(Into::into),
            proxy: self.config.proxy.clone(),
            tls,
        };
        Ok(Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(90))
            .http2_keep_alive_interval(PING)
            .http2_keep_alive_timeout(PONG)
            .http2_initial_stream_window_size(1 << 20)
            .http2_initial_connection_window_size(16 << 20)
            .build(connector))
    }

    /// The client for these credentials: the one there is, or a new one.
    fn client(&self, shown: Option<Arc<ClientCertificate>>) -> Result<Http, TransportError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.env.clock.elapsed();
        if let Some(kept) = current.as_ref() {
            let renew = kept.bad && now.saturating_sub(kept.made) >= RENEW;
            if kept.certificate == shown && !renew {
                return Ok(kept.client.clone());
            }
        }
        let client = self.connect(shown.as_deref())?;
        *current = Some(Current {
            client: client.clone(),
            certificate: shown,
            made: now,
            bad: false,
        });
        Ok(client)
    }

    async fn send(&self, mut request: http::Request<Bytes>) -> Result<Response, TransportError> {
        let shown = self.credentials.show().await?;
        if let Some(authorization) = shown.authorization {
            let headers = request.headers_mut();
            headers.insert(http::header::AUTHORIZATION, authorization);
        }
        let target = request
            .uri()
            .path_and_query()
            .map_or("/", |path| path.as_str());
        let url = format!("{}{target}", self.config.url());
        *request.uri_mut() = url
            .parse()
            .map_err(|error| TransportError::text(format!("{url}: {error}")))?;
        let client = self.client(shown.certificate)?;
        let response = client
            .request(request.map(Full::new))
            .await
            .map_err(|error| TransportError::new(&error))?;
        Ok(response.map(|body| {
            let chunks = body.into_data_stream();
            let bytes = chunks.map(|chunk| chunk.map_err(|error| TransportError::new(&error)));
            Body::Bytes(Box::pin(bytes))
        }))
    }
}

impl Transport for HttpsTransport {
    fn send(&self, request: Request<'_>) -> BoxFuture<'static, Result<Response, TransportError>> {
        let (shared, request) = (self.shared.clone(), to_wire(request));
        Box::pin(async move { shared.send(request).await })
    }

    /// New requests go to new connections; what still runs on the old ones may end.
    fn suspect(&self) {
        let current = self.shared.current.lock();
        if let Some(kept) = current.unwrap_or_else(PoisonError::into_inner).as_mut() {
            kept.bad = true;
        }
    }

    fn refresh(&self) -> bool {
        self.shared.credentials.refused()
    }
}

/// Opens connections to the one server.
#[derive(Debug, Clone)]
struct Connector {
    env: Env,
    host: Arc<str>,
    port: u16,
    name: Option<Arc<str>>,
    proxy: Option<(String, u16)>,
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Connector {
    async fn open(self) -> io::Result<Link> {
        let dialer = &self.env.dialer;
        let mut stream = match &self.proxy {
            None => dialer.connect(&self.host, self.port).await?,
            Some((host, port)) => dialer.connect(host, *port).await?,
        };
        if self.proxy.is_some() {
            self.tunnel(&mut *stream).await?;
        }
        let Some(config) = self.tls else {
            return Ok(Link {
                io: TokioIo::new(stream),
                http2: false,
            });
        };
        let name = self.name.as_deref().unwrap_or(&self.host).to_owned();
        let name = rustls::pki_types::ServerName::try_from(name)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let secure = TlsConnector::from(config).connect(name, stream).await?;
        let http2 = secure.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Link {
            io: TokioIo::new(Box::new(secure)),
            http2,
        })
    }

    /// Asks an HTTP proxy for a way through.
    async fn tunnel(&self, stream: &mut dyn Stream) -> io::Result<()> {
        let target = match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        };
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
            if head.len() > 16 << 10 {
                return Err(io::Error::other("the proxy's answer is too long"));
            }
        }
        let line = String::from_utf8_lossy(&head);
        let line = line.lines().next().unwrap_or_default();
        match line
            .split(' ')
            .nth(1)
            .is_some_and(|code| code.starts_with('2'))
        {
            true => Ok(()),
            false => Err(io::Error::other(format!("the proxy refuses: {line}"))),
        }
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = Link;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Link>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (connector, clock) = (self.clone(), self.env.clock.clone());
        Box::pin(async move {
            let clock: &dyn Clock = &*clock;
            let opened = within(clock, CONNECT, connector.open()).await;
            opened.unwrap_or_else(|_| {
                let text = format!("no connection within {}s", CONNECT.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, text))
            })
        })
    }
}

/// A connection, plain or secure.
struct Link {
    io: TokioIo<Box<dyn Stream>>,
    http2: bool,
}

impl Connection for Link {
    fn connected(&self) -> Connected {
        match self.http2 {
            true => Connected::new().negotiated_h2(),
            false => Connected::new(),
        }
    }
}

impl hyper::rt::Read for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl hyper::rt::Write for Link {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
