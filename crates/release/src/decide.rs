//! What is to be done about a release, given how it stands.

use std::collections::BTreeSet;

use everflow_api::Reason;
use everflow_api::helm::{DriftDetectionMode, HelmRelease, RemediationStrategy};
use everflow_api::object::Object;
use everflow_time::{Duration, Timestamp};

use crate::action::{ActionKind, Plan};
use crate::record::{Status, Storage, StoredSummary};
use crate::remedy::{Remedy, active_retry};
use crate::state::{GoOn, State};

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nothing, but to tell the status what is true.
    Settle {
        /// Whether the status does not know of the release yet.
        adopt: bool,
    },
    /// Render the chart, and decide again.
    Render,
    /// Take a failed revision into the status, and decide again.
    Observe,
    /// Install.
    Install,
    /// Upgrade.
    Upgrade {
        /// Whether what the status remembers is no help any more.
        clears_history: bool,
        /// Why.
        why: String,
    },
    /// Run the tests.
    Test,
    /// Roll back.
    Rollback {
        /// To which revision.
        to: i64,
    },
    /// Uninstall, to put right a failure.
    UninstallRemediation,
    /// Put right objects that have drifted.
    CorrectDrift,
    /// Tell of objects that have drifted.
    ReportDrift,
    /// Go on with an action that was left in the middle.
    GoOn {
        /// Which.
        action: ActionKind,
        /// How.
        how: GoOn,
        /// Who left it, and how that is known; none when we did.
        from: Option<(String, String)>,
    },
    /// Wait for someone else.
    Wait {
        /// What is said meanwhile.
        message: String,
        /// When to look again at the latest, where that is known.
        until: Option<Timestamp>,
    },
    /// Nothing can be done before something else changes, or is looked at by someone.
    Refuse {
        /// The reason.
        reason: Reason,
        /// Why, and what can be done.
        message: String,
    },
    /// No retries are left. It is tried again slowly.
    Stall {
        /// The reason.
        reason: Reason,
        /// Why.
        message: String,
    },
}

/// What the operator of the engine has chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Defaults {
    /// Whether failed actions without a strategy are retried and not put right.
    pub retry_on_failure: bool,
}

/// Decides. `force` is a request of a person, or the slow retry of a release that is stalled.
pub fn decide(
    state: State,
    object: &Object<HelmRelease>,
    storage: &Storage,
    force: bool,
    defaults: Defaults,
) -> Decision {
    let upgrade = |why: &str| Decision::Upgrade {
        clears_history: false,
        why: why.to_owned(),
    };
    match state {
        State::InSync { .. } if force => upgrade("force requested"),
        State::InSync { is_observed } => Decision::Settle {
            adopt: !is_observed,
        },
        State::NeedsRendering => Decision::Render,
        State::Absent { .. } => match Remedy::of_install(object) {
            remedy if remedy.is_exhausted() && !force => stalled(object, remedy),
            _ => Decision::Install,
        },
        State::Unmanaged { why } => Decision::Upgrade {
            clears_history: true,
            why,
        },
        State::OutOfSync { why } => match Remedy::of_upgrade(object) {
            remedy if remedy.is_exhausted() && !force => stalled(object, remedy),
            _ => upgrade(why),
        },
        State::Untested => Decision::Test,
        State::Drifted => match drift_mode(object) {
            DriftDetectionMode::Enabled => Decision::CorrectDrift,
            _ => Decision::ReportDrift,
        },
        State::Failed {
            is_observed: false, ..
        } => Decision::Observe,
        State::Failed { .. } => failed(object, storage, force, defaults),
        State::Interrupted { action, how, from } => Decision::GoOn { action, how, from },
        State::Locked {
            status,
            by,
            since,
            until,
        } => Decision::Wait {
            message: waiting_message(object, status, &by, since, until),
            until,
        },
        State::OwnedByOther { owner } => Decision::Refuse {
            reason: Reason::StateError,
            message: format!(
                "HelmRelease {}/{} owns this release: two HelmReleases must not have one release name and \
                 storage namespace; set spec.releaseName or spec.storageNamespace to something else, or \
                 delete one of them",
                owner.0, owner.1
            ),
        },
        State::Unreadable { message } => Decision::Refuse {
            reason: Reason::StateError,
            message: format!("Could not determine release state: {message}"),
        },
    }
}

/// How drift is dealt with.
pub fn drift_mode(object: &Object<HelmRelease>) -> DriftDetectionMode {
    let detection = object.spec.drift_detection.as_ref();
    detection
        .and_then(|detection| detection.mode)
        .unwrap_or(DriftDetectionMode::Disabled)
}

fn stalled(object: &Object<HelmRelease>, remedy: Remedy) -> Decision {
    let active = Remedy::active(object).unwrap_or(remedy);
    Decision::Stall {
        reason: Reason::RetriesExceeded,
        message: active.exhausted_message(),
    }
}

fn failed(
    object: &Object<HelmRelease>,
    storage: &Storage,
    force: bool,
    defaults: Defaults,
) -> Decision {
    let upgrade = |why: &str| Decision::Upgrade {
        clears_history: false,
        why: why.to_owned(),
    };
    if active_retry(object, defaults.retry_on_failure).is_some() {
        return upgrade("retrying failed release");
    }
    let Some(remedy) = Remedy::active(object) else {
        return upgrade("no active remediation strategy");
    };
    if remedy.failures <= 0 {
        return upgrade("release conditions have changed since last failure");
    }
    if force {
        return upgrade("force requested");
    }
    if remedy.is_exhausted() && !remedy.remediates_last {
        return stalled(object, remedy);
    }
    match remedy.strategy {
        RemediationStrategy::Uninstall => Decision::UninstallRemediation,
        RemediationStrategy::Rollback => {
            match rollback_target(object, storage, remedy.ignores_tests) {
                Some(target) => Decision::Rollback {
                    to: target.summary.version,
                },
                None => Decision::Stall {
                    reason: Reason::MissingRollbackTarget,
                    message: "Failed to perform remediation: missing target release for rollback: no \
                              older revision in storage is deployed or superseded; a change of the chart, \
                              the values or the spec starts afresh"
                        .to_owned(),
                },
            }
        }
    }
}

/// The revision to roll back to, as it is found in storage: what is deployed, or else the newest that was.
/// One whose tests failed is none, unless they are ignored.
pub fn rollback_target<'s>(
    object: &Object<HelmRelease>,
    storage: &'s Storage,
    ignores_tests: bool,
) -> Option<&'s StoredSummary> {
    let newest = storage.records().next_back()?.summary.version;
    let has_failed_tests = |stored: &StoredSummary| {
        let remembered = object
            .status
            .history
            .iter()
            .find(|snapshot| snapshot.version == stored.summary.version);
        match remembered {
            Some(snapshot) => snapshot.has_failed_test(),
            None => false,
        }
    };
    let is_target = |stored: &&StoredSummary| {
        stored.summary.version < newest && (ignores_tests || !has_failed_tests(stored))
    };
    let with = |status: Status| {
        storage
            .records()
            .rev()
            .filter(is_target)
            .find(move |stored| stored.summary.status == status)
    };
    with(Status::Deployed).or_else(|| with(Status::Superseded))
}

fn waiting_message(
    object: &Object<HelmRelease>,
    status: Status,
    by: &str,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
) -> String {
    let target = crate::names::ReleaseTarget::of(object);
    let since = since.map_or_else(String::new, |since| format!(" (last heard of at {since})"));
    let end = match until {
        Some(until) => format!("it is taken over at {until} if nothing is heard until then"),
        None => "it is not taken over; if nobody is at work any more, run 'flux reconcile --force' after \
                 'helm rollback' or delete the record"
            .to_owned(),
    };
    format!(
        "another operation is in progress: {by} is at work on release {}/{}, which is in status \
         {status}{since}; {end}",
        target.namespace, target.name
    )
}

/// Why a release cannot be installed under its name, in Helm's words; none when it can.
pub fn name_in_use(storage: &Storage, plan: &Plan) -> Option<&'static str> {
    let last = storage.records().next_back()?;
    let may_replace = matches!(last.summary.status, Status::Uninstalled | Status::Failed);
    let is_free = plan.replace_release && may_replace;
    (!is_free).then_some("release name check failed: cannot reuse a name that is still in use")
}

/// A kind of action, of which each is done at most once in one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActionType {
    /// Installs and upgrades.
    Release,
    /// Tests.
    Test,
    /// Rollbacks and uninstalls after a failure.
    Remediate,
    /// Corrections of drift.
    Drift,
    /// Ends of actions that were left in the middle.
    Unlock,
}

impl Decision {
    /// Its kind, if it is an action.
    pub fn action_type(&self) -> Option<ActionType> {
        let of = |action: &ActionKind| match action {
            ActionKind::Install | ActionKind::Upgrade | ActionKind::Uninstall => {
                ActionType::Release
            }
            ActionKind::Rollback | ActionKind::UninstallRemediation => ActionType::Remediate,
            ActionKind::Test => ActionType::Test,
        };
        match self {
            Decision::Install | Decision::Upgrade { .. } => Some(ActionType::Release),
            Decision::Test => Some(ActionType::Test),
            Decision::Rollback { .. } | Decision::UninstallRemediation => {
                Some(ActionType::Remediate)
            }
            Decision::CorrectDrift => Some(ActionType::Drift),
            Decision::GoOn {
                how: GoOn::Abandon, ..
            } => Some(ActionType::Unlock),
            Decision::GoOn { action, .. } => Some(of(action)),
            _ => None,
        }
    }
}

/// How an attempt goes on or ends after an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Then {
    /// The state is found out again.
    GoOn,
    /// The attempt ends, and the next one comes after the interval.
    Settled,
    /// The attempt ends, and the next one comes at once.
    Requeue,
    /// The attempt ends, and the next one comes after so long.
    RetryAfter(Duration),
    /// The attempt ends with an error; the next one comes after a growing pause.
    BackOff,
    /// The attempt ends; no retries are left.
    Stall {
        /// Why.
        message: String,
    },
}

/// What was done in one attempt.
#[derive(Debug, Clone, Default)]
pub struct Attempt {
    done: BTreeSet<ActionType>,
}

impl Attempt {
    /// Whether a decision may be carried out in this attempt; if not, how the attempt ends.
    ///
    /// # Errors
    /// Says how the attempt ends.
    pub fn may(
        &self,
        decision: &Decision,
        object: &Object<HelmRelease>,
        defaults: Defaults,
    ) -> Result<(), Then> {
        let is_new = decision
            .action_type()
            .is_none_or(|action| !self.done.contains(&action));
        if is_new {
            return Ok(());
        }
        if let Some(interval) = active_retry(object, defaults.retry_on_failure) {
            return Err(Then::RetryAfter(interval));
        }
        match Remedy::active(object) {
            Some(remedy) if remedy.is_exhausted() => Err(Then::Settled),
            _ => Err(Then::Requeue),
        }
    }

    /// Notes that a decision was carried out, and says how the attempt goes on. `stored` is false for a
    /// failure that changed nothing in storage.
    pub fn did(
        &mut self,
        decision: &Decision,
        stored: bool,
        object: &Object<HelmRelease>,
        defaults: Defaults,
    ) -> Then {
        let retry = active_retry(object, defaults.retry_on_failure);
        if !stored {
            return retry.map_or(Then::BackOff, Then::RetryAfter);
        }
        let action = decision.action_type();
        self.done.extend(action);
        if action != Some(ActionType::Remediate) {
            return Then::GoOn;
        }
        if let Some(interval) = retry {
            return Then::RetryAfter(interval);
        }
        match Remedy::active(object) {
            Some(remedy) if remedy.is_exhausted() && !remedy.uninstalls_after_upgrade() => {
                Then::Stall {
                    message: remedy.exhausted_message(),
                }
            }
            _ => Then::Requeue,
        }
    }
}
