//! One message to one Provider, now: to find out whether it is set up as it should be.

use everflow_api::Object;
use everflow_api::notification::{Alert, Provider};
use everflow_env::Env;
use everflow_fetch::Deadline;
use everflow_json::{Value, json};
use everflow_notify::Event;
use everflow_notify::alert::{Labels, Matcher};
use everflow_notify::dispatch::{Dispatch, Notification, Options, Skip, dispatch};
use everflow_notify::exchange::{Outcome, Step};
use everflow_notify::provider::{Delivery, DeliveryContext};
use everflow_runtime::client::{Client, meta_text};

use crate::alerts::name_of;
use crate::carry::carry;
use crate::secrets;

/// What came of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Each request, without secrets, and what was answered.
    pub requests: Vec<String>,
    /// What came of it; the error is what an Alert's Event would say.
    pub result: Result<&'static str, String>,
}

fn failed(why: impl ToString) -> Trial {
    Trial {
        requests: Vec::new(),
        result: Err(why.to_string()),
    }
}

/// An Alert that has everything sent to a Provider.
fn alert_for(provider: &Object<Provider>) -> Result<Object<Alert>, String> {
    let alert = json!({
        "metadata": {"name": "everflow-notify-test", "namespace": provider.metadata.namespace()},
        "spec": {
            "providerRef": {"name": provider.metadata.name},
            "eventSources": [{"kind": "Kustomization", "name": "*"}],
        },
    });
    Object::read(&alert).map_err(|error| error.to_string())
}

fn why_not(skip: Skip) -> &'static str {
    match skip {
        Skip::Suspended => "the Provider is suspended",
        Skip::OnlyCommitStatus => "the service keeps no statuses of commits",
        Skip::NoCommit => "the service keeps the status of commits: name one with --commit",
        Skip::NoChangeRequest => "the service comments on requests: name one with --change-request",
    }
}

/// Sends an event to a Provider as the dispatcher would, once and without retries.
pub async fn try_provider(env: &Env, client: &Client, provider: &Value, event: &Event) -> Trial {
    let provider: Object<Provider> = match Object::read(provider) {
        Ok(provider) => provider,
        Err(error) => return failed(error),
    };
    let secrets = match secrets::of_provider(client, &provider).await {
        Ok(secrets) => secrets,
        Err(error) => return failed(error),
    };
    let alert = match alert_for(&provider) {
        Ok(alert) => alert,
        Err(why) => return failed(why),
    };
    let options = Options {
        object_level_workload_identity: true,
        ..Options::default()
    };
    let notification = match dispatch(event, &alert, Ok(&provider), &options) {
        Ok(Dispatch::Send(notification)) => notification,
        Ok(Dispatch::Skip(skip)) => return failed(why_not(skip)),
        Err(error) => return failed(error),
    };
    let context = context(env);
    let delivery = match notification.delivery(&alert, &provider, &secrets, &context) {
        Ok(delivery) => delivery,
        Err(error) => return failed(error),
    };
    carry_out(env, delivery).await
}

async fn carry_out(env: &Env, mut delivery: Delivery) -> Trial {
    let deadline = Deadline::after(&env.clock, delivery.connection().timeout);
    let mut requests = Vec::new();
    let outcome = carry(env, &mut delivery, &deadline, &mut |told| {
        requests.push(told)
    })
    .await;
    Trial {
        requests,
        result: match outcome {
            Outcome::Delivered => Ok("delivered"),
            Outcome::Skipped(why) => Ok(why),
            Outcome::Failed(failure) => Err(failure.to_string()),
        },
    }
}

fn context(env: &Env) -> DeliveryContext {
    let mut random = [0; 32];
    for chunk in random.chunks_mut(8) {
        chunk.copy_from_slice(&env.random.next().to_be_bytes()[..chunk.len()]);
    }
    DeliveryContext {
        now: env.clock.now(),
        random,
        host_name: "everflow".to_owned(),
    }
}

/// A notification that an event calls for.
#[derive(Debug, Clone)]
pub struct Due {
    /// `NAMESPACE/NAME` of the Alert.
    pub alert: String,
    /// `NAMESPACE/NAME` of the Provider.
    pub provider: String,
    /// The type of the Provider.
    pub kind: String,
    object: Object<Provider>,
    rule: Object<Alert>,
    notification: Notification,
}

/// What an event of a controller calls for, by these Alerts and Providers.
pub fn due(alerts: &[Value], providers: &[Value], event: &Event, labels: &Value) -> Vec<Due> {
    let seen = crate::alerts::labels(labels);
    let alerts = alerts
        .iter()
        .filter_map(|alert| Object::<Alert>::read(alert).ok());
    let matching = alerts.filter(|alert| {
        let found = Matcher::new(alert).matches(event, Labels::Known(&seen));
        found.is_match
    });
    matching
        .filter_map(|alert| due_by(alert, providers, event))
        .collect()
}

fn due_by(alert: Object<Alert>, providers: &[Value], event: &Event) -> Option<Due> {
    let namespace = alert.metadata.namespace().to_owned();
    let name = alert.spec.provider_ref.name.clone();
    let provider = providers.iter().find(|provider| {
        meta_text(provider, "namespace") == namespace && meta_text(provider, "name") == name
    })?;
    let provider: Object<Provider> = Object::read(provider).ok()?;
    match dispatch(event, &alert, Ok(&provider), &Options::default()) {
        Ok(Dispatch::Send(notification)) => Some(Due {
            alert: name_of(&namespace, &alert.metadata.name),
            provider: name_of(&namespace, &name),
            kind: provider.spec.provider_type.as_str().to_owned(),
            object: provider,
            rule: alert,
            notification: *notification,
        }),
        _ => None,
    }
}

impl Due {
    /// What it says.
    pub fn event(&self) -> &Event {
        &self.notification.combined.event
    }

    async fn delivery(&self, env: &Env, client: &Client) -> Result<Delivery, String> {
        let secrets = secrets::of_provider(client, &self.object).await;
        let secrets = secrets.map_err(|error| error.to_string())?;
        let context = context(env);
        let delivery = self
            .notification
            .delivery(&self.rule, &self.object, &secrets, &context);
        delivery.map_err(|error| error.to_string())
    }

    /// The first request that it takes, without secrets; nothing is sent.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub async fn preview(&self, env: &Env, client: &Client) -> Result<String, String> {
        let mut delivery = self.delivery(env, client).await?;
        match delivery.start() {
            Step::Send(request) => Ok(delivery.shown(&request)),
            Step::Nats(publish) => Ok(format!("NATS subject {}", publish.subject)),
            Step::GithubToken(_) | Step::GoogleToken(_) => Ok("asks for a token first".to_owned()),
            Step::Done(Outcome::Failed(failure)) => Err(failure.to_string()),
            Step::Done(_) => Err("there is nothing to send".to_owned()),
        }
    }

    /// Sends it, once and without retries.
    pub async fn send(&self, env: &Env, client: &Client) -> Trial {
        match self.delivery(env, client).await {
            Ok(delivery) => carry_out(env, delivery).await,
            Err(why) => failed(why),
        }
    }
}
