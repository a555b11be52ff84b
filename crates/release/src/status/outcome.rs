//! What a HelmRelease tells when an action has ended.

use everflow_api::Reason;
use everflow_api::common::Elapsed;
use everflow_api::condition::{self, ConditionStatus};
use everflow_api::helm::{AttemptedAction, HelmRelease, ReleaseSnapshot, latest};
use everflow_api::inventory::ResourceInventory;
use everflow_api::names::condition::{RELEASED, REMEDIATED, TEST_SUCCESS};
use everflow_api::object::Object;
use everflow_time::{Duration, Timestamp};

use super::attempt::{clear_failures, mark};
use super::history::{observe, observe_tests};
use super::messages;
use super::notice::{About, Notice};
use super::settle::{summarize, truncate_history};
use crate::action::{ActionKind, Outcome};
use crate::decide::Defaults;
use crate::names::{ReleaseTarget, requested_name};
use crate::record::Summary;
use crate::remedy::{Remedy, install_retry, upgrade_retry};

/// An action that has ended.
#[derive(Debug)]
pub struct Ended<'a> {
    /// Which action.
    pub action: ActionKind,
    /// How it ended.
    pub outcome: &'a Outcome,
    /// The records that it wrote: the one that it is about, then those that it changed on the way, and of a
    /// failed upgrade or rollback the one that it started from.
    pub written: &'a [&'a Summary],
    /// The name and the version of the chart that was to be released.
    pub chart: (&'a str, &'a str),
    /// The version of what that chart installs.
    pub app_version: &'a str,
    /// The digest of the values that were to be released.
    pub config_digest: &'a str,
    /// The revision that was to be rolled back to.
    pub target: Option<&'a Summary>,
    /// The objects of the release.
    pub inventory: Option<ResourceInventory>,
    /// How long it took.
    pub duration: Duration,
    /// What was done last, a line for each step.
    pub log: &'a [String],
    /// What the operator has chosen.
    pub defaults: Defaults,
}

/// Brings the status to what is true after an action, and gives the event to tell.
pub fn ended(object: &mut Object<HelmRelease>, ended: &Ended<'_>, now: Timestamp) -> Vec<Notice> {
    let notice = match ended.action {
        ActionKind::Install | ActionKind::Upgrade => released(object, ended, now),
        ActionKind::Test => tested(object, ended, now),
        ActionKind::Rollback => rolled_back(object, ended, now),
        ActionKind::Uninstall | ActionKind::UninstallRemediation => uninstalled(object, ended, now),
    };
    // An uninstall that puts right a failure leaves Ready to tell of the failure.
    if ended.action != ActionKind::UninstallRemediation {
        summarize(object, now);
    }
    notice.into_iter().collect()
}

fn failure(outcome: &Outcome) -> Option<(&str, bool)> {
    match outcome {
        Outcome::Succeeded => None,
        Outcome::Failed { message, stored } => Some((message, *stored)),
    }
}

fn released(object: &mut Object<HelmRelease>, ended: &Ended<'_>, now: Timestamp) -> Option<Notice> {
    let is_install = ended.action == ActionKind::Install;
    let (attempted, word) = match is_install {
        true => (AttemptedAction::Install, "install"),
        false => (AttemptedAction::Upgrade, "upgrade"),
    };
    object.status.last_attempted_release_action = Some(attempted);
    object.status.last_attempted_release_action_duration = Some(Elapsed(ended.duration));
    condition::remove(&mut object.status.conditions, TEST_SUCCESS);
    condition::remove(&mut object.status.conditions, REMEDIATED);
    if is_install {
        object.status.history.clear();
    }
    observe(object, ended.action, ended.written);
    if !ended.written.is_empty() {
        object.status.inventory.clone_from(&ended.inventory);
    }
    let Some((why, stored)) = failure(ended.outcome) else {
        return released_well(object, is_install, ended.defaults, now);
    };
    object.status.failures += 1;
    if stored {
        match is_install {
            true => object.status.install_failures += 1,
            false => object.status.upgrade_failures += 1,
        }
    }
    let namespace = ReleaseTarget::of(object).namespace;
    let name = requested_name(object);
    let chart = format!("{}@{}", ended.chart.0, ended.chart.1);
    let message = messages::release_failed(word, &namespace, &name, &chart, why);
    let reason = match is_install {
        true => Reason::InstallFailed,
        false => Reason::UpgradeFailed,
    };
    mark(
        object,
        RELEASED,
        ConditionStatus::False,
        reason,
        message.clone(),
        now,
    );
    let about = About {
        chart_version: ended.chart.1,
        config_digest: ended.config_digest,
        app_version: ended.app_version,
        oci_digest: object
            .status
            .last_attempted_revision_digest
            .as_deref()
            .unwrap_or_default(),
    };
    Some(Notice::warning(reason, message, &about).with_log(ended.log))
}

fn released_well(
    object: &mut Object<HelmRelease>,
    is_install: bool,
    defaults: Defaults,
    now: Timestamp,
) -> Option<Notice> {
    let current = latest(&object.status.history)?.clone();
    let (release, chart) = (current.full_name(), current.chart());
    let (word, reason) = match is_install {
        true => ("install", Reason::InstallSucceeded),
        false => ("upgrade", Reason::UpgradeSucceeded),
    };
    let message = messages::release_succeeded(word, &release, &chart);
    mark(
        object,
        RELEASED,
        ConditionStatus::True,
        reason,
        message.clone(),
        now,
    );
    let tests = object.spec.test.as_ref().is_some_and(|test| test.enable);
    if tests && !current.has_been_tested() {
        let message = format!("Helm release {release} with chart {chart} is awaiting tests");
        let unknown = ConditionStatus::Unknown;
        mark(
            object,
            TEST_SUCCESS,
            unknown,
            Reason::AwaitingTests,
            message,
            now,
        );
    }
    let retries = match is_install {
        true => install_retry(object, defaults.retry_on_failure),
        false => upgrade_retry(object, defaults.retry_on_failure),
    };
    if retries.is_some() {
        clear_failures(object);
    }
    Some(Notice::normal(reason, message, &About::snapshot(&current)))
}

fn tested(object: &mut Object<HelmRelease>, ended: &Ended<'_>, now: Timestamp) -> Option<Notice> {
    if let Some(record) = ended.written.first() {
        observe_tests(object, record);
    }
    let current = latest(&object.status.history)?.clone();
    let (release, chart) = (current.full_name(), current.chart());
    let about = About::snapshot(&current);
    let Some((why, _)) = failure(ended.outcome) else {
        let count = current.test_hooks.as_ref().map_or(0, |hooks| hooks.len());
        let message = messages::tested(&release, &chart, Ok(count));
        let reason = Reason::TestSucceeded;
        mark(
            object,
            TEST_SUCCESS,
            ConditionStatus::True,
            reason,
            message.clone(),
            now,
        );
        return Some(Notice::normal(reason, message, &about));
    };
    object.status.failures += 1;
    let message = messages::tested(&release, &chart, Err(why));
    let reason = Reason::TestFailed;
    mark(
        object,
        TEST_SUCCESS,
        ConditionStatus::False,
        reason,
        message.clone(),
        now,
    );
    let remedy = Remedy::active(object);
    if let Some(remedy) = remedy.filter(|remedy| current.has_been_tested() && !remedy.ignores_tests)
    {
        match remedy.of {
            AttemptedAction::Install => object.status.install_failures += 1,
            AttemptedAction::Upgrade => object.status.upgrade_failures += 1,
        }
    }
    Some(Notice::warning(reason, message, &about))
}

fn rolled_back(
    object: &mut Object<HelmRelease>,
    ended: &Ended<'_>,
    now: Timestamp,
) -> Option<Notice> {
    truncate_for_remedy(object, ended.defaults);
    observe(object, ended.action, ended.written);
    if !ended.written.is_empty() {
        object.status.inventory.clone_from(&ended.inventory);
    }
    let target = ended.target?;
    let about = About {
        chart_version: &target.chart_version,
        config_digest: ended.config_digest,
        app_version: &target.app_version,
        oci_digest: "",
    };
    let why = failure(ended.outcome).map(|(why, _)| why);
    let message = messages::rollback(&target.full_name(), &target.chart(), why);
    Some(match why {
        None => {
            let reason = Reason::RollbackSucceeded;
            mark(
                object,
                REMEDIATED,
                ConditionStatus::True,
                reason,
                message.clone(),
                now,
            );
            Notice::normal(reason, message, &about)
        }
        Some(_) => {
            object.status.failures += 1;
            let reason = Reason::RollbackFailed;
            mark(
                object,
                REMEDIATED,
                ConditionStatus::False,
                reason,
                message.clone(),
                now,
            );
            Notice::warning(reason, message, &about).with_log(ended.log)
        }
    })
}

/// The history is cut before a failure is put right, so that failures do not pile up in it.
fn truncate_for_remedy(object: &mut Object<HelmRelease>, defaults: Defaults) {
    truncate_history(object, defaults);
}

fn uninstalled(
    object: &mut Object<HelmRelease>,
    ended: &Ended<'_>,
    now: Timestamp,
) -> Option<Notice> {
    let is_remedy = ended.action == ActionKind::UninstallRemediation;
    if is_remedy {
        truncate_for_remedy(object, ended.defaults);
    }
    observe(object, ended.action, ended.written);
    let current = latest(&object.status.history)?.clone();
    let (release, chart) = (current.full_name(), current.chart());
    let why = failure(ended.outcome).map(|(why, _)| why);
    let message = match (is_remedy, why) {
        (true, why) => messages::uninstall_remediation(&release, &chart, why),
        (false, None) => messages::release_succeeded("uninstall", &release, &chart),
        (false, Some(why)) => uninstall_failed(&current, why),
    };
    let about = About::snapshot(&current);
    let (condition, status) = match (is_remedy, why) {
        (true, None) => (REMEDIATED, ConditionStatus::True),
        (true, Some(_)) => (REMEDIATED, ConditionStatus::False),
        (false, _) => (RELEASED, ConditionStatus::False),
    };
    Some(match why {
        None => {
            if !is_remedy {
                object.status.inventory = None;
            }
            let reason = Reason::UninstallSucceeded;
            mark(object, condition, status, reason, message.clone(), now);
            Notice::normal(reason, message, &about)
        }
        Some(_) => {
            object.status.failures += 1;
            let reason = Reason::UninstallFailed;
            mark(object, condition, status, reason, message.clone(), now);
            Notice::warning(reason, message, &about).with_log(ended.log)
        }
    })
}

fn uninstall_failed(current: &ReleaseSnapshot, why: &str) -> String {
    format!(
        "Helm uninstall failed for release {} with chart {}: {}",
        current.full_name(),
        current.chart(),
        why.trim()
    )
}

/// Notes that there was nothing left to uninstall: someone else has done it.
pub fn uninstalled_by_other(object: &mut Object<HelmRelease>, is_kept: bool, now: Timestamp) {
    let Some(current) = latest(&object.status.history) else {
        return;
    };
    let release = current.full_name();
    let message = match is_kept {
        true => format!("Release {release} was already uninstalled"),
        false => format!("Release {release} was not found, assuming it is uninstalled"),
    };
    mark(
        object,
        RELEASED,
        ConditionStatus::False,
        Reason::UninstallSucceeded,
        message,
        now,
    );
    summarize(object, now);
}

/// Tells that an action that someone left in the middle is gone on with.
pub fn taken_over(record: &Summary, by: &str, proof: &str) -> Notice {
    let snapshot = crate::record::snapshot(record, None, None);
    let message = format!(
        "Took over Helm release {} with chart {} in {} state from {by}: {proof}",
        record.full_name(),
        record.chart(),
        record.status,
    );
    Notice::normal(Reason::PendingRelease, message, &About::snapshot(&snapshot))
}

/// Notes that an action was broken off, because something newer is asked for. That is no failure of the
/// release, and does not count as one.
pub fn abandoned(
    object: &mut Object<HelmRelease>,
    record: &Summary,
    action: ActionKind,
    now: Timestamp,
) -> Notice {
    observe(object, action, &[record]);
    let (release, chart) = (record.full_name(), record.chart());
    let message = format!(
        "Helm {action} of release {release} with chart {chart} was broken off: something newer is asked for"
    );
    mark(
        object,
        RELEASED,
        ConditionStatus::False,
        Reason::PendingRelease,
        message.clone(),
        now,
    );
    summarize(object, now);
    let snapshot = crate::record::snapshot(record, None, None);
    Notice::normal(Reason::PendingRelease, message, &About::snapshot(&snapshot))
}
