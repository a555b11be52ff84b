//! The status of a source while an attempt works it out.

use everflow_api::condition::{
    self, Condition, ConditionStatus, Reconciled, is_true, mark_reconciling, mark_stalled,
};
use everflow_api::names::{condition as types, group};
use everflow_api::source::{Produced, ready};
use everflow_api::{Kind, Object, Reason};
use everflow_runtime::events::{Event, Severity};
use everflow_runtime::queue::WakeOn;
use everflow_time::Timestamp;

use super::outcome::{Failure, Outcome};

/// Conditions that are there when something failed.
const FAILURES: [&str; 4] = [
    types::FETCH_FAILED,
    types::INCLUDE_UNAVAILABLE,
    types::BUILD_FAILED,
    types::STORAGE_OPERATION_FAILED,
];

/// How a message begins while a new generation is being dealt with.
const NEW_GENERATION: &str = "processing object: new generation";

/// An object whose status is being worked out.
#[derive(Debug)]
pub(crate) struct Draft<K: Kind> {
    /// The object, with the status as it will be.
    pub object: Object<K>,
    /// The status as it was.
    pub before: K::Status,
    /// What happened.
    pub events: Vec<Event>,
    /// When this attempt began.
    pub now: Timestamp,
    /// Whether those who look closely are told that nothing changed: not at every interval.
    pub verbose: bool,
    /// Objects whose change asks for another attempt.
    pub wake: Vec<WakeOn>,
    /// The Secret with the credentials for the remote, as `NAMESPACE/NAME`.
    pub secret: Option<String>,
}

impl<K: Kind> Draft<K>
where
    K::Status: Reconciled + Produced,
{
    pub(crate) fn new(object: Object<K>, now: Timestamp, verbose: bool) -> Self {
        Draft {
            before: object.status.clone(),
            object,
            events: Vec::new(),
            now,
            verbose,
            wake: Vec::new(),
            secret: None,
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        self.object.metadata.namespace()
    }

    pub(crate) fn name(&self) -> &str {
        &self.object.metadata.name
    }

    pub(crate) fn generation(&self) -> i64 {
        self.object.metadata.generation
    }

    fn conditions(&mut self) -> &mut Vec<Condition> {
        self.object.status.conditions_mut()
    }

    pub(crate) fn set(
        &mut self,
        condition: &str,
        status: ConditionStatus,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) {
        let (generation, now) = (self.generation(), self.now);
        let condition = Condition::new(condition, status, reason, message);
        condition::set(self.conditions(), condition, generation, now);
    }

    pub(crate) fn remove(&mut self, condition: &str) {
        condition::remove(self.conditions(), condition);
    }

    pub(crate) fn is_true(&self, condition: &str) -> bool {
        is_true(self.object.status.conditions(), condition)
    }

    /// Notes how far the work has come; this is what stays when it fails.
    pub(crate) fn progress(&mut self, message: impl Into<String>) {
        let (generation, now) = (self.generation(), self.now);
        let conditions = self.conditions();
        mark_reconciling(conditions, Reason::Progressing, message, generation, now);
    }

    /// Says what this attempt is about, before any work.
    pub(crate) fn begin(&mut self) {
        let (generation, observed) = (self.generation(), self.object.status.observed_generation());
        let present = condition::find(self.object.status.conditions(), types::RECONCILING);
        // A generation is new until an attempt for it has succeeded.
        let still_new = present.filter(|present| {
            present.observed_generation == generation && present.message.starts_with(NEW_GENERATION)
        });
        let message = match still_new {
            _ if observed != generation => format!("{NEW_GENERATION} {observed} -> {generation}"),
            Some(present) => present.message.clone(),
            None => "reconciliation in progress".to_owned(),
        };
        self.progress(message);
        self.remove(types::STORAGE_OPERATION_FAILED);
    }

    /// The artifact is in the store and up to date.
    pub(crate) fn stored(&mut self, reason: Reason, message: impl Into<String>) {
        self.remove(types::ARTIFACT_OUTDATED);
        let condition = types::ARTIFACT_IN_STORAGE;
        self.set(condition, ConditionStatus::True, reason, message);
    }

    /// A failure that a condition tells of.
    pub(crate) fn fail(&mut self, condition: &str, failure: Failure) -> Failure {
        let failure = failure.with_remedy(self.secret.as_deref());
        let (reason, message) = (failure.reason().to_owned(), failure.message().to_owned());
        self.set(condition, ConditionStatus::True, reason, message);
        failure
    }

    /// Forgets that a signature was wrong: it is looked at again.
    pub(crate) fn forget_failed_verification(&mut self) {
        if condition::is_false(self.object.status.conditions(), types::SOURCE_VERIFIED) {
            self.remove(types::SOURCE_VERIFIED);
        }
    }

    /// A failure that is about a signature.
    pub(crate) fn unverified(&mut self, failure: Failure) -> Failure {
        let (reason, message) = (failure.reason().to_owned(), failure.message().to_owned());
        self.set(
            types::SOURCE_VERIFIED,
            ConditionStatus::False,
            reason,
            message,
        );
        failure
    }

    /// Something newer than the artifact was found.
    pub(crate) fn outdated(&mut self, message: &str) {
        if self.object.status.artifact().is_some() {
            let condition = types::ARTIFACT_OUTDATED;
            self.set(condition, ConditionStatus::True, "NewRevision", message);
        }
        self.progress(format!("building artifact: {message}"));
    }

    /// Notes the address of the link to the newest artifact; that it could not be made harms
    /// nobody.
    pub(crate) fn linked(
        &mut self,
        link: Result<String, everflow_fetch::Error>,
        note: impl FnOnce(&mut K::Status, String),
    ) {
        match link {
            Ok(url) => note(&mut self.object.status, url),
            Err(error) => {
                let message = format!("failed to update status URL symlink: {error}");
                self.trace(Reason::SymlinkUpdateFailed.as_str(), message);
            }
        }
    }

    pub(crate) fn event(
        &mut self,
        severity: Severity,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.events.push(Event::new(severity, reason, message));
    }

    /// Tells those who look closely, unless this is one of many attempts without a change.
    pub(crate) fn trace(&mut self, reason: impl Into<String>, message: impl Into<String>) {
        self.event(Severity::Trace, reason, message);
    }

    /// Works out conditions and events of an attempt that came to an end.
    pub(crate) fn conclude(&mut self, result: Result<&Outcome, &Failure>) {
        match result {
            Ok(outcome) => {
                self.record_success(outcome);
                self.remove(types::RECONCILING);
                self.remove(types::STALLED);
            }
            Err(failure) => self.record_failure(failure),
        }
        self.summarise();
    }

    fn record_failure(&mut self, failure: &Failure) {
        let (reason, message) = (failure.reason().to_owned(), failure.message().to_owned());
        let reconciling = condition::find(self.object.status.conditions(), types::RECONCILING);
        let (generation, now) = (self.generation(), self.now);
        if let Some(mut reconciling) = reconciling.cloned() {
            reconciling.reason = Reason::ProgressingWithRetry.as_str().to_owned();
            condition::set(self.conditions(), reconciling, generation, now);
        }
        match failure {
            Failure::Stalling { .. } => {
                let before = condition::find(self.before.conditions(), types::STALLED);
                let known = before.is_some_and(|before| {
                    before.observed_generation == generation && before.message == message
                });
                mark_stalled(self.conditions(), &reason, &message, generation, now);
                // It is looked at again from time to time; saying it once is enough.
                if !known || self.verbose {
                    self.event(Severity::Error, reason, message);
                }
            }
            Failure::Waiting { .. } => {
                self.remove(types::STALLED);
                self.event(Severity::Trace, reason, message);
            }
            Failure::Passing { .. } => {
                self.remove(types::STALLED);
                self.event(Severity::Error, reason, message);
            }
        }
    }

    fn record_success(&mut self, outcome: &Outcome) {
        let (said, new, again) = match outcome {
            Outcome::Done {
                said, new, again, ..
            } => (said, *new, *again),
            Outcome::Unchanged { said, .. } => (said, "NewArtifact", Reason::Succeeded.as_str()),
        };
        let digest = |status: &K::Status| status.artifact().map(|artifact| artifact.digest.clone());
        let failed = |status: &K::Status| {
            let has = |name: &&str| condition::find(status.conditions(), name).is_some();
            FAILURES.iter().any(has)
        };
        let status = &self.object.status;
        let reason = match digest(&self.before) != digest(status) {
            true => Some(new),
            false => (failed(&self.before) && !failed(status)).then_some(again),
        };
        if let (Some(reason), Some(artifact)) = (reason, status.artifact()) {
            let event = Event::new(Severity::Info, reason, said.clone())
                .with(format!("{}/revision", group::SOURCE), &artifact.revision)
                .with(format!("{}/digest", group::SOURCE), &artifact.digest);
            self.events.push(event);
        }
        if let Outcome::Unchanged {
            reason, message, ..
        } = outcome
            && self.verbose
        {
            self.event(Severity::Trace, reason.as_str(), message.clone());
        }
    }

    /// Sums up to `Ready`, and notes what was observed.
    pub(crate) fn summarise(&mut self) {
        let (generation, now) = (self.generation(), self.now);
        if let Some(ready) = ready(self.object.status.conditions()) {
            condition::set(self.conditions(), ready, generation, now);
        }
        let requested = self.object.metadata.requested_at().map(str::to_owned);
        self.object.status.handle_request(requested.as_deref());
        if !self.object.status.conditions().is_empty() {
            self.object.status.observe(generation);
        }
    }
}
