//! Answers as they come in.

use std::future::{Future, poll_fn};
use std::io::Write;
use std::pin::{Pin, pin};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;

use super::{Limits, RequestBody};
use crate::{Deadline, Error};

/// What moves bytes between the protocol and the stream; it must be polled for anything to happen.
type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// An open connection. Nothing runs in the background: it moves only while someone waits for it,
/// and dropping it closes it.
pub(crate) struct Connection {
    pub(crate) sender: SendRequest<RequestBody>,
    driver: Option<Driver>,
}

impl Connection {
    pub(crate) fn new(sender: SendRequest<RequestBody>, driver: Driver) -> Self {
        Connection {
            sender,
            driver: Some(driver),
        }
    }

    /// Waits for a future while the connection moves.
    pub(crate) async fn drive<T>(driver: &mut Option<Driver>, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            if let Some(running) = driver
                && running.as_mut().poll(context).is_ready()
            {
                *driver = None;
            }
            work.as_mut().poll(context)
        })
        .await
    }

    pub(crate) async fn ready(&mut self) -> hyper::Result<()> {
        Connection::drive(&mut self.driver, self.sender.ready()).await
    }

    pub(crate) async fn send(
        &mut self,
        request: http::Request<RequestBody>,
    ) -> hyper::Result<http::Response<Incoming>> {
        let sending = self.sender.send_request(request);
        Connection::drive(&mut self.driver, sending).await
    }
}

/// The body of an answer.
pub struct Body {
    incoming: Incoming,
    connection: Option<Connection>,
    home: Option<super::Pool>,
    decoder: Option<MultiGzDecoder<Vec<u8>>>,
    /// Received but not decoded yet.
    waiting: Bytes,
    limits: Limits,
    deadline: Deadline,
    given: u64,
    ended: bool,
}

/// So much of a compressed answer is decoded at once; it grows to four megabytes at worst.
const DECODE_PIECE: usize = 4 * 1024;

impl Body {
    pub(crate) fn new(
        incoming: Incoming,
        connection: Connection,
        home: Option<super::Pool>,
        gzip: bool,
        limits: Limits,
        deadline: Deadline,
    ) -> Self {
        Body {
            incoming,
            connection: Some(connection),
            home,
            decoder: gzip.then(|| MultiGzDecoder::new(Vec::new())),
            waiting: Bytes::new(),
            limits,
            deadline,
            given: 0,
            ended: false,
        }
    }

    /// The next bytes; `None` at the end. Past the size limit, after too long a silence and at
    /// the deadline it is an error.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(bytes) = self.decode_waiting()? {
                return self.give(bytes).map(Some);
            }
            if self.ended {
                return Ok(None);
            }
            match self.receive().await? {
                Some(bytes) if self.decoder.is_some() => self.waiting = bytes,
                Some(bytes) if bytes.is_empty() => {}
                Some(bytes) => return self.give(bytes).map(Some),
                None => {
                    self.ended = true;
                    self.recycle();
                    if let Some(mut decoder) = self.decoder.take() {
                        decoder.try_finish().map_err(|_| gzip_broken())?;
                        let rest = std::mem::take(decoder.get_mut());
                        if !rest.is_empty() {
                            return self.give(rest.into()).map(Some);
                        }
                    }
                }
            }
        }
    }

    fn give(&mut self, bytes: Bytes) -> Result<Bytes, Error> {
        self.given += bytes.len() as u64;
        match self.given > self.limits.body {
            true => Err(Error::TooLarge {
                what: "the answer".to_owned(),
                limit: self.limits.body,
            }),
            false => Ok(bytes),
        }
    }

    fn decode_waiting(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(decoder) = &mut self.decoder else {
            return Ok(None);
        };
        while !self.waiting.is_empty() {
            let piece = self.waiting.split_to(self.waiting.len().min(DECODE_PIECE));
            decoder.write_all(&piece).map_err(|_| gzip_broken())?;
            decoder.flush().map_err(|_| gzip_broken())?;
            let decoded = std::mem::take(decoder.get_mut());
            if !decoded.is_empty() {
                return Ok(Some(decoded.into()));
            }
        }
        Ok(None)
    }

    async fn receive(&mut self) -> Result<Option<Bytes>, Error> {
        let Body {
            incoming,
            connection,
            limits,
            deadline,
            ..
        } = self;
        let driver = match connection {
            Some(connection) => &mut connection.driver,
            None => &mut None,
        };
        let receiving = async {
            loop {
                match incoming.frame().await {
                    None => return Ok(None),
                    Some(Err(error)) => return Err(error),
                    Some(Ok(frame)) => {
                        if let Ok(bytes) = frame.into_data() {
                            return Ok(Some(bytes));
                        }
                    }
                }
            }
        };
        match deadline
            .wait_at_most(limits.idle, Connection::drive(driver, receiving))
            .await
        {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => Err(match super::transport_error(&error) {
                Error::Protocol(text) if text == "EOF" => {
                    Error::Protocol("unexpected EOF".to_owned())
                }
                other => other,
            }),
            Err(true) => Err(Error::Deadline(
                " (Client.Timeout or context cancellation while reading body)",
            )),
            Err(false) => Err(Error::Protocol(format!(
                "the server sent nothing for {} s in the middle of its answer",
                limits.idle.as_secs()
            ))),
        }
    }

    fn recycle(&mut self) {
        if let (Some(connection), Some(home)) = (self.connection.take(), &self.home)
            && !connection.sender.is_closed()
            && connection.driver.is_some()
        {
            home.put(connection);
        }
    }

    /// All of it, when it is not larger than `bound`.
    pub async fn read_all(mut self, bound: u64) -> Result<Vec<u8>, Error> {
        self.limits.body = self.limits.body.min(bound);
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// Up to `bound` bytes from the start, for messages; errors end it too.
    pub async fn read_some(mut self, bound: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Ok(Some(chunk)) = self.chunk().await {
            let left = bound - bytes.len();
            bytes.extend_from_slice(&chunk[..chunk.len().min(left)]);
            if bytes.len() >= bound {
                break;
            }
        }
        bytes
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body").field("given", &self.given).finish()
    }
}

fn gzip_broken() -> Error {
    Error::Protocol("gzip: invalid data in the answer".to_owned())
}
