//! Deployments: one ReplicaSet per template, the old ones taken down once the new one is up.

use everflow_json::{Value, json};

use super::refused::{FAILURE, failure};
use super::{
    BEHAVIOR, conditions, controlled, count, create, number, patch, reference, set_status,
    template_hash,
};
use crate::controllers::Task;
use crate::kinds::meta;
use crate::server_core::ApiServer;
use crate::time::Timestamp;

const TABLE: &str = "apps/deployments";
const SETS: &str = "apps/replicasets";
const REVISION: &str = "deployment.kubernetes.io/revision";

fn revision(object: &Value) -> i64 {
    object["metadata"]["annotations"][REVISION]
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

/// A number or a part of a number, rounded down.
fn part_of(value: Option<&Value>, whole: i64) -> i64 {
    match value {
        Some(Value::Number(number)) => number.as_i64().unwrap_or_default(),
        Some(Value::String(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or_default();
            whole * percent / 100
        }
        _ => 0,
    }
}

/// Brings ReplicaSets and status of a Deployment up to date.
pub fn sync(server: &ApiServer, deployment: &Value) {
    let key = format!(
        "{}/{}",
        meta::text(deployment, "namespace"),
        meta::text(deployment, "name")
    );
    let paused = deployment.pointer("/spec/paused") == Some(&Value::Bool(true));
    let hash = template_hash(&deployment["spec"]["template"]);
    let wanted = number(deployment, "/spec/replicas", 1);
    let is_new = |set: &Value| set["metadata"]["labels"]["pod-template-hash"] == hash.as_str();
    let sets = controlled(server, SETS, deployment);
    let recreate = deployment
        .pointer("/spec/strategy/type")
        .and_then(Value::as_str)
        == Some("Recreate");
    if !paused {
        let newest = sets.iter().map(revision).max().unwrap_or_default();
        match sets.iter().find(|set| is_new(set)) {
            None => {
                if recreate {
                    sets.iter().for_each(|set| scale(server, set, 0));
                }
                // One that is refused is made when the Deployment is looked at again.
                let _ = create(server, SETS, &new_set(deployment, &hash, newest + 1));
            }
            Some(set) => {
                if revision(set) < newest {
                    note_revision(server, SETS, set, newest + 1);
                }
                scale(server, set, wanted);
                if number(set, "/status/readyReplicas", 0) >= wanted {
                    sets.iter()
                        .filter(|set| !is_new(set))
                        .for_each(|set| scale(server, set, 0));
                }
            }
        }
    }
    // What was just done may have brought the Deployment up to date already.
    let Some(current) = server.store().get(TABLE, &key) else {
        return;
    };
    let sets = controlled(server, SETS, &current.value);
    let newest = sets.iter().map(revision).max().unwrap_or_default();
    if newest > 0 && newest != revision(&current.value) {
        return note_revision(server, TABLE, &current.value, newest);
    }
    let new = sets.iter().find(|set| is_new(set));
    report(server, &key, &current.value, &sets, new, paused);
}

fn note_revision(server: &ApiServer, table: &str, object: &Value, revision: i64) {
    let change = json!({"metadata": {"annotations": {REVISION: revision.to_string()}}});
    patch(server, table, object, "", &change);
}

fn scale(server: &ApiServer, set: &Value, replicas: i64) {
    if number(set, "/spec/replicas", 1) != replicas {
        patch(
            server,
            SETS,
            set,
            "",
            &json!({"spec": {"replicas": replicas}}),
        );
    }
}

fn new_set(deployment: &Value, hash: &str, revision: i64) -> Value {
    let mut template = deployment["spec"]["template"].clone();
    template["metadata"]["labels"]["pod-template-hash"] = hash.into();
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"]["pod-template-hash"] = hash.into();
    let replicas = number(deployment, "/spec/replicas", 1);
    let mut annotations = json!({REVISION: revision.to_string(), "deployment.kubernetes.io/desired-replicas": replicas.to_string()});
    if let Some(behavior) = deployment["metadata"]["annotations"].get(BEHAVIOR) {
        annotations[BEHAVIOR] = behavior.clone();
    }
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", meta::text(deployment, "name")), "namespace": meta::text(deployment, "namespace"),
            "labels": template["metadata"]["labels"], "annotations": annotations, "ownerReferences": reference(deployment)
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template}
    })
}

/// Writes the status of a Deployment.
fn report(
    server: &ApiServer,
    key: &str,
    deployment: &Value,
    sets: &[Value],
    new: Option<&Value>,
    paused: bool,
) {
    let now = server.env().now();
    let wanted = number(deployment, "/spec/replicas", 1);
    let sum = |pointer: &str| sets.iter().map(|set| number(set, pointer, 0)).sum::<i64>();
    let all = sum("/status/replicas");
    let available = sum("/status/availableReplicas");
    let updated = new.map_or(0, |set| number(set, "/status/replicas", 0));
    let may_miss = part_of(
        deployment.pointer("/spec/strategy/rollingUpdate/maxUnavailable"),
        wanted,
    );
    let enough = available >= wanted - may_miss;
    let complete = updated == wanted && all == wanted && available == wanted;
    let condition = |kind: &str, status: &str, reason: &str, message: String| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastUpdateTime": now.rfc3339(), "lastTransitionTime": now.rfc3339()});
    let availability = if enough {
        condition(
            "Available",
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.".into(),
        )
    } else {
        condition(
            "Available",
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.".into(),
        )
    };
    let set_name = new.map_or("", |set| meta::text(set, "name"));
    let progress = if paused {
        condition(
            "Progressing",
            "Unknown",
            "DeploymentPaused",
            "Deployment is paused".into(),
        )
    } else if complete {
        condition(
            "Progressing",
            "True",
            "NewReplicaSetAvailable",
            format!("ReplicaSet \"{set_name}\" has successfully progressed."),
        )
    } else if timed_out(server, key, deployment, new, now) {
        condition(
            "Progressing",
            "False",
            "ProgressDeadlineExceeded",
            format!("ReplicaSet \"{set_name}\" has timed out progressing."),
        )
    } else {
        condition(
            "Progressing",
            "True",
            "ReplicaSetUpdated",
            format!("ReplicaSet \"{set_name}\" is progressing."),
        )
    };
    let failure = sets.iter().find_map(failure).map(|failure| {
        let text = |field: &str| failure[field].as_str().unwrap_or_default();
        condition(FAILURE, "True", text("reason"), text("message").to_owned())
    });
    let all_conditions = [availability, progress].into_iter().chain(failure);
    set_status(
        server,
        TABLE,
        deployment,
        json!({
            "observedGeneration": meta::generation(deployment), "replicas": count(all), "updatedReplicas": count(updated),
            "readyReplicas": count(sum("/status/readyReplicas")), "availableReplicas": count(available),
            "unavailableReplicas": count((wanted.max(all) - available).max(0)),
            "conditions": conditions(deployment, all_conditions.collect())
        }),
    );
}

/// Whether the newest ReplicaSet has had its time; if not, the Deployment is looked at when it has.
fn timed_out(
    server: &ApiServer,
    key: &str,
    deployment: &Value,
    new: Option<&Value>,
    now: Timestamp,
) -> bool {
    let Some(since) = new.and_then(|set| Timestamp::parse(meta::text(set, "creationTimestamp")))
    else {
        return false;
    };
    let deadline = since.plus_seconds(number(deployment, "/spec/progressDeadlineSeconds", 600));
    if now >= deadline {
        return true;
    }
    server.note_later(deadline, Task::Due(TABLE.to_owned(), key.to_owned()));
    false
}
