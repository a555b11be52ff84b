//! A small model of a cluster that runs things: workloads get the status a healthy cluster would give them, or the one a
//! failing cluster would when the annotation `cluster.everflow.dev/behavior` says so (`never-ready`, `job-failed`).

use serde_json::{Value, json};

use super::{path_of, resource_of, send};
use crate::kinds::meta;
use crate::server_core::ApiServer;

/// The annotation that asks for another end than success.
pub const BEHAVIOR: &str = "cluster.everflow.dev/behavior";

fn number(object: &Value, pointer: &str, missing: i64) -> i64 {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or(missing)
}

/// Brings the status of a workload up to date.
pub fn look(server: &ApiServer, table: &str, object: &Value) {
    let behavior = object
        .pointer("/metadata/annotations")
        .and_then(|map| map.get(BEHAVIOR))
        .and_then(Value::as_str)
        .unwrap_or_default();
    let now = server.env().now().rfc3339();
    let Some(status) = wanted(table, object, behavior, &now) else {
        return;
    };
    let same = status
        .as_object()
        .into_iter()
        .flatten()
        .all(|(key, value)| {
            covers(
                object.get("status").and_then(|status| status.get(key)),
                value,
            )
        });
    if same {
        return;
    }
    if let Some(resource) = resource_of(server, table) {
        let path = format!(
            "{}/status",
            path_of(
                &resource,
                meta::text(object, "namespace"),
                meta::text(object, "name")
            )
        );
        send(
            server,
            "PATCH",
            &path,
            "application/merge-patch+json",
            &json!({"status": status}),
        );
    }
}

/// Whether a status already says what is wanted, whatever its times.
fn covers(found: Option<&Value>, wanted: &Value) -> bool {
    match (found, wanted) {
        (Some(Value::Array(found)), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found
                    .iter()
                    .zip(wanted)
                    .all(|(found, wanted)| covers(Some(found), wanted))
        }
        (Some(Value::Object(found)), Value::Object(wanted)) => wanted.iter().all(|(key, value)| {
            key.ends_with("Time") || key.ends_with("At") || covers(found.get(key), value)
        }),
        (found, Value::Null) => found.is_none_or(Value::is_null),
        (None, Value::Number(number)) => number.as_i64() == Some(0),
        (found, wanted) => found == Some(wanted),
    }
}

fn wanted(table: &str, object: &Value, behavior: &str, now: &str) -> Option<Value> {
    let generation = meta::generation(object);
    let replicas = number(object, "/spec/replicas", 1);
    let ready = if behavior == "never-ready" {
        0
    } else {
        replicas
    };
    let nothing = |count: i64| {
        if count == 0 {
            Value::Null
        } else {
            Value::from(count)
        }
    };
    Some(match table {
        "apps/deployments" => {
            let available = if ready >= replicas { "True" } else { "False" };
            let reason = if ready >= replicas {
                "MinimumReplicasAvailable"
            } else {
                "MinimumReplicasUnavailable"
            };
            let message = if ready >= replicas {
                "Deployment has minimum availability."
            } else {
                "Deployment does not have minimum availability."
            };
            let progress = if ready >= replicas {
                "NewReplicaSetAvailable"
            } else {
                "ReplicaSetUpdated"
            };
            json!({
                "observedGeneration": generation, "replicas": nothing(replicas), "updatedReplicas": nothing(replicas), "readyReplicas": nothing(ready), "availableReplicas": nothing(ready),
                "unavailableReplicas": nothing(replicas - ready),
                "conditions": [
                    {"type": "Available", "status": available, "reason": reason, "message": message, "lastUpdateTime": now, "lastTransitionTime": now},
                    {"type": "Progressing", "status": "True", "reason": progress, "message": "ReplicaSet is progressing.", "lastUpdateTime": now, "lastTransitionTime": now}
                ]
            })
        }
        "apps/statefulsets" => json!({
            "observedGeneration": generation, "replicas": replicas, "currentReplicas": nothing(replicas), "updatedReplicas": nothing(replicas), "readyReplicas": nothing(ready), "availableReplicas": ready,
            "currentRevision": format!("{}-{generation}", meta::text(object, "name")), "updateRevision": format!("{}-{generation}", meta::text(object, "name"))
        }),
        "apps/replicasets" | "/replicationcontrollers" => json!({
            "observedGeneration": generation, "replicas": replicas, "fullyLabeledReplicas": nothing(replicas), "readyReplicas": nothing(ready), "availableReplicas": nothing(ready)
        }),
        "apps/daemonsets" => {
            let up = i64::from(behavior != "never-ready");
            json!({"observedGeneration": generation, "desiredNumberScheduled": 1, "currentNumberScheduled": 1, "updatedNumberScheduled": 1, "numberReady": up, "numberAvailable": nothing(up), "numberMisscheduled": 0})
        }
        "batch/jobs" => job(object, behavior, now)?,
        "/pods" => pod(object, behavior, now)?,
        "/persistentvolumeclaims" if behavior != "never-ready" => json!({
            "phase": "Bound", "accessModes": object.pointer("/spec/accessModes").cloned().unwrap_or_default(), "capacity": object.pointer("/spec/resources/requests").cloned().unwrap_or_default()
        }),
        "/services"
            if object.pointer("/spec/type").and_then(Value::as_str) == Some("LoadBalancer")
                && behavior != "never-ready" =>
        {
            json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}})
        }
        "networking.k8s.io/ingresses" if behavior != "never-ready" => {
            json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}]}})
        }
        "policy/poddisruptionbudgets" => {
            json!({"observedGeneration": generation, "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0})
        }
        _ => return None,
    })
}

fn job(object: &Value, behavior: &str, now: &str) -> Option<Value> {
    if object.pointer("/spec/suspend") == Some(&Value::Bool(true))
        || object.pointer("/status/completionTime").is_some()
        || object.pointer("/status/conditions").is_some()
    {
        return None;
    }
    let started = object
        .pointer("/status/startTime")
        .and_then(Value::as_str)
        .unwrap_or(now);
    Some(match behavior {
        "never-ready" => json!({"startTime": started, "active": 1, "ready": 0}),
        "job-failed" => json!({
            "startTime": started, "failed": 1, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {},
            "conditions": [
                {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit", "lastProbeTime": now, "lastTransitionTime": now},
                {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit", "lastProbeTime": now, "lastTransitionTime": now}
            ]
        }),
        _ => json!({
            "startTime": started, "completionTime": now, "succeeded": number(object, "/spec/completions", 1), "ready": 0, "terminating": 0, "uncountedTerminatedPods": {},
            "conditions": [
                {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached", "message": "Reached expected number of succeeded pods", "lastProbeTime": now, "lastTransitionTime": now},
                {"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "Reached expected number of succeeded pods", "lastProbeTime": now, "lastTransitionTime": now}
            ]
        }),
    })
}

fn pod(object: &Value, behavior: &str, now: &str) -> Option<Value> {
    if matches!(
        object.pointer("/status/phase").and_then(Value::as_str),
        Some("Succeeded" | "Failed")
    ) {
        return None;
    }
    let state = match behavior {
        "image-pull" => {
            json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}})
        }
        "crash-loop" => {
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}})
        }
        _ => json!({"running": {"startedAt": now}}),
    };
    let ready = behavior.is_empty();
    let status = if ready { "True" } else { "False" };
    let containers: Vec<Value> = object.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten().map(|container| {
        let text = |key: &str| container.get(key).and_then(Value::as_str).unwrap_or_default();
        json!({"name": text("name"), "image": text("image"), "imageID": "", "ready": ready, "started": ready, "restartCount": 0, "state": state, "lastState": {}})
    }).collect();
    let phase = if matches!(behavior, "image-pull") {
        "Pending"
    } else {
        "Running"
    };
    Some(json!({
        "phase": phase, "startTime": now, "podIP": "198.51.100.1", "podIPs": [{"ip": "198.51.100.1"}], "hostIP": "192.0.2.10", "hostIPs": [{"ip": "192.0.2.10"}],
        "conditions": [
            {"type": "Initialized", "status": "True", "lastProbeTime": null, "lastTransitionTime": now},
            {"type": "Ready", "status": status, "lastProbeTime": null, "lastTransitionTime": now},
            {"type": "ContainersReady", "status": status, "lastProbeTime": null, "lastTransitionTime": now},
            {"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now}
        ],
        "containerStatuses": containers
    }))
}
