//! How to install, upgrade, test, roll back and uninstall.

use everflow_time::Duration;

use crate::common::DURATION;

choice! {
    /// What to do with the CRDs of a chart.
    pub enum CrdsPolicy {
        /// Nothing.
        Skip = "Skip",
        /// Create those that are missing.
        Create = "Create",
        /// Create and replace them.
        CreateReplace = "CreateReplace",
    }
}

choice! {
    /// Whether the server merges.
    pub enum ServerSideApplyMode {
        /// It does.
        Enabled = "enabled",
        /// It does not.
        Disabled = "disabled",
        /// As in the release before.
        Auto = "auto",
    }
}

choice! {
    /// What to do when a chart of another name is to be released.
    pub enum ChartNameChangeStrategy {
        /// Upgrade.
        InPlaceUpdate = "InPlaceUpdate",
        /// Uninstall, then install.
        Reinstall = "Reinstall",
    }
}

choice! {
    /// What to do after a failure.
    pub enum ActionStrategyName {
        /// Roll back or uninstall, and stop after some retries.
        RemediateOnFailure = "RemediateOnFailure",
        /// Try again.
        RetryOnFailure = "RetryOnFailure",
    }
}

choice! {
    /// How to put right a failed upgrade.
    pub enum RemediationStrategy {
        /// Roll it back.
        Rollback = "rollback",
        /// Uninstall it.
        Uninstall = "uninstall",
    }
}

choice! {
    /// How deletion spreads to dependents.
    pub enum DeletionPropagation {
        /// After the owner.
        Background = "background",
        /// Before the owner.
        Foreground = "foreground",
        /// Not at all.
        Orphan = "orphan",
    }
}

record! {
    /// What to do after a failure.
    pub struct ActionStrategy {
        /// The name of the way.
        name "name": ActionStrategyName,
        /// When to try again, for RetryOnFailure: after 5m by default.
        retry_interval "retryInterval": Option<Duration> [DURATION],
    }
}

record! {
    /// How to install.
    pub struct Install {
        /// How long each operation may take.
        timeout "timeout": Option<Duration> [DURATION],
        /// What to do after a failure.
        strategy "strategy": Option<ActionStrategy> [Check {
            rule: "!has(self.retryInterval) || self.name != 'RemediateOnFailure'",
            message: ".retryInterval cannot be set when .name is 'RemediateOnFailure'",
        }],
        /// How to put right a failure.
        remediation "remediation": Option<InstallRemediation>,
        /// Whether objects of others are left to them.
        disable_take_ownership "disableTakeOwnership": bool,
        /// Whether not to wait for health.
        disable_wait "disableWait": bool,
        /// Whether not to wait for Jobs.
        disable_wait_for_jobs "disableWaitForJobs": bool,
        /// Whether hooks do not run.
        disable_hooks "disableHooks": bool,
        /// Whether manifests are not checked against the server's schemas.
        disable_open_api_validation "disableOpenAPIValidation": bool,
        /// Whether values are not checked against the chart's schema.
        disable_schema_validation "disableSchemaValidation": bool,
        /// Whether the name of a deleted release may be used again.
        replace "replace": bool,
        /// Not heeded any more; use crds instead.
        skip_crds "skipCRDs": bool,
        /// What to do with the CRDs of the chart.
        crds "crds": Option<CrdsPolicy>,
        /// Whether to create the target namespace.
        create_namespace "createNamespace": bool,
        /// Whether the server merges: true by default.
        server_side_apply "serverSideApply": Option<bool>,
    }
}

record! {
    /// How to put right a failed installation.
    pub struct InstallRemediation {
        /// How often to try again, -1 for ever.
        retries "retries": i64,
        /// Whether failing tests do not count.
        ignore_test_failures "ignoreTestFailures": Option<bool>,
        /// Whether to put right the last failure as well.
        remediate_last_failure "remediateLastFailure": Option<bool>,
    }
}

record! {
    /// How to upgrade.
    pub struct Upgrade {
        /// How long each operation may take.
        timeout "timeout": Option<Duration> [DURATION],
        /// What to do after a failure.
        strategy "strategy": Option<ActionStrategy> [Check {
            rule: "!has(self.retryInterval) || self.name == 'RetryOnFailure'",
            message: ".retryInterval can only be set when .name is 'RetryOnFailure'",
        }],
        /// How to put right a failure.
        remediation "remediation": Option<UpgradeRemediation>,
        /// Whether objects of others are left to them.
        disable_take_ownership "disableTakeOwnership": bool,
        /// Whether not to wait for health.
        disable_wait "disableWait": bool,
        /// Whether not to wait for Jobs.
        disable_wait_for_jobs "disableWaitForJobs": bool,
        /// Whether hooks do not run.
        disable_hooks "disableHooks": bool,
        /// Whether manifests are not checked against the server's schemas.
        disable_open_api_validation "disableOpenAPIValidation": bool,
        /// Whether values are not checked against the chart's schema.
        disable_schema_validation "disableSchemaValidation": bool,
        /// Whether to replace objects, without server-side apply.
        force "force": bool,
        /// Whether to keep the values of the release before.
        preserve_values "preserveValues": bool,
        /// Whether to delete new objects of a failed upgrade.
        cleanup_on_fail "cleanupOnFail": bool,
        /// What to do with the CRDs of the chart.
        crds "crds": Option<CrdsPolicy>,
        /// Whether the server merges: auto by default.
        server_side_apply "serverSideApply": Option<ServerSideApplyMode>,
        /// What to do when the chart has another name: Reinstall by default.
        chart_name_change_strategy "chartNameChangeStrategy": Option<ChartNameChangeStrategy>,
    }
}

record! {
    /// How to put right a failed upgrade.
    pub struct UpgradeRemediation {
        /// How often to try again, -1 for ever.
        retries "retries": i64,
        /// Whether failing tests do not count.
        ignore_test_failures "ignoreTestFailures": Option<bool>,
        /// Whether to put right the last failure as well.
        remediate_last_failure "remediateLastFailure": Option<bool>,
        /// How to put it right: rollback by default.
        strategy "strategy": Option<RemediationStrategy>,
    }
}

record! {
    /// How to test.
    pub struct Test {
        /// Whether to test after installing and upgrading.
        enable "enable": bool,
        /// How long each operation may take.
        timeout "timeout": Option<Duration> [DURATION],
        /// Whether failing tests do not count.
        ignore_failures "ignoreFailures": bool,
        /// Which tests to run or to leave out.
        filters "filters": Option<Vec<TestFilter>>,
    }
}

record! {
    /// A test to run or to leave out.
    pub struct TestFilter {
        /// The name of the test.
        name "name": String [MinLength(1), MaxLength(253)],
        /// Whether to leave it out.
        exclude "exclude": bool,
    }
}

record! {
    /// How to roll back.
    pub struct Rollback {
        /// How long each operation may take.
        timeout "timeout": Option<Duration> [DURATION],
        /// Whether not to wait for health.
        disable_wait "disableWait": bool,
        /// Whether not to wait for Jobs.
        disable_wait_for_jobs "disableWaitForJobs": bool,
        /// Whether hooks do not run.
        disable_hooks "disableHooks": bool,
        /// Not heeded any more.
        recreate "recreate": bool,
        /// Whether to replace objects, without server-side apply.
        force "force": bool,
        /// Whether to delete new objects of a failed rollback.
        cleanup_on_fail "cleanupOnFail": bool,
        /// Whether the server merges: auto by default.
        server_side_apply "serverSideApply": Option<ServerSideApplyMode>,
    }
}

record! {
    /// How to uninstall.
    pub struct Uninstall {
        /// How long each operation may take.
        timeout "timeout": Option<Duration> [DURATION],
        /// Whether hooks do not run.
        disable_hooks "disableHooks": bool,
        /// Whether to keep the records of the release.
        keep_history "keepHistory": bool,
        /// Whether not to wait until the objects are gone.
        disable_wait "disableWait": bool,
        /// How deletion spreads to dependents.
        deletion_propagation "deletionPropagation": Option<DeletionPropagation> [Default(r#""background""#)],
    }
}
