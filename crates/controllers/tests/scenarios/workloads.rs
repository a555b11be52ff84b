//! Stands in for the controller of Deployments that the recording had: no Pod ever runs.

use std::time::Duration;

use everflow_env::Env;
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Client, Patch, Resource, WriteOptions};

const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");

/// Gives Deployments their status, for ever.
pub async fn run(client: Client, env: Env) {
    let started = env.clock.elapsed();
    loop {
        env.clock.sleep(Duration::from_millis(200)).await;
        let Ok(list) = client
            .list_all(&DEPLOYMENTS, None, &Default::default())
            .await
        else {
            continue;
        };
        for deployment in list.items {
            let wanted = status(&deployment, (env.clock.elapsed() - started).as_secs());
            if deployment["status"] == wanted || deployment["spec"]["paused"] == true {
                continue;
            }
            let by = WriteOptions::by("kube-controller-manager");
            let at = At::of(&deployment).status();
            let patch = Patch::Json(json!([{"op": "add", "path": "/status", "value": wanted}]));
            let _ = client.patch(&DEPLOYMENTS, at, &patch, &by).await;
        }
    }
}

fn status(deployment: &Value, age: u64) -> Value {
    let replicas = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
    let now = "2026-01-01T00:00:00Z";
    let condition = |kind: &str, holds: bool, reason: &str| {
        json!({"type": kind, "status": if holds { "True" } else { "False" }, "reason": reason,
            "message": reason, "lastUpdateTime": now, "lastTransitionTime": now})
    };
    let deadline = deployment["spec"]["progressDeadlineSeconds"].as_u64();
    let late = replicas > 0 && deadline.is_some_and(|deadline| deadline < 60 && age > deadline);
    let progressing = match (replicas, late) {
        (0, _) => condition("Progressing", true, "NewReplicaSetAvailable"),
        (_, false) => condition("Progressing", true, "ReplicaSetUpdated"),
        (_, true) => condition("Progressing", false, "ProgressDeadlineExceeded"),
    };
    let available = match replicas {
        0 => condition("Available", true, "MinimumReplicasAvailable"),
        _ => condition("Available", false, "MinimumReplicasUnavailable"),
    };
    let mut status = json!({
        "observedGeneration": deployment["metadata"]["generation"],
        "conditions": [available, progressing],
    });
    if replicas > 0 {
        for field in ["replicas", "updatedReplicas", "unavailableReplicas"] {
            status[field] = replicas.into();
        }
    }
    status
}
