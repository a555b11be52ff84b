//! Replicas share the work: what is done about an object is done by who holds its shard, no shard is left alone for
//! longer than a Lease lasts, what waits is taken up by the next holder, and the work is even.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everflow_api::view::condition;
use everflow_json::Value;
use everflow_runtime::queue::Key;
use everflow_runtime::shards::shard_of;

use super::{Commit, Finding, is_flux, lately_restored};
use crate::history::Actor;
use crate::plan::{Fault, Weather};
use crate::shared::Shared;
use crate::sharing::{Sharing, identity, replica_of};

/// For clocks that run fast or slow.
const A_LITTLE: Duration = Duration::from_millis(100);
/// Whoever may take a free shard has done so after this.
const TAKEN: Duration = Duration::from_secs(15);
/// Who is well for so long knows how all stands.
const KNOWS: Duration = Duration::from_secs(38);
/// Who takes a shard up has begun with what is under way in it after this.
const TAKEN_UP: Duration = Duration::from_secs(20);
/// Who has been well for so long is known to be so by all.
const EVEN: Duration = Duration::from_secs(120);
/// Then the work may be uneven for so long: what is under way is finished before it is handed over.
const UNEVEN: Duration = Duration::from_secs(90);
/// Who is slow for so long has handed over.
const HANDED_OVER: Duration = Duration::from_secs(75);
/// Answers that take so long are those of a slow replica: ten times what nobody feels.
const SLOW: u64 = 600;

/// One write of a shard's Lease.
#[derive(Debug)]
struct Entry {
    at: Duration,
    holder: String,
}

/// What was under way when a replica took a shard.
#[derive(Debug)]
struct TakeUp {
    shard: usize,
    holder: String,
    replica: usize,
    at: Duration,
    keys: BTreeSet<Key>,
}

/// What is remembered of the shards.
#[derive(Debug)]
pub struct Shards {
    sharing: Sharing,
    replicas: usize,
    leases: BTreeMap<String, usize>,
    history: Vec<Vec<Entry>>,
    taken_up: Vec<TakeUp>,
    uneven_since: Option<Duration>,
}

impl Shards {
    /// For so many replicas.
    pub fn new(sharing: &Sharing, replicas: usize) -> Self {
        let shards = 0..sharing.shards;
        Shards {
            leases: shards
                .clone()
                .map(|shard| (sharing.key(shard), shard))
                .collect(),
            history: shards.map(|_| Vec::new()).collect(),
            taken_up: Vec::new(),
            uneven_since: None,
            sharing: sharing.clone(),
            replicas,
        }
    }

    /// Remembers who writes a shard's Lease.
    pub(super) fn note(&mut self, shared: &Shared, commit: &Commit<'_>) {
        if commit.table != "coordination.k8s.io/leases" {
            return;
        }
        let Some(shard) = self.leases.get(commit.key).copied() else {
            return;
        };
        let spec = commit.new.map(|lease| &lease["spec"]["holderIdentity"]);
        let holder = spec.and_then(Value::as_str).unwrap_or_default().to_owned();
        let before = self.history[shard]
            .last()
            .map(|entry| entry.holder.as_str());
        if before != Some(holder.as_str())
            && let Some(replica) = replica_of(&holder, self.replicas)
            && replica < self.replicas
        {
            self.taken_up.push(TakeUp {
                shard,
                holder: holder.clone(),
                replica,
                at: commit.at,
                keys: under_way(shared, shard, self.sharing.shards),
            });
        }
        let at = commit.at;
        self.history[shard].push(Entry { at, holder });
    }

    /// What keeps one who writes from doing so for a shard at a moment, when it may do so for `lasts` after a renewal.
    fn flaw(&self, shard: usize, who: Actor, at: Duration, lasts: Duration) -> Option<String> {
        let history = self.history.get(shard)?;
        let known = history.partition_point(|entry| entry.at <= at);
        let last = known.checked_sub(1).and_then(|last| history.get(last));
        let Some(last) = last.filter(|last| !last.holder.is_empty()) else {
            return Some(format!("nobody holds shard {shard}"));
        };
        if last.holder != identity(who, self.replicas) {
            return Some(format!("{} holds shard {shard}", last.holder));
        }
        let age = at.saturating_sub(last.at);
        (age > lasts + A_LITTLE).then(|| {
            format!(
                "shard {shard} was last renewed {:.1}s before",
                age.as_secs_f64()
            )
        })
    }

    /// Whether a write is that of a holder.
    pub(super) fn commit(&self, shared: &Shared, commit: &Commit<'_>) -> Option<Finding> {
        if lately_restored(shared, commit.at) {
            return None;
        }
        let at = commit.late.unwrap_or(commit.at);
        let mut shards = keys_of(commit)
            .iter()
            .map(|key| shard_of(key, self.sharing.shards))
            .collect::<Vec<_>>();
        if shards.is_empty() {
            // Whose it is does not show.
            shards = (0..self.sharing.shards).collect();
        }
        // A process that stands still cannot end what it has sent; nobody has the Lease before it has run out.
        let replica = commit.who.replica().unwrap_or_default();
        let lasts = match shared.stopped(replica) {
            Some(_) => self.sharing.duration,
            None => self.sharing.deadline,
        };
        let mut why = None;
        for shard in shards {
            match self.flaw(shard, commit.who, at, Duration::from_secs(lasts)) {
                None => return None,
                Some(flaw) => why = Some(flaw),
            }
        }
        let text = format!("{} writes {} while {}", commit.who, commit.name(), why?);
        Some(commit.finding("one holder", text))
    }

    /// An attempt begins.
    pub(super) fn attempt(&mut self, who: Actor, key: &Key) {
        let name = identity(who, self.replicas);
        for taken in self
            .taken_up
            .iter_mut()
            .filter(|taken| taken.holder == name)
        {
            taken.keys.remove(key);
        }
    }

    /// Who holds a shard by a Lease that has not run out, and otherwise since when nobody does.
    fn holder(&self, shard: usize, now: Duration) -> Result<&str, Duration> {
        let Some(last) = self.history.get(shard).and_then(|history| history.last()) else {
            return Err(Duration::ZERO);
        };
        let ends = last.at + Duration::from_secs(self.sharing.duration);
        match last.holder.is_empty() {
            true => Err(last.at),
            false if now >= ends => Err(ends),
            false => Ok(&last.holder),
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, shared: &Shared) -> Vec<Finding> {
        let at = shared.history.now();
        if lately_restored(shared, at) {
            self.taken_up.clear();
            return Vec::new();
        }
        let mut found = Vec::new();
        let mut note =
            |oracle: &'static str, text: String| found.push(Finding { oracle, at, text });
        let well: Vec<Option<Duration>> = (0..self.replicas)
            .map(|replica| Some(at.saturating_sub(shared.untroubled_since(replica)?)))
            .collect();
        let longest = well.iter().flatten().max().copied().unwrap_or_default();
        for shard in 0..self.sharing.shards {
            if let Err(since) = self.holder(shard, at)
                && at.saturating_sub(since) > TAKEN
                && longest > KNOWS
            {
                let free = at.saturating_sub(since).as_secs();
                note(
                    "no shard is left alone",
                    format!("nobody holds shard {shard} for {free}s"),
                );
            }
        }
        for text in self.not_taken_up(shared, at, &well) {
            note("no wait is lost", text);
        }
        if let Some(text) = self.uneven(shared, at, &well) {
            note("the work is even", text);
        }
        if let Some(text) = self.slow_holder(shared, at, &well) {
            note("who is slow hands over", text);
        }
        found
    }

    /// What was under way in a shard and is not looked at by its holder.
    fn not_taken_up(
        &mut self,
        shared: &Shared,
        at: Duration,
        well: &[Option<Duration>],
    ) -> Vec<String> {
        let (due, open): (Vec<_>, Vec<_>) = std::mem::take(&mut self.taken_up)
            .into_iter()
            .filter(|taken| self.holder(taken.shard, at) == Ok(taken.holder.as_str()))
            .partition(|taken| at.saturating_sub(taken.at) > TAKEN_UP);
        self.taken_up = open;
        let mut texts = Vec::new();
        for taken in due {
            let was_well =
                well[taken.replica].is_some_and(|span| at.saturating_sub(span) < taken.at);
            let still = under_way(shared, taken.shard, self.sharing.shards);
            for key in taken.keys.intersection(&still).filter(|_| was_well) {
                let text = format!(
                    "{key} was under way when {} took shard {}, which has not looked at it since",
                    taken.holder, taken.shard
                );
                texts.push(text);
            }
        }
        texts
    }

    /// How many shards each replica holds.
    fn held(&self, now: Duration) -> Vec<usize> {
        let mut held = vec![0; self.replicas];
        let shards = 0..self.sharing.shards;
        let holders = shards.filter_map(|shard| self.holder(shard, now).ok());
        for replica in holders.filter_map(|holder| replica_of(holder, self.replicas)) {
            if let Some(count) = held.get_mut(replica) {
                *count += 1;
            }
        }
        held
    }

    fn uneven(
        &mut self,
        shared: &Shared,
        at: Duration,
        well: &[Option<Duration>],
    ) -> Option<String> {
        let all_well = well.iter().all(|span| span.is_some_and(|span| span > EVEN));
        // A guest takes what it wants, and gives it back.
        let guest = shared.started(self.replicas).is_some();
        let held = self.held(at);
        let (least, most) = (held.iter().min()?, held.iter().max()?);
        if !all_well || guest || most - least <= 1 {
            self.uneven_since = None;
            return None;
        }
        let since = *self.uneven_since.get_or_insert(at);
        (at.saturating_sub(since) > UNEVEN).then(|| format!("the replicas hold {held:?} shards"))
    }

    fn slow_holder(
        &self,
        shared: &Shared,
        at: Duration,
        well: &[Option<Duration>],
    ) -> Option<String> {
        let held = self.held(at);
        for (replica, count) in held.iter().enumerate().filter(|(_, count)| **count > 0) {
            let slow = shared.faults.iter().any(|fault| match fault {
                Fault::Weather {
                    replica: whose,
                    from,
                    lasts,
                    what: Weather::ApiSlow(SLOW..),
                } => {
                    let (from, to) = (Duration::from_millis(*from), from + lasts);
                    let since = from.max(shared.started(*whose).unwrap_or(at));
                    *whose == replica
                        && at.saturating_sub(since) > HANDED_OVER
                        && at < Duration::from_millis(to)
                }
                _ => false,
            });
            let others = well.iter().enumerate();
            let mut others = others.filter(|(other, _)| *other != replica);
            if slow && others.any(|(_, span)| span.is_some_and(|span| span > HANDED_OVER)) {
                return Some(format!(
                    "replica {replica} is slow and holds {count} shards"
                ));
            }
        }
        None
    }
}

/// The objects of a shard on which something is under way.
fn under_way(shared: &Shared, shard: usize, shards: usize) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    let Some(store) = shared.server().map(|server| server.store()) else {
        return keys;
    };
    for table in store.tables().iter().filter(|table| has_controller(table)) {
        for stored in store.list(table, "", None, 0).items {
            let object = &stored.value;
            let ready =
                condition(object, "Ready").is_some_and(|ready| ready["status"] != "Unknown");
            let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            if ready && seen || object["spec"]["suspend"] == true {
                continue;
            }
            let key = key(object);
            if shard_of(&key, shards) == shard {
                keys.insert(key);
            }
        }
    }
    keys
}

fn has_controller(table: &str) -> bool {
    ["source.", "kustomize.", "helm."]
        .iter()
        .any(|group| is_flux(table) && table.starts_with(group))
}

fn key(object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    Key::new(kind, text("namespace"), text("name"))
}

/// The objects for which something may be written; none when it does not show.
fn keys_of(commit: &Commit<'_>) -> Vec<Key> {
    let mut keys = Vec::new();
    if has_controller(commit.table)
        && let Some(object) = commit.new.or(commit.old)
    {
        keys.push(key(object));
        if commit.part == "status" {
            return keys;
        }
    }
    for object in [commit.new, commit.old].into_iter().flatten() {
        let labels = &object["metadata"]["labels"];
        for (kind, group) in [("Kustomization", "kustomize"), ("HelmRelease", "helm")] {
            let text =
                |what: &str| labels[format!("{group}.toolkit.fluxcd.io/{what}").as_str()].as_str();
            if let (Some(name), Some(namespace)) = (text("name"), text("namespace")) {
                keys.push(Key::new(kind, namespace, name));
            }
        }
    }
    keys
}
