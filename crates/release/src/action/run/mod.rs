//! An action on its way: which step comes next, given what came of the steps before.
//!
//! What must not be lost is in the record and in the note of progress beside it before the step that makes
//! it true: a revision is stored before anything is applied, a hook is noted as running before it is
//! created, and as succeeded before its objects go. Everything else may be done again. So an action can
//! be dropped between any two steps, and [`Run::resume`] goes on from storage alone, to the same end.

mod begin;
mod failure;
mod hooking;
mod resume;
mod tasks;

use std::collections::VecDeque;

use everflow_helm::release::{Release, object_name};
use everflow_json::Value;
use everflow_time::Timestamp;

use super::plan::Plan;
use super::step::{Await, Expected, Outcome, Step, StepResult};
use super::{ActionKind, Event};
use crate::record::mark::{MadeFrom, Progress, Stage};
use crate::record::{RecordWrite, Status, StoredRecord};
pub use begin::Begin;
use failure::{Cleanup, FailedAt};
use hooking::HookPart;
pub use resume::Resume;
use tasks::{One, Task};

/// An action on its way.
#[derive(Debug, Clone)]
pub struct Run {
    plan: Plan,
    storage_namespace: String,
    record: Release,
    /// What the Secret of the record must be like for the next write.
    expected: Expected,
    /// When the API server took the Secret of the record.
    created: Option<Timestamp>,
    progress: Progress,
    made_from: Option<MadeFrom>,
    /// When the action began; hooks that ran before were not run by it.
    began: Timestamp,
    /// Whether the record has been written at all.
    stored: bool,
    /// Whether the record says more than the one that was written.
    has_news: bool,
    /// The objects of the record's manifest, marked as belonging to the release.
    objects: Vec<Value>,
    /// The objects of each hook, or why there are none.
    hook_objects: Vec<Result<Vec<Value>, String>>,
    /// The revision that the cluster was at.
    base: Option<StoredRecord>,
    /// The objects of its manifest.
    base_objects: Vec<Value>,
    /// Further revisions that are deployed.
    deployed: Vec<StoredRecord>,
    /// All other revisions.
    revisions: Vec<(i64, Status)>,
    /// The record that an install replaces.
    replaced: Option<StoredRecord>,
    tasks: VecDeque<Task>,
    at: At,
    /// Since when the hook or the objects at hand are waited for.
    since: Timestamp,
    /// What went wrong while going on was right.
    errors: Vec<String>,
}

/// The step that is at hand.
#[derive(Debug, Clone)]
enum At {
    One(One),
    /// A part of running a hook: the event, its hooks in order, and which of them.
    Hook {
        event: Event,
        order: Vec<usize>,
        place: usize,
        part: HookPart,
    },
    /// What is left to delete or to print, the next one first.
    Cleanup(VecDeque<Cleanup>),
    /// The batch of objects that is applied.
    Apply(usize),
    /// The progress is noted, because it is going to take time; then it is waited on.
    NoteWaiting(One),
    /// Records that become superseded.
    Supersede(VecDeque<StoredRecord>),
    /// Nothing is left.
    Over(Outcome),
}

impl Run {
    /// The next step.
    pub fn step(&self) -> Step {
        match &self.at {
            At::One(one) => self.step_of(*one),
            At::Hook {
                order, place, part, ..
            } => self.hook_step(order[*place], *part),
            At::Cleanup(left) => match left.front() {
                Some(cleanup) => self.cleanup_step(cleanup),
                None => Step::Over(self.succeeded()),
            },
            At::Apply(batch) => self.apply_step(*batch),
            At::NoteWaiting(_) if self.has_news => self.write_in_progress(),
            At::NoteWaiting(_) => self.note_step(),
            At::Supersede(left) => match left.front() {
                Some(stored) => self.supersede_step(stored),
                None => Step::Over(self.succeeded()),
            },
            At::Over(outcome) => Step::Over(outcome.clone()),
        }
    }

    /// Takes in what came of [`Run::step`].
    pub fn done(&mut self, result: StepResult, now: Timestamp) {
        let at = std::mem::replace(&mut self.at, At::Supersede(VecDeque::new()));
        match at {
            At::One(one) => self.one_done(one, result, now),
            At::Hook {
                event,
                order,
                place,
                part,
            } => self.hook_done(event, order, place, part, result, now),
            At::Cleanup(left) if result == StepResult::Pending => self.at = At::Cleanup(left),
            At::Cleanup(mut left) => {
                // What cannot be cleaned up is left behind, as Helm leaves it.
                left.pop_front();
                self.next_cleanup(left, now);
            }
            At::Apply(batch) => match result {
                StepResult::Failed(message) => self.fail(&message, FailedAt::Elsewhere, now),
                _ => self.enter_apply(batch + 1, now),
            },
            At::NoteWaiting(one) => {
                self.note(&result);
                self.at = At::One(one);
            }
            At::Supersede(mut left) => {
                left.pop_front();
                self.enter_supersede(left, now);
            }
            At::Over(outcome) => self.at = At::Over(outcome),
        }
    }

    /// The record as it is now.
    pub fn record(&self) -> &Release {
        &self.record
    }

    /// What is being done.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The objects of the record's manifest as they are applied.
    pub fn objects(&self) -> &[Value] {
        &self.objects
    }

    /// The revision that was there before.
    pub fn base(&self) -> Option<&Release> {
        self.base.as_ref().map(|stored| &stored.release)
    }

    /// The record as it is to be written now.
    fn write(&self, progress: Option<Progress>) -> Step {
        Step::WriteRecord {
            write: Box::new(RecordWrite {
                release: self.record.clone(),
                storage_namespace: self.storage_namespace.clone(),
                progress,
                made_from: self.made_from.clone(),
            }),
            expected: self.expected.clone(),
        }
    }

    fn write_in_progress(&self) -> Step {
        self.write(Some(self.progress.clone()))
    }

    fn note_step(&self) -> Step {
        Step::NoteProgress {
            secret: object_name(&self.record.name, self.record.version),
            progress: self.progress.to_text(),
            expected: self.expected.clone(),
        }
    }

    /// Remembers what a write of the record came to.
    fn note(&mut self, result: &StepResult) {
        if let StepResult::Written {
            resource_version,
            created,
        } = result
        {
            self.expected = Expected::Version(resource_version.clone());
            self.created = self.created.or(*created);
            self.stored = true;
            self.has_news = false;
        }
    }

    /// Goes to the next task that has something to do.
    fn advance(&mut self, now: Timestamp) {
        match self.tasks.pop_front() {
            Some(task) => self.enter(task, now),
            None => self.at = At::Over(self.succeeded()),
        }
    }

    fn succeeded(&self) -> Outcome {
        match self.errors.is_empty() {
            true => Outcome::Succeeded,
            false => Outcome::Failed {
                message: format!(
                    "uninstallation completed with {} error(s): {}",
                    self.errors.len(),
                    self.errors.join("; ")
                ),
                stored: true,
            },
        }
    }

    fn awaits(&self, objects: Vec<Value>) -> Await {
        Await {
            objects,
            what: self.plan.wait,
            since: self.since,
            timeout: self.plan.timeout,
        }
    }

    fn is_uninstall(&self) -> bool {
        matches!(
            self.plan.kind,
            ActionKind::Uninstall | ActionKind::UninstallRemediation
        )
    }

    fn set_status(&mut self, status: Status, description: &str) {
        status.as_str().clone_into(&mut self.record.info.status);
        description.clone_into(&mut self.record.info.description);
    }

    /// Since when objects are waited for: since it was noted, or since this process is at it, or since now.
    fn waiting_since(&self, now: Timestamp) -> Timestamp {
        match self.progress.stage {
            Stage::Waiting(since) => self.progress.since.map_or(since, |own| own.max(since)),
            _ => now,
        }
    }

    /// Notes since when is waited; returns whether that is news.
    fn begin_waiting(&mut self) -> bool {
        let is_new = !matches!(self.progress.stage, Stage::Waiting(_));
        if is_new {
            self.progress.stage = Stage::Waiting(self.since);
        }
        is_new
    }
}
