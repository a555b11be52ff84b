//! Runs attempts: feeds the queue from the stores, gives attempts their turns, writes what they
//! report.

mod endpoints;
mod feed;
mod health;
mod quarantine;
mod run;
mod tenure;
mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everflow_env::{Env, Place, planted_return, watch};
use smol_str::SmolStr;
use tokio::sync::Notify;
use tokio::task::JoinSet;

pub use health::Health;
use quarantine::Quarantine;
use tenure::Tenure;

use crate::attempt::Controller;
use crate::client::{Client, Resource, Selection};
use crate::events::Recorder;
use crate::lease::{EpochUse, Leadership};
use crate::log::Logger;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::queue::{Due, Flaw, Key, Priority, Queue, QueueOptions, Waits};
use crate::reflector::{Reflector, Watched};
use crate::shards::Shards;
use crate::signal::Signal;
use crate::store::{Change, Keep, Store};

/// How often it is checked that no object is without a next attempt.
const AUDIT: Duration = Duration::from_secs(60);

/// How long the first attempts wait for all watches to have told what there is. A kind that cannot
/// be listed must not hold up the others for ever.
const FIRST_LISTS: Duration = Duration::from_secs(15);

/// When an object is looked at again whose shard is just being handed over.
const HANDED_OVER: Due = Due::After(Duration::from_secs(1));

/// Whether a change of an object matters to those who wait for it.
pub type ChangePredicate = Arc<dyn Fn(&Change) -> bool + Send + Sync>;

/// Something to watch beside the controllers' own kinds.
struct ExtraWatch {
    watched: Watched,
    matters: ChangePredicate,
}

/// Puts an [`Engine`] together.
pub struct Builder {
    env: Env,
    client: Client,
    options: Options,
    log: Logger,
    metrics: Metrics,
    controllers: Vec<Arc<dyn Controller>>,
    extra_watches: Vec<ExtraWatch>,
    matters: BTreeMap<SmolStr, ChangePredicate>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("controllers", &self.controllers)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// An engine without controllers.
    pub fn new(env: Env, client: Client, options: Options, log: Logger, metrics: Metrics) -> Self {
        Builder {
            env,
            client,
            options,
            log,
            metrics,
            controllers: Vec::new(),
            extra_watches: Vec::new(),
            matters: BTreeMap::new(),
        }
    }

    /// Runs a controller. `matters` says which changes of its objects wake those of others that
    /// wait for them.
    #[must_use]
    pub fn controller(
        mut self,
        controller: impl Controller + 'static,
        matters: impl Fn(&Change) -> bool + Send + Sync + 'static,
    ) -> Self {
        let kind = controller.resource().kind.clone();
        self.matters.insert(kind, Arc::new(matters));
        self.controllers.push(Arc::new(controller));
        self
    }

    /// Puts something around each controller so far, such as another way to get at a source.
    #[must_use]
    pub fn wrap(mut self, around: impl Fn(Arc<dyn Controller>) -> Arc<dyn Controller>) -> Self {
        self.controllers = self.controllers.into_iter().map(around).collect();
        self
    }

    /// Watches objects that no controller here owns.
    #[must_use]
    pub fn watch(
        mut self,
        watched: Watched,
        matters: impl Fn(&Change) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.extra_watches.push(ExtraWatch {
            watched,
            matters: Arc::new(matters),
        });
        self
    }

    /// The engine. Nothing runs yet.
    pub fn build(self, recorder: Recorder) -> Engine {
        let mut kinds = BTreeMap::new();
        let mut stores = BTreeMap::new();
        let mut resources = BTreeMap::new();
        let mut reflectors = Vec::new();
        let mut per_kind = BTreeMap::new();
        let mut matters = self.matters;
        let reflect = |watched: Watched| {
            let options = self.options.reflector.clone();
            let note = watches::note_failures(&self.log, &self.env);
            Reflector::new(self.env.clone(), self.client.clone(), watched, options).on_failure(note)
        };
        for controller in self.controllers {
            let resource = controller.resource().clone();
            let watched = Watched {
                resource: resource.clone(),
                namespace: self.options.watch_namespace.clone(),
                selection: Selection::labelled(self.options.watch_label_selector.clone()),
                keep: Keep::default(),
            };
            let reflector = reflect(watched);
            stores.insert(resource.kind.clone(), reflector.store());
            resources.insert(resource.kind.clone(), resource.clone());
            reflectors.push(reflector);
            per_kind.insert(resource.kind.clone(), controller.concurrency());
            kinds.insert(resource.kind.clone(), controller);
        }
        for extra in self.extra_watches {
            let kind = extra.watched.resource.kind.clone();
            resources.insert(kind.clone(), extra.watched.resource.clone());
            let reflector = reflect(extra.watched);
            stores.insert(kind.clone(), reflector.store());
            reflectors.push(reflector);
            matters.insert(kind, extra.matters);
        }
        let queue = Queue::new(QueueOptions {
            min_backoff: self.options.min_retry_delay,
            max_backoff: self.options.max_retry_delay,
            concurrency: self.options.concurrency,
            concurrency_per_kind: per_kind,
            concurrency_per_host: self.options.concurrency_per_host,
        });
        Engine {
            shared: Arc::new(Shared {
                env: self.env,
                client: self.client,
                options: self.options,
                log: self.log,
                metrics: self.metrics,
                recorder,
                kinds,
                stores: Arc::new(stores),
                resources,
                watches: watches::Watches::default(),
                matters,
                state: Mutex::new(State {
                    queue,
                    waits: Waits::default(),
                    running: BTreeMap::new(),
                    own_writes: BTreeMap::new(),
                    quarantine: Quarantine::default(),
                    leading: None,
                    shards: None,
                    taken_over: BTreeSet::new(),
                    turned: None,
                }),
                turn: Notify::new(),
                stopping: Signal::new(),
            }),
            reflectors,
        }
    }
}

/// Runs controllers.
#[derive(Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    reflectors: Vec<Reflector>,
}

/// What tasks of an engine share.
struct Shared {
    env: Env,
    client: Client,
    options: Options,
    log: Logger,
    metrics: Metrics,
    recorder: Recorder,
    kinds: BTreeMap<SmolStr, Arc<dyn Controller>>,
    stores: Arc<BTreeMap<SmolStr, Store>>,
    resources: BTreeMap<SmolStr, Resource>,
    watches: watches::Watches,
    matters: BTreeMap<SmolStr, ChangePredicate>,
    state: Mutex<State>,
    turn: Notify,
    stopping: Signal,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("kinds", &self.kinds.keys())
            .finish_non_exhaustive()
    }
}

struct State {
    queue: Queue,
    waits: Waits,
    running: BTreeMap<Key, Signal>,
    /// The version of each object as of our last write.
    own_writes: BTreeMap<Key, u64>,
    /// Objects on which the process has died.
    quarantine: Quarantine,
    leading: Option<Leadership>,
    /// The shards that are worked on here, where the work is shared.
    shards: Option<Shards>,
    /// Objects that another replica worked on until now, and that no attempt here has dealt with since.
    taken_over: BTreeSet<Key>,
    /// When the dispatcher last had a turn.
    turned: Option<Duration>,
}

impl State {
    /// Whether an object is worked on here, when its turn comes.
    fn works_on(&self, key: &Key) -> bool {
        let shards = self.shards.as_ref();
        shards.is_none_or(|shards| shards.owns(key).is_some())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.env.clock.elapsed()
    }

    /// Asks for an attempt, and tells one that runs that it is superseded.
    fn enqueue(&self, key: &Key, priority: Priority) {
        let mut state = self.lock();
        if !state.works_on(key) {
            return;
        }
        planted_return!(
            self.env,
            Place::WakeWhileRunning,
            state.running.contains_key(key)
        );
        if state.queue.enqueue(key, priority, self.now())
            && let Some(signal) = state.running.get(key)
        {
            signal.raise();
        }
        drop(state);
        self.turn.notify_one();
    }

    /// Objects that live but have no next attempt.
    fn orphans(&self) -> Vec<Key> {
        let mut orphans = Vec::new();
        for kind in self.kinds.keys() {
            let Some(store) = self.stores.get(kind) else {
                continue;
            };
            let names = store.names();
            let state = self.lock();
            let mut missing = state.queue.missing(kind, &names);
            missing.retain(|key| state.works_on(key));
            orphans.extend(missing);
        }
        orphans
    }
}

/// A view of an engine from outside. Clones share it.
#[derive(Debug, Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    /// Asks for an attempt of an object.
    pub fn request(&self, key: &Key) {
        self.shared.enqueue(key, Priority::Request);
    }

    /// What is known of a kind.
    pub fn store(&self, kind: &str) -> Option<Store> {
        self.shared.stores.get(kind).cloned()
    }

    /// Whether an object is worked on here, and not by another replica.
    pub fn works_on(&self, key: &Key) -> bool {
        self.shared.lock().works_on(key)
    }

    /// Objects that live but have no next attempt, and what is wrong in the queue. Both are empty
    /// whenever all changes that the stores have told are taken in.
    pub fn orphans(&self) -> (Vec<Key>, Vec<Flaw>) {
        let flaws = self.shared.lock().queue.check();
        (self.shared.orphans(), flaws)
    }

    /// How often the queue or what is known of the objects in it has changed: as long as this stays the same, so does
    /// what [`Handle::orphans`] finds.
    pub fn changes(&self) -> u64 {
        let told: u64 = self.shared.stores.values().map(Store::changes).sum();
        told + self.shared.lock().queue.changes()
    }

    /// When an object that waits for a moment on the clock is attempted next.
    pub fn sleeping_until(&self, key: &Key) -> Option<Duration> {
        self.shared.lock().queue.sleeping_until(key)
    }

    /// The last moment on the clock that an object waits for.
    pub fn last_timer(&self) -> Option<Duration> {
        self.shared.lock().queue.last_timer()
    }

    /// How many watches there are because attempts asked for them.
    pub fn extra_watches(&self) -> usize {
        self.shared.watches.len()
    }

    /// Whether it is healthy and ready.
    pub fn health(&self) -> Health {
        health::health(&self.shared)
    }

    /// The metrics, brought up to date.
    pub fn metrics(&self) -> String {
        health::refresh(&self.shared);
        self.shared.metrics.text()
    }
}

impl Engine {
    /// A view from outside.
    pub fn handle(&self) -> Handle {
        Handle {
            shared: self.shared.clone(),
        }
    }

    /// Runs until `stop` is raised and the attempts that run have reached a safe point. With
    /// `leadership`, attempts are made only while we lead.
    pub async fn run(self, leadership: Option<watch::Receiver<Leadership>>, stop: Signal) {
        let tenure = leadership.map_or(Tenure::Always, Tenure::Leading);
        self.run_while(tenure, stop).await;
    }

    /// The same, but only the objects of the shards that we hold are worked on.
    pub async fn run_shards(self, shards: watch::Receiver<Shards>, stop: Signal) {
        self.run_while(Tenure::Sharing(shards), stop).await;
    }

    async fn run_while(self, tenure: Tenure, stop: Signal) {
        let shared = self.shared;
        quarantine::load(&shared).await;
        tenure.begin(&shared);
        let mut background = JoinSet::new();
        for kind in shared.stores.keys().cloned().collect::<Vec<_>>() {
            background.spawn(feed::feed(shared.clone(), kind));
        }
        for reflector in self.reflectors {
            background.spawn(reflector.run());
        }
        background.spawn(audit(shared.clone()));
        first_lists(&shared, &stop).await;
        dispatch(&shared, tenure, &stop).await;
        quarantine::clear_running(&shared).await;
        shared.watches.end();
        background.abort_all();
    }
}

/// Waits until all stores have been told what there is, or that there is no such kind, or long enough.
async fn first_lists(shared: &Shared, stop: &Signal) {
    shared.lock().turned = Some(shared.now());
    let told = async {
        for store in shared.stores.values() {
            store.answered().await;
        }
    };
    let told = everflow_env::within(&*shared.env.clock, FIRST_LISTS, told);
    let (told, stopped) = (std::pin::pin!(told), std::pin::pin!(stop.raised()));
    futures_util::future::select(told, stopped).await;
}

/// Gives attempts their turns until `stop`, then waits for those that run.
async fn dispatch(shared: &Arc<Shared>, mut tenure: Tenure, stop: &Signal) {
    let mut attempts = JoinSet::new();
    while !stop.is_raised() {
        let mut pause = Duration::from_secs(30);
        tenure.look(shared);
        {
            let mut state = shared.lock();
            let now = shared.now();
            state.turned = Some(now);
            if let Some(left) = tenure.remaining() {
                pause = pause.min(left);
                while let Some(ticket) = state.queue.pop(now) {
                    let Ok((epoch, using)) = tenure.enter(&ticket.key) else {
                        // It is being handed over.
                        let _ = state.queue.finish(&ticket.key, &HANDED_OVER, now, 0.0);
                        continue;
                    };
                    let superseded = Signal::new();
                    state.running.insert(ticket.key.clone(), superseded.clone());
                    let mark = state.waits.mark();
                    let attempt = run::run(shared.clone(), ticket, mark, epoch, superseded);
                    attempts.spawn(counted(attempt, using));
                }
                if let Some(next) = state.queue.next_timer() {
                    pause = pause.min(next.saturating_sub(now));
                }
            }
        }
        let pause = pause.max(Duration::from_millis(1));
        tokio::select! {
            biased;
            () = stop.raised() => {}
            () = tenure.changed() => {}
            () = shared.turn.notified() => {}
            () = shared.env.clock.sleep(pause) => {}
        }
        while attempts.try_join_next().is_some() {}
    }
    shared.stopping.raise();
    let ended = async { while attempts.join_next().await.is_some() {} };
    let grace = shared.options.stop_grace;
    // What has not ended by then is dropped with its task.
    let _ = everflow_env::within(&*shared.env.clock, grace, ended).await;
    attempts.abort_all();
}

/// An attempt that counts as work under its epoch until it has ended.
async fn counted(attempt: impl Future<Output = ()>, using: Option<EpochUse>) {
    attempt.await;
    drop(using);
}

/// Looks for objects without a next attempt, gives them one, and says so.
async fn audit(shared: Arc<Shared>) {
    loop {
        shared.env.clock.sleep(AUDIT).await;
        for key in shared.orphans() {
            let kind = key.kind.to_string();
            let labels = [("kind", kind.as_str())];
            shared
                .metrics
                .count("everflow_orphan_keys_found_total", &labels);
            shared
                .log
                .error("object without a next attempt", &key.to_string());
            shared.enqueue(&key, Priority::Interval);
        }
    }
}
