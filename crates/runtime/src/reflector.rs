//! Keeps a store up to date with the server.

use std::sync::Arc;
use std::time::Duration;

use everflow_env::{Env, Place, within};
use everflow_json::Value;

use crate::client::{
    At, Client, List, Paging, Resource, Selection, WatchEvent, WatchFrom, WatchStream, revision,
};
use crate::error::Error;
use crate::store::{Keep, Store, Verdict};

/// How a reflector behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct ReflectorOptions {
    /// The server is asked to end watches after at most this long.
    pub watch_span: Duration,
    /// After so long without a word the store is suspected.
    pub silence: Duration,
    /// After so long the store is compared with the server in any case.
    pub audit: Duration,
    /// The first pause after a failure.
    pub min_backoff: Duration,
    /// The longest pause after failures.
    pub max_backoff: Duration,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        ReflectorOptions {
            watch_span: Duration::from_secs(120),
            silence: Duration::from_secs(150),
            audit: Duration::from_secs(600),
            min_backoff: Duration::from_millis(500),
            max_backoff: Duration::from_secs(30),
        }
    }
}

/// Which objects are watched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watched {
    /// The collection.
    pub resource: Resource,
    /// One namespace, or all.
    pub namespace: Option<String>,
    /// Which of them.
    pub selection: Selection,
    /// How much of each is kept.
    pub keep: Keep,
}

impl Watched {
    /// All objects of a kind.
    pub fn all(resource: Resource) -> Self {
        Watched {
            resource,
            namespace: None,
            selection: Selection::default(),
            keep: Keep::default(),
        }
    }

    /// Only the metadata of the same objects.
    #[must_use]
    pub fn metadata(mut self) -> Self {
        self.selection.metadata_only = true;
        self.keep = Keep::Metadata;
        self
    }
}

/// How many lists in a row must be older than what is known before the server is believed to have
/// been set back.
const REWIND_AFTER: u32 = 3;
/// How long the watch may last with which the store is compared.
const AUDIT: Duration = Duration::from_secs(60);
/// Beyond the time at which the server should have ended a watch, how long until we do.
const GRACE: Duration = Duration::from_secs(5);

/// All objects there are, and the watch that began with them.
struct InitialState {
    objects: Vec<Value>,
    revision: u64,
    stream: WatchStream,
}

/// What follows a watch that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextStep {
    /// Watch on from where it ended.
    Resume,
    /// Read everything again.
    Rebuild,
    /// Compare with the server.
    Audit,
}

/// Lists and watches a part of a collection, for ever, and keeps a store up to date.
#[derive(Debug)]
pub struct Reflector {
    env: Env,
    client: Client,
    watched: Watched,
    options: ReflectorOptions,
    store: Store,
    failures: u32,
    older_lists: u32,
    no_streaming: bool,
    pages: bool,
    audited: Duration,
    /// The last watch ended otherwise than was agreed, or there was none to be had.
    broken: bool,
    note: Note,
}

type ErrorListener = dyn Fn(&Watched, &Error) + Send + Sync;

/// Where failures go: the log.
#[derive(Clone)]
struct Note(Arc<ErrorListener>);

impl std::fmt::Debug for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Note")
    }
}

impl Reflector {
    /// A reflector with an empty store.
    pub fn new(env: Env, client: Client, watched: Watched, options: ReflectorOptions) -> Self {
        let store = Store::new(env.clock.clone(), watched.keep);
        Reflector {
            audited: env.clock.elapsed(),
            env,
            client,
            watched,
            options,
            store,
            failures: 0,
            older_lists: 0,
            no_streaming: false,
            pages: false,
            broken: false,
            note: Note(Arc::new(|_, _| {})),
        }
    }

    /// Tells of each failure.
    #[must_use]
    pub fn on_failure(mut self, note: impl Fn(&Watched, &Error) + Send + Sync + 'static) -> Self {
        self.note = Note(Arc::new(note));
        self
    }

    /// The store that is kept up to date.
    pub fn store(&self) -> Store {
        self.store.clone()
    }

    /// Runs until it is dropped. Failures are waited out, each reflector for itself.
    pub async fn run(mut self) {
        let mut then = NextStep::Rebuild;
        loop {
            let turn = match then {
                NextStep::Rebuild => self.rebuild().await,
                NextStep::Audit => self.audit().await,
                NextStep::Resume => self.follow().await,
            };
            then = match turn {
                Ok(then) => then,
                Err(error) => {
                    (self.note.0)(&self.watched, &error);
                    self.broken = true;
                    if matches!(error, Error::NotFound(_)) {
                        self.store.kind_is_missing();
                    }
                    // A kind that is not served may come back with other objects.
                    let lost = matches!(error, Error::Expired(_) | Error::NotFound(_));
                    let rebuild = lost || !self.store.is_synced();
                    self.pause(&error).await;
                    match rebuild || then == NextStep::Rebuild {
                        true => NextStep::Rebuild,
                        false => then,
                    }
                }
            };
        }
    }

    async fn pause(&mut self, error: &Error) {
        // An expired revision is answered with a list at once, the first time.
        if matches!(error, Error::Expired(_)) && self.failures == 0 {
            self.failures = 1;
            return;
        }
        let doubled = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let longest = self.options.min_backoff.saturating_mul(doubled);
        let longest = longest.min(self.options.max_backoff);
        self.failures = (self.failures + 1).min(16);
        let pause = longest.mul_f64(0.5 + 0.5 * self.env.random.unit());
        let asked = error.retry_after().unwrap_or_default();
        let pause = pause.max(asked.min(self.options.max_backoff));
        self.env.clock.sleep(pause).await;
    }

    /// Reads everything: as a stream where the server can do that, else page by page.
    async fn rebuild(&mut self) -> Result<NextStep, Error> {
        if self.streams_now() {
            match self.stream_all().await {
                Err(Error::Invalid(_) | Error::Refused(_)) => self.no_streaming = true,
                result => return result,
            }
        }
        let list = self.read_pages(&self.watched.selection).await?;
        self.adopt(&list.items, list.revision)?;
        Ok(NextStep::Resume)
    }

    /// Whether everything is read as a stream this time. After one that failed, pages; after pages that failed, a stream:
    /// a cache that stands still serves no watch, and some lists all the same.
    fn streams_now(&mut self) -> bool {
        self.pages = !self.pages;
        !self.no_streaming && self.pages
    }

    async fn read_pages(&self, selection: &Selection) -> Result<List, Error> {
        let namespace = self.watched.namespace.as_deref();
        let resource = &self.watched.resource;
        self.client.list_all(resource, namespace, selection).await
    }

    /// A watch that begins with everything, and goes on as an ordinary one.
    async fn stream_all(&mut self) -> Result<NextStep, Error> {
        let span = self.watch_span();
        let start = self.env.clock.elapsed();
        let selection = self.watched.selection.clone();
        let told = self.stream_everything(&selection, span).await?;
        if told
            .objects
            .iter()
            .any(|object| self.store.cannot_read(object))
        {
            return Err(self.undecodable("an object of the first list makes no sense"));
        }
        self.adopt(&told.objects, told.revision)?;
        self.listen(told.stream, start, span).await
    }

    /// Opens a watch that begins with everything, and reads that: the newest of each object comes last.
    async fn stream_everything(
        &self,
        selection: &Selection,
        span: Duration,
    ) -> Result<InitialState, Error> {
        let start = self.env.clock.elapsed();
        let mut stream = self.open(selection, WatchFrom::Everything, span).await?;
        let mut objects: Vec<Value> = Vec::new();
        loop {
            let left = (span + GRACE).saturating_sub(self.env.clock.elapsed() - start);
            // A server that says nothing while it should tell everything is not to be waited for.
            let patience = left.min(Duration::from_secs(30));
            match within(&*self.env.clock, patience, stream.next()).await {
                Ok(Ok(Some(WatchEvent::Set(object)))) => objects.push(object),
                // What was it? A list that lacks it would say that it is not there.
                Ok(Ok(Some(WatchEvent::Unreadable(why)))) => return Err(self.undecodable(&why)),
                Ok(Ok(Some(WatchEvent::Gone(object)))) => {
                    objects.retain(|other| At::of(other) != At::of(&object))
                }
                Ok(Ok(Some(WatchEvent::Bookmark {
                    revision: told,
                    all_told: true,
                }))) => {
                    // The same object may come twice when it changes while all is told.
                    objects.sort_by_key(revision);
                    return Ok(InitialState {
                        objects,
                        revision: told,
                        stream,
                    });
                }
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None)) => return Err(self.undecodable("the first list broke off")),
                Ok(Err(error)) => return Err(error),
                Err(_) => {
                    return Err(Error::Timeout {
                        what: format!("first list of {}", self.watched.resource),
                        span: patience,
                    });
                }
            }
        }
    }

    fn undecodable(&self, why: &str) -> Error {
        Error::Undecodable {
            what: format!("watch of {}", self.watched.resource),
            why: why.to_owned(),
        }
    }

    /// Puts a whole list into the store, unless it is older than what is known.
    fn adopt(&mut self, objects: &[Value], told: u64) -> Result<(), Error> {
        let known = self.store.revision();
        let resync_requested = self.store.is_resync_requested();
        let rewound = told < known || resync_requested;
        let mut believed = resync_requested;
        self.env.planted(Place::OlderList, &mut believed);
        if rewound && !believed {
            self.older_lists += 1;
            if self.older_lists < REWIND_AFTER {
                let why = format!("it is of revision {told}, but {known} was told before");
                return Err(self.undecodable(&why));
            }
        }
        self.older_lists = 0;
        self.failures = 0;
        self.pages = false;
        self.audited = self.env.clock.elapsed();
        self.broken = false;
        self.store.replace(objects, told, rewound);
        Ok(())
    }

    /// Whether the server's newest revision is older than what it has told: it was restored from a backup. A watch from
    /// a revision that is still to come would be told nothing, for as long as it takes to come there.
    async fn went_back(&mut self) -> Result<bool, Error> {
        let selection = self.watched.selection.clone().metadata();
        let namespace = self.watched.namespace.as_deref();
        let one = Paging {
            limit: 1,
            ..Paging::default()
        };
        let resource = &self.watched.resource;
        match self
            .client
            .list(resource, namespace, &selection, &one)
            .await
        {
            Ok(list) => {
                self.broken = false;
                Ok(list.revision < self.store.revision())
            }
            Err(error) if error.is_unanswered() => Err(error),
            // A kind that cannot be listed may still be watched; it is asked again when that watch has ended.
            Err(_) => Ok(false),
        }
    }

    /// Watches from where the store is.
    async fn follow(&mut self) -> Result<NextStep, Error> {
        // A server that is started again breaks its watches, or ends them early.
        if self.broken && self.went_back().await? {
            return Ok(NextStep::Rebuild);
        }
        let span = self.watch_span();
        let start = self.env.clock.elapsed();
        let from = WatchFrom::Revision(self.store.revision());
        let stream = self.open(&self.watched.selection, from, span).await?;
        self.listen(stream, start, span).await
    }

    async fn open(
        &self,
        selection: &Selection,
        from: WatchFrom,
        span: Duration,
    ) -> Result<WatchStream, Error> {
        let namespace = self.watched.namespace.as_deref();
        self.client
            .watch(&self.watched.resource, namespace, selection, from, span)
            .await
    }

    async fn listen(
        &mut self,
        mut stream: WatchStream,
        start: Duration,
        span: Duration,
    ) -> Result<NextStep, Error> {
        loop {
            let now = self.env.clock.elapsed();
            let silent = self.store.age().unwrap_or_default();
            let until_suspicion = self.options.silence.saturating_sub(silent);
            let until_audit = self.options.audit.saturating_sub(now - self.audited);
            let until_end = (span + GRACE).saturating_sub(now - start);
            if until_suspicion.is_zero() || until_audit.is_zero() {
                return Ok(NextStep::Audit);
            }
            if until_end.is_zero() {
                return Ok(NextStep::Resume);
            }
            let patience = until_suspicion.min(until_audit).min(until_end);
            let store = self.store.clone();
            let next = tokio::select! {
                biased;
                () = store.resync_requested() => return Ok(NextStep::Rebuild),
                next = within(&*self.env.clock, patience, stream.next()) => next,
            };
            match next {
                Err(_) => {}
                Ok(Err(error)) => return Err(error),
                Ok(Ok(None)) => {
                    // A server that ends every watch at once must not keep us busy.
                    let lasted = self.env.clock.elapsed() - start;
                    if lasted < Duration::from_secs(1) {
                        return Err(self.undecodable("it ended at once"));
                    }
                    self.broken |= lasted + Duration::from_secs(1) < span;
                    return Ok(NextStep::Resume);
                }
                Ok(Ok(Some(event))) => {
                    if self.take(event) == Verdict::OutOfOrder {
                        return Ok(NextStep::Rebuild);
                    }
                }
            }
        }
    }

    fn take(&mut self, event: WatchEvent) -> Verdict {
        let verdict = match event {
            WatchEvent::Set(object) => self.store.set(&object),
            WatchEvent::Gone(object) => self.store.gone(&object),
            WatchEvent::Bookmark { revision, .. } => {
                self.store.bookmark(revision);
                Verdict::Accepted
            }
            WatchEvent::Unreadable(why) => {
                (self.note.0)(&self.watched, &self.undecodable(&why));
                // Whatever it was, it is not in the store.
                return Verdict::OutOfOrder;
            }
        };
        self.failures = 0;
        verdict
    }

    /// Compares the store with the server by metadata alone, and rebuilds it if they differ.
    async fn audit(&mut self) -> Result<NextStep, Error> {
        let (objects, told) = self.read_metadata().await?;
        self.pages = false;
        if told < self.store.revision() || !self.store.agrees(&objects, told) {
            return Ok(NextStep::Rebuild);
        }
        self.audited = self.env.clock.elapsed();
        self.store.bookmark(told);
        Ok(NextStep::Resume)
    }

    /// The metadata of everything and its revision: told by a watch, which costs the server least, or page by page.
    async fn read_metadata(&mut self) -> Result<(Vec<Value>, u64), Error> {
        let selection = self.watched.selection.clone().metadata();
        if self.streams_now() {
            match self.stream_everything(&selection, AUDIT).await {
                Err(Error::Invalid(_) | Error::Refused(_)) => self.no_streaming = true,
                told => return told.map(|told| (told.objects, told.revision)),
            }
        }
        let list = self.read_pages(&selection).await?;
        Ok((list.items, list.revision))
    }

    /// Watches end at different times, so that they do not all begin again at once.
    fn watch_span(&self) -> Duration {
        let longest = self.options.watch_span.as_secs_f64();
        Duration::from_secs_f64(longest * (0.75 + 0.25 * self.env.random.unit()))
    }
}
