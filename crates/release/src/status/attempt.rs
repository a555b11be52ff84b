//! The beginning, the course and the end of an attempt.

use everflow_api::Reason;
use everflow_api::condition::{self, Condition, ConditionStatus, find};
use everflow_api::helm::HelmRelease;
use everflow_api::names::condition::{READY, RECONCILING, STALLED};
use everflow_api::object::Object;
use everflow_time::{Duration, Timestamp};

use crate::action::ActionKind;
use crate::decide::Then;

/// Notes that an attempt begins.
pub fn begin_attempt(object: &mut Object<HelmRelease>, now: Timestamp) {
    reconciling(object, Reason::Progressing, "Fulfilling prerequisites", now);
}

/// Notes that something keeps the attempt from going on: a dependency, a source, values, storage.
pub fn not_ready(
    object: &mut Object<HelmRelease>,
    reason: Reason,
    message: impl Into<String>,
    now: Timestamp,
) {
    ready(object, ConditionStatus::False, reason, message, now);
}

/// Notes that someone else is at work on the release.
pub fn mark_waiting(object: &mut Object<HelmRelease>, message: &str, now: Timestamp) {
    not_ready(object, Reason::PendingRelease, message, now);
    reconciling(object, Reason::ProgressingWithRetry, message, now);
}

/// Notes that no retries are left, or nothing to go back to. `advice` names what could not be done and the
/// remedy, and goes behind what Ready says.
pub fn stall(
    object: &mut Object<HelmRelease>,
    reason: Reason,
    message: &str,
    advice: Option<&str>,
    now: Timestamp,
) {
    let generation = object.metadata.generation;
    let conditions = &mut object.status.conditions;
    condition::mark_stalled(conditions, reason, message, generation, now);
    let said = find(conditions, READY)
        .map(|ready| (ready.status, ready.reason.clone(), ready.message.clone()));
    let Some(advice) = advice else {
        return;
    };
    if let Some((status, reason, message)) = said
        && status != ConditionStatus::True
        && !message.contains(advice)
    {
        let condition = Condition::new(READY, status, reason, format!("{message}; {advice}"));
        condition::set(conditions, condition, generation, now);
    }
}

/// What is going to be attempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempted<'a> {
    /// The version of the chart.
    pub chart_version: &'a str,
    /// The digest of its artifact, where it comes from an OCIRepository.
    pub oci_digest: Option<&'a str>,
    /// The digest of the values.
    pub config_digest: &'a str,
    /// Whether it was asked for that failures are forgotten.
    pub reset: bool,
}

/// Why failures of the past do not count any more; none when they do.
pub fn failure_reset(
    object: &Object<HelmRelease>,
    attempted: &Attempted<'_>,
) -> Option<&'static str> {
    let status = &object.status;
    if status.last_attempted_generation != object.metadata.generation {
        Some("generation differs from last attempt")
    } else if status.last_attempted_revision.as_deref() != Some(attempted.chart_version) {
        Some("chart version differs from last attempt")
    } else if status
        .last_attempted_config_digest
        .as_deref()
        .is_some_and(|digest| digest != attempted.config_digest)
    {
        Some("values differ from last attempt")
    } else if attempted.reset {
        Some("reset requested through annotation")
    } else {
        None
    }
}

/// Notes what is attempted. Failures of the past are forgotten when something else is attempted.
pub fn note_attempt(
    object: &mut Object<HelmRelease>,
    attempted: &Attempted<'_>,
    storage_namespace: &str,
) {
    if failure_reset(object, attempted).is_some() {
        clear_failures(object);
    }
    let generation = object.metadata.generation;
    let status = &mut object.status;
    status.storage_namespace = Some(storage_namespace.to_owned());
    status.last_attempted_generation = generation;
    status.last_attempted_revision = Some(attempted.chart_version.to_owned());
    status.last_attempted_revision_digest = attempted.oci_digest.map(str::to_owned);
    status.last_attempted_config_digest = Some(attempted.config_digest.to_owned());
    status.last_attempted_values_checksum = None;
    status.last_release_revision = 0;
}

pub(super) fn clear_failures(object: &mut Object<HelmRelease>) {
    object.status.failures = 0;
    object.status.install_failures = 0;
    object.status.upgrade_failures = 0;
}

/// Notes that an action is on its way. A release that is made or changed is neither ready nor not.
pub fn start_action(
    object: &mut Object<HelmRelease>,
    action: ActionKind,
    timeout: Duration,
    now: Timestamp,
) {
    let word = match action {
        ActionKind::UninstallRemediation => ActionKind::Uninstall.as_str(),
        other => other.as_str(),
    };
    let message = format!("Running '{word}' action with timeout of {timeout}");
    reconciling(object, Reason::Progressing, message.clone(), now);
    if matches!(action, ActionKind::Install | ActionKind::Upgrade) {
        let unknown = ConditionStatus::Unknown;
        ready(object, unknown, Reason::Progressing, message, now);
    }
}

/// Notes how an attempt ends; returns whether its generation counts as observed.
pub fn end_attempt(object: &mut Object<HelmRelease>, then: &Then, now: Timestamp) -> bool {
    match then {
        Then::GoOn => false,
        Then::Settled => {
            condition::remove(&mut object.status.conditions, RECONCILING);
            observe_generation(object)
        }
        Then::Requeue => {
            let said = find(&object.status.conditions, READY);
            let message = said.map(|ready| ready.message.clone()).unwrap_or_default();
            reconciling(object, Reason::ProgressingWithRetry, message, now);
            false
        }
        Then::RetryAfter(interval) => {
            let message = format!("retrying after {interval}");
            reconciling(object, Reason::ProgressingWithRetry, message, now);
            observe_generation(object)
        }
        Then::BackOff => {
            let is_ready = condition::is_true(&object.status.conditions, READY);
            if is_ready {
                not_ready(object, Reason::ReconcileError, "the attempt failed", now);
            }
            false
        }
        Then::Stall { message } => {
            stall(object, Reason::RetriesExceeded, message, None, now);
            observe_generation(object)
        }
    }
}

fn observe_generation(object: &mut Object<HelmRelease>) -> bool {
    object.status.observed_generation = object.metadata.generation;
    true
}

fn reconciling(
    object: &mut Object<HelmRelease>,
    reason: Reason,
    message: impl Into<String>,
    now: Timestamp,
) {
    let generation = object.metadata.generation;
    let conditions = &mut object.status.conditions;
    condition::remove(conditions, STALLED);
    condition::mark_reconciling(conditions, reason, message, generation, now);
}

pub(super) fn ready(
    object: &mut Object<HelmRelease>,
    status: ConditionStatus,
    reason: Reason,
    message: impl Into<String>,
    now: Timestamp,
) {
    mark(object, READY, status, reason, message, now);
}

/// Sets a condition for the present generation.
pub(super) fn mark(
    object: &mut Object<HelmRelease>,
    name: &str,
    status: ConditionStatus,
    reason: impl Into<String>,
    message: impl Into<String>,
    now: Timestamp,
) {
    let generation = object.metadata.generation;
    let condition = Condition::new(name, status, reason, message);
    condition::set(&mut object.status.conditions, condition, generation, now);
}
