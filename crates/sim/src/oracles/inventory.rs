//! The stored inventory covers all that was applied, at every moment; and Ready means that it is there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everflow_api::view::condition;
use everflow_json::Value;

use super::{Commit, Finding, lately_restored};
use crate::history::Actor;
use crate::shared::Shared;

const KUSTOMIZATIONS: &str = "kustomize.toolkit.fluxcd.io/kustomizations";

/// What others deleted lately: Ready may be said before that is heard of.
#[derive(Debug, Default)]
pub struct Inventories {
    gone: BTreeMap<String, Duration>,
    /// Kustomizations whose status somebody else has written last: what an attempt under way has stored may be gone.
    overwritten: BTreeSet<String>,
}

/// The id of an object in inventories.
fn id(table: &str, object: &Value) -> String {
    let group = table.split('/').next().unwrap_or_default();
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let name = text("name").replace(':', "__");
    let kind = object["kind"].as_str().unwrap_or_default();
    format!("{}_{name}_{group}_{kind}", text("namespace"))
}

fn ids(kustomization: &Value) -> Vec<&str> {
    let entries = kustomization.pointer("/status/inventory/entries");
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    entries.filter_map(|entry| entry["id"].as_str()).collect()
}

impl Inventories {
    /// Remembers what others delete and overwrite.
    pub fn note(&mut self, commit: &Commit<'_>) {
        if commit.table == KUSTOMIZATIONS && commit.part == "status" {
            match commit.who {
                Actor::User => self.overwritten.insert(commit.key.to_owned()),
                _ => self.overwritten.remove(commit.key),
            };
        }
        let (Some(old), None) = (commit.old, commit.new) else {
            return;
        };
        if commit.who == Actor::User || commit.who == Actor::Cluster {
            self.gone.insert(id(commit.table, old), commit.at);
        }
    }

    pub(super) fn commit(&self, shared: &Shared, commit: &Commit<'_>) -> Option<Finding> {
        let new = commit.new?;
        let store = shared.server()?.store();
        if commit.table == KUSTOMIZATIONS && commit.part == "status" {
            return self.says_ready(shared, commit, new);
        }
        let label = |name: &str| {
            let labels = new.pointer("/metadata/labels")?;
            labels
                .get(format!("kustomize.toolkit.fluxcd.io/{name}"))?
                .as_str()
        };
        let (name, namespace) = (label("name")?, label("namespace")?);
        if commit.is_flux() && commit.part == "status" || commit.old.is_some_and(is_going) {
            return None;
        }
        let id = id(commit.table, new);
        let Some(owner) = store.get(KUSTOMIZATIONS, &format!("{namespace}/{name}")) else {
            if lately_restored(shared, commit.at) {
                return None;
            }
            let text = format!(
                "{} applies {id} for a Kustomization that is gone",
                commit.who
            );
            return Some(commit.finding("inventory covers all", text));
        };
        // What was stored before a backup was restored is known to who has not heard of that yet.
        let overwritten = self.overwritten.contains(&format!("{namespace}/{name}"));
        if ids(&owner.value).contains(&id.as_str())
            || overwritten
            || lately_restored(shared, commit.at)
        {
            return None;
        }
        // Finalizers and the like of objects that are no longer applied.
        if commit
            .old
            .is_some_and(|old| old.get("spec") == new.get("spec"))
            && commit.is_flux()
        {
            return None;
        }
        let text = format!(
            "{} applies {id}, which the stored inventory of {namespace}/{name} does not name",
            commit.who
        );
        Some(commit.finding("inventory covers all", text))
    }

    /// Ready at a revision, with everything in the inventory there.
    fn says_ready(&self, shared: &Shared, commit: &Commit<'_>, new: &Value) -> Option<Finding> {
        let ready = condition(new, "Ready")?;
        if ready["status"] != "True" || is_going(new) {
            return None;
        }
        let store = shared.server()?.store();
        let everything = store.tables();
        for wanted in ids(new) {
            let lately = self
                .gone
                .get(wanted)
                .is_some_and(|at| commit.at.saturating_sub(*at) < Duration::from_secs(30));
            if lately {
                continue;
            }
            let mut parts = wanted.splitn(4, '_');
            let (namespace, name, group) = (parts.next()?, parts.next()?, parts.next()?);
            let key = match namespace.is_empty() {
                true => name.to_owned(),
                false => format!("{namespace}/{name}"),
            };
            let there = everything.iter().any(|table| {
                table.split('/').next() == Some(group) && store.get(table, &key).is_some()
            });
            // Names with colons are written in another way.
            if !there && !wanted.contains("__") {
                let text = format!(
                    "{} says that {} is Ready, but {wanted} does not exist",
                    commit.who,
                    commit.name()
                );
                return Some(commit.finding("no lying status", text));
            }
        }
        None
    }
}

fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}
