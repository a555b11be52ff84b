//! Answers, and ways in which they go wrong.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use everflow_env::Stream;
use tokio::io::{AsyncWriteExt, BufReader};

use super::{Seen, read_request};

/// How a server misbehaves.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It says nothing more after so many bytes of the body.
    Hang(usize),
    /// It closes the connection after so many bytes of the body.
    Cut(usize),
    /// It gives another body, with the length of that one.
    Body(Vec<u8>),
    /// It gives another body without saying how long it is.
    Unmeasured(Vec<u8>),
    /// It answers with a status and a body.
    Status(u16, Vec<u8>),
    /// It sends us elsewhere.
    Redirect(String),
    /// It adds a header or replaces it.
    Header(String, String),
    /// It leaves a header out.
    Without(String),
}

/// Which requests go wrong.
#[derive(Debug, Default)]
pub struct Faults {
    all: Mutex<Vec<(String, Fault, bool)>>,
}

impl Faults {
    /// Requests whose first line holds `part` go wrong, or only the first of them.
    pub fn add(&self, part: &str, fault: Fault, once: bool) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((part.to_owned(), fault, once));
    }

    /// No request goes wrong any more.
    pub fn clear(&self) {
        self.all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// What becomes of an answer.
    pub fn apply(&self, seen: &Seen, mut reply: Reply) -> Reply {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = Vec::new();
        for (part, fault, once) in all.drain(..) {
            let hit = seen.line().contains(&part);
            if hit {
                reply = reply.broken(&fault);
            }
            if !(hit && once) {
                kept.push((part, fault, once));
            }
        }
        *all = kept;
        reply
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Whole,
    Hang(usize),
    Cut(usize),
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Bytes,
    measured: bool,
    ending: Ending,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Bytes>) -> Self {
        Reply {
            status,
            headers: Vec::new(),
            body: body.into(),
            measured: true,
            ending: Ending::Whole,
        }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers
            .retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn broken(mut self, fault: &Fault) -> Self {
        match fault {
            Fault::Hang(after) => self.ending = Ending::Hang(*after),
            Fault::Cut(after) => self.ending = Ending::Cut(*after),
            Fault::Body(body) => self.body = body.clone().into(),
            Fault::Unmeasured(body) => {
                self.body = body.clone().into();
                self.measured = false;
            }
            Fault::Status(status, body) => return Reply::new(*status, body.clone()),
            Fault::Redirect(to) => return Reply::new(307, "").with("Location", to),
            Fault::Header(name, value) => return self.with(name, value),
            Fault::Without(name) => self
                .headers
                .retain(|(other, _)| !other.eq_ignore_ascii_case(name)),
        }
        self
    }

    /// The bytes on the wire, and whether the connection goes on afterwards.
    fn bytes(&self, head_only: bool) -> Vec<u8> {
        let reason = ::http::StatusCode::from_u16(self.status)
            .ok()
            .and_then(|status| status.canonical_reason())
            .unwrap_or("Unknown");
        let mut head = format!("HTTP/1.1 {} {reason}\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match self.measured {
            true => head.push_str(&format!("Content-Length: {}\r\n", self.body.len())),
            false => head.push_str("Connection: close\r\n"),
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        let shown = match self.ending {
            _ if head_only => 0,
            Ending::Whole => self.body.len(),
            Ending::Hang(count) | Ending::Cut(count) => count.min(self.body.len()),
        };
        bytes.extend_from_slice(&self.body[..shown]);
        bytes
    }
}

/// Answers requests on one connection until it closes.
pub async fn converse_with(stream: impl Stream, answer: impl Fn(&Seen) -> Reply) {
    let mut stream = BufReader::with_capacity(2_048, stream);
    while let Some(seen) = read_request(&mut stream).await {
        let reply = answer(&seen);
        let bytes = reply.bytes(seen.line().starts_with("HEAD "));
        if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() {
            return;
        }
        match reply.ending {
            Ending::Hang(_) => std::future::pending().await,
            Ending::Cut(_) => return,
            Ending::Whole if !reply.measured => return,
            Ending::Whole => {}
        }
    }
}
