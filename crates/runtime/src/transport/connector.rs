//! Connections to an API server: plain or secure, straight or through a proxy.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use everflow_connect::{Deadline, Error, HTTP2, Proxy, Spans, secure, tunnel};
use everflow_env::{BoxFuture, Env, Stream};
use http::Uri;
use hyper::rt::ReadBufCursor;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;

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
    pub(super) proxy: Option<Arc<Proxy>>,
    pub(super) tls: Option<Arc<rustls::ClientConfig>>,
    /// Whether there is another way to try.
    pub(super) alternatives: Arc<AtomicBool>,
}

impl Connector {
    async fn open(self, patience: Duration, deadline: &Deadline) -> Result<Link, Error> {
        let spans = Spans {
            connect: patience,
            tls: patience,
        };
        let (env, host, proxy) = (&self.env, &*self.host, self.proxy.as_deref());
        let stream = tunnel(env, proxy, host, self.port, spans, deadline).await?;
        let Some(config) = self.tls else {
            return Ok(Link {
                io: TokioIo::new(stream),
                http2: false,
            });
        };
        let secure = secure(config, &self.name, stream, spans, deadline).await?;
        let http2 = secure.get_ref().1.alpn_protocol() == Some(HTTP2);
        Ok(Link {
            io: TokioIo::new(Box::new(secure)),
            http2,
        })
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = Link;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Link, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let patience = match connector.alternatives.load(Ordering::Relaxed) {
                true => CONNECT_WITH_ALTERNATIVE,
                false => CONNECT,
            };
            let deadline = Deadline::after(&connector.env.clock, patience);
            let opened = connector.open(patience, &deadline).await;
            opened.map_err(|error| match error {
                Error::Deadline => {
                    let seconds = patience.as_secs();
                    Error::Dial(format!("no connection within {seconds}s"))
                }
                other => other,
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
