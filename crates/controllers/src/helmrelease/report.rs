//! What an attempt says at its end, and when the next one is made.

use std::time::Duration;

use everflow_api::Reason;
use everflow_api::condition;
use everflow_api::names::condition::{READY, STALLED};
use everflow_release::decide::{Then as Ending, drift_mode};
use everflow_release::status::{self, Notice, Severity as Grave};
use everflow_runtime::attempt::{Next, Report, Verdict};
use everflow_runtime::events::{Event, Severity};
use everflow_runtime::queue::{Priority, WakeOn};
use everflow_runtime::reflector::Watched;

use super::attempt::Attempt;
use super::depends;
use super::rounds::Work;
use crate::skeleton::{self, AWAY};
use crate::source_name::SourceName;
use crate::stop::{Failure, RetryPolicy};

/// The metric of what was recovered.
const RECOVERED: &str = "everflow_helm_recoveries_total";

/// An event of a notice.
pub(super) fn event(notice: &Notice) -> Event {
    let severity = match notice.severity {
        Grave::Normal => Severity::Info,
        Grave::Warning => Severity::Error,
    };
    let mut event = Event::new(severity, notice.reason.as_str(), &notice.message);
    event.metadata.clone_from(&notice.annotations);
    event
}

impl Attempt<'_> {
    /// The report of an attempt that ends here.
    pub(super) fn report(self, next: Next, verdict: Verdict) -> Report {
        skeleton::report(&self.object.status, self.events, next, verdict)
    }

    /// The same while others still hold the attempt.
    pub(super) fn take_report(&mut self, next: Next, verdict: Verdict) -> Report {
        let events = std::mem::take(&mut self.events);
        skeleton::report(&self.object.status, events, next, verdict)
    }

    /// What the object waits for in any case: its source and its inputs.
    pub(super) fn wakes(&self) -> Vec<WakeOn> {
        let source = SourceName::of_release(&self.object);
        let mut changes: Vec<WakeOn> = source.iter().map(SourceName::wake).collect();
        changes.extend(self.config_wakes().into_iter().map(|(wake, _)| wake));
        changes
    }

    /// Has the inputs watched.
    pub(super) fn watch_inputs(&self) -> Vec<Watched> {
        skeleton::watch_inputs(self.context, self.config_wakes())
    }

    /// Ends an attempt that has done what there was to do.
    pub(super) async fn end(&mut self, then: Ending, work: &Work) -> Report {
        let now = self.now();
        status::end_attempt(&mut self.object, &then, now);
        if let Ending::Stall { .. } = then {
            return self.stalled().await;
        }
        let mut keep = self.watch_inputs();
        let mut changes = self.wakes();
        let interval = self.object.spec.interval.unsigned();
        let chance = || self.context.env.random.unit();
        let (span, verdict) = match then {
            Ending::Settled => {
                let (entries, watch) = self.watched_objects(work);
                if watch {
                    let view = self.live_view(&work.target);
                    changes.extend(view.watch(&entries, &mut keep).await);
                }
                let span = self.options().runtime.jittered(interval, chance());
                (span, Verdict::Success)
            }
            Ending::RetryAfter(span) => (span.unsigned(), Verdict::Failure),
            _ => {
                self.context.release_watches(&keep);
                let next = Next::RetryOrWhen {
                    cause: "Failed".into(),
                    changes,
                };
                return self.take_report(next, Verdict::Failure);
            }
        };
        self.context.release_watches(&keep);
        let next = Next::When {
            changes,
            no_later_than: span,
        };
        self.take_report(next, verdict)
    }

    /// The objects that are watched while all is well, where drift is looked for.
    fn watched_objects(&self, work: &Work) -> (Vec<everflow_apply::inventory::Entry>, bool) {
        use everflow_api::helm::DriftDetectionMode;
        let is_on = drift_mode(&self.object) != DriftDetectionMode::Disabled;
        let is_on = is_on && self.options().helm.watch_applied && !work.target.remote;
        let inventory = self.object.status.inventory.as_ref();
        let entries = inventory.map(|inventory| inventory.entries.as_slice());
        let read = everflow_apply::inventory::Inventory::of_refs(entries.unwrap_or_default());
        let entries = read.map(|read| read.entries().to_vec()).unwrap_or_default();
        (entries, is_on)
    }

    /// No retries are left: it is tried again slowly, and at once when something is changed.
    pub(super) async fn stalled(&mut self) -> Report {
        let keep = self.watch_inputs();
        self.context.release_watches(&keep);
        let next = Next::When {
            changes: self.wakes(),
            no_later_than: self.slowest(),
        };
        self.take_report(next, Verdict::Stalled)
    }

    fn slowest(&self) -> Duration {
        let slowest = self.options().runtime.max_retry_delay;
        slowest.max(self.object.spec.interval.unsigned())
    }

    /// Whether this is the slow retry of a release without retries left.
    pub(super) fn is_slow_retry(&self) -> bool {
        let Some(stalled) = condition::find(&self.before.conditions, STALLED) else {
            return false;
        };
        let of_release = [Reason::RetriesExceeded, Reason::MissingRollbackTarget];
        let of_release = of_release
            .iter()
            .any(|reason| reason.as_str() == stalled.reason);
        let since = self.now().since(stalled.last_transition_time).unsigned();
        let is_interval = self.context.ticket.priority == Priority::Interval;
        of_release && is_interval && since >= self.slowest().mul_f64(0.9)
    }

    /// What Ready says beside what failed.
    pub(super) fn advice(&self, reason: Reason) -> Option<String> {
        let kind = match reason {
            Reason::MissingRollbackTarget => "there is no revision to go back to",
            _ => "no retries are left",
        };
        let slowest = everflow_time::Duration::from(self.slowest());
        Some(format!(
            "{kind}: it is tried again every {slowest}, and at once after a change of the chart, the values or the \
             spec, or with 'flux reconcile helmrelease {} -n {} --force'",
            self.object.metadata.name,
            self.namespace()
        ))
    }

    /// Something of a release was found out anew or taken over: a metric counts it.
    pub(super) fn note_recovery(&self, what: &str, from: &str) {
        self.controller.metrics.count(RECOVERED, &[("what", what)]);
        let fields = [("what", what), ("from", from)];
        self.context.log.info("recovered a release", &fields);
    }

    /// Another has written, or it is not known what the server did: the attempt is made again.
    pub(super) fn once_more(mut self, why: &str) -> Report {
        let fields = [("why", why)];
        self.context.log.info("the attempt is made again", &fields);
        let keep = self.watch_inputs();
        self.context.release_watches(&keep);
        let next = Next::RetryOrWhen {
            cause: "Again".into(),
            changes: self.wakes(),
        };
        self.take_report(next, Verdict::Failure)
    }

    /// Reports what keeps the object from being released.
    pub(super) fn fail(mut self, failure: Failure) -> Report {
        let (now, generation) = (self.now(), self.object.metadata.generation);
        let said = condition::find(&self.before.conditions, READY);
        let is_known = said.is_some_and(|said| {
            said.message == failure.message && said.observed_generation == generation
        });
        if failure.reason != Reason::StateError {
            status::begin_attempt(&mut self.object, now);
        }
        status::not_ready(&mut self.object, failure.reason, &failure.message, now);
        let is_stalled = failure.then == RetryPolicy::Change;
        if is_stalled {
            let (reason, message) = (failure.reason, &failure.message);
            status::stall(&mut self.object, reason, message, None, now);
            self.object.status.observed_generation = generation;
        }
        let reason = failure.reason.as_str();
        if let Some((severity, text)) = failure.told(is_known) {
            self.events.push(Event::new(severity, reason, text));
        }
        let keep = self.watch_inputs();
        self.context.release_watches(&keep);
        let mut changes = self.wakes();
        if failure.reason == Reason::DependencyNotReady {
            changes.extend(depends::of(&self.object, &self.value).wakes());
        }
        let interval = self.object.spec.interval.unsigned();
        let soon = self.options().runtime.requeue_dependency;
        let (span, verdict) = match failure.then {
            RetryPolicy::Retry => {
                let next = Next::RetryOrWhen {
                    cause: reason.into(),
                    changes,
                };
                return self.report(next, Verdict::Failure);
            }
            RetryPolicy::Return => (interval.min(AWAY), Verdict::Failure),
            RetryPolicy::Wait => (soon, Verdict::Waiting),
            RetryPolicy::WaitForSource => (soon, Verdict::Waiting),
            RetryPolicy::Change => (self.slowest(), Verdict::Stalled),
        };
        let next = Next::When {
            changes,
            no_later_than: span,
        };
        self.report(next, verdict)
    }
}
