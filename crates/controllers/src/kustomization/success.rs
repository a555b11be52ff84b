//! The end of an attempt that went well.

use std::collections::BTreeMap;
use std::time::Duration;

use everflow_api::condition::{self, Reconciled as _};
use everflow_api::history::{self, Attempt as Noted};
use everflow_api::kustomization::KustomizationStatus;
use everflow_api::names::condition::{HEALTHY, READY};
use everflow_api::reason::Reason;
use everflow_runtime::attempt::{Next, Report, Verdict};
use everflow_runtime::events::Severity;
use everflow_runtime::queue::Priority;

use super::apply;
use super::attempt::Attempt;
use super::health::Wait;
use crate::skeleton::silent;
use crate::stop::Stop;
use crate::target::Target;

/// After so long an object that others kept changing is put right once more.
const TRUCE: Duration = Duration::from_secs(60);

impl Attempt<'_> {
    /// Reports that all is as it should be.
    pub(super) async fn succeed(&mut self, wait: &Wait, target: &Target) -> Result<Report, Stop> {
        self.draft.status.observe(self.draft.generation);
        let origin = Some(self.draft.origin.clone()).filter(|origin| !origin.is_empty());
        let status = &mut self.draft.status;
        status.last_applied_revision = Some(self.draft.revision.clone());
        status.last_applied_origin_revision = origin;
        if status.inventory.is_none() {
            status.inventory = Some(apply::empty_inventory());
        }
        self.draft.succeed();
        let next = self.after_success(target).await;
        if self.is_old_news(wait) {
            return Ok(silent(next, Verdict::Success));
        }
        self.note_history(&wait.digest, Reason::ReconciliationSucceeded, wait.started);
        self.record_finished();
        if !wait.changed
            && self.is_unasked()
            && condition::is_true(&self.before().conditions, READY)
        {
            self.draft.as_routine();
        }
        Ok(self.draft.clone().report(next, Verdict::Success))
    }

    /// Whether nothing was changed, and all of it was said before.
    fn is_old_news(&self, wait: &Wait) -> bool {
        let (was, is) = (self.before(), &self.draft.status);
        let same = |kind: &str| {
            let state = |status: &KustomizationStatus| {
                let condition = condition::find(&status.conditions, kind)?;
                Some((condition.status, condition.reason.clone()))
            };
            state(was) == state(is)
        };
        !wait.changed
            && self.is_unasked()
            && condition::is_true(&was.conditions, READY)
            && was.conditions.len() == is.conditions.len()
            && same(HEALTHY)
            && was.observed_generation == is.observed_generation
            && was.last_applied_revision == is.last_applied_revision
            && was.last_attempted_revision == is.last_attempted_revision
            && was.last_handled_reconcile_at == is.last_handled_reconcile_at
            && was.inventory == is.inventory
            && was
                .history
                .first()
                .is_some_and(|first| first.digest == wait.digest)
    }

    /// Whether nobody has asked for this attempt.
    pub(super) fn is_unasked(&self) -> bool {
        matches!(
            self.context.ticket.priority,
            Priority::Interval | Priority::Dependency
        )
    }

    /// When it is looked at again, and what is watched until then.
    async fn after_success(&self, target: &Target) -> Next {
        let mut keep = self.config_watches();
        let mut changes = self.wakes();
        if let Ok(inventory) = self.inventory()
            && self.options().kustomize.watch_applied
        {
            let live = self.live_view(target);
            changes.extend(live.watch(inventory.entries(), &mut keep).await);
        }
        self.context.release_watches(&keep);
        let mut interval = self.object.spec.interval.unsigned();
        if self.cache(target).is_contended() {
            interval = interval.min(TRUCE);
        }
        let chance = self.context.env.random.unit();
        Next::When {
            changes,
            no_later_than: self.options().runtime.jittered(interval, chance),
        }
    }

    /// Tells that it is done.
    pub(super) fn record_finished(&mut self) {
        let message = format!(
            "Reconciliation finished in {}, next run in {}",
            self.since(self.started),
            self.object.spec.interval
        );
        self.draft.record_event(Severity::Info, message);
        self.draft.as_commit_status();
    }

    /// Puts this attempt into the history.
    pub(super) fn note_history(&mut self, digest: &str, status: Reason, started: Duration) {
        let mut metadata = BTreeMap::new();
        let revisions = [
            ("revision", &self.draft.revision),
            ("originRevision", &self.draft.origin),
        ];
        for (key, value) in revisions {
            if !value.is_empty() {
                metadata.insert(key.to_owned(), value.clone());
            }
        }
        let noted = Noted {
            digest: digest.to_owned(),
            time: self.draft.now.truncated(),
            duration: self.since(started),
            status: status.as_str().to_owned(),
            metadata,
        };
        history::note(&mut self.draft.status.history, noted);
    }
}
