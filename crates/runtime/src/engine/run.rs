//! One attempt, from its turn to its next.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use everflow_env::{Place, within};
use everflow_json::Value;
use futures_util::FutureExt as _;

use super::quarantine::{self, Admission};
use super::{ChangePredicate, Shared, watches};
use crate::attempt::{
    Broken, Context, Controller, Interrupted, Next, Report, Verdict, WatchFor, Watcher,
};
use crate::client::{At, revision};
use crate::error::Error;
use crate::lease::Epoch;
use crate::queue::{Due, Key, Priority, Ticket};
use crate::reflector::Watched;
use crate::signal::Signal;
use crate::status::{StatusWriter, Written, forgets};
use crate::store::{CachedObject, Store};

/// How long a worker goes on trying to write a status. After that the object waits for its next
/// turn, and the status is worked out anew.
const STATUS_PATIENCE: Duration = Duration::from_secs(20);
/// How soon an attempt that was interrupted is made again, unless something sooner asks for it.
const AFTER_INTERRUPTION: Duration = Duration::from_secs(1);
/// How soon an object is looked at again whose status was changed by someone else meanwhile.
const FOREIGN_STATUS: Duration = Duration::from_secs(10);

/// Lets attempts have more watched.
struct EngineWatcher(Arc<Shared>);

impl WatchFor for EngineWatcher {
    fn watch(&self, user: &Key, watched: &Watched, matters: Option<ChangePredicate>) -> Store {
        watches::ensure(&self.0, user, watched, matters)
    }

    fn release(&self, user: &Key, but: &[Watched]) {
        self.0.watches.release(user, but);
    }

    fn note_write(&self, key: &Key, version: u64) {
        self.0.lock().own_writes.insert(key.clone(), version);
    }
}

/// What follows.
struct Followup {
    next: Next,
    result: &'static str,
}

/// Makes an attempt. Whatever happens in it, the object has a next one afterwards.
pub(super) async fn run(
    shared: Arc<Shared>,
    ticket: Ticket,
    mark: u64,
    epoch: Option<Epoch>,
    superseded: Signal,
) {
    let key = ticket.key.clone();
    let guarded = Guard {
        shared: &shared,
        key: &key,
        done: false,
    };
    let started = shared.now();
    let followup = make(&shared, ticket, epoch, superseded).await;
    let span = (shared.now() - started).as_secs_f64();
    if let Some(followup) = &followup {
        measure(&shared, &key, followup.result, span);
    }
    guarded.finish(followup, mark);
}

/// Puts the object back into the queue even when the attempt's task is dropped.
struct Guard<'a> {
    shared: &'a Shared,
    key: &'a Key,
    done: bool,
}

impl Guard<'_> {
    fn finish(mut self, followup: Option<Followup>, mark: u64) {
        self.done = true;
        let shared = self.shared;
        let now = shared.now();
        let mut state = shared.lock();
        state.running.remove(self.key);
        let Some(followup) = followup else {
            // It is in the store no more.
            state.queue.remove(self.key);
            state.queue.finish(self.key, &Due::Now, now, 0.0);
            drop(state);
            shared.turn.notify_one();
            return;
        };
        let (mut due, changes) = match followup.next {
            Next::At(span) => (Due::After(span), Vec::new()),
            Next::Retry { cause, at_least } => (Due::Backoff { cause, at_least }, Vec::new()),
            Next::RetryOrWhen { cause, changes } => {
                let at_least = Duration::ZERO;
                (Due::Backoff { cause, at_least }, changes)
            }
            Next::When {
                changes,
                no_later_than,
            } => (Due::After(no_later_than), changes),
        };
        shared.env.planted(Place::NextTurn, &mut due);
        let chance = shared.env.random.unit();
        let next = state.queue.finish(self.key, &due, now, chance);
        let mut missed = !state.waits.wait(self.key, &changes, mark);
        shared.env.planted(Place::MissedWake, &mut missed);
        if next.is_some() && missed {
            state.queue.enqueue(self.key, Priority::Dependency, now);
        }
        let ours = state.own_writes.get(self.key).copied();
        drop(state);
        self.look_again(ours);
        shared.turn.notify_one();
    }

    /// Someone may have changed the status between our write and now.
    fn look_again(&self, ours: Option<u64>) {
        let (shared, key) = (self.shared, self.key);
        let Some(ours) = ours else {
            return;
        };
        let store = shared.stores.get(&key.kind);
        let stored = store.and_then(|store| store.get(&key.namespace, &key.name));
        let Some(stored) = stored.filter(|stored| stored.revision > ours) else {
            return;
        };
        let soon = shared.now() + FOREIGN_STATUS;
        let mut state = shared.lock();
        state.queue.no_later_than(key, soon);
        // Once is enough.
        state.own_writes.insert(key.clone(), stored.revision);
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if !self.done {
            let now = self.shared.now();
            let mut state = self.shared.lock();
            state.running.remove(self.key);
            let due = Due::After(AFTER_INTERRUPTION);
            state.queue.finish(self.key, &due, now, 0.0);
        }
    }
}

/// `None` when the object is gone.
async fn make(
    shared: &Arc<Shared>,
    ticket: Ticket,
    epoch: Option<Epoch>,
    superseded: Signal,
) -> Option<Followup> {
    let key = ticket.key.clone();
    let controller = shared.kinds.get(&key.kind)?.clone();
    let store = shared.stores.get(&key.kind)?;
    let taken_over = shared.lock().taken_over.contains(&key);
    if taken_over && let Err(error) = read_anew(shared, &key, store).await {
        let fields = [("object", &*key.to_string()), ("error", &error.to_string())];
        shared
            .log
            .debug("an object that was taken over cannot be read yet", &fields);
        return Some(Followup {
            next: Next::retry("NotReadAnew"),
            result: "error",
        });
    }
    let stored = store.get(&key.namespace, &key.name)?;
    let object = stored.value();
    let admission = shared.lock().quarantine.admit(&key, shared.now());
    if let Admission::Held {
        span,
        deaths,
        announce,
    } = admission
    {
        if announce {
            quarantine::announce(shared, controller.reports_as(), &object, deaths, span);
        }
        return Some(Followup {
            next: Next::At(span),
            result: "requeue_after",
        });
    }
    let waited = ticket.waited.as_secs_f64();
    let labels = [
        ("controller", controller.name()),
        ("name", controller.name()),
    ];
    shared
        .metrics
        .observe("workqueue_queue_duration_seconds", &labels, waited);
    let id = format!("{:016x}-{}", shared.env.random.next(), ticket.serial);
    let resource = controller.resource().clone();
    let log = shared
        .log
        .for_attempt(controller.name(), &resource.group, &key, &id);
    let mut client = shared.client.clone();
    let mut fence = epoch.clone();
    shared.env.planted(Place::Fence, &mut fence);
    if let Some(fence) = fence {
        client = client.fenced(Arc::new(fence));
    }
    let (env, mark) = quarantine::marked(&shared.env, &key);
    let context = Context {
        env,
        client,
        key,
        ticket,
        epoch,
        taken_over,
        log,
        resource,
        field_manager: controller.field_manager().to_owned(),
        stores: shared.stores.clone(),
        superseded,
        stopping: shared.stopping.clone(),
        watcher: Watcher(Arc::new(EngineWatcher(shared.clone()))),
        recorder: shared.recorder.clone(),
        reporter: controller.reports_as().to_owned(),
    };
    let attempted = attempt(shared, &*controller, &object, &context).await;
    quarantine::end(shared, &context.key, mark).await;
    let report = match attempted {
        Ok(report) => {
            shared.lock().taken_over.remove(&context.key);
            report
        }
        Err(why) => {
            context
                .log
                .debug("attempt stopped", &[("why", &why.to_string())]);
            return Some(again_soon());
        }
    };
    Some(publish(shared, &*controller, (&stored, &object), report, &context).await)
}

/// Reads an object that another replica worked on until now. Our watch may be behind what that one has done: acting on it
/// could bring back an older revision.
async fn read_anew(shared: &Shared, key: &Key, store: &Store) -> Result<(), Error> {
    let Some(resource) = shared.resources.get(&key.kind) else {
        return Ok(());
    };
    let at = At::new(&key.namespace, &key.name);
    match shared.client.get(resource, at).await {
        Ok(object) => store.learn(&object),
        Err(Error::NotFound(_)) => {
            if let Some(known) = store.get(&key.namespace, &key.name) {
                store.learn_gone(&(key.namespace.clone(), key.name.clone()), &known.uid);
            }
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Runs the controller's code within its deadline; what it breaks is its object's alone.
async fn attempt(
    shared: &Shared,
    controller: &dyn Controller,
    object: &Value,
    context: &Context,
) -> Result<Report, Interrupted> {
    context.check()?;
    let mut span = controller.deadline(object);
    shared.env.planted(Place::AttemptDeadline, &mut span);
    let work = AssertUnwindSafe(async { controller.attempt(object, context).await });
    let broken = match within(&*shared.env.clock, span, work.catch_unwind()).await {
        Ok(Ok(result)) => return result,
        Ok(Err(panic)) => {
            let labels = [("controller", controller.name())];
            shared
                .metrics
                .count("controller_runtime_reconcile_panics_total", &labels);
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Broken::Panicked(text.unwrap_or_else(|| "unknown".into()))
        }
        Err(_) => Broken::OutOfTime(span),
    };
    context.log.error("attempt broke", &broken.to_string());
    Ok(controller.broken(object, &broken, context))
}

/// One write of the status; then the events. `seen` is what the attempt has looked at.
async fn publish(
    shared: &Shared,
    controller: &dyn Controller,
    (seen, object): (&Arc<CachedObject>, &Value),
    report: Report,
    context: &Context,
) -> Followup {
    let key = &context.key;
    let store = shared.stores.get(&key.kind);
    // Our own writes of this attempt, the finalizer for one, are in the store already.
    let freshest = store.and_then(|store| store.get(&key.namespace, &key.name));
    let known = freshest
        .filter(|freshest| !Arc::ptr_eq(freshest, seen))
        .filter(|known| object["metadata"]["uid"] == known.uid.as_str());
    let known = known.as_ref().map(|known| known.value());
    let known = known.as_ref().unwrap_or(object);
    if let Some(status) = &report.status {
        if forgets(known, object, status) {
            return again_soon();
        }
        let writer = StatusWriter {
            env: &shared.env,
            client: &context.client,
            resource: &context.resource,
            field_manager: controller.field_manager(),
            owned: controller.owned_conditions(),
            patience: STATUS_PATIENCE,
        };
        let pointless = || {
            context
                .epoch
                .as_ref()
                .is_some_and(|epoch| epoch.check().is_err())
        };
        let written = writer.write(known, status, pointless).await;
        let what = match &written {
            Ok(Written::Unchanged) => "unchanged",
            Ok(Written::Stored(_)) => "stored",
            Ok(Written::Gone) => "gone",
            Ok(Written::GivenUp) => "given up",
            Ok(Written::Rewound) => "rewound",
            Err(_) => "failed",
        };
        let labels = [("controller", controller.name()), ("result", what)];
        shared
            .metrics
            .count("everflow_status_writes_total", &labels);
        match written {
            Ok(Written::Stored(stored)) => {
                let version = revision(&stored);
                shared.lock().own_writes.insert(key.clone(), version);
                context.learn(&stored);
            }
            Ok(Written::Unchanged) => {}
            Ok(Written::Gone) => {
                // The watch should say so; until then it is looked at ever more rarely.
                context.request_resync();
                return Followup {
                    next: Next::retry("Gone"),
                    result: "requeue",
                };
            }
            Ok(Written::GivenUp) => return again_soon(),
            Ok(Written::Rewound) => {
                context.request_resync();
                return again_soon();
            }
            Err(error) => return not_written(context, &error),
        }
    }
    let reporter = controller.reports_as();
    shared.recorder.emit_all(reporter, known, report.events);
    Followup {
        result: match report.verdict {
            Verdict::Success => "success",
            Verdict::Waiting => "requeue_after",
            Verdict::Failure | Verdict::Stalled => "error",
        },
        next: report.next,
    }
}

/// Nothing was said: what there is to say must be found out anew.
fn again_soon() -> Followup {
    Followup {
        next: Next::At(AFTER_INTERRUPTION),
        result: "requeue",
    }
}

fn not_written(context: &Context, error: &Error) -> Followup {
    context
        .log
        .error("failed to write the status", &error.to_string());
    let mut longest = Duration::from_secs(60);
    context.env.planted(Place::RetryAfterLimit, &mut longest);
    let asked = error.retry_after().unwrap_or_default();
    let mut next = Next::Retry {
        cause: "StatusWriteFailed".into(),
        at_least: asked.min(longest),
    };
    context.env.planted(Place::AfterStatusError, &mut next);
    Followup {
        next,
        result: "error",
    }
}

fn measure(shared: &Shared, key: &Key, result: &str, span: f64) {
    let Some(controller) = shared.kinds.get(&key.kind) else {
        return;
    };
    let metrics = &shared.metrics;
    let name = controller.name();
    let object = [
        ("kind", &*key.kind),
        ("name", &*key.name),
        ("namespace", &*key.namespace),
    ];
    metrics.observe("gotk_reconcile_duration_seconds", &object, span);
    let labels = [("controller", name)];
    metrics.observe("controller_runtime_reconcile_time_seconds", &labels, span);
    let labels = [("controller", name), ("result", result)];
    metrics.count("controller_runtime_reconcile_total", &labels);
    if result == "error" {
        let labels = [("controller", name)];
        metrics.count("controller_runtime_reconcile_errors_total", &labels);
    }
}
