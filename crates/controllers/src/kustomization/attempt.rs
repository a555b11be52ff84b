//! One attempt of a Kustomization.

use std::sync::Arc;
use std::time::Duration;

use everflow_api::condition::{self, Reconciled as _};
use everflow_api::history::{self, Attempt as Noted};
use everflow_api::kustomization::{Kustomization, KustomizationStatus};
use everflow_api::names::FINALIZER;
use everflow_api::names::condition::{HEALTHY, READY, STALLED};
use everflow_api::object::Object;
use everflow_api::reason::Reason;
use everflow_apply::effects::Memory;
use everflow_apply::health::custom::CustomChecks;
use everflow_build::{Built, Contents, Warning};
use everflow_env::{Wrong, run_blocking};
use everflow_runtime::Error as ClientError;
use everflow_runtime::attempt::{Context, Interrupted, Next, Report, Verdict};
use everflow_runtime::events::Severity;
use everflow_runtime::metadata::Edited;
use everflow_runtime::queue::{Priority, WakeOn};
use everflow_runtime::reflector::Watched;
use serde_json::Value;

use super::apply::Refusal;
use super::draft::{Draft, silent};
use super::health::{Verdicts, Wait};
use super::source::{Source, SourceName};
use super::stop::{Failure, Stop, Then};
use super::target::Target;
use super::{KustomizationController, OWNED, apply, depends, inputs};
use crate::Options;

/// How often a suspended object is looked at: only so that it has a next attempt.
const SUSPENDED: Duration = Duration::from_secs(3_600);

/// After so long an object that others kept changing is put right once more.
const TRUCE: Duration = Duration::from_secs(60);

/// How long a source may take before it is said that it has nothing yet.
const A_MOMENT: Duration = Duration::from_secs(2);

/// Whether two versions of a Kustomization have the same inventory in their status.
pub(super) fn has_same_inventory(one: &Value, other: &Value) -> bool {
    one.pointer("/status/inventory") == other.pointer("/status/inventory")
}

/// An attempt that is under way.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    pub(super) controller: &'a KustomizationController,
    pub(super) context: &'a Context,
    /// The object as last seen, our own writes included.
    pub(super) value: Value,
    pub(super) object: Object<Kustomization>,
    /// The status that it began with.
    pub(super) before: KustomizationStatus,
    pub(super) draft: Draft,
    /// Whether this attempt has written a status that says it is under way.
    pub(super) written: bool,
    started: Duration,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        controller: &'a KustomizationController,
        context: &'a Context,
        value: &Value,
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
            value: value.clone(),
            before: object.status.clone(),
            object,
            draft,
            written: false,
            started: context.env.clock.elapsed(),
        }
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

    pub(super) fn memory(&self, target: &Target) -> Arc<Memory> {
        let metadata = &self.object.metadata;
        let memories = &self.controller.memories;
        memories.of(metadata.namespace(), &metadata.name, &target.identity)
    }

    pub(super) async fn run(mut self) -> Result<Report, Interrupted> {
        if self.object.metadata.is_deleted() {
            return self.finalize().await;
        }
        match self.context.ensure_finalizer(&self.value, FINALIZER).await {
            Ok(Edited::Stored(stored)) => {
                if !has_same_inventory(&stored, &self.value) {
                    // Somebody else has applied something meanwhile: this attempt knows nothing of it.
                    return Err(Interrupted::Superseded);
                }
                self.value = stored;
            }
            Ok(Edited::Unchanged) => {}
            Ok(Edited::Gone) => return Ok(silent(Next::retry("Gone"), Verdict::Success)),
            Err(ClientError::Fenced { .. }) => return Err(Interrupted::NotLeading),
            Err(error) => {
                let what = "failed to add the finalizer";
                self.context.log.error(what, &error.to_string());
                return Ok(silent(Next::retry("FinalizerFailed"), Verdict::Failure));
            }
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
        if !self.context.env.is_wrong(Wrong::ObservedOnlyOnSuccess) {
            self.draft.status.observe(self.draft.generation);
        }
        self.draft.remove(STALLED);
        match self.reconcile().await {
            Ok(report) => Ok(report),
            Err(Stop::Interrupted(why)) => Err(why),
            Err(Stop::Gone) => Ok(silent(Next::retry("Gone"), Verdict::Success)),
            Err(Stop::Failed(failure)) => Ok(self.fail(*failure)),
        }
    }

    async fn reconcile(&mut self) -> Result<Report, Stop> {
        let checks = CustomChecks::read(&self.object.spec.health_check_exprs).map_err(|error| {
            let message =
                format!("Reconciliation failed terminally due to configuration error: {error}\ncorrect the expression in spec.healthCheckExprs[{}]", error.at());
            Failure::new(Reason::InvalidCELExpression, message).then(Then::Change)
        })?;
        let checks = match self.options().kustomize.alone {
            true => checks.of_groups(everflow_apply::is_looked_after),
            false => checks,
        };
        let namespace = self.object.metadata.namespace().to_owned();
        let name = SourceName::of(&self.object.spec, &namespace);
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
                self.draft.tell_as(Severity::Info, reason, message);
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
        let waits = matches!(found, Err(Stop::Failed(failure)) if failure.then == Then::Wait);
        let new = self.before.conditions.is_empty() && name.is_new(self.context);
        if waits && new && self.controller.patient().insert(key.clone()) {
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
        self.progress("Fetching manifests");
        let name = SourceName::of(&self.object.spec, self.object.metadata.namespace());
        let context = self.context;
        let current = || name.artifact(context);
        let trees = &self.controller.trees;
        let tree = trees.get(&source.artifact, self.options(), &current).await;
        self.context.check()?;
        if tree.is_err() && self.context.env.is_wrong(Wrong::FailureTakenAsEmpty) {
            self.prune_everything().await?;
        }
        let tree = tree?;
        let built = self.build(tree.clone()).await?;
        let target = self
            .controller
            .targets
            .of(&self.object, &self.context.client, self.options())
            .await?;
        let built = built?;
        let digest = built.digest;
        let news = self.before.last_applied_revision.as_deref() != Some(&self.draft.revision)
            || self.before.observed_generation != self.draft.generation;
        if news && self.before.last_attempted_revision.as_deref() != Some(&self.draft.revision) {
            self.tell_warnings(&built.warnings);
        }
        let mut objects = match built.contents {
            Contents::Objects(objects) => objects,
            Contents::Empty(_) => Vec::new(),
        };
        if self.options().kustomize.as_served {
            objects.iter_mut().for_each(super::former::as_served);
        }
        self.progress("Detecting drift");
        let before = self.inventory()?;
        let memory = self.memory(&target);
        memory.await_changes([]);
        if self.context.ticket.priority != Priority::Dependency {
            memory.relent();
        }
        let applier = self.applier(&target)?;
        let memories = self.controller.memories.clone();
        let eyes = super::watching::Eyes {
            context,
            memories: &memories,
            local: !target.remote,
        };
        let started = self.started;
        let mut outcome = match self.apply(&applier, objects, &memory, &eyes).await {
            Ok(outcome) => outcome,
            Err(Refusal::Stop(stop)) => return Err(self.note_failure(stop, &digest, started)),
            Err(Refusal::Objects(errors, log)) => {
                let stop = self.refused(&errors, log, tree).await;
                return Err(self.note_failure(stop, &digest, started));
            }
        };
        let pruned = self.prune(&applier, &before, &mut outcome, &memory).await;
        if let Err(stop) = pruned {
            return Err(self.note_failure(stop, &digest, started));
        }
        let mut wait = Wait {
            of: state,
            began: self.now(),
            started,
            digest,
            changed: outcome.changed,
            news,
            objects: Vec::new(),
            revision: self.draft.revision.clone(),
            inventory: None,
            looks: 0,
            contested: self.draft.contested.clone(),
        };
        let objects = match self.health_objects(&applier, &outcome.applied).await {
            Ok(objects) => objects,
            Err(Stop::Failed(failure)) => return Err(self.health_failed(&wait, failure.message)),
            Err(stop) => return Err(stop),
        };
        let Some(objects) = objects else {
            self.draft.remove(HEALTHY);
            return self.succeed(&wait, &target).await;
        };
        wait.objects = objects;
        if self.context.env.is_wrong(Wrong::WaitHoldsWorker) {
            let until = self.now() + self.object.spec.timeout().unsigned();
            while self.now() < until
                && matches!(
                    self.look(&applier, checks, &wait.objects, &[], &target, true)
                        .await,
                    Verdicts::Not(_)
                )
            {
                self.context.env.clock.sleep(Duration::from_secs(2)).await;
            }
        }
        // Whatever changes from here on is not missed.
        let waits_for = wait.objects.iter().map(|entry| entry.id.clone());
        memory.await_changes(waits_for);
        let applied = &outcome.applied;
        match self
            .look(&applier, checks, &wait.objects, applied, &target, false)
            .await
        {
            Verdicts::Healthy => {
                memory.await_changes([]);
                self.healthy(&wait);
                self.succeed(&wait, &target).await
            }
            Verdicts::Not(open) => self.unhealthy(&mut wait, open, &target).await,
        }
    }

    async fn go_on_waiting(
        &mut self,
        mut wait: Wait,
        checks: &CustomChecks,
    ) -> Result<Report, Stop> {
        let targets = &self.controller.targets;
        let target = targets
            .of(&self.object, &self.context.client, self.options())
            .await?;
        let applier = self.applier(&target)?;
        self.draft.contested = wait.contested.clone();
        self.draft.status.last_attempted_revision = Some(wait.revision.clone());
        self.draft.status.inventory = wait.inventory.clone();
        // When nothing was told for long, the server is asked.
        let ask = self.context.ticket.priority != Priority::Dependency;
        let verdicts = self
            .look(&applier, checks, &wait.objects, &[], &target, ask)
            .await;
        match verdicts {
            Verdicts::Healthy => {
                self.controller.waits().remove(&self.context.key);
                self.memory(&target).await_changes([]);
                self.draft.progress(&self.health_message());
                self.healthy(&wait);
                self.succeed(&wait, &target).await
            }
            Verdicts::Not(open) => {
                let report = self.unhealthy(&mut wait, open, &target).await;
                if report.is_err() {
                    self.controller.waits().remove(&self.context.key);
                    self.memory(&target).await_changes([]);
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

    fn progress(&mut self, what: &str) {
        let message = self.stage(what);
        self.draft.progress(&message);
    }

    /// The message of a stage.
    pub(super) fn stage(&self, what: &str) -> String {
        let (revision, timeout) = (&self.draft.revision, self.object.spec.timeout());
        format!("{what} for revision {revision} with a timeout of {timeout}")
    }

    /// What was built. An error within is one of the build itself, which counts only once the
    /// cluster is known to be reachable.
    async fn build(
        &mut self,
        tree: Arc<super::artifact::Tree>,
    ) -> Result<Result<Built, Stop>, Stop> {
        let placeholders = self.options().kustomize.placeholders;
        let client = &self.context.client;
        let variables = inputs::variables_there(&self.object, client, placeholders).await;
        let keys = inputs::keys(&self.object, client, self.options()).await;
        let without_keys = placeholders
            && self.object.spec.decryption.is_some()
            && keys.as_ref().map_or(true, everflow_build::Keys::is_empty);
        let keys = match without_keys {
            true => Ok(everflow_build::Keys::new()),
            false => keys,
        };
        let keys_failed = keys.as_ref().err().cloned();
        let unread = [variables.as_ref().err(), keys_failed.as_ref()];
        let transient = unread.iter().flatten().any(|unread| unread.transient);
        let kustomization = self.object.clone();
        let (strict, cache) = (
            self.options().gates.strict_post_build_substitutions,
            self.controller.cache.clone(),
        );
        let without_remote = self.options().kustomize.without_remote;
        let built = run_blocking(&*self.context.env.blocking, move || {
            let mut request = everflow_build::Request::new(&kustomization, &tree.files);
            request.strict = strict;
            request.without_remote = without_remote;
            request.fitted = placeholders;
            request.cache = Some(&cache);
            let keys = keys.unwrap_or_default();
            request.keys = &keys;
            match &variables {
                Ok((variables, lacking)) => {
                    request.variables = variables;
                    request.placeholders = *lacking;
                    if *lacking {
                        request.strict = true;
                    }
                }
                Err(unread) => request.no_variables = Some(&unread.message),
            }
            if without_keys {
                request.keep_encrypted = true;
                request.masked = true;
            }
            everflow_build::build(&request)
        });
        let built = match built.await {
            Some(built) => built,
            None => {
                return Err(Stop::failed(
                    Reason::BuildFailed,
                    "the build broke: a mistake in this program",
                ));
            }
        };
        if let Err(everflow_build::Error::PathNotFound { .. }) = &built {
            let message = built
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            return Err(Stop::failed(Reason::ArtifactFailed, message));
        }
        self.draft.status.last_attempted_revision = Some(self.draft.revision.clone());
        self.progress("Building manifests");
        let failed = |message| Failure::new(Reason::BuildFailed, message).passing(transient);
        if let Some(unread) = keys_failed {
            return Ok(Err(failed(unread.message).into()));
        }
        Ok(built.map_err(|error| failed(error.to_string()).into()))
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
                self.value = stored;
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

    pub(super) fn note_history(&mut self, digest: &str, status: Reason, started: Duration) {
        let mut metadata = std::collections::BTreeMap::new();
        let revisions = [
            ("revision", &self.draft.revision),
            ("originRevision", &self.draft.origin),
        ];
        for (key, value) in revisions {
            if !value.is_empty() {
                metadata.insert(key.to_owned(), value.clone());
            }
        }
        let noted = Noted {
            digest: digest.to_owned(),
            time: self.draft.now.truncated(),
            duration: self.since(started),
            status: status.as_str().to_owned(),
            metadata,
        };
        history::note(&mut self.draft.status.history, noted);
    }

    async fn succeed(&mut self, wait: &Wait, target: &Target) -> Result<Report, Stop> {
        self.draft.status.observe(self.draft.generation);
        let origin = Some(self.draft.origin.clone()).filter(|origin| !origin.is_empty());
        let status = &mut self.draft.status;
        status.last_applied_revision = Some(self.draft.revision.clone());
        status.last_applied_origin_revision = origin;
        if status.inventory.is_none() {
            status.inventory = Some(apply::empty_inventory());
        }
        self.draft.succeed();
        let next = self.after_success(target).await;
        if self.is_old_news(wait) {
            return Ok(silent(next, Verdict::Success));
        }
        self.note_history(&wait.digest, Reason::ReconciliationSucceeded, wait.started);
        self.tell_finished();
        if !wait.changed && self.is_unasked() && condition::is_true(&self.before.conditions, READY)
        {
            self.draft.as_routine();
        }
        Ok(self.draft.clone().report(next, Verdict::Success))
    }

    /// Whether nothing was changed, and all of it was said before.
    fn is_old_news(&self, wait: &Wait) -> bool {
        let (was, is) = (&self.before, &self.draft.status);
        let same = |kind: &str| {
            let state = |status: &KustomizationStatus| {
                let condition = condition::find(&status.conditions, kind)?;
                Some((condition.status, condition.reason.clone()))
            };
            state(was) == state(is)
        };
        !wait.changed
            && self.is_unasked()
            && condition::is_true(&was.conditions, READY)
            && was.conditions.len() == is.conditions.len()
            && same(HEALTHY)
            && was.observed_generation == is.observed_generation
            && was.last_applied_revision == is.last_applied_revision
            && was.last_attempted_revision == is.last_attempted_revision
            && was.last_handled_reconcile_at == is.last_handled_reconcile_at
            && was.inventory == is.inventory
            && was
                .history
                .first()
                .is_some_and(|first| first.digest == wait.digest)
    }

    /// Whether nobody has asked for this attempt.
    pub(super) fn is_unasked(&self) -> bool {
        matches!(
            self.context.ticket.priority,
            Priority::Interval | Priority::Dependency
        )
    }

    /// What should be known of a build, when it is new.
    fn tell_warnings(&mut self, warnings: &[Warning]) {
        for warning in warnings {
            let severity = match warning.grave {
                true => Severity::Error,
                false => Severity::Info,
            };
            self.draft.tell(severity, warning.text.clone());
        }
    }

    async fn after_success(&self, target: &Target) -> Next {
        let mut keep = self.config_watches();
        let mut changes = self.wakes();
        if let Ok(inventory) = self.inventory()
            && self.options().kustomize.watch_applied
            && !self.context.env.is_wrong(Wrong::DriftForgotten)
        {
            let eyes = self.eyes(target);
            changes.extend(eyes.watch(inventory.entries(), &mut keep).await);
        }
        self.context.release_watches(&keep);
        let mut interval = self.object.spec.interval.unsigned();
        if self.memory(target).is_fought() {
            interval = interval.min(TRUCE);
        }
        let chance = self.context.env.random.unit();
        Next::When {
            changes,
            no_later_than: self.options().runtime.jittered(interval, chance),
        }
    }

    /// Tells that it is done.
    pub(super) fn tell_finished(&mut self) {
        let message = format!(
            "Reconciliation finished in {}, next run in {}",
            self.since(self.started),
            self.object.spec.interval
        );
        self.draft.tell(Severity::Info, message);
        self.draft.as_commit_status();
    }

    /// The source and the inputs.
    pub(super) fn wakes(&self) -> Vec<WakeOn> {
        let namespace = self.object.metadata.namespace();
        let mut changes = vec![SourceName::of(&self.object.spec, namespace).wake()];
        let inputs = inputs::wakes(&self.object, self.options());
        changes.extend(inputs.into_iter().map(|(wake, _)| wake));
        changes
    }

    /// What is watched for the inputs.
    pub(super) fn config_watches(&self) -> Vec<Watched> {
        let mut watches = Vec::new();
        for (_, watched) in inputs::wakes(&self.object, self.options()) {
            self.context.watch(&watched);
            if !watches.contains(&watched) {
                watches.push(watched);
            }
        }
        watches
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
