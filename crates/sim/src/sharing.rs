//! Replicas that share the work, in a scenario and in a run.

use std::time::Duration;

use everflow_api::names::manager;
use everflow_runtime::lease::LeaseOptions;
use everflow_runtime::shards::{MOST_SHARDS, shard_lease};
use serde::Deserialize;

use crate::history::Actor;
use crate::run::World;
use crate::scenario::Reference;
use crate::{replica, rescue, served};

/// The namespace of the Leases.
pub const NAMESPACE: &str = "flux-system";
/// What the laptop of a rescue is called.
const LAPTOP: &str = "rescue-laptop";

/// How the work is shared.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sharing {
    /// Into how many shards.
    pub shards: usize,
    /// For how many seconds a Lease holds.
    #[serde(default = "duration")]
    pub duration: u64,
    /// After how many seconds without a renewal its holder stops.
    #[serde(default = "deadline")]
    pub deadline: u64,
    /// Every how many seconds it is renewed.
    #[serde(default = "period")]
    pub period: u64,
    /// Replicas that come later.
    #[serde(default)]
    pub joins: Vec<Join>,
    /// Somebody delivers from a laptop.
    #[serde(default)]
    pub rescue: Option<Rescue>,
}

/// A replica that comes later.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// Which.
    pub replica: usize,
    /// When, in seconds.
    pub at: u64,
}

/// What is delivered from a laptop, and when.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rescue {
    /// When, in seconds.
    pub at: u64,
    /// What, with what it needs; everything when it is empty.
    #[serde(default)]
    pub objects: Vec<Reference>,
}

fn duration() -> u64 {
    19
}

fn deadline() -> u64 {
    15
}

fn period() -> u64 {
    3
}

impl Sharing {
    /// What is wrong with it.
    pub fn flaw(&self, replicas: usize) -> Option<String> {
        if !(2..=MOST_SHARDS).contains(&self.shards) {
            return Some(format!(
                "sharing: shards must be between 2 and {MOST_SHARDS}"
            ));
        }
        if self.joins.iter().any(|join| join.replica >= replicas) {
            return Some("sharing: joins: there is no such replica".to_owned());
        }
        let wrong = self.lease(String::new()).check().err();
        wrong.map(|error| format!("sharing: {error}"))
    }

    /// The times of the Leases, for one who takes part.
    pub fn lease(&self, identity: String) -> LeaseOptions {
        LeaseOptions {
            duration: Duration::from_secs(self.duration),
            renew_deadline: Duration::from_secs(self.deadline),
            retry_period: Duration::from_secs(self.period),
            ..LeaseOptions::new(NAMESPACE, manager::SOURCE, "", identity)
        }
    }

    /// The key of a shard's Lease.
    pub fn key(&self, shard: usize) -> String {
        let base = self.lease(String::new()).name;
        format!("{NAMESPACE}/{}", shard_lease(&base, shard, self.shards))
    }

    /// When a replica starts, in seconds.
    pub fn starts(&self, replica: usize) -> u64 {
        let join = self.joins.iter().find(|join| join.replica == replica);
        join.map_or(0, |join| join.at)
    }

    /// When the last of those who come later comes, in seconds.
    pub fn last(&self) -> u64 {
        let joins = self.joins.iter().map(|join| join.at);
        let rescue = self.rescue.iter().map(|rescue| rescue.at);
        joins.chain(rescue).max().unwrap_or_default()
    }
}

/// The name of one who shares the work: another one in each life, as Pods have it. Whoever comes after the replicas is
/// the laptop.
pub fn identity(who: Actor, replicas: usize) -> String {
    match who {
        Actor::Replica(index, life) if index >= replicas => format!("{LAPTOP}_{life}"),
        Actor::Replica(index, life) => format!("replica-{index}_{life}"),
        _ => String::new(),
    }
}

/// The replica of such a name.
pub fn replica_of(identity: &str, replicas: usize) -> Option<usize> {
    let (name, _) = identity.rsplit_once('_')?;
    match name.strip_prefix("replica-") {
        Some(index) => index.parse().ok(),
        None => (name == LAPTOP).then_some(replicas),
    }
}

impl World<'_> {
    /// Starts those who share the work, each at its moment, and lets people fetch artifacts from them.
    pub(crate) fn begin_sharing(&self, sharing: &Sharing) {
        let replicas = self.scenario.replicas;
        served::balance(&self.dialer, replicas);
        let fetching = served::fetch_for_ever(self.shared.clone(), self.dialer.clone(), replicas);
        tokio::spawn(fetching);
        for index in 0..replicas {
            let (shared, dialer, life) = (self.shared.clone(), self.dialer.clone(), self.life());
            match sharing.starts(index) {
                0 => replica::start(&shared, &dialer, index, &life),
                at => drop(tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(at)).await;
                    replica::start(&shared, &dialer, index, &life);
                })),
            }
        }
        if let Some(rescue) = sharing.rescue.clone() {
            let (shared, dialer, life) = (self.shared.clone(), self.dialer.clone(), self.life());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(rescue.at)).await;
                rescue::start(&shared, &dialer, &life, &rescue);
            });
        }
    }
}
