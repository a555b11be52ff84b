//! `everflow up --notifications`: what the Alerts of a repository would have sent.

use std::collections::BTreeSet;

use everflow_dispatch::resources::{ALERTS, PROVIDERS};
use everflow_dispatch::{Due, due, event_of};
use everflow_env::{Env, RealDisk};
use everflow_local::world::World;
use everflow_notify::dedup::Key;
use everflow_runtime::client::{Client, Resource, Selection};
use everflow_runtime::events::CollectingSink;

use crate::exit::Failure;
use crate::output::print_text;

async fn all(client: &Client, resource: &Resource) -> Result<Vec<everflow_json::Value>, Failure> {
    let listed = client.list_all(resource, None, &Selection::default()).await;
    Ok(listed
        .map_err(|error| Failure::Work(error.to_string()))?
        .items)
}

/// Prints what would be sent, or sends it and prints what was answered.
pub(super) async fn show(
    world: &World,
    notices: &CollectingSink,
    is_sent: bool,
) -> Result<(), Failure> {
    let client = world.client();
    let (alerts, providers) = (all(client, &ALERTS).await?, all(client, &PROVIDERS).await?);
    let env = Env::system(RealDisk::new(&std::env::temp_dir())?);
    let mut told = BTreeSet::new();
    let mut count = 0;
    for notice in notices.drain() {
        let (mut event, labels) = event_of(notice, "everflow");
        event.clean();
        if !told.insert(Key::of(&event)) {
            continue;
        }
        event.drop_token();
        for due in due(&alerts, &providers, &event, &labels) {
            count += 1;
            let outcome = match is_sent {
                true => sent(&due, &env, client).await,
                false => due.preview(&env, client).await.unwrap_or_else(|why| why),
            };
            print_text(&line(&due, &outcome))?;
        }
    }
    let verb = if is_sent { "sent" } else { "would be sent" };
    print_text(&format!("{count} notifications {verb}\n"))
}

async fn sent(due: &Due, env: &Env, client: &Client) -> String {
    let trial = due.send(env, client).await;
    let mut told = trial.requests;
    told.push(trial.result.map_or_else(|why| why, str::to_owned));
    told.join("; ")
}

fn line(due: &Due, outcome: &str) -> String {
    let (event, object) = (due.event(), &due.event().involved);
    let message = event.message.lines().next().unwrap_or_default();
    format!(
        "► {} {} (Alert {}): {} {}/{} {}: {message}\n    {outcome}\n",
        due.kind, due.provider, due.alert, event.severity, object.kind, object.name, event.reason,
    )
}
