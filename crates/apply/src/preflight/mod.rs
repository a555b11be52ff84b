//! How new objects are checked before a stage is written: by a dry run on the server, or here.
//!
//! A local check knows the rules of the built-in kinds. It says nothing of what a cluster has beside them: webhooks,
//! admission policies, quotas, a newer Kubernetes. [`PreflightChoice::Auto`] looks which of these there are and asks the
//! server wherever one of them could judge otherwise. What a cluster has is looked at again after a while only: the
//! write itself is judged by all of it in any case, so an answer that is out of date costs no more than a stage of
//! which a part is written before the rest is refused.

mod read;
mod rules;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everflow_json::Value;
use everflow_runtime::client::{Client, Resource};
use everflow_runtime::log::Logger;
use everflow_runtime::metrics::Metrics;

pub use rules::ClusterRules;

/// How long what a cluster has counts, and how long it counts that this could not be read.
const FRESH: Duration = Duration::from_secs(60);
const UNREADABLE: Duration = Duration::from_secs(10);

/// Counts new objects by who checked them and why.
const METRIC: &str = "everflow_preflight_checks_total";

/// Whether the server would take a new object, without asking it.
pub trait LocalAdmission: Send + Sync + fmt::Debug {
    /// Whether the server would take a new object. False means unknown: the server is asked.
    fn admits(&self, resource: &Resource, object: &Value) -> bool;
}

/// Who checks new objects before they are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PreflightChoice {
    /// The server wherever something in the cluster could judge otherwise, else the local check.
    #[default]
    Auto,
    /// Always the server, in a dry run.
    Server,
    /// The local check, whatever the cluster has.
    Local,
}

impl FromStr for PreflightChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(PreflightChoice::Auto),
            "server" => Ok(PreflightChoice::Server),
            "local" => Ok(PreflightChoice::Local),
            _ => Err("it is auto, server or local".to_owned()),
        }
    }
}

impl fmt::Display for PreflightChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PreflightChoice::Auto => "auto",
            PreflightChoice::Server => "server",
            PreflightChoice::Local => "local",
        })
    }
}

/// Why the server is asked about a new object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It is to be asked always.
    Chosen,
    /// Another account applies, whose rights only the server knows.
    Account,
    /// The object goes to another cluster.
    RemoteCluster,
    /// A webhook is called for such objects.
    Webhook,
    /// An admission policy matches such objects.
    Policy,
    /// The namespace has a ResourceQuota.
    Quota,
    /// The namespace has a LimitRange.
    LimitRange,
    /// The server is of a newer release than the rules here.
    NewerKubernetes,
    /// What the cluster has could not be read.
    Unknown,
    /// The local check does not know that the object would be taken.
    NotAdmitted,
}

impl Reason {
    /// The reason as metrics and the log have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Chosen => "chosen",
            Reason::Account => "account",
            Reason::RemoteCluster => "remote-cluster",
            Reason::Webhook => "webhook",
            Reason::Policy => "admission-policy",
            Reason::Quota => "resource-quota",
            Reason::LimitRange => "limit-range",
            Reason::NewerKubernetes => "newer-kubernetes",
            Reason::Unknown => "unknown",
            Reason::NotAdmitted => "not-admitted",
        }
    }
}

/// Checks new objects of one cluster. Clones share what they know of it.
#[derive(Debug, Clone)]
pub struct Preflight {
    shared: Arc<Shared>,
    /// Why the server is asked about everything.
    server_only: Option<Reason>,
}

#[derive(Debug)]
struct Shared {
    choice: PreflightChoice,
    local: Arc<dyn LocalAdmission>,
    known: tokio::sync::Mutex<Option<Known>>,
    /// The reasons that the log has had.
    logged: Mutex<BTreeSet<Reason>>,
    metrics: Metrics,
    log: Logger,
}

/// What a cluster has, and until when that counts.
#[derive(Debug)]
struct Known {
    rules: Arc<ClusterRules>,
    until: Duration,
}

/// Nothing is known to be taken.
#[derive(Debug)]
struct Nothing;

impl LocalAdmission for Nothing {
    fn admits(&self, _: &Resource, _: &Value) -> bool {
        false
    }
}

impl Preflight {
    /// Checks as chosen; without a local check the server is asked about everything.
    pub fn new(
        choice: PreflightChoice,
        local: Option<Arc<dyn LocalAdmission>>,
        metrics: &Metrics,
        log: &Logger,
    ) -> Self {
        let nothing_local = local.is_none() || choice == PreflightChoice::Server;
        Preflight {
            shared: Arc::new(Shared {
                choice,
                local: local.unwrap_or_else(|| Arc::new(Nothing)),
                known: tokio::sync::Mutex::default(),
                logged: Mutex::default(),
                metrics: metrics.clone(),
                log: log.named("preflight"),
            }),
            server_only: nothing_local.then_some(Reason::Chosen),
        }
    }

    /// The same, but the server is asked about everything.
    #[must_use]
    pub fn on_server(&self, reason: Reason) -> Self {
        Preflight {
            shared: self.shared.clone(),
            server_only: self.server_only.or(Some(reason)),
        }
    }

    /// Whether the server would take a new object, as far as that can be said without a dry run. False means unknown:
    /// the server is asked.
    pub async fn admits(&self, client: &Client, resource: &Resource, object: &Value) -> bool {
        let reason = self.asks_server(client, resource, object).await;
        let (by, why) = match reason {
            None => ("local", "no-objection"),
            Some(reason) => ("server", reason.as_str()),
        };
        let labels = [("by", by), ("reason", why)];
        self.shared.metrics.count(METRIC, &labels);
        reason.is_none()
    }

    async fn asks_server(
        &self,
        client: &Client,
        resource: &Resource,
        object: &Value,
    ) -> Option<Reason> {
        if let Some(reason) = self.server_only {
            return Some(reason);
        }
        // The local check is the cheaper one to ask first: it needs no request.
        if !self.shared.local.admits(resource, object) {
            return Some(Reason::NotAdmitted);
        }
        if self.shared.choice == PreflightChoice::Local {
            return None;
        }
        let rules = self.rules(client).await;
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let (reason, shown) = rules.asks_server(resource, namespace)?;
        self.log_once(reason, shown, resource);
        Some(reason)
    }

    /// What the cluster has. Those who ask meanwhile wait for the same answer.
    async fn rules(&self, client: &Client) -> Arc<ClusterRules> {
        let mut known = self.shared.known.lock().await;
        let now = client.clock().elapsed();
        if let Some(known) = known.as_ref().filter(|known| now < known.until) {
            return known.rules.clone();
        }
        let (rules, fresh) = match read::cluster_rules(client).await {
            Ok(rules) => (rules, FRESH),
            Err(error) => (ClusterRules::unknown(error.to_string()), UNREADABLE),
        };
        let rules = Arc::new(rules);
        *known = Some(Known {
            rules: rules.clone(),
            until: client.clock().elapsed() + fresh,
        });
        rules
    }

    /// Something was written. Where it judges others, what the cluster has is looked at anew.
    pub(crate) async fn note_written(&self, kind: &str) {
        if read::KINDS.contains(&kind) {
            *self.shared.known.lock().await = None;
        }
    }

    fn log_once(&self, reason: Reason, shown: &str, resource: &Resource) {
        let logged = self.shared.logged.lock();
        let mut logged = logged.unwrap_or_else(PoisonError::into_inner);
        if logged.insert(reason) {
            let fields = [
                ("reason", reason.as_str()),
                ("because", shown),
                ("resource", &*resource.plural),
            ];
            let message = "new objects are tried in a dry run on the server before they are written; logged once for \
                           each reason, --preflight chooses";
            self.shared.log.info(message, &fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preflight_choice_round_trips_as_text() {
        for choice in [
            PreflightChoice::Auto,
            PreflightChoice::Server,
            PreflightChoice::Local,
        ] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        assert!("Auto".parse::<PreflightChoice>().is_err());
    }
}
