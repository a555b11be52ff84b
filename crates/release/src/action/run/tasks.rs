//! What each action consists of.

use std::collections::VecDeque;

use everflow_api::helm::DeletionPropagation;
use everflow_api::inventory::ObjectId;
use everflow_helm::release::{Release, object_name};
use everflow_json::{Value, json};
use everflow_time::Timestamp;

use super::failure::FailedAt;
use super::{At, Run};
use crate::action::plan::{Plan, Wait};
use crate::action::step::{Apply, Delete, Expected, Outcome, Step, StepResult};
use crate::action::{ActionKind, Event};
use crate::manifest::{batches, is_kept, paused, removed, uninstall_order};
use crate::record::{RecordWrite, Status, StoredRecord, retire_replaced, surplus};

/// A part of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// One step.
    One(One),
    /// The hooks of an event.
    Hooks(Event),
    /// Apply the objects, kind by kind.
    Apply,
    /// Supersede records.
    Supersede,
    /// Clean up what a failed action leaves behind.
    Cleanup,
}

/// A part of an action that is one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum One {
    CheckOwnership,
    CreateNamespace,
    /// Write the record at which the action begins, or at which another process takes it up.
    Begin,
    /// Note that another process takes it up.
    TakeOver,
    /// Supersede the record that an install replaces.
    Retire,
    /// Delete what the revision before had and the new one has not.
    Remove,
    AwaitHealth,
    DeleteAll,
    AwaitDeletion,
    /// Delete records that are too many.
    Prune,
    /// Write the record as the action leaves it.
    Finish,
    /// Delete all records.
    Purge,
    /// Write that the action has failed, before what it leaves behind is cleaned up.
    NoteFailure,
    /// Write the record as a failed action leaves it.
    Fail,
}

/// The tasks of an action from its beginning.
pub(super) fn tasks(plan: &Plan) -> VecDeque<Task> {
    use One::{
        AwaitDeletion, AwaitHealth, Begin, CheckOwnership, CreateNamespace, DeleteAll, Finish,
        Prune, Purge, Remove, Retire,
    };
    let one = |ones: &[One]| ones.iter().copied().map(Task::One).collect::<Vec<Task>>();
    let hooks = |event| vec![Task::Hooks(event)];
    let groups = match plan.kind {
        ActionKind::Install => vec![
            // Helm supersedes what is replaced before. The new revision is to be there first: what
            // follows can then be taken up again.
            one(&[CheckOwnership, CreateNamespace, Begin, Retire]),
            hooks(Event::PreInstall),
            vec![Task::Apply],
            one(&[AwaitHealth]),
            hooks(Event::PostInstall),
            one(&[Finish]),
        ],
        ActionKind::Upgrade => vec![
            one(&[CheckOwnership, Begin]),
            hooks(Event::PreUpgrade),
            vec![Task::Apply],
            one(&[Remove, AwaitHealth]),
            hooks(Event::PostUpgrade),
            one(&[Prune]),
            vec![Task::Supersede],
            one(&[Finish]),
        ],
        ActionKind::Rollback => vec![
            one(&[Begin]),
            hooks(Event::PreRollback),
            vec![Task::Apply],
            one(&[Remove, AwaitHealth]),
            hooks(Event::PostRollback),
            one(&[Prune]),
            vec![Task::Supersede],
            one(&[Finish]),
        ],
        ActionKind::Uninstall | ActionKind::UninstallRemediation => vec![
            one(&[Begin]),
            hooks(Event::PreDelete),
            one(&[DeleteAll, AwaitDeletion]),
            hooks(Event::PostDelete),
            match plan.keep_history {
                true => vec![Task::Supersede, Task::One(Finish)],
                false => one(&[Purge]),
            },
        ],
        ActionKind::Test => vec![hooks(Event::Test), one(&[Finish])],
    };
    groups.into_iter().flatten().collect()
}

impl Run {
    /// Begins a task, or the next one if it has nothing to do.
    pub(super) fn enter(&mut self, task: Task, now: Timestamp) {
        match task {
            Task::One(one) => self.enter_one(one, now),
            Task::Hooks(event) => self.enter_hooks(event, now),
            Task::Apply => self.enter_apply(0, now),
            Task::Supersede => {
                let left = self.to_supersede();
                self.enter_supersede(left, now);
            }
            Task::Cleanup => {
                let left = self.cleanups();
                self.next_cleanup(left, now);
            }
        }
    }

    fn enter_one(&mut self, one: One, now: Timestamp) {
        let has_work = match one {
            One::CheckOwnership => !self.plan.take_ownership && !self.to_create().is_empty(),
            One::CreateNamespace => self.plan.create_namespace,
            One::Begin | One::TakeOver | One::NoteFailure | One::Fail | One::Purge => true,
            One::Retire => self.replaced.is_some(),
            One::Remove => !self.to_remove().is_empty(),
            One::AwaitHealth => self.plan.wait != Wait::Hooks && !self.to_await().is_empty(),
            One::DeleteAll => !self.to_delete().is_empty(),
            One::AwaitDeletion => self.plan.wait != Wait::Hooks && !self.to_delete().is_empty(),
            One::Prune => !self.to_prune().is_empty(),
            One::Finish => self.prepare_finish(),
        };
        if !has_work {
            return self.advance(now);
        }
        match one {
            One::AwaitHealth | One::AwaitDeletion => self.since = self.waiting_since(now),
            One::Fail => self.prepare_failed(),
            _ => {}
        }
        self.at = At::One(one);
    }

    pub(super) fn step_of(&self, one: One) -> Step {
        match one {
            One::CheckOwnership => Step::CheckOwnership {
                objects: self.to_create(),
            },
            One::CreateNamespace => Step::CreateNamespace(self.namespace()),
            One::Begin | One::NoteFailure => self.write_in_progress(),
            One::TakeOver => self.note_step(),
            One::Retire => self.retire_step(),
            One::Remove => self.delete_step(self.to_remove(), DeletionPropagation::Background),
            One::DeleteAll => self.delete_step(self.to_delete(), self.plan.propagation),
            One::AwaitHealth => Step::AwaitHealth(self.awaits(self.to_await())),
            One::AwaitDeletion => Step::AwaitDeletion(self.awaits(self.to_delete())),
            One::Prune => Step::DeleteRecords {
                secrets: self.secrets(&self.to_prune()),
            },
            One::Purge => self.purge_step(),
            // A failed uninstall says that it was ours and that nobody is at it any more.
            One::Fail if self.is_uninstall() => self.write_in_progress(),
            One::Finish | One::Fail => self.write(None),
        }
    }

    pub(super) fn one_done(&mut self, one: One, result: StepResult, now: Timestamp) {
        // That is the record of another revision.
        if one != One::Retire {
            self.note(&result);
        }
        match (one, result) {
            (One::AwaitHealth | One::AwaitDeletion, StepResult::Pending) => {
                self.at = match self.begin_waiting() {
                    true => At::NoteWaiting(one),
                    false => At::One(one),
                };
            }
            (One::AwaitDeletion, StepResult::Failed(message)) => {
                self.errors.push(message);
                self.advance(now);
            }
            (One::CheckOwnership, StepResult::Failed(message)) => {
                let action = match self.plan.kind {
                    ActionKind::Install => "install",
                    _ => "update",
                };
                self.give_up(format!("unable to continue with {action}: {message}"));
            }
            (One::Fail, _) => self.at = At::Over(self.failed()),
            (One::NoteFailure | One::Finish, _) => self.advance(now),
            (_, StepResult::Failed(message)) if !self.stored => self.give_up(message),
            (One::DeleteAll, StepResult::Failed(message)) => {
                let name = &self.record.name;
                let message = format!("failed to delete release: {name}: {message}");
                self.fail(&message, FailedAt::Elsewhere, now);
            }
            (One::AwaitHealth, StepResult::Failed(message)) => {
                self.fail(&message, FailedAt::Health, now);
            }
            (_, StepResult::Failed(message)) => self.fail(&message, FailedAt::Elsewhere, now),
            _ => self.advance(now),
        }
    }

    fn purge_step(&self) -> Step {
        let mut all: Vec<i64> = self.revisions.iter().map(|(version, _)| *version).collect();
        // The newest last: as long as it is there, the uninstall can be taken up again.
        all.push(self.record.version);
        all.sort_unstable();
        Step::DeleteRecords {
            secrets: self.secrets(&all),
        }
    }

    /// Ends before anything was stored.
    fn give_up(&mut self, message: String) {
        self.at = At::Over(Outcome::Failed {
            message,
            stored: false,
        });
    }

    pub(super) fn enter_apply(&mut self, batch: usize, now: Timestamp) {
        match batch < batches(&self.objects).len() {
            true => self.at = At::Apply(batch),
            false => self.advance(now),
        }
    }

    pub(super) fn apply_step(&self, batch: usize) -> Step {
        let all = batches(&self.objects);
        let objects = all
            .get(batch)
            .map_or(Vec::new(), |objects| objects.to_vec());
        let before = |object: &Value| {
            let id = ObjectId::of(object);
            let mut old = self.base_objects.iter();
            old.find(|old| ObjectId::of(old) == id).cloned()
        };
        let server_side = self.plan.server_side;
        let was_client_side = self.base().is_some_and(|base| base.apply_method != "ssa");
        let may_have_own_fields = match self.plan.kind {
            ActionKind::Install => self.plan.take_ownership,
            ActionKind::Upgrade => was_client_side,
            _ => true,
        };
        Step::Apply(Box::new(Apply {
            before: objects.iter().map(before).collect(),
            objects,
            server_side,
            replace: self.plan.replace_objects,
            migrate_fields: server_side && may_have_own_fields,
            three_way_for_custom: self.plan.kind == ActionKind::Install && !server_side,
            take_ownership: self.plan.take_ownership,
        }))
    }

    fn delete_step(&self, objects: Vec<Value>, propagation: DeletionPropagation) -> Step {
        let owner = (self.record.name.clone(), self.record.namespace.clone());
        Step::Delete(Box::new(Delete {
            objects,
            propagation,
            owner: self.is_uninstall().then_some(owner),
            created_since: None,
        }))
    }

    /// The objects that the revision before has not.
    pub(super) fn to_create(&self) -> Vec<Value> {
        removed(&self.objects, &self.base_objects)
    }

    fn to_remove(&self) -> Vec<Value> {
        removed(&self.base_objects, &self.objects)
    }

    fn to_await(&self) -> Vec<Value> {
        let objects = self.objects.iter().filter(|object| !paused(object));
        objects.cloned().collect()
    }

    fn to_delete(&self) -> Vec<Value> {
        let objects = self.objects.iter().filter(|object| !is_kept(object));
        uninstall_order(objects.cloned().collect())
    }

    fn to_prune(&self) -> Vec<i64> {
        // Records are pruned before any is superseded: the one that is deployed is protected by that.
        let is_past = match self.plan.kind {
            ActionKind::Upgrade => self
                .base
                .as_ref()
                .is_some_and(|base| Status::of(&base.release.info.status) == Status::Superseded),
            _ => !self
                .revisions
                .iter()
                .any(|(_, status)| *status == Status::Deployed),
        };
        match is_past {
            true => Vec::new(),
            false => surplus(&self.revisions, self.plan.max_history),
        }
    }

    /// An upgrade supersedes the revision before, however it stood; a rollback and an uninstall all that
    /// are deployed.
    fn to_supersede(&self) -> VecDeque<StoredRecord> {
        let is_left = |stored: &&StoredRecord| {
            let status = Status::of(&stored.release.info.status);
            match self.plan.kind {
                ActionKind::Upgrade => status != Status::Superseded,
                _ => status == Status::Deployed,
            }
        };
        let others = match self.plan.kind {
            ActionKind::Upgrade => &[][..],
            _ => &self.deployed,
        };
        let base = self.base.iter();
        let is_there = |stored: &&StoredRecord| {
            let version = stored.release.version;
            version != self.record.version && !self.to_prune().contains(&version)
        };
        let all = base.chain(others).filter(is_left).filter(is_there);
        all.cloned().collect()
    }

    pub(super) fn enter_supersede(&mut self, left: VecDeque<StoredRecord>, now: Timestamp) {
        match left.is_empty() {
            true => self.advance(now),
            false => self.at = At::Supersede(left),
        }
    }

    pub(super) fn supersede_step(&self, stored: &StoredRecord) -> Step {
        let mut release = stored.release.clone();
        Status::Superseded
            .as_str()
            .clone_into(&mut release.info.status);
        self.write_other(stored, release)
    }

    fn retire_step(&self) -> Step {
        match &self.replaced {
            Some(stored) => {
                let mut release = stored.release.clone();
                retire_replaced(&mut release);
                self.write_other(stored, release)
            }
            None => Step::Over(self.succeeded()),
        }
    }

    fn write_other(&self, stored: &StoredRecord, release: Release) -> Step {
        Step::WriteRecord {
            write: Box::new(RecordWrite {
                release,
                storage_namespace: self.storage_namespace.clone(),
                progress: None,
                made_from: stored.place.made_from.clone(),
            }),
            expected: Expected::Version(stored.place.resource_version.clone()),
        }
    }

    fn namespace(&self) -> Value {
        let name = &self.record.namespace;
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"name": name}},
        })
    }

    fn secrets(&self, versions: &[i64]) -> Vec<String> {
        let name = |version: &i64| object_name(&self.record.name, *version);
        versions.iter().map(name).collect()
    }

    /// Brings the record to what a successful action leaves; returns whether there is something to write.
    fn prepare_finish(&mut self) -> bool {
        match self.plan.kind {
            ActionKind::Install => self.set_status(Status::Deployed, "Install complete"),
            ActionKind::Upgrade => self.set_status(Status::Deployed, "Upgrade complete"),
            ActionKind::Rollback => {
                let description = self.record.info.description.clone();
                self.set_status(Status::Deployed, &description);
            }
            ActionKind::Uninstall | ActionKind::UninstallRemediation => {
                self.set_status(Status::Uninstalled, "Uninstallation complete");
            }
            ActionKind::Test => {
                self.skipped_hooks_first();
                return self.stored;
            }
        }
        true
    }

    /// Helm takes hooks out of the record that filters do not select, and puts them in front afterwards.
    pub(super) fn skipped_hooks_first(&mut self) {
        let filters = &self.plan.filters;
        let rank = |name: &str| {
            let is = |exclude: bool| {
                filters
                    .iter()
                    .any(|filter| filter.exclude == exclude && filter.name == name)
            };
            let includes = filters.iter().any(|filter| !filter.exclude);
            match (is(true), includes && !is(false)) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => 2,
            }
        };
        let hooks = std::mem::take(&mut self.record.hooks);
        let objects = std::mem::take(&mut self.hook_objects);
        let mut both: Vec<_> = hooks.into_iter().zip(objects).collect();
        both.sort_by_key(|(hook, _)| rank(&hook.hook.name));
        (self.record.hooks, self.hook_objects) = both.into_iter().unzip();
    }
}
