//! Small HTTP servers behind the in-memory dialer.

use std::sync::Arc;

use everflow_env::MemoryDialer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// A request.
pub struct Asked {
    pub method: String,
    pub target: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Whether it comes from the user `user` with the password `pass`.
    pub fn is_signed_in(&self) -> bool {
        self.header("authorization") == Some("Basic dXNlcjpwYXNz")
    }
}

/// An answer.
pub enum Answer {
    Full {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    },
    /// None, ever.
    Hang,
    /// One that stops after some bytes of its body and leaves the connection open.
    HangAfter { body: Vec<u8>, sent: usize },
}

impl Answer {
    pub fn status(status: u16) -> Self {
        Answer::new(status, "", Vec::new())
    }

    pub fn new(status: u16, media_type: &str, body: Vec<u8>) -> Self {
        let headers = match media_type {
            "" => Vec::new(),
            text => vec![("Content-Type", text.to_owned())],
        };
        Answer::Full {
            status,
            headers,
            body,
        }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let Answer::Full { headers, .. } = &mut self {
            headers.push((name, value.into()));
        }
        self
    }
}

/// Answers all requests to a port of this machine.
pub fn serve(
    dialer: &MemoryDialer,
    port: u16,
    handler: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) {
    let mut incoming = dialer.listen("127.0.0.1", port);
    let handler = Arc::new(handler);
    tokio::spawn(async move {
        while let Some(stream) = incoming.recv().await {
            let handler = handler.clone();
            tokio::spawn(async move { converse(stream, &*handler).await });
        }
    });
}

async fn converse(mut stream: DuplexStream, handler: &(dyn Fn(&Asked) -> Answer + Send + Sync)) {
    while let Some(asked) = read(&mut stream).await {
        let (status, headers, body) = match handler(&asked) {
            Answer::Hang => std::future::pending().await,
            Answer::HangAfter { body, sent } => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                let mut bytes = head.into_bytes();
                bytes.extend_from_slice(&body[..sent.min(body.len())]);
                let _ = stream.write_all(&bytes).await;
                std::future::pending().await
            }
            Answer::Full {
                status,
                headers,
                body,
            } => (status, headers, body),
        };
        let mut head = format!("HTTP/1.1 {status} {}\r\n", phrase(status));
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let mut bytes = head.into_bytes();
        if asked.method != "HEAD" {
            bytes.extend_from_slice(&body);
        }
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "File not found",
        500 => "Internal Server Error",
        _ => "Status",
    }
}

async fn read(stream: &mut DuplexStream) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut asked = Asked {
        method,
        target,
        headers,
        body: Vec::new(),
    };
    let length = asked
        .header("content-length")
        .and_then(|text| text.parse().ok());
    asked.body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut asked.body).await.ok()?;
    Some(asked)
}
