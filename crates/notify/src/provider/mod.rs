//! What providers are sent, and what their answers mean.

mod alertmanager;
mod cards;
pub(crate) mod eventhub;
mod generic;
mod incident;
pub mod nats;
mod nkey;
mod observe;
mod otel;
pub mod pubsub;
mod sentry;
mod settings;
mod slack;
mod teams;
pub(crate) mod text;
mod webhook;

use everflow_api::Object;
use everflow_api::notification::{Alert, ProviderType};
use everflow_time::Timestamp;

use crate::exchange::{Connection, Exchange, Outcome, Reply, Request, Step};
use crate::failure::Stage;
use crate::{Error, Event, Mask, git};

pub use settings::{Lookup, Secrets, Settings, secret_names};
pub(crate) use settings::{as_value, is_git};

/// The Alert that a delivery is for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AlertName {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// Its unique id.
    pub(crate) uid: String,
}

impl AlertName {
    /// That of an Alert.
    pub(crate) fn of(alert: &Object<Alert>) -> Self {
        let metadata = &alert.metadata;
        AlertName {
            namespace: metadata.namespace().to_owned(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone().unwrap_or_default(),
        }
    }
}

/// What a delivery needs of the world beside its settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryContext {
    /// Now.
    pub now: Timestamp,
    /// Random bytes, for ids.
    pub random: [u8; 32],
    /// The name of this machine.
    pub host_name: String,
}

/// What is delivered, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outgoing<'o> {
    pub(crate) event: &'o Event,
    pub(crate) alert: &'o AlertName,
    /// The name of the status of a commit.
    pub(crate) commit_status: &'o str,
    pub(crate) context: &'o DeliveryContext,
}

/// One event on its way to one provider.
pub struct Delivery {
    exchange: Box<dyn Exchange>,
    provider: String,
    connection: Connection,
    mask: Mask,
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Delivery(to {})", self.provider)
    }
}

impl Delivery {
    pub(crate) fn new(settings: &Settings, outgoing: &Outgoing<'_>) -> Result<Self, Error> {
        let exchange = exchange(settings, outgoing).map_err(|why| Error::Settings {
            provider: settings.name.clone(),
            why: format!(
                "failed to initialize notifier: {}",
                settings.mask.apply(&why)
            ),
        })?;
        Ok(Delivery {
            exchange,
            provider: settings.name.clone(),
            connection: settings.connection(),
            mask: settings.mask.clone(),
        })
    }

    /// How the provider is reached.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// `METHOD ADDRESS` of a request of this delivery, without secrets.
    pub fn shown(&self, request: &Request) -> String {
        self.mask.apply(&request.shown())
    }

    /// The first thing to do.
    pub fn start(&mut self) -> Step {
        let step = self.exchange.start();
        self.finish(step)
    }

    /// What to do after a reply to the last step.
    pub fn next(&mut self, reply: Reply) -> Step {
        if let Reply::Token { token, .. } = &reply {
            self.mask.hide([token.reveal().clone()]);
        }
        let step = self.exchange.next(reply);
        self.finish(step)
    }

    /// Takes secrets out of messages, and says which Provider it was about.
    fn finish(&mut self, step: Step) -> Step {
        if let Step::Send(request) = &step {
            self.mask.hide(request.secrets());
        }
        let Step::Done(Outcome::Failed(mut failure)) = step else {
            return step;
        };
        if failure.stage == Stage::Prepare {
            failure.context = format!(
                "failed to initialize notifier for provider '{}': failed to initialize notifier: {}",
                self.provider, failure.context
            );
        }
        failure.context = self.mask.apply(&failure.context);
        failure.cause = self.mask.apply(&failure.cause);
        failure.request = self.mask.apply(&failure.request);
        Step::Done(Outcome::Failed(failure))
    }
}

fn exchange(settings: &Settings, outgoing: &Outgoing<'_>) -> Result<Box<dyn Exchange>, String> {
    use ProviderType as Kind;
    let event = outgoing.event;
    match settings.kind {
        Kind::Generic => generic::forward(settings, event),
        Kind::GenericHmac => generic::forward_signed(settings, event),
        Kind::Slack => slack::slack(settings, event),
        Kind::Discord => slack::discord(settings, event),
        Kind::Rocket => slack::rocket(settings, event),
        Kind::MsTeams => teams::teams(settings, event),
        Kind::GoogleChat => cards::google_chat(settings, event),
        Kind::Lark => cards::lark(settings, event),
        Kind::Zoom => cards::zoom(settings, event),
        Kind::Webex => text::webex(settings, event),
        Kind::Telegram => text::telegram(settings, event),
        Kind::Matrix => text::matrix(settings, event),
        Kind::Zulip => text::zulip(settings, event),
        Kind::Alertmanager => alertmanager::alertmanager(settings, event),
        Kind::Opsgenie => incident::opsgenie(settings, event),
        Kind::PagerDuty => incident::pagerduty(settings, event),
        Kind::IncidentIo => incident::incident_io(settings, event),
        Kind::Grafana => observe::grafana(settings, event),
        Kind::Datadog => observe::datadog(settings, event),
        Kind::Sentry => sentry::sentry(settings, outgoing),
        Kind::Otel => otel::otel(settings, outgoing),
        Kind::Nats => nats::nats(settings, event),
        Kind::GooglePubSub => pubsub::pubsub(settings, event),
        Kind::AzureEventHub => eventhub::event_hub(settings, outgoing),
        Kind::GitHub
        | Kind::GitLab
        | Kind::Gitea
        | Kind::Bitbucket
        | Kind::BitbucketServer
        | Kind::AzureDevOps
        | Kind::GitHubDispatch
        | Kind::GitHubPullRequestComment
        | Kind::GitLabMergeRequestComment
        | Kind::GiteaPullRequestComment => git::exchange(settings, outgoing),
    }
}

/// What is said where the identity of a cloud would be needed.
pub(crate) fn without_identity(service: &'static str) -> String {
    Error::IdentityUnavailable { service }.to_string()
}

pub(crate) fn bearer(request: Request, token: &str) -> Result<Request, String> {
    request.secret_header("authorization", &format!("Bearer {token}"))
}

pub(crate) fn basic(request: Request, user: &str, password: &str) -> Result<Request, String> {
    use base64::Engine as _;
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    request.secret_header("authorization", &format!("Basic {pair}"))
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A path with one more segment, without doubled slashes and dots.
fn join_path(path: &str, segment: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for part in path.split('/').chain([segment]) {
        match part {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            part => segments.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", segments.join("/"))
}
