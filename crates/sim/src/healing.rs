//! The end of a run: nothing goes wrong any more, and all must be well again.

use std::time::Duration;

use crate::history::Actor;
use crate::oracles::world::{differences, failures, unmet};
use crate::oracles::{self, Finding};
use crate::plan::{EventFate, Fault};
use crate::run::{Baseline, LOOK, World};

/// Within so long after the last fault everything must be well.
const WITHIN: Duration = Duration::from_secs(120);
/// A watch that lost an event without noticing compares with the server within this.
const RESYNC: Duration = Duration::from_secs(12 * 60);
/// Within so long what is no longer needed is collected.
const COLLECTED: Duration = Duration::from_secs(240);
/// How long it must be quiet in the end.
const QUIET: Duration = Duration::from_secs(3_600);
/// How long in most runs: long enough for everything to be looked at once more, at its interval and by the watches. An
/// hour takes more than half of all the work, and one run of eight has it.
const MOSTLY_QUIET: Duration = Duration::from_secs(660);

impl World<'_> {
    /// Nothing goes wrong any more.
    pub(crate) fn heal(&self) {
        self.shared.state().healed = true;
        for state in self.shared.replicas().iter() {
            state.view.catch_up();
        }
        self.shared.history.note(Actor::Fault, || {
            "from here on nothing goes wrong".to_owned()
        });
    }

    /// Whether a watch may have missed something without noticing.
    fn events_were_lost(&self) -> bool {
        self.shared.faults.iter().any(|fault| {
            let fate = match fault {
                Fault::Event { fate, .. } => fate,
                _ => return false,
            };
            matches!(fate, EventFate::Lost | EventFate::Behind(_))
        })
    }

    fn patience(&self) -> Duration {
        let said = self.scenario.within.map_or(WITHIN, Duration::from_secs);
        let lost = self.events_were_lost();
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
        let stops = self.shared.faults.iter().filter_map(Fault::stops).max();
        let stops = Duration::from_millis(stops.unwrap_or_default());
        takeover + stops + if lost { RESYNC.max(said) } else { said }
    }

    /// Waits until all is as it should be; a finding when it takes too long.
    pub(crate) async fn get_well(&self, calm: Option<&Baseline>) -> Duration {
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
                wrong = differences(&calm.world, &self.picture());
            }
            let now = self.shared.history.now();
            let all_alive = self
                .shared
                .replicas()
                .iter()
                .all(|state| state.alive || state.gone);
            let (to_do, last_deed) = {
                let state = self.shared.state();
                (state.to_do, state.last_deed)
            };
            // Users who wait for an object have all the time that a lost event takes.
            let deadline = match to_do {
                0 => began.max(last_deed) + self.patience(),
                _ => began + RESYNC,
            };
            let untold = self.shared.untold();
            if wrong.is_empty() && untold.is_empty() && all_alive && to_do == 0 {
                self.judge_end();
                return now - began;
            }
            if now >= deadline {
                let patience = self.patience().as_secs();
                let (oracle, wrong) = match wrong.is_empty() && !untold.is_empty() {
                    true => ("alerts arrive", &untold),
                    false => ("convergence", &wrong),
                };
                self.shared.ask(|_| {
                    vec![Finding {
                        oracle,
                        at: now,
                        text: format!("{patience}s after the last fault: {}", wrong.join("\n  ")),
                    }]
                });
                return now - began;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Looks at what must be true on the way, unless chance has its hand in it.
    pub(crate) fn look_meanwhile(&self, calm: Option<&Baseline>) {
        if calm.is_none() || !self.plan.faults.is_empty() {
            return;
        }
        for one in self.scenario.meanwhile.clone() {
            let (shared, server) = (self.shared.clone(), self.server.clone());
            tokio::spawn(async move {
                let at = Duration::from_secs(one.at);
                tokio::time::sleep(at.saturating_sub(shared.history.now())).await;
                let text = unmet(&server, &one.expect).join("\n  ");
                let finding = Finding {
                    oracle: "meanwhile",
                    at,
                    text,
                };
                if !finding.text.is_empty() {
                    shared.ask(|_| vec![finding]);
                }
            });
        }
    }

    fn judge_end(&self) {
        let at = self.shared.history.now();
        self.shared.ask(|_| oracles::debris(&self.shared));
        self.shared.ask(|_| oracles::at_the_end(&self.shared));
        let alone = self.plan.faults.is_empty();
        self.shared
            .ask(|oracles| oracles.news.at_the_end(at, alone));
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

    /// Where nothing changes, nothing is written. Only those who keep failing say so again and again.
    pub(crate) async fn stay_quiet(&self) {
        // Old artifacts are kept for a minute and then collected, which is told. Who has missed an event of an object
        // tells about it when the watch has compared.
        let compared = match self.events_were_lost() {
            true => RESYNC,
            false => Duration::ZERO,
        };
        tokio::time::sleep(compared + COLLECTED).await;
        let counts = || {
            let state = self.shared.state();
            (state.writes, state.told)
        };
        let (writes, told) = counts();
        let span = match self.plan.seed.is_multiple_of(8) {
            true => QUIET,
            false => MOSTLY_QUIET,
        };
        tokio::time::sleep(span).await;
        let now = self.shared.history.now();
        self.shared
            .ask(|oracles| oracles.news.at_the_end(now, false));
        let (writes, told) = (counts().0 - writes, counts().1 - told);
        let failures = failures(&self.server);
        // Who keeps finding objects unhealthy says so once in each round, with the time of it in the history.
        let unhealthy = failures.iter().any(|reason| reason == "HealthCheckFailed");
        let allowed = if unhealthy { told } else { 0 };
        if writes <= allowed && (told == 0 || !failures.is_empty()) {
            return;
        }
        let at = self.shared.history.now();
        let text = format!("{writes} writes and {told} events in {span:?} without a change");
        self.shared.ask(|_| {
            vec![Finding {
                oracle: "quiet",
                at,
                text,
            }]
        });
    }
}
