//! Deletes what is no longer asked for.

use everflow_env::{BoxFuture, Place, planted};
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::{At, DeleteOptions};

use super::{AppliedCache, Applier, run_concurrently};
use crate::change::{Action, Change};
use crate::error::ApplyError;
use crate::inventory::Entry;
use crate::policy;

/// What became of objects that were to be deleted.
#[derive(Debug, Default)]
pub struct Pruned {
    /// What was done, in order.
    pub changes: Vec<Change>,
    /// What could not be done: these objects stay in the inventory.
    pub failed: Vec<(Entry, ApplyError)>,
}

impl Pruned {
    /// All failures in one text, as Flux words them.
    pub fn errors(&self) -> Option<String> {
        let all: String = self
            .failed
            .iter()
            .map(|(_, error)| format!("{error};"))
            .collect();
        (!all.is_empty()).then(|| format!("delete failed, errors: {all}"))
    }
}

impl Applier {
    /// Deletes objects that are ours and do not ask to be kept. Only an answer of the server
    /// counts: what could not be looked at is not taken for gone, nor is what a request of ours that
    /// got no answer may still make again.
    pub async fn prune(&self, entries: &[Entry], cache: &AppliedCache) -> Pruned {
        let mut pruned = Pruned::default();
        let now = self.client.clock().elapsed();
        // Kinds one after the other, the objects of a kind at once.
        for group in entries.chunk_by(|one, two| one.id.kind == two.id.kind) {
            let mut work: Vec<BoxFuture<'_, Result<Action, ApplyError>>> = Vec::new();
            for entry in group {
                work.push(Box::pin(self.prune_one(entry)));
            }
            let results = run_concurrently(work).await;
            for (entry, result) in group.iter().zip(results) {
                match (result, cache.may_land_within(&entry.id, now)) {
                    (Ok(Action::Deleted), Some(left)) => {
                        let error = ApplyError::MayLand {
                            entry: entry.clone().into(),
                            left,
                        };
                        pruned.failed.push((entry.clone(), error));
                    }
                    (Ok(action), _) => pruned.changes.push(Change {
                        entry: entry.clone(),
                        action,
                    }),
                    (Err(error), _) => pruned.failed.push((entry.clone(), error)),
                }
            }
        }
        pruned
    }

    async fn prune_one(&self, entry: &Entry) -> Result<Action, ApplyError> {
        let unknown = |source| ApplyError::Look {
            entry: entry.clone().into(),
            source,
        };
        let resource = match self.resource(entry).await {
            Ok(resource) => resource,
            // With its kind all objects went.
            Err(ClientError::NoKind { .. }) => return Ok(Action::Deleted),
            Err(source) => return Err(unknown(source)),
        };
        let namespace = match resource.namespaced {
            true => entry.id.namespace.as_str(),
            false => "",
        };
        let at = At::new(namespace, &entry.id.name);
        let live = match self.client.get(&resource, at).await {
            Ok(live) => live,
            Err(ClientError::NotFound(_)) => return Ok(Action::Deleted),
            Err(source) => return Err(unknown(source)),
        };
        let mut skipped = !self.owner.owns(&live) || policy::survives_prune(&live);
        planted(&**self.client.clock(), Place::SkippedByPrune, &mut skipped);
        if skipped {
            return Ok(Action::Skipped);
        }
        if self.lives_in(entry) {
            return Ok(Action::Skipped);
        }
        let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
        let mut options = DeleteOptions::uid(uid);
        options.propagation = "Background";
        match self.client.delete(&resource, at, &options).await {
            Ok(_) | Err(ClientError::NotFound(_)) => Ok(Action::Deleted),
            Err(source) => Err(ApplyError::Delete {
                entry: entry.clone().into(),
                source,
            }),
        }
    }

    /// Whether it is the namespace of the Kustomization itself: with it would go whoever has to delete the rest.
    fn lives_in(&self, entry: &Entry) -> bool {
        let id = &entry.id;
        id.kind == "Namespace" && id.group.is_empty() && id.name == self.owner.namespace
    }

    /// Which of these objects are still there, and which finalizers hold them.
    pub async fn remaining(
        &self,
        entries: &[Entry],
    ) -> Result<Vec<(Entry, Vec<String>)>, ApplyError> {
        let mut remaining = Vec::new();
        for entry in entries {
            let unknown = |source| ApplyError::Look {
                entry: entry.clone().into(),
                source,
            };
            let resource = match self.resource(entry).await {
                Ok(resource) => resource,
                Err(ClientError::NoKind { .. }) => continue,
                Err(source) => return Err(unknown(source)),
            };
            if let Some(live) = self.live(&resource, entry).await.map_err(unknown)? {
                let held = everflow_runtime::metadata::finalizers(&live);
                remaining.push((entry.clone(), held));
            }
        }
        Ok(remaining)
    }
}
