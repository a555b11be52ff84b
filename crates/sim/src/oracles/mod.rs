//! What must hold in every run. Each rule is a module; all are always on.

mod artifacts;
mod debris;
mod deletes;
mod epoch;
mod fields;
mod inventory;
pub(crate) mod news;
mod queue;
mod releases;
mod shards;
mod status;
mod ways;
pub mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use everflow_api::view::condition;
use everflow_json::Value;
use everflow_runtime::attempt::Next;
use everflow_runtime::queue::Key;

use crate::disk::Change;
use crate::history::Actor;
use crate::scenario::Scenario;
use crate::shared::Shared;

pub(crate) use debris::debris;
pub use deletes::Deletions;
pub(crate) use releases::at_the_end;

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule that is broken.
    pub oracle: &'static str,
    /// When.
    pub at: Duration,
    /// What is wrong.
    pub text: String,
}

/// One write to the store.
#[derive(Debug)]
pub struct Commit<'a> {
    /// When.
    pub at: Duration,
    /// Who wrote.
    pub who: Actor,
    /// The subresource it was written through.
    pub part: &'a str,
    /// When it was sent, if its client does not wait for it any more.
    pub late: Option<Duration>,
    /// Which table.
    pub table: &'a str,
    /// Which key.
    pub key: &'a str,
    /// The object now; none when it is gone.
    pub new: Option<&'a Value>,
    /// The object before; none when it is new.
    pub old: Option<&'a Value>,
}

impl Commit<'_> {
    /// Whether it is an object that only tells: an Event or a Lease.
    pub fn is_talk(&self) -> bool {
        self.table.ends_with("/events")
            || self.table == "coordination.k8s.io/leases"
            || news::is_talk(self)
    }

    /// Whether it is one of Flux's kinds.
    pub fn is_flux(&self) -> bool {
        is_flux(self.table)
    }

    fn finding(&self, oracle: &'static str, text: String) -> Finding {
        Finding {
            oracle,
            at: self.at,
            text,
        }
    }

    /// The object in words.
    pub fn name(&self) -> String {
        let plural = self.table.rsplit('/').next().unwrap_or_default();
        format!("{plural} {}", self.key)
    }
}

/// Whether a table holds objects of Flux's kinds.
pub fn is_flux(table: &str) -> bool {
    table.contains(".toolkit.fluxcd.io/")
}

impl fmt::Display for Commit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match (self.old, self.new) {
            (None, _) => "creates",
            (Some(_), Some(_)) if self.part == "status" => "writes the status of",
            (Some(_), Some(_)) => "changes",
            (Some(_), None) => "removes",
        };
        write!(f, "{verb} {}", self.name())?;
        if let Some(sent) = self.late {
            write!(
                f,
                " by a request that was sent at {:.3}s",
                sent.as_secs_f64()
            )?;
        }
        let Some(new) = self.new.filter(|_| self.is_flux()) else {
            return Ok(());
        };
        let generation = &new["metadata"]["generation"];
        write!(f, " [generation {generation}")?;
        if let Some(observed) = new.pointer("/status/observedGeneration") {
            write!(f, ", observed {observed}")?;
        }
        if let Some(ready) = condition(new, "Ready") {
            let text = |field: &str| ready[field].as_str().unwrap_or_default();
            write!(
                f,
                ", Ready={} {}: {:?}",
                text("status"),
                text("reason"),
                text("message")
            )?;
        }
        for (what, pointer) in [
            ("artifact", "/status/artifact/revision"),
            ("applied", "/status/lastAppliedRevision"),
        ] {
            if let Some(revision) = new.pointer(pointer).and_then(Value::as_str) {
                write!(f, ", {what} {revision}")?;
            }
        }
        if let Some(entries) = new
            .pointer("/status/inventory/entries")
            .and_then(Value::as_array)
        {
            write!(f, ", inventory of {}", entries.len())?;
        }
        if !new["metadata"]["deletionTimestamp"].is_null() {
            write!(f, ", being deleted")?;
        }
        write!(f, "]")
    }
}

/// All rules with what they remember.
#[derive(Debug, Default)]
pub struct Oracles {
    /// What was found.
    pub findings: Vec<Finding>,
    /// What was deleted, and what may be.
    pub deletions: Deletions,
    status: status::Writes,
    artifacts: artifacts::Artifacts,
    queue: queue::Queues,
    inventory: inventory::Inventories,
    leases: epoch::Leases,
    releases: releases::Releases,
    shards: Option<shards::Shards>,
    ways: Option<ways::Ways>,
    /// What was to be notified, and what was.
    pub(crate) news: news::News,
    /// How many replicas there are.
    replicas: usize,
}

impl Oracles {
    /// For so many replicas. `allowed` are the deletions of the run without faults; none when this is it.
    pub fn new(replicas: usize, allowed: Option<BTreeMap<(String, String), usize>>) -> Self {
        Oracles {
            deletions: Deletions::new(allowed),
            replicas,
            ..Oracles::default()
        }
    }

    /// The same for replicas that share the work.
    pub fn sharing(mut self, scenario: &Scenario) -> Self {
        let sharing = scenario.sharing.as_ref();
        self.shards = sharing.map(|sharing| shards::Shards::new(sharing, scenario.replicas));
        // Who shares the work renews Leases at all times.
        self.ways = sharing
            .filter(|_| !scenario.ways.is_empty())
            .map(|sharing| {
                let deadline = Duration::from_secs(sharing.deadline);
                ways::Ways::new(&scenario.ways, deadline, scenario.replicas)
            });
        self
    }

    /// A write has happened.
    pub fn commit(&mut self, shared: &Shared, commit: &Commit<'_>) -> Vec<Finding> {
        let mut found = Vec::new();
        if commit.is_flux() {
            note_state(shared, commit);
        }
        self.inventory.note(commit);
        self.leases.note(commit);
        if let Some(shards) = &mut self.shards {
            shards.note(shared, commit);
        }
        if let Some(ways) = &mut self.ways {
            ways.note(commit);
        }
        self.news.commit(commit);
        found.extend(self.releases.commit(shared, commit));
        let Some(replica) = commit.who.replica() else {
            return found;
        };
        if commit.is_talk() {
            if commit.table.ends_with("/events") {
                shared.state().told += 1;
            }
            return found;
        }
        shared.state().writes += 1;
        if !releases::is_of_release(commit) {
            found.extend(self.deletions.commit(shared, commit));
        }
        found.extend(self.inventory.commit(shared, commit));
        found.extend(fields::commit(commit));
        found.extend(self.status.commit(shared, commit));
        found.extend(self.artifacts.commit(shared, commit, replica));
        if let Some(shards) = &self.shards {
            found.extend(shards.commit(shared, commit));
        }
        if self.replicas > 1 && !news::asks(commit) {
            found.extend(self.leases.commit(shared, commit, replica));
        }
        found
    }

    /// An attempt begins.
    pub fn attempt(
        &mut self,
        shared: &Shared,
        who: Actor,
        key: &Key,
        object: &Value,
    ) -> Vec<Finding> {
        shared.state().attempts += 1;
        self.status.attempt(who, key);
        self.releases.attempt(who, key, object);
        if let Some(shards) = &mut self.shards {
            shards.attempt(who, key);
        }
        self.queue.attempt(shared.history.now(), who, key)
    }

    /// An attempt has ended.
    pub fn next(&mut self, shared: &Shared, who: Actor, key: &Key, next: &Next) -> Vec<Finding> {
        queue::next(shared.history.now(), who, key, next)
    }

    /// Something has changed on a disk.
    pub fn disk(&mut self, shared: &Shared, replica: usize, change: Change<'_>) -> Vec<Finding> {
        self.news.disk(shared, replica, change);
        self.artifacts.disk(shared, replica, change)
    }

    /// A replica has died.
    pub fn died(&mut self, shared: &Shared, replica: usize, wiped: bool) -> Vec<Finding> {
        self.queue.died(replica);
        self.news.died(shared, replica, wiped);
        self.artifacts.died(shared, replica, wiped)
    }

    /// Time has passed.
    pub fn tick(&mut self, shared: &Shared) -> Vec<Finding> {
        let mut found = self.queue.tick(shared);
        if let Some(shards) = &mut self.shards {
            found.extend(shards.tick(shared));
        }
        if let Some(ways) = &mut self.ways {
            found.extend(ways.tick(shared));
        }
        found
    }
}

/// For so long after the cluster was restored from a backup nobody can know what had been before.
const RESTORED: Duration = Duration::from_secs(180);

/// Whether the cluster was restored from a backup a short while ago.
fn lately_restored(shared: &Shared, at: Duration) -> bool {
    let restored = shared.state().restored;
    restored.is_some_and(|when| at.saturating_sub(when) < RESTORED)
}

/// Remembers which state of the world this is.
fn note_state(shared: &Shared, commit: &Commit<'_>) {
    let mut state = shared.state();
    let name = format!("{}/{}", commit.table, commit.key);
    let print = commit.new.map_or(0, |object| fingerprint(&name, object));
    let before = state.objects.insert(name, print).unwrap_or_default();
    state.sum = state.sum.wrapping_sub(before).wrapping_add(print);
    let sum = state.sum;
    state.fingerprints.insert(sum);
}

/// What matters of an object of Flux, as a number.
fn fingerprint(name: &str, object: &Value) -> u64 {
    let mut hash = Fnv::default();
    hash.add(name);
    let observed = object["status"]["observedGeneration"] == object["metadata"]["generation"];
    hash.add(if observed { "seen" } else { "unseen" });
    hash.add(&object["metadata"]["generation"].to_string());
    hash.add(if object["metadata"]["deletionTimestamp"].is_null() {
        ""
    } else {
        "going"
    });
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    for condition in conditions.into_iter().flatten() {
        for field in ["type", "status", "reason"] {
            hash.add(condition[field].as_str().unwrap_or_default());
        }
    }
    for pointer in ["/status/artifact/revision", "/status/lastAppliedRevision"] {
        hash.add(
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default(),
        );
    }
    let entries = object
        .pointer("/status/inventory/entries")
        .and_then(Value::as_array);
    hash.add(&entries.map_or(0, Vec::len).to_string());
    hash.0
}

/// The hash of Fowler, Noll and Vo: the same on every machine.
pub(crate) struct Fnv(pub(crate) u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    pub(crate) fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
