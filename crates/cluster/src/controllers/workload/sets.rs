//! ReplicaSets, StatefulSets and DaemonSets: pods by number.

use everflow_json::{Value, json};

use super::refused::{conditions_of, create_pod};
use super::{
    controlled, count, create, delete, is_ready, number, phase, pod_of, set_status, template_hash,
};
use crate::kinds::meta;
use crate::server_core::ApiServer;

/// How many pods there are of a set, are ready, and how many of the new template are there and ready.
struct Counts {
    all: i64,
    ready: i64,
}

fn living(server: &ApiServer, owner: &Value) -> Vec<Value> {
    controlled(server, "/pods", owner)
        .into_iter()
        .filter(|pod| !meta::is_terminating(pod) && !matches!(phase(pod), "Succeeded" | "Failed"))
        .collect()
}

fn counts(pods: &[Value]) -> Counts {
    Counts {
        all: pods.len() as i64,
        ready: pods.iter().filter(|pod| is_ready(pod)).count() as i64,
    }
}

/// Pods without names of their own: as many as wanted.
pub fn sync_replicas(server: &ApiServer, table: &str, set: &Value) {
    if meta::is_terminating(set) {
        return;
    }
    let wanted = number(set, "/spec/replicas", 1);
    let pods = living(server, set);
    let mut refused = None;
    for _ in pods.len() as i64..wanted {
        refused = create_pod(server, table, set, &pod_of(set, Value::Null, &[]));
        if refused.is_some() {
            break;
        }
    }
    // Those that are not ready go first.
    let mut surplus: Vec<&Value> = pods.iter().collect();
    surplus.sort_by_key(|pod| is_ready(pod));
    for pod in surplus
        .iter()
        .take((pods.len() as i64 - wanted).max(0) as usize)
    {
        delete(server, "/pods", pod);
    }
    let now = counts(&living(server, set));
    // Creating pods may have brought this set up to date already.
    let (namespace, name) = (meta::text(set, "namespace"), meta::text(set, "name"));
    let Some(current) = server.store().get(table, &format!("{namespace}/{name}")) else {
        return;
    };
    set_status(
        server,
        table,
        &current.value,
        json!({
            "observedGeneration": meta::generation(&current.value), "replicas": now.all, "fullyLabeledReplicas": count(now.all),
            "readyReplicas": count(now.ready), "availableReplicas": count(now.ready),
            "conditions": conditions_of(server, &current.value, refused)
        }),
    );
}

/// Pods with names of their own, one after the other unless all may start at once.
pub fn sync_stateful(server: &ApiServer, set: &Value) {
    let name = meta::text(set, "name");
    let wanted = number(set, "/spec/replicas", 1);
    let start = number(set, "/spec/ordinals/start", 0);
    let parallel = set
        .pointer("/spec/podManagementPolicy")
        .and_then(Value::as_str)
        == Some("Parallel");
    let revision = format!("{name}-{}", template_hash(&set["spec"]["template"]));
    let is_new =
        |pod: &Value| pod["metadata"]["labels"]["controller-revision-hash"] == revision.as_str();
    let pods = living(server, set);
    let by_name = |pod_name: &str| pods.iter().find(|pod| meta::text(pod, "name") == pod_name);
    for index in start..start + wanted {
        let pod_name = format!("{name}-{index}");
        match by_name(&pod_name) {
            Some(pod) if !is_new(pod) => {
                // Made again from the new template once it is gone.
                delete(server, "/pods", pod);
                break;
            }
            Some(pod) if is_ready(pod) || parallel => continue,
            Some(_) => break,
            None => {
                claims(server, set, index);
                let pod = pod_of_stateful(set, &pod_name, &revision, index);
                let refused = create_pod(server, "apps/statefulsets", set, &pod);
                if !parallel || refused.is_some() {
                    break;
                }
            }
        }
    }
    for pod in &pods {
        let ordinal = meta::text(pod, "name")
            .rsplit('-')
            .next()
            .and_then(|text| text.parse::<i64>().ok());
        if ordinal.is_none_or(|ordinal| ordinal >= start + wanted) {
            delete(server, "/pods", pod);
        }
    }
    let key = format!("{}/{name}", meta::text(set, "namespace"));
    let Some(current) = server.store().get("apps/statefulsets", &key) else {
        return;
    };
    let pods = living(server, &current.value);
    let (new, old): (Vec<Value>, Vec<Value>) = pods.into_iter().partition(is_new);
    let (new, old) = (counts(&new), counts(&old));
    let complete = new.ready == wanted && old.all == 0;
    let before = current
        .value
        .pointer("/status/currentRevision")
        .and_then(Value::as_str)
        .unwrap_or(&revision)
        .to_owned();
    let in_place = if complete { new.all } else { old.all };
    set_status(
        server,
        "apps/statefulsets",
        &current.value,
        json!({
            "observedGeneration": meta::generation(&current.value), "replicas": new.all + old.all,
            "readyReplicas": count(new.ready + old.ready), "availableReplicas": new.ready + old.ready,
            "currentReplicas": count(in_place), "updatedReplicas": count(new.all),
            "currentRevision": if complete { &revision } else { &before }, "updateRevision": revision
        }),
    );
}

/// A pod that is known by its name and keeps its claims.
fn pod_of_stateful(set: &Value, name: &str, revision: &str, index: i64) -> Value {
    let ordinal = index.to_string();
    let labels = [
        ("controller-revision-hash", revision),
        ("statefulset.kubernetes.io/pod-name", name),
        ("apps.kubernetes.io/pod-index", ordinal.as_str()),
    ];
    let mut pod = pod_of(set, name.into(), &labels);
    pod["spec"]["hostname"] = name.into();
    if let Some(service) = set.pointer("/spec/serviceName") {
        pod["spec"]["subdomain"] = service.clone();
    }
    // A claim takes the place of a volume of the same name.
    let own = pod.pointer("/spec/volumes").and_then(Value::as_array);
    let mut volumes = own.cloned().unwrap_or_default();
    for (template, claim) in claim_templates(set, index) {
        let name = meta::text(template, "name");
        volumes.retain(|volume| volume["name"] != name);
        volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": claim}}));
    }
    if !volumes.is_empty() {
        pod["spec"]["volumes"] = Value::Array(volumes);
    }
    pod
}

/// The templates of claims, each with the name of the claim of one pod.
fn claim_templates(set: &Value, index: i64) -> impl Iterator<Item = (&Value, String)> {
    let templates = set.pointer("/spec/volumeClaimTemplates");
    let templates = templates.and_then(Value::as_array).into_iter().flatten();
    templates.map(move |template| {
        let (name, set) = (meta::text(template, "name"), meta::text(set, "name"));
        (template, format!("{name}-{set}-{index}"))
    })
}

/// The claims of one pod of a StatefulSet.
fn claims(server: &ApiServer, set: &Value, index: i64) {
    let namespace = meta::text(set, "namespace");
    for (template, name) in claim_templates(set, index) {
        let table = "/persistentvolumeclaims";
        if server
            .store()
            .get(table, &format!("{namespace}/{name}"))
            .is_none()
        {
            let labels = set.pointer("/spec/selector/matchLabels").cloned();
            // Without its claim the pod waits.
            let _ = create(
                server,
                table,
                &json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": template["spec"]}),
            );
        }
    }
}

/// One pod for the only node there is.
pub fn sync_daemon(server: &ApiServer, set: &Value) {
    let hash = template_hash(&set["spec"]["template"]);
    let is_new =
        |pod: &Value| pod["metadata"]["labels"]["controller-revision-hash"] == hash.as_str();
    let pods = living(server, set);
    for pod in pods.iter().filter(|pod| !is_new(pod)) {
        delete(server, "/pods", pod);
    }
    if !pods.iter().any(is_new) {
        let labels = [("controller-revision-hash", hash.as_str())];
        let pod = pod_of(set, Value::Null, &labels);
        create_pod(server, "apps/daemonsets", set, &pod);
    }
    let key = format!(
        "{}/{}",
        meta::text(set, "namespace"),
        meta::text(set, "name")
    );
    let Some(current) = server.store().get("apps/daemonsets", &key) else {
        return;
    };
    let pods = living(server, &current.value);
    let now = counts(&pods);
    let up = now.ready.min(1);
    set_status(
        server,
        "apps/daemonsets",
        &current.value,
        json!({
            "observedGeneration": meta::generation(&current.value), "desiredNumberScheduled": 1, "currentNumberScheduled": now.all.min(1),
            "updatedNumberScheduled": count(i64::from(pods.iter().any(is_new))), "numberReady": up, "numberAvailable": count(up),
            "numberUnavailable": count(1 - up), "numberMisscheduled": 0
        }),
    );
}
