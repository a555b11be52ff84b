//! Hooks: which of them run at an event, in which order, and what becomes of their objects.

use everflow_api::helm::TestFilter;
use everflow_helm::release::{HookRecord, Release};
use everflow_json::Value;
use everflow_time::Timestamp;
use everflow_yaml::sigs;

use super::Event;
use crate::record::selects;

/// How a hook last ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    NotRun,
    Running,
    Succeeded,
    Failed,
}

/// When the objects of a hook are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeletePolicy {
    BeforeCreation,
    Succeeded,
    Failed,
}

impl DeletePolicy {
    fn as_str(self) -> &'static str {
        match self {
            DeletePolicy::BeforeCreation => "before-hook-creation",
            DeletePolicy::Succeeded => "hook-succeeded",
            DeletePolicy::Failed => "hook-failed",
        }
    }

    /// Whether a hook has the policy. Definitions are never deleted: all of their objects would go.
    pub(super) fn is_of(self, hook: &HookRecord) -> bool {
        let hook = &hook.hook;
        hook.kind != "CustomResourceDefinition"
            && hook
                .delete_policies
                .iter()
                .any(|policy| policy == self.as_str())
    }
}

/// Whether the logs of a hook are printed when it has ended so.
pub(super) fn prints_logs(hook: &HookRecord, succeeded: bool) -> bool {
    let wanted = match succeeded {
        true => "hook-succeeded",
        false => "hook-failed",
    };
    let hook = &hook.hook;
    matches!(hook.kind.as_str(), "Job" | "Pod")
        && hook
            .output_log_policies
            .iter()
            .any(|policy| policy == wanted)
}

/// The places of the hooks of an event in the record, in the order in which they run: by weight, then by
/// name, then as they stand.
pub(super) fn order(release: &Release, event: Event, filters: &[TestFilter]) -> Vec<usize> {
    let hooks = release.hooks.iter().enumerate();
    let mut found: Vec<(i64, &str, usize)> = hooks
        .filter(|(_, hook)| hook.hook.events.iter().any(|name| name == event.as_str()))
        .filter(|(_, hook)| selects(filters, &hook.hook.name))
        .map(|(place, hook)| (hook.hook.weight, hook.hook.name.as_str(), place))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, _, place)| place).collect()
}

/// Gives a hook without a policy the one that Helm gives it when it runs.
pub(super) fn set_default_policy(hook: &mut HookRecord) {
    if hook.hook.delete_policies.is_empty() {
        let default = DeletePolicy::BeforeCreation.as_str().to_owned();
        hook.hook.delete_policies.push(default);
    }
}

/// Has hooks deleted before they run whose run for an earlier revision was broken off: what is under their names then is
/// not their own, and its success is not theirs. The record keeps the policy, for the case that this one is broken off, too.
pub fn delete_interrupted(hooks: &mut [HookRecord], before: &Release) {
    for hook in hooks {
        let is_same = |old: &&HookRecord| {
            (&old.hook.kind, &old.hook.name) == (&hook.hook.kind, &hook.hook.name)
        };
        let is_left = before.hooks.iter().find(is_same).is_some_and(|old| {
            let marked = phase(old) == Phase::NotRun && DeletePolicy::BeforeCreation.is_of(old);
            phase(old) == Phase::Running || marked
        });
        if is_left && !DeletePolicy::BeforeCreation.is_of(hook) {
            let policy = DeletePolicy::BeforeCreation.as_str().to_owned();
            hook.hook.delete_policies.push(policy);
        }
    }
}

/// How a hook last ran.
pub(super) fn phase(hook: &HookRecord) -> Phase {
    match hook.phase.as_str() {
        "Running" => Phase::Running,
        "Succeeded" => Phase::Succeeded,
        "Failed" => Phase::Failed,
        _ => Phase::NotRun,
    }
}

/// Whether a hook last ran in an action that began at a moment. A run before that was in another action:
/// records of rollbacks and uninstalls have the runs of the revision they were made of.
pub(super) fn ran_since(hook: &HookRecord, began: Timestamp) -> bool {
    Timestamp::parse(&hook.started_at).is_some_and(|started| started >= began)
}

/// Notes that a hook begins to run. The moment is never before the action began, whatever the clocks of the
/// processes that worked on it.
pub(super) fn start(hook: &mut HookRecord, began: Timestamp, now: Timestamp) {
    set_default_policy(hook);
    hook.started_at = now.max(began).to_string();
    hook.completed_at = String::new();
    hook.phase = "Running".to_owned();
}

/// Notes how a hook ended.
pub(super) fn complete(hook: &mut HookRecord, succeeded: bool, now: Timestamp) {
    let started = Timestamp::parse(&hook.started_at).unwrap_or_default();
    hook.completed_at = now.max(started).to_string();
    hook.phase = match succeeded {
        true => "Succeeded".to_owned(),
        false => "Failed".to_owned(),
    };
}

/// Forgets how a hook ran.
pub(super) fn forget_run(hook: &mut HookRecord) {
    hook.started_at = String::new();
    hook.completed_at = String::new();
    hook.phase = String::new();
}

/// Whether the objects of a hook that succeeded go away: then the record has to know of the success
/// before they do.
pub(super) fn vanishes(hook: &HookRecord) -> bool {
    DeletePolicy::Succeeded.is_of(hook) || hook.hook.manifest.contains("ttlSecondsAfterFinished")
}

/// The document of a hook.
pub(super) fn document(hook: &HookRecord) -> Result<Value, String> {
    sigs::yaml_to_json(hook.hook.manifest.as_bytes()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_helm::manifests::Hook;

    fn hook(name: &str, weight: i64, events: &[&str]) -> HookRecord {
        HookRecord::from(Hook {
            name: name.into(),
            kind: "Job".into(),
            path: String::new(),
            manifest: String::new(),
            events: events.iter().map(|event| (*event).to_owned()).collect(),
            weight,
            delete_policies: Vec::new(),
            output_log_policies: Vec::new(),
        })
    }

    #[test]
    fn hooks_run_by_weight_and_then_by_name() {
        let release = Release {
            hooks: vec![
                hook("b", 5, &["pre-install"]),
                hook("z", -5, &["pre-install", "post-install"]),
                hook("a", 5, &["pre-install"]),
                hook("t", 0, &["test"]),
            ],
            ..Release::default()
        };
        assert_eq!(order(&release, Event::PreInstall, &[]), [1, 2, 0]);
        assert_eq!(order(&release, Event::PostInstall, &[]), [1]);
        let none = [TestFilter {
            name: "t".into(),
            exclude: true,
            ..TestFilter::default()
        }];
        assert!(order(&release, Event::Test, &none).is_empty());
    }

    #[test]
    fn hook_of_an_interrupted_run_is_deleted_before_the_next() {
        let with = |phase: &str| {
            let mut hook = hook("a", 0, &["post-upgrade"]);
            hook.hook.delete_policies = vec!["hook-succeeded".to_owned()];
            hook.phase = phase.to_owned();
            hook
        };
        let before = |phase: &str| Release {
            hooks: vec![with(phase)],
            ..Release::default()
        };
        for (phase, deleted) in [("Running", true), ("Succeeded", false), ("", false)] {
            let mut hooks = [with("")];
            delete_interrupted(&mut hooks, &before(phase));
            assert_eq!(
                DeletePolicy::BeforeCreation.is_of(&hooks[0]),
                deleted,
                "{phase}"
            );
        }
        // The one after was broken off before it came to this hook.
        let mut second = before("");
        delete_interrupted(&mut second.hooks, &before("Running"));
        let mut third = [with("")];
        delete_interrupted(&mut third, &second);
        assert!(DeletePolicy::BeforeCreation.is_of(&third[0]));
    }

    #[test]
    fn hook_run_before_the_action_does_not_count() {
        let began = Timestamp::from_seconds(100);
        let mut hook = hook("a", 0, &[]);
        assert!(!ran_since(&hook, began));
        start(&mut hook, Timestamp::default(), Timestamp::from_seconds(50));
        assert!(!ran_since(&hook, began));
        // A clock that is behind does not hide the run.
        start(&mut hook, began, Timestamp::from_seconds(50));
        assert!(ran_since(&hook, began));
        assert_eq!(phase(&hook), Phase::Running);
        complete(&mut hook, true, Timestamp::from_seconds(60));
        assert_eq!(phase(&hook), Phase::Succeeded);
        assert!(hook.completed_at >= hook.started_at);
        assert_eq!(hook.hook.delete_policies, ["before-hook-creation"]);
    }
}
