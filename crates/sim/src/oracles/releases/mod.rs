//! Releases: what storage says of them is never lost, never doubled and never left in the middle, and nothing is done to
//! their objects that it does not say.

mod end;
mod hooks;
mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use everflow_api::helm::HelmRelease;
use everflow_api::inventory::ObjectId;
use everflow_api::names::condition::READY;
use everflow_api::object::Object;
use everflow_cluster::store::Store;
use everflow_json::Value;
use everflow_release::names::ReleaseTarget;
use everflow_release::record::Status;
use everflow_release::record::mark::Stage;
use everflow_runtime::queue::Key;

use super::{Commit, Finding, lately_restored};
use crate::history::Actor;
use crate::shared::Shared;
pub(crate) use end::at_the_end;
use hooks::{Hooks, is_hook};
use record::{HELM_RELEASES, Record, Records, SECRETS, helm_release};

/// Who makes no notes has so long from its last write.
const FOREIGN: Duration = Duration::from_secs(900);
/// Ready may be said before it is heard what others have done to storage.
const LATELY: Duration = Duration::from_secs(30);

/// What is remembered of releases.
#[derive(Debug, Default)]
pub struct Releases {
    records: Records,
    hooks: Hooks,
    /// When somebody else wrote a record last.
    foreign: BTreeMap<String, Duration>,
    /// HelmReleases whose attempt under way began while they were suspended, by replica.
    suspended: BTreeSet<(usize, String)>,
}

/// Whether what is deleted or changed is for the rules of this module alone.
pub(super) fn is_of_release(commit: &Commit<'_>) -> bool {
    let object = commit.new.or(commit.old);
    object.is_some_and(|object| {
        object["type"] == "helm.sh/release.v1" || is_hook(object) || release_of(object).is_some()
    })
}

/// The name and the namespace of the release that an object belongs to.
fn release_of(object: &Value) -> Option<(&str, &str)> {
    let annotations = object.pointer("/metadata/annotations")?;
    let text = |name: &str| {
        annotations
            .get(format!("meta.helm.sh/release-{name}"))?
            .as_str()
    };
    Some((text("name")?, text("namespace")?))
}

fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

impl Releases {
    /// An attempt begins.
    pub fn attempt(&mut self, who: Actor, key: &Key, object: &Value) {
        let Some(replica) = who.replica().filter(|_| key.kind == "HelmRelease") else {
            return;
        };
        let place = (replica, format!("{}/{}", key.namespace, key.name));
        match object["spec"]["suspend"] == true {
            true => self.suspended.insert(place),
            false => self.suspended.remove(&place),
        };
    }

    /// A write has happened.
    pub fn commit(&mut self, shared: &Shared, commit: &Commit<'_>) -> Option<Finding> {
        let store = shared.server()?.store();
        let is_record = |object: Option<&Value>| {
            object.is_some_and(|object| object["type"] == "helm.sh/release.v1")
        };
        let found = if commit.table == SECRETS && (is_record(commit.new) || is_record(commit.old)) {
            self.record_written(shared, store, commit)
        } else if commit.table == HELM_RELEASES {
            self.says_ready(store, commit)
        } else {
            self.object_written(store, commit)
        };
        // What a restored cluster has forgotten cannot be held against anybody.
        found.filter(|_| !lately_restored(shared, commit.at))
    }

    fn record_written(
        &mut self,
        shared: &Shared,
        store: &Store,
        commit: &Commit<'_>,
    ) -> Option<Finding> {
        let (old, new) = (
            commit.old.and_then(Record::of),
            commit.new.and_then(Record::of),
        );
        let was_foreign = self.foreign.get(commit.key).copied();
        match commit.who.replica() {
            None => self.foreign.insert(commit.key.to_owned(), commit.at),
            Some(_) => self.foreign.remove(commit.key),
        };
        let hook = self
            .hooks
            .record(shared, commit, old.as_ref(), new.as_ref());
        let replica = commit.who.replica()?;
        let one = new.as_ref().or(old.as_ref())?;
        let all = self.records.list(store, one.storage(), &one.name);
        hook.or_else(|| self.touches_suspended(commit, replica, one))
            .or_else(|| blind_unlock(commit, was_foreign, old.as_ref()))
            .or_else(|| extra_revision(commit, old.as_ref(), new.as_ref(), &all))
            .or_else(|| target_lost(commit, old.as_ref(), &all))
            .or_else(|| uninstalled(store, commit, old.as_ref(), new.as_ref()))
    }

    /// Who was suspended when the attempt began is left alone.
    fn touches_suspended(
        &self,
        commit: &Commit<'_>,
        replica: usize,
        record: &Record,
    ) -> Option<Finding> {
        let (namespace, name) = record.made_for.as_ref()?;
        let owner = format!("{namespace}/{name}");
        if commit.late.is_some() || !self.suspended.contains(&(replica, owner.clone())) {
            return None;
        }
        let text = format!(
            "{} writes {} for {owner}, which is suspended",
            commit.who,
            commit.name()
        );
        Some(commit.finding("suspended is left alone", text))
    }

    fn object_written(&mut self, store: &Store, commit: &Commit<'_>) -> Option<Finding> {
        let object = commit.new.or(commit.old)?;
        if is_hook(object) {
            let records = self.records.list(store, "", "");
            return self.hooks.object(commit, &records);
        }
        let replica = commit.who.replica()?;
        if commit.is_talk() || commit.part == "status" {
            return None;
        }
        // What is taken over from elsewhere is marked by the same write.
        let (name, namespace) = release_of(object)?;
        let all = self.records.list(store, "", name);
        let of_release = |record: &&Arc<Record>| record.namespace == namespace;
        let newest = all.iter().rev().find(of_release);
        let id = ObjectId::of(object);
        let deletes = commit.new.is_none_or(is_going) && !commit.old.is_some_and(is_going);
        let Some(newest) = newest else {
            let text = format!(
                "{} writes {}, of a release that storage does not have",
                commit.who,
                commit.name()
            );
            return Some(commit.finding("records cover all", text));
        };
        if commit.late.is_some() {
            return None;
        }
        if let Some(found) = self.touches_suspended(commit, replica, newest) {
            return Some(found);
        }
        if deletes {
            let may = newest.status == Status::Uninstalling
                || newest.stage() == Some(Stage::Failing)
                || !newest.has(&id);
            let text = format!(
                "{} deletes {}, which {} has",
                commit.who,
                commit.name(),
                newest.secret
            );
            return (!may).then(|| commit.finding("no wrong delete", text));
        }
        let same = commit.old.is_some_and(|old| {
            ["spec", "data"]
                .iter()
                .all(|field| old.get(field) == object.get(field))
        });
        if same || newest.has(&id) || commit.old.is_some_and(is_going) {
            return None;
        }
        let text = format!(
            "{} writes {}, which {} does not have",
            commit.who,
            commit.name(),
            newest.secret
        );
        Some(commit.finding("records cover all", text))
    }

    /// Ready of the newest generation, while storage says something else.
    fn says_ready(&mut self, store: &Store, commit: &Commit<'_>) -> Option<Finding> {
        commit.who.replica()?;
        let new = commit.new.filter(|_| commit.part == "status")?;
        let object = Object::<HelmRelease>::read(new).ok()?;
        let is_now = object.status.observed_generation == object.metadata.generation;
        let is_ready = everflow_api::condition::is_true(&object.status.conditions, READY);
        let leaves_alone = object.spec.suspend || object.metadata.is_deleted();
        if !is_ready || !is_now || leaves_alone || commit.late.is_some() {
            return None;
        }
        let all = record::of_object(&mut self.records, store, &object);
        let newest = all.last();
        if newest.is_some_and(|newest| newest.status == Status::Deployed) {
            return None;
        }
        let storage = ReleaseTarget::of(&object).storage_namespace;
        let others = self
            .foreign
            .values()
            .any(|at| commit.at.saturating_sub(*at) < LATELY);
        if others {
            return None;
        }
        let stands = newest.map_or_else(
            || format!("no record in {storage}"),
            |newest| format!("{} {}", newest.secret, newest.status),
        );
        let text = format!(
            "{} says that {} is Ready, and storage has {stands}",
            commit.who,
            commit.name()
        );
        Some(commit.finding("no lying status", text))
    }
}

/// A record of somebody else who may be at work is not touched.
fn blind_unlock(
    commit: &Commit<'_>,
    was_foreign: Option<Duration>,
    old: Option<&Record>,
) -> Option<Finding> {
    let old = old.filter(|old| old.status.is_in_progress() && old.progress.is_none())?;
    let age = commit.at.saturating_sub(was_foreign?);
    if age >= FOREIGN {
        return None;
    }
    let text = format!(
        "{} writes {}, which is {} and was written by somebody else {}s ago",
        commit.who,
        commit.name(),
        old.status,
        age.as_secs()
    );
    Some(commit.finding("no blind unlock", text))
}

/// A new revision is made for something new, and not while another is under way.
fn extra_revision(
    commit: &Commit<'_>,
    old: Option<&Record>,
    new: Option<&Record>,
    all: &[Arc<Record>],
) -> Option<Finding> {
    let new = new.filter(|_| old.is_none())?;
    let before = all
        .iter()
        .rev()
        .find(|record| record.version < new.version)?;
    let why = match before.status {
        status if status.is_in_progress() && before.stage() != Some(Stage::Failed) => {
            format!("while {} is {status}", before.secret)
        }
        Status::Deployed if before.content() == new.content() && !new.is_rollback => {
            format!("which is the same as {}", before.secret)
        }
        _ => return None,
    };
    let text = format!("{} makes {}, {why}", commit.who, new.secret);
    Some(commit.finding("no extra revision", text))
}

/// As long as a release is not uninstalled there is a revision to go back to, once there was one.
fn target_lost(commit: &Commit<'_>, old: Option<&Record>, all: &[Arc<Record>]) -> Option<Finding> {
    let old = old.filter(|old| old.is_target())?;
    let newest = all.last()?;
    let is_over = matches!(newest.status, Status::Uninstalling | Status::Uninstalled);
    if is_over || all.iter().any(|record| record.is_target()) {
        return None;
    }
    let text = format!(
        "{} writes {}, which was {}, and {} is {}: nothing is left to roll back to",
        commit.who,
        commit.name(),
        old.status,
        newest.secret,
        newest.status
    );
    Some(commit.finding("rollback targets stay", text))
}

/// What is deployed is uninstalled only when that is asked for.
fn uninstalled(
    store: &Store,
    commit: &Commit<'_>,
    old: Option<&Record>,
    new: Option<&Record>,
) -> Option<Finding> {
    let old = old.filter(|old| old.status == Status::Deployed)?;
    // One that is deleted is no more than a record that is too many.
    if new?.status != Status::Uninstalling {
        return None;
    }
    let (namespace, name) = old.made_for.as_ref()?;
    let owner = helm_release(store, namespace, name)?;
    let target = ReleaseTarget::of(&owner);
    let place = (
        target.name.as_str(),
        target.namespace.as_str(),
        target.storage_namespace.as_str(),
    );
    let has_moved = place != (old.name.as_str(), old.namespace.as_str(), old.storage());
    let chart = owner
        .spec
        .chart
        .as_ref()
        .map(|chart| chart.spec.chart.as_str());
    let other_chart = chart.is_some_and(|chart| !chart.ends_with(old.chart.as_str()));
    let failed = old.hooks.iter().any(|hook| hook.phase == "Failed");
    if owner.metadata.is_deleted() || has_moved || other_chart || failed {
        return None;
    }
    let text = format!(
        "{} uninstalls {}, which is deployed and which {namespace}/{name} asks for",
        commit.who, old.secret
    );
    Some(commit.finding("no wrong delete", text))
}
