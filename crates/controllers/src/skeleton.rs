//! What every reconcile has around it, whatever the kind: objects that cannot be read, the finalizer before anything
//! else and after everything, what is watched for it, reports.

use std::time::Duration;

use everflow_api::common::CustomHealthCheck;
use everflow_api::condition::{self, Condition, ConditionStatus};
use everflow_api::names::FINALIZER;
use everflow_api::names::condition::READY;
use everflow_api::object::{Kind, Object, ObjectMeta};
use everflow_api::wire::Wire;
use everflow_api::{Reason, to_value};
use everflow_apply::health::custom::CustomChecks;
use everflow_json::{Value, json};
use everflow_runtime::Error as ClientError;
use everflow_runtime::attempt::{Context, Interrupted, Next, Report, Verdict};
use everflow_runtime::events::{Event, Severity};
use everflow_runtime::metadata::Edited;
use everflow_runtime::queue::WakeOn;
use everflow_runtime::reflector::Watched;

use crate::Options;
use crate::stop::Misconfigured;

/// How often an object is looked at that is suspended or gone: only so that it has a next attempt.
pub(crate) const SUSPENDED: Duration = Duration::from_secs(3_600);
/// How long a source that has come together with the object may take before it is said that it has nothing yet.
pub(crate) const A_MOMENT: Duration = Duration::from_secs(2);
/// How long is waited at most for an API server that was busy or away.
pub(crate) const AWAY: Duration = Duration::from_secs(60);

/// Nothing is said.
pub(crate) fn silent(next: Next, verdict: Verdict) -> Report {
    Report {
        status: None,
        events: Vec::new(),
        next,
        verdict,
    }
}

/// The report of an attempt that has worked out a status.
pub(crate) fn report<S: Wire>(
    status: &S,
    events: Vec<Event>,
    next: Next,
    verdict: Verdict,
) -> Report {
    Report {
        status: Some(written(status)),
        events,
        next,
        verdict,
    }
}

/// A status as it is written.
pub(crate) fn written<S: Wire>(status: &S) -> Value {
    match to_value(status) {
        Value::Null => json!({}),
        status => status,
    }
}

/// Reads an object; or the attempt ends with a report that says why that cannot be.
pub(crate) fn read<K: Kind>(
    value: &Value,
    reason: Reason,
    context: &Context,
) -> Result<Object<K>, Report> {
    Object::read(value).map_err(|error| unreadable(value, &error.to_string(), reason, context))
}

/// What is said of an object that cannot be read, or whose attempt broke: Ready is False, all else stays.
pub(crate) fn unreadable(value: &Value, why: &str, reason: Reason, context: &Context) -> Report {
    let mut status = value.get("status").cloned().unwrap_or_else(|| json!({}));
    let root = everflow_api::error::At::Root;
    let conditions = status.get("conditions").cloned().unwrap_or(Value::Null);
    let mut conditions = Vec::<Condition>::read(&conditions, &root).unwrap_or_default();
    let reason = reason.as_str();
    let ready = Condition::new(READY, ConditionStatus::False, reason, why);
    let generation = everflow_api::view::generation(value);
    condition::set(&mut conditions, ready, generation, context.env.clock.now());
    status["conditions"] = conditions.iter().map(to_value).collect::<Vec<_>>().into();
    Report {
        status: Some(status),
        events: vec![Event::new(Severity::Error, reason, why)],
        next: Next::retry("Failed"),
        verdict: Verdict::Failure,
    }
}

/// An object before its attempt.
#[derive(Debug)]
pub(crate) enum Held {
    /// It has the finalizer, as it had before.
    Already,
    /// It got the finalizer: this is how it is now.
    Now(Value),
    /// The attempt ends with this report.
    Ends(Report),
}

/// Sees to it that the object has the finalizer before there is anything to clean up.
pub(crate) async fn hold(context: &Context, value: &Value) -> Result<Held, Interrupted> {
    match context.ensure_finalizer(value, FINALIZER).await {
        Ok(Edited::Stored(stored)) => Ok(Held::Now(stored)),
        Ok(Edited::Unchanged) => Ok(Held::Already),
        Ok(Edited::Gone) => Ok(Held::Ends(silent(Next::retry("Gone"), Verdict::Success))),
        Err(ClientError::Fenced { .. }) => Err(Interrupted::NotLeading),
        Err(error) => {
            let what = "failed to add the finalizer";
            context.log.error(what, &error.to_string());
            let report = silent(Next::retry("FinalizerFailed"), Verdict::Failure);
            Ok(Held::Ends(report))
        }
    }
}

/// Whether the object has the finalizer.
pub(crate) fn is_held(metadata: &ObjectMeta) -> bool {
    metadata.finalizers.iter().any(|name| name == FINALIZER)
}

/// Takes the finalizer away from an object of which nothing is left, and says these last words.
pub(crate) async fn let_go(
    context: &Context,
    value: &Value,
    events: Vec<Event>,
) -> Result<Report, Interrupted> {
    match context.remove_finalizer(value, FINALIZER).await {
        Ok(Edited::Unchanged | Edited::Stored(_) | Edited::Gone) => {
            let mut report = silent(Next::At(SUSPENDED), Verdict::Success);
            report.events = events;
            Ok(report)
        }
        Err(ClientError::Fenced { .. }) => Err(Interrupted::NotLeading),
        Err(error) => {
            let what = "failed to remove the finalizer";
            context.log.error(what, &error.to_string());
            Ok(silent(Next::retry("FinalizerFailed"), Verdict::Failure))
        }
    }
}

/// Has inputs watched: each of these collections once.
pub(crate) fn watch_inputs(context: &Context, inputs: Vec<(WakeOn, Watched)>) -> Vec<Watched> {
    let mut watches = Vec::new();
    for (_, watched) in inputs {
        context.watch(&watched);
        if !watches.contains(&watched) {
            watches.push(watched);
        }
    }
    watches
}

/// The expressions for the health of objects.
pub(crate) fn health_checks(
    expressions: &[CustomHealthCheck],
    options: &Options,
) -> Result<CustomChecks, Misconfigured> {
    let checks = CustomChecks::read(expressions).map_err(|error| {
        let at = error.at();
        Misconfigured(format!(
            "{error}\ncorrect the expression in spec.healthCheckExprs[{at}]"
        ))
    })?;
    Ok(match options.kustomize.alone {
        true => checks.of_groups(everflow_apply::is_looked_after),
        false => checks,
    })
}
