//! One message to one Provider, now: to find out whether it is set up as it should be.

use everflow_api::Object;
use everflow_api::notification::{Alert, Provider};
use everflow_env::Env;
use everflow_fetch::Deadline;
use everflow_json::{Value, json};
use everflow_notify::Event;
use everflow_notify::dispatch::{Dispatch, Options, Skip, dispatch};
use everflow_notify::exchange::{Outcome, Step};
use everflow_notify::provider::{DeliveryContext, Secrets};
use everflow_runtime::client::Client;

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
    let mut delivery = match notification.delivery(&alert, &provider, &secrets, &context) {
        Ok(delivery) => delivery,
        Err(error) => return failed(error),
    };
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

/// The first request that an event would be told a Provider by, without secrets; nothing is sent, and no Secret is read.
pub fn preview(
    env: &Env,
    alert: &Value,
    provider: &Value,
    event: &Event,
) -> Result<String, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let alert: Object<Alert> = Object::read(alert).map_err(|error| text(&error))?;
    let provider: Object<Provider> = Object::read(provider).map_err(|error| text(&error))?;
    let decided = dispatch(event, &alert, Ok(&provider), &Options::default());
    let notification = match decided.map_err(|error| text(&error))? {
        Dispatch::Send(notification) => notification,
        Dispatch::Skip(skip) => return Err(why_not(skip).to_owned()),
    };
    let delivery = notification.delivery(&alert, &provider, &Secrets::default(), &context(env));
    match delivery.map_err(|error| text(&error))?.start() {
        Step::Send(request) => Ok(request.shown()),
        Step::Nats(publish) => Ok(format!("NATS {}", publish.subject)),
        Step::GithubToken(_) | Step::GoogleToken(_) => Ok("a token is asked for first".to_owned()),
        Step::Done(Outcome::Failed(failure)) => Err(failure.to_string()),
        Step::Done(_) => Err("there is nothing to send".to_owned()),
    }
}
