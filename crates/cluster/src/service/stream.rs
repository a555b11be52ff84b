//! Watches as bodies.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;

use super::{ApiBody, lost};
use crate::faults::{Cut, EventVerdict, Faults, Line};
use crate::rest::watch::{Event, Watch};
use crate::server_core::ApiServer;
use crate::time::Timestamp;

/// How long a quiet watch sleeps at most before it looks at the clock, when it does not know what for.
const IDLE: Duration = Duration::from_secs(30);

/// What a request came over: broken when its server has died or its line was cut since.
pub(super) struct Connection {
    server: Cut,
    line: Option<Cut>,
}

impl Connection {
    pub(super) fn open(server: &ApiServer, line: Option<&Line>) -> Self {
        Connection {
            server: server.store().crashed().watch(),
            line: line.map(Line::watch),
        }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.server.happened() || self.line.as_ref().is_some_and(Cut::happened)
    }

    async fn cut(&mut self) {
        match &mut self.line {
            None => self.server.wait().await,
            Some(line) => tokio::select! {
                biased;
                () = self.server.wait() => {}
                () = line.wait() => {}
            },
        }
    }
}

struct Streaming {
    watch: Box<Watch>,
    faults: Arc<dyn Faults>,
    connection: Connection,
    /// Events that were read and not judged yet.
    waiting: VecDeque<Event>,
    /// An event that takes its time.
    late: Option<(Duration, Bytes)>,
    /// Events that go behind others: how many of them, and the event.
    behind: Vec<(usize, Bytes)>,
    closed: bool,
}

/// A watch as a body. It reads from the log only when the client takes more, so a slow client costs nothing.
pub(super) fn stream(
    watch: Box<Watch>,
    faults: Arc<dyn Faults>,
    connection: Connection,
) -> ApiBody {
    let state = Streaming {
        watch,
        faults,
        connection,
        waiting: VecDeque::new(),
        late: None,
        behind: Vec::new(),
        closed: false,
    };
    let frames = unfold(state, |mut state| async move {
        let chunk = state.next().await?;
        Some((chunk.map(Frame::data), state))
    });
    StreamBody::new(frames).boxed_unsync()
}

impl Streaming {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if self.connection.is_cut() && !self.closed {
                self.closed = true;
                return Some(Err(lost()));
            }
            if self.closed {
                return None;
            }
            let mut chunk = Vec::new();
            if let Some((time, line)) = self.late.take() {
                tokio::select! {
                    biased;
                    () = self.connection.cut() => continue,
                    () = tokio::time::sleep(time) => self.deliver(&line, &mut chunk),
                }
            }
            if self.waiting.is_empty() {
                self.waiting.extend(self.watch.poll());
            }
            self.judge(&mut chunk);
            if !chunk.is_empty() {
                return Some(Ok(chunk.into()));
            }
            // What was read may all have been for others, with more behind it.
            if self.late.is_some() || self.closed || self.watch.has_more() {
                continue;
            }
            if self.watch.is_over() {
                return None;
            }
            let left = self.until_it_speaks();
            tokio::select! {
                biased;
                () = self.connection.cut() => {}
                _ = tokio::time::timeout(left, self.watch.changed()) => {}
            }
        }
    }

    /// How long it may be before a quiet watch has something to say by itself: a bookmark, or that its time is up.
    fn until_it_speaks(&self) -> Duration {
        let now = self.watch.server().env().now();
        let until = |moment: Timestamp| moment.micros().saturating_sub(now.micros());
        // A bookmark that is due and was not sent is none that can be waited for.
        let bookmark = self.watch.next_bookmark().map(until);
        let bookmark = bookmark.filter(|span| *span > 0);
        let end = self.watch.deadline().map(|end| until(end).max(1_000));
        let idle = bookmark.map_or(IDLE, |span| Duration::from_micros(span as u64));
        end.map_or(idle, |span| idle.min(Duration::from_micros(span as u64)))
    }

    /// Puts the events that wait into the chunk, as far as the faults let them.
    fn judge(&mut self, chunk: &mut Vec<u8>) {
        while let Some(event) = self.waiting.pop_front() {
            let line = event.line;
            match self.faults.event(self.watch.request(), event.kind, &line) {
                EventVerdict::Pass | EventVerdict::Behind(0) => self.deliver(&line, chunk),
                EventVerdict::Delay(time) => {
                    self.late = Some((time, line));
                    return;
                }
                EventVerdict::Drop => {}
                EventVerdict::Replace(other) => self.deliver(&other, chunk),
                EventVerdict::Duplicate => {
                    chunk.extend_from_slice(&line);
                    self.deliver(&line, chunk);
                }
                EventVerdict::Behind(others) => self.behind.push((others, line)),
                EventVerdict::Close => {
                    self.closed = true;
                    return;
                }
                EventVerdict::Expire => {
                    chunk.extend_from_slice(&self.watch.cut_history().line);
                    self.closed = true;
                    return;
                }
                EventVerdict::Crash => {
                    self.watch.server().crash();
                    return;
                }
            }
        }
    }

    /// Sends an event, and those whose turn comes behind it.
    fn deliver(&mut self, line: &[u8], chunk: &mut Vec<u8>) {
        chunk.extend_from_slice(line);
        self.behind.retain_mut(|(others, held)| {
            *others -= 1;
            if *others == 0 {
                chunk.extend_from_slice(held);
            }
            *others > 0
        });
    }
}
