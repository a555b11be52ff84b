//! One life of a replica: the controllers as they ship.

use std::sync::Arc;

use everflow_api::names::{group, manager};
use everflow_cluster::ApiService;
use everflow_cluster::auth::User;
use everflow_cluster::faults::Line;
use everflow_controllers::{ControllerKind, Options, RemoteClusters, Setup};
use everflow_embedded::{EmbeddedAdmission, EmbeddedTransport};
use everflow_env::{Blocking, BoxFuture, Env, InlineBlocking, Job, MemoryDialer, SeededRandom};
use everflow_fetch::storage::{FileServer, ServerLimits, Storage, StorageOptions};
use everflow_json::Value;
use everflow_local::skipped_release::SkippedReleases;
use everflow_local::stand_in::StandIn;
use everflow_runtime::Signal;
use everflow_runtime::attempt::{
    Broken, Context, Controller, ControllerWrapper, Interrupted, Next, Report,
};
use everflow_runtime::client::{Client, Transport};
use everflow_runtime::events::recorder;
use everflow_runtime::lease::{Election, LeaseOptions};
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;
use everflow_runtime::queue::Key;
use tokio::task::JoinSet;

use crate::disk::JudgedDisk;
use crate::history::Who;
use crate::hooks::Hook;
use crate::net::JudgedDialer;
use crate::notify;
use crate::plan::{Millis, Weather};
use crate::repository::Repository;
use crate::shared::Shared;

/// The key of the Lease.
pub const LEASE: &str = "flux-system/source-controller-leader-election";
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
    who: Who,
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

/// How long a process is down that died of an object.
const DOWN: Millis = 1_000;

/// Work on the spot, of which the process dies where the weather says so.
#[derive(Debug)]
struct PoisonedBlocking {
    shared: Arc<Shared>,
    replica: usize,
    life: u32,
}

impl Blocking for PoisonedBlocking {
    fn run(&self, job: Job) -> BoxFuture<'static, ()> {
        let lane = format!("{}/{}/{}", job.lane.kind, job.lane.namespace, job.lane.name);
        let weather = self.shared.weather(self.replica);
        let poisoned = weather.iter().find(|(_, what, _)| {
            job.foreign && matches!(what, Weather::Poisoned(object) if *object == lane)
        });
        let class = poisoned.map(|(fault, ..)| fault.class());
        let work = InlineBlocking.run(job);
        let Some(class) = class else {
            return work;
        };
        let (shared, replica, life) = (self.shared.clone(), self.replica, self.life);
        Box::pin(async move {
            work.await;
            shared.hit(class, || format!("work on {lane} ends the process"));
            shared.kill(replica, life, DOWN, false);
            std::future::pending::<()>().await;
        })
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
    /// The label selector of each replica, when they share the work.
    pub shards: Vec<String>,
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

/// Starts a life. When that fails, the next one is planned.
pub fn start(shared: &Arc<Shared>, hosts: &MemoryDialer, replica: usize, all: &Life) {
    let (life, clock, files, view, line) = {
        let mut replicas = shared.replicas();
        let Some(state) = replicas.get_mut(replica) else {
            return;
        };
        state.life += 1;
        state.alive = true;
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
    let who = Who::Replica(replica, life);
    shared.history.note(who, || "starts".to_owned());
    let hook = Arc::new(Hook {
        shared: shared.clone(),
        replica,
        life,
    });
    let chance = all.seed ^ ((replica as u64 + 1) << 48) ^ (u64::from(life) << 32);
    let may_stop = shared.faults.iter().any(|fault| fault.stops().is_some());
    let env = Env {
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
    let Some(server) = shared.server() else {
        return;
    };
    let service = ApiService::new(server.clone())
        .as_user(User::admin())
        .with_view(view)
        .with_line(line)
        .with_faults(hook);
    let transport = EmbeddedTransport::new(service).with_trees(all.trees);
    let transport: Arc<dyn Transport> = Arc::new(transport);
    #[cfg(feature = "wrong")]
    let (env, transport) = all.with_mistake(env, transport);
    let client = Client::new(transport, env.clock.clone());
    let (shared, hosts, all) = (shared.clone(), hosts.clone(), all.clone());
    let task = tokio::spawn({
        let shared = shared.clone();
        async move {
            let then = match live(&shared, env, client, &hosts, who, &all).await {
                Err(why) => {
                    shared.history.note(who, || format!("cannot start: {why}"));
                    START_AGAIN
                }
                Ok(()) => shared.replicas().get(replica).map_or(0, |state| state.then),
            };
            shared.kill(replica, life, then, false);
        }
    });
    if let Some(state) = shared.replicas().get_mut(replica) {
        state.tasks = vec![task.abort_handle()];
    }
}

/// The whole life. It ends when it cannot begin, or when the replica is asked to stop.
async fn live(
    shared: &Arc<Shared>,
    env: Env,
    client: Client,
    hosts: &MemoryDialer,
    who: Who,
    all: &Life,
) -> Result<(), String> {
    let replica = who.replica().unwrap_or_default();
    // Those who share the work have a Service each.
    let shard = all.shards.get(replica).cloned();
    let host = match shard {
        Some(_) => format!("storage-{replica}"),
        None => "storage".to_owned(),
    };
    let storage = StorageOptions {
        advertised: host.clone(),
        ..StorageOptions::default()
    };
    let storage = Storage::open(&env, storage)
        .await
        .map_err(|error| error.to_string())?;
    let metrics = Metrics::new();
    let mut options = match &all.repository {
        Some(repository) => everflow_local::world::options(&repository.plan),
        None => Options::default(),
    };
    #[cfg(feature = "wrong")]
    if all.mistake == Some(crate::Mistake::DriftForgotten) {
        options.kustomize.watch_applied = false;
    }
    let selector = shard.unwrap_or_default();
    options.runtime.watch_label_selector = selector.clone();
    if all.repository.is_some() {
        // A repository leads to no other cluster.
        options.kustomize.remote_clusters = RemoteClusters::Refused;
    }
    let setup = Setup {
        env: env.clone(),
        client: client.clone(),
        options,
        admission: Some(Arc::new(EmbeddedAdmission)),
        storage: storage.clone(),
        log: Logger::silent(env.clock.clone()),
        metrics: metrics.clone(),
    };
    let sink = (!all.notifies).then_some("http://sink/");
    let (mut recorder, event_sender) =
        recorder(&env, &client, &metrics, sink, "sim").map_err(|error| error.to_string())?;
    let mut dispatcher = None;
    if all.notifies {
        let (sink, made) = notify::dispatcher(&setup, recorder.clone(), shared, who, all.elected);
        recorder = recorder.with_sink(sink);
        dispatcher = Some(made);
    }
    let stand_ins = all
        .repository
        .as_ref()
        .map(|repository| Arc::new(repository.plan.stand_ins.clone()));
    let noted = |inner: Arc<dyn Controller>| -> Arc<dyn Controller> {
        let inner: Arc<dyn Controller> = match stand_ins.clone() {
            Some(stand_ins) if inner.resource().group == group::SOURCE => Arc::new(StandIn {
                inner,
                stand_ins,
                storage: storage.clone(),
            }),
            Some(_) if inner.resource().kind == "HelmRelease" => {
                Arc::new(SkippedReleases { inner })
            }
            _ => inner,
        };
        #[cfg(feature = "wrong")]
        let inner = all.mistaken(inner);
        Arc::new(Noted {
            inner,
            shared: shared.clone(),
            who,
        })
    };
    let mut builder = setup.builder(&all.kinds());
    if all.repository.is_some() {
        for controller in everflow_local::world::unsupported() {
            builder = builder.controller(controller, |_| false);
        }
    }
    let engine = builder.wrap(noted).build(recorder);
    let (stop, hand_over) = (Signal::new(), Signal::new());
    let (last_words, mut sending) = (Signal::new(), JoinSet::new());
    if let Some(dispatcher) = dispatcher {
        sending.spawn(dispatcher.run(last_words.clone()));
    }
    let webhooks = notify::webhooks(&setup, &engine.handle());
    if let Some(state) = shared.replicas().get_mut(replica) {
        state.handle = Some(engine.handle());
        state.stop = Some(stop.clone());
    }
    // Everything dies with this set.
    let mut tasks = JoinSet::new();
    tasks.spawn(event_sender.run());
    let files = FileServer::new(&env, ServerLimits::default());
    let mut leadership = None;
    let mut elections = JoinSet::new();
    if all.elected {
        let mut lease =
            LeaseOptions::new("flux-system", manager::SOURCE, &selector, identity(replica));
        lease.release = true;
        let election = Election::new(env.clone(), client, lease);
        leadership = Some(election.leadership());
        let hand_over = hand_over.clone();
        elections.spawn(election.run(hand_over));
    }
    let hosts_of_calls = hosts.clone();
    let (hosts, mut leads) = (hosts.clone(), leadership.clone());
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
    if let Some(webhooks) = webhooks {
        tasks.spawn(notify::serve(webhooks, hosts_of_calls, replica));
    }
    engine.run(leadership, stop).await;
    // As in the program: the Lease goes after the last attempt, and artifacts are served to the end.
    hand_over.raise();
    while elections.join_next().await.is_some() {}
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
