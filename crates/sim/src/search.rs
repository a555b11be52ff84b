//! Looks for plans under which something goes wrong for good.
//!
//! Three ways: plans by chance, one for each seed; plans near those that led to states never seen before; and, for one
//! scenario, every crash and every delay there can be, one after the other and in pairs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::chance::{Chance, Profile};
use crate::oracles::Finding;
use crate::plan::{DiskFate, EventFate, Fate, Fault, Millis, Plan, RequestClass};
use crate::run::{Baseline, Outcome, Settings, run};
use crate::scenario::Scenario;
use crate::{Error, calm};

/// Scenarios with at most so many effects have all pairs of crashes tried.
const SMALL: u64 = 14;
/// Longer than a leader may stand still without losing the Lease.
const LEASE_LOST: Millis = 60_000;
/// So many plans that led to new states are kept to find others near them.
const KEPT: usize = 512;

/// A scenario that is ready to be run many times.
#[derive(Debug, Clone)]
pub struct Ready {
    /// The scenario.
    pub scenario: Scenario,
    /// Its run without faults.
    pub calm: Baseline,
    /// How runs are made.
    pub settings: Settings,
}

impl Ready {
    /// Runs it once without faults.
    ///
    /// # Errors
    /// It cannot be set up, or does not end as it says even without faults.
    pub fn new(scenario: Scenario, settings: Settings) -> Result<Self, Error> {
        let calm = calm(&scenario, &settings)?;
        Ok(Ready {
            scenario,
            calm,
            settings,
        })
    }

    fn profile(&self) -> Profile<'_> {
        Profile {
            scenario: &self.scenario,
            stats: &self.calm.stats,
        }
    }

    /// The plan of a seed.
    pub fn plan(&self, seed: u64) -> Plan {
        match self.scenario.chance {
            true => self.profile().plan(seed),
            false => Plan::calm(seed),
        }
    }

    /// Runs a plan.
    ///
    /// # Errors
    /// The scenario cannot be set up.
    pub fn run(&self, plan: &Plan) -> Result<Outcome, Error> {
        run(&self.scenario, plan, Some(&self.calm), &self.settings)
    }

    /// Runs a plan and keeps its history.
    ///
    /// # Errors
    /// The scenario cannot be set up.
    pub fn run_traced(&self, plan: &Plan) -> Result<Outcome, Error> {
        let settings = Settings {
            trace: true,
            ..self.settings.clone()
        };
        run(&self.scenario, plan, Some(&self.calm), &settings)
    }

    /// Every single thing that can go wrong at every boundary: crashes before and after each effect, each request lost and
    /// late, each event late. For small scenarios every pair of crashes as well.
    pub fn systematic(&self) -> Vec<Plan> {
        let plan = |faults: Vec<Fault>| Plan {
            seed: 1,
            later: 0,
            faults,
        };
        let mut plans = Vec::new();
        let mut crashes = Vec::new();
        let stats = &self.calm.stats;
        // Where others wait for it, the Lease is lost when the leader stands still.
        let is_elected = self.scenario.replicas > 1 && self.scenario.shards.is_empty();
        let lost: &[Fate] = match is_elected {
            true => &[Fate::Stops(LEASE_LOST)],
            false => &[],
        };
        for ((replica, asked), count) in &stats.requests {
            let fates: &[Fate] = match asked {
                RequestClass::Write => &[
                    Fate::DiesBefore(1_000),
                    Fate::DiesAfter(1_000),
                    Fate::LostAfter,
                    Fate::FailsAfter,
                    Fate::Conflicts,
                ],
                RequestClass::Any => &[Fate::Late(4_000), Fate::FailsBefore],
                RequestClass::List | RequestClass::Watch => &[Fate::LostBefore],
                _ => continue,
            };
            for nth in 1..=*count {
                for fate in fates
                    .iter()
                    .chain(lost.iter().filter(|_| *asked == RequestClass::Write))
                {
                    let fault = Fault::Request {
                        replica: *replica,
                        asked: *asked,
                        nth,
                        fate: *fate,
                    };
                    if matches!(fate, Fate::DiesBefore(_) | Fate::DiesAfter(_)) {
                        crashes.push(fault.clone());
                    }
                    plans.push(plan(vec![fault]));
                }
            }
        }
        for (replica, count) in &stats.changes {
            for nth in 1..=*count {
                for fate in [
                    DiskFate::DiesBefore(1_000),
                    DiskFate::DiesAfter(1_000),
                    DiskFate::Fails,
                ] {
                    let fault = Fault::Disk {
                        replica: *replica,
                        nth,
                        fate,
                    };
                    plans.push(plan(vec![fault]));
                }
            }
        }
        for ((replica, kind), count) in &stats.events {
            if kind.is_empty() {
                continue;
            }
            for nth in 1..=*count {
                for fate in [EventFate::Late(5_000), EventFate::Ends] {
                    let fault = Fault::Event {
                        replica: *replica,
                        kind: kind.clone(),
                        nth,
                        fate,
                    };
                    plans.push(plan(vec![fault]));
                }
            }
        }
        if crashes.len() as u64 <= SMALL * 2 {
            for (at, one) in crashes.iter().enumerate() {
                for two in &crashes[at + 1..] {
                    plans.push(plan(vec![one.clone(), two.clone()]));
                }
            }
        }
        plans
    }
}

/// What was done in a search.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Runs made.
    pub runs: u64,
    /// Attempts of the controllers in them.
    pub attempts: u64,
    /// Time that passed in the worlds.
    pub simulated: Duration,
    /// Different states of the world seen.
    pub states: BTreeSet<u64>,
    /// How often faults of each class had an effect.
    pub hits: BTreeMap<&'static str, u64>,
    /// The longest it took to be well after the last fault.
    pub slowest: Duration,
}

impl Tally {
    /// Adds a run; says whether it led to a state that was never seen.
    pub fn add(&mut self, outcome: &Outcome) -> bool {
        self.runs += 1;
        self.attempts += outcome.stats.attempts;
        self.simulated += outcome.stats.simulated;
        self.slowest = self.slowest.max(outcome.stats.healed_after);
        for (class, count) in &outcome.stats.hits {
            *self.hits.entry(class).or_default() += count;
        }
        let before = self.states.len();
        self.states.extend(outcome.stats.states.iter().copied());
        self.states.len() > before
    }
}

/// A plan under which something is wrong.
#[derive(Debug, Clone)]
pub struct Bad {
    /// Which scenario, by its place in the list.
    pub scenario: usize,
    /// The seed, when the plan follows from it.
    pub seed: Option<u64>,
    /// The plan.
    pub plan: Plan,
    /// What is wrong.
    pub finding: Finding,
}

/// Where the plans of a search come from.
#[derive(Debug, Clone)]
pub enum Plans {
    /// One for each seed.
    Seeds(std::ops::Range<u64>),
    /// Near plans that led to new states, without end.
    Guided(u64),
    /// Every boundary of every scenario.
    Systematic,
}

struct Search<'a> {
    scenarios: &'a [Ready],
    list: Vec<(usize, Option<u64>, Plan)>,
    plans: &'a Plans,
    next: AtomicU64,
    over: AtomicBool,
    tally: Mutex<Tally>,
    bad: Mutex<Vec<Bad>>,
    /// After so many findings it is enough.
    most: usize,
    /// Plans that led to new states.
    kept: Mutex<Vec<(usize, Plan)>>,
}

/// Searches until `most` plans were found under which something is wrong, the plans are used up or `go_on` says no.
///
/// # Errors
/// A scenario cannot be set up.
pub fn search(
    scenarios: &[Ready],
    plans: &Plans,
    jobs: usize,
    most: usize,
    go_on: &(dyn Fn(&Tally) -> bool + Sync),
) -> Result<(Tally, Vec<Bad>), Error> {
    let list = match plans {
        Plans::Systematic => {
            let all = scenarios.iter().enumerate();
            all.flat_map(|(at, ready)| {
                ready
                    .systematic()
                    .into_iter()
                    .map(move |plan| (at, None, plan))
            })
            .collect()
        }
        _ => Vec::new(),
    };
    let search = Search {
        scenarios,
        list,
        plans,
        next: AtomicU64::new(match plans {
            Plans::Seeds(seeds) => seeds.start,
            Plans::Guided(from) => *from,
            Plans::Systematic => 0,
        }),
        over: AtomicBool::new(scenarios.is_empty()),
        tally: Mutex::default(),
        bad: Mutex::default(),
        most,
        kept: Mutex::default(),
    };
    // Who works alone has no other thread beside: memory is had for less where nobody else asks for any.
    let mut failed = Ok(());
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..jobs.max(1))
            .map(|_| scope.spawn(|| search.work(go_on)))
            .collect();
        failed = search.work(go_on);
        for worker in others {
            if let Ok(Err(error)) = worker.join() {
                failed = Err(error);
            }
        }
    });
    failed?;
    let tally = search
        .tally
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let mut bad = search
        .bad
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    // Which of several workers comes first is chance.
    bad.sort_by_key(|bad| (bad.seed, bad.scenario));
    Ok((tally, bad))
}

impl Search<'_> {
    fn work(&self, go_on: &(dyn Fn(&Tally) -> bool + Sync)) -> Result<(), Error> {
        while !self.over.load(Ordering::SeqCst) {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            let Some((at, seed, plan)) = self.plan(number) else {
                return Ok(());
            };
            let ready = &self.scenarios[at];
            let outcome = ready
                .run(&plan)
                .inspect_err(|_| self.over.store(true, Ordering::SeqCst))?;
            if let Some(finding) = outcome.findings.first() {
                let mut bad = self.bad.lock().unwrap_or_else(PoisonError::into_inner);
                bad.push(Bad {
                    scenario: at,
                    seed,
                    plan: plan.clone(),
                    finding: finding.clone(),
                });
                if bad.len() >= self.most {
                    self.over.store(true, Ordering::SeqCst);
                }
            }
            let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
            if tally.add(&outcome) {
                let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() >= KEPT {
                    let place = usize::try_from(number).unwrap_or_default() % KEPT;
                    kept[place] = (at, plan);
                } else {
                    kept.push((at, plan));
                }
            }
            if !go_on(&tally) {
                self.over.store(true, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    fn plan(&self, number: u64) -> Option<(usize, Option<u64>, Plan)> {
        let count = self.scenarios.len() as u64;
        let at = usize::try_from(number % count.max(1)).unwrap_or_default();
        match self.plans {
            Plans::Seeds(seeds) if number >= seeds.end => None,
            Plans::Seeds(_) => Some((at, Some(number), self.scenarios[at].plan(number))),
            Plans::Systematic => self.list.get(usize::try_from(number).ok()?).cloned(),
            Plans::Guided(_) => {
                let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                let chance = Chance::new(number);
                match chance.one(&kept) {
                    Some((at, plan)) if chance.below(4) > 0 => {
                        let near = self.scenarios[*at].profile().mutated(plan, number);
                        Some((*at, None, near))
                    }
                    _ => Some((at, None, self.scenarios[at].plan(number))),
                }
            }
        }
    }
}
