//! What all parts of a world share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use everflow_cluster::ApiServer;
use everflow_cluster::faults::{Line, View};
use everflow_env::MemoryDisk;
use everflow_runtime::Signal;
use everflow_runtime::engine::Handle;
use smol_str::SmolStr;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;

use crate::clock::WrongClock;
use crate::history::{Actor, History};
use crate::oracles::{Finding, Oracles};
use crate::plan::{Fault, Millis, RequestClass, Weather};
use crate::scenario::UserOperation;

/// More requests and connections of one replica than this...
const MOST_REQUESTS: u64 = 5_000;
/// ...within so long are a loop.
const RATE_SPAN: Duration = Duration::from_secs(10);

/// What the world does about a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// It is dead; it starts again after a while.
    Restart(usize, Millis),
}

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doing {
    /// Who asks.
    pub who: Actor,
    /// Its path, which is taken apart only when something is written.
    pub path: SmolStr,
    /// When it was sent, if it is done so late that its client does not wait any more.
    pub late: Option<Duration>,
}

/// One replica, as the world has it.
#[derive(Debug)]
pub struct ReplicaState {
    /// Which of its lives it is.
    pub life: u32,
    /// Whether it runs.
    pub alive: bool,
    /// Its connection to the API.
    pub line: Arc<Line>,
    /// The API server that it talks to.
    pub view: Arc<View>,
    /// Its clock.
    pub clock: Arc<WrongClock>,
    /// Its files.
    pub files: MemoryDisk,
    /// What runs of it.
    pub tasks: Vec<AbortHandle>,
    /// A view of its engine.
    pub handle: Option<Handle>,
    /// Asks it to stop, while it runs.
    pub stop: Option<Signal>,
    /// How long after an orderly end it starts again.
    pub then: Millis,
    /// Whether it will not come back.
    pub gone: bool,
    /// When its life began.
    pub started: Duration,
    /// Until when something was wrong with it, weather aside.
    pub troubled: Duration,
    /// Until when it has been down or without its files: what a status names may not be served meanwhile.
    pub excused: Duration,
}

impl ReplicaState {
    /// One that does not run yet.
    pub fn new(clock: WrongClock) -> Self {
        ReplicaState {
            life: 0,
            alive: false,
            line: Arc::new(Line::new()),
            view: Arc::new(View::new()),
            clock: Arc::new(clock),
            files: MemoryDisk::new(),
            tasks: Vec::new(),
            handle: None,
            stop: None,
            gone: false,
            started: Duration::ZERO,
            troubled: Duration::ZERO,
            then: 0,
            excused: Duration::ZERO,
        }
    }
}

/// What changes in the course of a run.
#[derive(Debug, Default)]
pub struct State {
    /// Requests so far, by replica.
    pub requests: BTreeMap<(usize, RequestClass), u64>,
    /// Events so far, by replica and kind.
    pub events: BTreeMap<usize, BTreeMap<String, u64>>,
    /// Connections so far, by host.
    pub connections: BTreeMap<String, u64>,
    /// Changes on disk so far, by replica.
    pub changes: BTreeMap<usize, u64>,
    /// The request that is handled right now.
    pub doing: Option<Doing>,
    /// Requests that go wrong after they were handled, by address.
    pub afterwards: BTreeMap<usize, crate::plan::Fate>,
    /// Requests that are still to be done: when, which, and when they were sent.
    pub landing: Vec<(Duration, String, Duration)>,
    /// What users have done: when, which repetition, and what.
    pub performed: Vec<(Duration, u32, UserOperation)>,
    /// When the cluster was last restored from a backup.
    pub restored: Option<Duration>,
    /// How often a fault of each class had an effect.
    pub hits: BTreeMap<&'static str, u64>,
    /// When a fault last had an effect.
    pub last_hit: Duration,
    /// Attempts made.
    pub attempts: u64,
    /// Writes of replicas that changed something, Leases and Events aside.
    pub writes: u64,
    /// Events that replicas wrote.
    pub told: u64,
    /// Writes that came while conflicts were in the air.
    pub conflicts: u64,
    /// How many actions users have begun.
    pub deeds: usize,
    /// How many are still to be taken.
    pub to_do: usize,
    /// When the last one was taken.
    pub last_deed: Duration,
    /// States of the world seen, as fingerprints.
    pub fingerprints: BTreeSet<u64>,
    /// The fingerprints of objects, and their sum.
    pub objects: BTreeMap<String, u64>,
    /// The sum of the fingerprints of all objects.
    pub sum: u64,
    /// Whether faults are over.
    pub healed: bool,
    /// The revision after each write, with its moment.
    pub revisions: Vec<(Duration, u64)>,
    /// Requests and connections of each replica since a moment.
    pub rates: BTreeMap<usize, (Duration, u64)>,
}

impl State {
    /// Counts an event of a kind that a replica hears of.
    pub fn count_event(&mut self, replica: usize, kind: &str) -> u64 {
        let counts = self.events.entry(replica).or_default();
        if let Some(count) = counts.get_mut(kind) {
            *count += 1;
            return *count;
        }
        counts.insert(kind.to_owned(), 1);
        1
    }

    /// Events so far, by replica and kind.
    pub fn heard(&self) -> BTreeMap<(usize, String), u64> {
        let replicas = self.events.iter();
        let counts = replicas.flat_map(|(replica, counts)| {
            let counts = counts.iter();
            counts.map(|(kind, count)| ((*replica, kind.clone()), *count))
        });
        counts.collect()
    }

    /// The newest revision at a moment; 0 before the first write.
    pub fn revision_at(&self, moment: Duration) -> u64 {
        let written = self.revisions.partition_point(|(at, _)| *at <= moment);
        let last = written.checked_sub(1).and_then(|at| self.revisions.get(at));
        last.map_or(0, |(_, revision)| *revision)
    }
}

/// What all parts of a world share.
#[derive(Debug)]
pub struct Shared {
    /// What happened.
    pub history: History,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Who tells the world what to do.
    pub commands: mpsc::UnboundedSender<Command>,
    /// Told when something was found.
    pub over: Notify,
    server: OnceLock<ApiServer>,
    state: Mutex<State>,
    replicas: Mutex<Vec<ReplicaState>>,
    oracles: Mutex<Oracles>,
}

impl Shared {
    /// Nothing has happened yet.
    pub fn new(
        history: History,
        faults: Vec<Fault>,
        oracles: Oracles,
        replicas: Vec<ReplicaState>,
        commands: mpsc::UnboundedSender<Command>,
    ) -> Self {
        Shared {
            history,
            faults,
            commands,
            over: Notify::new(),
            server: OnceLock::new(),
            state: Mutex::default(),
            replicas: Mutex::new(replicas),
            oracles: Mutex::new(oracles),
        }
    }

    /// Sets the server, once.
    pub fn set_server(&self, server: ApiServer) {
        let _ = self.server.set(server);
    }

    /// The server, once there is one.
    pub fn server(&self) -> Option<&ApiServer> {
        self.server.get()
    }

    /// What changes.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The replicas.
    pub fn replicas(&self) -> MutexGuard<'_, Vec<ReplicaState>> {
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the oracles; what they object to is a finding.
    pub fn ask(&self, question: impl FnOnce(&mut Oracles) -> Vec<Finding>) {
        let mut oracles = self.oracles.lock().unwrap_or_else(PoisonError::into_inner);
        let found = question(&mut oracles);
        for finding in found {
            self.history.note(Actor::Fault, || {
                format!("WRONG ({}): {}", finding.oracle, finding.text)
            });
            oracles.findings.push(finding);
            self.over.notify_one();
        }
    }

    /// The end: the engines, which hold this world by their clients, are let go of, or neither would ever be freed.
    pub fn part(&self) {
        for state in self.replicas().iter_mut() {
            state.handle = None;
        }
    }

    /// What was found so far.
    pub fn findings(&self) -> Vec<Finding> {
        let oracles = self.oracles.lock().unwrap_or_else(PoisonError::into_inner);
        oracles.findings.clone()
    }

    /// What was to be notified and is not yet, in words.
    pub fn untold(&self) -> Vec<String> {
        let oracles = self.oracles.lock().unwrap_or_else(PoisonError::into_inner);
        oracles.news.untold(self.history.now())
    }

    /// Whether something was found.
    pub fn found(&self) -> bool {
        let oracles = self.oracles.lock().unwrap_or_else(PoisonError::into_inner);
        !oracles.findings.is_empty()
    }

    /// The moment in milliseconds.
    pub fn millis(&self) -> Millis {
        u64::try_from(self.history.now().as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes that a fault had an effect.
    pub fn hit(&self, class: &'static str, what: impl FnOnce() -> String) {
        let now = self.history.now();
        let mut state = self.state();
        *state.hits.entry(class).or_default() += 1;
        state.last_hit = state.last_hit.max(now);
        drop(state);
        self.history.note(Actor::Fault, what);
    }

    /// The weather of a replica now: what lasts, and for how much longer.
    pub fn weather(&self, replica: usize) -> Vec<(&Fault, &Weather, Millis)> {
        if self.state().healed {
            return Vec::new();
        }
        let now = self.millis();
        let weather = self.faults.iter().filter_map(|fault| match fault {
            Fault::Weather {
                replica: whose,
                from,
                lasts,
                what,
            } if *whose == replica && (*from..from + lasts).contains(&now) => {
                Some((fault, what, from + lasts - now))
            }
            _ => None,
        });
        weather.collect()
    }

    /// Notes that something is wrong with a replica for so long.
    pub fn trouble(&self, replica: usize, span: Millis) {
        let until = self.history.now() + Duration::from_millis(span);
        if let Some(state) = self.replicas().get_mut(replica) {
            state.troubled = state.troubled.max(until);
        }
    }

    /// When the life of a replica began, if it lives.
    pub fn started(&self, replica: usize) -> Option<Duration> {
        let replicas = self.replicas();
        let state = replicas.get(replica).filter(|state| state.alive)?;
        Some(state.started)
    }

    /// Since when a replica lives and nothing is wrong with it.
    pub fn untroubled_since(&self, replica: usize) -> Option<Duration> {
        self.well_since(replica, |_| true)
    }

    /// The same, whatever became of single ways to the API servers.
    pub fn untroubled_but_for_ways_since(&self, replica: usize) -> Option<Duration> {
        self.well_since(replica, |what| !what.is_of_a_way())
    }

    fn well_since(&self, replica: usize, counts: fn(&Weather) -> bool) -> Option<Duration> {
        let now = self.history.now();
        let since = {
            let replicas = self.replicas();
            let state = replicas.get(replica).filter(|state| state.alive)?;
            state.started.max(state.troubled)
        };
        let moment = self.millis();
        let weather = self.faults.iter().filter_map(|fault| match fault {
            Fault::Weather {
                replica: whose,
                from,
                what,
                ..
            } if *whose == replica && counts(what) && *from <= moment => Some(fault.ends()),
            _ => None,
        });
        let ended = Duration::from_millis(weather.max().unwrap_or_default());
        Some(since.max(ended)).filter(|since| *since <= now)
    }

    /// Counts what a replica asks of others, so that a loop in which no time passes is found, too.
    pub fn count(&self, replica: usize) {
        let now = self.history.now();
        let mut state = self.state();
        let (since, count) = state.rates.entry(replica).or_default();
        if now - *since > RATE_SPAN {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        if *count != MOST_REQUESTS {
            return;
        }
        drop(state);
        let text =
            format!("replica {replica} asks more than {MOST_REQUESTS} times within {RATE_SPAN:?}");
        self.ask(|_| {
            vec![Finding {
                oracle: "no loop",
                at: now,
                text,
            }]
        });
    }

    /// For how much longer a replica stands still.
    pub fn stopped(&self, replica: usize) -> Option<Duration> {
        self.replicas().get(replica)?.clock.stopped()
    }

    /// Whether a life of a replica still lasts.
    pub fn lives(&self, replica: usize, life: u32) -> bool {
        let replicas = self.replicas();
        replicas
            .get(replica)
            .is_some_and(|replica| replica.alive && replica.life == life)
    }

    /// A replica dies here and now: nothing it still does counts.
    pub fn kill(&self, replica: usize, life: u32, down: Millis, wiped: bool) {
        let now = self.history.now();
        {
            let mut replicas = self.replicas();
            let Some(state) = replicas.get_mut(replica) else {
                return;
            };
            if !state.alive || state.life != life {
                return;
            }
            state.alive = false;
            state.line.cut();
            match wiped {
                true => state.files = MemoryDisk::new(),
                false => state.files.crash(),
            }
            if wiped {
                state.excused = now + Duration::from_millis(down + 120_000);
            }
            state.handle = None;
            state.stop = None;
        }
        let who = Actor::Replica(replica, life);
        self.history.note(who, || match wiped {
            true => "dies, and its disk is lost".to_owned(),
            false => "dies".to_owned(),
        });
        self.ask(|oracles| oracles.died(self, replica, wiped));
        let _ = self.commands.send(Command::Restart(replica, down));
    }
}
