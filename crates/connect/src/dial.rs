//! Connections: direct and through proxies.

use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_env::{Env, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Limits, tls};
use crate::url::bracketed;
use crate::{Deadline, Error, Secret, Url};

/// A proxy between us and the world.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// `http://`, `https://` or `socks5://` with host and port.
    pub url: Url,
    /// The user and password for the proxy.
    pub credentials: Option<(String, Secret<String>)>,
}

impl Proxy {
    /// Reads a proxy's address; a user and password in it count when no others are given.
    pub fn new(
        address: &str,
        credentials: Option<(String, Secret<String>)>,
    ) -> Result<Self, Error> {
        let url = Url::parse(address)?;
        if !matches!(url.scheme.as_str(), "http" | "https" | "socks5") {
            return Err(Error::Authentication(format!(
                "invalid proxy scheme {:?}: use http, https or socks5",
                url.scheme
            )));
        }
        let own = url
            .username
            .clone()
            .map(|name| (name, url.password.clone().unwrap_or_default()));
        Ok(Proxy {
            credentials: credentials.or(own),
            url: url.without_credentials(),
        })
    }

    /// The header that names us to an HTTP proxy.
    pub(crate) fn authorization(&self) -> Option<String> {
        let (name, word) = self.credentials.as_ref()?;
        let pair = STANDARD.encode(format!("{name}:{}", word.reveal()));
        Some(format!("Basic {pair}"))
    }

    pub(crate) fn is_socks(&self) -> bool {
        self.url.scheme == "socks5"
    }
}

/// What the machine's error is called in Go.
pub(crate) fn go_words(error: &io::Error) -> String {
    let words = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused",
        io::ErrorKind::ConnectionReset => "read: connection reset by peer",
        io::ErrorKind::BrokenPipe => "write: broken pipe",
        io::ErrorKind::TimedOut => "i/o timeout",
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable",
        io::ErrorKind::HostUnreachable => "connect: no route to host",
        io::ErrorKind::UnexpectedEof => "unexpected EOF",
        _ => return error.to_string(),
    };
    words.to_owned()
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
    limits: &Limits,
    deadline: &Deadline,
) -> Result<Box<dyn Stream>, Error> {
    if host.is_empty() {
        return Err(Error::Dial("http: no Host in request URL".to_owned()));
    }
    let connecting = env.dialer.connect(host, port);
    match deadline.wait_at_most(limits.connect, connecting).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(Error::Dial(dial_words(host, port, &error))),
        Err(true) => Err(Error::Deadline("")),
        Err(false) => {
            let host = bracketed(host);
            Err(Error::Dial(format!("dial tcp {host}:{port}: i/o timeout")))
        }
    }
}

/// Makes a plain connection secure, for protocols that begin in plain text.
///
/// # Errors
/// When certificates or keys cannot be used, or the other side is not trusted.
pub async fn start_tls(
    env: &Env,
    options: &tls::TlsOptions,
    host: &str,
    stream: Box<dyn Stream>,
    limits: &Limits,
    deadline: &Deadline,
) -> Result<Box<dyn Stream>, Error> {
    let config = tls::configure(options, &env.clock)?;
    secure(config, host, stream, limits, deadline).await
}

/// Opens a connection to a proxy itself, secure when it is an `https` one.
pub(crate) async fn dial_proxy(
    env: &Env,
    proxy: &Proxy,
    limits: &Limits,
    deadline: &Deadline,
) -> Result<Box<dyn Stream>, Error> {
    let (host, port) = (&proxy.url.host, proxy.url.port_or_default());
    let named = |error: Error| match error {
        Error::Dial(text) => Error::Dial(format!("proxyconnect tcp: {text}")),
        Error::Tls(text) => Error::Tls(format!("proxyconnect tcp: {text}")),
        other => other,
    };
    let stream = dial(env, host, port, limits, deadline)
        .await
        .map_err(named)?;
    if proxy.url.scheme != "https" {
        return Ok(stream);
    }
    let config = tls::configure(&tls::TlsOptions::default(), &env.clock)?;
    secure(config, host, stream, limits, deadline)
        .await
        .map_err(named)
}

/// The TLS handshake within its time.
pub(crate) async fn secure(
    config: Arc<rustls::ClientConfig>,
    host: &str,
    stream: Box<dyn Stream>,
    limits: &Limits,
    deadline: &Deadline,
) -> Result<Box<dyn Stream>, Error> {
    let shaking = tls::secure(config, host, stream);
    match deadline.wait_at_most(limits.tls, shaking).await {
        Ok(done) => done,
        Err(true) => Err(Error::Deadline("")),
        Err(false) => Err(Error::Tls("net/http: TLS handshake timeout".to_owned())),
    }
}

/// Opens a connection to a host, through a proxy when there is one, as a tunnel of plain bytes.
pub(crate) async fn tunnel(
    env: &Env,
    proxy: Option<&Proxy>,
    host: &str,
    port: u16,
    limits: &Limits,
    deadline: &Deadline,
) -> Result<Box<dyn Stream>, Error> {
    let Some(proxy) = proxy else {
        return dial(env, host, port, limits, deadline).await;
    };
    let mut stream = dial_proxy(env, proxy, limits, deadline).await?;
    let asking = async {
        if proxy.is_socks() {
            socks(&mut *stream, proxy, host, port).await
        } else {
            connect_method(&mut *stream, proxy, host, port).await
        }
    };
    match deadline.wait_at_most(limits.connect, asking).await {
        Ok(done) => done?,
        Err(true) => return Err(Error::Deadline("")),
        Err(false) => {
            let text = format!("proxyconnect tcp: the proxy {} did not answer", proxy.url);
            return Err(Error::Dial(text));
        }
    }
    Ok(stream)
}

/// Asks an HTTP proxy for a tunnel.
async fn connect_method(
    stream: &mut dyn Stream,
    proxy: &Proxy,
    host: &str,
    port: u16,
) -> Result<(), Error> {
    let target = format!("{}:{port}", bracketed(host));
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if let Some(authorization) = proxy.authorization() {
        request.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
    }
    request.push_str("\r\n");
    let broken = |error: io::Error| Error::Dial(format!("proxyconnect tcp: {}", go_words(&error)));
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    // Byte by byte: what follows the head belongs to the tunnel.
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > 16 * 1024 {
            let text = "proxyconnect tcp: the proxy's answer is too long".to_owned();
            return Err(Error::Protocol(text));
        }
        head.push(stream.read_u8().await.map_err(broken)?);
    }
    let text = String::from_utf8_lossy(&head);
    let line = text.lines().next().unwrap_or_default();
    let status = line.split_once(' ').map_or("", |(_, status)| status.trim());
    match status.starts_with('2') {
        true => Ok(()),
        // Go gives the text behind the number.
        false => {
            Err(Error::Dial(status.split_once(' ').map_or(
                "malformed HTTP response".to_owned(),
                |(_, words)| super::printable(words),
            )))
        }
    }
}

/// Asks a SOCKS 5 proxy (RFC 1928, 1929) for a connection; the proxy resolves the name.
async fn socks(stream: &mut dyn Stream, proxy: &Proxy, host: &str, port: u16) -> Result<(), Error> {
    let place = format!("{}->{}:{port}", proxy.url.authority(), bracketed(host));
    let fail = |cause: &str| Error::Dial(format!("socks connect tcp {place}: {cause}"));
    let broken = |error: io::Error| fail(&go_words(&error));
    let methods: &[u8] = match proxy.credentials {
        Some(_) => &[5, 2, 0, 2],
        None => &[5, 1, 0],
    };
    stream.write_all(methods).await.map_err(broken)?;
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).await.map_err(broken)?;
    match (chosen, &proxy.credentials) {
        ([5, 0], _) => {}
        ([5, 2], Some((name, word))) => {
            let (name, word) = (name.as_bytes(), word.reveal().as_bytes());
            let (Ok(name_length), Ok(word_length)) =
                (u8::try_from(name.len()), u8::try_from(word.len()))
            else {
                return Err(fail("invalid username/password"));
            };
            let mut login = vec![1, name_length];
            login.extend_from_slice(name);
            login.push(word_length);
            login.extend_from_slice(word);
            stream.write_all(&login).await.map_err(broken)?;
            let mut answer = [0; 2];
            stream.read_exact(&mut answer).await.map_err(broken)?;
            if answer[1] != 0 {
                return Err(fail("username/password authentication failed"));
            }
        }
        _ => return Err(fail("no acceptable authentication methods")),
    }
    let mut request = vec![5, 1, 0];
    match host.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(address)) => {
            request.push(1);
            request.extend_from_slice(&address.octets());
        }
        Ok(std::net::IpAddr::V6(address)) => {
            request.push(4);
            request.extend_from_slice(&address.octets());
        }
        Err(_) => {
            let length = u8::try_from(host.len()).map_err(|_| fail("FQDN too long"))?;
            request.extend_from_slice(&[3, length]);
            request.extend_from_slice(host.as_bytes());
        }
    }
    request.extend_from_slice(&port.to_be_bytes());
    stream.write_all(&request).await.map_err(broken)?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await.map_err(broken)?;
    if answer[0] != 5 || answer[1] != 0 {
        return Err(fail(socks_words(answer[1])));
    }
    let length = match answer[3] {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await.map_err(broken)?),
        _ => return Err(fail("unknown address type")),
    };
    let mut rest = vec![0; length + 2];
    stream.read_exact(&mut rest).await.map_err(broken)?;
    Ok(())
}

fn socks_words(code: u8) -> &'static str {
    match code {
        1 => "unknown error general SOCKS server failure",
        2 => "unknown error connection not allowed by ruleset",
        3 => "unknown error network unreachable",
        4 => "unknown error host unreachable",
        5 => "unknown error connection refused",
        6 => "unknown error TTL expired",
        7 => "unknown error command not supported",
        8 => "unknown error address type not supported",
        _ => "unknown error",
    }
}
