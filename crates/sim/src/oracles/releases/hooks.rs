//! Hooks of a revision run, and none runs again that has succeeded.

use std::collections::BTreeMap;

use everflow_api::inventory::ObjectId;
use everflow_json::Value;
use everflow_release::action::Event;
use everflow_release::record::Status;
use everflow_release::record::mark::Stage;

use super::record::{Record, helm_release};
use super::{Commit, Finding};
use crate::shared::Shared;

/// The annotation of hooks.
const HOOK: &str = "helm.sh/hook";

/// A run of a hook: the Secret of its revision, the event, and what it creates.
type Run = (String, Option<Event>, ObjectId);

/// The hooks that ran for the revisions on which something is under way.
#[derive(Debug, Default)]
pub struct Hooks {
    runs: BTreeMap<Run, Ran>,
}

#[derive(Debug)]
struct Ran {
    /// What the revision was made of.
    content: (String, String),
    succeeded: bool,
}

/// Whether an object was made by a hook.
pub fn is_hook(object: &Value) -> bool {
    object
        .pointer("/metadata/annotations")
        .is_some_and(|all| all.get(HOOK).is_some())
}

fn event(record: &Record) -> Option<Event> {
    match record.stage() {
        Some(Stage::Hooks(event)) => Some(event),
        _ => None,
    }
}

fn has_succeeded(object: &Value) -> bool {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let complete =
        |condition: &Value| condition["type"] == "Complete" && condition["status"] == "True";
    conditions.is_some_and(|all| all.iter().any(complete))
        || object
            .pointer("/status/phase")
            .is_some_and(|phase| phase == "Succeeded")
}

impl Hooks {
    /// An object was written; `records` are all of its namespace and others.
    pub fn object(
        &mut self,
        commit: &Commit<'_>,
        records: &[std::sync::Arc<Record>],
    ) -> Option<Finding> {
        let object = commit.new.filter(|object| is_hook(object))?;
        let id = ObjectId::of(object);
        if commit.old.is_some() {
            if has_succeeded(object) {
                let runs = self.runs.iter_mut().filter(|((_, _, ran), _)| *ran == id);
                runs.for_each(|(_, ran)| ran.succeeded = true);
            }
            return None;
        }
        commit.who.replica()?;
        let of = records
            .iter()
            .find(|record| record.is_under_way() && record.hooks.iter().any(|hook| hook.id == id));
        let Some(record) = of else {
            let text = format!(
                "{} creates {}, a hook of no revision on which something is noted to be under way",
                commit.who,
                commit.name()
            );
            return Some(commit.finding("hooks run once", text));
        };
        // Who is the same for everyone is told by name: a hook that a request creates late counts all the same.
        let run = (record.secret.clone(), event(record), id.clone());
        let content = (record.chart_version.clone(), record.config.clone());
        let before = self.runs.get(&run);
        let again = before.is_some_and(|ran| ran.succeeded && ran.content == content);
        let succeeded = false;
        self.runs.insert(run, Ran { content, succeeded });
        // Others than Jobs and Pods have nothing to run: that they are done is what the record says.
        let noted = record
            .hooks
            .iter()
            .find(|hook| hook.id == id && !hook.runs());
        let is_done = noted.is_some_and(|hook| hook.events.len() == 1 && hook.phase == "Succeeded");
        if !(again || is_done) || commit.late.is_some() {
            return None;
        }
        let text = format!(
            "{} runs the hook {} of {} again, which had succeeded",
            commit.who,
            commit.name(),
            record.secret
        );
        Some(commit.finding("hooks run once", text))
    }

    /// A record was written or deleted.
    pub fn record(
        &mut self,
        shared: &Shared,
        commit: &Commit<'_>,
        old: Option<&Record>,
        new: Option<&Record>,
    ) -> Option<Finding> {
        let ended = new.is_none_or(|new| !new.is_under_way());
        let found = old
            .filter(|_| ended && commit.who.replica().is_some())
            .and_then(|old| self.skipped(shared, commit, old, new));
        if ended {
            let secret = commit.key;
            self.runs.retain(|(of, ..), _| of != secret);
        }
        found
    }

    /// A hook that was to run before an action could end well, and has not.
    fn skipped(
        &self,
        shared: &Shared,
        commit: &Commit<'_>,
        old: &Record,
        new: Option<&Record>,
    ) -> Option<Finding> {
        let became = new.map(|new| new.status);
        let events: &[Event] = match (old.status, became) {
            (Status::PendingInstall, Some(Status::Deployed)) => {
                &[Event::PreInstall, Event::PostInstall]
            }
            (Status::PendingUpgrade, Some(Status::Deployed)) => {
                &[Event::PreUpgrade, Event::PostUpgrade]
            }
            (Status::PendingRollback, Some(Status::Deployed)) => {
                &[Event::PreRollback, Event::PostRollback]
            }
            (Status::Uninstalling, None | Some(Status::Uninstalled)) => &[Event::PreDelete],
            _ => return None,
        };
        if self.are_disabled(shared, old) {
            return None;
        }
        for hook in &old.hooks {
            for event in events.iter().filter(|event| hook.is_of(**event)) {
                let run = (old.secret.clone(), Some(*event), hook.id.clone());
                // What does not run is done when it is there.
                let is_there = !hook.runs() && hook.phase == "Succeeded";
                if is_there
                    || self
                        .runs
                        .get(&run)
                        .is_some_and(|ran| ran.succeeded || !hook.runs())
                {
                    continue;
                }
                let text = format!(
                    "{} ends the action on {} although its {event} hook {} has not succeeded",
                    commit.who, old.secret, hook.id.name
                );
                return Some(commit.finding("no hook is skipped", text));
            }
        }
        None
    }

    fn are_disabled(&self, shared: &Shared, record: &Record) -> bool {
        let Some(server) = shared.server() else {
            return true;
        };
        let owner = record.made_for.as_ref();
        let owner =
            owner.and_then(|(namespace, name)| helm_release(server.store(), namespace, name));
        let Some(object) = owner else {
            return false;
        };
        let spec = &object.spec;
        match record.status {
            Status::PendingInstall => spec.install.as_ref().is_some_and(|one| one.disable_hooks),
            Status::PendingUpgrade => spec.upgrade.as_ref().is_some_and(|one| one.disable_hooks),
            Status::PendingRollback => spec.rollback.as_ref().is_some_and(|one| one.disable_hooks),
            _ => spec.uninstall.as_ref().is_some_and(|one| one.disable_hooks),
        }
    }
}
