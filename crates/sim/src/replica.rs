//! One life of a replica: the controllers as they ship.

use std::sync::Arc;

use everflow_api::names::group;
use everflow_cluster::ApiService;
use everflow_cluster::auth::User;
use everflow_cluster::faults::Line;
use everflow_controllers::{ControllerKind, Named, Options, RemoteClusters, Setup, mirror};
use everflow_dispatch::Dispatcher;
use everflow_dispatch::receiver::ReceiverServer;
use everflow_embedded::{EmbeddedAdmission, EmbeddedTransport};
use everflow_env::{BoxFuture, Env, MemoryDialer, SeededRandom, watch};
use everflow_fetch::storage::{FileServer, ServerLimits, Storage, StorageOptions};
use everflow_json::Value;
use everflow_local::skipped_release::SkippedReleases;
use everflow_local::stand_in::StandIn;
use everflow_runtime::Signal;
use everflow_runtime::attempt::{
    Broken, Context, Controller, ControllerWrapper, Interrupted, Next, Report,
};
use everflow_runtime::client::Client;
#[cfg(feature = "wrong")]
use everflow_runtime::client::Transport;
use everflow_runtime::engine::Engine;
use everflow_runtime::events::{EventSender, recorder};
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;
use everflow_runtime::queue::Key;
use tokio::task::JoinSet;

use crate::disk::JudgedDisk;
use crate::history::Actor;
use crate::holding::Holding;
use crate::hooks::Hook;
use crate::net::JudgedDialer;
use crate::notify;
use crate::plan::Millis;
use crate::poisoned::PoisonedBlocking;
use crate::repository::Repository;
use crate::served;
use crate::shared::Shared;
use crate::sharing::Sharing;
use crate::ways;

/// The key of the Lease.
pub const LEASE: &str = "flux-system/source-controller-leader-election";
/// The Service of the replicas, by which artifacts are fetched.
pub const SERVICE: &str = "storage";
/// When a start fails it is tried again after so long.
const START_AGAIN: Millis = 5_000;

/// The name of a replica in the Lease. It is the same for all its lives: so are the names of a StatefulSet's Pods.
pub fn identity(replica: usize) -> String {
    format!("replica-{replica}")
}

/// Says what attempts are made.
#[derive(Debug)]
struct Noted {
    inner: Arc<dyn Controller>,
    shared: Arc<Shared>,
    who: Actor,
}

impl ControllerWrapper for Noted {
    fn inner(&self) -> &dyn Controller {
        &*self.inner
    }

    fn attempt<'a>(
        &'a self,
        object: &'a Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Report, Interrupted>> {
        let key = &context.key;
        self.shared.history.note(self.who, || {
            format!("attempts {key} ({:?})", context.ticket.priority)
        });
        self.shared
            .ask(|oracles| oracles.attempt(&self.shared, self.who, key, object));
        Box::pin(async move {
            let report = self.inner.attempt(object, context).await;
            if let Ok(report) = &report {
                self.shared
                    .ask(|oracles| oracles.next(&self.shared, self.who, key, &report.next));
            }
            self.shared.history.note(self.who, || match &report {
                Ok(report) => format!(
                    "is done with {key}: {:?}; next {}",
                    report.verdict,
                    in_words(&report.next)
                ),
                Err(why) => format!("stops {key}: {why}"),
            });
            report
        })
    }

    fn broken(&self, object: &Value, how: &Broken, context: &Context) -> Report {
        self.shared
            .history
            .note(self.who, || format!("breaks off {}: {how}", context.key));
        self.inner.broken(object, how, context)
    }
}

/// When the next attempt is, in words.
fn in_words(next: &Next) -> String {
    let changes = |of: &[Key]| {
        let all: Vec<String> = of.iter().map(ToString::to_string).collect();
        all.join(" or ")
    };
    match next {
        Next::At(span) => format!("in {span:.1?}"),
        Next::When {
            changes: of,
            no_later_than,
        } if of.is_empty() => format!("in {no_later_than:.1?}"),
        Next::When {
            changes: of,
            no_later_than,
        } => format!("in {no_later_than:.1?}, or when {} changes", changes(of)),
        Next::Retry { cause, at_least } if at_least.is_zero() => format!("soon ({cause})"),
        Next::Retry { cause, at_least } => format!("not before {at_least:.1?} ({cause})"),
        Next::RetryOrWhen { cause, changes: of } => {
            format!("soon ({cause}), or when {} changes", changes(of))
        }
    }
}

/// What all lives have in common.
#[derive(Debug, Clone)]
pub struct Life {
    /// The seed of the run.
    pub seed: u64,
    /// Whether there are others.
    pub elected: bool,
    /// How many replicas there are.
    pub replicas: usize,
    /// The label selector of each replica, when each looks after its own.
    pub shards: Vec<String>,
    /// How they share the work, when they do.
    pub sharing: Option<Sharing>,
    /// Further ways to the API servers.
    pub ways: Vec<String>,
    /// A repository instead of hosts.
    pub repository: Option<Arc<Repository>>,
    /// Whether HelmReleases are reconciled. Where there are none, it would only take time.
    pub releases: bool,
    /// Whether notifications are sent and webhooks taken.
    pub notifies: bool,
    /// Whether objects come from the API server as trees.
    pub trees: bool,
    /// A mistake that every replica makes.
    #[cfg(feature = "wrong")]
    pub mistake: Option<crate::Mistake>,
}

impl Life {
    /// The kinds that have controllers.
    fn kinds(&self) -> Vec<ControllerKind> {
        if self.repository.is_some() {
            return everflow_local::world::delivered();
        }
        let all = ControllerKind::ALL.iter().copied();
        all.filter(|kind| self.releases || *kind != ControllerKind::HelmRelease)
            .filter(|kind| self.notifies || *kind != ControllerKind::Receiver)
            .collect()
    }
}

#[cfg(feature = "wrong")]
impl Life {
    /// The world and the way to the API server of a replica that makes the mistake, if there is one.
    fn with_mistake(&self, mut env: Env, inner: Arc<dyn Transport>) -> (Env, Arc<dyn Transport>) {
        use crate::mistakes::{disk::MistakenDisk, transport::MistakenTransport};
        let Some(mistake) = self.mistake else {
            return (env, inner);
        };
        if mistake == crate::Mistake::OneLaneForAll {
            let (inner, taken) = (env.dialer, Arc::default());
            env.dialer = Arc::new(crate::mistakes::dialer::OneConnection { inner, taken });
        }
        let disk = env.disk;
        env.disk = Arc::new(MistakenDisk {
            inner: disk,
            mistake,
        });
        (env, Arc::new(MistakenTransport { inner, mistake }))
    }

    /// A controller that makes the mistake, if there is one.
    fn mistaken(&self, inner: Arc<dyn Controller>) -> Arc<dyn Controller> {
        use crate::mistakes::controller::MistakenController;
        match self.mistake {
            Some(mistake) => Arc::new(MistakenController { inner, mistake }),
            None => inner,
        }
    }
}

/// One life, before it does anything.
pub struct Born {
    /// Whose.
    pub who: Actor,
    /// Its world.
    pub env: Env,
    /// Its way to the API servers.
    pub client: Client,
}

/// Begins a life of a replica.
pub fn born(
    shared: &Arc<Shared>,
    hosts: &MemoryDialer,
    replica: usize,
    all: &Life,
) -> Option<Born> {
    let (life, clock, files, view, line) = {
        let mut replicas = shared.replicas();
        let state = replicas.get_mut(replica)?;
        state.life += 1;
        state.alive = true;
        state.started = shared.history.now();
        state.line = Arc::new(Line::new());
        state.clock.go_on();
        (
            state.life,
            state.clock.clone(),
            state.files.clone(),
            state.view.clone(),
            state.line.clone(),
        )
    };
    let who = Actor::Replica(replica, life);
    shared.history.note(who, || "starts".to_owned());
    let hook = Arc::new(Hook {
        shared: shared.clone(),
        replica,
        life,
    });
    let chance = all.seed ^ ((replica as u64 + 1) << 48) ^ (u64::from(life) << 32);
    let may_stop = shared.faults.iter().any(|fault| fault.stops().is_some());
    let mut env = Env {
        clock: clock.clone(),
        random: Arc::new(SeededRandom::new(chance)),
        dialer: Arc::new(JudgedDialer {
            hosts: hosts.clone(),
            judge: hook.clone(),
            clock: may_stop.then(|| clock.clone()),
        }),
        disk: Arc::new(JudgedDisk {
            files,
            judge: hook.clone(),
        }),
        blocking: Arc::new(PoisonedBlocking {
            shared: shared.clone(),
            replica,
            life,
        }),
    };
    let service = ApiService::new(shared.server()?.clone())
        .as_user(User::admin())
        .with_view(view)
        .with_line(line)
        .with_faults(hook);
    let transport = match all.ways.is_empty() {
        true => Arc::new(EmbeddedTransport::new(service).with_trees(all.trees)),
        false => ways::between(&mut env, service, (shared, who), &all.ways)?,
    };
    #[cfg(feature = "wrong")]
    let (env, transport) = all.with_mistake(env, transport);
    let client = Client::new(transport, env.clock.clone());
    Some(Born { who, env, client })
}

/// Starts a life. When that fails, the next one is planned.
pub fn start(shared: &Arc<Shared>, hosts: &MemoryDialer, replica: usize, all: &Life) {
    let Some(born) = born(shared, hosts, replica, all) else {
        return;
    };
    let (who, hosts, all) = (born.who, hosts.clone(), all.clone());
    let task = tokio::spawn({
        let shared = shared.clone();
        async move {
            let then = match live(&shared, born, &hosts, &all).await {
                Err(why) => {
                    shared.history.note(who, || format!("cannot start: {why}"));
                    START_AGAIN
                }
                Ok(()) => shared.replicas().get(replica).map_or(0, |state| state.then),
            };
            end(&shared, who, then);
        }
    });
    if let Some(state) = shared.replicas().get_mut(replica) {
        state.tasks = vec![task.abort_handle()];
    }
}

/// A life is over; the next one begins after so long.
pub fn end(shared: &Shared, who: Actor, then: Millis) {
    if let Actor::Replica(replica, life) = who {
        shared.kill(replica, life, then, false);
    }
}

/// What a replica is given to begin with.
pub struct Parts<'p> {
    /// The world.
    pub shared: &'p Arc<Shared>,
    /// What all lives have in common.
    pub all: &'p Life,
    /// The one that lives.
    pub born: &'p Born,
    /// Its artifacts.
    pub storage: &'p Storage,
    /// Its options.
    pub options: Options,
}

impl Parts<'_> {
    /// A controller that is watched, and replaced where a scenario says so.
    fn around(&self, inner: Arc<dyn Controller>) -> Arc<dyn Controller> {
        let repository = self.all.repository.as_ref();
        let inner: Arc<dyn Controller> = match repository {
            Some(repository) if inner.resource().group == group::SOURCE => Arc::new(StandIn {
                inner,
                stand_ins: Arc::new(repository.plan.stand_ins.clone()),
                storage: self.storage.clone(),
            }),
            Some(_) if inner.resource().kind == "HelmRelease" => {
                Arc::new(SkippedReleases { inner })
            }
            _ => inner,
        };
        #[cfg(feature = "wrong")]
        let inner = self.all.mistaken(inner);
        Arc::new(Noted {
            inner,
            shared: self.shared.clone(),
            who: self.born.who,
        })
    }

    /// The engine as it ships, with what runs beside it. `around` is put around each of its controllers.
    pub fn engine(
        self,
        around: &dyn Fn(Arc<dyn Controller>) -> Arc<dyn Controller>,
    ) -> Result<Program, String> {
        let Born { env, client, who } = self.born;
        let metrics = Metrics::new();
        let setup = Setup {
            env: env.clone(),
            client: client.clone(),
            options: self.options.clone(),
            admission: Some(Arc::new(EmbeddedAdmission)),
            storage: self.storage.clone(),
            log: Logger::silent(env.clock.clone()),
            metrics: metrics.clone(),
        };
        let sink = (!self.all.notifies).then_some("http://sink/");
        let made = recorder(env, client, &metrics, sink, "sim");
        let (mut recorder, event_sender) = made.map_err(|error| error.to_string())?;
        let mut dispatcher = None;
        if self.all.notifies {
            let (sink, made) = notify::dispatcher(
                &setup,
                recorder.clone(),
                self.shared,
                *who,
                self.all.elected,
            );
            recorder = recorder.with_sink(sink);
            dispatcher = Some(made);
        }
        let mut builder = setup.builder(&self.all.kinds());
        if self.all.repository.is_some() {
            for controller in everflow_local::world::unsupported() {
                builder = builder.controller(controller, |_| false);
            }
        }
        let engine = builder
            .wrap(|inner| around(self.around(inner)))
            .build(recorder);
        if let Some(state) = self
            .shared
            .replicas()
            .get_mut(who.replica().unwrap_or_default())
        {
            state.handle = Some(engine.handle());
        }
        let webhooks = notify::webhooks(&setup, &engine.handle());
        Ok(Program {
            engine,
            event_sender,
            dispatcher,
            webhooks,
        })
    }
}

/// What runs in one process.
#[derive(Debug)]
pub struct Program {
    /// The controllers.
    pub engine: Engine,
    /// What sends its Events.
    pub event_sender: EventSender,
    /// What sends notifications, where there are any.
    pub dispatcher: Option<Dispatcher>,
    /// The server for webhooks, where there are Receivers.
    pub webhooks: Option<ReceiverServer>,
}

/// The options of a replica that looks after what a selector says.
fn options(all: &Life, selector: &str) -> Options {
    let mut options = match &all.repository {
        Some(repository) => everflow_local::world::options(&repository.plan),
        None => Options::default(),
    };
    #[cfg(feature = "wrong")]
    if all.mistake == Some(crate::Mistake::DriftForgotten) {
        options.kustomize.watch_applied = false;
    }
    options.runtime.watch_label_selector = selector.to_owned();
    if all.repository.is_some() {
        // A repository leads to no other cluster.
        options.kustomize.remote_clusters = RemoteClusters::Refused;
    }
    options
}

/// The whole life. It ends when it cannot begin, or when the replica is asked to stop.
async fn live(
    shared: &Arc<Shared>,
    born: Born,
    hosts: &MemoryDialer,
    all: &Life,
) -> Result<(), String> {
    let (env, client, who) = (&born.env, &born.client, born.who);
    let replica = who.replica().unwrap_or_default();
    let shard = all.shards.get(replica).cloned();
    // Those who look after their own have a Service each; those who share the work are behind one, and have an address.
    let host = match shard.is_some() || all.sharing.is_some() {
        true => served::host(replica),
        false => SERVICE.to_owned(),
    };
    let advertised = match all.sharing {
        Some(_) => SERVICE.to_owned(),
        None => host.clone(),
    };
    let storage = StorageOptions {
        advertised,
        ..StorageOptions::default()
    };
    let mut storage = Storage::open(env, storage)
        .await
        .map_err(|error| error.to_string())?;
    let peers = watch::Sender::new(Vec::new());
    if all.sharing.is_some() {
        let with_peers = storage.with_peers(peers.subscribe());
        storage = with_peers.map_err(|error| error.to_string())?;
    }
    let selector = shard.unwrap_or_default();
    let parts = Parts {
        shared,
        all,
        born: &born,
        storage: &storage,
        options: options(all, &selector),
    };
    let program = parts.engine(&|inner| inner)?;
    let engine = program.engine;
    let stop = Signal::new();
    let (last_words, mut sending) = (Signal::new(), JoinSet::new());
    if let Some(dispatcher) = program.dispatcher {
        sending.spawn(dispatcher.run(last_words.clone()));
    }
    if let Some(state) = shared.replicas().get_mut(replica) {
        state.stop = Some(stop.clone());
    }
    // Everything dies with this set.
    let mut tasks = JoinSet::new();
    tasks.spawn(program.event_sender.run());
    let mut files = FileServer::new(env, ServerLimits::default());
    if all.sharing.is_some() {
        let handle = engine.handle();
        files = files.with_peers(storage.clone(), Arc::new(Named(handle.clone())));
        tasks.spawn(mirror(env.clone(), storage.clone(), handle));
    }
    let holding = match Holding::options(all, who, format!("{host}:80")) {
        Some(options) => Holding::sharing((env, client), options, &stop, peers),
        None if all.elected => Holding::leading(env, client, who, &selector),
        None => Holding::always(),
    };
    let hosts_of_calls = hosts.clone();
    let (hosts, mut leads) = (hosts.clone(), holding.leadership());
    tasks.spawn(async move {
        // Who leads is whom the Service points at.
        if let Some(leads) = &mut leads {
            while leads.borrow().epoch().is_none() {
                if leads.changed().await.is_err() {
                    return;
                }
            }
        }
        let mut incoming = hosts.listen(&host, 80);
        let mut open = JoinSet::new();
        while let Some(stream) = incoming.recv().await {
            let files = files.clone();
            open.spawn(async move { files.serve(stream).await });
            while open.try_join_next().is_some() {}
        }
    });
    if let Some(webhooks) = program.webhooks {
        tasks.spawn(notify::serve(webhooks, hosts_of_calls, replica));
    }
    holding.run(engine, stop).await;
    // As in the program: the Lease goes after the last attempt, and artifacts are served to the end.
    holding.hand_over().await;
    last_words.raise();
    while sending.join_next().await.is_some() {}
    shared.ask(|oracles| oracles.news.ended(who));
    Ok(())
}

/// Ends what still runs of a replica that is dead.
pub fn bury(shared: &Shared, replica: usize) {
    let tasks = match shared.replicas().get_mut(replica) {
        Some(state) => std::mem::take(&mut state.tasks),
        None => Vec::new(),
    };
    for task in tasks {
        task.abort();
    }
}
