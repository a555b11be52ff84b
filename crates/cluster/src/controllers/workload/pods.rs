//! What a node makes of pods.

use everflow_json::{Value, json};

use super::{Behavior, after_delay, phase, set_status};
use crate::controllers::send;
use crate::kinds::meta;
use crate::server_core::ApiServer;

/// The name of the only node there is.
const NODE: &str = "everflow";

/// A new pod is put on the node and comes up later.
pub fn admit(server: &ApiServer, key: &str, pod: &Value) {
    let bound = pod
        .pointer("/spec/nodeName")
        .and_then(Value::as_str)
        .is_some_and(|node| !node.is_empty());
    if bound {
        if phase(pod) == "Pending" && pod.pointer("/status/startTime").is_none() {
            after_delay(server, "/pods", key);
        }
        return;
    }
    let (namespace, name) = (meta::text(pod, "namespace"), meta::text(pod, "name"));
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}});
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
    send(server, "POST", &path, "application/json", &binding);
}

/// A pod that is to go has nothing to wait for.
pub fn finish(server: &ApiServer, pod: &Value) {
    let path = format!(
        "/api/v1/namespaces/{}/pods/{}",
        meta::text(pod, "namespace"),
        meta::text(pod, "name")
    );
    let options =
        json!({"gracePeriodSeconds": 0, "preconditions": {"uid": meta::text(pod, "uid")}});
    send(server, "DELETE", &path, "application/json", &options);
}

fn belongs_to_job(pod: &Value) -> bool {
    super::owner(pod).is_some_and(|(table, _)| table == "batch/jobs")
}

/// The state of every container, and whether it is ready.
fn container_state(behavior: Behavior, job: bool, image: &str, now: &str) -> (Value, bool) {
    let ended = |code: i64, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now, "containerID": "containerd://everflow"}});
    match behavior {
        Behavior::ImagePull => (
            json!({"waiting": {"reason": "ImagePullBackOff", "message": format!("Back-off pulling image \"{image}\"")}}),
            false,
        ),
        Behavior::CrashLoop => (
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}),
            false,
        ),
        Behavior::JobFailed if job => (ended(1, "Error"), false),
        Behavior::Healthy if job => (ended(0, "Completed"), false),
        Behavior::NeverReady => (json!({"running": {"startedAt": now}}), false),
        _ => (json!({"running": {"startedAt": now}}), true),
    }
}

/// The pod has come up, or as far as it ever does.
pub fn come_up(server: &ApiServer, pod: &Value) {
    if matches!(phase(pod), "Succeeded" | "Failed") {
        return;
    }
    let behavior = Behavior::of(pod);
    let job = belongs_to_job(pod);
    let now = server.env().now().rfc3339();
    let mut ready = true;
    let mut states = Vec::new();
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    for container in containers.into_iter().flatten() {
        let text = |key: &str| {
            container
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (state, up) = container_state(behavior, job, text("image"), &now);
        ready &= up;
        let restarts = if behavior == Behavior::CrashLoop {
            5
        } else {
            0
        };
        states.push(json!({
            "name": text("name"), "image": text("image"), "imageID": "", "ready": up, "started": up, "restartCount": restarts, "state": state, "lastState": {}
        }));
    }
    let phase = match behavior {
        Behavior::ImagePull => "Pending",
        Behavior::JobFailed if job => "Failed",
        Behavior::Healthy if job => "Succeeded",
        _ => "Running",
    };
    let condition = |kind: &str, holds: bool| {
        let mut condition = json!({"type": kind, "status": if holds { "True" } else { "False" }, "lastProbeTime": null, "lastTransitionTime": now});
        if !holds {
            let (reason, message) = if phase == "Succeeded" {
                ("PodCompleted", String::new())
            } else {
                let names: Vec<&str> = states
                    .iter()
                    .filter_map(|state| state["name"].as_str())
                    .collect();
                (
                    "ContainersNotReady",
                    format!("containers with unready status: [{}]", names.join(" ")),
                )
            };
            condition["reason"] = reason.into();
            if !message.is_empty() {
                condition["message"] = message.into();
            }
        }
        condition
    };
    let wanted = vec![
        condition("Initialized", true),
        condition("Ready", ready),
        condition("ContainersReady", ready),
        condition("PodScheduled", true),
    ];
    let address = address_of(meta::text(pod, "uid"));
    set_status(
        server,
        "/pods",
        pod,
        json!({
            "phase": phase, "startTime": now, "podIP": address, "podIPs": [{"ip": address}], "hostIP": "192.0.2.10", "hostIPs": [{"ip": "192.0.2.10"}],
            "conditions": super::conditions(pod, wanted), "containerStatuses": states
        }),
    );
}

/// An address of the pod's own, made from its id.
fn address_of(uid: &str) -> String {
    let sum = uid.bytes().fold(0_u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    format!("10.244.{}.{}", (sum >> 8) & 0xff, 1 + (sum & 0xff) % 254)
}
