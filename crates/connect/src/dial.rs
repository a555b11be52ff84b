//! Connections: direct and through proxies.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use everflow_env::{Env, Stream};
use tokio_rustls::client::TlsStream;

use crate::url::bracketed;
use crate::words::go_words;
use crate::{Deadline, Error, Proxy, tls};

/// How long the steps of a connection may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spans {
    /// Until it is open.
    pub connect: Duration,
    /// Until it is secure.
    pub tls: Duration,
}

fn dial_words(host: &str, port: u16, error: &io::Error) -> String {
    let text = error.to_string();
    if text.starts_with("dial tcp") {
        return text;
    }
    if let Some(cause) = text.strip_prefix("failed to lookup address information: ") {
        return match cause {
            "Name or service not known" | "No address associated with hostname" => {
                format!("dial tcp: lookup {host}: no such host")
            }
            other => format!("dial tcp: lookup {host}: {other}"),
        };
    }
    format!("dial tcp {}:{port}: {}", bracketed(host), go_words(error))
}

/// Opens a plain connection to a host.
pub async fn dial(
    env: &Env,
    host: &str,
    port: u16,
    spans: Spans,
    deadline: &Deadline,
) -> Result<Box<dyn Stream>, Error> {
    if host.is_empty() {
        return Err(Error::Dial("http: no Host in request URL".to_owned()));
    }
    let connecting = env.dialer.connect(host, port);
    match deadline.wait_at_most(spans.connect, connecting).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(Error::Dial(dial_words(host, port, &error))),
        Err(true) => Err(Error::Deadline),
        Err(false) => {
            let host = bracketed(host);
            Err(Error::Dial(format!("dial tcp {host}:{port}: i/o timeout")))
        }
    }
}

/// Opens a connection to a proxy itself, secure when it is an `https` one.
pub async fn dial_proxy(
    env: &Env,
    proxy: &Proxy,
    spans: Spans,
    deadline: &Deadline,
) -> Result<Box<dyn Stream>, Error> {
    let (host, port) = (&proxy.url.host, proxy.url.port_or_default());
    let named = |error: Error| match error {
        Error::Dial(text) => Error::Dial(format!("proxyconnect tcp: {text}")),
        // Whom the proxy's certificate is from says nothing of the host.
        Error::Tls { message, .. } => Error::tls(format!("proxyconnect tcp: {message}")),
        other => other,
    };
    let stream = dial(env, host, port, spans, deadline)
        .await
        .map_err(named)?;
    if proxy.url.scheme != "https" {
        return Ok(stream);
    }
    let config = tls::configure(&proxy.trust, &env.clock, &[tls::HTTP])?;
    match secure(config, host, stream, spans, deadline).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(named(error)),
    }
}

/// The TLS handshake within its time.
pub async fn secure(
    config: Arc<rustls::ClientConfig>,
    host: &str,
    stream: Box<dyn Stream>,
    spans: Spans,
    deadline: &Deadline,
) -> Result<TlsStream<Box<dyn Stream>>, Error> {
    let shaking = tls::secure(config, host, stream);
    match deadline.wait_at_most(spans.tls, shaking).await {
        Ok(done) => done,
        Err(true) => Err(Error::Deadline),
        Err(false) => Err(Error::tls("net/http: TLS handshake timeout")),
    }
}

/// Opens a connection to a host, through a proxy when there is one, as a tunnel of plain bytes.
pub async fn tunnel(
    env: &Env,
    proxy: Option<&Proxy>,
    host: &str,
    port: u16,
    spans: Spans,
    deadline: &Deadline,
) -> Result<Box<dyn Stream>, Error> {
    let Some(proxy) = proxy else {
        return dial(env, host, port, spans, deadline).await;
    };
    let mut stream = dial_proxy(env, proxy, spans, deadline).await?;
    let asking = proxy.ask(&mut *stream, host, port);
    match deadline.wait_at_most(spans.connect, asking).await {
        Ok(done) => done?,
        Err(true) => return Err(Error::Deadline),
        Err(false) => {
            let text = format!("proxyconnect tcp: the proxy {} did not answer", proxy.url);
            return Err(Error::Dial(text));
        }
    }
    Ok(stream)
}
