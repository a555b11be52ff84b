//! Attempts that fail: what is said, and when they are made again.

use std::time::Duration;

use everflow_api::condition;
use everflow_api::kustomization::KustomizationStatus;
use everflow_api::names::condition::READY;
use everflow_api::reason::Reason;
use everflow_runtime::attempt::{Next, Report, Verdict};
use everflow_runtime::queue::Priority;

use super::attempt::Attempt;
use super::depends;
use crate::skeleton::{AWAY, silent};
use crate::stop::{Failure, RetryPolicy, Stop};

impl Attempt<'_> {
    /// Notes in the history that what was built could not be delivered.
    pub(super) fn note_failure(&mut self, stop: Stop, digest: &str, started: Duration) -> Stop {
        if let Stop::Failed(failure) = &stop {
            self.note_history(digest, failure.reason, started);
        }
        stop
    }

    /// Reports a failure.
    pub(super) fn fail(mut self, mut failure: Failure) -> Report {
        failure.conceal(&self.concealed);
        self.controller.waits().remove(&self.context.key);
        let spec = &self.object.spec;
        let retry = spec.retry_interval().unsigned();
        let soon = self.options().runtime.requeue_dependency;
        let stalled = failure.then == RetryPolicy::Change;
        let source_lost = failure.then == RetryPolicy::WaitForSource;
        if source_lost
            && self.context.ticket.priority == Priority::Dependency
            && condition::is_true(&self.before().conditions, READY)
        {
            // What is applied stays; it is said when it matters.
            let next = Next::When {
                changes: self.wakes(),
                no_later_than: spec.interval.unsigned(),
            };
            return silent(next, Verdict::Waiting);
        }
        match stalled {
            true => self.draft.stall(failure.reason, &failure.message),
            false => self.draft.fail(failure.reason, &failure.message),
        }
        if let Some((severity, text)) = failure.told(false) {
            self.draft.record_event(severity, text);
        }
        if self.failed_like_before() {
            // How often it failed is not worth a write each time.
            self.draft.status.history = self.before().history.clone();
        }
        let mut changes = self.wakes();
        if failure.reason == Reason::DependencyNotReady {
            changes.extend(depends::of(&self.object, &self.value).wakes());
        }
        let (span, verdict) = match failure.then {
            RetryPolicy::Retry => (retry, Verdict::Failure),
            RetryPolicy::Return => (retry.min(AWAY), Verdict::Failure),
            RetryPolicy::WaitForSource => (retry, Verdict::Waiting),
            RetryPolicy::Wait => (soon, Verdict::Waiting),
            RetryPolicy::Change => {
                let slowest = self.options().runtime.max_retry_delay;
                (slowest.max(spec.interval.unsigned()), Verdict::Stalled)
            }
        };
        self.context.release_watches(&self.config_watches());
        let next = Next::When {
            changes,
            no_later_than: span,
        };
        self.draft.report(next, verdict)
    }

    /// Whether all of it was said before, but for times and counts.
    fn failed_like_before(&self) -> bool {
        let (was, is) = (self.before(), &self.draft.status);
        let news = |status: &KustomizationStatus| {
            let last = status.history.first();
            last.map(|last| (last.digest.clone(), last.last_reconciled_status.clone()))
        };
        let known = |condition: &condition::Condition| {
            let before = condition::find(&was.conditions, &condition.condition_type);
            before.is_some_and(|before| before.has_same_state(condition))
        };
        self.is_unasked()
            && was.conditions.len() == is.conditions.len()
            && is.conditions.iter().all(known)
            && news(was) == news(is)
    }
}
