//! A small model of a cluster that runs things.
//!
//! Deployments make ReplicaSets, CronJobs make Jobs, ReplicaSets, StatefulSets, DaemonSets and Jobs make Pods, and Pods
//! come up after
//! [`Options::workload_delay`](crate::Options::workload_delay). The annotation `cluster.everflow.dev/behavior`, on the
//! workload or on its pod template, asks for another end than success, see [`Behavior`].

mod cron;
mod deployments;
mod jobs;
mod others;
mod pods;
mod refused;
mod sets;

use everflow_json::{Value, json};

use super::{Task, path_of, resource_of, send};
use crate::Body;
use crate::kinds::meta;
use crate::server_core::ApiServer;

/// The annotation that asks for another end than success.
pub const BEHAVIOR: &str = "cluster.everflow.dev/behavior";

/// How a workload does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
    /// It comes up; Jobs succeed.
    Healthy,
    /// `never-ready`: containers run but are never ready; claims are never bound, addresses never given.
    NeverReady,
    /// `image-pull`: the image cannot be pulled.
    ImagePull,
    /// `crash-loop`: containers end again and again.
    CrashLoop,
    /// `job-failed`: pods of Jobs fail.
    JobFailed,
}

impl Behavior {
    fn of(object: &Value) -> Self {
        let annotation = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(|map| map.get(BEHAVIOR))
                .and_then(Value::as_str)
        };
        match annotation("/metadata/annotations")
            .or_else(|| annotation("/spec/template/metadata/annotations"))
        {
            Some("never-ready") => Behavior::NeverReady,
            Some("image-pull") => Behavior::ImagePull,
            Some("crash-loop") => Behavior::CrashLoop,
            Some("job-failed") => Behavior::JobFailed,
            _ => Behavior::Healthy,
        }
    }
}

/// Kinds the model looks at again when a server starts on what is there already.
pub const TABLES: &[&str] = &[
    "apps/deployments",
    "apps/replicasets",
    "apps/statefulsets",
    "apps/daemonsets",
    "batch/jobs",
    "batch/cronjobs",
    "/pods",
    "/replicationcontrollers",
    "/persistentvolumeclaims",
    "/services",
    "networking.k8s.io/ingresses",
    "policy/poddisruptionbudgets",
];

/// Looks at an object after it was written.
pub fn look(server: &ApiServer, table: &str, key: &str, object: &Value) {
    match table {
        "apps/deployments" => deployments::sync(server, object),
        "apps/replicasets" | "/replicationcontrollers" => {
            sets::sync_replicas(server, table, object)
        }
        "apps/statefulsets" => sets::sync_stateful(server, object),
        "apps/daemonsets" => sets::sync_daemon(server, object),
        "batch/jobs" => jobs::sync(server, object),
        cron::TABLE => cron::sync(server, object),
        "/pods" if meta::is_terminating(object) => pods::finish(server, object),
        "/pods" => pods::admit(server, key, object),
        _ => others::admit(server, table, key, object),
    }
    if let Some((table, key)) = owner(object) {
        look_again(server, table, &key);
    }
}

/// Looks at the owner of something that changed or went away.
pub fn look_again(server: &ApiServer, table: &str, key: &str) {
    if let Some(owner) = server.store().get(table, key)
        && !meta::is_terminating(&owner.value)
    {
        match table {
            "apps/deployments" => deployments::sync(server, &owner.value),
            "apps/statefulsets" => sets::sync_stateful(server, &owner.value),
            "apps/daemonsets" => sets::sync_daemon(server, &owner.value),
            "batch/jobs" => jobs::sync(server, &owner.value),
            cron::TABLE => cron::sync(server, &owner.value),
            _ => sets::sync_replicas(server, table, &owner.value),
        }
    }
}

/// The delay of an object is over.
pub fn due(server: &ApiServer, table: &str, key: &str) {
    let Some(current) = server.store().get(table, key) else {
        return;
    };
    if meta::is_terminating(&current.value) {
        return;
    }
    match table {
        "/pods" => pods::come_up(server, &current.value),
        "apps/deployments"
        | "apps/replicasets"
        | "apps/statefulsets"
        | "apps/daemonsets"
        | "batch/jobs"
        | "/replicationcontrollers"
        | cron::TABLE => look_again(server, table, key),
        _ => others::settle(server, table, &current.value),
    }
}

/// The workload that controls an object: its table and key.
pub fn owner(object: &Value) -> Option<(&'static str, String)> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners
        .iter()
        .find(|owner| owner.get("controller") == Some(&Value::Bool(true)))?;
    let table = match owner.get("kind")?.as_str()? {
        "Deployment" => "apps/deployments",
        "ReplicaSet" => "apps/replicasets",
        "StatefulSet" => "apps/statefulsets",
        "DaemonSet" => "apps/daemonsets",
        "Job" => "batch/jobs",
        "CronJob" => cron::TABLE,
        "ReplicationController" => "/replicationcontrollers",
        _ => return None,
    };
    let name = owner.get("name")?.as_str()?;
    Some((table, format!("{}/{name}", meta::text(object, "namespace"))))
}

/// Has something looked at once the delay is over; at once when there is none.
fn after_delay(server: &ApiServer, table: &str, key: &str) {
    let delay = server.options().workload_delay.as_micros() as i64;
    if delay == 0 {
        due(server, table, key);
    } else {
        let when = server.env().now().plus_micros(delay);
        server.note_later(when, Task::Due(table.to_owned(), key.to_owned()));
    }
}

fn number(object: &Value, pointer: &str, missing: i64) -> i64 {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or(missing)
}

/// Counts that are zero are left out.
fn count(number: i64) -> Value {
    if number == 0 {
        Value::Null
    } else {
        number.into()
    }
}

/// The objects of a table that a workload controls.
fn controlled(server: &ApiServer, table: &str, owner: &Value) -> Vec<Value> {
    let uid = meta::text(owner, "uid");
    let named = server.owners().dependents(uid);
    named
        .iter()
        .filter(|(known, _)| known == table)
        .filter_map(|(table, key)| server.store().get(table, key))
        .filter(|stored| {
            let owners = stored
                .value
                .pointer("/metadata/ownerReferences")
                .and_then(Value::as_array);
            owners.into_iter().flatten().any(|owner| {
                owner.get("uid").and_then(Value::as_str) == Some(uid)
                    && owner.get("controller") == Some(&Value::Bool(true))
            })
        })
        .map(|stored| stored.value.clone())
        .collect()
}

/// The reference of an object to the workload that controls it.
fn reference(owner: &Value) -> Value {
    json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta::text(owner, "name"), "uid": meta::text(owner, "uid"),
        "controller": true, "blockOwnerDeletion": true
    }])
}

fn path(server: &ApiServer, table: &str, namespace: &str, name: &str) -> Option<String> {
    Some(path_of(&*resource_of(server, table)?, namespace, name))
}

/// Creates an object, or says why the server refused it. One that is there already is no refusal.
fn create(server: &ApiServer, table: &str, object: &Value) -> Result<(), String> {
    let Some(path) = path(server, table, meta::text(object, "namespace"), "") else {
        return Ok(());
    };
    let path = path.trim_end_matches('/');
    let answer = send(server, "POST", path, "application/json", object);
    let Body::Full(body) = &answer.body else {
        return Ok(());
    };
    if answer.status < 400 || answer.status == 409 {
        return Ok(());
    }
    let status: Value = everflow_json::from_slice(body).unwrap_or_default();
    Err(status["message"].as_str().unwrap_or_default().to_owned())
}

fn delete(server: &ApiServer, table: &str, object: &Value) {
    let (namespace, name) = (meta::text(object, "namespace"), meta::text(object, "name"));
    if let Some(path) = path(server, table, namespace, name) {
        let options = json!({"propagationPolicy": "Background"});
        send(server, "DELETE", &path, "application/json", &options);
    }
}

fn patch(server: &ApiServer, table: &str, object: &Value, subresource: &str, change: &Value) {
    let (namespace, name) = (meta::text(object, "namespace"), meta::text(object, "name"));
    if let Some(path) = path(server, table, namespace, name) {
        let path = format!("{path}{subresource}");
        send(
            server,
            "PATCH",
            &path,
            "application/merge-patch+json",
            change,
        );
    }
}

/// Gives an object a status unless it says as much already.
fn set_status(server: &ApiServer, table: &str, object: &Value, status: Value) {
    let same = status
        .as_object()
        .into_iter()
        .flatten()
        .all(|(key, value)| {
            let found = object.get("status").and_then(|status| status.get(key));
            says(found, value)
        });
    if !same {
        patch(server, table, object, "/status", &json!({"status": status}));
    }
}

/// Whether a status already says what is wanted, whatever its times.
fn says(found: Option<&Value>, wanted: &Value) -> bool {
    match (found, wanted) {
        (Some(Value::Array(found)), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found
                    .iter()
                    .zip(wanted)
                    .all(|(found, wanted)| says(Some(found), wanted))
        }
        (Some(Value::Object(found)), Value::Object(wanted)) => wanted.iter().all(|(key, value)| {
            key.ends_with("Time") || key.ends_with("At") || says(found.get(key), value)
        }),
        (found, Value::Null) => found.is_none_or(Value::is_null),
        (None, Value::Number(number)) => number.as_i64() == Some(0),
        (found, wanted) => found == Some(wanted),
    }
}

/// Conditions in order; one whose status stays keeps the time of its last transition.
fn conditions(object: &Value, wanted: Vec<Value>) -> Value {
    let known = object
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let kept = wanted.into_iter().map(|mut condition| {
        let before = known
            .iter()
            .find(|known| known["type"] == condition["type"]);
        if let Some(before) = before
            && before["status"] == condition["status"]
        {
            condition["lastTransitionTime"] = before["lastTransitionTime"].clone();
        }
        condition
    });
    Value::Array(kept.collect())
}

/// Whether a pod is ready.
fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn phase(pod: &Value) -> &str {
    pod.pointer("/status/phase")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A pod of a workload's template.
fn pod_of(owner: &Value, name: Value, extra_labels: &[(&str, &str)]) -> Value {
    let template = &owner["spec"]["template"];
    // No more of the template counts: a name in it would be the same for all pods.
    let mut metadata = everflow_json::Map::new();
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template["metadata"].get(field) {
            metadata.insert(field.into(), value.clone());
        }
    }
    metadata.insert("namespace".into(), meta::text(owner, "namespace").into());
    metadata.insert("ownerReferences".into(), reference(owner));
    match name {
        Value::Null => {
            let prefix = format!("{}-", meta::text(owner, "name"));
            metadata.insert("generateName".into(), prefix.into());
        }
        name => drop(metadata.insert("name".into(), name)),
    }
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]});
    // As admission does it where the plugin for service accounts is on, which this server has not:
    // without an account, volumes with tokens would be refused.
    if pod["spec"]["serviceAccountName"].is_null() {
        pod["spec"]["serviceAccountName"] = "default".into();
    }
    for (key, value) in extra_labels {
        pod["metadata"]["labels"][*key] = (*value).into();
    }
    let behavior = owner
        .pointer("/metadata/annotations")
        .and_then(|map| map.get(BEHAVIOR));
    if let Some(behavior) = behavior {
        pod["metadata"]["annotations"][BEHAVIOR] = behavior.clone();
    }
    pod
}

/// A short name for the content of a template.
fn template_hash(template: &Value) -> String {
    // FNV-1a over the JSON text, in letters that make no words.
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut hash = 0x811c_9dc5_u32;
    for byte in template.to_string().bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    hash.to_string()
        .bytes()
        .map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()]))
        .collect()
}
