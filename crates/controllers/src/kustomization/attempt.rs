//! One attempt of a Kustomization.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use everflow_api::condition::Reconciled as _;
use everflow_api::kustomization::{Kustomization, KustomizationStatus};
use everflow_api::names::condition::{HEALTHY, STALLED};
use everflow_api::object::Object;
use everflow_api::reason::Reason;
use everflow_apply::effects::{AppliedCache, Applier};
use everflow_apply::health::custom::CustomChecks;
use everflow_apply::inventory::Inventory;
use everflow_build::Contents;
use everflow_json::Value;
use everflow_runtime::Error as ClientError;
use everflow_runtime::attempt::{Context, Interrupted, Next, Report, Verdict};
use everflow_runtime::client::Concealed;
use everflow_runtime::events::Severity;
use everflow_runtime::queue::{Priority, WakeOn};
use everflow_runtime::reflector::Watched;

use super::apply::{Outcome, Refusal};
use super::draft::Draft;
use super::health::{Verdicts, Wait};
use super::source::Source;
use super::{KustomizationController, OWNED, depends, inputs};
use crate::Options;
use crate::artifact::Tree;
use crate::skeleton::{A_MOMENT, Held, SUSPENDED, health_checks, hold, silent, watch_inputs};
use crate::source_name::SourceName;
use crate::stop::{EventText, Failure, RetryPolicy, Stop};
use crate::target::{Target, Wanted};
use crate::watching::LiveView;

/// Whether two versions of a Kustomization have the same inventory in their status.
pub(super) fn has_same_inventory(one: &Value, other: &Value) -> bool {
    one.pointer("/status/inventory") == other.pointer("/status/inventory")
}

/// An attempt that is under way.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    pub(super) controller: &'a KustomizationController,
    pub(super) context: &'a Context,
    /// The object as it was when the attempt began: `object` is what was read from it.
    pub(super) given: &'a Value,
    /// The object as last seen, our own writes included.
    pub(super) value: Cow<'a, Value>,
    pub(super) object: Object<Kustomization>,
    pub(super) draft: Draft,
    /// What Secrets brought to the build.
    pub(super) concealed: Arc<Concealed>,
    /// Whether this attempt has written a status that says it is under way.
    pub(super) written: bool,
    pub(super) started: Duration,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        controller: &'a KustomizationController,
        context: &'a Context,
        value: &'a Value,
        object: Object<Kustomization>,
    ) -> Self {
        let draft = Draft {
            status: object.status.clone(),
            generation: object.metadata.generation,
            now: context.env.clock.now(),
            events: Vec::new(),
            revision: String::new(),
            origin: String::new(),
            contested: Vec::new(),
        };
        Attempt {
            controller,
            context,
            given: value,
            value: Cow::Borrowed(value),
            object,
            draft,
            concealed: Arc::default(),
            written: false,
            started: context.env.clock.elapsed(),
        }
    }

    /// The status that it began with.
    pub(super) fn before(&self) -> &KustomizationStatus {
        &self.object.status
    }

    pub(super) fn options(&self) -> &'a Options {
        &self.controller.options
    }

    pub(super) fn now(&self) -> Duration {
        self.context.env.clock.elapsed()
    }

    /// How long ago a moment on our clock was, as Go prints it.
    pub(super) fn since(&self, moment: Duration) -> everflow_time::Duration {
        self.now().saturating_sub(moment).into()
    }

    /// What the object says of its target.
    pub(super) fn wanted_target(&self) -> Wanted<'_> {
        Wanted {
            namespace: self.object.metadata.namespace(),
            account: self.object.spec.service_account_name.as_deref(),
            kube_config: self.object.spec.kube_config.as_ref(),
        }
    }

    /// The cluster to apply to, and in whose name.
    pub(super) async fn target(&self) -> Result<Target, Stop> {
        let targets = &self.controller.targets;
        let wanted = self.wanted_target();
        let found = targets.of(wanted, &self.context.client, self.options());
        let mut target = found.await.map_err(|unusable| -> Stop {
            let why = unusable.of_kustomization();
            Failure::new(Reason::ReconciliationFailed, &why)
                .telling(EventText::Text(format!(
                    "failed to build kube client: {why}"
                )))
                .into()
        })?;
        target.client = target.client.concealing(self.concealed.clone());
        Ok(target)
    }

    /// What watches tell of the objects of a target.
    pub(super) fn live_view(&self, target: &Target) -> LiveView<'a> {
        LiveView {
            context: self.context,
            caches: &self.controller.caches,
            local: !target.remote,
        }
    }

    pub(super) fn cache(&self, target: &Target) -> Arc<AppliedCache> {
        let metadata = &self.object.metadata;
        let caches = &self.controller.caches;
        caches.of(metadata.namespace(), &metadata.name, target.identity)
    }

    pub(super) async fn run(mut self) -> Result<Report, Interrupted> {
        if self.object.metadata.is_deleted() {
            return self.finalize().await;
        }
        match hold(self.context, &self.value).await? {
            Held::Now(stored) => {
                if !has_same_inventory(&stored, &self.value) {
                    // Somebody else has applied something meanwhile: this attempt knows nothing of it.
                    return Err(Interrupted::Superseded);
                }
                self.value = Cow::Owned(stored);
            }
            Held::Already => {}
            Held::Ends(report) => return Ok(report),
        }
        let request = self.object.metadata.requested_at().map(str::to_owned);
        self.draft.status.handle_request(request.as_deref());
        if self.object.spec.suspend {
            self.controller.waits().remove(&self.context.key);
            self.context.release_watches(&[]);
            if self.draft.is_ready() {
                self.draft.status.observe(self.draft.generation);
            }
            return Ok(self.draft.report(Next::At(SUSPENDED), Verdict::Success));
        }
        self.draft.status.observe(self.draft.generation);
        self.draft.remove(STALLED);
        match self.reconcile().await {
            Ok(report) => Ok(report),
            Err(Stop::Interrupted(why)) => Err(why),
            Err(Stop::Unsettled { what, waited }) => Ok(self.await_stage(&what, waited)),
            Err(Stop::Gone) => Ok(silent(Next::retry("Gone"), Verdict::Success)),
            Err(Stop::Failed(failure)) => Ok(self.fail(*failure)),
        }
    }

    async fn reconcile(&mut self) -> Result<Report, Stop> {
        let checks = health_checks(&self.object.spec.health_check_exprs, self.options());
        let checks = checks.map_err(Failure::from)?;
        let namespace = self.object.metadata.namespace().to_owned();
        let name = SourceName::of_kustomization(&self.object.spec, &namespace);
        name.allowed(&namespace, self.options())?;
        let found = name.find(self.context, self.options()).await;
        if let Some(report) = self.wait_a_moment(&found, &name) {
            return Ok(report);
        }
        let source = found?;
        self.draft.revision = source.artifact.revision.clone();
        self.draft.origin = source.origin.clone();
        let waiting = self.controller.waits().get(&self.context.key).cloned();
        let state = self.state(&source);
        if let Some(wait) = waiting {
            if wait.of == state {
                return self.go_on_waiting(wait, &checks).await;
            }
            self.controller.waits().remove(&self.context.key);
            if wait.revision != source.artifact.revision {
                let by = name.shown();
                let reason = Reason::HealthCheckCanceled.as_str();
                let message = wait.superseded_message(&by);
                let new = std::mem::replace(&mut self.draft.revision, wait.revision.clone());
                self.draft.record_event_as(Severity::Info, reason, message);
                self.draft.revision = new;
            }
        }
        let revision = &source.artifact.revision;
        depends::check(
            &self.value,
            &self.object,
            revision,
            self.context,
            self.options(),
        )
        .await?;
        self.deliver(&source, &checks, state).await
    }

    /// A source that came together with us has its artifact in a moment: that is waited for once
    /// before anything is said.
    fn wait_a_moment(&self, found: &Result<Source, Stop>, name: &SourceName) -> Option<Report> {
        let key = &self.context.key;
        let waits =
            matches!(found, Err(Stop::Failed(failure)) if failure.then == RetryPolicy::Wait);
        let is_new = || self.before().conditions.is_empty() && name.is_new(self.context);
        if waits && is_new() && self.controller.patient().insert(key.clone()) {
            let next = Next::When {
                changes: self.wakes(),
                no_later_than: A_MOMENT,
            };
            return Some(silent(next, Verdict::Waiting));
        }
        self.controller.patient().remove(key);
        None
    }

    /// Builds, applies, prunes, and looks at the health.
    async fn deliver(
        &mut self,
        source: &Source,
        checks: &CustomChecks,
        state: String,
    ) -> Result<Report, Stop> {
        let tree = self.fetch(source).await?;
        let built = self.build(tree.clone()).await?;
        let target = self.target().await?;
        let built = built?;
        let news = self.before().last_applied_revision.as_deref() != Some(&self.draft.revision)
            || self.before().observed_generation != self.draft.generation;
        if news && self.before().last_attempted_revision.as_deref() != Some(&self.draft.revision) {
            self.record_warnings(&built.warnings);
        }
        self.progress("Detecting drift");
        let before = self.inventory()?;
        let applier = self.applier(&target)?;
        let digest = built.digest;
        let carried_out = self.carry_out(&applier, built.contents, &before, &target);
        let outcome = match carried_out.await {
            Ok(outcome) => outcome,
            Err(refusal) => {
                let stop = match refusal {
                    Refusal::Stop(stop) => stop,
                    Refusal::Objects(errors, log) => self.refused(&errors, log, tree).await,
                };
                return Err(self.note_failure(stop, &digest, self.started));
            }
        };
        let wait = Wait {
            of: state,
            began: self.now(),
            started: self.started,
            digest,
            changed: outcome.changed,
            news,
            objects: Vec::new(),
            revision: self.draft.revision.clone(),
            inventory: None,
            looks: 0,
            contested: self.draft.contested.clone(),
        };
        self.look_at_health(wait, &applier, checks, &outcome, &target)
            .await
    }

    /// The files of the source.
    async fn fetch(&mut self, source: &Source) -> Result<Arc<Tree>, Stop> {
        self.progress("Fetching manifests");
        let name =
            SourceName::of_kustomization(&self.object.spec, self.object.metadata.namespace());
        let context = self.context;
        let current = || name.artifact(context);
        let trees = &self.controller.trees;
        let tree = trees.get(&source.artifact, self.options(), &current).await;
        let tree = tree.map_err(|missing| missing.stop(self.options()));
        self.context.check()?;
        tree
    }

    /// Applies what was built, and prunes what it has no more.
    async fn carry_out(
        &mut self,
        applier: &Applier,
        contents: Contents,
        before: &Inventory,
        target: &Target,
    ) -> Result<Outcome, Refusal> {
        let mut objects = match contents {
            Contents::Objects(objects) => objects,
            Contents::Empty(_) => Vec::new(),
        };
        if self.options().kustomize.as_served {
            objects
                .iter_mut()
                .for_each(super::legacy_versions::as_served);
        }
        let cache = self.cache(target);
        cache.await_changes([]);
        if self.context.ticket.priority != Priority::Dependency {
            cache.reset_contention();
        }
        let view = self.live_view(target);
        let mut outcome = self.apply(applier, objects, &cache, &view).await?;
        self.prune(applier, before, &mut outcome, &cache).await?;
        Ok(outcome)
    }

    /// Ends the attempt, or begins to wait.
    async fn look_at_health(
        &mut self,
        mut wait: Wait,
        applier: &Applier,
        checks: &CustomChecks,
        outcome: &Outcome,
        target: &Target,
    ) -> Result<Report, Stop> {
        let objects = match self.health_objects(applier, &outcome.applied).await {
            Ok(objects) => objects,
            Err(Stop::Failed(failure)) => return Err(self.health_failed(&wait, failure.message)),
            Err(stop) => return Err(stop),
        };
        let Some(objects) = objects else {
            self.draft.remove(HEALTHY);
            return self.succeed(&wait, target).await;
        };
        wait.objects = objects;
        // Whatever changes from here on is not missed.
        let cache = self.cache(target);
        cache.await_changes(wait.objects.iter().map(|entry| entry.id.clone()));
        let applied = &outcome.applied;
        match self
            .assess(applier, checks, &wait.objects, applied, target, false)
            .await
        {
            Verdicts::Healthy => {
                cache.await_changes([]);
                self.healthy(&wait);
                self.succeed(&wait, target).await
            }
            Verdicts::Not(open) => self.unhealthy(&mut wait, open, target).await,
        }
    }

    async fn go_on_waiting(
        &mut self,
        mut wait: Wait,
        checks: &CustomChecks,
    ) -> Result<Report, Stop> {
        let target = self.target().await?;
        let applier = self.applier(&target)?;
        self.draft.contested = wait.contested.clone();
        self.draft.status.last_attempted_revision = Some(wait.revision.clone());
        self.draft.status.inventory = wait.inventory.clone();
        // When nothing was told for long, the server is asked.
        let ask = self.context.ticket.priority != Priority::Dependency;
        let verdicts = self
            .assess(&applier, checks, &wait.objects, &[], &target, ask)
            .await;
        match verdicts {
            Verdicts::Healthy => {
                self.controller.waits().remove(&self.context.key);
                self.cache(&target).await_changes([]);
                self.draft.progress(&self.health_message());
                self.healthy(&wait);
                self.succeed(&wait, &target).await
            }
            Verdicts::Not(open) => {
                let report = self.unhealthy(&mut wait, open, &target).await;
                if report.is_err() {
                    self.controller.waits().remove(&self.context.key);
                    self.cache(&target).await_changes([]);
                }
                report
            }
        }
    }

    /// What an attempt is for: while it stays the same, a wait goes on.
    fn state(&self, source: &Source) -> String {
        let request = self.object.metadata.requested_at().unwrap_or_default();
        let inputs: Vec<String> = inputs::wakes(&self.object, self.options())
            .iter()
            .map(|(wake, watched)| {
                let store = self.context.watch(watched);
                let stored = store.get(&wake.namespace, &wake.name);
                stored.map_or_else(String::new, |stored| stored.revision.to_string())
            })
            .collect();
        format!(
            "{}\n{}\n{}\n{}\n{request}\n{}",
            self.object.metadata.uid.as_deref().unwrap_or_default(),
            self.draft.generation,
            source.artifact.revision,
            source.artifact.digest,
            inputs.join(",")
        )
    }

    pub(super) fn progress(&mut self, what: &str) {
        let message = self.stage(what);
        self.draft.progress(&message);
    }

    /// The message of a stage.
    pub(super) fn stage(&self, what: &str) -> String {
        let (revision, timeout) = (&self.draft.revision, self.object.spec.timeout());
        format!("{what} for revision {revision} with a timeout of {timeout}")
    }

    /// Writes the status as it is so far.
    pub(super) async fn write_progress(&mut self) -> Result<(), Stop> {
        let status = self.draft.value();
        match self
            .context
            .write_status(&self.value, &status, &OWNED)
            .await
        {
            Ok(Some(stored)) => {
                self.value = Cow::Owned(stored);
                self.written = true;
                Ok(())
            }
            Ok(None) => Err(Stop::Gone),
            Err(ClientError::Fenced { .. }) => Err(Stop::Interrupted(Interrupted::NotLeading)),
            Err(error) => {
                let message = format!("failed to store the inventory: {error}");
                Err(Failure::new(Reason::ReconciliationFailed, message)
                    .passing(error.is_transient())
                    .into())
            }
        }
    }

    /// The source and the inputs.
    pub(super) fn wakes(&self) -> Vec<WakeOn> {
        let namespace = self.object.metadata.namespace();
        let mut changes = vec![SourceName::of_kustomization(&self.object.spec, namespace).wake()];
        let inputs = inputs::wakes(&self.object, self.options());
        changes.extend(inputs.into_iter().map(|(wake, _)| wake));
        changes
    }

    /// What is watched for the inputs.
    pub(super) fn config_watches(&self) -> Vec<Watched> {
        watch_inputs(self.context, inputs::wakes(&self.object, self.options()))
    }

    /// A wait for objects to go.
    pub(super) fn wait_for_end(&self) -> Wait {
        Wait {
            of: String::new(),
            began: self.started,
            started: self.started,
            digest: String::new(),
            changed: false,
            news: false,
            objects: Vec::new(),
            revision: String::new(),
            inventory: None,
            looks: 0,
            contested: Vec::new(),
        }
    }
}
