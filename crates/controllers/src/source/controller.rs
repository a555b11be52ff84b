//! What all sources have in common: finalizer, storage, suspension, deletion, report.

use std::fmt;
use std::time::Duration;

use everflow_api::condition::Reconciled;
use everflow_api::names::{FINALIZER, condition as types, manager};
use everflow_api::object::Kind;
use everflow_api::source::Produced;
use everflow_api::{Object, Reason};
use everflow_env::{BoxFuture, run_blocking};
use everflow_fetch::Url;
use everflow_fetch::archive::Digest;
use everflow_fetch::storage::{Owner, Storage};
use everflow_json::{Value, json};
use everflow_runtime::attempt::{Broken, Context, Controller, Interrupted, Next, Report, Verdict};
use everflow_runtime::client::Resource;
use everflow_runtime::events::{Event, Severity};
use everflow_runtime::queue::{Priority, WakeOn};

use super::draft::Draft;
use super::outcome::{Failure, Outcome, Stop};
use crate::skeleton::{self, Held, SUSPENDED, hold, is_held, let_go, silent};
use crate::{Options, Setup};

/// The conditions that are ours.
const OWNED: [&str; 10] = [
    types::READY,
    types::RECONCILING,
    types::STALLED,
    types::ARTIFACT_IN_STORAGE,
    types::ARTIFACT_OUTDATED,
    types::SOURCE_VERIFIED,
    types::FETCH_FAILED,
    types::BUILD_FAILED,
    types::STORAGE_OPERATION_FAILED,
    types::INCLUDE_UNAVAILABLE,
];

/// Beyond the time for fetching: packing, storing, reporting.
const BESIDE_FETCHING: Duration = Duration::from_secs(240);

/// What one kind of source has of its own.
pub(crate) trait Source: Send + Sync + fmt::Debug + 'static {
    /// The kind.
    type Kind: Kind<Spec: Send + Sync, Status: Reconciled + Produced + Send + Sync> + Send + Sync;
    /// The collection.
    const RESOURCE: Resource;
    /// The name in logs and metrics.
    const NAME: &'static str;
    /// Whether it is to be left alone.
    fn is_suspended(spec: &<Self::Kind as Kind>::Spec) -> bool;
    /// How often to look.
    fn interval(spec: &<Self::Kind as Kind>::Spec) -> Duration;
    /// How long fetching may take.
    fn timeout(spec: &<Self::Kind as Kind>::Spec) -> Duration;
    /// The field with the address, to share out attempts among hosts.
    const ADDRESS: &'static str;
    /// The name of the link to the newest artifact, for kinds that have one.
    const LINK: &'static str = "";
    /// Notes the address of that link.
    fn set_url(_status: &mut <Self::Kind as Kind>::Status, _url: Option<String>) {}
    /// Whether there is nothing to reconcile: a description for others, without a status.
    fn is_static(_spec: &<Self::Kind as Kind>::Spec) -> bool {
        false
    }
    /// Brings the artifact up to date. What is known of the storage is in the draft already.
    fn reconcile(
        &self,
        draft: &mut Draft<Self::Kind>,
        context: &Context,
    ) -> impl Future<Output = Result<Outcome, Stop>> + Send;
}

/// The controller of one kind of source.
#[derive(Debug)]
pub(crate) struct SourceController<S> {
    resource: Resource,
    options: Options,
    storage: Storage,
    source: S,
}

impl<S: Source> SourceController<S> {
    pub(crate) fn new(setup: &Setup, source: S) -> Self {
        SourceController {
            resource: S::RESOURCE,
            options: setup.options.clone(),
            storage: setup.storage.clone(),
            source,
        }
    }

    async fn attempt_read(
        &self,
        value: &Value,
        context: &Context,
        object: Object<S::Kind>,
    ) -> Result<Report, Interrupted> {
        let owner = match Owner::new(
            &self.resource.kind,
            &context.key.namespace,
            &context.key.name,
        ) {
            Ok(owner) => owner,
            Err(error) => return Ok(unreadable(value, &error.to_string(), context)),
        };
        if object.metadata.is_deleted() {
            return self.delete(value, &object, &owner, context).await;
        }
        if S::is_static(&object.spec) {
            return Ok(self.leave(value, &object, &owner, context).await);
        }
        if let Held::Ends(report) = hold(context, value).await? {
            return Ok(report);
        }
        let verbose = context.ticket.priority != Priority::Interval
            || object.status.observed_generation() != object.metadata.generation;
        let mut draft = Draft::new(object, context.env.clock.now(), verbose);
        let secret = value
            .pointer("/spec/secretRef/name")
            .and_then(Value::as_str);
        draft.secret = secret.map(|name| format!("{}/{name}", context.key.namespace));
        if S::is_suspended(&draft.object.spec) {
            draft.remove(types::STALLED);
            draft.summarise();
            return Ok(finished(draft, Next::At(SUSPENDED), Verdict::Success));
        }
        draft.begin();
        let result = match self.look_at_storage(&mut draft, &owner, context).await {
            Ok(()) => {
                context.check()?;
                self.source.reconcile(&mut draft, context).await
            }
            Err(failure) => Err(Stop::Failed(failure)),
        };
        let result = match result {
            Ok(outcome) => Ok(outcome),
            Err(Stop::Failed(failure)) => Err(failure),
            Err(Stop::Interrupted(interrupted)) => return Err(interrupted),
        };
        Ok(self.report(draft, result, context))
    }

    fn report(
        &self,
        mut draft: Draft<S::Kind>,
        result: Result<Outcome, Failure>,
        context: &Context,
    ) -> Report {
        draft.conclude(result.as_ref());
        for event in &draft.events {
            match event.severity {
                Severity::Error => context.log.error(&event.message, &event.reason),
                _ => context
                    .log
                    .info(&event.message, &[("reason", &event.reason)]),
            }
        }
        let runtime = &self.options.runtime;
        let interval = S::interval(&draft.object.spec);
        let interval = runtime.jittered(interval, context.env.random.unit());
        let changes = std::mem::take(&mut draft.wake);
        let (next, verdict) = match result {
            Ok(_) if !draft.is_true(types::READY) => (retry("NotReady", changes), Verdict::Failure),
            Ok(_) => (by(interval, changes), Verdict::Success),
            Err(Failure::Passing { reason, .. }) => (retry(&reason, changes), Verdict::Failure),
            Err(Failure::Stalling { .. }) => {
                let slowest = interval.max(runtime.max_retry_delay);
                (by(slowest, changes), Verdict::Stalled)
            }
            Err(Failure::Waiting { no_later_than, .. }) => {
                (by(no_later_than, changes), Verdict::Waiting)
            }
        };
        finished(draft, next, verdict)
    }

    /// Collects garbage, and looks whether the artifact that the status names is there.
    async fn look_at_storage(
        &self,
        draft: &mut Draft<S::Kind>,
        owner: &Owner,
        context: &Context,
    ) -> Result<(), Failure> {
        let mut missing = false;
        if let Some(artifact) = draft.object.status.artifact().cloned() {
            match self.storage.collect(owner, &[&artifact.path]).await {
                Ok(removed) if removed.is_empty() => {}
                Ok(removed) => {
                    let count = removed.len();
                    let message = format!("garbage collected {count} artifacts");
                    draft.trace(Reason::GarbageCollectionSucceeded.as_str(), message);
                }
                // It is tried again at the next attempt; the artifact does not suffer.
                Err(error) => {
                    let what = "garbage collection of artifacts failed";
                    context.log.error(what, &error.to_string());
                }
            }
            match self.verify(&artifact.path, &artifact.digest, context).await {
                Kept::Whole => {}
                Kept::Missing => missing = true,
                Kept::Broken(why) => {
                    let message = format!("failed to verify integrity of artifact: {why}");
                    draft.event(
                        Severity::Error,
                        Reason::ArtifactVerificationFailed.as_str(),
                        message,
                    );
                    missing = true;
                }
            }
        }
        if missing {
            *draft.object.status.artifact_mut() = None;
            S::set_url(&mut draft.object.status, None);
        } else if draft.object.status.artifact().is_some() && !S::LINK.is_empty() {
            let link = format!("{}/{}", owner.directory(), S::LINK);
            S::set_url(&mut draft.object.status, Some(self.storage.url(&link)));
        }
        let artifact = draft.object.status.artifact_mut();
        match artifact {
            Some(artifact) => artifact.url = self.storage.url(&artifact.path),
            None => {
                let message = match missing {
                    true => "building artifact: disappeared from storage",
                    false => "building artifact",
                };
                draft.progress(message);
                draft.remove(types::ARTIFACT_IN_STORAGE);
            }
        }
        Ok(())
    }

    async fn verify(&self, path: &str, digest: &str, context: &Context) -> Kept {
        let digest = match Digest::parse(digest) {
            Ok(digest) => digest,
            Err(error) => return Kept::Broken(error.to_string()),
        };
        let (disk, name) = (context.env.disk.clone(), path.to_owned());
        let there = run_blocking(&*context.env.blocking, move || disk.entry(&name).is_ok());
        if there.await != Some(true) {
            // After this source came over from another replica, that one may still have it.
            return match self.storage.bring(path, &digest.to_string()).await {
                true => Kept::Whole,
                false => Kept::Missing,
            };
        }
        match self.storage.verify(path, &digest).await {
            Ok(true) => Kept::Whole,
            Ok(false) => Kept::Broken(format!("the digest of the file is not {digest}")),
            Err(error) => Kept::Broken(error.to_string()),
        }
    }

    async fn delete(
        &self,
        value: &Value,
        object: &Object<S::Kind>,
        owner: &Owner,
        context: &Context,
    ) -> Result<Report, Interrupted> {
        if let Err(error) = self.storage.remove_owner(owner).await {
            let message = format!("garbage collection for deleted resource failed: {error}");
            context.log.error(&message, "GarbageCollectionFailed");
            let mut report = silent(Next::retry("GarbageCollectionFailed"), Verdict::Failure);
            let reason = Reason::GarbageCollectionFailed.as_str();
            report
                .events
                .push(Event::new(Severity::Error, reason, message));
            return Ok(report);
        }
        let last_words = object.status.artifact().map(|_| collected());
        let_go(context, value, last_words.into_iter().collect()).await
    }

    /// An object that is only a description: whatever it had of us is taken back.
    async fn leave(
        &self,
        value: &Value,
        object: &Object<S::Kind>,
        owner: &Owner,
        context: &Context,
    ) -> Report {
        let mut report = silent(Next::At(SUSPENDED), Verdict::Success);
        let had = value
            .get("status")
            .is_some_and(|status| *status != json!({}));
        if is_held(&object.metadata) {
            let removed = async {
                self.storage
                    .remove_owner(owner)
                    .await
                    .map_err(|error| error.to_string())?;
                let edited = context.remove_finalizer(value, FINALIZER).await;
                edited.map_err(|error| error.to_string())
            };
            if let Err(error) = removed.await {
                context.log.error("failed to take back what it had", &error);
                return silent(Next::retry("FinalizerFailed"), Verdict::Failure);
            }
        }
        if had {
            report.status = Some(json!({}));
        }
        if object.status.artifact().is_some() {
            report.events.push(collected());
        }
        report
    }
}

fn by(no_later_than: Duration, changes: Vec<WakeOn>) -> Next {
    match changes.is_empty() {
        true => Next::At(no_later_than),
        false => Next::When {
            changes,
            no_later_than,
        },
    }
}

fn retry(cause: &str, changes: Vec<WakeOn>) -> Next {
    Next::RetryOrWhen {
        cause: cause.into(),
        changes,
    }
}

fn collected() -> Event {
    let reason = Reason::GarbageCollectionSucceeded.as_str();
    let message = "garbage collected artifacts for deleted resource";
    Event::new(Severity::Trace, reason, message)
}

/// What became of an artifact in the storage.
enum Kept {
    Whole,
    Missing,
    Broken(String),
}

fn finished<K: Kind>(draft: Draft<K>, next: Next, verdict: Verdict) -> Report
where
    K::Status: Reconciled + Produced,
{
    skeleton::report(&draft.object.status, draft.events, next, verdict)
}

/// What is said of an object that cannot be read, or whose attempt broke.
fn unreadable(value: &Value, why: &str, context: &Context) -> Report {
    skeleton::unreadable(value, why, Reason::Failed, context)
}

impl<S: Source> Controller for SourceController<S> {
    fn name(&self) -> &str {
        S::NAME
    }

    fn reports_as(&self) -> &str {
        manager::SOURCE
    }

    fn resource(&self) -> &Resource {
        &self.resource
    }

    fn owned_conditions(&self) -> &[&str] {
        &OWNED
    }

    fn deadline(&self, object: &Value) -> Duration {
        let read = Object::<S::Kind>::read_spec(object);
        let fetching = read.map_or(BESIDE_FETCHING, |spec| S::timeout(&spec));
        fetching.saturating_mul(2) + BESIDE_FETCHING
    }

    fn host(&self, object: &Value) -> Option<String> {
        let url = Url::parse(object.pointer(S::ADDRESS)?.as_str()?).ok()?;
        Some(url.authority())
    }

    fn concurrency(&self) -> usize {
        self.options.concurrent
    }

    fn attempt<'a>(
        &'a self,
        object: &'a Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Report, Interrupted>> {
        Box::pin(async move {
            match skeleton::read(object, Reason::Failed, context) {
                Ok(read) => self.attempt_read(object, context, read).await,
                Err(report) => Ok(report),
            }
        })
    }

    fn broken(&self, object: &Value, how: &Broken, context: &Context) -> Report {
        unreadable(object, &how.to_string(), context)
    }
}
