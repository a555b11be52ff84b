//! Text that the server sends line by line, such as the log of a pod.

use std::fmt;

use bytes::{Buf as _, BytesMut};
use futures_util::StreamExt as _;
use http::Method;

use super::transport::{Body, ByteStream};
use super::{Client, Error};

/// The longest line that is read.
const LONGEST_LINE: usize = 16 << 20;

/// An answer that is read line by line.
pub struct Lines {
    what: String,
    body: ByteStream,
    read: LineBuffer,
    at_end: bool,
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("what", &self.what)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Asks for a text. The deadline is for the opening only.
    pub async fn lines(&self, target: &str) -> Result<Lines, Error> {
        let what = format!("GET {target}");
        let opening = self.send(&Method::GET, target, "text/plain, */*", None);
        let response = self.timed(&Method::GET, &what, opening).await?;
        let Body::Bytes(body) = response.into_body() else {
            let why = "it is no text".to_owned();
            return Err(Error::Undecodable { what, why });
        };
        Ok(Lines {
            what,
            body,
            read: LineBuffer::default(),
            at_end: false,
        })
    }
}

impl Lines {
    /// The next line without its end; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        loop {
            if let Some(line) = self.read.line() {
                return Ok(Some(text(&line)));
            }
            if self.at_end {
                let rest = self.read.bytes.split();
                return Ok((!rest.is_empty()).then(|| text(&rest)));
            }
            if self.read.bytes.len() > LONGEST_LINE {
                return Err(Error::Undecodable {
                    what: self.what.clone(),
                    why: "a line has no end".to_owned(),
                });
            }
            match self.body.next().await {
                Some(Ok(chunk)) => self.read.bytes.extend_from_slice(&chunk),
                Some(Err(source)) => {
                    return Err(Error::Transport {
                        what: self.what.clone(),
                        source,
                    });
                }
                None => self.at_end = true,
            }
        }
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

/// What was read of lines, and how far it holds no end of one.
#[derive(Default)]
pub(super) struct LineBuffer {
    pub(super) bytes: BytesMut,
    scanned: usize,
}

impl LineBuffer {
    /// Takes out the next whole line, without its end.
    pub(super) fn line(&mut self) -> Option<BytesMut> {
        let new = self.bytes.get(self.scanned..).unwrap_or_default();
        let Some(place) = new.iter().position(|byte| *byte == b'\n') else {
            self.scanned = self.bytes.len();
            return None;
        };
        let line = self.bytes.split_to(self.scanned + place);
        self.bytes.advance(1);
        self.scanned = 0;
        Some(line)
    }
}
