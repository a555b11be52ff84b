//! The rules of the kinds that Kubernetes has itself.

use everflow_json::Value;
use everflow_time::{Duration, Timestamp};

use super::Assessment;
use super::fields::Fields;

/// How long a Pod may look for a node before that counts as a failure.
const SCHEDULE_WINDOW: Duration = Duration::from_seconds(15);

/// `have` of `want`, or nothing when there are enough.
fn lacking(reason: &str, word: &str, have: i64, want: i64) -> Option<Assessment> {
    (want > have).then(|| Assessment::in_progress(reason, format!("{word}: {have}/{want}")))
}

fn too_many(have: i64, want: i64) -> Option<Assessment> {
    let message = || format!("Pending termination: {}", have - want);
    (have > want).then(|| Assessment::in_progress("ExtraPods", message()))
}

pub(super) fn deployment(fields: Fields<'_>) -> Assessment {
    // Without a deadline there is no condition to wait for.
    let mut progressed = matches!(
        fields.number("/spec/progressDeadlineSeconds"),
        None | Some(2_147_483_647)
    );
    let mut available = false;
    for condition in fields.conditions() {
        match (condition.kind, condition.status, condition.reason) {
            ("Progressing", _, "ProgressDeadlineExceeded") => {
                return Assessment::failed(condition.reason, "Progress deadline exceeded");
            }
            ("Progressing", "True", "NewReplicaSetAvailable") => progressed = true,
            ("Available", "True", _) => available = true,
            _ => {}
        }
    }
    let wanted = fields.number("/spec/replicas").unwrap_or(1);
    let replicas = fields.count("/status/replicas");
    let updated = fields.count("/status/updatedReplicas");
    let available_replicas = fields.count("/status/availableReplicas");
    lacking("LessReplicas", "Replicas", replicas, wanted)
        .or_else(|| lacking("LessUpdated", "Updated", updated, wanted))
        .or_else(|| too_many(replicas, wanted))
        .or_else(|| lacking("LessAvailable", "Available", available_replicas, updated))
        .or_else(|| {
            lacking(
                "LessReady",
                "Ready",
                fields.count("/status/readyReplicas"),
                wanted,
            )
        })
        .unwrap_or_else(|| match (progressed, available) {
            (false, _) => {
                Assessment::in_progress("ReplicaSetNotAvailable", "ReplicaSet not Available")
            }
            (_, false) => {
                Assessment::in_progress("DeploymentNotAvailable", "Deployment not Available")
            }
            _ => Assessment::current(format!("Deployment is available. Replicas: {replicas}")),
        })
}

pub(super) fn replica_set(fields: Fields<'_>) -> Assessment {
    let failing = |kind: &str, status: &str| (kind, status) == ("ReplicaFailure", "True");
    if fields
        .conditions()
        .any(|condition| failing(condition.kind, condition.status))
    {
        let message = "Replica Failure condition. Check Pods";
        return Assessment::in_progress("ReplicaFailure", message);
    }
    let wanted = fields.number("/spec/replicas").unwrap_or(1);
    let replicas = fields.count("/status/replicas");
    let labelled = fields.count("/status/fullyLabeledReplicas");
    let available = fields.count("/status/availableReplicas");
    lacking("LessLabelled", "Labelled", labelled, wanted)
        .or_else(|| lacking("LessAvailable", "Available", available, wanted))
        .or_else(|| {
            lacking(
                "LessReady",
                "Ready",
                fields.count("/status/readyReplicas"),
                wanted,
            )
        })
        .or_else(|| too_many(replicas, wanted))
        .unwrap_or_else(|| {
            Assessment::current(format!("ReplicaSet is available. Replicas: {replicas}"))
        })
}

pub(super) fn stateful_set(fields: Fields<'_>) -> Assessment {
    if fields.text("/spec/updateStrategy/type") == Some("OnDelete") {
        return Assessment::current("StatefulSet is using the ondelete update strategy");
    }
    let wanted = fields.number("/spec/replicas").unwrap_or(1);
    let replicas = fields.count("/status/replicas");
    let short = lacking("LessReplicas", "Replicas", replicas, wanted)
        .or_else(|| {
            lacking(
                "LessReady",
                "Ready",
                fields.count("/status/readyReplicas"),
                wanted,
            )
        })
        .or_else(|| too_many(replicas, wanted));
    if let Some(assessment) = short {
        return assessment;
    }
    let updated = fields.count("/status/updatedReplicas");
    match fields.number("/spec/updateStrategy/rollingUpdate/partition") {
        None | Some(-1) => {}
        Some(partition) => {
            return lacking("PartitionRollout", "updated", updated, wanted - partition)
                .unwrap_or_else(|| {
                    Assessment::current(format!("Partition rollout complete. updated: {updated}"))
                });
        }
    }
    let current = fields.count("/status/currentReplicas");
    if let Some(assessment) = lacking("LessCurrent", "current", current, wanted) {
        return assessment;
    }
    let revision = |at: &str| fields.text(at).unwrap_or_default();
    if revision("/status/currentRevision") != revision("/status/updateRevision") {
        let message = "Waiting for updated revision to match current";
        return Assessment::in_progress("RevisionMismatch", message);
    }
    Assessment::current(format!(
        "All replicas scheduled as expected. Replicas: {replicas}"
    ))
}

pub(super) fn daemon_set(fields: Fields<'_>) -> Assessment {
    let absent = |at: &str| fields.number(at).is_none();
    if absent("/metadata/generation") {
        let message = "DaemonSet metadata.generation not found";
        return Assessment::in_progress("NoGeneration", message);
    }
    if absent("/status/observedGeneration") {
        let message = "DaemonSet status.observedGeneration not found";
        return Assessment::in_progress("NoObservedGeneration", message);
    }
    let wanted = match fields.number("/status/desiredNumberScheduled") {
        None | Some(-1) => {
            let message = "Missing .status.desiredNumberScheduled";
            return Assessment::in_progress("NoDesiredNumber", message);
        }
        Some(wanted) => wanted,
    };
    let current = fields.count("/status/currentNumberScheduled");
    let updated = fields.count("/status/updatedNumberScheduled");
    let available = fields.count("/status/numberAvailable");
    lacking("LessCurrent", "Current", current, wanted)
        .or_else(|| lacking("LessUpdated", "Updated", updated, wanted))
        .or_else(|| lacking("LessAvailable", "Available", available, wanted))
        .or_else(|| {
            lacking(
                "LessReady",
                "Ready",
                fields.count("/status/numberReady"),
                wanted,
            )
        })
        .unwrap_or_else(|| {
            Assessment::current(format!(
                "All replicas scheduled as expected. Replicas: {wanted}"
            ))
        })
}

pub(super) fn claim(fields: Fields<'_>) -> Assessment {
    match fields.text("/status/phase").unwrap_or("unknown") {
        "Bound" => Assessment::current("PVC is Bound"),
        phase => Assessment::in_progress("NotBound", format!("PVC is not Bound. phase: {phase}")),
    }
}

pub(super) fn service(fields: Fields<'_>) -> Assessment {
    let balanced = fields.text("/spec/type") == Some("LoadBalancer");
    if balanced
        && fields
            .text("/spec/clusterIP")
            .unwrap_or_default()
            .is_empty()
    {
        let message = "ClusterIP not set. Service type: LoadBalancer";
        return Assessment::in_progress("NoIPAssigned", message);
    }
    Assessment::current("Service is ready")
}

pub(super) fn pod(fields: Fields<'_>, now: Timestamp) -> Assessment {
    match fields.text("/status/phase").unwrap_or_default() {
        "Succeeded" => Assessment::current("Pod has completed successfully"),
        "Failed" => Assessment::current("Pod has completed, but not successfully"),
        "Running" => running_pod(fields),
        "Pending" => pending_pod(fields, now),
        "" => Assessment::in_progress("PodNotObserved", "Pod phase not available"),
        phase => Assessment {
            health: super::Health::Unknown,
            reason: String::new(),
            message: format!("unknown phase {phase}"),
        },
    }
}

fn running_pod(fields: Fields<'_>) -> Assessment {
    let ready = |kind: &str, status: &str| (kind, status) == ("Ready", "True");
    if fields
        .conditions()
        .any(|condition| ready(condition.kind, condition.status))
    {
        return Assessment::current("Pod is Ready");
    }
    let containers = fields
        .0
        .pointer("/status/containerStatuses")
        .and_then(Value::as_array);
    let crashing: Vec<&str> = containers
        .into_iter()
        .flatten()
        .filter(|container| container["state"]["waiting"]["reason"] == "CrashLoopBackOff")
        .filter_map(|container| container["name"].as_str())
        .collect();
    if crashing.is_empty() {
        return Assessment::in_progress("PodRunningNotReady", "Pod is running but is not Ready");
    }
    let message = format!("Containers in CrashLoop state: {}", crashing.join(","));
    Assessment::failed("ContainerCrashLooping", message)
}

fn pending_pod(fields: Fields<'_>, now: Timestamp) -> Assessment {
    let homeless = fields.conditions().any(|condition| {
        let known = (condition.kind, condition.status, condition.reason);
        known == ("PodScheduled", "False", "Unschedulable")
    });
    if !homeless {
        return Assessment::in_progress("PodPending", "Pod is in the Pending phase");
    }
    let created = fields
        .text("/metadata/creationTimestamp")
        .and_then(Timestamp::parse);
    match now.since(created.unwrap_or_default()) < SCHEDULE_WINDOW {
        true => Assessment::in_progress("PodNotScheduled", "Pod has not been scheduled"),
        false => Assessment::failed("PodUnschedulable", "Pod could not be scheduled"),
    }
}

pub(super) fn job(fields: Fields<'_>) -> Assessment {
    if fields.0.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
        return Assessment::current("Job is suspended");
    }
    let parallelism = fields.number("/spec/parallelism").unwrap_or(1);
    let completions = fields.number("/spec/completions").unwrap_or(parallelism);
    let succeeded = fields.count("/status/succeeded");
    let failed = fields.count("/status/failed");
    for condition in fields.conditions() {
        match (condition.kind, condition.status) {
            ("Complete", "True") => {
                let message = format!("Job Completed. succeeded: {succeeded}/{completions}");
                return Assessment::current(message);
            }
            ("Failed", "True") => {
                let message = format!("Job Failed. failed: {failed}/{completions}");
                return Assessment::failed("JobFailed", message);
            }
            _ => {}
        }
    }
    if fields
        .text("/status/startTime")
        .unwrap_or_default()
        .is_empty()
    {
        let message = format!("Job not started. active: 0/{parallelism}");
        return Assessment::in_progress("JobNotStarted", message);
    }
    let active = fields.count("/status/active");
    let message =
        format!("Job in progress. success:{succeeded}, active: {active}, failed: {failed}");
    Assessment::in_progress("JobInProgress", message)
}

pub(super) fn definition(fields: Fields<'_>) -> Assessment {
    for condition in fields.conditions() {
        match (condition.kind, condition.status) {
            ("NamesAccepted", "False") => {
                return Assessment::failed(condition.reason, condition.message);
            }
            ("Established", "False") if condition.reason != "Installing" => {
                return Assessment::failed(condition.reason, condition.message);
            }
            ("Established", "True") => return Assessment::current("CRD is established"),
            _ => {}
        }
    }
    Assessment::in_progress("Installing", "Install in progress")
}

#[cfg(test)]
mod tests {
    use crate::health::{Health, assess};
    use everflow_json::{Value, json};
    use everflow_time::Timestamp;

    fn check(api_version: &str, kind: &str, spec: Value, status: Value) -> (Health, String) {
        let metadata =
            json!({"name": "x", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"});
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "status": status});
        let now = Timestamp::parse("2026-01-01T00:00:10Z").unwrap();
        let assessment = assess(&object, now);
        (assessment.health, assessment.message)
    }

    fn is(found: (Health, String), health: Health, message: &str) {
        assert_eq!(found, (health, message.to_owned()));
    }

    #[test]
    fn deployments() {
        let of = |status| check("apps/v1", "Deployment", json!({"replicas": 2}), status);
        is(of(json!({})), Health::InProgress, "Replicas: 0/2");
        is(
            of(json!({"replicas": 2, "updatedReplicas": 1})),
            Health::InProgress,
            "Updated: 1/2",
        );
        let full = json!({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2});
        is(
            of(full.clone()),
            Health::InProgress,
            "Deployment not Available",
        );
        let with = |condition: Value| {
            let mut status = full.clone();
            status["conditions"] = json!([condition]);
            of(status)
        };
        let available = json!({"type": "Available", "status": "True"});
        is(
            with(available),
            Health::Current,
            "Deployment is available. Replicas: 2",
        );
        let late =
            json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"});
        is(with(late), Health::Failed, "Progress deadline exceeded");
    }

    #[test]
    fn stateful_and_daemon_sets() {
        let set = |spec, status| check("apps/v1", "StatefulSet", spec, status);
        let full =
            json!({"replicas": 3, "readyReplicas": 3, "updatedReplicas": 1, "currentReplicas": 3});
        let partition =
            json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}});
        is(
            set(partition, full.clone()),
            Health::Current,
            "Partition rollout complete. updated: 1",
        );
        is(
            set(json!({"replicas": 3}), full),
            Health::Current,
            "All replicas scheduled as expected. Replicas: 3",
        );
        let daemon = |status| check("apps/v1", "DaemonSet", json!({}), status);
        is(
            daemon(json!({})),
            Health::InProgress,
            "DaemonSet status.observedGeneration not found",
        );
        let half = json!({"observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 2});
        is(daemon(half), Health::InProgress, "Updated: 0/2");
    }

    #[test]
    fn pods() {
        let of = |status| check("v1", "Pod", json!({}), status);
        is(
            of(json!({"phase": "Failed"})),
            Health::Current,
            "Pod has completed, but not successfully",
        );
        is(
            of(json!({"phase": "Pending"})),
            Health::InProgress,
            "Pod is in the Pending phase",
        );
        let condition =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
        let homeless = json!({"phase": "Pending", "conditions": [condition]});
        is(
            of(homeless),
            Health::InProgress,
            "Pod has not been scheduled",
        );
        let crash = json!({"name": "app", "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let crashing = json!({"phase": "Running", "containerStatuses": [crash]});
        is(
            of(crashing),
            Health::Failed,
            "Containers in CrashLoop state: app",
        );
    }

    #[test]
    fn jobs_are_done_at_their_end() {
        let of = |spec, status| check("batch/v1", "Job", spec, status);
        is(
            of(json!({}), json!({})),
            Health::InProgress,
            "Job not started. active: 0/1",
        );
        is(
            of(json!({"suspend": true}), json!({})),
            Health::Current,
            "Job is suspended",
        );
        let started = json!({"startTime": "2026-01-01T00:00:00Z", "active": 1});
        is(
            of(json!({}), started),
            Health::InProgress,
            "Job in progress. success:0, active: 1, failed: 0",
        );
        let failed = json!({"failed": 4, "conditions": [{"type": "Failed", "status": "True"}]});
        is(
            of(json!({}), failed),
            Health::Failed,
            "Job Failed. failed: 4/1",
        );
    }

    #[test]
    fn definitions_claims_and_services() {
        let of = |status| {
            check(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                json!({}),
                status,
            )
        };
        is(of(json!({})), Health::InProgress, "Install in progress");
        let up = json!({"conditions": [{"type": "Established", "status": "True"}]});
        is(of(up), Health::Current, "CRD is established");
        is(
            check("v1", "PersistentVolumeClaim", json!({}), json!({})),
            Health::InProgress,
            "PVC is not Bound. phase: unknown",
        );
        is(
            check("v1", "Service", json!({"type": "LoadBalancer"}), json!({})),
            Health::InProgress,
            "ClusterIP not set. Service type: LoadBalancer",
        );
    }
}
