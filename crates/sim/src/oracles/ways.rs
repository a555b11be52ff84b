//! With another way to the API servers known that works, no Lease is lost.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Commit, Finding, lately_restored};
use crate::plan::Fault;
use crate::shared::Shared;
use crate::ways::{CLUSTER_IP, Condition};

/// Answers that take so long are none to who must renew in time.
const TOO_SLOW: u64 = 1_000;

/// When each replica has last renewed a Lease.
#[derive(Debug)]
pub struct Ways {
    names: Vec<String>,
    deadline: Duration,
    replicas: usize,
    renewed: BTreeMap<usize, Duration>,
}

impl Ways {
    /// For replicas that know the Service and further ways, and must renew within a span.
    pub fn new(further: &[String], deadline: Duration, replicas: usize) -> Self {
        let names = std::iter::once(CLUSTER_IP).chain(further.iter().map(String::as_str));
        Ways {
            names: names.map(str::to_owned).collect(),
            deadline,
            replicas,
            renewed: BTreeMap::new(),
        }
    }

    /// Remembers who renews.
    pub(super) fn note(&mut self, commit: &Commit<'_>) {
        if commit.table == "coordination.k8s.io/leases"
            && commit.late.is_none()
            && let Some(replica) = commit.who.replica()
        {
            self.renewed.insert(replica, commit.at);
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, shared: &Shared) -> Vec<Finding> {
        let at = shared.history.now();
        if lately_restored(shared, at) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for replica in 0..self.replicas {
            let since = shared.untroubled_but_for_ways_since(replica);
            let renewed = self.renewed.get(&replica).copied();
            let (Some(since), Some(renewed)) = (since, renewed) else {
                continue;
            };
            // Who has only begun, or had other troubles, is not judged.
            if since > renewed || at.saturating_sub(renewed) <= self.deadline {
                continue;
            }
            let mut names = self.names.iter();
            if let Some(name) = names.find(|name| works(shared, replica, name, renewed)) {
                let text = format!(
                    "replica {replica} has renewed no Lease for {:.1}s, and {name} works all the time",
                    at.saturating_sub(renewed).as_secs_f64()
                );
                self.renewed.insert(replica, at);
                found.push(Finding {
                    oracle: "no lease is lost while one way works",
                    at,
                    text,
                });
            }
        }
        found
    }
}

/// Whether a way of a replica has worked since a moment.
fn works(shared: &Shared, replica: usize, name: &str, since: Duration) -> bool {
    let now = shared.history.now();
    !shared.faults.iter().any(|fault| match fault {
        Fault::Weather {
            replica: whose,
            from,
            lasts,
            what,
        } => {
            let bad = match what.of_way(name) {
                None | Some(Condition::Well) => false,
                Some(Condition::Slow(millis)) => millis >= TOO_SLOW,
                Some(_) => true,
            };
            let (begins, ends) = (*from, from + lasts);
            *whose == replica
                && bad
                && Duration::from_millis(begins) <= now
                && Duration::from_millis(ends) >= since
        }
        _ => false,
    })
}
