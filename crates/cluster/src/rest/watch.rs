//! Watches: a cursor on the log of a kind, filtered and encoded as events.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use everflow_json::{Value, json};

use super::Call;
use super::options::{ListOptions, list_options, parse_revision};
use super::read::{check_fields, field_value, read_shared};
use super::request::{Answer, Body, Request, Target};
use crate::field::go_quote;
use crate::kinds::{convert, meta};
use crate::negotiate::{Form, Media, Shape};
use crate::resource::{Registry, Resource};
use crate::server_core::ApiServer;
use crate::status::{ApiError, ApiResult};
use crate::store::{Change, ChangeKind, Stored};
use crate::time::Timestamp;

/// How many changes are read from the log at once.
const BATCH: usize = 256;
/// How many objects of the state at the start are read at once.
const PAGE: usize = 32;
/// About how many bytes are handed out at once: all that waits for a client that reads slowly.
const CHUNK: usize = 16 * 1024;
/// How often a client that wants bookmarks gets one, in seconds.
const BOOKMARK_PERIOD: i64 = 60;

/// One event.
#[derive(Clone, Debug)]
pub struct Event {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub kind: &'static str,
    /// What it says.
    pub payload: WatchPayload,
}

/// What an event says. Readers in the same process are handed objects as they are stored, and no text is made of them.
#[derive(Clone, Debug)]
pub enum WatchPayload {
    /// The line on the wire.
    Line(Bytes),
    /// An object that is read as it is stored.
    Object(Arc<Stored>, Written),
    /// All up to a revision has been told.
    Bookmark {
        /// The revision.
        revision: u64,
        /// Whether all there was at the beginning has been told.
        all_told: bool,
    },
}

/// How the text of an object is written that is read as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// With its type in front.
    Typed,
    /// With all keys in order, as custom resources are.
    Sorted,
    /// Its metadata alone.
    Metadata,
}

impl Written {
    fn text(self, stored: &Stored) -> Bytes {
        match self {
            Written::Typed => stored.text(),
            Written::Sorted => {
                let line = stored.sorted_line();
                line.slice(..line.len() - 1)
            }
            Written::Metadata => {
                stored.metadata_text(|object| crate::negotiate::partial_text(object, "v1"))
            }
        }
    }
}

impl Event {
    /// An event that is text.
    pub fn line_of(kind: &'static str, line: Bytes) -> Self {
        Event {
            kind,
            payload: WatchPayload::Line(line),
        }
    }

    /// The line on the wire; of a bookmark that was none, the shortest there can be.
    pub fn line(&self) -> Bytes {
        match &self.payload {
            WatchPayload::Line(line) => line.clone(),
            WatchPayload::Object(stored, written) => line(self.kind, &written.text(stored)),
            WatchPayload::Bookmark { revision, .. } => {
                let object = json!({"metadata": {"resourceVersion": revision.to_string()}});
                line(self.kind, object.to_string().as_bytes())
            }
        }
    }

    /// How many bytes it takes on the wire. An object that is handed over without a text of it counts the same, so that
    /// readers of both kinds are given as much at once.
    fn size(&self) -> usize {
        match &self.payload {
            WatchPayload::Line(line) => line.len(),
            WatchPayload::Object(stored, written) => {
                line(self.kind, b"").len() + written.text(stored).len()
            }
            WatchPayload::Bookmark { .. } => self.line().len(),
        }
    }
}

/// The state a watch begins with, of which some is still to be sent: read page by page as it was at that revision.
#[derive(Debug)]
struct Initial {
    revision: u64,
    after: Option<String>,
}

/// An open watch. It holds no queue of its own: what it has not read yet is in the log.
pub struct Watch {
    server: ApiServer,
    request: Request,
    target: Target,
    resource: Arc<Resource>,
    registry: Arc<Registry>,
    options: ListOptions,
    form: Form,
    position: u64,
    initial: Option<Initial>,
    bookmark_after_initial: Option<u64>,
    columns_sent: bool,
    ended: bool,
    opened: Timestamp,
    last_bookmark: Timestamp,
    signal: everflow_env::watch::Receiver<u64>,
    view: Option<everflow_env::watch::Receiver<Option<u64>>>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Watch")
            .field("resource", &self.resource.plural)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

/// Answers a watch.
pub fn start(call: &Call<'_>) -> ApiResult<Answer> {
    let mut options = list_options(call.request, true)?;
    if !call.target.name.is_empty() {
        options
            .fields
            .terms
            .push(("metadata.name".into(), true, call.target.name.to_string()));
    }
    check_fields(call, &options)?;
    let form = crate::negotiate::stream_form(call)?;
    let store = call.server.store();
    let table = &call.resource.table;
    let asked = match options.resource_version.as_str() {
        "" => 0,
        text => parse_revision(text).map_err(|why| {
            ApiError::internal_plain(format!(
                "resourceVersion: Invalid value: {}: {why}",
                go_quote(text)
            ))
        })?,
    };
    let signal = store.subscribe(table);
    let now = call.server.env().now();
    let mut watch = Watch {
        server: call.server.clone(),
        request: call.request.clone(),
        target: call.target.clone(),
        resource: call.resource.clone(),
        registry: call.registry.clone(),
        form,
        position: asked,
        initial: None,
        bookmark_after_initial: None,
        columns_sent: false,
        ended: false,
        opened: now,
        last_bookmark: now,
        signal,
        view: call.server.view().map(|view| view.subscribe()),
        options,
    };
    let wants_state = watch.options.send_initial_events.unwrap_or(asked == 0);
    if wants_state {
        super::read::check_not_future(call, asked)?;
        let revision = call.server.shown_revision();
        watch.position = revision;
        watch.initial = Some(Initial {
            revision,
            after: None,
        });
        if watch.options.send_initial_events == Some(true) && watch.options.bookmarks {
            // Without a revision the state is complete when it is as new as this moment.
            let complete = match watch.options.resource_version.as_str() {
                "" => store.revision(),
                _ => revision,
            };
            watch.bookmark_after_initial = Some(complete);
        }
    } else if asked == 0 {
        watch.position = call.server.shown_revision();
    }
    let media = watch.form.stream_media_type();
    Ok(Answer {
        status: 200,
        headers: vec![("content-type".into(), media.into())],
        body: Body::Watch(Box::new(watch)),
        object: None,
    })
}

impl Watch {
    fn prefix(&self) -> String {
        if self.target.namespace.is_empty() || self.target.names_namespace {
            String::new()
        } else {
            format!("{}/", self.target.namespace)
        }
    }

    fn call(&self) -> Call<'_> {
        static NOBODY: std::sync::OnceLock<crate::auth::User> = std::sync::OnceLock::new();
        Call {
            server: &self.server,
            request: &self.request,
            target: &self.target,
            user: NOBODY.get_or_init(crate::auth::User::default),
            resource: self.resource.clone(),
            registry: self.registry.clone(),
            warnings: Default::default(),
            sent_data: Default::default(),
        }
    }

    fn selects(&self, object: &Value) -> bool {
        if !self.options.labels.matches(object) {
            return false;
        }
        if self.options.fields.is_everything() {
            return true;
        }
        let call = self.call();
        self.options
            .fields
            .matches(&|field| field_value(&call, object, field))
    }

    /// The server behind it.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Who reads this watch, for fault hooks.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The resource watched.
    pub fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    /// Whether the stream is over: it failed, or its time is up.
    pub fn is_over(&self) -> bool {
        self.ended
            || self
                .deadline()
                .is_some_and(|end| self.server.env().now() >= end)
    }

    /// When the stream ends by itself.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.options
            .timeout_seconds
            .filter(|seconds| *seconds > 0)
            .map(|seconds| self.opened.plus_seconds(seconds))
    }

    /// When the client gets its next bookmark, if it wants any.
    pub fn next_bookmark(&self) -> Option<Timestamp> {
        let next = self.last_bookmark.plus_seconds(BOOKMARK_PERIOD);
        self.options.bookmarks.then_some(next)
    }

    /// Waits until there may be something to read.
    pub async fn changed(&mut self) {
        let alive = match &mut self.view {
            None => self.signal.changed().await.is_ok(),
            Some(view) => tokio::select! {
                biased;
                table = self.signal.changed() => table.is_ok(),
                view = view.changed() => view.is_ok(),
            },
        };
        // The senders live as long as the store and its view; an error would mean that the server is gone.
        if !alive {
            self.ended = true;
        }
    }

    /// The newest revision that may be shown.
    fn limit(&self) -> u64 {
        let limit = self.view.as_ref().and_then(|view| *view.borrow());
        limit.unwrap_or(u64::MAX)
    }

    /// Ends the stream with the word that its history is gone.
    pub fn cut_history(&mut self) -> Event {
        let mut events = Vec::new();
        self.expire(&mut events);
        events.swap_remove(0)
    }

    /// The events that are there now.
    pub fn poll(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        if self.ended {
            return events;
        }
        self.signal.borrow_and_update();
        if let Some(view) = &mut self.view {
            view.borrow_and_update();
        }
        if self.initial.is_some() {
            self.poll_initial(&mut events);
            if self.ended || !events.is_empty() {
                return events;
            }
        }
        let mut limit = self.limit();
        if let Some(complete) = self.bookmark_after_initial {
            if self.position >= complete {
                self.bookmark_after_initial = None;
                events.push(self.bookmark(complete, true));
            } else {
                limit = limit.min(complete);
            }
        }
        let prefix = self.prefix();
        let mut size = 0;
        match self
            .server
            .store()
            .changes(&self.resource.table, self.position, BATCH)
        {
            Ok(changes) => {
                let all = changes.len() < BATCH;
                for change in changes {
                    if change.revision > limit {
                        break;
                    }
                    self.position = change.revision;
                    if change.key.starts_with(&prefix)
                        && let Some(event) = self.translate(&change)
                    {
                        size += event.size();
                        events.push(event);
                        if size >= CHUNK {
                            break;
                        }
                    }
                }
                // Nothing of this kind is missing up to there any more.
                if let Some(complete) = self.bookmark_after_initial
                    && complete <= self.limit()
                    && (all && size < CHUNK)
                {
                    self.position = self.position.max(complete);
                    self.bookmark_after_initial = None;
                    events.push(self.bookmark(complete, true));
                }
            }
            Err(_) => self.expire(&mut events),
        }
        let now = self.server.env().now();
        let newest = self.server.store().revision();
        // A watch from a revision that is still to come is told nothing, as by the real server.
        if self.position <= newest && self.next_bookmark().is_some_and(|next| now >= next) {
            self.last_bookmark = now;
            self.position = self.position.max(newest.min(self.limit()));
            events.push(self.bookmark(self.position, false));
        }
        events
    }

    /// Some more of the state the watch begins with.
    fn poll_initial(&mut self, events: &mut Vec<Event>) {
        let prefix = self.prefix();
        let mut size = 0;
        while let Some(initial) = &mut self.initial {
            let after = initial.after.take();
            let store = self.server.store();
            let table = &self.resource.table;
            let Ok(page) = store.slice_at(table, &prefix, after.as_deref(), PAGE, initial.revision)
            else {
                self.position = initial.revision;
                self.initial = None;
                return self.expire(events);
            };
            match page.last_key {
                Some(key) => initial.after = Some(key),
                None => self.initial = None,
            }
            for item in &page.items {
                if self.selects(&item.value) {
                    let event = self.encode("ADDED", item, None);
                    size += event.size();
                    events.push(event);
                }
            }
            if size >= CHUNK {
                return;
            }
        }
    }

    /// The history has moved past this watch: it ends.
    fn expire(&mut self, events: &mut Vec<Event>) {
        let oldest = self.server.store().oldest(&self.resource.table);
        let status = ApiError::new(
            410,
            "Expired",
            format!("too old resource version: {} ({oldest})", self.position),
        );
        events.push(self.error(&status));
        self.ended = true;
    }

    /// Whether more events wait in the log right now.
    pub fn has_more(&self) -> bool {
        !self.ended
            && (self.initial.is_some()
                || self
                    .server
                    .store()
                    .changes(&self.resource.table, self.position, 1)
                    .is_ok_and(|changes| {
                        let limit = self.limit();
                        changes.iter().any(|change| change.revision <= limit)
                    }))
    }

    fn translate(&mut self, change: &Change) -> Option<Event> {
        let now = change.kind != ChangeKind::Deleted && self.selects(&change.object.value);
        let before = change
            .previous
            .as_ref()
            .is_some_and(|previous| self.selects(&previous.value));
        match (change.kind, before, now) {
            (ChangeKind::Deleted, true, _) => Some(self.encode("DELETED", &change.object, None)),
            (_, false, true) => Some(self.encode("ADDED", &change.object, None)),
            (_, true, true) => Some(self.encode("MODIFIED", &change.object, None)),
            (_, true, false) => {
                // Leaving the selection looks like a deletion of what was last seen.
                let previous = change.previous.clone()?;
                Some(self.encode("DELETED", &previous, Some(change.revision)))
            }
            _ => None,
        }
    }

    fn encode(&mut self, kind: &'static str, stored: &Arc<Stored>, revision: Option<u64>) -> Event {
        if revision.is_none()
            && let Some(written) = self.written(stored)
        {
            return match self.request.in_process && !self.is_reduced(written) {
                true => Event {
                    kind,
                    payload: WatchPayload::Object(stored.clone(), written),
                },
                false => Event::line_of(kind, line(kind, &written.text(stored))),
            };
        }
        let call = self.call();
        let mut object = read_shared(&call, stored);
        if let Some(revision) = revision {
            meta::set(
                object.to_mut(),
                "resourceVersion",
                Some(revision.to_string().into()),
            );
        }
        let shaped = crate::negotiate::shape_event(&call, &self.form, object, !self.columns_sent);
        self.columns_sent = true;
        self.frame(kind, &shaped)
    }

    /// Whether the metadata alone says less than the metadata of the object.
    fn is_reduced(&self, written: Written) -> bool {
        written == Written::Metadata && self.resource.kind == "DaemonSet"
    }

    /// How an object is written that all watches of this form write alike, because it is read as it is stored.
    fn written(&self, stored: &Arc<Stored>) -> Option<Written> {
        let resource = &self.resource;
        if self.form.media != Media::Json || !convert::is_storage(resource) {
            return None;
        }
        match self.form.shape {
            Shape::Whole if crate::crd::reads_as_stored(resource) => Some(Written::Typed),
            Shape::Whole if resource.is_custom() => {
                crate::crd::is_read_as_stored(resource, stored).then_some(Written::Sorted)
            }
            Shape::Partial("v1") => {
                crate::crd::is_read_as_stored(resource, stored).then_some(Written::Metadata)
            }
            _ => None,
        }
    }

    /// An event on the wire.
    fn frame(&self, kind: &'static str, object: &Value) -> Event {
        if self.form.media == Media::Protobuf
            && let Ok(frame) = everflow_schema::protobuf::encode_watch_event(kind, object)
        {
            return Event::line_of(kind, frame.into());
        }
        Event::line_of(kind, line(kind, &everflow_json::text::to_vec(object)))
    }

    fn bookmark(&mut self, revision: u64, initial_end: bool) -> Event {
        if self.request.in_process {
            let payload = WatchPayload::Bookmark {
                revision,
                all_told: initial_end,
            };
            return Event {
                kind: "BOOKMARK",
                payload,
            };
        }
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata});
        let object = if self.form.shape == Shape::Whole {
            crate::kinds::bookmark(&self.resource, object)
        } else {
            object
        };
        let (call, object) = (self.call(), Cow::Owned(object));
        let shaped = crate::negotiate::shape_event(&call, &self.form, object, !self.columns_sent);
        self.columns_sent = true;
        self.frame("BOOKMARK", &shaped)
    }

    fn error(&self, status: &ApiError) -> Event {
        self.frame("ERROR", &status.to_value())
    }
}

fn line(kind: &'static str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}
