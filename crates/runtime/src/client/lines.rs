//! Text that the server sends line by line, such as the log of a pod.

use std::fmt;

use bytes::{Buf as _, BytesMut};
use futures_util::StreamExt as _;
use http::Method;

use super::transport::BodyStream;
use super::{Client, Error};

/// The longest line that is read.
const LONGEST_LINE: usize = 16 << 20;

/// An answer that is read line by line.
pub struct Lines {
    what: String,
    body: BodyStream,
    buffer: BytesMut,
    scanned: usize,
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
        Ok(Lines {
            what,
            body: response.into_body(),
            buffer: BytesMut::new(),
            scanned: 0,
            at_end: false,
        })
    }
}

impl Lines {
    /// The next line without its end; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        loop {
            let found = self.buffer[self.scanned..]
                .iter()
                .position(|byte| *byte == b'\n');
            if let Some(place) = found {
                let line = self.buffer.split_to(self.scanned + place);
                self.buffer.advance(1);
                self.scanned = 0;
                return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
            }
            if self.at_end {
                let rest = self.buffer.split();
                self.scanned = 0;
                return Ok((!rest.is_empty()).then(|| String::from_utf8_lossy(&rest).into_owned()));
            }
            self.scanned = self.buffer.len();
            if self.buffer.len() > LONGEST_LINE {
                return Err(Error::Undecodable {
                    what: self.what.clone(),
                    why: "a line has no end".to_owned(),
                });
            }
            match self.body.next().await {
                Some(Ok(chunk)) => self.buffer.extend_from_slice(&chunk),
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
