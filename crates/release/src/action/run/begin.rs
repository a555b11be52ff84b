//! The beginning of an action.

use everflow_helm::release::Release;
use everflow_json::Value;
use everflow_limits::Budget;
use everflow_time::Timestamp;

use super::tasks::tasks;
use super::{At, Run};
use crate::action::ActionKind;
use crate::action::hooks::document;
use crate::action::plan::Plan;
use crate::action::step::Expected;
use crate::error::Error;
use crate::manifest::{Scope, objects, own};
use crate::record::mark::{Holder, MadeFrom, Progress};
use crate::record::{Status, StoredRecord};

/// What an action begins with.
pub struct Begin<'a> {
    /// What is asked for.
    pub plan: Plan,
    /// The record: a new one to install, upgrade or roll back to, or the newest one to uninstall or to
    /// test.
    pub record: Release,
    /// The Secret that the record takes the place of: the one that is uninstalled or tested, or the same
    /// revision of an action that was broken off before it changed anything.
    pub in_place_of: Option<StoredRecord>,
    /// The namespace of the records.
    pub storage_namespace: &'a str,
    /// The process that acts.
    pub holder: Holder,
    /// What the revision is made from.
    pub made_from: Option<MadeFrom>,
    /// The revision that the cluster is at: what is deployed or else the newest for an upgrade, the newest
    /// for a rollback, none otherwise.
    pub base: Option<StoredRecord>,
    /// Further revisions that are deployed.
    pub deployed: Vec<StoredRecord>,
    /// All revisions with their status, this one aside.
    pub revisions: Vec<(i64, Status)>,
    /// The record that an install replaces.
    pub replaced: Option<StoredRecord>,
}

impl Run {
    /// Begins an action.
    ///
    /// # Errors
    /// When the manifest cannot be turned into objects: nothing has been done then.
    pub fn begin(begin: Begin<'_>, scope: &dyn Scope, now: Timestamp) -> Result<Self, Error> {
        let base = begin.base.as_ref().map(|stored| stored.release.version);
        let progress = Progress::new(begin.plan.kind, begin.holder.clone(), base);
        let tasks = tasks(&begin.plan);
        let mut run = Run::new(begin, progress, scope, now)?;
        run.tasks = tasks;
        run.began = now;
        if run.is_uninstall() {
            run.record.info.deleted = now.to_string();
            run.set_status(
                Status::Uninstalling,
                "Deletion in progress (or silently failed)",
            );
        }
        run.advance(now);
        Ok(run)
    }

    /// An action with nothing to do yet.
    pub(super) fn new(
        begin: Begin<'_>,
        progress: Progress,
        scope: &dyn Scope,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let record = begin.record;
        let mut own_objects = objects(&record.manifest, &record.namespace, scope)?;
        for object in &mut own_objects {
            own(object, &record.name, &record.namespace);
        }
        let base_objects = match &begin.base {
            // A kind that is not served any more has no objects to delete.
            Some(base) => objects(&base.release.manifest, &record.namespace, &Lenient(scope))?,
            None => Vec::new(),
        };
        let expected = match &begin.in_place_of {
            Some(stored) => Expected::Version(stored.place.resource_version.clone()),
            None => Expected::Absent,
        };
        Ok(Run {
            hook_objects: hook_objects(&record, scope),
            objects: own_objects,
            base_objects,
            plan: begin.plan,
            storage_namespace: begin.storage_namespace.to_owned(),
            expected,
            created: begin.in_place_of.and_then(|stored| stored.place.created),
            progress,
            made_from: begin.made_from,
            began: began(&record),
            record,
            stored: false,
            has_news: false,
            base: begin.base,
            deployed: begin.deployed,
            revisions: begin.revisions,
            replaced: begin.replaced,
            tasks: std::collections::VecDeque::new(),
            at: At::Supersede(std::collections::VecDeque::new()),
            since: now,
            errors: Vec::new(),
        })
    }

    /// Which action a record is in the middle of.
    pub(super) fn kind_of(status: Status) -> Option<ActionKind> {
        match status {
            Status::PendingInstall => Some(ActionKind::Install),
            Status::PendingUpgrade => Some(ActionKind::Upgrade),
            Status::PendingRollback => Some(ActionKind::Rollback),
            Status::Uninstalling => Some(ActionKind::Uninstall),
            _ => None,
        }
    }
}

/// When the action began that a record is in the middle of.
fn began(record: &Release) -> Timestamp {
    let text = match Status::of(&record.info.status) {
        Status::Uninstalling => &record.info.deleted,
        _ => &record.info.last_deployed,
    };
    Timestamp::parse(text).unwrap_or_default()
}

fn hook_objects(record: &Release, scope: &dyn Scope) -> Vec<Result<Vec<Value>, String>> {
    let of_hook = |hook| {
        document(hook)?;
        objects(&hook.hook.manifest, &record.namespace, scope).map_err(|error| match error {
            Error::Manifest(why) => why,
            other => other.to_string(),
        })
    };
    record.hooks.iter().map(of_hook).collect()
}

/// A scope that takes unknown kinds for such of the whole cluster.
struct Lenient<'s>(&'s dyn Scope);

impl Scope for Lenient<'_> {
    fn budget(&self) -> Option<&Budget> {
        self.0.budget()
    }

    fn is_namespaced(&self, api_version: &str, kind: &str) -> Option<bool> {
        self.0.is_namespaced(api_version, kind).or(Some(false))
    }
}
