//! Every object that lives has a next attempt, and no object is attempted without end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use everflow_env::Clock as _;
use everflow_runtime::attempt::Next;
use everflow_runtime::queue::Key;

use super::Finding;
use crate::history::Actor;
use crate::shared::Shared;

/// More attempts of one object than this...
const MANY: usize = 60;
/// ...within so long are a loop.
const SPAN: Duration = Duration::from_secs(10);

/// However an attempt ends, the next one is no later than this. Nobody has longer intervals.
const FAR: Duration = Duration::from_secs(8 * 86_400);

/// Whether the next attempt is within reach.
pub(super) fn next(at: Duration, who: Actor, key: &Key, next: &Next) -> Vec<Finding> {
    let span = match next {
        Next::At(span) => *span,
        Next::When { no_later_than, .. } => *no_later_than,
        Next::Retry { at_least, .. } => *at_least,
        Next::RetryOrWhen { .. } => Duration::ZERO,
    };
    if span <= FAR {
        return Vec::new();
    }
    let text = format!("{who} will look at {key} only after {span:?}");
    vec![Finding {
        oracle: "no orphan",
        at,
        text,
    }]
}

/// What is remembered of the queues.
#[derive(Debug, Default)]
pub struct Queues {
    orphans: BTreeSet<(usize, String)>,
    /// The lives of replicas, and how often their queues had changed when nothing was wrong with them.
    sound: BTreeMap<usize, (u32, u64)>,
    attempts: BTreeMap<(usize, Key), VecDeque<Duration>>,
}

impl Queues {
    pub(super) fn died(&mut self, replica: usize) {
        self.orphans.retain(|(whose, _)| *whose != replica);
        self.attempts.retain(|(whose, _), _| *whose != replica);
    }

    pub(super) fn attempt(&mut self, now: Duration, who: Actor, key: &Key) -> Vec<Finding> {
        let Some(replica) = who.replica() else {
            return Vec::new();
        };
        let times = self.attempts.entry((replica, key.clone())).or_default();
        times.push_back(now);
        while times.front().is_some_and(|first| now - *first > SPAN) {
            times.pop_front();
        }
        if times.len() <= MANY {
            return Vec::new();
        }
        times.clear();
        let text = format!("{who} attempts {key} more than {MANY} times within {SPAN:?}");
        vec![Finding {
            oracle: "no loop",
            at: now,
            text,
        }]
    }

    pub(super) fn tick(&mut self, shared: &Shared) -> Vec<Finding> {
        let handles: Vec<_> = shared
            .replicas()
            .iter()
            .enumerate()
            .filter(|(_, replica)| replica.alive)
            .filter_map(|(index, replica)| {
                let handle = replica.handle.clone()?;
                let known = (replica.life, handle.changes());
                // What has not changed is as sound as it was.
                (self.sound.get(&index) != Some(&known)).then(|| {
                    let elapsed = replica.clock.elapsed();
                    (index, handle, elapsed, known)
                })
            })
            .collect();
        let mut found = Vec::new();
        let mut now = BTreeSet::new();
        let at = shared.history.now();
        for (index, handle, elapsed, known) in handles {
            let (orphans, flaws) = handle.orphans();
            let last = handle.last_timer().unwrap_or_default();
            // Where every sleeper has its timer, the last one speaks for all.
            if !flaws.is_empty() || last.saturating_sub(elapsed) > FAR {
                let keys = self.attempts.keys();
                for (_, key) in keys.filter(|(whose, _)| *whose == index) {
                    let until = handle.sleeping_until(key).unwrap_or_default();
                    let span = until.saturating_sub(elapsed);
                    found.extend(next(at, Actor::Replica(index, 0), key, &Next::At(span)));
                }
            }
            if orphans.is_empty() && flaws.is_empty() {
                self.sound.insert(index, known);
            }
            for flaw in flaws {
                found.push(Finding {
                    oracle: "no orphan",
                    at,
                    text: format!("the queue of replica {index} is broken: {flaw:?}"),
                });
            }
            for orphan in orphans {
                let orphan = (index, orphan.to_string());
                // A change that the store has told may take a moment to be taken in.
                if self.orphans.contains(&orphan) {
                    let text = format!("{} has no next attempt in replica {index}", orphan.1);
                    found.push(Finding {
                        oracle: "no orphan",
                        at,
                        text,
                    });
                }
                now.insert(orphan);
            }
        }
        self.orphans = now;
        found
    }
}
