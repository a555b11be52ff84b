//! Going on with an action that another process, or an earlier attempt of this one, began.

use everflow_time::Timestamp;

use super::begin::Begin;
use super::tasks::{One, Task, tasks};
use super::{At, Run};
use crate::action::hooks::{forget_run, ran_since};
use crate::action::plan::Plan;
use crate::action::{ActionKind, Event};
use crate::error::Error;
use crate::manifest::Scope;
use crate::record::mark::{Holder, Progress, Stage};
use crate::record::{Status, StoredRecord};

/// An action as it was left.
pub struct Resume<'a> {
    /// What is asked for now, for the action that the record is in the middle of.
    pub plan: Plan,
    /// The record.
    pub stored: StoredRecord,
    /// The namespace of the records.
    pub storage_namespace: &'a str,
    /// The process that acts.
    pub holder: Holder,
    /// The revision that the cluster was at; see [`Run::base_version`].
    pub base: Option<StoredRecord>,
    /// Further revisions that are deployed.
    pub deployed: Vec<StoredRecord>,
    /// All revisions with their status, this one aside.
    pub revisions: Vec<(i64, Status)>,
    /// The record that an install replaces: the revision before, when it was uninstalled or has failed.
    pub replaced: Option<StoredRecord>,
}

impl Run {
    /// The action that a record is in the middle of.
    pub fn action_of(stored: &StoredRecord) -> Option<ActionKind> {
        let noted = stored.place.progress.as_ref();
        let noted = noted.map(|progress| progress.action);
        noted.or_else(|| Run::kind_of(Status::of(&stored.release.info.status)))
    }

    /// Goes on where the action was left.
    ///
    /// # Errors
    /// When the manifest cannot be turned into objects.
    pub fn resume(resume: Resume<'_>, scope: &dyn Scope, now: Timestamp) -> Result<Self, Error> {
        let noted = resume.stored.place.progress.clone();
        let base = resume.base.as_ref().map(|base| base.release.version);
        let is_own = noted
            .as_ref()
            .is_some_and(|progress| progress.holder == resume.holder);
        let progress = match &noted {
            Some(progress) if is_own => progress.clone(),
            Some(progress) => progress.taken_over(&resume.holder, now),
            None => Progress {
                since: Some(now),
                ..Progress::new(resume.plan.kind, resume.holder.clone(), base)
            },
        };
        let begin = Begin {
            plan: resume.plan,
            record: resume.stored.release.clone(),
            storage_namespace: resume.storage_namespace,
            holder: resume.holder,
            made_from: resume.stored.place.made_from.clone(),
            in_place_of: Some(resume.stored),
            base: resume.base,
            deployed: resume.deployed,
            revisions: resume.revisions,
            replaced: resume.replaced,
        };
        let mut run = Run::new(begin, progress, scope, now)?;
        run.stored = true;
        match &noted {
            Some(_) if is_own => {}
            Some(_) => run.tasks.push_back(Task::One(One::TakeOver)),
            None => {
                run.infer_stage();
                run.tasks.push_back(Task::One(One::Begin));
            }
        }
        let left = run.left();
        run.tasks.extend(left);
        run.advance(now);
        Ok(run)
    }

    /// What is left to do at the stage that was noted.
    fn left(&self) -> std::collections::VecDeque<Task> {
        let mut all = tasks(&self.plan);
        let first = match self.progress.stage {
            Stage::Failing | Stage::Failed => return Run::failing_tasks(),
            Stage::Started => after_begin(&all),
            Stage::Hooks(event) => all.iter().position(|task| *task == Task::Hooks(event)),
            Stage::Waiting(_) => {
                let is_wait =
                    |task: &Task| matches!(task, Task::One(One::AwaitHealth | One::AwaitDeletion));
                all.iter().position(is_wait)
            }
        };
        // A stage that the action has not is none that was reached.
        let first = first.or_else(|| after_begin(&all)).unwrap_or(0);
        all.drain(..first);
        all
    }

    /// Finds out how far an action has come that nobody noted, as one of Flux or of the helm CLI: by the
    /// hooks that ran since it began. What ran before is forgotten, so that the note tells the rest.
    fn infer_stage(&mut self) {
        let began = self.began;
        for hook in &mut self.record.hooks {
            if !ran_since(hook, began) {
                forget_run(hook);
            }
        }
        let events: Vec<Event> = tasks(&self.plan)
            .into_iter()
            .filter_map(|task| match task {
                Task::Hooks(event) => Some(event),
                _ => None,
            })
            .collect();
        // A hook of several events may have run at the first of them; only one that is of a later event
        // alone proves that this was reached.
        let has_run = |event: &Event, earlier: &[Event]| {
            self.record.hooks.iter().any(|hook| {
                let is_of =
                    |event: &Event| hook.hook.events.iter().any(|name| name == event.as_str());
                is_of(event) && !earlier.iter().any(is_of) && ran_since(hook, began)
            })
        };
        let reached = (0..events.len())
            .rev()
            .find(|place| has_run(&events[*place], &events[..*place]));
        if let Some(place) = reached {
            self.progress.stage = Stage::Hooks(events[place]);
        }
    }

    /// The revision that the cluster was at when the action began: as it was noted, or else as Helm would
    /// find it among the other records.
    pub fn base_version(stored: &StoredRecord, revisions: &[(i64, Status)]) -> Option<i64> {
        if let Some(progress) = &stored.place.progress {
            return progress.base;
        }
        let others = || {
            revisions
                .iter()
                .filter(|(version, _)| *version < stored.release.version)
        };
        let newest = || others().map(|(version, _)| *version).max();
        let deployed = others().filter(|(_, status)| *status == Status::Deployed);
        match Run::action_of(stored)? {
            ActionKind::Upgrade => deployed.map(|(version, _)| *version).max().or_else(newest),
            ActionKind::Rollback => newest(),
            _ => None,
        }
    }

    /// Whether nothing is left to do.
    pub fn is_over(&self) -> bool {
        matches!(self.at, At::Over(_))
    }
}

fn after_begin(tasks: &std::collections::VecDeque<Task>) -> Option<usize> {
    let begin = tasks.iter().position(|task| *task == Task::One(One::Begin));
    begin.map(|place| place + 1)
}
