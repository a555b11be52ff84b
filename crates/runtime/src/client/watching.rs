//! Watches on the wire.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use everflow_cluster::rest::watch::{Event, Told};
use everflow_cluster::service::{Events, Watching};
use everflow_cluster::store::Stored;
use everflow_env::{Wrong, is_wrong};
use everflow_json::Value;
use futures_util::StreamExt as _;
use http::Method;

use super::lean;
use super::lines::LineBuffer;
use super::options::Query;
use super::resource::Resource;
use super::transport::{BodyStream, TransportError};
use super::{Client, Selection, named_as, refusal, revision};
use crate::error::Error;

/// The longest line of a watch.
const LONGEST_LINE: usize = 64 << 20;

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchFrom {
    /// After a revision.
    Revision(u64),
    /// With all there is now, then a bookmark that says so, then what changes.
    Everything,
}

/// An object as a watch tells it.
#[derive(Debug, Clone)]
pub enum Seen {
    /// Read from a text, without its `managedFields`.
    Read(Value),
    /// The very one that an API server in the same process has, whatever part of it was asked for.
    Shared(Arc<Stored>),
}

impl Deref for Seen {
    type Target = Value;

    fn deref(&self) -> &Value {
        match self {
            Seen::Read(object) => object,
            Seen::Shared(stored) => &stored.value,
        }
    }
}

/// Something that a watch tells.
#[derive(Debug, Clone)]
pub enum WatchEvent {
    /// An object came or changed.
    Set(Seen),
    /// An object went; this is how it looked last.
    Gone(Seen),
    /// All up to this revision has been told.
    Bookmark {
        /// The revision.
        revision: u64,
        /// Whether all there was at the beginning has been told.
        all_told: bool,
    },
    /// An event that makes no sense; the stream goes on.
    Unreadable(String),
}

/// A watch that is open.
pub struct WatchStream {
    what: String,
    resource: Resource,
    metadata_only: bool,
    source: Source,
}

/// Where events come from.
enum Source {
    /// A line, event by event.
    Lines { body: BodyStream, read: LineBuffer },
    /// An API server in the same process.
    Events {
        events: Box<Events>,
        waiting: VecDeque<Event>,
    },
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream")
            .field("what", &self.what)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Opens a watch that the server ends after `span`. The deadline is for the opening only.
    pub async fn watch(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        selection: &Selection,
        from: WatchFrom,
        span: Duration,
    ) -> Result<WatchStream, Error> {
        let mut query = Query::default();
        query.add("watch", "true");
        query.add("allowWatchBookmarks", "true");
        selection.query(&mut query);
        match from {
            WatchFrom::Revision(revision) => query.add("resourceVersion", &revision.to_string()),
            WatchFrom::Everything => {
                query.add("sendInitialEvents", "true");
                query.add("resourceVersionMatch", "NotOlderThan");
                // Without a revision the server must be up to date first; with 0 it need not be.
                if is_wrong(&*self.shared.clock, Wrong::OlderListBelieved) {
                    query.add("resourceVersion", "0");
                }
            }
        }
        query.add("timeoutSeconds", &span.as_secs().max(1).to_string());
        let target = query.on(resource.path(namespace));
        let what = format!("watch of {resource}");
        let accept = selection.accept(false);
        let opening = self.send(&Method::GET, &target, accept, None);
        let mut response = self.timed(&Method::GET, &what, opening).await?;
        let shared: Option<Watching> = response.extensions_mut().remove();
        let source = match shared.and_then(|shared| shared.take()) {
            Some(events) => Source::Events {
                events,
                waiting: VecDeque::new(),
            },
            None => Source::Lines {
                body: response.into_body(),
                read: LineBuffer::default(),
            },
        };
        Ok(WatchStream {
            what,
            resource: resource.clone(),
            metadata_only: selection.metadata_only,
            source,
        })
    }
}

impl WatchStream {
    /// The next event. `None` is an orderly end; an error is the server's or the connection's.
    pub async fn next(&mut self) -> Result<Option<WatchEvent>, Error> {
        loop {
            let (body, read) = match &mut self.source {
                Source::Lines { body, read } => (body, read),
                Source::Events { events, waiting } => match waiting.pop_front() {
                    Some(event) => return self.shared_event(event).map(Some),
                    None => match events.next().await {
                        Some(Ok(more)) => {
                            waiting.extend(more);
                            continue;
                        }
                        Some(Err(error)) => return Err(self.lost(TransportError::new(&error))),
                        None => return Ok(None),
                    },
                },
            };
            if let Some(line) = read.line() {
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return self.event(&line).map(Some);
            }
            if read.bytes.len() > LONGEST_LINE {
                return Err(self.undecodable("an event has no end"));
            }
            match body.next().await {
                Some(Ok(chunk)) => read.bytes.extend_from_slice(&chunk),
                Some(Err(source)) => return Err(self.lost(source)),
                None if read.bytes.iter().all(u8::is_ascii_whitespace) => return Ok(None),
                None => return Err(self.undecodable("it ends in the middle of an event")),
            }
        }
    }

    fn lost(&self, source: TransportError) -> Error {
        Error::Transport {
            what: self.what.clone(),
            source,
        }
    }

    fn undecodable(&self, why: &str) -> Error {
        Error::Undecodable {
            what: self.what.clone(),
            why: why.to_owned(),
        }
    }

    /// An event of an API server in the same process.
    fn shared_event(&self, event: Event) -> Result<WatchEvent, Error> {
        match event.told {
            Told::Line(line) => self.event(&line),
            Told::Object(stored, _) => Ok(match event.kind {
                "DELETED" => WatchEvent::Gone(Seen::Shared(stored)),
                _ => WatchEvent::Set(Seen::Shared(stored)),
            }),
            Told::Bookmark { revision, all_told } => {
                Ok(WatchEvent::Bookmark { revision, all_told })
            }
        }
    }

    fn event(&self, line: &[u8]) -> Result<WatchEvent, Error> {
        let mut event = match lean::event(line) {
            Ok(event) => event,
            Err(error) => return Ok(WatchEvent::Unreadable(error.to_string())),
        };
        let object = event.get_mut("object").map(Value::take).unwrap_or_default();
        let told = event
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let name = |object| Seen::Read(named_as(object, &self.resource, self.metadata_only));
        Ok(match told {
            "ADDED" | "MODIFIED" => WatchEvent::Set(name(object)),
            "DELETED" => WatchEvent::Gone(name(object)),
            "BOOKMARK" => WatchEvent::Bookmark {
                revision: revision(&object),
                all_told: super::annotation(&object, "k8s.io/initial-events-end") == Some("true"),
            },
            "ERROR" => {
                let code = object.get("code").and_then(Value::as_u64).unwrap_or(500);
                let code = u16::try_from(code).unwrap_or(500);
                return Err(Error::from_refusal(refusal(code, &object, line), None));
            }
            other => WatchEvent::Unreadable(format!("it has the type {other:?}")),
        })
    }
}
