//! Applies the objects of one stage.

use std::time::Duration;

use everflow_env::BoxFuture;
use everflow_json::Value;
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::{At, DeleteOptions, Patch, Resource, WriteOptions};

use super::applied_cache::Recall;
use super::{AppliedCache, Applier, Live, LiveState, run_concurrently};
use crate::change::{Action, Change};
use crate::drift;
use crate::error::ApplyError;
use crate::immutable::is_immutable;
use crate::inventory::Entry;
use crate::normalize::{Owner, is_encrypted_secret};
use crate::policy::ObjectPolicy;

/// How often it is looked whether an object that is recreated has gone.
const LOOK: Duration = Duration::from_millis(500);

/// A version that no object has: the server takes it only where there is no object yet.
const NO_VERSION: &str = "1";

/// An object after its stage.
#[derive(Debug, Clone)]
pub struct Applied {
    /// What was done to it.
    pub change: Change,
    /// How it is now, where that is known.
    pub live: Option<Value>,
    /// Whose it was before, where it was another's.
    pub taken_from: Option<Owner>,
}

/// What is known of an object before it is looked at.
type Recalled = (Resource, LiveState, Recall);

/// What is to be done to an object.
#[derive(Debug)]
enum Plan {
    /// Nothing.
    Done(Applied),
    /// It is applied.
    Write {
        resource: Resource,
        entry: Entry,
        action: Action,
        payload: Value,
        /// Whether the server has taken it in a dry run.
        dry_run_passed: bool,
        /// Whether it is written only where there is none yet.
        only_new: bool,
        /// Whose it is now, where it is another's.
        taken_from: Option<Owner>,
    },
}

/// What is to be done to the objects of a stage.
#[derive(Debug)]
pub struct ApplyPlan {
    plans: Vec<(Value, Plan)>,
}

impl ApplyPlan {
    /// The objects that will be written.
    pub fn writes(&self) -> impl Iterator<Item = &Entry> {
        self.plans.iter().filter_map(|(_, plan)| match plan {
            Plan::Write { entry, .. } => Some(entry),
            Plan::Done(_) => None,
        })
    }

    /// What would be done to each object.
    pub fn actions(&self) -> impl Iterator<Item = (&Entry, Action)> {
        self.plans.iter().map(|(_, plan)| match plan {
            Plan::Write { entry, action, .. } => (entry, *action),
            Plan::Done(applied) => (&applied.change.entry, applied.change.action),
        })
    }
}

impl Applier {
    fn options(&self) -> WriteOptions {
        WriteOptions::by(&self.takeover.manager)
            .force()
            .without_managed_fields()
    }

    /// Plans a stage: what is to be done to each of its objects. Where it is not known otherwise, a dry run says so.
    ///
    /// # Errors
    /// All refusals, in the order of the objects; then nothing of the stage is to be written.
    pub async fn prepare(
        &self,
        objects: &[Value],
        cache: &AppliedCache,
        live: &dyn Live,
    ) -> Result<ApplyPlan, Vec<ApplyError>> {
        let mut work: Vec<BoxFuture<'_, Result<Recalled, ClientError>>> = Vec::new();
        for object in objects {
            work.push(Box::pin(self.recall(object, cache, live)));
        }
        let recalls = run_concurrently(work).await;
        let to_look_at = recalls
            .iter()
            .filter(|recall| !matches!(recall, Ok((_, _, Recall::Unchanged))));
        // A write that fails alone leaves nothing half done: it needs no dry run.
        let alone = to_look_at.count() == 1;
        let mut work: Vec<BoxFuture<'_, Result<Plan, ApplyError>>> = Vec::new();
        for (object, recall) in objects.iter().zip(recalls) {
            work.push(Box::pin(self.plan(object, recall, alone)));
        }
        let planned = run_concurrently(work).await;
        let mut plans = Vec::with_capacity(planned.len());
        let mut errors = Vec::new();
        for (object, plan) in objects.iter().zip(planned) {
            match plan {
                Ok(plan) => plans.push((object.clone(), plan)),
                Err(error) => errors.push(error),
            }
        }
        match errors.is_empty() {
            true => Ok(ApplyPlan { plans }),
            false => Err(errors),
        }
    }

    /// Does what was rehearsed. When a write fails, what was done beside it comes back too.
    pub async fn commit(
        &self,
        plan: ApplyPlan,
        cache: &AppliedCache,
    ) -> (Vec<Applied>, Vec<ApplyError>) {
        let mut work: Vec<BoxFuture<'_, Result<Applied, ApplyError>>> = Vec::new();
        for (object, plan) in plan.plans {
            work.push(Box::pin(self.carry_out(object, plan, cache)));
        }
        let written = run_concurrently(work).await;
        let (mut done, mut errors) = (Vec::with_capacity(written.len()), Vec::new());
        for result in written {
            match result {
                Ok(applied) => {
                    let kind = &applied.change.entry.id.kind;
                    self.preflight.note_written(kind).await;
                    done.push(applied);
                }
                Err(error) => errors.push(error),
            }
        }
        (done, errors)
    }

    async fn recall(
        &self,
        object: &Value,
        cache: &AppliedCache,
        live: &dyn Live,
    ) -> Result<Recalled, ClientError> {
        let entry = Entry::of(object);
        let resource = self.resource(&entry).await?;
        let at = at(&resource, &entry);
        let seen = live.metadata(&resource, at.namespace, at.name);
        let recall = cache.recall(&entry.id, object, &seen);
        Ok((resource, seen, recall))
    }

    async fn carry_out(
        &self,
        object: Value,
        plan: Plan,
        cache: &AppliedCache,
    ) -> Result<Applied, ApplyError> {
        let id = Entry::of(&object).id;
        let (resource, entry, action, payload, dry_run_passed, taken_from) =
            match self.create_or_prepare(&object, plan, cache).await? {
                Plan::Done(applied) => {
                    if let (Action::Unchanged, Some(live)) = (applied.change.action, &applied.live)
                    {
                        cache.remember(&id, &object, live);
                    }
                    return Ok(applied);
                }
                Plan::Write {
                    resource,
                    entry,
                    action,
                    payload,
                    dry_run_passed,
                    taken_from,
                    ..
                } => (resource, entry, action, payload, dry_run_passed, taken_from),
            };
        cache.begin(&id);
        let mut written = self
            .write(&resource, entry, action, &payload, dry_run_passed)
            .await;
        if let Ok(applied) = &mut written {
            applied.taken_from = taken_from;
        }
        match &written {
            Ok(Applied {
                live: Some(live), ..
            }) => cache.remember(&id, &object, live),
            Err(ApplyError::Apply { source, .. } | ApplyError::DryRun { source, .. }) => {
                cache.failed(&id, source, self.client.clock().elapsed());
            }
            _ => cache.forget(&id),
        }
        written
    }

    /// Creates an object that is only to be created; when that does not work, for whatever
    /// reason, it is looked at closely.
    async fn create_or_prepare(
        &self,
        object: &Value,
        plan: Plan,
        cache: &AppliedCache,
    ) -> Result<Plan, ApplyError> {
        let (resource, entry) = match plan {
            Plan::Write {
                resource,
                entry,
                only_new: true,
                ..
            } => (resource, entry),
            plan => return Ok(plan),
        };
        let id = Entry::of(object).id;
        cache.begin(&id);
        let mut payload = object.clone();
        payload["metadata"]["resourceVersion"] = NO_VERSION.into();
        let patch = Patch::Apply(payload);
        let place = at(&resource, &entry);
        let options = self.options();
        match self.client.patch(&resource, place, &patch, &options).await {
            Ok(live) => {
                cache.remember(&id, object, &live);
                Ok(done(&entry, Action::Created, Some(live)))
            }
            Err(source @ ClientError::Fenced { .. }) => {
                cache.forget(&id);
                Err(ApplyError::Apply {
                    entry: entry.into(),
                    source,
                })
            }
            Err(error) => {
                cache.failed(&id, &error, self.client.clock().elapsed());
                self.plan_by_dry_run(object, resource, entry).await
            }
        }
    }

    async fn write(
        &self,
        resource: &Resource,
        entry: Entry,
        action: Action,
        payload: &Value,
        dry_run_passed: bool,
    ) -> Result<Applied, ApplyError> {
        let at = at(resource, &entry);
        let patch = Patch::Apply(payload.clone());
        match self
            .client
            .patch(resource, at, &patch, &self.options())
            .await
        {
            Ok(live) => Ok(Applied {
                change: Change {
                    entry: as_served(&live, &entry),
                    action,
                },
                live: Some(live),
                taken_from: None,
            }),
            Err(source) => {
                let entry = entry.into();
                Err(match dry_run_passed {
                    true => ApplyError::Apply { entry, source },
                    false => ApplyError::DryRun { entry, source },
                })
            }
        }
    }

    async fn plan(
        &self,
        object: &Value,
        recalled: Result<Recalled, ClientError>,
        alone: bool,
    ) -> Result<Plan, ApplyError> {
        let mut entry = Entry::of(object);
        if is_encrypted_secret(object) {
            return Err(ApplyError::Encrypted {
                entry: entry.into(),
            });
        }
        let (resource, seen, recall) = match recalled {
            Ok(recalled) => recalled,
            Err(source) => {
                let entry = entry.into();
                return Err(ApplyError::DryRun { entry, source });
            }
        };
        if !resource.namespaced {
            // A kustomization may have given it one: it must not be listed twice.
            entry.id.namespace.clear();
        }
        let refused = |source| ApplyError::DryRun {
            entry: entry.clone().into(),
            source,
        };
        let done = |action, live: Option<Value>| done(&entry, action, live);
        if recall == Recall::Unchanged {
            return Ok(match &seen {
                LiveState::Present(live) => {
                    let mut plan = done(Action::Unchanged, None);
                    if let Plan::Done(applied) = &mut plan {
                        applied.change.entry = as_served_metadata(live, &entry);
                    }
                    plan
                }
                _ => done(Action::Unchanged, None),
            });
        }
        if ObjectPolicy::LeaveAlone.of(object) {
            let live = self.live(&resource, &entry).await.map_err(refused)?;
            return Ok(done(Action::Skipped, live));
        }
        let outdated = recall == Recall::Outdated && self.ignore.is_empty();
        if outdated && alone && !self.force && !ObjectPolicy::Recreate.of(object) {
            return Ok(Plan::Write {
                resource,
                entry,
                action: Action::Configured,
                payload: object.clone(),
                dry_run_passed: false,
                only_new: false,
                taken_from: None,
            });
        }
        let fresh = recall == Recall::Nothing
            && !matches!(seen, LiveState::Present(_))
            && !self.before.contains(&entry.id);
        if fresh && self.preflight.admits(&self.client, &resource, object).await {
            return Ok(Plan::Write {
                resource,
                entry,
                action: Action::Created,
                payload: object.clone(),
                dry_run_passed: false,
                only_new: true,
                taken_from: None,
            });
        }
        self.plan_by_dry_run(object, resource, entry).await
    }

    /// Plans an object by a dry run on the server.
    async fn plan_by_dry_run(
        &self,
        object: &Value,
        resource: Resource,
        entry: Entry,
    ) -> Result<Plan, ApplyError> {
        let refused = |source| ApplyError::DryRun {
            entry: entry.clone().into(),
            source,
        };
        let done = |action, live: Option<Value>| done(&entry, action, live);
        let at = at(&resource, &entry);
        let mut dry_run = self.dry_run(&resource, at, object).await;
        let is_new = matches!(&dry_run, Ok(wanted) if version(wanted).is_empty());
        let mut current = match is_new {
            true => None,
            false => match (self.live(&resource, &entry).await, &dry_run) {
                (Ok(current), _) => current,
                (Err(error), Ok(_)) => return Err(refused(error)),
                // What the dry run says comes first.
                (Err(_), Err(_)) => None,
            },
        };
        if let Some(live) = &current
            && (ObjectPolicy::LeaveAlone.of(live) || ObjectPolicy::OnlyCreate.of(object))
        {
            return Ok(done(Action::Skipped, current));
        }
        if let (Err(error), Some(live)) = (&dry_run, &current)
            && (self.force || ObjectPolicy::Recreate.of(object) || ObjectPolicy::Recreate.of(live))
            && is_immutable(error)
        {
            self.delete_and_wait(&resource, &entry, live).await?;
            dry_run = self.dry_run(&resource, at, object).await;
            current = None;
        }
        let wanted = dry_run.map_err(refused)?;
        let Some(mut current) = current else {
            return Ok(Plan::Write {
                resource,
                entry,
                action: Action::Created,
                payload: object.clone(),
                dry_run_passed: true,
                only_new: false,
                taken_from: None,
            });
        };
        let taken_from = self.owner.other(&current);
        let mut cleaned = false;
        if let Some(patch) = self.takeover.patch(object, &current) {
            let by = WriteOptions::by(&self.takeover.manager);
            let patch = Patch::Json(patch);
            let patched = self.client.patch(&resource, at, &patch, &by).await;
            current = patched.map_err(|source| ApplyError::Takeover {
                entry: entry.clone().into(),
                source,
            })?;
            cleaned = true;
        }
        if !cleaned && !drift::differs(&current, &wanted, &self.ignore) {
            return Ok(done(Action::Unchanged, Some(current)));
        }
        let manager = &self.takeover.manager;
        let payload = self.ignore.yielding(object, &current, &wanted, manager);
        Ok(Plan::Write {
            resource,
            entry,
            action: Action::Configured,
            payload,
            dry_run_passed: true,
            only_new: false,
            taken_from,
        })
    }

    async fn dry_run(
        &self,
        resource: &Resource,
        at: At<'_>,
        object: &Value,
    ) -> Result<Value, ClientError> {
        let patch = Patch::Apply(object.clone());
        let options = self.options().dry_run();
        self.client.patch(resource, at, &patch, &options).await
    }

    async fn delete_and_wait(
        &self,
        resource: &Resource,
        entry: &Entry,
        live: &Value,
    ) -> Result<(), ApplyError> {
        let mut options = DeleteOptions::uid(live["metadata"]["uid"].as_str().unwrap_or_default());
        options.propagation = "Background";
        let at = at(resource, entry);
        match self.client.delete(resource, at, &options).await {
            Ok(_) | Err(ClientError::NotFound(_)) => {}
            Err(source) => {
                return Err(ApplyError::Recreate {
                    entry: entry.clone().into(),
                    source,
                });
            }
        }
        let clock = self.client.clock().clone();
        let until = clock.elapsed() + self.patience;
        loop {
            let there = self.live(resource, entry).await;
            let there = there.map_err(|source| ApplyError::Recreate {
                entry: entry.clone().into(),
                source,
            })?;
            let Some(there) = there else {
                return Ok(());
            };
            if clock.elapsed() >= until {
                return Err(ApplyError::NotGone {
                    entry: entry.clone().into(),
                    span: self.patience,
                    finalizers: everflow_runtime::metadata::finalizers(&there),
                });
            }
            clock.sleep(LOOK).await;
        }
    }
}

fn done(entry: &Entry, action: Action, live: Option<Value>) -> Plan {
    Plan::Done(Applied {
        change: Change {
            entry: live
                .as_ref()
                .map_or_else(|| entry.clone(), |live| as_served(live, entry)),
            action,
        },
        live,
        taken_from: None,
    })
}

fn at<'e>(resource: &Resource, entry: &'e Entry) -> At<'e> {
    match resource.namespaced {
        true => At::new(&entry.id.namespace, &entry.id.name),
        false => At::new("", &entry.id.name),
    }
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default()
}

/// The entry of an object as the server has it: objects of the whole cluster lose the namespace.
fn as_served(live: &Value, entry: &Entry) -> Entry {
    let mut served = Entry::of(live);
    if served.id.kind.is_empty() {
        served = as_served_metadata(live, entry);
    }
    served
}

fn as_served_metadata(live: &Value, entry: &Entry) -> Entry {
    let mut served = entry.clone();
    let namespace = live["metadata"]["namespace"].as_str();
    served.id.namespace = namespace.unwrap_or_default().to_owned();
    served
}
