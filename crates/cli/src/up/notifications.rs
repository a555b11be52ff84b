//! `everflow up --notifications`: what the Alerts of a repository would have sent.

use everflow_dispatch::resources::{ALERTS, PROVIDERS};
use everflow_dispatch::{Due, due, event_of};
use everflow_env::{Env, RealDisk};
use everflow_local::world::World;
use everflow_notify::dedup::{Deduplicator, Key};
use everflow_runtime::client::{Client, Resource, Selection};
use everflow_runtime::events::CollectingSink;
use everflow_time::Duration;

use crate::exit::Failure;
use crate::output::print_text;

async fn all(client: &Client, resource: &Resource) -> Result<Vec<everflow_json::Value>, Failure> {
    let listed = client.list_all(resource, None, &Selection::default()).await;
    Ok(listed
        .map_err(|error| Failure::Work(error.to_string()))?
        .items)
}

/// The same news is told once in this time, as by the controllers.
const INTERVAL: Duration = Duration::from_seconds(300);
const REMEMBERED: usize = 100_000;

/// What the controllers have told, and what of it was shown.
#[derive(Debug)]
pub(super) struct Notifications {
    notices: CollectingSink,
    is_sent: bool,
    shown: Deduplicator,
}

impl Notifications {
    /// Of the events in a sink; they are sent, or only printed.
    pub(super) fn new(notices: &CollectingSink, is_sent: bool) -> Self {
        Notifications {
            notices: notices.clone(),
            is_sent,
            shown: Deduplicator::new(INTERVAL, REMEMBERED),
        }
    }

    /// Prints what would be sent of the news, or sends it and prints what was answered.
    pub(super) async fn show(&mut self, world: &World) -> Result<(), Failure> {
        let client = world.client();
        let (alerts, providers) = (all(client, &ALERTS).await?, all(client, &PROVIDERS).await?);
        let env = Env::system(RealDisk::new(&std::env::temp_dir())?);
        let mut count = 0;
        for notice in self.notices.drain() {
            let (mut event, labels) = event_of(notice, "everflow");
            event.clean();
            if !self.shown.take(Key::of(&event), env.clock.now()).is_new {
                continue;
            }
            event.drop_token();
            for due in due(&alerts, &providers, &event, &labels) {
                count += 1;
                let outcome = match self.is_sent {
                    true => sent(&due, &env, client).await,
                    false => due.preview(&env, client).await.unwrap_or_else(|why| why),
                };
                print_text(&line(&due, &outcome))?;
            }
        }
        let verb = if self.is_sent {
            "sent"
        } else {
            "would be sent"
        };
        print_text(&format!("{count} notifications {verb}\n"))
    }
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
