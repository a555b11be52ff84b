//! The first attempts of the new engine, and what they have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use everflow_api::names::annotation;
use everflow_api::view;
use everflow_json::{Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{At, Patch, Resource, Selection, WriteOptions};

use super::notes;
use super::stop::MANAGER;
use super::survey::Objects;
use crate::exit::Failure;
use crate::flux::connection::Session;
use crate::flux::kinds::Kind;
use crate::flux::row::is_static;

const PAUSE: Duration = Duration::from_millis(500);
const WORKLOADS: [(&str, &str); 3] = [
    ("deployments", "Deployment"),
    ("statefulsets", "StatefulSet"),
    ("daemonsets", "DaemonSet"),
];

/// What must not change when another engine takes over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Picture {
    /// How often the spec of each workload has changed.
    workloads: BTreeMap<String, i64>,
    /// What each Kustomization has applied.
    inventories: BTreeMap<String, BTreeSet<String>>,
    /// The newest revision of each Helm release.
    releases: BTreeMap<String, i64>,
}

impl Picture {
    /// What is rolled out, pruned or released between two pictures.
    pub fn changes(&self, after: &Picture) -> Vec<String> {
        let mut changes = Vec::new();
        for (name, generation) in &self.workloads {
            match after.workloads.get(name) {
                None => changes.push(format!("{name} is gone")),
                Some(now) if now != generation => changes.push(format!("{name} was rolled out")),
                Some(_) => {}
            }
        }
        for (name, before) in &self.inventories {
            let now = after.inventories.get(name).cloned().unwrap_or_default();
            for entry in before.difference(&now) {
                changes.push(format!("{name} has pruned {entry}"));
            }
        }
        for (name, revision) in &self.releases {
            if after.releases.get(name) != Some(revision) {
                changes.push(format!("{name} was released anew"));
            }
        }
        changes
    }
}

/// Looks at workloads, inventories and releases.
pub async fn picture(session: &Session, kinds: &[&'static Kind]) -> Result<Picture, Failure> {
    let mut picture = Picture::default();
    for (plural, kind) in WORKLOADS {
        let resource = Resource::namespaced("apps", "v1", plural, kind);
        // Flux's controllers and our own are what changes.
        let selection = Selection::labelled("app.kubernetes.io/part-of!=flux").metadata();
        let listed = session.client.list_all(&resource, None, &selection).await;
        let listed = listed.map_err(|error| Failure::Work(session.told_of(&error)))?;
        for item in listed.items {
            if item["metadata"]["labels"][notes::ENGINE] != "true" {
                let name = view::name_as(kind, &item);
                picture.workloads.insert(name, view::generation(&item));
            }
        }
    }
    for kind in kinds {
        for item in items(session, kind).await? {
            let name = view::name_as(kind.name(), &item);
            match kind.name() {
                "Kustomization" => {
                    let entries = item["status"]["inventory"]["entries"].as_array();
                    let ids = entries.into_iter().flatten();
                    let ids = ids.filter_map(|entry| entry["id"].as_str().map(str::to_owned));
                    picture.inventories.insert(name, ids.collect());
                }
                "HelmRelease" => {
                    if let Some(revision) = item["status"]["history"][0]["version"].as_i64() {
                        picture.releases.insert(name, revision);
                    }
                }
                _ => {}
            }
        }
    }
    Ok(picture)
}

async fn items(session: &Session, kind: &Kind) -> Result<Vec<Value>, Failure> {
    let all = Selection::default();
    let listed = session.client.list_all(&kind.resource, None, &all).await;
    listed
        .map(|listed| listed.items)
        .map_err(|error| Failure::Work(session.told(kind, &error)))
}

/// Kinds whose objects tell in their status that they were attempted.
pub fn tells_attempts(kind: &Kind) -> bool {
    matches!(
        kind.name(),
        "OCIRepository"
            | "Bucket"
            | "GitRepository"
            | "HelmRepository"
            | "HelmChart"
            | "HelmRelease"
            | "Kustomization"
            | "Receiver"
    )
}

/// Asks for an attempt of every object that is not suspended; how many, and a word to know the attempts by.
pub async fn ask_all(
    session: &Session,
    objects: &[Objects],
) -> Result<Vec<(&'static Kind, String, String)>, Failure> {
    let now = session.clock.now().rfc3339_micro();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {annotation::REQUESTED_AT: now}}}));
    let mut asked = Vec::new();
    for Objects { kind, items } in objects.iter().filter(|one| tells_attempts(one.kind)) {
        for item in items {
            if view::is_suspended(item) || is_static(kind, item) {
                continue;
            }
            let (at, by) = (At::of(item), WriteOptions::by(MANAGER));
            match session.client.patch(&kind.resource, at, &patch, &by).await {
                Ok(_) => asked.push((*kind, at.namespace.to_owned(), at.name.to_owned())),
                // Deleted meanwhile.
                Err(Error::NotFound(_)) => {}
                Err(error) => return Err(Failure::Work(session.told(kind, &error))),
            }
        }
    }
    Ok(asked)
}

/// Waits until every object that was asked had its attempt; those that had none in time.
pub async fn until_attempted(
    session: &Session,
    asked: Vec<(&'static Kind, String, String)>,
    timeout: Duration,
) -> Result<Vec<String>, Failure> {
    let end = Instant::now() + timeout;
    let mut waiting = asked;
    loop {
        let mut left = Vec::new();
        for (kind, namespace, name) in waiting {
            let at = At::new(&namespace, &name);
            match session.client.get(&kind.resource, at).await {
                Ok(live) if !is_attempted(&live) => left.push((kind, namespace, name)),
                Ok(_) | Err(Error::NotFound(_)) => {}
                Err(error) => return Err(Failure::Work(session.told(kind, &error))),
            }
        }
        waiting = left;
        if waiting.is_empty() || Instant::now() + PAUSE > end {
            let name = |one: &(&Kind, String, String)| view::joined(one.0.name(), &one.1, &one.2);
            return Ok(waiting.iter().map(name).collect());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn is_attempted(live: &Value) -> bool {
    view::is_suspended(live) || view::requested_at(live) == view::last_handled_reconcile_at(live)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_objects_are_reported_by_name() {
        let before = Picture {
            workloads: BTreeMap::from([("Deployment/a/b".to_owned(), 1)]),
            inventories: BTreeMap::from([(
                "Kustomization/a/k".to_owned(),
                BTreeSet::from(["x".to_owned()]),
            )]),
            releases: BTreeMap::from([("HelmRelease/a/h".to_owned(), 3)]),
        };
        assert!(before.changes(&before).is_empty());
        let mut after = before.clone();
        after.workloads.insert("Deployment/a/b".to_owned(), 2);
        after.inventories.clear();
        after.releases.insert("HelmRelease/a/h".to_owned(), 4);
        let changes = before.changes(&after);
        assert_eq!(
            changes,
            [
                "Deployment/a/b was rolled out",
                "Kustomization/a/k has pruned x",
                "HelmRelease/a/h was released anew",
            ]
        );
    }

    #[test]
    fn reconcile_is_detected_by_last_handled_request() {
        let object = |handled: &str| {
            json!({"metadata": {"annotations": {annotation::REQUESTED_AT: "now"}},
                "status": {"lastHandledReconcileAt": handled}})
        };
        assert!(is_attempted(&object("now")));
        assert!(!is_attempted(&object("before")));
    }
}
