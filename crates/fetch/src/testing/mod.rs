//! Servers in the same process, for tests and for the simulator.

mod bucket;
pub mod parsers;
mod registry;
mod reply;

use std::sync::Arc;

pub use bucket::Buckets;
pub use registry::{Push, Registry};
pub use reply::Fault;
pub use reply::{Faults, Reply, converse_with};

use everflow_env::MemoryDialer;
use everflow_env::Stream;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, DuplexStream};
use tokio::io::{AsyncWriteExt, BufReader};

/// A request as a server saw it.
#[derive(Debug)]
pub struct Seen {
    pub head: String,
    pub body: Vec<u8>,
}

impl Seen {
    /// The first line.
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// The value of a header; the name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// An answer with a length.
pub fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Reads one request; `None` when the other side is done.
pub async fn read_request(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<Seen> {
    let mut head = Vec::with_capacity(512);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_until(b'\n', &mut head).await.ok()? == 0 {
            return None;
        }
    }
    let mut seen = Seen {
        head: String::from_utf8(head).ok()?,
        body: Vec::new(),
    };
    if let Some(length) = seen.header("content-length") {
        seen.body = vec![0; length.parse().ok()?];
        stream.read_exact(&mut seen.body).await.ok()?;
    }
    Some(seen)
}

/// Answers requests on one connection until it closes or an empty answer is given.
pub async fn converse(stream: impl Stream, answer: impl Fn(&Seen) -> Vec<u8>) {
    let mut stream = BufReader::new(stream);
    while let Some(seen) = read_request(&mut stream).await {
        let bytes = answer(&seen);
        if bytes.is_empty() || stream.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Serves every connection that is made to a host and port in memory.
pub fn accept<S>(
    dialer: &MemoryDialer,
    host: &str,
    port: u16,
    serve: impl Fn(DuplexStream) -> S + Send + 'static,
) where
    S: Future<Output = ()> + Send + 'static,
{
    let mut incoming = dialer.listen(host, port);
    tokio::spawn(async move {
        while let Some(stream) = incoming.recv().await {
            tokio::spawn(serve(stream));
        }
    });
}

/// A server that answers every request by a function.
pub fn serve(
    dialer: &MemoryDialer,
    host: &str,
    port: u16,
    answer: impl Fn(&Seen) -> Vec<u8> + Send + Sync + 'static,
) {
    let answer = Arc::new(answer);
    accept(dialer, host, port, move |stream| {
        let answer = answer.clone();
        async move { converse(stream, |seen| answer(seen)).await }
    });
}

/// The same over TLS.
pub fn serve_tls(
    dialer: &MemoryDialer,
    host: &str,
    port: u16,
    config: rustls::ServerConfig,
    answer: impl Fn(&Seen) -> Vec<u8> + Send + Sync + 'static,
) {
    let answer = Arc::new(answer);
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    accept(dialer, host, port, move |stream| {
        let (answer, acceptor) = (answer.clone(), acceptor.clone());
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                converse(stream, |seen| answer(seen)).await;
            }
        }
    });
}
