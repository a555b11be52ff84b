//! One run: a world is made, goes wrong, heals, and is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use everflow_cluster::auth::User;
use everflow_cluster::faults::{Line, View};
use everflow_cluster::{ApiServer, ApiService};
use everflow_env::{MemoryDialer, MemoryDisk, Random as _, SeededRandom, SimulatedClock};
use everflow_local::stand_in::StandIns;
use everflow_runtime::client::Client;
use everflow_runtime::transport::{EmbeddedTransport, ServerWorld};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::clock::WrongClock;
use crate::history::{History, Who};
use crate::hooks::{Observer, UserHook};
use crate::oracles::world::{World as Picture, differences, picture, unmet};
use crate::oracles::{self, Finding, Oracles};
use crate::plan::{Asked, EventFate, Fault, Millis, Plan, Weather};
use crate::scenario::{Deed, Scenario};
use crate::shared::{Command, ReplicaState, Shared};
use crate::{Error, cluster, replica, users};

/// Within so long after the last fault everything must be well.
const WITHIN: Duration = Duration::from_secs(120);
/// A watch that lost an event without noticing compares with the server within this.
const RESYNC: Duration = Duration::from_secs(12 * 60);
/// How long it must be quiet in the end.
const QUIET: Duration = Duration::from_secs(3_600);
/// When a user comes again who found something missing.
const AGAIN: Duration = Duration::from_secs(1);
/// How often it is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How a run is made.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Whether the history is kept.
    pub trace: bool,
    /// Whether the quiet hour at the end is left out.
    pub no_quiet: bool,
    /// Directories that stand for sources.
    pub stand_ins: Option<Arc<StandIns>>,
    /// A behaviour that is wrong on purpose.
    #[cfg(feature = "wrong")]
    pub wrong: Option<everflow_env::Wrong>,
}

/// What was counted in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Attempts made by the controllers.
    pub attempts: u64,
    /// Requests by replica and kind.
    pub requests: BTreeMap<(usize, Asked), u64>,
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
    deletions: BTreeMap<(String, String), usize>,
}

/// What a scenario comes to without faults: the measure of all runs with them.
#[derive(Debug, Clone)]
pub struct Calm {
    /// What the world comes to.
    pub world: Picture,
    /// What may be deleted.
    deletions: BTreeMap<(String, String), usize>,
    /// How much there is of everything.
    pub stats: Stats,
}

/// Runs a scenario without faults.
///
/// # Errors
/// The scenario cannot be set up, or does not end as it says.
pub fn calm(scenario: &Scenario, settings: &Settings) -> Result<Calm, Error> {
    let mut peaceful = scenario.clone();
    peaceful.faults.clear();
    let outcome = run(&peaceful, &Plan::calm(0), None, settings)?;
    if let Some(finding) = outcome.findings.first() {
        return Err(Error::Calm {
            scenario: scenario.name.clone(),
            why: format!("{}: {}", finding.oracle, finding.text),
        });
    }
    Ok(Calm {
        world: outcome.world,
        deletions: outcome.deletions,
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
    calm: Option<&Calm>,
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
    calm: Option<&Calm>,
    settings: &Settings,
) -> Result<Outcome, Error> {
    let world = World::new(scenario, plan, calm, settings);
    world.begin().await?;
    world.let_users_act();
    world.go_wrong().await;
    world.heal();
    let healed_after = world.get_well(calm).await;
    if !world.shared.found() && scenario.quiet && !settings.no_quiet {
        world.stay_quiet().await;
    }
    Ok(world.outcome(healed_after))
}

struct World<'a> {
    scenario: &'a Scenario,
    plan: &'a Plan,
    shared: Arc<Shared>,
    server: ApiServer,
    client: Client,
    hosts: users::Hosts,
    dialer: MemoryDialer,
    /// The newest revision before anything happened.
    since: u64,
    stand_ins: Option<Arc<StandIns>>,
}

impl<'a> World<'a> {
    fn new(
        scenario: &'a Scenario,
        plan: &'a Plan,
        calm: Option<&Calm>,
        settings: &Settings,
    ) -> Self {
        let start = Instant::now();
        let chance = SeededRandom::new(plan.seed);
        let mut replicas = Vec::new();
        for index in 0..scenario.replicas {
            // Clocks of machines differ by up to half a minute and by up to 100 millionths in speed.
            let offset = (chance.next() % 60_001) as i64 - 30_000;
            let drift = (chance.next() % 201) as i64 - 100;
            let (offset, drift) = match calm {
                Some(_) if index > 0 || plan.seed.is_multiple_of(3) => (offset, drift),
                _ => (0, 0),
            };
            let clock = WrongClock::new(start, offset, drift);
            #[cfg(feature = "wrong")]
            let clock = clock.with_wrong(settings.wrong);
            replicas.push(ReplicaState {
                life: 0,
                alive: false,
                line: Arc::new(Line::new()),
                view: Arc::new(View::new()),
                clock: Arc::new(clock),
                files: MemoryDisk::new(),
                tasks: Vec::new(),
                handle: None,
                excused: Duration::ZERO,
            });
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
            Oracles::new(scenario.replicas, allowed),
            replicas,
            commands,
        ));
        let clock = Arc::new(SimulatedClock::new());
        let server_world =
            ServerWorld::new(clock.clone(), Arc::new(SeededRandom::new(plan.seed ^ 7)));
        let observer = Arc::new(Observer(Arc::downgrade(&shared)));
        let server = cluster::base().fork(Arc::new(server_world), Some(observer));
        let since = server.store().revision();
        shared.set_server(server.clone());
        let service = ApiService::new(server.clone())
            .as_user(User::admin())
            .with_faults(Arc::new(UserHook(shared.clone())));
        let client = Client::new(Arc::new(EmbeddedTransport::new(service)), clock);
        let dialer = MemoryDialer::new();
        let hosts = users::Hosts::new(scenario, &dialer);
        let world = World {
            scenario,
            plan,
            shared,
            server,
            client,
            hosts,
            dialer,
            since,
            stand_ins: settings.stand_ins.clone(),
        };
        world.supervise(inbox);
        world
    }

    /// Starts replicas again that have died.
    fn supervise(&self, mut inbox: mpsc::UnboundedReceiver<Command>) {
        let (shared, dialer) = (self.shared.clone(), self.dialer.clone());
        let life = self.life();
        tokio::spawn(async move {
            while let Some(command) = inbox.recv().await {
                let (index, down) = replica::subject(command);
                replica::bury(&shared, index);
                let (shared, dialer, life) = (shared.clone(), dialer.clone(), life.clone());
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
    fn life(&self) -> replica::Life {
        replica::Life {
            seed: self.plan.seed,
            elected: self.scenario.replicas > 1,
            stand_ins: self.stand_ins.clone(),
        }
    }

    async fn begin(&self) -> Result<(), Error> {
        for index in 0..self.scenario.replicas {
            replica::start(&self.shared, &self.dialer, index, &self.life());
        }
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
        faults.max(lasts).max(actions) + 1_000
    }

    /// Lets users act, one deed after the other, each no sooner than its moment. Who finds an object missing comes again.
    fn let_users_act(&self) {
        let deeds: Vec<(Millis, u32, Deed)> = self
            .scenario
            .deeds()
            .into_iter()
            .map(|(at, number, deed)| (at + self.plan.later, number, deed.clone()))
            .collect();
        self.shared.state().to_do = deeds.len();
        let (shared, hosts, client) =
            (self.shared.clone(), self.hosts.clone(), self.client.clone());
        tokio::spawn(async move {
            for (at, number, deed) in deeds {
                let now = shared.millis();
                tokio::time::sleep(Duration::from_millis(at.saturating_sub(now))).await;
                // What follows from it may happen while it is still being told.
                shared.state().deeds += 1;
                loop {
                    let done = users::act(&hosts, &client, &deed, number).await;
                    let missing = matches!(&done, Err((_, why)) if why.contains("not found"));
                    shared.history.note(Who::User, || match done {
                        Ok(what) => what,
                        Err((what, why)) => format!("{what}: {why}"),
                    });
                    if !missing {
                        break;
                    }
                    tokio::time::sleep(AGAIN).await;
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
        }
        let mut turns: Vec<(Millis, Turn<'_>)> = Vec::new();
        for fault in &self.shared.faults {
            match fault {
                Fault::Weather { from, lasts, .. } => {
                    turns.push((*from, Turn::Begin(fault)));
                    turns.push((from + lasts, Turn::End(fault)));
                }
                Fault::Crash { at, .. } | Fault::Jump { at, .. } => {
                    turns.push((*at, Turn::Begin(fault)));
                }
                _ => {}
            }
        }
        turns.sort_by_key(|(at, _)| *at);
        for (at, turn) in turns {
            self.sleep_until(at).await;
            if self.shared.found() {
                return;
            }
            match turn {
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

    fn begin_fault(&self, fault: &Fault) {
        match fault {
            Fault::Weather { replica, what, .. } => {
                self.shared
                    .history
                    .note(Who::Fault, || format!("replica {replica}: {what:?} begins"));
                if *what == Weather::ApiDown
                    && let Some(state) = self.shared.replicas().get(*replica)
                    && state.alive
                {
                    // What is open breaks; what comes is judged one by one.
                    state.line.cut();
                    state.line.mend();
                }
                if *what == Weather::ViewHeld {
                    let view = self
                        .shared
                        .replicas()
                        .get(*replica)
                        .map(|state| state.view.clone());
                    if let Some(view) = view {
                        view.hold_at(self.server.store().revision());
                        self.shared
                            .hit(fault.class(), || "the view is held".to_owned());
                    }
                }
            }
            Fault::Crash {
                replica,
                down,
                wiped,
                ..
            } => {
                let life = self.shared.replicas().get(*replica).map(|state| state.life);
                if let Some(life) = life.filter(|life| self.shared.lives(*replica, *life)) {
                    self.shared
                        .hit(fault.class(), || format!("replica {replica} dies"));
                    self.shared.kill(*replica, life, *down, *wiped);
                }
            }
            Fault::Jump {
                replica, seconds, ..
            } => {
                if let Some(state) = self.shared.replicas().get(*replica) {
                    state.clock.jump(seconds * 1_000);
                }
                self.shared.hit(fault.class(), || {
                    format!("the clock of replica {replica} jumps {seconds}s")
                });
            }
            _ => {}
        }
    }

    fn end_fault(&self, fault: &Fault) {
        if let Fault::Weather { replica, what, .. } = fault {
            self.shared
                .history
                .note(Who::Fault, || format!("replica {replica}: {what:?} ends"));
            if let Some(state) = self.shared.replicas().get(*replica)
                && *what == Weather::ViewHeld
            {
                state.view.catch_up();
            }
            let now = self.shared.history.now();
            let mut state = self.shared.state();
            state.last_hit = state.last_hit.max(now);
        }
    }

    /// Nothing goes wrong any more.
    fn heal(&self) {
        self.shared.state().healed = true;
        for state in self.shared.replicas().iter() {
            state.view.catch_up();
        }
        self.shared
            .history
            .note(Who::Fault, || "from here on nothing goes wrong".to_owned());
    }

    fn patience(&self) -> Duration {
        let said = self.scenario.within.map_or(WITHIN, Duration::from_secs);
        let lost = self.shared.faults.iter().any(|fault| {
            let fate = match fault {
                Fault::Event { fate, .. } => fate,
                _ => return false,
            };
            matches!(fate, EventFate::Lost | EventFate::Behind(_))
        });
        let crash = self
            .shared
            .faults
            .iter()
            .any(|fault| fault.class().starts_with("crash"));
        // A Lease must run out before another replica takes over.
        let takeover = match crash && self.scenario.replicas > 1 {
            true => Duration::from_secs(45),
            false => Duration::ZERO,
        };
        takeover + if lost { RESYNC.max(said) } else { said }
    }

    /// Waits until all is as it should be; a finding when it takes too long.
    async fn get_well(&self, calm: Option<&Calm>) -> Duration {
        let began = self.shared.history.now();
        let Some(calm) = calm else {
            // This run is the measure: it has all the time.
            tokio::time::sleep(WITHIN).await;
            self.judge_end();
            return Duration::ZERO;
        };
        let mut revision = 0;
        let mut wrong = Vec::new();
        loop {
            if self.shared.found() {
                return Duration::ZERO;
            }
            let newest = self.server.store().revision();
            if newest != revision {
                revision = newest;
                wrong = differences(&calm.world, &picture(&self.server, self.since));
            }
            let now = self.shared.history.now();
            let all_alive = self.shared.replicas().iter().all(|state| state.alive);
            let (to_do, last_deed) = {
                let state = self.shared.state();
                (state.to_do, state.last_deed)
            };
            // Users who wait for an object have all the time that a lost event takes.
            let deadline = match to_do {
                0 => began.max(last_deed) + self.patience(),
                _ => began + RESYNC,
            };
            if wrong.is_empty() && all_alive && to_do == 0 {
                self.judge_end();
                return now - began;
            }
            if now >= deadline {
                let patience = self.patience().as_secs();
                self.shared.ask(|_| {
                    vec![Finding {
                        oracle: "convergence",
                        at: now,
                        text: format!("{patience}s after the last fault: {}", wrong.join("\n  ")),
                    }]
                });
                return now - began;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn judge_end(&self) {
        let at = self.shared.history.now();
        self.shared.ask(|_| oracles::debris(&self.shared));
        let unmet = unmet(&self.server, &self.scenario.expect);
        if !unmet.is_empty() {
            self.shared.ask(|_| {
                vec![Finding {
                    oracle: "expectation",
                    at,
                    text: unmet.join("\n  "),
                }]
            });
        }
    }

    /// Where nothing changes, nothing is written.
    async fn stay_quiet(&self) {
        // Old artifacts are kept for a minute and then collected, which is told.
        tokio::time::sleep(Duration::from_secs(240)).await;
        let (writes, told) = {
            let state = self.shared.state();
            (state.writes, state.told)
        };
        tokio::time::sleep(QUIET).await;
        let (now_writes, now_told) = {
            let state = self.shared.state();
            (state.writes, state.told)
        };
        if (now_writes, now_told) != (writes, told) {
            let at = self.shared.history.now();
            let text = format!(
                "{} writes and {} events in an hour without a change",
                now_writes - writes,
                now_told - told
            );
            self.shared.ask(|_| {
                vec![Finding {
                    oracle: "quiet",
                    at,
                    text,
                }]
            });
        }
    }

    fn outcome(&self, healed_after: Duration) -> Outcome {
        let world = picture(&self.server, self.since);
        let mut deletions = BTreeMap::new();
        self.shared.ask(|oracles| {
            deletions = oracles.deletions.seen.clone();
            Vec::new()
        });
        let state = self.shared.state();
        let stats = Stats {
            attempts: state.attempts,
            requests: state.requests.clone(),
            events: state.events.clone(),
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
            deletions,
        }
    }
}
