//! The controllers: what settles, what fails when asked to, and what goes away.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use everflow_cluster::env::ManualEnvironment;
use everflow_cluster::time::Timestamp;
use everflow_cluster::{ApiServer, Body, Options, Request};
use everflow_json::{Value, json};

struct Cluster {
    server: ApiServer,
    env: Arc<ManualEnvironment>,
}

impl Cluster {
    fn new(delay: Duration) -> Self {
        let env = Arc::new(ManualEnvironment::new(
            Timestamp::from_seconds(1_794_740_000),
            9,
        ));
        let options = Options {
            workload_delay: delay,
            root_certificate: Some("PEM".into()),
            ..Options::default()
        }
        .with_controllers("all")
        .unwrap();
        Cluster {
            server: ApiServer::new(env.clone(), options),
            env,
        }
    }

    fn send(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let media = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let bytes = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = Request::new(method, path, bytes)
            .header("content-type", media)
            .header("user-agent", "test/1");
        let answer = self.server.handle(&request);
        let Body::Full(bytes) = answer.body else {
            return (answer.status, Value::Null);
        };
        (
            answer.status,
            everflow_json::from_slice(&bytes).unwrap_or_default(),
        )
    }

    fn make(&self, path: &str, object: Value) {
        let (status, answer) = self.send("POST", path, object);
        assert_eq!(status, 201, "{answer}");
    }

    fn get(&self, path: &str) -> Value {
        let (status, answer) = self.send("GET", path, Value::Null);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    fn count(&self, path: &str) -> usize {
        self.get(path)["items"].as_array().unwrap().len()
    }

    fn pass(&self, seconds: i64) {
        self.env.advance_micros(seconds * 1_000_000);
        self.server.tick();
    }
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

fn workload(kind: &str, name: &str, annotations: Value) -> Value {
    let group = if kind == "Job" { "batch/v1" } else { "apps/v1" };
    let mut object = json!({
        "apiVersion": group, "kind": kind, "metadata": {"name": name, "annotations": annotations},
        "spec": {"template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "img:1"}]}}}
    });
    match kind {
        "Job" => object["spec"]["template"]["spec"]["restartPolicy"] = "Never".into(),
        _ => object["spec"]["selector"] = json!({"matchLabels": {"app": name}}),
    }
    if matches!(kind, "Deployment" | "StatefulSet") {
        object["spec"]["replicas"] = 2.into();
    }
    object
}

fn condition<'o>(object: &'o Value, kind: &str) -> &'o Value {
    object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind)
        .unwrap_or(&Value::Null)
}

#[test]
fn the_name_of_a_template_is_not_that_of_its_pods() {
    let cluster = Cluster::new(Duration::ZERO);
    let mut deployment = workload("Deployment", "web", json!({}));
    deployment["spec"]["template"]["metadata"]["name"] = "web".into();
    cluster.make(DEPLOYMENTS, deployment);
    let deployment = cluster.get(&format!("{DEPLOYMENTS}/web"));
    assert_eq!(deployment["status"]["availableReplicas"], 2);
    assert_eq!(cluster.count(PODS), 2);
}

#[test]
fn deployments_start_roll_out_and_are_deleted() {
    let cluster = Cluster::new(Duration::ZERO);
    cluster.make(DEPLOYMENTS, workload("Deployment", "web", json!({})));
    let path = format!("{DEPLOYMENTS}/web");
    let up = cluster.get(&path);
    let status = &up["status"];
    assert_eq!(status["availableReplicas"], 2, "{up}");
    assert_eq!(status["updatedReplicas"], 2);
    assert_eq!(status["observedGeneration"], up["metadata"]["generation"]);
    assert_eq!(
        condition(&up, "Progressing")["reason"],
        "NewReplicaSetAvailable"
    );
    assert_eq!(condition(&up, "Available")["status"], "True");
    assert_eq!((cluster.count(SETS), cluster.count(PODS)), (1, 2));

    let change =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "img:2"}]}}}});
    cluster.send("PATCH", &path, change);
    let rolled = cluster.get(&path);
    assert_eq!(rolled["status"]["replicas"], 2, "{rolled}");
    assert_eq!(
        rolled["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        "2"
    );
    assert_eq!((cluster.count(SETS), cluster.count(PODS)), (2, 2));
    let pods = cluster.get(PODS);
    assert!(
        pods["items"]
            .as_array()
            .unwrap()
            .iter()
            .all(|pod| pod["spec"]["containers"][0]["image"] == "img:2")
    );

    cluster.send("PATCH", &path, json!({"spec": {"replicas": 5}}));
    assert_eq!(cluster.count(PODS), 5);
    cluster.send("DELETE", &path, Value::Null);
    assert_eq!((cluster.count(SETS), cluster.count(PODS)), (0, 0));
}

#[test]
fn deployment_becomes_available_after_the_start_delay() {
    let cluster = Cluster::new(Duration::from_secs(5));
    cluster.make(DEPLOYMENTS, workload("Deployment", "web", json!({})));
    let path = format!("{DEPLOYMENTS}/web");
    assert_eq!(cluster.get(&path)["status"]["unavailableReplicas"], 2);
    assert!(cluster.server.next_due().is_some());
    cluster.pass(4);
    assert!(
        cluster.get(&path)["status"]
            .get("availableReplicas")
            .is_none()
    );
    cluster.pass(1);
    assert_eq!(cluster.get(&path)["status"]["availableReplicas"], 2);
}

#[test]
fn a_deployment_that_never_comes_up_runs_out_of_time() {
    let cluster = Cluster::new(Duration::ZERO);
    let behavior = json!({"cluster.everflow.dev/behavior": "image-pull"});
    cluster.make(DEPLOYMENTS, workload("Deployment", "web", behavior));
    let path = format!("{DEPLOYMENTS}/web");
    let stuck = cluster.get(&path);
    assert_eq!(condition(&stuck, "Available")["status"], "False", "{stuck}");
    assert_eq!(condition(&stuck, "Progressing")["status"], "True");
    let pod = &cluster.get(PODS)["items"][0];
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "ImagePullBackOff");
    cluster.pass(600);
    let late = cluster.get(&path);
    assert_eq!(condition(&late, "Progressing")["status"], "False", "{late}");
    assert_eq!(
        condition(&late, "Progressing")["reason"],
        "ProgressDeadlineExceeded"
    );
    // Mending it lets it come up.
    let mended = json!({"metadata": {"annotations": {"cluster.everflow.dev/behavior": null}}, "spec": {"template": {"metadata": {"labels": {"fixed": "yes"}}}}});
    cluster.send("PATCH", &path, mended);
    let good = cluster.get(&path);
    assert_eq!(good["status"]["availableReplicas"], 2, "{good}");
}

#[test]
fn pods_of_stateful_sets_mount_their_claims() {
    let cluster = Cluster::new(Duration::ZERO);
    let path = "/apis/apps/v1/namespaces/default/statefulsets";
    let mut set = workload("StatefulSet", "db", json!({}));
    set["spec"]["serviceName"] = json!("db-headless");
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let spec = &mut set["spec"]["template"]["spec"];
    spec["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    cluster.make(path, set);
    let pod = cluster.get("/api/v1/namespaces/default/pods/db-0");
    let data = pod["spec"]["volumes"].as_array().unwrap();
    let data = data.iter().find(|volume| volume["name"] == "data");
    assert_eq!(
        data.unwrap()["persistentVolumeClaim"]["claimName"],
        "data-db-0"
    );
    assert_eq!(pod["spec"]["hostname"], "db-0");
    assert_eq!(pod["spec"]["subdomain"], "db-headless");
    let ready = &cluster.get(&format!("{path}/db"))["status"]["readyReplicas"];
    assert_eq!(
        *ready,
        cluster.get(&format!("{path}/db"))["spec"]["replicas"]
    );
}

#[test]
fn stateful_sets_start_one_pod_after_the_other() {
    let cluster = Cluster::new(Duration::from_secs(1));
    let path = "/apis/apps/v1/namespaces/default/statefulsets";
    let mut set = workload("StatefulSet", "db", json!({}));
    set["spec"]["serviceName"] = "db".into();
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    cluster.make(path, set);
    assert_eq!(cluster.count(PODS), 1);
    cluster.pass(1);
    assert_eq!(cluster.count(PODS), 2);
    cluster.pass(1);
    let up = cluster.get(&format!("{path}/db"));
    assert_eq!(up["status"]["readyReplicas"], 2, "{up}");
    assert_eq!(
        up["status"]["currentRevision"],
        up["status"]["updateRevision"]
    );
    cluster.pass(1);
    let claim = cluster.get("/api/v1/namespaces/default/persistentvolumeclaims/data-db-1");
    assert_eq!(claim["status"]["phase"], "Bound", "{claim}");
}

#[test]
fn daemons_and_jobs_come_up_and_fail() {
    let cluster = Cluster::new(Duration::ZERO);
    cluster.make(
        "/apis/apps/v1/namespaces/default/daemonsets",
        workload("DaemonSet", "agent", json!({})),
    );
    let set = cluster.get("/apis/apps/v1/namespaces/default/daemonsets/agent");
    assert_eq!(set["status"]["numberReady"], 1, "{set}");
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    cluster.make(jobs, workload("Job", "good", json!({})));
    let good = cluster.get(&format!("{jobs}/good"));
    assert_eq!(condition(&good, "Complete")["status"], "True", "{good}");
    let behavior = json!({"cluster.everflow.dev/behavior": "job-failed"});
    let mut bad = workload("Job", "bad", behavior);
    bad["spec"]["backoffLimit"] = 1.into();
    cluster.make(jobs, bad);
    let bad = cluster.get(&format!("{jobs}/bad"));
    assert_eq!(
        condition(&bad, "Failed")["reason"],
        "BackoffLimitExceeded",
        "{bad}"
    );
    assert_eq!(bad["status"]["failed"], 2);
}

#[test]
fn namespaces_begin_and_end() {
    let cluster = Cluster::new(Duration::ZERO);
    cluster.make("/api/v1/namespaces", json!({"metadata": {"name": "n"}}));
    cluster.get("/api/v1/namespaces/n/serviceaccounts/default");
    let root = cluster.get("/api/v1/namespaces/n/configmaps/kube-root-ca.crt");
    assert_eq!(root["data"]["ca.crt"], "PEM");
    let maps = "/api/v1/namespaces/n/configmaps";
    cluster.make(
        maps,
        json!({"metadata": {"name": "held", "finalizers": ["a.io/b"]}}),
    );
    cluster.send("DELETE", "/api/v1/namespaces/n", Value::Null);
    assert_eq!(
        cluster.get("/api/v1/namespaces/n")["status"]["phase"],
        "Terminating"
    );
    cluster.send(
        "PATCH",
        &format!("{maps}/held"),
        json!({"metadata": {"finalizers": null}}),
    );
    let (status, _) = cluster.send("GET", "/api/v1/namespaces/n", Value::Null);
    assert_eq!(status, 404);
}

#[test]
fn dependents_are_deleted_with_their_owner_unless_orphaned() {
    let cluster = Cluster::new(Duration::ZERO);
    let maps = "/api/v1/namespaces/default/configmaps";
    for (policy, dependent_stays) in [
        ("Background", false),
        ("Foreground", false),
        ("Orphan", true),
    ] {
        let name = policy.to_lowercase();
        cluster.make(maps, json!({"metadata": {"name": name}}));
        let owner = cluster.get(&format!("{maps}/{name}"));
        let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true});
        cluster.make(
            maps,
            json!({"metadata": {"name": format!("{name}-child"), "ownerReferences": [reference]}}),
        );
        cluster.send(
            "DELETE",
            &format!("{maps}/{name}"),
            json!({"propagationPolicy": policy}),
        );
        let (owner, _) = cluster.send("GET", &format!("{maps}/{name}"), Value::Null);
        assert_eq!(owner, 404, "{policy}");
        let (child, body) = cluster.send("GET", &format!("{maps}/{name}-child"), Value::Null);
        assert_eq!(child == 200, dependent_stays, "{policy}: {body}");
    }
}

#[test]
fn aggregated_roles_are_filled() {
    let cluster = Cluster::new(Duration::ZERO);
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let view = |cluster: &Cluster| {
        cluster.get(&format!("{roles}/view"))["rules"]
            .as_array()
            .unwrap()
            .len()
    };
    let before = view(&cluster);
    assert!(before > 5);
    cluster.make(
        roles,
        json!({"metadata": {"name": "widgets", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
               "rules": [{"apiGroups": ["x.io"], "resources": ["widgets"], "verbs": ["get"]}]}),
    );
    assert_eq!(view(&cluster), before + 1);
}

#[test]
fn cron_jobs_start_jobs_at_their_times() {
    let cluster = Cluster::new(Duration::ZERO);
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let crons = "/apis/batch/v1/namespaces/default/cronjobs";
    let cron = json!({"metadata": {"name": "tick"}, "spec": {"schedule": "*/5 * * * *", "jobTemplate": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}});
    cluster.make(crons, cron);
    let names = || {
        let list = cluster.send("GET", jobs, Value::Null).1;
        let items = list["items"].as_array().unwrap().clone();
        let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
        (items.iter().map(name).collect::<Vec<_>>(), items)
    };
    assert_eq!(names().0, Vec::<String>::new());
    // It is 10:53:20; the first time is 10:55.
    cluster.env.advance_micros(100 * 1_000_000);
    cluster.server.tick();
    let (first, items) = names();
    assert_eq!(first, ["tick-29912335"]);
    let scheduled = "batch.kubernetes.io/cronjob-scheduled-timestamp";
    let metadata = &items[0]["metadata"];
    assert_eq!(metadata["annotations"][scheduled], "2026-11-15T10:55:00Z");
    assert_eq!(metadata["ownerReferences"][0]["kind"], "CronJob");
    assert_eq!(metadata["labels"]["a"], "b");
    assert_eq!(items[0]["status"]["succeeded"], 1);
    let status = cluster.send("GET", &format!("{crons}/tick"), Value::Null).1["status"].clone();
    assert_eq!(status["lastScheduleTime"], "2026-11-15T10:55:00Z");
    assert!(status["lastSuccessfulTime"].is_string() && status.get("active").is_none());
    // A long sleep makes up for the newest time only; three ended Jobs are kept.
    cluster.env.advance_micros(3600 * 1_000_000);
    cluster.server.tick();
    assert_eq!(names().0.len(), 2);
    for _ in 0..6 {
        cluster.env.advance_micros(300 * 1_000_000);
        cluster.server.tick();
    }
    assert_eq!(names().0.len(), 3);
    let suspend = json!({"spec": {"suspend": true}});
    cluster.send("PATCH", &format!("{crons}/tick"), suspend);
    let before = names().0;
    cluster.env.advance_micros(3600 * 1_000_000);
    cluster.server.tick();
    assert_eq!(names().0, before);
}

#[test]
fn quotas_are_counted_and_enforced() {
    let cluster = Cluster::new(Duration::ZERO);
    let root = "/api/v1/namespaces/default";
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {
        "pods": "2", "requests.cpu": "1", "count/configmaps": "2", "services.nodeports": "1", "count/deployments.apps": "1"}}});
    cluster.make(&format!("{root}/resourcequotas"), quota);
    let status = || {
        cluster
            .send("GET", &format!("{root}/resourcequotas/q"), Value::Null)
            .1["status"]
            .clone()
    };
    assert_eq!(status()["hard"]["pods"], "2");
    // The root certificate is a ConfigMap of every namespace.
    assert_eq!(
        status()["used"],
        json!({"pods": "0", "requests.cpu": "0", "count/configmaps": "1",
        "services.nodeports": "0", "count/deployments.apps": "0"})
    );
    let pod = |name: &str, cpu: &str| {
        json!({"metadata": {"name": name}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}})
    };
    let pods = format!("{root}/pods");
    let refusal = |(code, body): (u16, Value)| {
        assert_eq!(
            (code, body["reason"].as_str()),
            (403, Some("Forbidden")),
            "{body}"
        );
        body["message"].as_str().unwrap().to_owned()
    };
    let bare =
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(
        refusal(cluster.send("POST", &pods, bare)),
        "pods \"a\" is forbidden: failed quota: q: must specify requests.cpu for: c"
    );
    cluster.make(&pods, pod("a", "600m"));
    assert_eq!(status()["used"]["requests.cpu"], "600m");
    assert_eq!(
        refusal(cluster.send("POST", &pods, pod("b", "500m"))),
        "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"
    );
    let dry = format!("{pods}?dryRun=All");
    assert_eq!(cluster.send("POST", &dry, pod("b", "400m")).0, 201);
    assert_eq!(status()["used"]["pods"], "1", "a trial costs nothing");
    cluster.make(&pods, pod("b", "400m"));
    assert_eq!(
        refusal(cluster.send("POST", &pods, pod("c", "1m"))),
        "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=1m, used: pods=2,requests.cpu=1, limited: pods=2,requests.cpu=1"
    );
    let now = json!({"gracePeriodSeconds": 0});
    cluster.send("DELETE", &format!("{pods}/a"), now);
    assert_eq!(status()["used"]["pods"], "1", "what goes is free again");
    cluster.make(
        &format!("{root}/configmaps"),
        json!({"metadata": {"name": "m"}}),
    );
    assert_eq!(
        refusal(cluster.send(
            "POST",
            &format!("{root}/configmaps"),
            json!({"metadata": {"name": "n"}})
        )),
        "configmaps \"n\" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=2, limited: count/configmaps=2"
    );
    let service =
        json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    cluster.make(&format!("{root}/services"), service);
    let two = json!({"spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}});
    assert_eq!(
        refusal(cluster.send("PATCH", &format!("{root}/services/s"), two)),
        "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=1, limited: services.nodeports=1"
    );
    let plain = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80, "nodePort": null}]}});
    assert_eq!(
        cluster
            .send("PATCH", &format!("{root}/services/s"), plain)
            .0,
        200
    );
    assert_eq!(status()["used"]["services.nodeports"], "0");
}

#[test]
fn refused_pods_are_reported_and_retried() {
    let cluster = Cluster::new(Duration::ZERO);
    let root = "/api/v1/namespaces/default";
    let quota = |pods: &str| json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": pods}}});
    cluster.make(&format!("{root}/resourcequotas"), quota("0"));
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let of = |kind: &str, more: Value| {
        let mut object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"},
            "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}});
        let spec = object["spec"].as_object_mut().unwrap();
        spec.extend(more.as_object().unwrap().clone());
        object
    };
    cluster.make(DEPLOYMENTS, of("Deployment", json!({"replicas": 2})));
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    cluster.make(sets, of("StatefulSet", json!({"serviceName": "a"})));
    let daemons = "/apis/apps/v1/namespaces/default/daemonsets";
    cluster.make(daemons, of("DaemonSet", json!({})));
    let failure = || {
        let deployment = cluster.get(&format!("{DEPLOYMENTS}/a"));
        let conditions = deployment["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap().into_iter();
        conditions.find(|condition| condition["type"] == "ReplicaFailure")
    };
    let told = failure().unwrap();
    assert_eq!(told["reason"], "FailedCreate");
    let said = "is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0";
    let message = told["message"].as_str().unwrap();
    assert!(message.ends_with(said), "{message}");
    let events = cluster.get(&format!("{root}/events"));
    let about = |kind: &str| {
        let events = events["items"].as_array().unwrap().iter();
        events
            .filter(|event| {
                event["involvedObject"]["kind"] == kind && event["reason"] == "FailedCreate"
            })
            .map(|event| event["message"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for kind in ["ReplicaSet", "StatefulSet", "DaemonSet"] {
        let messages = about(kind);
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(
            messages[0].starts_with("Error creating: pods \"a"),
            "{messages:?}"
        );
        assert!(messages[0].ends_with(said), "{messages:?}");
    }
    let before = cluster.get(&format!("{root}/events"))["metadata"].clone();
    cluster.pass(60);
    assert_eq!(
        cluster.get(&format!("{root}/events"))["metadata"],
        before,
        "nothing new, nothing written"
    );
    cluster.send("PATCH", &format!("{root}/resourcequotas/q"), quota("9"));
    cluster.pass(15);
    assert_eq!(cluster.count(PODS), 4);
    assert_eq!(failure(), None);
    assert_eq!(
        cluster.get(&format!("{DEPLOYMENTS}/a"))["status"]["availableReplicas"],
        2
    );
}
