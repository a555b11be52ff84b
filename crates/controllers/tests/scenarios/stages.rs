//! Stages that do not settle: they hold up nobody else.

use std::time::Duration;

use everflow_controllers::ControllerKind;
use everflow_json::{Value, json};

use super::remote::{condition, kustomization, source};
use super::scenario::Scenario;
use super::world::{World, recorded_options};

const NAMESPACE: &str = "k-stages";

/// A definition; two of one group and kind are not both accepted.
fn definition(plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    })
}

fn named(name: &str, path: &str) -> Value {
    let spec = json!({"targetNamespace": NAMESPACE, "path": path, "retryInterval": "10m"});
    let mut object = kustomization(spec);
    object["metadata"]["name"] = name.into();
    object
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_definition_that_is_never_accepted_holds_no_worker() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n";
    let scenario: Scenario = everflow_json::from_value(json!({
        "name": "stages", "namespace": NAMESPACE, "then": {},
        "files": {"a/kind.yaml": definition("gizmos").to_string(), "a/one.yaml": map.replace("one", "after"),
            "b/one.yaml": map},
    }))
    .unwrap();
    let mut options = recorded_options();
    options.kustomize.concurrent = 1;
    let mut world = World::start(&scenario, options, ControllerKind::ALL).await;
    world.apply(&definition("gadgets")).await.unwrap();
    world.apply(&source(NAMESPACE)).await.unwrap();
    world.apply(&named("app", "./a")).await.unwrap();
    world.sleep(Duration::from_secs(5)).await;
    world.apply(&named("other", "./b")).await.unwrap();
    world.sleep(Duration::from_secs(6)).await;
    let kustomizations = world
        .resource("kustomize.toolkit.fluxcd.io/v1", "Kustomization")
        .await;
    let at = everflow_runtime::client::At::new(NAMESPACE, "other");
    let other = world.client.get(&kustomizations, at).await.unwrap();
    let conditions = other["status"]["conditions"].as_array().unwrap();
    let ready = |it: &&Value| it["type"] == "Ready" && it["status"] == "True";
    assert!(conditions.iter().any(|it| ready(&it)), "{other:#}");
    let (status, message) = condition(&world, NAMESPACE, "Reconciling").await.unwrap();
    assert_eq!(status, "True");
    let waits = "Waiting for [CustomResourceDefinition/gizmos.example.com status: 'Failed']";
    assert!(message.starts_with(waits), "{message}");
    world.sleep(Duration::from_secs(80)).await;
    let (status, message) = condition(&world, NAMESPACE, "Ready").await.unwrap();
    assert_eq!(
        (status.as_str(), message.as_str()),
        (
            "False",
            "timeout waiting for: [CustomResourceDefinition/gizmos.example.com status: 'Failed']"
        )
    );
    world.stop_engine().await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn stage_that_becomes_ready_late_is_continued() {
    let gadget = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g}\n";
    let scenario: Scenario = everflow_json::from_value(json!({
        "name": "stages", "namespace": NAMESPACE, "then": {},
        "files": {"a/kind.yaml": definition("gizmos").to_string(), "a/one.yaml": gadget},
    }))
    .unwrap();
    let mut world = World::start(&scenario, recorded_options(), ControllerKind::ALL).await;
    world.apply(&definition("gadgets")).await.unwrap();
    world.apply(&source(NAMESPACE)).await.unwrap();
    world.apply(&named("app", "./a")).await.unwrap();
    world.sleep(Duration::from_secs(20)).await;
    let (status, _) = condition(&world, NAMESPACE, "Ready").await.unwrap();
    assert_eq!(status, "Unknown");
    let definitions = world
        .resource("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        .await;
    let at = everflow_runtime::client::At::new("", "gadgets.example.com");
    let asked = Default::default();
    world.client.delete(&definitions, at, &asked).await.unwrap();
    world.sleep(Duration::from_secs(10)).await;
    let (status, message) = condition(&world, NAMESPACE, "Ready").await.unwrap();
    assert_eq!(status, "True", "{message}");
    world.stop_engine().await;
}
