//! Proxies: how they are named, and how they are asked for a way.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_env::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::url::bracketed;
use crate::words::{go_words, printable};
use crate::{Error, Secret, TlsOptions, Url};

/// A proxy between us and the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// `http://`, `https://`, `socks5://` or `socks5h://`, which is the same, with host and port.
    pub url: Url,
    /// The user and password for the proxy.
    pub credentials: Option<(String, Secret<String>)>,
    /// Whom to trust when the proxy itself is secure.
    pub trust: TlsOptions,
}

impl Proxy {
    /// Reads a proxy's address; a user and password in it count when no others are given.
    pub fn new(
        address: &str,
        credentials: Option<(String, Secret<String>)>,
    ) -> Result<Self, Error> {
        let url = Url::parse(address)?;
        if !matches!(url.scheme.as_str(), "http" | "https" | "socks5" | "socks5h") {
            return Err(Error::Proxy(format!(
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
            trust: TlsOptions::default(),
        })
    }

    /// Trusts the proxy where the server behind it is trusted, too, as Go does. Our certificate is not for the proxy.
    pub fn trusting(mut self, server: &TlsOptions) -> Self {
        self.trust = TlsOptions {
            ca: server.ca.clone(),
            client: None,
            without_system_roots: false,
            insecure: server.insecure,
        };
        self
    }

    /// The header that names us to an HTTP proxy.
    pub fn authorization(&self) -> Option<String> {
        let (name, word) = self.credentials.as_ref()?;
        let pair = STANDARD.encode(format!("{name}:{}", word.reveal()));
        Some(format!("Basic {pair}"))
    }

    /// Whether it speaks SOCKS 5; it resolves names in any case.
    pub fn is_socks(&self) -> bool {
        self.url.scheme.starts_with("socks5")
    }

    /// Asks the proxy for a way to a host, on a connection to the proxy.
    pub(crate) async fn ask(
        &self,
        stream: &mut dyn Stream,
        host: &str,
        port: u16,
    ) -> Result<(), Error> {
        match self.is_socks() {
            true => socks(stream, self, host, port).await,
            false => connect_method(stream, self, host, port).await,
        }
    }
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
                |(_, words)| printable(words),
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
