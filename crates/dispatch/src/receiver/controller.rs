//! Receivers: which path they have, and what is wrong with them.

use std::time::Duration;

use everflow_api::condition::{self, Condition, ConditionStatus};
use everflow_api::names::condition as types;
use everflow_api::notification::Receiver;
use everflow_api::{Object, Reason, to_value};
use everflow_env::BoxFuture;
use everflow_json::Value;
use everflow_notify::receiver::status::{Next as Then, Reconciled, reconcile};
use everflow_runtime::Options;
use everflow_runtime::attempt::{Broken, Context, Controller, Interrupted, Next, Report, Verdict};
use everflow_runtime::client::{Resource, Selection};
use everflow_runtime::events::{Event, Severity};
use everflow_runtime::reflector::Watched;
use everflow_runtime::store::Keep;

use crate::report::CONTROLLER;
use crate::resources::{RECEIVERS, SECRETS};
use crate::secrets;

const OWNED: [&str; 3] = [types::READY, types::RECONCILING, types::STALLED];
/// What does not change by itself is looked at again all the same.
const NOW_AND_THEN: Duration = Duration::from_secs(3_600);
/// What another controller leaves on Receivers.
const FINALIZER: &str = everflow_api::names::FINALIZER;

/// The controller of Receivers.
#[derive(Debug)]
pub struct ReceiverController {
    resource: Resource,
    options: Options,
    concurrent: usize,
}

impl ReceiverController {
    /// So many attempts run at once.
    pub fn new(options: &Options, concurrent: usize) -> Self {
        ReceiverController {
            resource: RECEIVERS,
            options: options.clone(),
            concurrent,
        }
    }

    async fn attempt_read(
        &self,
        object: &Value,
        receiver: &Object<Receiver>,
        context: &Context,
    ) -> Report {
        if receiver.metadata.is_deleted() {
            return self.release(object, context).await;
        }
        let namespace = receiver.metadata.namespace();
        let reference = receiver.spec.secret_ref.as_ref();
        let name = reference.map(|reference| reference.name.as_str());
        let secret = match secrets::lookup(&context.client, namespace, name).await {
            Ok(secret) => secret,
            Err(error) => {
                let why = error.to_string();
                context
                    .log
                    .error("the Secret of the Receiver cannot be read", &why);
                return unchanged(Next::retry("SecretUnread"));
            }
        };
        let reconciled = reconcile(receiver, &secret, context.env.clock.now());
        self.report(receiver, name, reconciled, context)
    }

    fn report(
        &self,
        receiver: &Object<Receiver>,
        secret: Option<&str>,
        reconciled: Reconciled,
        context: &Context,
    ) -> Report {
        let is_same = reconciled.status == receiver.status;
        let event = reconciled.event.map(|told| {
            let severity = match told.is_warning {
                true => Severity::Error,
                false => Severity::Info,
            };
            let event = Event::new(severity, told.reason.as_str(), told.message);
            match is_same && !told.is_warning {
                true => event.routine(),
                false => event,
            }
        });
        let (span, verdict) = match reconciled.next {
            Then::After(interval) => (Some(interval.unsigned()), Verdict::Success),
            Then::Retry => (None, Verdict::Failure),
            Then::Never if receiver.spec.suspend => (Some(NOW_AND_THEN), Verdict::Success),
            Then::Never => (Some(NOW_AND_THEN), Verdict::Stalled),
        };
        let changes: Vec<_> = secret
            .map(|name| {
                context.watch(&self.watched_secrets());
                SECRETS.wake_on(receiver.metadata.namespace(), name)
            })
            .into_iter()
            .collect();
        let next = match span {
            Some(span) => Next::When {
                changes,
                no_later_than: self.options.jittered(span, context.env.random.unit()),
            },
            None => Next::RetryOrWhen {
                cause: "TokenNotFound".into(),
                changes,
            },
        };
        Report {
            status: Some(to_value(&reconciled.status)),
            events: event.into_iter().collect(),
            next,
            verdict,
        }
    }

    /// Secrets whose changes are heeded at once.
    fn watched_secrets(&self) -> Watched {
        let labels = self.options.watch_configs_label_selector.clone();
        Watched {
            resource: SECRETS,
            namespace: self.options.watch_namespace.clone(),
            selection: Selection::labelled(labels).metadata(),
            keep: Keep::Metadata,
        }
    }

    /// Lets go of a Receiver on which another controller has left a finalizer: nothing has to be done before it goes.
    async fn release(&self, object: &Value, context: &Context) -> Report {
        match context.remove_finalizer(object, FINALIZER).await {
            Ok(_) => unchanged(Next::At(NOW_AND_THEN)),
            Err(error) => {
                context
                    .log
                    .error("failed to remove the finalizer", &error.to_string());
                unchanged(Next::retry("FinalizerNotRemoved"))
            }
        }
    }
}

fn unchanged(next: Next) -> Report {
    let verdict = match next {
        Next::At(_) => Verdict::Success,
        _ => Verdict::Failure,
    };
    Report {
        status: None,
        events: Vec::new(),
        next,
        verdict,
    }
}

/// What is said of an object that cannot be read, or whose attempt broke.
fn unreadable(value: &Value, why: &str, context: &Context) -> Report {
    use everflow_api::error::At;
    use everflow_api::wire::Wire;
    let mut status = value.get("status").cloned().unwrap_or_default();
    let conditions = status.get("conditions").cloned().unwrap_or_default();
    let mut conditions = Vec::<Condition>::read(&conditions, &At::Root).unwrap_or_default();
    let ready = Condition::new(types::READY, ConditionStatus::False, Reason::Failed, why);
    let generation = everflow_api::view::generation(value);
    condition::set(&mut conditions, ready, generation, context.env.clock.now());
    let conditions: Vec<Value> = conditions.iter().map(to_value).collect();
    status["conditions"] = conditions.into();
    Report {
        status: Some(status),
        events: vec![Event::new(Severity::Error, Reason::Failed.as_str(), why)],
        next: Next::retry("Failed"),
        verdict: Verdict::Failure,
    }
}

impl Controller for ReceiverController {
    fn name(&self) -> &str {
        "receiver"
    }

    fn reports_as(&self) -> &str {
        CONTROLLER
    }

    fn resource(&self) -> &Resource {
        &self.resource
    }

    fn owned_conditions(&self) -> &[&str] {
        &OWNED
    }

    fn deadline(&self, _: &Value) -> Duration {
        Duration::from_secs(60)
    }

    fn concurrency(&self) -> usize {
        self.concurrent
    }

    fn attempt<'a>(
        &'a self,
        object: &'a Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Report, Interrupted>> {
        Box::pin(async move {
            match Object::<Receiver>::read(object) {
                Ok(receiver) => Ok(self.attempt_read(object, &receiver, context).await),
                Err(error) => Ok(unreadable(object, &error.to_string(), context)),
            }
        })
    }

    fn broken(&self, object: &Value, how: &Broken, context: &Context) -> Report {
        unreadable(object, &how.to_string(), context)
    }
}
