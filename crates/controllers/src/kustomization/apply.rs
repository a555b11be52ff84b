//! Applies what was built, and deletes what is no longer there.

use std::sync::Arc;

use everflow_api::inventory::{ObjectId, ResourceInventory, ResourceRef};
use everflow_api::kustomization::Kustomization;
use everflow_api::names::manager;
use everflow_api::object::Object;
use everflow_api::reason::Reason;
use everflow_apply::change::{self, Action, Change};
use everflow_apply::drift::Ignore;
use everflow_apply::effects::{Applied, AppliedCache, Applier, Live};
use everflow_apply::inventory::{Entry, Inventory};
use everflow_apply::normalize::{Owner, normalize};
use everflow_apply::preflight::{self, Preflight};
use everflow_apply::takeover::Takeover;
use everflow_apply::{ApplyError, order};
use everflow_env::Place;
use everflow_json::Value;
use everflow_runtime::Error as ClientError;
use everflow_runtime::attempt::{Controller as _, Interrupted};
use everflow_runtime::client::{At, meta_text};
use everflow_runtime::events::{Event, Severity};

use super::attempt::{Attempt, has_same_inventory};
use crate::artifact::Tree;
use crate::source_name::SourceName;
use crate::stop::{Failure, Stop};
use crate::target::Target;

/// A build that deletes so many objects, and more than it keeps, is worth a word.
const MANY: usize = 3;
/// So many of them are named.
const NAMED: usize = 10;

/// What was applied.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Every object, in the order of the inventory.
    pub(super) applied: Vec<Applied>,
    /// Whether something was created, changed or deleted.
    pub(super) changed: bool,
}

/// Why objects were not applied.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The attempt stops.
    Stop(Stop),
    /// The server refuses objects; and what was done before.
    Objects(Vec<ApplyError>, String),
}

impl From<Stop> for Refusal {
    fn from(stop: Stop) -> Self {
        Refusal::Stop(stop)
    }
}

impl From<Interrupted> for Refusal {
    fn from(why: Interrupted) -> Self {
        Refusal::Stop(why.into())
    }
}

impl Attempt<'_> {
    /// How objects are applied.
    pub(super) fn applier(&self, target: &Target) -> Result<Applier, Stop> {
        let spec = &self.object.spec;
        let ignore = Ignore::read(&spec.ignore)
            .map_err(|error| Stop::failed(Reason::ReconciliationFailed, error.to_string()))?;
        Ok(Applier {
            client: target.client.clone(),
            owner: self.owner(),
            takeover: Takeover {
                manager: manager::KUSTOMIZE.into(),
                also: self.options().kustomize.override_managers.clone(),
            },
            force: spec.force,
            ignore,
            patience: spec.timeout().unsigned(),
            before: self.inventory()?,
            preflight: self.preflight(target),
        })
    }

    /// How new objects are checked: what is true of this cluster and this account is not true of others.
    fn preflight(&self, target: &Target) -> Preflight {
        let preflight = &self.controller.preflight;
        let has_account = !self.wanted_target().account(self.options()).is_empty();
        match (target.remote, has_account) {
            (true, _) => preflight.on_server(preflight::Reason::RemoteCluster),
            (false, true) => preflight.on_server(preflight::Reason::Account),
            (false, false) => preflight.clone(),
        }
    }

    pub(super) fn owner(&self) -> Owner {
        Owner {
            name: self.object.metadata.name.clone(),
            namespace: self.object.metadata.namespace().to_owned(),
        }
    }

    /// Applies objects in their stages.
    pub(super) async fn apply(
        &mut self,
        applier: &Applier,
        mut objects: Vec<Value>,
        cache: &Arc<AppliedCache>,
        live: &dyn Live,
    ) -> Result<Outcome, Refusal> {
        for object in &mut objects {
            normalize(object);
        }
        let custom = self.options().kustomize.custom_apply_stage_kinds.join(",");
        let custom = order::parse_kinds(&custom);
        let mut outcome = Outcome::default();
        let stages = order::staged(objects, &custom);
        let done = self.apply_stages(applier, stages, cache, live, &mut outcome);
        let done = done.await;
        if matches!(done, Err(Refusal::Stop(Stop::Unsettled { .. }))) {
            self.record_changes(&outcome);
        }
        done?;
        self.controller.settling().remove(&self.context.key);
        let actions = outcome.applied.iter().map(|applied| applied.change.action);
        outcome.changed = actions
            .into_iter()
            .any(|action| matches!(action, Action::Created | Action::Configured));
        self.name_contested(&outcome);
        self.record_changes(&outcome);
        Ok(outcome)
    }

    /// Applies one stage after the other; what was done so far stands in the outcome.
    async fn apply_stages(
        &mut self,
        applier: &Applier,
        stages: Vec<(order::Stage, Vec<Value>)>,
        cache: &Arc<AppliedCache>,
        live: &dyn Live,
        outcome: &mut Outcome,
    ) -> Result<(), Refusal> {
        for (stage, objects) in stages {
            self.context.check()?;
            let plan = self.prepare(applier, &objects, cache, live, outcome);
            let plan = plan.await?;
            let mut new: Vec<Entry> = plan.writes().cloned().collect();
            let makes = plan.actions().any(|(_, action)| action == Action::Created);
            self.context.env.planted(Place::NewEntries, &mut new);
            self.store_union(&new, makes).await?;
            self.context.check()?;
            let (applied, errors) = applier.commit(plan, cache).await;
            let settling = match stage.settles() {
                true => self.settle(applier, &applied).await,
                false => Ok(()),
            };
            self.note_definitions(applier, &applied);
            outcome.applied.extend(applied);
            if !errors.is_empty() {
                return Err(Refusal::Objects(errors, changes(outcome)));
            }
            settling?;
        }
        Ok(())
    }

    /// Says what was refused, and where it stands in the source.
    pub(super) async fn refused(
        &self,
        errors: &[ApplyError],
        changes: String,
        tree: Arc<Tree>,
    ) -> Stop {
        if errors.iter().any(ApplyError::is_fenced) {
            return Stop::Interrupted(Interrupted::NotLeading);
        }
        let wanted: Vec<(String, String, String)> = errors
            .iter()
            .map(|error| match error.entry() {
                Some(entry) => {
                    let id = &entry.id;
                    (entry.api_version(), id.kind.clone(), id.name.clone())
                }
                None => Default::default(),
            })
            .collect();
        let places = self.places(wanted, tree).await;
        let mut text: String = errors.iter().map(|error| format!("{error}\n")).collect();
        text.push_str(&changes);
        for (at, error) in errors.iter().enumerate() {
            let Some(entry) = error.entry() else {
                continue;
            };
            let subject = entry.id.subject();
            let line = match (places.get(at).and_then(Option::as_ref), error.remedy()) {
                (Some(place), Some(remedy)) => format!("{subject} is in {place}: {remedy}\n"),
                (Some(place), None) => format!("{subject} is in {place}\n"),
                (None, Some(remedy)) => format!("{subject}: {remedy}\n"),
                (None, None) => continue,
            };
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&line);
        }
        Failure::new(Reason::ReconciliationFailed, text)
            .passing(errors.iter().all(ApplyError::is_transient))
            .into()
    }

    fn record_changes(&mut self, outcome: &Outcome) {
        let mut log = changes(outcome);
        for contested in &self.draft.contested {
            log.push('\n');
            log.push_str(contested);
        }
        if !log.is_empty() {
            self.draft.record_event(Severity::Info, log);
        }
    }

    /// Names objects that another Kustomization applies too.
    fn name_contested(&mut self, outcome: &Outcome) {
        for applied in &outcome.applied {
            let Some(other) = &applied.taken_from else {
                continue;
            };
            let id = &applied.change.entry.id;
            if !self.has_too(other, id) {
                continue;
            }
            let (subject, namespace, name) = (id.subject(), &other.namespace, &other.name);
            let text = format!(
                "{subject} is applied by Kustomization/{namespace}/{name} too: take it out of one of the two"
            );
            self.draft.contested.push(text);
        }
    }

    /// Whether another Kustomization has an object in its inventory, and not only because it has
    /// not come to our revision yet.
    fn has_too(&self, other: &Owner, id: &ObjectId) -> bool {
        let store = self.context.store("Kustomization");
        let stored = store.and_then(|store| store.get(&other.namespace, &other.name));
        let Some(Ok(found)) = stored.map(|it| Object::<Kustomization>::read(&it.value())) else {
            return false;
        };
        if found.metadata.is_deleted() {
            return false;
        }
        let source = |object: &Object<Kustomization>| {
            let name = SourceName::of_kustomization(&object.spec, object.metadata.namespace());
            name.shown()
        };
        let behind = source(&found) == source(&self.object)
            && found.status.last_applied_revision.as_deref() != Some(&self.draft.revision);
        let inventory = found.status.inventory.as_ref();
        let inventory = Inventory::of_refs(inventory.map_or(&[], |it| &it.entries));
        let lists = inventory.is_ok_and(|inventory| inventory.contains(id));
        lists && !behind
    }

    /// Whatever may be in the cluster because of us is in the inventory before it is there.
    async fn store_union(&mut self, new: &[Entry], makes: bool) -> Result<(), Stop> {
        let stored = self.inventory()?;
        let fresh = new.iter().filter(|entry| !stored.contains(&entry.id));
        let fresh: Vec<Entry> = fresh.cloned().collect();
        if fresh.is_empty() {
            return match makes {
                true => self.confirm_inventory().await,
                false => Ok(()),
            };
        }
        let union = stored.union(&Inventory::from_entries(fresh));
        self.set_inventory(&union);
        self.write_progress().await
    }

    /// An object that the inventory names is not there. Before it is made once more the server must say that the
    /// inventory names it: it does not after the cluster was restored from a backup, from before the object.
    async fn confirm_inventory(&self) -> Result<(), Stop> {
        let (context, known) = (self.context, &self.value);
        let resource = self.controller.resource();
        match context.client.get(resource, At::of(known)).await {
            Ok(live)
                if meta_text(&live, "uid") == meta_text(known, "uid")
                    && has_same_inventory(&live, known) =>
            {
                Ok(())
            }
            Ok(_) | Err(ClientError::NotFound(_)) => {
                context.request_resync();
                Err(Interrupted::Superseded.into())
            }
            Err(error) => {
                let message = format!("failed to read the inventory: {error}");
                Err(Failure::new(Reason::ReconciliationFailed, message)
                    .passing(error.is_transient())
                    .into())
            }
        }
    }

    /// The inventory as the status has it.
    pub(super) fn inventory(&self) -> Result<Inventory, Stop> {
        let stored = self.draft.status.inventory.as_ref();
        Inventory::of_refs(stored.map_or(&[], |stored| &stored.entries))
            .map_err(|error| Stop::failed(Reason::ReconciliationFailed, error.to_string()))
    }

    pub(super) fn set_inventory(&mut self, inventory: &Inventory) {
        let entries = inventory.entries().iter();
        let mut stored = self.draft.status.inventory.take().unwrap_or_default();
        stored.entries = entries
            .map(|entry| ResourceRef::new(&entry.id, entry.version.clone()))
            .collect();
        self.draft.status.inventory = Some(stored);
    }

    /// Deletes what is no longer built, and stores the inventory that remains.
    pub(super) async fn prune(
        &mut self,
        applier: &Applier,
        before: &Inventory,
        outcome: &mut Outcome,
        cache: &AppliedCache,
    ) -> Result<(), Stop> {
        let entries = outcome
            .applied
            .iter()
            .map(|applied| applied.change.entry.clone());
        let new = Inventory::from_entries(entries);
        let gone = before.without(&new);
        if gone.is_empty() || !self.object.spec.prune {
            self.set_inventory(&new);
            return Ok(());
        }
        if gone.len() > MANY && gone.len() > new.entries().len() {
            let event = self.many_deletions(&gone, new.entries().len());
            self.context.emit_and_wait(&self.value, event).await;
        }
        self.context.check()?;
        for entry in &gone {
            cache.forget(&entry.id);
        }
        let pruned = applier.prune(&gone, cache).await;
        if pruned.failed.iter().any(|(_, error)| error.is_fenced()) {
            return Err(Stop::Interrupted(Interrupted::NotLeading));
        }
        outcome.changed = true;
        self.record_pruned(&pruned.changes);
        let failed = pruned.failed.iter().map(|(entry, _)| entry.clone());
        let remaining = new.union(&Inventory::from_entries(failed));
        self.set_inventory(&remaining);
        let transient = pruned.failed.iter().all(|(_, error)| error.is_transient());
        match pruned.errors() {
            None => Ok(()),
            Some(errors) => Err(Failure::new(Reason::PruneFailed, errors)
                .passing(transient)
                .into()),
        }
    }

    /// What is told before many objects are deleted.
    fn many_deletions(&self, gone: &[Entry], kept: usize) -> Event {
        let many = gone.len();
        let mut names: Vec<String> = gone
            .iter()
            .take(NAMED)
            .map(|entry| entry.id.subject())
            .collect();
        if many > NAMED {
            names.push(format!("and {} more", many - NAMED));
        }
        let message = format!(
            "This revision deletes {many} objects and keeps {kept}, about to delete: {}",
            names.join(", ")
        );
        let reason = self.draft.reason();
        self.draft.event(Severity::Info, &reason, message)
    }

    pub(super) fn record_pruned(&mut self, changes: &[Change]) {
        let log = change::log(changes, |action| action != Action::Unchanged);
        if !log.is_empty() {
            self.draft.record_event(Severity::Info, log);
        }
    }
}

/// What was created and changed.
pub(super) fn changes(outcome: &Outcome) -> String {
    let changes = outcome.applied.iter().map(|applied| &applied.change);
    change::log(changes, |action| {
        matches!(action, Action::Created | Action::Configured)
    })
}

/// An empty inventory is written down too.
pub(super) fn empty_inventory() -> ResourceInventory {
    ResourceInventory::default()
}
