//! Lets a Kustomization go, with what it has applied or without.

use std::time::Duration;

use everflow_api::kustomization::DeletionPolicy;
use everflow_api::names::condition::{READY, RECONCILING};
use everflow_apply::inventory::{Entry, Inventory};
use everflow_runtime::attempt::{Interrupted, Next, Report, Verdict};
use everflow_runtime::events::Severity;

use super::attempt::Attempt;
use crate::skeleton::{SUSPENDED, is_held, let_go, silent};
use crate::stop::Stop;
use crate::target::Target;

/// How often it is looked whether deleted objects have gone.
const LOOK: Duration = Duration::from_secs(2);
/// After so long it is said what a deletion waits for.
const NAMED_AFTER: Duration = Duration::from_secs(10);

impl Attempt<'_> {
    /// Deletes what was applied, if that is asked for, and removes the finalizer.
    pub(super) async fn finalize(mut self) -> Result<Report, Interrupted> {
        if !is_held(&self.object.metadata) {
            return Ok(silent(Next::At(SUSPENDED), Verdict::Success));
        }
        let last = &self.draft.status;
        let revision = last.last_attempted_revision.clone();
        self.draft.revision = revision.unwrap_or_default();
        let origin = last.last_applied_origin_revision.clone();
        self.draft.origin = origin.unwrap_or_default();
        let spec = &self.object.spec;
        let delete = !spec.suspend
            && match spec.deletion_policy() {
                DeletionPolicy::MirrorPrune => spec.prune,
                DeletionPolicy::Delete | DeletionPolicy::WaitForTermination => true,
                DeletionPolicy::Orphan => false,
            };
        let inventory = match self.inventory() {
            Ok(inventory) => inventory,
            Err(stop) => return self.held_up(stop),
        };
        if delete && !inventory.is_empty() {
            match self.delete_all(&inventory).await {
                Ok(None) => {}
                Ok(Some(report)) => return Ok(report),
                Err(stop) => return self.held_up(stop),
            }
        }
        self.let_go().await
    }

    /// Deletes the objects; a report when that has to be waited for.
    async fn delete_all(&mut self, inventory: &Inventory) -> Result<Option<Report>, Stop> {
        let failed = |error: &dyn std::fmt::Display| {
            Stop::failed(everflow_api::Reason::PruneFailed, error.to_string())
        };
        let (own, options) = (self.context.client.clone(), self.options().clone());
        let targets = &self.controller.targets;
        let entries = inventory.without(&Inventory::default());
        if targets
            .gone(self.wanted_target(), &own, &options)
            .await
            .map_err(|error| failed(&error))?
        {
            let names: Vec<String> = entries.iter().map(|entry| entry.id.subject()).collect();
            let message = format!("unable to prune objects: \n{}", names.join("\n"));
            self.draft.record_event(Severity::Error, message);
            return Ok(None);
        }
        let target: Target = self.target().await?;
        let applier = self.applier(&target)?;
        let cache = self.cache(&target);
        cache.clear();
        let asked = self.controller.waits().contains_key(&self.context.key);
        let terminating = self.object.spec.deletion_policy() == DeletionPolicy::WaitForTermination;
        if !(asked && terminating) {
            let pruned = applier.prune(&entries, &cache).await;
            if pruned.failed.iter().any(|(_, error)| error.is_fenced()) {
                return Err(Stop::Interrupted(Interrupted::NotLeading));
            }
            self.record_pruned(&pruned.changes);
            if let Some(errors) = pruned.errors() {
                let failed = pruned.failed.iter().map(|(entry, _)| entry.clone());
                self.set_inventory(&Inventory::from_entries(failed));
                return Err(failed_message(&errors));
            }
            let deleted: Vec<Entry> = pruned
                .changes
                .iter()
                .filter(|change| change.action == everflow_apply::change::Action::Deleted)
                .map(|change| change.entry.clone())
                .collect();
            self.set_inventory(&Inventory::from_entries(deleted));
        }
        if !terminating {
            return Ok(None);
        }
        let deleted = self.inventory()?;
        self.await_end(&applier, deleted.entries()).await
    }

    async fn await_end(
        &mut self,
        applier: &everflow_apply::effects::Applier,
        deleted: &[Entry],
    ) -> Result<Option<Report>, Stop> {
        let remaining = applier
            .remaining(deleted)
            .await
            .map_err(|error| failed_message(&error.to_string()))?;
        if remaining.is_empty() {
            return Ok(None);
        }
        let since = self
            .object
            .metadata
            .deletion_timestamp
            .unwrap_or(self.draft.now);
        let waited = self.draft.now.since(since).unsigned();
        if waited >= self.object.spec.timeout().unsigned() {
            let message = format!(
                "failed to wait for resources termination: {}",
                still_there(&remaining)
            );
            self.draft.record_event(Severity::Error, message);
            return Ok(None);
        }
        let wait = self.wait_for_end();
        self.controller
            .waits()
            .insert(self.context.key.clone(), wait);
        let events = std::mem::take(&mut self.draft.events);
        let mut report = silent(Next::At(LOOK), Verdict::Waiting);
        // Most go at once; what does not is named.
        if waited >= NAMED_AFTER {
            let message = format!("waiting for {} to go", still_there(&remaining));
            let reason = everflow_api::Reason::Progressing;
            let on = everflow_api::condition::ConditionStatus::True;
            self.draft.set(RECONCILING, on, reason, message);
            report.status = Some(self.draft.value());
        }
        report.events = events;
        Ok(Some(report))
    }

    /// Removes the finalizer.
    async fn let_go(mut self) -> Result<Report, Interrupted> {
        if self.draft.is_ready() && !self.object.spec.suspend {
            self.record_finished();
        }
        self.controller.settling().remove(&self.context.key);
        self.controller.waits().remove(&self.context.key);
        let metadata = &self.object.metadata;
        self.controller
            .caches
            .forget(metadata.namespace(), &metadata.name);
        let_go(self.context, &self.value, self.draft.events).await
    }

    /// Says what holds up the deletion.
    fn held_up(mut self, stop: Stop) -> Result<Report, Interrupted> {
        match stop {
            Stop::Interrupted(why) => Err(why),
            Stop::Gone => Ok(silent(Next::At(SUSPENDED), Verdict::Success)),
            Stop::Unsettled { .. } => Ok(silent(Next::retry("Unsettled"), Verdict::Waiting)),
            Stop::Failed(failure) => {
                let message = format!("pruning for deleted resource failed: {}", failure.message);
                self.draft.record_event_as(
                    Severity::Error,
                    failure.reason.as_str(),
                    message.clone(),
                );
                self.draft.set(
                    READY,
                    everflow_api::condition::ConditionStatus::False,
                    failure.reason,
                    message,
                );
                Ok(self
                    .draft
                    .report(Next::retry("PruneFailed"), Verdict::Failure))
            }
        }
    }
}

/// The objects that hold up a deletion, and what holds them.
fn still_there(remaining: &[(Entry, Vec<String>)]) -> String {
    let one = |(entry, finalizers): &(Entry, Vec<String>)| {
        let subject = entry.id.subject();
        match everflow_apply::held_by(finalizers) {
            None => subject,
            Some(held) => format!("{subject} ({held})"),
        }
    };
    let all: Vec<String> = remaining.iter().map(one).collect();
    all.join(", ")
}

fn failed_message(errors: &str) -> Stop {
    Stop::failed(everflow_api::Reason::PruneFailed, errors)
}
