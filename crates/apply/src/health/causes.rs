//! Why workloads do not come up, in words: what they, their pods and the events about them say.
//!
//! Nothing here names a pod: pods come and go, and the same cause has to read the same each time.

use everflow_json::Value;

use super::fields::Fields;

/// So much of what others say is passed on, in characters.
const LONGEST: usize = 300;
/// Nothing tells less of a pod than that a container is being made.
const MADE: u8 = 2;

/// The labels of the pods that a workload has, as a selector; `None` for what has no pods.
pub fn pod_selector(workload: &Value) -> Option<String> {
    let kind = workload["kind"].as_str()?;
    if !matches!(
        kind,
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job"
    ) {
        return None;
    }
    let selector = workload.pointer("/spec/selector")?;
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let expressions = selector["matchExpressions"].as_array();
    let expressions = expressions.into_iter().flatten().filter_map(requirement);
    let all: Vec<String> = labels.chain(expressions).collect();
    (!all.is_empty()).then(|| all.join(","))
}

fn requirement(expression: &Value) -> Option<String> {
    let key = expression["key"].as_str()?;
    let values = expression["values"].as_array().into_iter().flatten();
    let values: Vec<&str> = values.filter_map(Value::as_str).collect();
    let values = values.join(",");
    match expression["operator"].as_str()? {
        "In" => Some(format!("{key} in ({values})")),
        "NotIn" => Some(format!("{key} notin ({values})")),
        "Exists" => Some(key.to_owned()),
        "DoesNotExist" => Some(format!("!{key}")),
        _ => None,
    }
}

/// What a workload itself says: pods that it may not make, or a Job's end.
pub fn of_workload(workload: &Value) -> Option<String> {
    let conditions = Fields(workload).conditions();
    let mut telling = conditions.filter(|condition| {
        condition.status == "True" && matches!(condition.kind, "ReplicaFailure" | "Failed")
    });
    let condition = telling.find(|condition| !condition.message.is_empty())?;
    Some(said(condition.reason, condition.message))
}

/// What keeps pods from being ready, the most frequent first; the same of several is said once.
pub fn of_pods(pods: &[Value]) -> Vec<String> {
    let mut causes: Vec<(String, usize)> = Vec::new();
    for cause in pods.iter().filter_map(of_pod) {
        match causes.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, count)) => *count += 1,
            None => causes.push((cause, 1)),
        }
    }
    causes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let told = |(cause, count)| match count {
        1 => cause,
        count => format!("{cause} ({count} pods)"),
    };
    causes.into_iter().map(told).collect()
}

/// Whether the containers of a pod are still to be made.
pub fn is_being_made(pod: &Value) -> bool {
    worst_container(pod).is_some_and(|(rank, _)| rank == MADE)
}

fn of_pod(pod: &Value) -> Option<String> {
    let fields = Fields(pod);
    let ready = |kind: &str, status: &str| (kind, status) == ("Ready", "True");
    let is_ready = fields.conditions().any(|it| ready(it.kind, it.status));
    let phase = fields.text("/status/phase").unwrap_or_default();
    if is_ready || phase == "Succeeded" || !pod["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    let mut homeless = fields.conditions();
    let homeless = homeless.find(|it| (it.kind, it.status) == ("PodScheduled", "False"));
    if let Some(condition) = homeless {
        return Some(said("no node takes the pod", condition.message));
    }
    match (worst_container(pod), fields.text("/status/message")) {
        // Such as pods that were evicted.
        (None | Some((MADE, _)), Some(message)) => Some(said(
            fields.text("/status/reason").unwrap_or(phase),
            message,
        )),
        (Some((_, text)), _) => Some(text),
        (None, None) if phase == "Pending" => Some(match fields.text("/spec/nodeName") {
            None | Some("") => "no node was chosen for the pod".to_owned(),
            Some(node) => format!("node {node} has not begun with the pod"),
        }),
        _ => None,
    }
}

/// The container that tells most of why a pod is not ready.
fn worst_container(pod: &Value) -> Option<(u8, String)> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let lists = lists
        .iter()
        .filter_map(|field| pod["status"][*field].as_array());
    let containers = lists.flatten().filter_map(of_container);
    containers.min_by_key(|(rank, _)| *rank)
}

/// How a container does that is not ready, and how telling that is: less is more.
fn of_container(status: &Value) -> Option<(u8, String)> {
    if status["ready"] == true {
        return None;
    }
    let name = status["name"].as_str().unwrap_or_default();
    let state = &status["state"];
    if let Some(end) = state.get("terminated").filter(|end| end["exitCode"] != 0) {
        return Some((0, format!("container {name} {}", ended(end))));
    }
    let Some(waiting) = state.get("waiting") else {
        let runs = state.get("running").is_some();
        return runs.then(|| (1, format!("container {name} runs and is not ready")));
    };
    let text = |field: &str| waiting[field].as_str().unwrap_or_default();
    Some(match text("reason") {
        "" | "ContainerCreating" | "PodInitializing" => {
            (MADE, format!("container {name} is being made"))
        }
        // What it says of itself has the name of the pod in it.
        "CrashLoopBackOff" => match status["lastState"].get("terminated") {
            Some(end) => (
                0,
                format!("container {name} again and again {}", ended(end)),
            ),
            None => (0, format!("container {name}: CrashLoopBackOff")),
        },
        reason => (
            0,
            said(&format!("container {name}: {reason}"), text("message")),
        ),
    })
}

fn ended(end: &Value) -> String {
    let text = |field: &str| end[field].as_str().unwrap_or_default();
    let code = end["exitCode"].as_i64().unwrap_or_default();
    let how = match text("reason") {
        "" | "Error" => format!("ended with exit code {code}"),
        reason => format!("ended with exit code {code} ({reason})"),
    };
    said(&how, text("message"))
}

/// The newest of the warnings about something.
pub fn of_events(events: &[Value]) -> Option<String> {
    let warnings = events.iter().filter(|event| event["type"] == "Warning");
    let newest = warnings.max_by_key(|event| {
        let times = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime"];
        let time = |at: &&str| event.pointer(at).and_then(Value::as_str);
        times.iter().find_map(time).unwrap_or_default()
    })?;
    let text = |field: &str| newest[field].as_str().unwrap_or_default();
    (!text("message").is_empty()).then(|| said(text("reason"), text("message")))
}

/// A cause with what was said of it, on one line and not too long.
fn said(what: &str, more: &str) -> String {
    let more: Vec<&str> = more.split_whitespace().collect();
    let more = more.join(" ");
    let short: String = more.chars().take(LONGEST).collect();
    let short = match short.len() < more.len() {
        true => format!("{short}..."),
        false => short,
    };
    match short.is_empty() {
        true => what.to_owned(),
        false => format!("{what}: {short}"),
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    fn pod(status: Value) -> Value {
        json!({"kind": "Pod", "metadata": {"name": "web-x7"}, "status": status})
    }

    fn waiting(reason: &str, message: &str) -> Value {
        json!({"phase": "Pending", "containerStatuses": [{"name": "app", "ready": false,
            "state": {"waiting": {"reason": reason, "message": message}}}]})
    }

    #[test]
    fn cause_is_read_from_pod_status() {
        let crashing = json!({"phase": "Running", "containerStatuses": [{"name": "app", "ready": false,
            "state": {"waiting": {"reason": "CrashLoopBackOff",
                "message": "back-off 5m0s restarting failed container=app pod=web-x7_apps(1)"}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]});
        let homeless = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient memory."}]});
        let unready = json!({"phase": "Running", "containerStatuses": [
            {"name": "side", "ready": true, "state": {"running": {}}},
            {"name": "app", "ready": false, "state": {"running": {}}}]});
        let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."});
        let blocked = json!({"phase": "Pending",
            "initContainerStatuses": [{"name": "setup", "ready": false, "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}],
            "containerStatuses": [{"name": "app", "ready": false, "state": {"waiting": {"reason": "PodInitializing"}}}]});
        for (status, expected) in [
            (
                waiting("ImagePullBackOff", "Back-off pulling image \"x:1\""),
                "container app: ImagePullBackOff: Back-off pulling image \"x:1\"",
            ),
            (
                waiting("ContainerCreating", ""),
                "container app is being made",
            ),
            (
                crashing,
                "container app again and again ended with exit code 137 (OOMKilled)",
            ),
            (
                homeless,
                "no node takes the pod: 0/3 nodes are available: 3 Insufficient memory.",
            ),
            (unready, "container app runs and is not ready"),
            (evicted, "Evicted: The node was low on memory."),
            (blocked, "container setup ended with exit code 1"),
        ] {
            assert_eq!(of_pods(&[pod(status)]), [expected]);
        }
        let ready =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        assert!(of_pods(&[pod(ready), pod(json!({"phase": "Succeeded"}))]).is_empty());
    }

    #[test]
    fn identical_causes_of_several_pods_are_reported_once() {
        let pods = [
            pod(waiting("ErrImagePull", "not found")),
            pod(waiting(
                "CreateContainerConfigError",
                "secret \"a\" not found",
            )),
            pod(waiting(
                "CreateContainerConfigError",
                "secret \"a\" not found",
            )),
        ];
        assert_eq!(
            of_pods(&pods),
            [
                "container app: CreateContainerConfigError: secret \"a\" not found (2 pods)",
                "container app: ErrImagePull: not found",
            ]
        );
    }

    #[test]
    fn selectors_of_workloads() {
        let of = |kind: &str, selector: Value| {
            pod_selector(&json!({"kind": kind, "spec": {"selector": selector}}))
        };
        let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "old", "operator": "DoesNotExist"}]});
        assert_eq!(
            of("Deployment", selector.clone()).as_deref(),
            Some("app=web,tier in (a,b),!old")
        );
        assert_eq!(of("Service", selector), None);
        // Without a selector all pods would be meant.
        assert_eq!(of("Job", json!({})), None);
    }

    #[test]
    fn cause_is_read_from_workload_conditions_and_warning_events() {
        let refused = json!({"status": {"conditions": [{"type": "ReplicaFailure", "status": "True",
            "reason": "FailedCreate", "message": "exceeded\nquota"}]}});
        assert_eq!(
            of_workload(&refused).as_deref(),
            Some("FailedCreate: exceeded quota")
        );
        assert_eq!(of_workload(&json!({})), None);
        let event = |kind: &str, at: &str, message: &str| json!({"type": kind, "lastTimestamp": at, "reason": "FailedMount", "message": message});
        let events = [
            event("Warning", "2026-01-01T00:00:02Z", "newer"),
            event("Warning", "2026-01-01T00:00:01Z", "older"),
            event("Normal", "2026-01-01T00:00:03Z", "fine"),
        ];
        assert_eq!(of_events(&events).as_deref(), Some("FailedMount: newer"));
        let long = event("Warning", "", &"x".repeat(500));
        let said = of_events(&[long]).unwrap();
        assert_eq!(said.len(), "FailedMount: ...".len() + LONGEST);
    }
}
