//! What an action is asked to do, as the spec of a HelmRelease has it.

use everflow_api::helm::{
    CrdsPolicy, DeletionPropagation, HelmReleaseSpec, ServerSideApplyMode, TestFilter,
};
use everflow_time::Duration;

use super::ActionKind;
use crate::record::Summary;

/// What is waited for after objects are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Nothing but hooks.
    Hooks,
    /// The objects, Jobs as they stand.
    Objects,
    /// The objects, Jobs until they are complete.
    Jobs,
}

/// How custom resource definitions are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionMode {
    /// The server merges, also into what is there. Both Create and CreateReplace come to this where the
    /// server merges the objects of the release.
    Merge,
    /// Those that are missing are created, others left as they are.
    Create,
    /// Those that are missing are created, others replaced.
    Replace,
}

/// What an action is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Which action.
    pub kind: ActionKind,
    /// How long each wait may take.
    pub timeout: Duration,
    /// Whether hooks run.
    pub hooks: bool,
    /// What is waited for.
    pub wait: Wait,
    /// Whether the server merges.
    pub server_side: bool,
    /// Whether objects are replaced. The server does not merge then.
    pub replace_objects: bool,
    /// Whether objects of others are taken over. If not, they keep an install or upgrade from beginning.
    pub take_ownership: bool,
    /// How the chart's custom resource definitions are applied; none when they are not.
    pub definitions: Option<DefinitionMode>,
    /// Whether what a failed action created is deleted.
    pub cleanup_on_fail: bool,
    /// Whether the target namespace is created.
    pub create_namespace: bool,
    /// Whether a release that was uninstalled or has failed may be replaced by an install.
    pub replace_release: bool,
    /// How many records to keep, 0 for all. An install prunes none.
    pub max_history: i64,
    /// Whether the records of an uninstalled release are kept.
    pub keep_history: bool,
    /// How the deletion of objects spreads.
    pub propagation: DeletionPropagation,
    /// Which tests run.
    pub filters: Vec<TestFilter>,
}

impl Plan {
    fn new(kind: ActionKind, timeout: Duration) -> Self {
        Plan {
            kind,
            timeout,
            hooks: true,
            wait: Wait::Jobs,
            server_side: true,
            replace_objects: false,
            take_ownership: true,
            definitions: None,
            cleanup_on_fail: false,
            create_namespace: false,
            replace_release: false,
            max_history: 0,
            keep_history: false,
            propagation: DeletionPropagation::Background,
            filters: Vec::new(),
        }
    }

    /// An install.
    pub fn install(spec: &HelmReleaseSpec) -> Self {
        let install = spec.install.clone().unwrap_or_default();
        let timeout = install.timeout.unwrap_or(spec.timeout());
        let server_side = install.server_side_apply.unwrap_or(true);
        Plan {
            hooks: !install.disable_hooks,
            wait: wait(install.disable_wait, install.disable_wait_for_jobs),
            server_side,
            take_ownership: !install.disable_take_ownership,
            definitions: definition_mode(install.crds, server_side),
            create_namespace: install.create_namespace && spec.target_namespace.is_some(),
            replace_release: install.replace,
            ..Plan::new(ActionKind::Install, timeout)
        }
    }

    /// An upgrade of a release whose newest record is `last`.
    pub fn upgrade(spec: &HelmReleaseSpec, last: &Summary) -> Self {
        let upgrade = spec.upgrade.clone().unwrap_or_default();
        let timeout = upgrade.timeout.unwrap_or(spec.timeout());
        let server_side = merges(upgrade.server_side_apply, &last.apply_method);
        Plan {
            hooks: !upgrade.disable_hooks,
            wait: wait(upgrade.disable_wait, upgrade.disable_wait_for_jobs),
            server_side,
            replace_objects: upgrade.force && !server_side,
            take_ownership: !upgrade.disable_take_ownership,
            definitions: definition_mode(upgrade.crds, server_side),
            cleanup_on_fail: upgrade.cleanup_on_fail,
            max_history: spec.max_history(),
            ..Plan::new(ActionKind::Upgrade, timeout)
        }
    }

    /// A rollback to the revision `target`.
    pub fn rollback(spec: &HelmReleaseSpec, target: &Summary) -> Self {
        let rollback = spec.rollback.clone().unwrap_or_default();
        let timeout = rollback.timeout.unwrap_or(spec.timeout());
        let server_side = merges(rollback.server_side_apply, &target.apply_method);
        Plan {
            hooks: !rollback.disable_hooks,
            wait: wait(rollback.disable_wait, rollback.disable_wait_for_jobs),
            server_side,
            replace_objects: rollback.force && !server_side,
            cleanup_on_fail: rollback.cleanup_on_fail,
            max_history: spec.max_history(),
            ..Plan::new(ActionKind::Rollback, timeout)
        }
    }

    /// An uninstall, or one that puts right a failure.
    pub fn uninstall(spec: &HelmReleaseSpec, kind: ActionKind) -> Self {
        let uninstall = spec.uninstall.clone().unwrap_or_default();
        let timeout = uninstall.timeout.unwrap_or(spec.timeout());
        Plan {
            hooks: !uninstall.disable_hooks,
            wait: wait(uninstall.disable_wait, false),
            keep_history: uninstall.keep_history,
            propagation: uninstall
                .deletion_propagation
                .unwrap_or(DeletionPropagation::Background),
            ..Plan::new(kind, timeout)
        }
    }

    /// The tests of a release whose newest record is `last`.
    pub fn test(spec: &HelmReleaseSpec, last: &Summary) -> Self {
        let test = spec.test.clone().unwrap_or_default();
        let timeout = test.timeout.unwrap_or(spec.timeout());
        Plan {
            server_side: last.apply_method == "ssa",
            filters: test.filters.unwrap_or_default(),
            ..Plan::new(ActionKind::Test, timeout)
        }
    }
}

fn wait(disable: bool, disable_jobs: bool) -> Wait {
    match (disable, disable_jobs) {
        (true, _) => Wait::Hooks,
        (false, true) => Wait::Objects,
        (false, false) => Wait::Jobs,
    }
}

/// Whether the server merges; `auto` is what was done before, and Helm 3 did not.
fn merges(mode: Option<ServerSideApplyMode>, before: &str) -> bool {
    match mode.unwrap_or(ServerSideApplyMode::Auto) {
        ServerSideApplyMode::Enabled => true,
        ServerSideApplyMode::Disabled => false,
        ServerSideApplyMode::Auto => before == "ssa",
    }
}

/// The documentation says that an upgrade skips them by default; in Flux it creates them as an install
/// does.
fn definition_mode(policy: Option<CrdsPolicy>, server_side: bool) -> Option<DefinitionMode> {
    match (policy.unwrap_or(CrdsPolicy::Create), server_side) {
        (CrdsPolicy::Skip, _) => None,
        (_, true) => Some(DefinitionMode::Merge),
        (CrdsPolicy::Create, false) => Some(DefinitionMode::Create),
        (CrdsPolicy::CreateReplace, false) => Some(DefinitionMode::Replace),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_api::helm::{HelmRelease, Upgrade};
    use everflow_api::object::Object;
    use everflow_helm::release::Release;
    use everflow_json::{Value, json};

    fn spec(more: Value) -> HelmReleaseSpec {
        let mut spec = more;
        spec["interval"] = json!("1h");
        Object::<HelmRelease>::read_spec(&json!({"spec": spec})).unwrap()
    }

    fn last(apply_method: &str) -> Summary {
        Summary::of(&Release {
            apply_method: apply_method.into(),
            ..Release::default()
        })
    }

    #[test]
    fn an_upgrade_applies_as_the_release_before_unless_it_is_told() {
        let auto = spec(json!({}));
        assert!(Plan::upgrade(&auto, &last("ssa")).server_side);
        assert!(!Plan::upgrade(&auto, &last("csa")).server_side);
        assert!(!Plan::upgrade(&auto, &last("")).server_side);
        let enabled = spec(json!({"upgrade": {"serverSideApply": "enabled"}}));
        assert!(Plan::upgrade(&enabled, &last("csa")).server_side);
        let disabled = spec(json!({"upgrade": {"serverSideApply": "disabled", "force": true}}));
        let plan = Plan::upgrade(&disabled, &last("ssa"));
        assert!(!plan.server_side && plan.replace_objects);
        // Force has no effect where the server merges.
        let force = spec(json!({"upgrade": {"force": true}}));
        assert!(!Plan::upgrade(&force, &last("ssa")).replace_objects);
    }

    #[test]
    fn definitions_are_applied_by_default_and_merged_where_the_server_merges() {
        let mode =
            |spec: Value, method: &str| Plan::upgrade(&self::spec(spec), &last(method)).definitions;
        assert_eq!(mode(json!({}), "ssa"), Some(DefinitionMode::Merge));
        assert_eq!(mode(json!({}), "csa"), Some(DefinitionMode::Create));
        let replace = json!({"upgrade": {"crds": "CreateReplace"}});
        assert_eq!(mode(replace.clone(), "csa"), Some(DefinitionMode::Replace));
        assert_eq!(mode(replace, "ssa"), Some(DefinitionMode::Merge));
        assert_eq!(mode(json!({"upgrade": {"crds": "Skip"}}), "ssa"), None);
        assert_eq!(Upgrade::default().crds, None);
    }

    #[test]
    fn timeouts_and_waits_are_those_of_the_action() {
        let spec = spec(json!({
            "timeout": "1m",
            "install": {"disableWaitForJobs": true},
            "uninstall": {"timeout": "2m", "disableWait": true, "deletionPropagation": "orphan"},
        }));
        let install = Plan::install(&spec);
        assert_eq!(
            (install.timeout.to_string(), install.wait),
            ("1m0s".into(), Wait::Objects)
        );
        let uninstall = Plan::uninstall(&spec, ActionKind::Uninstall);
        assert_eq!(uninstall.timeout.to_string(), "2m0s");
        assert_eq!(uninstall.wait, Wait::Hooks);
        assert_eq!(uninstall.propagation, DeletionPropagation::Orphan);
        // A namespace is only created where one is named.
        let asked = self::spec(json!({"install": {"createNamespace": true}}));
        assert!(!Plan::install(&asked).create_namespace);
    }
}
