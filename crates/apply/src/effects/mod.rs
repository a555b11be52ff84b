//! Applies, prunes and looks at objects through a client.
//!
//! An object that was found as asked for is remembered with the version it had then; as long as a
//! watch says that it still has it, nothing is asked. Else the server says in a dry run what
//! applying would make of it, and only what differs is applied. No object of a stage is written
//! before the server has taken all of them in a dry run, or [`Preflight`] has for new ones:
//! these are written with a version that no object has, which the server takes only where there is
//! no such object yet.

mod applied_cache;
mod causes;
mod prune;
mod stage;

use std::time::Duration;

use everflow_env::BoxFuture;
use everflow_json::Value;
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::{At, Client, Resource};
use everflow_time::Timestamp;
use futures_util::{StreamExt as _, stream};

pub use applied_cache::{AppliedCache, LiveState};
pub use causes::causes;
pub use prune::Pruned;
pub use stage::{Applied, ApplyPlan};

use crate::drift::Ignore;
use crate::health::custom::CustomChecks;
use crate::health::{Assessment, Health};
use crate::inventory::{Entry, Inventory};
use crate::normalize::Owner;
use crate::preflight::Preflight;
use crate::takeover::Takeover;

/// How many requests of one attempt are under way at once. The client has a budget for all.
const CONCURRENCY: usize = 16;

/// Does work at once, up to a bound; results come in the order of the work.
pub async fn run_concurrently<T: Send>(work: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    stream::iter(work).buffered(CONCURRENCY).collect().await
}

/// How objects are applied.
#[derive(Debug, Clone)]
pub struct Applier {
    /// The cluster, in the name of whom it is to be done.
    pub client: Client,
    /// Whose objects they are.
    pub owner: Owner,
    /// Our field manager, and whose fields become ours.
    pub takeover: Takeover,
    /// Whether objects are recreated where a field cannot change.
    pub force: bool,
    /// Fields that are left to others.
    pub ignore: Ignore,
    /// How long an object that is recreated may take to go.
    pub patience: Duration,
    /// What was applied before: none of it is taken for new.
    pub before: Inventory,
    /// What says that new objects can be written without a dry run.
    pub preflight: Preflight,
}

/// What is known of a live object without asking the server.
pub trait Live: Sync {
    /// The metadata of an object.
    fn metadata(&self, resource: &Resource, namespace: &str, name: &str) -> LiveState;
}

/// Nothing is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct Blind;

impl Live for Blind {
    fn metadata(&self, _: &Resource, _: &str, _: &str) -> LiveState {
        LiveState::Unknown
    }
}

impl Applier {
    /// The collection that an object belongs to.
    async fn resource(&self, entry: &Entry) -> Result<Resource, ClientError> {
        let api_version = entry.api_version();
        self.client.resource(&api_version, &entry.id.kind).await
    }

    /// Looks at a live object; `None` when it is not there.
    async fn live(&self, resource: &Resource, entry: &Entry) -> Result<Option<Value>, ClientError> {
        let namespace = match resource.namespaced {
            true => entry.id.namespace.as_str(),
            false => "",
        };
        match self
            .client
            .get(resource, At::new(namespace, &entry.id.name))
            .await
        {
            Ok(live) => Ok(Some(live)),
            Err(ClientError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How healthy an object is, from the server.
    pub async fn health(&self, entry: &Entry, checks: &CustomChecks, now: Timestamp) -> Assessment {
        self.assess(entry, checks, now).await.0
    }

    /// The same with the object, where it is there.
    pub async fn assess(
        &self,
        entry: &Entry,
        checks: &CustomChecks,
        now: Timestamp,
    ) -> (Assessment, Option<Value>) {
        let told = |health, message: String| {
            let assessment = Assessment {
                health,
                reason: String::new(),
                message,
            };
            (assessment, None)
        };
        let resource = match self.resource(entry).await {
            Ok(resource) => resource,
            Err(ClientError::NoKind { kind, .. }) => {
                let group = &entry.id.group;
                let message = format!("no matches for kind {kind:?} in group {group:?}");
                return told(Health::Unknown, message);
            }
            Err(error) => return told(Health::Unknown, error.to_string()),
        };
        match self.live(&resource, entry).await {
            Ok(Some(live)) => (checks.assess(&live, now), Some(live)),
            Ok(None) => told(Health::NotFound, "Resource not found".into()),
            Err(error) => told(Health::Unknown, error.to_string()),
        }
    }

    /// What a watch tells of an object.
    pub async fn seen(&self, entry: &Entry, live: &dyn Live) -> LiveState {
        match self.resource(entry).await {
            Err(_) => LiveState::Unknown,
            Ok(resource) => {
                let namespace = match resource.namespaced {
                    true => entry.id.namespace.as_str(),
                    false => "",
                };
                live.metadata(&resource, namespace, &entry.id.name)
            }
        }
    }

    /// Whether an object of that kind needs a namespace and has none.
    pub async fn lacks_namespace(&self, entry: &Entry) -> bool {
        let resource = self.resource(entry).await;
        entry.id.namespace.is_empty() && resource.is_ok_and(|resource| resource.namespaced)
    }
}
