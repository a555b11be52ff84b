//! Leases of pods that are gone for certain: nobody waits for these to run out.

use everflow_json::Value;
use everflow_runtime::Error;
use everflow_runtime::client::{At, Client, Resource, WriteOptions};
use everflow_runtime::lease::LEASES;

use crate::flux::say;

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
const NODES: Resource = Resource::cluster("", "v1", "nodes", "Node");
/// The letters of the parts that Kubernetes makes up in the names of pods.
const MADE_UP: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Releases those of these Leases whose holder is a pod that is gone. What cannot be seen is waited for.
pub(super) async fn free(client: &Client, leases: &[(String, String)]) {
    let mut told: Vec<String> = Vec::new();
    for (namespace, name) in leases {
        let at = At::new(namespace, name);
        let Ok(lease) = client.get(&LEASES, at).await else {
            continue;
        };
        let Some(pod) = lease["spec"]["holderIdentity"].as_str().and_then(pod_of) else {
            continue;
        };
        let pod = pod.to_owned();
        let Some(why) = why_gone(client, namespace, &pod).await else {
            continue;
        };
        // On top of what was read: a holder that still renews it keeps it.
        if client
            .update(
                &LEASES,
                at,
                &released(lease),
                &WriteOptions::by("everflow-rescue"),
            )
            .await
            .is_ok()
            && !told.contains(&pod)
        {
            say::plain(&format!("  {pod} is gone: {why}"));
            told.push(pod);
        }
    }
}

/// The pod of a holder, where its name is one that a Deployment's pods have: a name of its own, a hash and five letters.
/// Programs that run elsewhere hold leases by the name of their machine.
fn pod_of(holder: &str) -> Option<&str> {
    let (pod, _) = holder.rsplit_once('_')?;
    let mut parts = pod.rsplitn(3, '-');
    let (letters, hash, name) = (parts.next()?, parts.next()?, parts.next()?);
    let is_made_up = |text: &str| text.chars().all(|letter| MADE_UP.contains(letter));
    let fits = letters.len() == 5 && (5..=10).contains(&hash.len()) && !name.is_empty();
    (fits && is_made_up(letters) && is_made_up(hash)).then_some(pod)
}

/// Why a pod cannot be at work any more, if that is certain.
async fn why_gone(client: &Client, namespace: &str, pod: &str) -> Option<String> {
    let found = match client.get(&PODS, At::new(namespace, pod)).await {
        Ok(found) => found,
        Err(Error::NotFound(_)) => return Some("there is no such pod".to_owned()),
        Err(_) => return None,
    };
    let phase = found["status"]["phase"].as_str().unwrap_or_default();
    if matches!(phase, "Succeeded" | "Failed") {
        return Some(format!("its pod has ended ({phase})"));
    }
    let node = found["spec"]["nodeName"].as_str()?;
    let gone = client.get(&NODES, At::new("", node)).await;
    matches!(gone, Err(Error::NotFound(_)))
        .then(|| format!("its node {node} does not exist any more"))
}

fn released(mut lease: Value) -> Value {
    lease["spec"]["holderIdentity"] = "".into();
    lease["spec"]["leaseDurationSeconds"] = 1.into();
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holder_is_a_pod_only_by_a_name_that_a_deployment_gives() {
        for (holder, pod) in [
            (
                "everflow-7d9f8b6c5-x2x4z_0f12",
                Some("everflow-7d9f8b6c5-x2x4z"),
            ),
            (
                "source-controller-5c6b8-bcdfg_9a",
                Some("source-controller-5c6b8-bcdfg"),
            ),
            ("laptop_0f12", None),
            ("prod-worker-2_0f12", None),
            ("my-build-agent_0f12", None),
            ("-7d9f8b6c5-x2x4z_0", None),
            ("everflow-7d9f8b6c5-x2x4z", None),
            ("everflow-8-shards", None),
            ("", None),
        ] {
            assert_eq!(pod_of(holder), pod, "{holder}");
        }
    }
}
