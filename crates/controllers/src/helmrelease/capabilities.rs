//! What charts are told about the cluster: its version and the kinds that it serves.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use everflow_helm::objects::{Capabilities, KubeVersion};
use everflow_runtime::Error as ClientError;
use http::Method;

use super::attempt::{Attempt, Halt};
use crate::Fingerprint;
use crate::target::Target;

/// How long what a cluster said of itself counts.
const FRESH: Duration = Duration::from_secs(60);
/// Of so many clusters and accounts it is remembered.
const KEPT: usize = 1_024;

/// The versions of clusters.
#[derive(Debug, Default)]
pub(super) struct Clusters {
    known: Mutex<BTreeMap<Fingerprint, (KubeVersion, Duration)>>,
}

impl Clusters {
    fn get(&self, identity: Fingerprint, now: Duration) -> Option<KubeVersion> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (version, since) = known.get(&identity)?;
        (now.saturating_sub(*since) < FRESH).then(|| version.clone())
    }

    fn keep(&self, identity: Fingerprint, version: KubeVersion, now: Duration) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(identity, (version, now));
    }
}

impl Attempt<'_> {
    /// What a chart is told about the cluster. Which kinds there are is asked for charts that look at it only.
    pub(super) async fn capabilities(
        &self,
        target: &Target,
        with_versions: bool,
    ) -> Result<Capabilities, Halt> {
        let mut capabilities = Capabilities {
            kube_version: self.kube_version(target).await?,
            ..Capabilities::default()
        };
        if with_versions {
            capabilities.api_versions = api_versions(target).await?;
        }
        Ok(capabilities)
    }

    async fn kube_version(&self, target: &Target) -> Result<KubeVersion, Halt> {
        let clusters = &self.controller.clusters;
        let now = self.context.env.clock.elapsed();
        if let Some(known) = clusters.get(target.identity, now) {
            return Ok(known);
        }
        let asked = target
            .client
            .ask(Method::GET, "/version", "application/json", None)
            .await;
        let answer = asked.map_err(Halt::unanswered)?;
        let text = answer["gitVersion"].as_str().unwrap_or_default();
        let version = KubeVersion::parse(text).map_err(|error| Halt::Again(error.to_string()))?;
        clusters.keep(target.identity, version.clone(), now);
        Ok(version)
    }
}

async fn api_versions(target: &Target) -> Result<Vec<String>, Halt> {
    let client = &target.client;
    let mut all = Vec::new();
    for version in client.versions().await.map_err(Halt::unanswered)? {
        match client.resources(&version).await {
            Ok(resources) => {
                let kinds = resources
                    .iter()
                    .map(|one| format!("{version}/{}", one.kind));
                all.extend(kinds);
            }
            // An API server behind the API server may be away: Helm goes on without its kinds.
            Err(ClientError::NotFound(_) | ClientError::ServerError(_)) => {}
            Err(error) => return Err(Halt::unanswered(error)),
        }
        all.push(version);
    }
    all.sort();
    all.dedup();
    Ok(all)
}
