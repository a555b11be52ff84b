//! One notification on its way to one provider.

use std::sync::Arc;
use std::time::Duration;

use everflow_api::Object;
use everflow_api::notification::Provider;
use everflow_env::Env;
use everflow_fetch::Deadline;
use everflow_notify::alert::Warning;
use everflow_notify::attempt::{Attempt, Next};
use everflow_notify::dispatch::{Dispatch, Notification, Options, dispatch};
use everflow_notify::exchange::Outcome;
use everflow_notify::failure::Retry;
use everflow_notify::provider::DeliveryContext;
use everflow_runtime::client::Client;
use sha2::{Digest as _, Sha256};

use crate::alerts::Prepared;
use crate::carry::carry;
use crate::journal::Entry;
use crate::secrets;

/// However long a Provider's timeout is, an attempt takes no longer.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(600);

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum Delivered {
    /// The provider has it.
    Taken,
    /// There was nothing to send.
    Skipped,
    /// It was not taken.
    Failed {
        /// What the Alert's Event says.
        warning: Warning,
        /// Whether another attempt may succeed.
        again: bool,
    },
    /// It could not be tried: the API server did not give the Secrets.
    NotNow(String),
}

/// What an attempt needs.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    pub(crate) env: Env,
    pub(crate) client: Client,
    pub(crate) options: Options,
    pub(crate) host_name: String,
}

impl Sender {
    /// Attempts to deliver a notification, with the retries that fit into the Provider's timeout.
    pub(crate) async fn deliver(
        &self,
        entry: &Entry,
        alert: &Arc<Prepared>,
        provider: Result<Object<Provider>, String>,
    ) -> Delivered {
        let known = provider.as_ref().map_err(String::as_str);
        let decided = dispatch(&entry.event, &alert.object, known, &self.options);
        match (decided, &provider) {
            (Ok(Dispatch::Send(notification)), Ok(provider)) => {
                self.send(entry, alert, provider, &notification).await
            }
            (Err(error), _) => Delivered::Failed {
                warning: error.warning(&entry.event.involved),
                again: false,
            },
            _ => Delivered::Skipped,
        }
    }

    async fn send(
        &self,
        entry: &Entry,
        alert: &Arc<Prepared>,
        provider: &Object<Provider>,
        notification: &Notification,
    ) -> Delivered {
        let clock = &self.env.clock;
        let object = &entry.event.involved;
        let secrets = match secrets::of_provider(&self.client, provider).await {
            Ok(secrets) => secrets,
            Err(error) => return Delivered::NotNow(error.to_string()),
        };
        let mut attempt: Option<(Attempt, Deadline)> = None;
        loop {
            let context = DeliveryContext {
                now: clock.now(),
                random: stable_random(entry),
                host_name: self.host_name.clone(),
            };
            let delivery = notification.delivery(&alert.object, provider, &secrets, &context);
            let mut delivery = match delivery {
                Ok(delivery) => delivery,
                Err(error) => {
                    return Delivered::Failed {
                        warning: error.warning(object),
                        again: false,
                    };
                }
            };
            let (attempt, deadline) = attempt.get_or_insert_with(|| {
                let timeout = delivery.connection().timeout.min(LONGEST_TIMEOUT);
                (
                    Attempt::new(clock.now(), timeout),
                    Deadline::after(clock, timeout),
                )
            });
            let failure = match carry(&self.env, &mut delivery, deadline, &mut drop).await {
                Outcome::Delivered => return Delivered::Taken,
                Outcome::Skipped(_) => return Delivered::Skipped,
                Outcome::Failed(failure) => failure,
            };
            let now = clock.now();
            match attempt.failed(failure, now) {
                Next::At(then) => clock.sleep(then.since(now).unsigned()).await,
                Next::Over(failure) => {
                    return Delivered::Failed {
                        warning: failure.warning(object),
                        again: failure.retry != Retry::Never,
                    };
                }
            }
        }
    }
}

/// The bytes that ids are made of: the same at each attempt, so that the other side can tell a repetition.
fn stable_random(entry: &Entry) -> [u8; 32] {
    Sha256::new()
        .chain_update(entry.identity)
        .chain_update(entry.alert.as_bytes())
        .chain_update(entry.at.seconds.to_be_bytes())
        .chain_update(entry.at.nanos.to_be_bytes())
        .finalize()
        .into()
}
