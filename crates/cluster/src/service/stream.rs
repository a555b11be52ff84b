//! Watches as bodies, and as events for readers in the same process.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
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

/// The events of a watch as they come. It reads from the log only when the client takes more, so a slow client costs
/// nothing.
pub struct Events {
    watch: Box<Watch>,
    faults: Arc<dyn Faults>,
    connection: Connection,
    /// Events that were read and not judged yet.
    waiting: VecDeque<Event>,
    /// An event that takes its time.
    late: Option<(Duration, Event)>,
    /// Events that go behind others: how many of them, and the event.
    behind: Vec<(usize, Event)>,
    closed: bool,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Events").field(&self.watch).finish()
    }
}

/// The events of a watch in the extensions of the answer to a reader in the same process. One takes them.
#[derive(Clone, Debug)]
pub struct Watching(Arc<Mutex<Option<Box<Events>>>>);

impl Watching {
    pub(super) fn new(events: Events) -> Self {
        Watching(Arc::new(Mutex::new(Some(Box::new(events)))))
    }

    /// The events, for the first who asks.
    pub fn take(&self) -> Option<Box<Events>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Events {
    pub(super) fn new(watch: Box<Watch>, faults: Arc<dyn Faults>, connection: Connection) -> Self {
        Events {
            watch,
            faults,
            connection,
            waiting: VecDeque::new(),
            late: None,
            behind: Vec::new(),
            closed: false,
        }
    }

    /// As a body.
    pub(super) fn into_body(self) -> ApiBody {
        let frames = unfold(self, |mut events| async move {
            let chunk = events.next().await?.map(|told| lines(&told));
            Some((chunk.map(Frame::data), events))
        });
        StreamBody::new(frames).boxed_unsync()
    }

    /// What comes next, at least one event. `None` is an orderly end, an error a connection that was lost.
    pub async fn next(&mut self) -> Option<io::Result<Vec<Event>>> {
        loop {
            if self.connection.is_cut() && !self.closed {
                self.closed = true;
                return Some(Err(lost()));
            }
            if self.closed {
                return None;
            }
            let mut chunk = Vec::new();
            if let Some((time, event)) = self.late.take() {
                tokio::select! {
                    biased;
                    () = self.connection.cut() => continue,
                    () = tokio::time::sleep(time) => self.deliver(event, &mut chunk),
                }
            }
            if self.waiting.is_empty() {
                self.waiting.extend(self.watch.poll());
            }
            self.judge(&mut chunk);
            if !chunk.is_empty() {
                return Some(Ok(chunk));
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
    fn judge(&mut self, chunk: &mut Vec<Event>) {
        while let Some(event) = self.waiting.pop_front() {
            match self.faults.event(self.watch.request(), &event) {
                EventVerdict::Pass | EventVerdict::Behind(0) => self.deliver(event, chunk),
                EventVerdict::Delay(time) => {
                    self.late = Some((time, event));
                    return;
                }
                EventVerdict::Drop => {}
                EventVerdict::Replace(other) => {
                    self.deliver(Event::line_of(event.kind, other), chunk);
                }
                EventVerdict::Duplicate => {
                    chunk.push(event.clone());
                    self.deliver(event, chunk);
                }
                EventVerdict::Behind(others) => self.behind.push((others, event)),
                EventVerdict::Close => {
                    self.closed = true;
                    return;
                }
                EventVerdict::Expire => {
                    chunk.push(self.watch.cut_history());
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
    fn deliver(&mut self, event: Event, chunk: &mut Vec<Event>) {
        chunk.push(event);
        self.behind.retain_mut(|(others, held)| {
            *others -= 1;
            if *others == 0 {
                chunk.push(held.clone());
            }
            *others > 0
        });
    }
}

/// Events on the wire.
fn lines(events: &[Event]) -> Bytes {
    match events {
        [one] => one.line(),
        all => all.iter().flat_map(Event::line).collect::<Vec<u8>>().into(),
    }
}
