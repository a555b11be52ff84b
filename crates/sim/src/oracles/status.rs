//! One write of the status for each attempt; what it says never goes back.

use std::collections::BTreeMap;

use everflow_json::Value;
use everflow_runtime::queue::Key;

use super::{Commit, Finding, lately_restored};
use crate::history::Actor;
use crate::shared::Shared;

/// Writes of statuses since the last attempt began, by replica and object.
#[derive(Debug, Default)]
pub struct Writes {
    since: BTreeMap<(usize, String, String), u32>,
}

fn inventory(object: &Value) -> Vec<&str> {
    let entries = object.pointer("/status/inventory/entries");
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    entries.filter_map(|entry| entry["id"].as_str()).collect()
}

impl Writes {
    /// An attempt begins.
    pub fn attempt(&mut self, who: Actor, key: &Key) {
        if let Some(replica) = who.replica() {
            let name = format!("{}/{}", key.namespace, key.name);
            self.since.insert((replica, key.kind.to_string(), name), 0);
        }
    }

    pub(super) fn commit(&mut self, shared: &Shared, commit: &Commit<'_>) -> Option<Finding> {
        let (old, new) = (commit.old?, commit.new?);
        if !commit.is_flux() || commit.part != "status" {
            return None;
        }
        let number =
            |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
        // Definitions say -1 where nothing was said yet.
        let (before, now) = (
            number(old, "/status/observedGeneration").unwrap_or(-1),
            number(new, "/status/observedGeneration").unwrap_or(-1),
        );
        let forward = !lately_restored(shared, commit.at);
        if now < before && forward {
            let text = format!(
                "{} takes the observed generation of {} back from {before} to {now}",
                commit.who,
                commit.name()
            );
            return Some(commit.finding("history goes forward", text));
        }
        if now > number(new, "/metadata/generation").unwrap_or_default() && forward {
            let text = format!("{} of {} that does not exist yet", now, commit.name());
            return Some(commit.finding("history goes forward", text));
        }
        if commit.late.is_some() {
            // It is of an attempt that is over.
            return None;
        }
        let known = inventory(old);
        let widens = new["kind"] == "Kustomization";
        if widens && inventory(new).iter().any(|id| !known.contains(id)) {
            // The inventory is widened before anything is applied, in a write of its own.
            return None;
        }
        let kind = new["kind"].as_str().unwrap_or_default().to_owned();
        let place = (commit.who.replica()?, kind, commit.key.to_owned());
        let writes = self.since.entry(place).or_default();
        *writes += 1;
        // What a restored backup has undone is written once more.
        if *writes < 2 || !forward {
            return None;
        }
        let text = format!(
            "{} writes the status of {} a second time in one attempt",
            commit.who,
            commit.name()
        );
        Some(commit.finding("one status write", text))
    }
}
