//! Attempts: observe, decide, act, report.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use everflow_env::{BoxFuture, Env};
use everflow_json::Value;
use smol_str::SmolStr;

use crate::client::{At, Client, Resource, meta_text, revision};
use crate::engine::ChangePredicate;
use crate::error::Error;
use crate::events::{Event, Recorder};
use crate::lease::Epoch;
use crate::log::Logger;
use crate::metadata::{self, Edited};
use crate::queue::{Key, Ticket, WakeOn};
use crate::reflector::Watched;
use crate::signal::Signal;
use crate::status::{StatusWriter, Written};
use crate::store::{Keep, Store};

/// How long a status in the middle of an attempt is tried to be written.
const STATUS_PATIENCE: Duration = Duration::from_secs(20);

/// When the next attempt is. A live object always has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// After a span.
    At(Duration),
    /// When one of these objects changes, but no later than after a span.
    When {
        /// Which objects.
        changes: Vec<WakeOn>,
        /// The span.
        no_later_than: Duration,
    },
    /// After a span that grows with each failure of the same cause in a row.
    Retry {
        /// The cause, as a stable word.
        cause: SmolStr,
        /// Not sooner than this.
        at_least: Duration,
    },
    /// The same, or sooner when one of these objects changes.
    RetryOrWhen {
        /// The cause, as a stable word.
        cause: SmolStr,
        /// Which objects.
        changes: Vec<WakeOn>,
    },
}

impl Next {
    /// Retry after a failure, with the usual pauses.
    pub fn retry(cause: impl Into<SmolStr>) -> Self {
        Next::Retry {
            cause: cause.into(),
            at_least: Duration::ZERO,
        }
    }
}

/// How an attempt ended, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All is as asked for.
    Success,
    /// It waits for something.
    Waiting,
    /// It failed.
    Failure,
    /// It cannot succeed until something changes. It is tried all the same, rarely.
    Stalled,
}

/// What an attempt says about its object.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The whole status; `None` to leave it as it is.
    pub status: Option<Value>,
    /// What happened.
    pub events: Vec<Event>,
    /// When the next attempt is.
    pub next: Next,
    /// How it ended.
    pub verdict: Verdict,
}

/// Why an attempt stopped at a safe point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Interrupted {
    /// Something newer is asked for.
    #[error("superseded by a newer generation, revision or request")]
    Superseded,
    /// The program stops.
    #[error("the program stops")]
    Stopping,
    /// We lead no more.
    #[error("leadership is over")]
    NotLeading,
}

/// How an attempt broke without saying anything itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// It panicked: a mistake in the program.
    Panicked(String),
    /// It took longer than it may.
    OutOfTime(Duration),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Panicked(why) => write!(f, "internal error: {why}"),
            Broken::OutOfTime(span) => write!(f, "not done within {}s", span.as_secs_f64()),
        }
    }
}

/// A controller of one kind.
pub trait Controller: Send + Sync + fmt::Debug {
    /// Its name in logs and metrics, such as `gitrepository`.
    fn name(&self) -> &str;
    /// The name that its events are reported under, such as `source-controller`.
    fn reports_as(&self) -> &str;
    /// Whose fields the status and the finalizer become.
    fn field_manager(&self) -> &str {
        self.reports_as()
    }
    /// Its kind.
    fn resource(&self) -> &Resource;
    /// The types of conditions that are its own.
    fn owned_conditions(&self) -> &[&str];
    /// How long an attempt may take in all.
    fn deadline(&self, _object: &Value) -> Duration {
        Duration::from_secs(600)
    }
    /// The remote host that attempts of an object use, if one.
    fn host(&self, _object: &Value) -> Option<String> {
        None
    }
    /// How many attempts may run at once.
    fn concurrency(&self) -> usize {
        8
    }
    /// Attempts to make an object what it asks to be.
    fn attempt<'a>(
        &'a self,
        object: &'a Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Report, Interrupted>>;
    /// What to say when an attempt broke.
    fn broken(&self, object: &Value, how: &Broken, context: &Context) -> Report;
}

/// A controller around another one, which is the same but for its attempts.
pub trait ControllerWrapper: Send + Sync + fmt::Debug {
    /// The other one.
    fn inner(&self) -> &dyn Controller;
    /// As [`Controller::host`].
    fn host(&self, object: &Value) -> Option<String> {
        self.inner().host(object)
    }
    /// As [`Controller::attempt`].
    fn attempt<'a>(
        &'a self,
        object: &'a Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Report, Interrupted>>;
    /// As [`Controller::broken`].
    fn broken(&self, object: &Value, how: &Broken, context: &Context) -> Report {
        self.inner().broken(object, how, context)
    }
}

impl<A: ControllerWrapper> Controller for A {
    fn name(&self) -> &str {
        self.inner().name()
    }
    fn reports_as(&self) -> &str {
        self.inner().reports_as()
    }
    fn field_manager(&self) -> &str {
        self.inner().field_manager()
    }
    fn resource(&self) -> &Resource {
        self.inner().resource()
    }
    fn owned_conditions(&self) -> &[&str] {
        self.inner().owned_conditions()
    }
    fn deadline(&self, object: &Value) -> Duration {
        self.inner().deadline(object)
    }
    fn host(&self, object: &Value) -> Option<String> {
        ControllerWrapper::host(self, object)
    }
    fn concurrency(&self) -> usize {
        self.inner().concurrency()
    }
    fn attempt<'a>(
        &'a self,
        object: &'a Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Report, Interrupted>> {
        ControllerWrapper::attempt(self, object, context)
    }
    fn broken(&self, object: &Value, how: &Broken, context: &Context) -> Report {
        ControllerWrapper::broken(self, object, how, context)
    }
}

/// What an attempt has at hand.
#[derive(Debug, Clone)]
pub struct Context {
    /// The world.
    pub env: Env,
    /// The API server. It takes no writes once leadership is over.
    pub client: Client,
    /// The object.
    pub key: Key,
    /// Why this attempt is made, and how many failed before.
    pub ticket: Ticket,
    /// The time of leadership it is made in, where leadership matters.
    pub epoch: Option<Epoch>,
    /// Whether another replica worked on the object until now. What it has done may be newer than what the watches here
    /// have told: what an effect depends on is read from the server then.
    pub taken_over: bool,
    /// The log, with the object's fields.
    pub log: Logger,
    pub(crate) resource: Resource,
    pub(crate) field_manager: String,
    pub(crate) stores: std::sync::Arc<BTreeMap<SmolStr, Store>>,
    pub(crate) superseded: Signal,
    pub(crate) stopping: Signal,
    pub(crate) watcher: Watcher,
    pub(crate) recorder: Recorder,
    /// The name that events are reported under.
    pub(crate) reporter: String,
}

/// Watches more on behalf of an object.
pub(crate) trait WatchFor: Send + Sync {
    fn watch(&self, user: &Key, watched: &Watched, matters: Option<ChangePredicate>) -> Store;
    fn release(&self, user: &Key, but: &[Watched]);
    fn note_write(&self, key: &Key, version: u64);
}

#[derive(Clone)]
pub(crate) struct Watcher(pub(crate) std::sync::Arc<dyn WatchFor>);

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher")
    }
}

impl Context {
    /// A safe point: whether there is still a point in going on. Call it between effects, never
    /// inside one.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self
            .epoch
            .as_ref()
            .is_some_and(|epoch| epoch.is_leaving() || epoch.check().is_err())
        {
            return Err(Interrupted::NotLeading);
        }
        if self.stopping.is_raised() {
            return Err(Interrupted::Stopping);
        }
        match self.superseded.is_raised() {
            true => Err(Interrupted::Superseded),
            false => Ok(()),
        }
    }

    /// Whether something newer is asked for.
    pub fn superseded(&self) -> bool {
        self.superseded.is_raised()
    }

    /// Waits until there is no point in going on. For use beside an effect that can be dropped.
    pub async fn interrupted(&self) -> Interrupted {
        let (superseded, stopping) = (self.superseded.raised(), self.stopping.raised());
        let (superseded, stopping) = (std::pin::pin!(superseded), std::pin::pin!(stopping));
        futures_util::future::select(superseded, stopping).await;
        match self.stopping.is_raised() {
            true => Interrupted::Stopping,
            false => Interrupted::Superseded,
        }
    }

    /// What is known of a kind that is watched.
    pub fn store(&self, kind: &str) -> Option<&Store> {
        self.stores.get(kind)
    }

    /// Has more objects watched on behalf of this one, until it goes or they are
    /// [released](Context::release_watches). Two that ask for the same share one watch. The store
    /// is empty until [`Store::is_synced`] says otherwise.
    pub fn watch(&self, watched: &Watched) -> Store {
        self.watcher.0.watch(&self.key, watched, None)
    }

    /// The same, but only changes that matter wake those who wait for them. The first to ask for
    /// a watch says which do, for all.
    pub fn watch_where(&self, watched: &Watched, matters: ChangePredicate) -> Store {
        self.watcher.0.watch(&self.key, watched, Some(matters))
    }

    /// Writes a status in the middle of an attempt: facts that must be stored before an effect.
    /// `object` is as last seen; the answer is how it is now, `None` when it is gone.
    pub async fn write_status(
        &self,
        object: &Value,
        status: &Value,
        owned: &[&str],
    ) -> Result<Option<Value>, Error> {
        let writer = StatusWriter {
            env: &self.env,
            client: &self.client,
            resource: &self.resource,
            field_manager: &self.field_manager,
            owned,
            patience: STATUS_PATIENCE,
        };
        let pointless = || {
            self.epoch
                .as_ref()
                .is_some_and(|epoch| epoch.check().is_err())
        };
        match writer.write_facts(object, status, pointless).await? {
            Written::Unchanged => Ok(Some(object.clone())),
            Written::Stored(stored) => {
                self.watcher.0.note_write(&self.key, revision(&stored));
                self.learn(&stored);
                Ok(Some(stored))
            }
            Written::Gone | Written::Rewound => {
                self.request_resync();
                Ok(None)
            }
            Written::GivenUp => Err(Error::Fenced {
                epoch: self.epoch.as_ref().map_or(0, Epoch::number),
            }),
        }
    }

    /// Tells of something before it is done, and waits a while until the API server has heard it.
    /// All other events go with the [`Report`].
    pub async fn emit_and_wait(&self, object: &Value, event: Event) {
        let reporter = &self.reporter;
        self.recorder.emit_and_wait(reporter, object, event).await;
    }

    /// Gives up all that is watched on behalf of this object, but for some.
    pub fn release_watches(&self, but: &[Watched]) {
        self.watcher.0.release(&self.key, but);
    }

    /// The object as it is on the server now; `None` when it is gone or another has its name. For
    /// what must not be decided from memory.
    pub async fn live(&self, object: &Value) -> Result<Option<Value>, Error> {
        match self.client.get(&self.resource, At::of(object)).await {
            Ok(live) if meta_text(&live, "uid") == meta_text(object, "uid") => {
                self.learn(&live);
                Ok(Some(live))
            }
            Ok(_) | Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sees to it that the object has a finalizer, before the effects that it protects.
    pub async fn ensure_finalizer(&self, object: &Value, name: &str) -> Result<Edited, Error> {
        let manager = &self.field_manager;
        let edited =
            metadata::ensure_finalizer(&self.client, &self.resource, object, name, manager).await?;
        match &edited {
            Edited::Unchanged => {}
            Edited::Stored(object) => {
                self.watcher.0.note_write(&self.key, revision(object));
                self.learn(object);
            }
            Edited::Gone => self.request_resync(),
        }
        Ok(edited)
    }

    /// Lets the object go, after all that its finalizer protects is done.
    pub async fn remove_finalizer(&self, object: &Value, name: &str) -> Result<Edited, Error> {
        let manager = &self.field_manager;
        let edited =
            metadata::remove_finalizer(&self.client, &self.resource, object, name, manager).await?;
        match &edited {
            Edited::Unchanged => {}
            Edited::Stored(object) => self.learn(object),
            Edited::Gone => {
                if let Some(store) = self.stores.get(&self.key.kind) {
                    let name = (self.key.namespace.clone(), self.key.name.clone());
                    store.learn_gone(&name, meta_text(object, "uid"));
                }
            }
        }
        Ok(edited)
    }

    /// The server knows of another object, or of an older version of it, than the store.
    pub fn request_resync(&self) {
        if let Some(store) = self.stores.get(&self.key.kind) {
            store.request_resync();
        }
    }

    /// Takes the server's answer to a write of this kind into the store at once.
    pub fn learn(&self, object: &Value) {
        let kind = object["kind"].as_str().unwrap_or_default();
        if let Some(store) = self
            .stores
            .get(kind)
            .filter(|store| store.keeps() != Keep::Metadata)
        {
            store.learn(object);
        }
    }
}
