//! One run: a world is made, goes wrong, heals, and is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use everflow_cluster::auth::User;
use everflow_cluster::{ApiServer, ApiService};
use everflow_embedded::{EmbeddedTransport, ServerWorld};
use everflow_env::{MemoryDialer, Random as _, SeededRandom, SimulatedClock};
use everflow_runtime::client::Client;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::clock::WrongClock;
use crate::history::History;
use crate::hooks::{Observer, UserHook};
use crate::oracles::world::{World as Picture, picture, unmet};
use crate::oracles::{Finding, Oracles};
use crate::plan::{Fault, Millis, Plan, RequestClass};
use crate::repository::{self, Repository};
use crate::scenario::{Action, Scenario};
use crate::shared::{Command, ReplicaState, Shared};
use crate::sharing::Sharing;
use crate::{Error, cluster, notify, replica, users};

/// When a user comes again who found something missing.
const AGAIN: Duration = Duration::from_secs(1);
/// How often it is looked at.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// How a run is made.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Whether the history is kept.
    pub trace: bool,
    /// Whether the quiet hour at the end is left out.
    pub no_quiet: bool,
    /// Whether all sources are asked to look at once after each action, as webhooks do.
    pub webhooks: bool,
    /// Whether objects come from the API server as trees, which takes less time than text and says the same.
    pub trees: bool,
    /// A repository instead of hosts.
    pub repository: Option<Arc<Repository>>,
    /// A mistake that every replica makes.
    #[cfg(feature = "wrong")]
    pub mistake: Option<crate::Mistake>,
}

/// What was counted in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Attempts made by the controllers.
    pub attempts: u64,
    /// Requests by replica and kind.
    pub requests: BTreeMap<(usize, RequestClass), u64>,
    /// Events by replica and kind.
    pub events: BTreeMap<(usize, String), u64>,
    /// Connections by host.
    pub connections: BTreeMap<String, u64>,
    /// Changes on disk by replica.
    pub changes: BTreeMap<usize, u64>,
    /// How often a fault of each class had an effect.
    pub hits: BTreeMap<&'static str, u64>,
    /// The states of the world that were seen.
    pub states: BTreeSet<u64>,
    /// How long it took to be well after the last fault.
    pub healed_after: Duration,
    /// How much time passed in the world.
    pub simulated: Duration,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What must not be.
    pub findings: Vec<Finding>,
    /// What was counted.
    pub stats: Stats,
    /// What happened, when it was kept.
    pub history: Vec<String>,
    /// What the world came to.
    pub world: Picture,
    /// Of a repository: the objects that are not ready, with what they say.
    pub failing: Vec<String>,
    deletions: BTreeMap<(String, String), usize>,
}

/// What a scenario comes to without faults: the measure of all runs with them.
#[derive(Debug, Clone)]
pub struct Baseline {
    /// What the world comes to.
    pub world: Picture,
    /// Of a repository: the objects that are not ready although nothing goes wrong, with what they say.
    pub failing: Vec<String>,
    /// What may be deleted.
    deletions: BTreeMap<(String, String), usize>,
    /// How much there is of everything.
    pub stats: Stats,
}

/// Runs a scenario without faults.
///
/// # Errors
/// The scenario cannot be set up, or does not end as it says.
pub fn calm(scenario: &Scenario, settings: &Settings) -> Result<Baseline, Error> {
    let mut peaceful = scenario.clone();
    peaceful.faults.clear();
    let outcome = run(&peaceful, &Plan::calm(0), None, settings)?;
    if let Some(finding) = outcome.findings.first() {
        return Err(Error::Baseline {
            scenario: scenario.name.clone(),
            why: format!("{}: {}", finding.oracle, finding.text),
        });
    }
    // An action allows what is deleted right after it, when nobody has to wait for an interval.
    let at_once = Settings {
        webhooks: true,
        no_quiet: true,
        trace: false,
        ..settings.clone()
    };
    let mut deletions = outcome.deletions;
    let at_once = run(&peaceful, &Plan::calm(0), None, &at_once)?;
    for (place, needed) in at_once.deletions {
        deletions
            .entry(place)
            .and_modify(|known| *known = needed.min(*known))
            .or_insert(needed);
    }
    Ok(Baseline {
        world: outcome.world,
        failing: outcome.failing,
        deletions,
        stats: outcome.stats,
    })
}

/// Runs a scenario under a plan. Without `calm` the run itself is the measure.
///
/// # Errors
/// The scenario cannot be set up.
pub fn run(
    scenario: &Scenario,
    plan: &Plan,
    calm: Option<&Baseline>,
    settings: &Settings,
) -> Result<Outcome, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(Error::Runtime)?;
    runtime.block_on(run_in(scenario, plan, calm, settings))
}

async fn run_in(
    scenario: &Scenario,
    plan: &Plan,
    calm: Option<&Baseline>,
    settings: &Settings,
) -> Result<Outcome, Error> {
    let world = World::new(scenario, plan, calm, settings)?;
    let healed_after = {
        let mut found = pin!(world.shared.over.notified());
        let mut life = pin!(world.live(calm, settings));
        // What was found ends the run at once: time may not pass any more.
        poll_fn(|context| match found.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Ok(Duration::ZERO)),
            Poll::Pending => life.as_mut().poll(context),
        })
        .await?
    };
    let outcome = world.outcome(healed_after);
    world.shared.part();
    Ok(outcome)
}

/// How many replicas want the same Lease.
fn electing(scenario: &Scenario) -> usize {
    match scenario.shards.is_empty() && scenario.sharing.is_none() {
        true => scenario.replicas,
        false => 1,
    }
}

/// A world while it lasts.
pub(crate) struct World<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) plan: &'a Plan,
    pub(crate) shared: Arc<Shared>,
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    pub(crate) hosts: users::Hosts,
    pub(crate) dialer: MemoryDialer,
    /// The newest revision before anything happened.
    pub(crate) since: u64,
    repository: Option<Arc<Repository>>,
    webhooks: bool,
    trees: bool,
    #[cfg(feature = "wrong")]
    mistake: Option<crate::Mistake>,
}

impl<'a> World<'a> {
    fn new(
        scenario: &'a Scenario,
        plan: &'a Plan,
        calm: Option<&Baseline>,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let chance = SeededRandom::new(plan.seed);
        let mut replicas = Vec::new();
        for index in 0..scenario.processes() {
            // Clocks of machines differ by up to half a minute and by up to 100 millionths in speed.
            let offset = (chance.next() % 60_001) as i64 - 30_000;
            let drift = (chance.next() % 201) as i64 - 100;
            let (offset, drift) = match calm {
                Some(_) if index > 0 || plan.seed.is_multiple_of(3) => (offset, drift),
                _ => (0, 0),
            };
            let clock = WrongClock::new(start, offset, drift);
            #[cfg(feature = "wrong")]
            let clock = clock.with_mistake(settings.mistake);
            replicas.push(ReplicaState::new(clock));
        }
        let (commands, inbox) = mpsc::unbounded_channel();
        let faults = scenario
            .faults
            .iter()
            .chain(&plan.faults)
            .cloned()
            .collect();
        let allowed = calm.map(|calm| calm.deletions.clone());
        let shared = Arc::new(Shared::new(
            History::new(settings.trace),
            faults,
            Oracles::new(electing(scenario), allowed).sharing(scenario),
            replicas,
            commands,
        ));
        let clock = Arc::new(SimulatedClock::new());
        let server_world =
            ServerWorld::new(clock.clone(), Arc::new(SeededRandom::new(plan.seed ^ 7)));
        let observer = Arc::new(Observer(Arc::downgrade(&shared)));
        let (server_world, base) = match &settings.repository {
            Some(repository) => {
                let features = &repository.plan.features;
                (server_world.with_features(features), repository.base()?)
            }
            None => {
                let base = cluster::base(scenario.kinds, scenario.workloads);
                (server_world, base)
            }
        };
        let server = base.fork(Arc::new(server_world), Some(observer));
        let since = server.store().revision();
        shared.set_server(server.clone());
        let service = ApiService::new(server.clone())
            .as_user(User::admin())
            .with_faults(Arc::new(UserHook(shared.clone())));
        let transport = EmbeddedTransport::new(service).with_trees(settings.trees);
        let client = Client::new(Arc::new(transport), clock);
        let dialer = MemoryDialer::new();
        let hosts = users::Hosts::new(scenario, &dialer);
        notify::open(scenario, &shared, &dialer);
        let world = World {
            scenario,
            plan,
            shared,
            server,
            client,
            hosts,
            dialer,
            since,
            repository: settings.repository.clone(),
            webhooks: settings.webhooks,
            trees: settings.trees,
            #[cfg(feature = "wrong")]
            mistake: settings.mistake,
        };
        world.supervise(inbox);
        Ok(world)
    }

    /// From the beginning to the end; how long it took to be well after the last fault.
    async fn live(&self, calm: Option<&Baseline>, settings: &Settings) -> Result<Duration, Error> {
        self.begin().await?;
        self.let_users_act();
        self.look_meanwhile(calm);
        self.go_wrong().await;
        self.heal();
        let healed_after = self.get_well(calm).await;
        if !self.shared.found() && self.scenario.quiet && !settings.no_quiet {
            self.stay_quiet().await;
        }
        Ok(healed_after)
    }

    /// Starts replicas again that have died.
    fn supervise(&self, mut inbox: mpsc::UnboundedReceiver<Command>) {
        let (shared, dialer) = (self.shared.clone(), self.dialer.clone());
        let life = self.life();
        tokio::spawn(async move {
            while let Some(Command::Restart(index, down)) = inbox.recv().await {
                replica::bury(&shared, index);
                let (shared, dialer, life) = (shared.clone(), dialer.clone(), life.clone());
                if index >= life.replicas {
                    // The laptop is there once.
                    if let Some(state) = shared.replicas().get_mut(index) {
                        state.gone = true;
                    }
                    continue;
                }
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(down)).await;
                    replica::start(&shared, &dialer, index, &life);
                });
            }
        });
        let (server, shared) = (self.server.clone(), self.shared.clone());
        tokio::spawn(async move {
            loop {
                let quiet = shared.state().healed && shared.millis() > 600_000;
                tokio::time::sleep(LOOK * if quiet { 30 } else { 1 }).await;
                let now = server.env().now();
                if server.next_due().is_some_and(|due| due <= now) {
                    server.tick();
                }
                shared.ask(|oracles| oracles.tick(&shared));
            }
        });
    }

    /// What all lives of all replicas have in common.
    pub(crate) fn life(&self) -> replica::Life {
        replica::Life {
            seed: self.plan.seed,
            elected: self.scenario.replicas > 1,
            replicas: self.scenario.replicas,
            shards: self.scenario.shards.clone(),
            sharing: self.scenario.sharing.clone(),
            ways: self.scenario.ways.clone(),
            repository: self.repository.clone(),
            releases: self.repository.is_none() && self.scenario.has_releases(),
            notifies: self.repository.is_none() && self.scenario.notifies(),
            trees: self.trees,
            #[cfg(feature = "wrong")]
            mistake: self.mistake,
        }
    }

    async fn begin(&self) -> Result<(), Error> {
        match &self.scenario.sharing {
            Some(sharing) => self.begin_sharing(sharing),
            None => (0..self.scenario.replicas).for_each(|index| {
                replica::start(&self.shared, &self.dialer, index, &self.life());
            }),
        }
        cluster::furnish(&self.server, &self.scenario.stored);
        for object in &self.scenario.objects {
            users::apply(&self.client, object)
                .await
                .map_err(|why| Error::Setup {
                    scenario: self.scenario.name.clone(),
                    what: format!("{} {}", object["kind"], object["metadata"]["name"]),
                    why,
                })?;
        }
        Ok(())
    }

    fn horizon(&self) -> Millis {
        let faults = self
            .shared
            .faults
            .iter()
            .map(Fault::ends)
            .max()
            .unwrap_or_default();
        let lasts = match self.plan.faults.is_empty() {
            true => 0,
            false => self.scenario.lasts * 1_000,
        };
        let actions = self.scenario.last_action() + self.plan.later;
        let joins = self.scenario.sharing.as_ref().map_or(0, Sharing::last) * 1_000;
        faults.max(lasts).max(actions).max(joins) + 1_000
    }

    /// Lets users act, one deed after the other, each no sooner than its moment. Who finds an object missing comes again.
    fn let_users_act(&self) {
        let deeds: Vec<(Millis, u32, Action)> = self
            .scenario
            .deeds()
            .into_iter()
            .map(|(at, number, action)| (at + self.plan.later, number, action.clone()))
            .collect();
        self.shared.state().to_do = deeds.len();
        let (shared, hosts, client) =
            (self.shared.clone(), self.hosts.clone(), self.client.clone());
        let server = self.server.clone();
        let (webhooks, objects) = (self.webhooks, self.scenario.objects.clone());
        tokio::spawn(async move {
            for (at, number, action) in deeds {
                let now = shared.millis();
                tokio::time::sleep(Duration::from_millis(at.saturating_sub(now))).await;
                while !unmet(&server, action.when.as_slice()).is_empty() {
                    tokio::time::sleep(AGAIN).await;
                }
                // What follows from it may happen while it is still being told.
                shared.state().deeds += 1;
                users::perform(&shared, &hosts, &client, &action.deed, number).await;
                shared
                    .state()
                    .performed
                    .push((shared.history.now(), number, action.deed.clone()));
                if webhooks {
                    users::call_webhooks(&client, &objects, number).await;
                }
                let mut state = shared.state();
                state.to_do -= 1;
                state.last_deed = shared.history.now();
            }
        });
    }

    /// Lets things go wrong, each at its moment.
    async fn go_wrong(&self) {
        enum Turn<'d> {
            Begin(&'d Fault),
            End(&'d Fault),
            Backup(Millis),
        }
        let mut turns: Vec<(Millis, Turn<'_>)> = Vec::new();
        for fault in &self.shared.faults {
            match fault {
                Fault::Weather { from, lasts, .. } => {
                    turns.push((*from, Turn::Begin(fault)));
                    turns.push((from + lasts, Turn::End(fault)));
                }
                Fault::Crash { at, .. } | Fault::Stop { at, .. } | Fault::Jump { at, .. } => {
                    turns.push((*at, Turn::Begin(fault)));
                }
                Fault::Restore { at, back } => {
                    turns.push((at.saturating_sub(*back), Turn::Backup(*at)));
                    turns.push((*at, Turn::Begin(fault)));
                }
                _ => {}
            }
        }
        turns.sort_by_key(|(at, _)| *at);
        let mut backups = BTreeMap::new();
        for (at, turn) in turns {
            self.sleep_until(at).await;
            if self.shared.found() {
                return;
            }
            match turn {
                Turn::Backup(for_when) => {
                    backups.insert(for_when, (self.shared.history.now(), self.server.backup()));
                }
                Turn::Begin(fault @ Fault::Restore { at, .. }) => {
                    if let Some((of, backup)) = backups.remove(at) {
                        self.restore(fault, of, &backup);
                    }
                }
                Turn::Begin(fault) => self.begin_fault(fault),
                Turn::End(fault) => self.end_fault(fault),
            }
        }
        self.sleep_until(self.horizon()).await;
    }

    async fn sleep_until(&self, at: Millis) {
        let now = self.shared.millis();
        if at > now {
            tokio::time::sleep(Duration::from_millis(at - now)).await;
        }
    }

    /// What the world has come to.
    pub(crate) fn picture(&self) -> Picture {
        let mut picture = picture(&self.server, self.since);
        if self.repository.is_some() {
            repository::without_words(&mut picture);
        }
        picture
    }

    fn outcome(&self, healed_after: Duration) -> Outcome {
        let world = self.picture();
        let mut deletions = BTreeMap::new();
        self.shared.ask(|oracles| {
            deletions = oracles.deletions.seen.clone();
            Vec::new()
        });
        let state = self.shared.state();
        let stats = Stats {
            attempts: state.attempts,
            requests: state.requests.clone(),
            events: state.heard(),
            connections: state.connections.clone(),
            changes: state.changes.clone(),
            hits: state.hits.clone(),
            states: state.fingerprints.clone(),
            healed_after,
            simulated: self.shared.history.now(),
        };
        drop(state);
        Outcome {
            findings: self.shared.findings(),
            stats,
            history: self.shared.history.lines(),
            world,
            failing: match self.repository.is_some() {
                true => repository::failing(&self.server),
                false => Vec::new(),
            },
            deletions,
        }
    }
}
