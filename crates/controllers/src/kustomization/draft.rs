//! The status as an attempt works it out, and what is said beside it.

use everflow_api::condition::{self, Condition, ConditionStatus};
use everflow_api::kustomization::KustomizationStatus;
use everflow_api::names::condition::{HEALTHY, READY, RECONCILING, STALLED};
use everflow_api::names::group;
use everflow_api::reason::Reason;
use everflow_json::Value;
use everflow_runtime::attempt::{Next, Report, Verdict};
use everflow_runtime::events::{Event, Severity};
use everflow_time::Timestamp;

use crate::skeleton;

/// A status in the making.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) status: KustomizationStatus,
    pub(super) generation: i64,
    pub(super) now: Timestamp,
    /// What is told, in order.
    pub(super) events: Vec<Event>,
    pub(super) revision: String,
    pub(super) origin: String,
    /// What others have a hand in too, in words.
    pub(super) contested: Vec<String>,
}

impl Draft {
    pub(super) fn set(
        &mut self,
        condition_type: &str,
        status: ConditionStatus,
        reason: Reason,
        message: impl Into<String>,
    ) {
        let condition = Condition::new(condition_type, status, reason.as_str(), message);
        condition::set(
            &mut self.status.conditions,
            condition,
            self.generation,
            self.now,
        );
    }

    pub(super) fn remove(&mut self, condition_type: &str) {
        condition::remove(&mut self.status.conditions, condition_type);
    }

    /// Work goes on.
    pub(super) fn progress(&mut self, message: &str) {
        let unknown = ConditionStatus::Unknown;
        self.set(
            READY,
            unknown,
            Reason::Progressing,
            "Reconciliation in progress",
        );
        let reason = Reason::Progressing.as_str();
        let conditions = &mut self.status.conditions;
        condition::mark_reconciling(conditions, reason, message, self.generation, self.now);
    }

    /// Health is waited for.
    pub(super) fn wait_for_health(&mut self, message: &str) {
        self.progress(message);
        self.set(
            HEALTHY,
            ConditionStatus::Unknown,
            Reason::Progressing,
            message,
        );
    }

    /// It failed, and will be tried again.
    pub(super) fn fail(&mut self, reason: Reason, message: &str) {
        self.set(READY, ConditionStatus::False, reason, message);
        let going_on = condition::find(&self.status.conditions, RECONCILING);
        if let Some(message) = going_on.map(|condition| condition.message.clone()) {
            let retry = Reason::ProgressingWithRetry;
            self.set(RECONCILING, ConditionStatus::True, retry, message);
        }
    }

    /// It cannot succeed without a change.
    pub(super) fn stall(&mut self, reason: Reason, message: &str) {
        self.set(READY, ConditionStatus::False, reason, message);
        let conditions = &mut self.status.conditions;
        let reason = reason.as_str();
        condition::mark_stalled(conditions, reason, message, self.generation, self.now);
    }

    /// All is as asked for.
    pub(super) fn succeed(&mut self) {
        self.remove(RECONCILING);
        self.remove(STALLED);
        let mut message = format!("Applied revision: {}", self.revision);
        for contested in &self.contested {
            message.push_str("; ");
            message.push_str(contested);
        }
        let reason = Reason::ReconciliationSucceeded;
        self.set(READY, ConditionStatus::True, reason, message);
    }

    pub(super) fn is_ready(&self) -> bool {
        condition::is_true(&self.status.conditions, READY)
    }

    /// The reason of the Ready condition of this moment, which events carry.
    pub(super) fn reason(&self) -> String {
        let ready = condition::find(&self.status.conditions, READY);
        ready.map_or_else(|| "info".to_owned(), |ready| ready.reason.clone())
    }

    /// Tells something.
    pub(super) fn record_event(&mut self, severity: Severity, message: impl Into<String>) {
        let reason = self.reason();
        self.record_event_as(severity, &reason, message);
    }

    pub(super) fn record_event_as(
        &mut self,
        severity: Severity,
        reason: &str,
        message: impl Into<String>,
    ) {
        let event = self.event(severity, reason, message);
        self.events.push(event);
    }

    /// An event with the revisions.
    pub(super) fn event(
        &self,
        severity: Severity,
        reason: &str,
        message: impl Into<String>,
    ) -> Event {
        let mut event = Event::new(severity, reason, message);
        for (key, value) in [
            ("revision", &self.revision),
            ("originRevision", &self.origin),
        ] {
            if !value.is_empty() {
                event = event.with(format!("{}/{key}", group::KUSTOMIZE), value);
            }
        }
        event
    }

    /// The last event says only that all is as it was.
    pub(super) fn as_routine(&mut self) {
        if let Some(event) = self.events.last_mut() {
            event.routine = true;
        }
    }

    /// The last event says how it stands with the commit.
    pub(super) fn as_commit_status(&mut self) {
        if let Some(event) = self.events.pop() {
            let key = format!("{}/commit_status", group::KUSTOMIZE);
            self.events.push(event.with(key, "update"));
        }
    }

    pub(super) fn value(&self) -> Value {
        skeleton::written(&self.status)
    }

    pub(super) fn report(self, next: Next, verdict: Verdict) -> Report {
        skeleton::report(&self.status, self.events, next, verdict)
    }
}
