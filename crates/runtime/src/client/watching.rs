//! Watches on the wire.

use std::fmt;
use std::time::Duration;

use everflow_json::Value;
use http::Method;

use super::decode::{self, Events, Part};
use super::options::Query;
use super::resource::Resource;
use super::transport::WatchPayload;
use super::{Client, Selection, named_as, refusal, revision};
use crate::error::Error;

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchFrom {
    /// After a revision.
    Revision(u64),
    /// With all there is now, then a bookmark that says so, then what changes.
    Everything,
}

/// An event of a watch.
#[derive(Debug, Clone)]
pub enum WatchEvent {
    /// An object came or changed.
    Set(Value),
    /// An object went; this is how it looked last.
    Gone(Value),
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
    events: Events,
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
            }
        }
        query.add("timeoutSeconds", &span.as_secs().max(1).to_string());
        let target = query.on(resource.path(namespace));
        let what = format!("watch of {resource}");
        let accept = selection.accept(false);
        let opening = self.send(&Method::GET, &target, accept, None);
        let response = self.timed(&Method::GET, &what, opening).await?;
        Ok(WatchStream {
            what,
            resource: resource.clone(),
            metadata_only: selection.metadata_only,
            events: Events::of(response.into_body()),
        })
    }
}

impl WatchStream {
    /// The next event. `None` is an orderly end; an error is the server's or the connection's.
    pub async fn next(&mut self) -> Result<Option<WatchEvent>, Error> {
        match self.events.next().await {
            Ok(Some(payload)) => self.event(&payload).map(Some),
            Ok(None) => Ok(None),
            Err(unreadable) => Err(unreadable.of(self.what.clone())),
        }
    }

    fn event(&self, payload: &WatchPayload) -> Result<WatchEvent, Error> {
        let part = match self.metadata_only {
            true => Part::Metadata,
            false => Part::WithoutManagedFields,
        };
        let (kind, object) = match decode::event(payload, part) {
            Ok(event) => event,
            Err(error) => return Ok(WatchEvent::Unreadable(error.to_string())),
        };
        let name = |object| named_as(object, &self.resource, self.metadata_only);
        Ok(match &*kind {
            "ADDED" | "MODIFIED" => WatchEvent::Set(name(object)),
            "DELETED" => WatchEvent::Gone(name(object)),
            "BOOKMARK" => WatchEvent::Bookmark {
                revision: revision(&object),
                all_told: super::annotation(&object, "k8s.io/initial-events-end") == Some("true"),
            },
            "ERROR" => {
                let code = object.get("code").and_then(Value::as_u64).unwrap_or(500);
                let code = u16::try_from(code).unwrap_or(500);
                let refused = refusal(code, &object, object.to_string().as_bytes());
                return Err(Error::from_refusal(refused, None));
            }
            other => WatchEvent::Unreadable(format!("it has the type {other:?}")),
        })
    }
}
