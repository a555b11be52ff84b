//! Readiness as Helm 3 judged it: by what a few kinds say of themselves; objects of all other kinds are ready when
//! they are there.

use everflow_json::Value;

/// How an object stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It is ready.
    Ready,
    /// It is not yet: why.
    Waiting(String),
    /// It cannot become ready: why.
    Failed(String),
}

/// Judges a live object. Jobs count only where they are waited for.
pub fn readiness(live: &Value, with_jobs: bool) -> Readiness {
    let api_version = live["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let kind = live["kind"].as_str().unwrap_or_default();
    match (group, kind) {
        ("", "Pod") => when(is_true(live, "Ready"), || "the Pod is not ready".into()),
        ("batch", "Job") if with_jobs => job(live),
        ("apps", "Deployment") => deployment(live),
        ("apps", "DaemonSet") => daemon_set(live),
        ("apps", "StatefulSet") => stateful_set(live),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => replicas(live),
        ("", "PersistentVolumeClaim") => when(live["status"]["phase"] == "Bound", || {
            "the claim is not bound".to_owned()
        }),
        ("", "Service") => service(live),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let is_known = is_true(live, "Established") || is_false(live, "NamesAccepted");
            when(is_known, || "the definition is not established".to_owned())
        }
        _ => Readiness::Ready,
    }
}

fn when(is_ready: bool, why: impl FnOnce() -> String) -> Readiness {
    match is_ready {
        true => Readiness::Ready,
        false => Readiness::Waiting(why()),
    }
}

fn count(object: &Value, path: &str) -> i64 {
    let found = object.pointer(path).and_then(Value::as_i64);
    found.unwrap_or_default()
}

/// How many are asked for; one where nothing is said.
fn wanted(object: &Value) -> i64 {
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64);
    replicas.unwrap_or(1)
}

fn has_status(object: &Value, kind: &str, status: &str) -> bool {
    let conditions = object.pointer("/status/conditions");
    let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    let mut of_kind = conditions.filter(|condition| condition["type"] == kind);
    of_kind.any(|condition| condition["status"] == status)
}

fn is_true(object: &Value, kind: &str) -> bool {
    has_status(object, kind, "True")
}

fn is_false(object: &Value, kind: &str) -> bool {
    has_status(object, kind, "False")
}

fn is_observed(object: &Value) -> bool {
    count(object, "/status/observedGeneration") >= count(object, "/metadata/generation")
}

fn job(live: &Value) -> Readiness {
    let limit = live.pointer("/spec/backoffLimit").and_then(Value::as_i64);
    let failed = count(live, "/status/failed");
    if failed > limit.unwrap_or(6) {
        return Readiness::Failed(format!("the Job has failed {failed} times"));
    }
    let completions = live.pointer("/spec/completions").and_then(Value::as_i64);
    let succeeded = count(live, "/status/succeeded");
    when(completions.is_none_or(|all| succeeded >= all), || {
        "the Job is not complete".to_owned()
    })
}

/// Helm 3 asked the newest ReplicaSet how many of its Pods are ready. That follows from the Deployment, too: of
/// those that are ready at least so many are new as there are more than old ones.
fn deployment(live: &Value) -> Readiness {
    if live["spec"]["paused"] == true {
        return Readiness::Ready;
    }
    let old = count(live, "/status/replicas") - count(live, "/status/updatedReplicas");
    let ready = count(live, "/status/readyReplicas") - old.max(0);
    let wanted = wanted(live);
    let least = wanted - unavailable_deployment(live, wanted);
    when(is_observed(live) && ready >= least, || {
        format!("{} of {least} Pods are ready", ready.max(0))
    })
}

fn unavailable_deployment(live: &Value, wanted: i64) -> i64 {
    let strategy = &live["spec"]["strategy"];
    if strategy["type"] != "RollingUpdate" || wanted == 0 {
        return 0;
    }
    let of = |field: &str| &strategy["rollingUpdate"][field];
    let surge = share(of("maxSurge"), wanted, true);
    let unavailable = share(of("maxUnavailable"), wanted, false);
    match surge == 0 && unavailable == 0 {
        true => 1,
        false => unavailable.min(wanted),
    }
}

/// A number, or a percentage of one.
fn share(value: &Value, of: i64, up: bool) -> i64 {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%'));
    let percent = percent.and_then(|text| text.parse::<i64>().ok());
    match percent {
        Some(percent) => (percent.saturating_mul(of) + if up { 99 } else { 0 }) / 100,
        None => value.as_i64().unwrap_or_default(),
    }
}

fn daemon_set(live: &Value) -> Readiness {
    if !is_observed(live) {
        return Readiness::Waiting("the DaemonSet has not been looked at yet".to_owned());
    }
    let strategy = &live["spec"]["updateStrategy"];
    if strategy["type"] != "RollingUpdate" {
        return Readiness::Ready;
    }
    let desired = count(live, "/status/desiredNumberScheduled");
    let updated = count(live, "/status/updatedNumberScheduled");
    let unavailable = share(&strategy["rollingUpdate"]["maxUnavailable"], desired, true);
    let (ready, least) = (count(live, "/status/numberReady"), desired - unavailable);
    when(updated == desired && ready >= least, || {
        format!("{ready} of {least} Pods are ready, {updated} of {desired} are new")
    })
}

fn stateful_set(live: &Value) -> Readiness {
    if !is_observed(live) {
        return Readiness::Waiting("the StatefulSet has not been looked at yet".to_owned());
    }
    let strategy = &live["spec"]["updateStrategy"];
    if strategy["type"] != "RollingUpdate" {
        return Readiness::Ready;
    }
    let partition = count(live, "/spec/updateStrategy/rollingUpdate/partition");
    let wanted = wanted(live);
    let updated = count(live, "/status/updatedReplicas");
    let ready = count(live, "/status/readyReplicas");
    let status = &live["status"];
    let is_rolled_out = partition != 0 || status["currentRevision"] == status["updateRevision"];
    let is_ready = updated >= wanted - partition && ready == wanted && is_rolled_out;
    when(is_ready, || {
        format!("{ready} of {wanted} Pods are ready, {updated} are new")
    })
}

fn replicas(live: &Value) -> Readiness {
    let (ready, wanted) = (count(live, "/status/readyReplicas"), wanted(live));
    when(is_observed(live) && ready >= wanted, || {
        format!("{ready} of {wanted} Pods are ready")
    })
}

fn service(live: &Value) -> Readiness {
    let spec = &live["spec"];
    if spec["type"] == "ExternalName" {
        return Readiness::Ready;
    }
    if spec["clusterIP"].as_str().unwrap_or_default().is_empty() {
        return Readiness::Waiting("the Service has no address".to_owned());
    }
    let has_any = |path: &str| {
        let list = live.pointer(path).and_then(Value::as_array);
        list.is_some_and(|list| !list.is_empty())
    };
    let waits = spec["type"] == "LoadBalancer" && !has_any("/spec/externalIPs");
    when(!waits || has_any("/status/loadBalancer/ingress"), || {
        "the load balancer has no address".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    fn is_ready(live: Value) -> bool {
        readiness(&live, true) == Readiness::Ready
    }

    fn deployment_with(status: Value) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": 2},
            "spec": {"replicas": 4, "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}},
            "status": status,
        })
    }

    #[test]
    fn a_deployment_counts_pods_of_its_newest_template() {
        let with = |replicas: i64, updated: i64, ready: i64, observed: i64| {
            deployment_with(json!({"observedGeneration": observed, "replicas": replicas,
                "updatedReplicas": updated, "readyReplicas": ready}))
        };
        assert!(is_ready(with(4, 4, 3, 2)));
        assert!(!is_ready(with(4, 4, 2, 2)));
        assert!(!is_ready(with(4, 4, 4, 1)));
        // Two of the ready ones may be old.
        assert!(!is_ready(with(5, 3, 4, 2)));
        let mut paused = with(0, 0, 0, 1);
        paused["spec"]["paused"] = json!(true);
        assert!(is_ready(paused));
    }

    #[test]
    fn objects_of_unknown_kinds_are_ready_whatever_they_say() {
        let custom = json!({"apiVersion": "example.com/v1", "kind": "Database",
            "status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        assert!(is_ready(custom));
    }

    #[test]
    fn jobs_are_judged_only_where_they_are_waited_for() {
        let job = |status: Value| {
            json!({"apiVersion": "batch/v1", "kind": "Job",
                "spec": {"completions": 1, "backoffLimit": 0}, "status": status})
        };
        assert!(!is_ready(job(json!({}))));
        assert!(is_ready(job(json!({"succeeded": 1}))));
        assert_eq!(readiness(&job(json!({})), false), Readiness::Ready);
        let failed = readiness(&job(json!({"failed": 1})), true);
        assert!(matches!(failed, Readiness::Failed(_)));
    }

    #[test]
    fn a_load_balancer_needs_an_address() {
        let service = |kind: &str, ingress: Value| {
            json!({"apiVersion": "v1", "kind": "Service",
                "spec": {"type": kind, "clusterIP": "10.0.0.1"},
                "status": {"loadBalancer": {"ingress": ingress}}})
        };
        assert!(is_ready(service("ClusterIP", json!([]))));
        assert!(!is_ready(service("LoadBalancer", json!([]))));
        assert!(is_ready(service(
            "LoadBalancer",
            json!([{"ip": "1.2.3.4"}])
        )));
    }

    #[test]
    fn a_stateful_set_is_ready_when_it_is_rolled_out() {
        let set = |current: &str| {
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"generation": 1},
                "spec": {"replicas": 1, "updateStrategy": {"type": "RollingUpdate"}},
                "status": {"observedGeneration": 1, "updatedReplicas": 1, "readyReplicas": 1,
                    "currentRevision": current, "updateRevision": "b"}})
        };
        assert!(!is_ready(set("a")));
        assert!(is_ready(set("b")));
    }
}
