//! What a tenant's Kustomization gets to know of objects that are not its own.

use std::time::Duration;

use everflow_controllers::ControllerKind;
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Patch, Resource, WriteOptions};

use super::remote::{account, condition, kustomization, source};
use super::scenario::Scenario;
use super::world::{World, recorded_options};

const NAMESPACE: &str = "k-remote";
const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");
const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {a: '1'}\n";
const WEB: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: x:1}]}
";

/// A cluster with a source and an account that may do anything with ConfigMaps and nothing else.
async fn world() -> World {
    let scenario: Scenario = everflow_json::from_value(json!({
        "name": "tenants", "namespace": NAMESPACE, "then": {},
        "files": {"mine/one.yaml": MAP, "others/web.yaml": WEB},
    }))
    .unwrap();
    let world = World::start(&scenario, recorded_options(), ControllerKind::ALL).await;
    account(&world, &["get", "list", "create", "patch", "delete"]).await;
    world.apply(&source(NAMESPACE)).await.unwrap();
    world
}

/// The tenant's Kustomization with these checks, in the name of `service_account`.
fn checking(service_account: &str, checks: Value, expressions: Value) -> Value {
    kustomization(
        json!({"path": "./mine", "wait": false, "serviceAccountName": service_account,
        "timeout": "10s", "retryInterval": "10m", "healthChecks": checks,
        "healthCheckExprs": expressions}),
    )
}

async fn ready(world: &World) -> (String, String) {
    let found = condition(world, NAMESPACE, "Ready").await;
    found.unwrap_or_default()
}

/// Somebody else's Kustomization delivers a Deployment that becomes healthy.
async fn deliver_web(world: &mut World) {
    let mut other = kustomization(json!({"path": "./others", "wait": false}));
    other["metadata"]["name"] = json!("other");
    world.apply(&other).await.unwrap();
    world.sleep(Duration::from_secs(5)).await;
    let status = json!({"status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1,
        "updatedReplicas": 1, "availableReplicas": 1,
        "conditions": [{"type": "Available", "status": "True"},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]}});
    let by = WriteOptions::by("deployment-controller");
    let at = At::new(NAMESPACE, "web").status();
    let status = Patch::Merge(status);
    let patched = world.client.patch(&DEPLOYMENTS, at, &status, &by).await;
    patched.unwrap();
    world.sleep(Duration::from_secs(2)).await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn health_check_of_foreign_object_is_made_as_the_service_account() {
    let mut world = world().await;
    deliver_web(&mut world).await;
    let check = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": NAMESPACE}]);
    let tenant = checking("deployer", check.clone(), json!([]));
    world.apply(&tenant).await.unwrap();
    world.sleep(Duration::from_secs(60)).await;
    let (status, message) = ready(&world).await;
    assert_eq!(status, "False", "{message}");
    assert!(
        message.contains("forbidden")
            && message.contains("system:serviceaccount:k-remote:deployer"),
        "{message}"
    );
    // Who applies with the engine's own rights may read it.
    world.apply(&checking("", check, json!([]))).await.unwrap();
    world.sleep(Duration::from_secs(60)).await;
    let (status, message) = ready(&world).await;
    assert_eq!(status, "True", "{message}");
    world.stop_engine().await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn health_check_of_missing_config_map_fails() {
    let mut world = world().await;
    let check =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "namespace": NAMESPACE}]);
    world
        .apply(&checking("deployer", check, json!([])))
        .await
        .unwrap();
    world.sleep(Duration::from_secs(60)).await;
    let (status, message) = ready(&world).await;
    assert_eq!(status, "False", "{message}");
    assert!(
        message.contains("ConfigMap/k-remote/none status: 'NotFound'"),
        "{message}"
    );
    world.stop_engine().await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn health_check_of_forbidden_secret_fails() {
    let mut world = world().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    world.apply(&secret).await.unwrap();
    let check =
        json!([{"apiVersion": "v1", "kind": "Secret", "name": "s", "namespace": NAMESPACE}]);
    world
        .apply(&checking("deployer", check, json!([])))
        .await
        .unwrap();
    world.sleep(Duration::from_secs(60)).await;
    let (status, message) = ready(&world).await;
    assert_eq!(status, "False", "{message}");
    assert!(message.contains("forbidden"), "{message}");
    world.stop_engine().await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn health_expression_about_config_map_is_evaluated() {
    let mut world = world().await;
    let check =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "namespace": NAMESPACE}]);
    let expression =
        |current: &str| json!([{"apiVersion": "v1", "kind": "ConfigMap", "current": current}]);
    let tenant = checking("deployer", check.clone(), expression("data.a == '2'"));
    world.apply(&tenant).await.unwrap();
    world.sleep(Duration::from_secs(60)).await;
    let (status, message) = ready(&world).await;
    assert_eq!(status, "False", "{message}");
    assert!(
        message.contains("ConfigMap/k-remote/one status: 'InProgress'"),
        "{message}"
    );
    let tenant = checking("deployer", check, expression("data.a == '1'"));
    world.apply(&tenant).await.unwrap();
    world.sleep(Duration::from_secs(60)).await;
    let (status, message) = ready(&world).await;
    assert_eq!(status, "True", "{message}");
    // The same for objects that `wait` waits for.
    let mut waiting = checking("deployer", json!([]), expression("data.a == '2'"));
    waiting["spec"]["wait"] = json!(true);
    world.apply(&waiting).await.unwrap();
    world.sleep(Duration::from_secs(60)).await;
    let (status, message) = ready(&world).await;
    assert_eq!(status, "False", "{message}");
    world.stop_engine().await;
}
