//! What is to be done when an action fails, as the spec has it, and what people ask for by annotations.

use everflow_api::helm::{
    ActionStrategy, ActionStrategyName, AttemptedAction, HelmRelease, RemediationStrategy,
};
use everflow_api::names::annotation;
use everflow_api::object::Object;
use everflow_time::Duration;

/// When an action is tried again with the strategy RetryOnFailure, if nothing is said.
const RETRY_INTERVAL: Duration = Duration::from_seconds(300);

/// How failures of an action are put right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remedy {
    /// The action.
    pub of: AttemptedAction,
    /// How often to try again, negative for ever.
    pub retries: i64,
    /// How often it has failed in a row.
    pub failures: i64,
    /// Whether failed tests do not count.
    pub ignores_tests: bool,
    /// Whether the last failure is put right, too.
    pub remediates_last: bool,
    /// How.
    pub strategy: RemediationStrategy,
}

impl Remedy {
    /// Of installs.
    pub fn of_install(object: &Object<HelmRelease>) -> Self {
        let install = object.spec.install.as_ref();
        let remediation = install.and_then(|install| install.remediation.as_ref());
        Remedy {
            of: AttemptedAction::Install,
            retries: remediation.map_or(0, |remediation| remediation.retries),
            failures: object.status.install_failures,
            ignores_tests: remediation
                .and_then(|remediation| remediation.ignore_test_failures)
                .unwrap_or(ignores_tests(object)),
            remediates_last: remediation
                .and_then(|remediation| remediation.remediate_last_failure)
                .unwrap_or(false),
            strategy: RemediationStrategy::Uninstall,
        }
    }

    /// Of upgrades.
    pub fn of_upgrade(object: &Object<HelmRelease>) -> Self {
        let upgrade = object.spec.upgrade.as_ref();
        let remediation = upgrade.and_then(|upgrade| upgrade.remediation.as_ref());
        let retries = remediation.map_or(0, |remediation| remediation.retries);
        Remedy {
            of: AttemptedAction::Upgrade,
            retries,
            failures: object.status.upgrade_failures,
            ignores_tests: remediation
                .and_then(|remediation| remediation.ignore_test_failures)
                .unwrap_or(ignores_tests(object)),
            remediates_last: remediation
                .and_then(|remediation| remediation.remediate_last_failure)
                .unwrap_or(retries > 0),
            strategy: remediation
                .and_then(|remediation| remediation.strategy)
                .unwrap_or(RemediationStrategy::Rollback),
        }
    }

    /// Of what was attempted last; none when nothing was.
    pub fn active(object: &Object<HelmRelease>) -> Option<Self> {
        match object.status.last_attempted_release_action? {
            AttemptedAction::Install => Some(Remedy::of_install(object)),
            AttemptedAction::Upgrade => Some(Remedy::of_upgrade(object)),
        }
    }

    /// Whether no retries are left.
    pub fn is_exhausted(&self) -> bool {
        self.retries >= 0 && self.failures > self.retries
    }

    /// Whether an upgrade is put right by an uninstall, after which it is installed anew.
    pub fn uninstalls_after_upgrade(&self) -> bool {
        self.of == AttemptedAction::Upgrade && self.strategy == RemediationStrategy::Uninstall
    }

    /// `Failed to ACTION after N attempt(s)`.
    pub fn exhausted_message(&self) -> String {
        format!("Failed to {} after {} attempt(s)", self.of, self.failures)
    }
}

/// Whether failed tests are ignored where no remediation says otherwise.
pub fn ignores_tests(object: &Object<HelmRelease>) -> bool {
    let test = object.spec.test.as_ref();
    test.is_some_and(|test| test.ignore_failures)
}

/// Whether failed tests are ignored by what is active.
pub fn active_ignores_tests(object: &Object<HelmRelease>) -> bool {
    Remedy::active(object).map_or(ignores_tests(object), |remedy| remedy.ignores_tests)
}

/// When an install is tried again without being put right; none when it is put right.
pub fn install_retry(object: &Object<HelmRelease>, by_default: bool) -> Option<Duration> {
    let install = object.spec.install.as_ref();
    retry(
        install.and_then(|install| install.strategy.as_ref()),
        by_default,
    )
}

/// The same for an upgrade.
pub fn upgrade_retry(object: &Object<HelmRelease>, by_default: bool) -> Option<Duration> {
    let upgrade = object.spec.upgrade.as_ref();
    retry(
        upgrade.and_then(|upgrade| upgrade.strategy.as_ref()),
        by_default,
    )
}

/// The same for what was attempted last.
pub fn active_retry(object: &Object<HelmRelease>, by_default: bool) -> Option<Duration> {
    match object.status.last_attempted_release_action? {
        AttemptedAction::Install => install_retry(object, by_default),
        AttemptedAction::Upgrade => upgrade_retry(object, by_default),
    }
}

fn retry(strategy: Option<&ActionStrategy>, by_default: bool) -> Option<Duration> {
    match strategy {
        None => by_default.then_some(RETRY_INTERVAL),
        Some(strategy) => (strategy.name == ActionStrategyName::RetryOnFailure)
            .then(|| strategy.retry_interval.unwrap_or(RETRY_INTERVAL)),
    }
}

/// What people ask for by annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requests {
    /// To release although nothing has changed, or no retries are left.
    pub force: bool,
    /// To forget the failures.
    pub reset: bool,
}

/// What is asked for and has not been heeded yet. The status remembers the values of the annotations, heeded
/// or not; to be heeded one must be that of the request for an attempt.
pub fn take_requests(object: &mut Object<HelmRelease>) -> Requests {
    let annotations = &object.metadata.annotations;
    let value = |name: &str| {
        let value = annotations.get(name).cloned();
        value.filter(|value| !value.is_empty())
    };
    let requested = value(annotation::REQUESTED_AT);
    let force = value(annotation::FORCE_AT);
    let reset = value(annotation::RESET_AT);
    let status = &mut object.status;
    let is_new = requested.is_some() && requested != status.last_handled_reconcile_at;
    let take = |asked: Option<String>, handled: &mut Option<String>| {
        let is_asked = is_new && asked.is_some() && asked == requested && *handled != asked;
        if asked.is_some() {
            *handled = asked;
        }
        is_asked
    };
    Requests {
        force: take(force, &mut status.last_handled_force_at),
        reset: take(reset, &mut status.last_handled_reset_at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::{Value, json};

    fn object(annotations: Value, status: Value) -> Object<HelmRelease> {
        let metadata = json!({"name": "web", "namespace": "apps", "annotations": annotations});
        let spec = json!({"interval": "1h"});
        Object::read(&json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn annotations(requested: &str, force: &str) -> Value {
        json!({
            "reconcile.fluxcd.io/requestedAt": requested, "reconcile.fluxcd.io/forceAt": force,
        })
    }

    #[test]
    fn force_counts_once_and_only_with_a_request_of_the_same_value() {
        let mut asked = object(annotations("f1", "f1"), json!({}));
        assert!(take_requests(&mut asked).force);
        assert_eq!(asked.status.last_handled_force_at.as_deref(), Some("f1"));
        let status = json!({"lastHandledForceAt": "f1", "lastHandledReconcileAt": "f1"});
        let mut again = object(annotations("f1", "f1"), status.clone());
        assert!(!take_requests(&mut again).force);
        // A value that does not fit is remembered all the same.
        let mut other = object(annotations("f4", "f3"), status);
        assert!(!take_requests(&mut other).force);
        assert_eq!(other.status.last_handled_force_at.as_deref(), Some("f3"));
    }

    #[test]
    fn an_upgrade_with_retries_puts_right_its_last_failure_and_an_install_does_not() {
        let with = |spec: Value| {
            let mut object = object(json!({}), json!({}));
            let read = Object::<HelmRelease>::read_spec(&json!({"spec": spec})).unwrap();
            object.spec = read;
            object
        };
        let retries = json!({"remediation": {"retries": 2}});
        let object = with(json!({"interval": "1h", "install": retries, "upgrade": retries}));
        assert!(!Remedy::of_install(&object).remediates_last);
        let upgrade = Remedy::of_upgrade(&object);
        assert!(upgrade.remediates_last && !upgrade.is_exhausted());
        assert!(
            Remedy {
                failures: 3,
                ..upgrade
            }
            .is_exhausted()
        );
        let endless = Remedy {
            failures: 99,
            retries: -1,
            ..upgrade
        };
        assert!(!endless.is_exhausted());
        assert_eq!(Remedy::active(&object), None);
    }

    #[test]
    fn a_retry_interval_belongs_to_its_action() {
        let spec = json!({"interval": "1h", "install": {"strategy": {"name": "RetryOnFailure"}}});
        let mut object = object(json!({}), json!({}));
        object.spec = Object::<HelmRelease>::read_spec(&json!({"spec": spec})).unwrap();
        assert_eq!(install_retry(&object, false), Some(RETRY_INTERVAL));
        assert_eq!(upgrade_retry(&object, false), None);
        assert_eq!(upgrade_retry(&object, true), Some(RETRY_INTERVAL));
        assert_eq!(active_retry(&object, false), None);
        object.status.last_attempted_release_action = Some(AttemptedAction::Install);
        assert_eq!(active_retry(&object, false), Some(RETRY_INTERVAL));
    }
}
