//! Statuses of workloads: numbers that are not negative and fit together.

use everflow_json::Value;

use super::super::Context;
use super::super::at::{At, or_null};
use crate::field::{Errors, FieldError, Path};

const TOO_MANY: &str = "cannot be greater than status.replicas";

fn numbers(at: &At<'_, '_>, keys: &[&'static str], errors: &mut Errors) {
    keys.iter()
        .for_each(|key| at.child(key).not_negative(errors));
}

fn within_replicas(at: &At<'_, '_>, keys: &[&'static str], of_ready: &str, errors: &mut Errors) {
    let all = at.child("replicas").number();
    for key in keys.iter().filter(|key| at.child(key).number() > all) {
        at.child(key)
            .invalid_as(errors, at.child(key).number(), TOO_MANY);
    }
    let available = at.child("availableReplicas");
    if available.number() > at.child("readyReplicas").number() {
        available.invalid_as(errors, available.number(), of_ready);
    }
}

fn collisions(at: &At<'_, '_>, old: &Value, errors: &mut Errors) {
    let count = at.child("collisionCount");
    let before = old
        .pointer("/status/collisionCount")
        .and_then(Value::as_i64);
    if before.is_some_and(|before| count.int().is_none_or(|now| now < before)) {
        count.invalid_as(errors, count.number(), "cannot be decremented");
    }
}

/// Checks a changed status of a Pod: one that runs on a node is meant for no other.
pub fn pod(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    let nominated = new
        .pointer("/status/nominatedNodeName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let is_bound = old
        .pointer("/spec/nodeName")
        .and_then(Value::as_str)
        .is_some_and(|node| !node.is_empty());
    let before = old
        .pointer("/status/nominatedNodeName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if is_bound && !nominated.is_empty() && nominated != before {
        let path = Path::new("status").child("nominatedNodeName");
        let why = "may not be set on pods that are already bound to a node";
        errors.push(FieldError::forbidden(&path, why));
    }
}

/// Checks a changed status of a Deployment.
pub fn deployment(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let status = root.child("status");
    numbers(
        &status,
        &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
        errors,
    );
    within_replicas(
        &status,
        &["updatedReplicas", "readyReplicas", "availableReplicas"],
        "cannot be greater than readyReplicas",
        errors,
    );
    collisions(&status, old, errors);
}

/// Checks a changed status of a ReplicaSet or ReplicationController.
pub fn replica_set(_: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let status = root.child("status");
    numbers(
        &status,
        &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ],
        errors,
    );
    within_replicas(
        &status,
        &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        "cannot be greater than readyReplicas",
        errors,
    );
}

/// Checks a changed status of a StatefulSet.
pub fn stateful_set(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let status = root.child("status");
    numbers(
        &status,
        &[
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ],
        errors,
    );
    within_replicas(
        &status,
        &[
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
        ],
        "cannot be greater than status.readyReplicas",
        errors,
    );
    collisions(&status, old, errors);
}

/// Checks a changed status of a DaemonSet.
pub fn daemon_set(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let status = root.child("status");
    numbers(
        &status,
        &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ],
        errors,
    );
    collisions(&status, old, errors);
}

/// Checks a changed status of a PodDisruptionBudget.
pub fn budget(_: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    let root = At::root(new);
    numbers(
        &root.child("status"),
        &[
            "disruptionsAllowed",
            "currentHealthy",
            "desiredHealthy",
            "expectedPods",
        ],
        errors,
    );
}

fn holds(status: &Value, kind: &str) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        super::text(condition, "type") == kind && super::text(condition, "status") == "True"
    })
}

/// Checks a changed status of a Job: finished Jobs stay finished, and say when they started and ended.
pub fn job(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let status = root.child("status");
    let before = or_null(old.get("status"));
    numbers(
        &status,
        &["active", "succeeded", "failed", "ready", "terminating"],
        errors,
    );
    let conditions = status.child("conditions");
    let (complete, failed) = (
        holds(status.value, "Complete"),
        holds(status.value, "Failed"),
    );
    let (target, met) = (
        holds(status.value, "FailureTarget"),
        holds(status.value, "SuccessCriteriaMet"),
    );
    let (start, end) = (status.child("startTime"), status.child("completionTime"));
    let mut refuse = |wrong: bool, problem: &str| {
        if wrong {
            conditions.invalid_hidden(errors, problem);
        }
    };
    let changed = before != status.value;
    refuse(
        changed && complete && failed,
        "cannot set Complete=True and Failed=true conditions",
    );
    refuse(
        changed && complete && target,
        "cannot set Complete=True and FailureTarget=true conditions",
    );
    if changed && end.is_set() && !complete {
        end.invalid(
            errors,
            "cannot set completionTime when there is no Complete=True condition",
        );
    }
    if changed && !end.is_set() && complete {
        end.required(errors, "completionTime is required for Complete jobs");
    }
    if changed && start.is_set() && end.is_set() && end.text() < start.text() {
        end.invalid(errors, "must be equal to or after `startTime`");
    }
    let mut refuse = |wrong: bool, problem: &str| {
        if wrong {
            conditions.invalid_hidden(errors, problem);
        }
    };
    refuse(
        changed && failed && !target,
        "cannot set Failed=True condition without the FailureTarget=true condition",
    );
    refuse(
        changed && complete && !met,
        "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
    );
    let active = status.child("active");
    if changed && (complete || failed) {
        if active.number() > 0 {
            active.invalid(errors, "active>0 is invalid for finished job");
        }
        if !start.is_set() {
            start.required(errors, "startTime is required for finished job");
        }
    }
    let ready = status.child("ready");
    if changed && ready.number() > active.number() {
        ready.invalid(errors, "cannot set more ready pods than active");
    }
    let mut refuse = |wrong: bool, problem: &str| {
        if wrong {
            conditions.invalid_hidden(errors, problem);
        }
    };
    refuse(
        met && failed,
        "cannot set SuccessCriteriaMet=True and Failed=true conditions",
    );
    refuse(
        met && target,
        "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
    );
    for kind in ["Failed", "Complete", "FailureTarget"] {
        let wrong = holds(before, kind) && !holds(status.value, kind);
        refuse(
            wrong,
            &format!("cannot disable the terminal {kind}=True condition"),
        );
    }
    for (key, problem) in [
        ("failed", "cannot decrease the failed counter"),
        ("succeeded", "cannot decrease the succeeded counter"),
    ] {
        let part = status.child(key);
        if part.number() < before.get(key).and_then(Value::as_i64).unwrap_or_default() {
            part.invalid_as(errors, part.number(), problem);
        }
    }
}
