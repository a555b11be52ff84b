//! Reads what a cluster has that judges new objects.

use everflow_env::BoxFuture;
use everflow_json::Value;
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::{Client, Resource, Selection};
use http::Method;

use super::rules::ClusterRules;
use crate::effects::run_concurrently;

const GROUP: &str = "admissionregistration.k8s.io";

/// The versions that a kind of the group may be served in: what is newest counts.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// The kinds that judge objects of the whole cluster, then those of one namespace.
pub(super) const KINDS: [&str; 6] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "MutatingAdmissionPolicy",
    "ResourceQuota",
    "LimitRange",
];

const RESOURCE_QUOTAS: Resource = Resource::namespaced("", "v1", "resourcequotas", "ResourceQuota");
const LIMIT_RANGES: Resource = Resource::namespaced("", "v1", "limitranges", "LimitRange");

/// What judges new objects in the cluster of a client.
///
/// # Errors
/// Something of it cannot be read: then nothing is known.
pub(super) async fn cluster_rules(client: &Client) -> Result<ClusterRules, ClientError> {
    let mut rules = ClusterRules::default();
    let version = client.ask(Method::GET, "/version", "application/json", None);
    let known = everflow_schema::builtin().kubernetes_version();
    rules.note_version(&version.await?, known);
    let resources = resources(client).await?;
    let mut work: Vec<BoxFuture<'_, Result<Vec<Value>, ClientError>>> = Vec::new();
    for resource in &resources {
        work.push(Box::pin(async move {
            let all = Selection::default();
            Ok(client.list_all(resource, None, &all).await?.items)
        }));
    }
    let listed = run_concurrently(work).await;
    for (resource, objects) in resources.iter().zip(listed) {
        for object in objects? {
            rules.note(&resource.kind, &object);
        }
    }
    Ok(rules)
}

/// The collections of what judges objects; kinds that the server does not serve have none.
async fn resources(client: &Client) -> Result<Vec<Resource>, ClientError> {
    let mut found = vec![RESOURCE_QUOTAS, LIMIT_RANGES];
    let has = |found: &[Resource], kind: &str| found.iter().any(|known| *known.kind == *kind);
    for version in VERSIONS {
        if KINDS.iter().all(|kind| has(&found, kind)) {
            break;
        }
        let served = match client.resources(&format!("{GROUP}/{version}")).await {
            Ok(served) => served,
            Err(ClientError::NotFound(_)) => continue,
            Err(error) => return Err(error),
        };
        for resource in served.iter() {
            if KINDS.contains(&&*resource.kind) && !has(&found, &resource.kind) {
                found.push(resource.clone());
            }
        }
    }
    Ok(found)
}
