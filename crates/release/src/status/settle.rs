//! What a HelmRelease tells when its release is what is asked for.

use everflow_api::Reason;
use everflow_api::condition::{self, Condition, ConditionStatus, find, is_true};
use everflow_api::helm::DriftDetectionMode;
use everflow_api::helm::{AttemptedAction, HelmRelease, latest, truncate, truncate_to_newest};
use everflow_api::names::condition::{
    DRIFTED, READY, RECONCILING, RELEASED, REMEDIATED, STALLED, TEST_SUCCESS,
};
use everflow_api::object::Object;
use everflow_time::Timestamp;

use super::attempt::mark;
use super::messages;
use crate::action::ActionKind;
use crate::decide::{Defaults, drift_mode};
use crate::remedy::{active_ignores_tests, active_retry, ignores_tests};
use crate::render::{common_metadata_digest, post_renderers_digest};

/// Brings the status to what is true of a release that is what is asked for, whatever it said before.
pub fn settle(object: &mut Object<HelmRelease>, defaults: Defaults, now: Timestamp) {
    truncate_history(object, defaults);
    let Some(current) = latest(&object.status.history).cloned() else {
        return;
    };
    let (release, chart) = (current.full_name(), current.chart());
    let succeeded = |action: &str| messages::release_succeeded(action, &release, &chart);
    if is_true(&object.status.conditions, REMEDIATED) {
        // What it was rolled back to is what is asked for by now.
        condition::remove(&mut object.status.conditions, REMEDIATED);
        let message = succeeded("upgrade");
        mark(
            object,
            RELEASED,
            ConditionStatus::True,
            Reason::UpgradeSucceeded,
            message,
            now,
        );
    }
    let conditions = &object.status.conditions;
    if !is_true(conditions, READY) || !is_true(conditions, RELEASED) {
        let said = find(conditions, RELEASED).map(|released| released.reason.as_str());
        let action = match said.and_then(Reason::from_text) {
            Some(Reason::InstallFailed) => Some(ActionKind::Install),
            Some(Reason::UpgradeFailed) => Some(ActionKind::Upgrade),
            Some(Reason::InstallSucceeded | Reason::UpgradeSucceeded) => None,
            // The status was lost, or speaks of an action that was left in the middle.
            _ => Some(made_by(object, &current)),
        };
        if let Some(action) = action {
            let reason = match action {
                ActionKind::Install => Reason::InstallSucceeded,
                // Somebody went back to what is asked for, with the helm CLI.
                ActionKind::Rollback => Reason::RollbackSucceeded,
                _ => Reason::UpgradeSucceeded,
            };
            let message = succeeded(action.as_str());
            let done = ConditionStatus::True;
            mark(object, RELEASED, done, reason, message, now);
        }
    }
    let tests = object.spec.test.as_ref().is_some_and(|test| test.enable);
    if tests && current.has_been_tested() && find(&object.status.conditions, TEST_SUCCESS).is_none()
    {
        // The status that told of the tests was lost.
        let count = current.test_hooks.as_ref().map_or(0, |hooks| hooks.len());
        let (status, reason, message) = match current.has_failed_test() {
            false => (
                ConditionStatus::True,
                Reason::TestSucceeded,
                messages::tested(&release, &chart, Ok(count)),
            ),
            true => (
                ConditionStatus::False,
                Reason::TestFailed,
                messages::tested(&release, &chart, Err("a test has failed")),
            ),
        };
        mark(object, TEST_SUCCESS, status, reason, message, now);
    }
    if drift_mode(object) != DriftDetectionMode::Disabled {
        let message = "No drift detected against the cluster state";
        mark(
            object,
            DRIFTED,
            ConditionStatus::False,
            Reason::NoDriftDetected,
            message,
            now,
        );
    }
    condition::remove(&mut object.status.conditions, RECONCILING);
    summarize(object, now);
}

/// The action that made a revision, as far as it is known.
fn made_by(
    object: &Object<HelmRelease>,
    current: &everflow_api::helm::ReleaseSnapshot,
) -> ActionKind {
    match current.action.as_deref().and_then(ActionKind::of) {
        Some(action @ (ActionKind::Install | ActionKind::Rollback)) => action,
        Some(_) => ActionKind::Upgrade,
        None if object.status.last_attempted_release_action == Some(AttemptedAction::Install) => {
            ActionKind::Install
        }
        None => ActionKind::Upgrade,
    }
}

pub(super) fn truncate_history(object: &mut Object<HelmRelease>, defaults: Defaults) {
    match active_retry(object, defaults.retry_on_failure) {
        Some(_) => truncate_to_newest(&mut object.status.history),
        None => {
            let ignores = active_ignores_tests(object);
            truncate(&mut object.status.history, ignores);
        }
    }
}

/// Derives Ready from Remediated, TestSuccess and Released: from what tells of the newest generation, and
/// among that in this order. Something that was put right is not ready.
pub fn summarize(object: &mut Object<HelmRelease>, now: Timestamp) {
    let tests = object.spec.test.as_ref().is_some_and(|test| test.enable);
    if !tests {
        condition::remove(&mut object.status.conditions, TEST_SUCCESS);
    }
    let counted: &[&str] = match tests && !ignores_tests(object) {
        true => &[REMEDIATED, TEST_SUCCESS, RELEASED],
        false => &[REMEDIATED, RELEASED],
    };
    let conditions = &mut object.status.conditions;
    let newest = counted
        .iter()
        .filter_map(|name| find(conditions, name))
        .rev()
        .max_by_key(|condition| condition.observed_generation);
    let generation = object.metadata.generation;
    if let Some(newest) = newest {
        let status = match newest.condition_type == REMEDIATED {
            true => ConditionStatus::False,
            false => newest.status,
        };
        let ready = Condition::new(READY, status, &newest.reason, &newest.message);
        if status == ConditionStatus::True {
            condition::remove(conditions, STALLED);
        }
        condition::set(conditions, ready, generation, now);
    }
    let digest = |digest: String| Some(digest).filter(|digest| !digest.is_empty());
    object.status.observed_post_renderers_digest = digest(post_renderers_digest(object));
    object.status.observed_common_metadata_digest = digest(common_metadata_digest(object));
}
