//! Jobs: pods that end.

use everflow_json::{Value, json};

use super::refused::create_pod;
use super::{Behavior, controlled, count, number, phase, pod_of, set_status};
use crate::kinds::meta;
use crate::server_core::ApiServer;

/// Brings pods and status of a Job up to date.
pub fn sync(server: &ApiServer, job: &Value) {
    let finished = job
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .is_some_and(|list| {
            list.iter().any(|condition| {
                (condition["type"] == "Complete" || condition["type"] == "Failed")
                    && condition["status"] == "True"
            })
        });
    if finished || job.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
        return;
    }
    let completions = number(job, "/spec/completions", 1);
    let parallelism = number(job, "/spec/parallelism", 1);
    let pods = controlled(server, "/pods", job);
    let tally = |pods: &[Value], wanted: &str| {
        pods.iter().filter(|pod| phase(pod) == wanted).count() as i64
    };
    let active = |pods: &[Value]| {
        pods.iter()
            .filter(|pod| !matches!(phase(pod), "Succeeded" | "Failed"))
            .count() as i64
    };
    let failing = Behavior::of(job) == Behavior::JobFailed;
    let may_fail = number(job, "/spec/backoffLimit", 6);
    let open = if failing {
        i64::from(tally(&pods, "Failed") <= may_fail)
    } else {
        (completions - tally(&pods, "Succeeded")).min(parallelism)
    };
    for _ in active(&pods)..open {
        let pod = pod_of(job, Value::Null, &[]);
        if create_pod(server, "batch/jobs", job, &pod).is_some() {
            break;
        }
    }
    let key = format!(
        "{}/{}",
        meta::text(job, "namespace"),
        meta::text(job, "name")
    );
    let Some(current) = server.store().get("batch/jobs", &key) else {
        return;
    };
    let pods = controlled(server, "/pods", &current.value);
    let (succeeded, failed) = (tally(&pods, "Succeeded"), tally(&pods, "Failed"));
    report(
        server,
        &current.value,
        completions,
        succeeded,
        failed,
        active(&pods),
        may_fail,
    );
}

fn report(
    server: &ApiServer,
    job: &Value,
    completions: i64,
    succeeded: i64,
    failed: i64,
    active: i64,
    may_fail: i64,
) {
    if job.pointer("/status/conditions").is_some() {
        return;
    }
    let now = server.env().now().rfc3339();
    let started = job
        .pointer("/status/startTime")
        .and_then(Value::as_str)
        .unwrap_or(&now);
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastProbeTime": now, "lastTransitionTime": now});
    let mut status = json!({
        "startTime": started, "active": count(active), "succeeded": count(succeeded), "failed": count(failed),
        "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}
    });
    if succeeded >= completions {
        let message = "Reached expected number of succeeded pods";
        status["completionTime"] = now.as_str().into();
        status["conditions"] = json!([
            condition("SuccessCriteriaMet", "CompletionsReached", message),
            condition("Complete", "CompletionsReached", message)
        ]);
    } else if failed > may_fail {
        let message = "Job has reached the specified backoff limit";
        status["conditions"] = json!([
            condition("FailureTarget", "BackoffLimitExceeded", message),
            condition("Failed", "BackoffLimitExceeded", message)
        ]);
    }
    set_status(server, "batch/jobs", job, status);
}
