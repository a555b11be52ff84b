//! Waiting until what was bootstrapped runs.

use std::time::{Duration, Instant};

use everflow_api::names::annotation;
use everflow_apply::health::{Health, assess};
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Patch, Resource, WriteOptions, meta_text};

use super::work;
use crate::exit::Failure;
use crate::flux::connection::Session;
use crate::flux::suspend::MANAGER;
use crate::flux::{kinds, readiness, say};

pub static DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");
/// How often a Deployment is looked at.
const PAUSE: Duration = Duration::from_millis(500);

/// Waits until the source and the Kustomization of a bootstrap are at a revision.
pub async fn until_reconciled(
    session: &Session,
    namespace: &str,
    revision: &str,
    timeout: Duration,
) -> Result<(), Failure> {
    for name in ["GitRepository", "Kustomization"] {
        until_at(session, name, namespace, revision, timeout).await?;
    }
    Ok(())
}

/// Waits until the object of a kind that is called like its namespace is at a revision.
pub async fn until_at(
    session: &Session,
    name: &str,
    namespace: &str,
    revision: &str,
    timeout: Duration,
) -> Result<(), Failure> {
    let at = At::new(namespace, namespace);
    let kind = kinds::required(name)?;
    say::waiting(&format!(
        "waiting for {name} \"{namespace}/{namespace}\" to be reconciled"
    ));
    let is_there = move |object: &Value| match name {
        "GitRepository" => object["status"]["artifact"]["revision"] == revision,
        _ => object["status"]["lastAppliedRevision"] == revision,
    };
    let live = session.client.get(&kind.resource, at).await;
    let live = live.map_err(|error| work(session.told(kind, &error)))?;
    if !is_there(&live) {
        // Its interval would be waited for otherwise.
        let now = session.clock.now().rfc3339_micro();
        let asked = json!({"metadata": {"annotations": {annotation::REQUESTED_AT: now}}});
        let (patch, by) = (Patch::Merge(asked), WriteOptions::by(MANAGER));
        let written = session.client.patch(&kind.resource, at, &patch, &by).await;
        written.map_err(|error| work(session.told(kind, &error)))?;
    }
    let waited = readiness::wait(session, kind, at, timeout, is_there).await;
    waited.map_err(|why| {
        work(format!(
            "{name} \"{namespace}/{namespace}\" is not ready at revision {revision}: {why}; \
             it is tried on in the cluster: see everflow get all, or run this again"
        ))
    })?;
    say::success(&format!("{name} reconciled successfully"));
    Ok(())
}

/// Waits until Deployments run.
pub async fn until_deployed(
    session: &Session,
    deployments: &[(String, String)],
    timeout: Duration,
) -> Result<(), Failure> {
    let end = Instant::now() + timeout;
    for (namespace, name) in deployments {
        loop {
            let live = session.client.get(&DEPLOYMENTS, At::new(namespace, name));
            let live = live.await.map_err(|error| work(session.told_of(&error)))?;
            let standing = assess(&live, session.clock.now());
            if standing.health == Health::Current {
                say::success(&format!("{name}: deployment ready"));
                break;
            }
            if standing.health == Health::Failed || Instant::now() + PAUSE > end {
                return Err(work(format!(
                    "{name}: {}; kubectl -n {namespace} describe deployment {name} says more",
                    standing.message
                )));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// Namespaces and names of the Deployments among objects.
pub fn deployments_of(objects: &[Value]) -> Vec<(String, String)> {
    let all = objects
        .iter()
        .filter(|object| object["kind"] == "Deployment");
    all.map(|object| {
        let text = |field| meta_text(object, field).to_owned();
        (text("namespace"), text("name"))
    })
    .collect()
}
