//! What becomes of an action that has failed.

use std::collections::VecDeque;

use everflow_api::helm::DeletionPropagation;
use everflow_helm::release::HookRecord;
use everflow_time::Timestamp;

use super::tasks::{One, Task};
use super::{At, Run};
use crate::action::ActionKind;
use crate::action::hooks::{DeletePolicy, Phase, phase, prints_logs, ran_since};
use crate::action::step::{Delete, Outcome, Step};
use crate::record::mark::Stage;
use crate::record::{Status, selects};

/// Something that is cleaned up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cleanup {
    /// The logs of a hook are printed.
    Logs(usize),
    /// The objects of a hook are deleted.
    Hook(usize),
    /// The objects that the action created are deleted.
    Objects,
}

/// Where an action has failed, as far as Helm's words depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailedAt {
    /// While objects were waited for.
    Health,
    Elsewhere,
}

impl Run {
    /// Ends the action: the failure is noted, what it leaves behind is cleaned up, and then the record
    /// says that it has failed.
    pub(super) fn fail(&mut self, message: &str, at: FailedAt, now: Timestamp) {
        let name = &self.record.name;
        let what = match (self.plan.kind, at) {
            (ActionKind::Install, _) | (ActionKind::Rollback, FailedAt::Health) => "Release",
            (ActionKind::Upgrade, _) => "Upgrade",
            _ => "Rollback",
        };
        let failure = match (self.plan.kind, at) {
            (ActionKind::Rollback, FailedAt::Health) => format!("release {name} failed: {message}"),
            _ => message.to_owned(),
        };
        if self.makes_a_revision() {
            self.record.info.description = format!("{what} \"{name}\" failed: {message}");
        }
        self.progress.failure = Some(failure);
        self.progress.stage = Stage::Failing;
        self.tasks = match self.cleanups().is_empty() {
            true => VecDeque::new(),
            false => [Task::One(One::NoteFailure), Task::Cleanup].into(),
        };
        self.tasks
            .extend([Task::One(One::Prune), Task::One(One::Fail)]);
        self.advance(now);
    }

    /// Goes on with an action whose failure was noted before.
    pub(super) fn failing_tasks() -> VecDeque<Task> {
        [Task::Cleanup, Task::One(One::Prune), Task::One(One::Fail)].into()
    }

    fn makes_a_revision(&self) -> bool {
        matches!(
            self.plan.kind,
            ActionKind::Install | ActionKind::Upgrade | ActionKind::Rollback
        )
    }

    /// The outcome of a failed action.
    pub(super) fn failed(&self) -> Outcome {
        Outcome::Failed {
            message: self.progress.failure.clone().unwrap_or_default(),
            stored: true,
        }
    }

    pub(super) fn prepare_failed(&mut self) {
        if self.makes_a_revision() {
            let status = Status::Failed.as_str();
            status.clone_into(&mut self.record.info.status);
        } else if self.is_uninstall() {
            self.progress.stage = Stage::Failed;
        } else {
            self.skipped_hooks_first();
        }
    }

    /// What there is to clean up after a failure, as the record alone tells: it must be the same in
    /// another process.
    pub(super) fn cleanups(&self) -> VecDeque<Cleanup> {
        let mut found = VecDeque::new();
        let hooks = || {
            let all = self.record.hooks.iter().enumerate();
            all.filter(|(_, hook)| self.ran_here(hook))
        };
        for (index, hook) in hooks().filter(|(_, hook)| phase(hook) == Phase::Failed) {
            if prints_logs(hook, false) {
                found.push_back(Cleanup::Logs(index));
            }
            if DeletePolicy::Failed.is_of(hook) {
                found.push_back(Cleanup::Hook(index));
            }
        }
        let has_failed = hooks().any(|(_, hook)| phase(hook) == Phase::Failed);
        let succeeded = hooks().filter(|(_, hook)| phase(hook) == Phase::Succeeded);
        for (index, hook) in succeeded.filter(|_| has_failed) {
            if DeletePolicy::Succeeded.is_of(hook) {
                found.push_back(Cleanup::Hook(index));
            }
        }
        if self.plan.cleanup_on_fail && self.created.is_some() && !self.to_create().is_empty() {
            found.push_back(Cleanup::Objects);
        }
        found
    }

    /// Whether a hook last ran in this action.
    fn ran_here(&self, hook: &HookRecord) -> bool {
        match self.plan.kind {
            ActionKind::Test => {
                let is_test = hook.hook.events.iter().any(|event| event == "test");
                is_test && selects(&self.plan.filters, &hook.hook.name)
            }
            _ => ran_since(hook, self.began),
        }
    }

    pub(super) fn next_cleanup(&mut self, left: VecDeque<Cleanup>, now: Timestamp) {
        match left.is_empty() {
            true => self.advance(now),
            false => {
                self.since = now;
                self.at = At::Cleanup(left);
            }
        }
    }

    pub(super) fn cleanup_step(&self, cleanup: &Cleanup) -> Step {
        let of_hook = |index: usize| match self.hook_objects.get(index) {
            Some(Ok(objects)) => objects.clone(),
            _ => Vec::new(),
        };
        match cleanup {
            Cleanup::Logs(index) => Step::PrintHookLogs {
                objects: of_hook(*index),
            },
            Cleanup::Hook(index) => Step::DeleteHook(self.awaits(of_hook(*index))),
            Cleanup::Objects => Step::Delete(Box::new(Delete {
                objects: self.to_create(),
                propagation: DeletionPropagation::Background,
                owner: Some((self.record.name.clone(), self.record.namespace.clone())),
                // What was there before and was taken over stays.
                created_since: self.created,
            })),
        }
    }
}
