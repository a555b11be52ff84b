//! Why workloads are not healthy: the status says what pods and events say.

use std::time::Duration;

use everflow_controllers::ControllerKind;
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Patch, Resource, WriteOptions};
use everflow_runtime::events::EVENTS;

use super::remote::{condition, kustomization, source};
use super::scenario::Scenario;
use super::world::{World, recorded_options};

const NAMESPACE: &str = "k-causes";
const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
const SETS: Resource = Resource::namespaced("apps", "v1", "statefulsets", "StatefulSet");

fn workload(kind: &str, name: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: main, image: x:1}}]}}
"
    )
}

/// A pod as the node leaves it.
async fn pod(world: &World, name: &str, state: Value) {
    let by = WriteOptions::by("kubelet");
    let object = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "x:1"}]}});
    let created = world.client.create(&PODS, NAMESPACE, &object, &by).await;
    created.unwrap();
    let status = json!({"status": {"phase": "Pending", "containerStatuses": [{"name": "main", "ready": false,
        "image": "x:1", "imageID": "", "restartCount": 0, "state": state}]}});
    let at = At::new(NAMESPACE, name).status();
    let status = Patch::Merge(status);
    let patched = world.client.patch(&PODS, at, &status, &by).await;
    patched.unwrap();
}

/// A warning about a StatefulSet.
async fn warn(world: &World, name: &str, message: &str) {
    let set = world.client.get(&SETS, At::new(NAMESPACE, name)).await;
    let event = json!({"apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{name}.1"), "namespace": NAMESPACE},
        "involvedObject": {"apiVersion": "apps/v1", "kind": "StatefulSet", "namespace": NAMESPACE,
            "name": name, "uid": set.unwrap()["metadata"]["uid"]},
        "type": "Warning", "reason": "FailedCreate", "message": message,
        "lastTimestamp": "2026-01-01T00:00:00Z"});
    let by = WriteOptions::by("statefulset-controller");
    let created = world.client.create(&EVENTS, NAMESPACE, &event, &by).await;
    created.unwrap();
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn status_has_causes_from_pods_and_events() {
    let scenario: Scenario = everflow_json::from_value(json!({
        "name": "causes", "namespace": NAMESPACE, "then": {},
        "files": {"web.yaml": workload("Deployment", "web"), "db.yaml": workload("StatefulSet", "db")},
    }))
    .unwrap();
    let mut world = World::start(&scenario, recorded_options(), ControllerKind::ALL).await;
    world.apply(&source(NAMESPACE)).await.unwrap();
    let spec = json!({"targetNamespace": NAMESPACE, "retryInterval": "10m"});
    world.apply(&kustomization(spec)).await.unwrap();
    world.sleep(Duration::from_secs(5)).await;
    let failing = json!({"waiting": {"reason": "ErrImagePull", "message": "x:1: not found"}});
    for name in ["web-1", "web-2"] {
        pod(&world, name, failing.clone()).await;
    }
    warn(&world, "db", "create Pod db-0 failed: exceeded quota: q").await;
    world.sleep(Duration::from_secs(40)).await;
    let message = condition(&world, NAMESPACE, "Ready").await.unwrap().1;
    let lines: Vec<&str> = message.lines().collect();
    let [first, web, db] = &lines[..] else {
        panic!("{message}");
    };
    assert!(first.starts_with("health check failed after 30"), "{first}");
    assert!(
        first.ends_with(
            "timeout waiting for: [Deployment/k-causes/web status: 'InProgress', StatefulSet/k-causes/db status: 'InProgress']"
        ),
        "{first}"
    );
    assert_eq!(
        *web,
        "Deployment/k-causes/web: Replicas: 0/1; container main: ErrImagePull: x:1: not found (2 pods)"
    );
    assert_eq!(
        *db,
        "StatefulSet/k-causes/db: Replicas: 0/1; FailedCreate: create Pod db-0 failed: exceeded quota: q"
    );
    world.stop_engine().await;
}
