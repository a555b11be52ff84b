//! What every reconcile has around it, whatever the kind: the finalizer before anything else, reports that say nothing,
//! objects that cannot be read.

use std::time::Duration;

use everflow_api::condition::{self, Condition, ConditionStatus};
use everflow_api::names::FINALIZER;
use everflow_api::names::condition::READY;
use everflow_api::wire::Wire as _;
use everflow_api::{Reason, to_value};
use everflow_json::{Value, json};
use everflow_runtime::Error as ClientError;
use everflow_runtime::attempt::{Context, Interrupted, Next, Report, Verdict};
use everflow_runtime::events::{Event, Severity};
use everflow_runtime::metadata::Edited;

/// How often a suspended object is looked at: only so that it has a next attempt.
pub(crate) const SUSPENDED: Duration = Duration::from_secs(3_600);

/// Nothing is said.
pub(crate) fn silent(next: Next, verdict: Verdict) -> Report {
    Report {
        status: None,
        events: Vec::new(),
        next,
        verdict,
    }
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
