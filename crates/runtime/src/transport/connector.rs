//! Connections to an API server: plain or secure, straight or through an HTTP proxy.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use everflow_env::{BoxFuture, Clock, Env, Stream, within};
use http::Uri;
use hyper::rt::ReadBufCursor;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

/// How long opening a connection may take, TLS included.
const CONNECT: Duration = Duration::from_secs(10);
/// The same when there is another way to try.
const CONNECT_WITH_ALTERNATIVE: Duration = Duration::from_secs(3);

/// Opens connections to one server.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    pub(super) env: Env,
    pub(super) host: Arc<str>,
    pub(super) port: u16,
    /// The name that the server's certificate must have.
    pub(super) name: Arc<str>,
    pub(super) proxy: Option<(String, u16)>,
    pub(super) tls: Option<Arc<rustls::ClientConfig>>,
    /// Whether there is another way to try.
    pub(super) alternatives: Arc<AtomicBool>,
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
        let name = rustls::pki_types::ServerName::try_from(self.name.to_string())
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
            let patience = match connector.alternatives.load(Ordering::Relaxed) {
                true => CONNECT_WITH_ALTERNATIVE,
                false => CONNECT,
            };
            let opened = within(clock, patience, connector.open()).await;
            opened.unwrap_or_else(|_| {
                let text = format!("no connection within {}s", patience.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, text))
            })
        })
    }
}

/// Whether a connection failed because the server could not prove who it is.
pub(super) fn is_stranger(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let tls = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if matches!(tls, Some(rustls::Error::InvalidCertificate(_))) {
            return true;
        }
        next = error.source();
    }
    false
}

/// A connection, plain or secure.
pub(super) struct Link {
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
