//! What Secrets hold is not repeated in statuses and Events.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_controllers::ControllerKind;
use everflow_json::{Value, json};
use everflow_runtime::client::{Resource, Selection};

use super::remote::{condition, kustomization, source};
use super::scenario::Scenario;
use super::world::{World, recorded_options};

const NAMESPACE: &str = "k-remote";
const KUSTOMIZATIONS: Resource = Resource::namespaced(
    "kustomize.toolkit.fluxcd.io",
    "v1",
    "kustomizations",
    "Kustomization",
);
const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");
/// The API server refuses the key of the data and repeats it.
const MAP: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {'${PASS} key': '1'}\n";

async fn world(secret: &str, text: &str) -> World {
    let scenario: Scenario = everflow_json::from_value(json!({
        "name": "messages", "namespace": NAMESPACE, "then": {}, "files": {"app/one.yaml": MAP},
    }))
    .unwrap();
    let world = World::start(&scenario, recorded_options(), ControllerKind::ALL).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
        "data": {secret: STANDARD.encode(text)}});
    world.apply(&secret).await.unwrap();
    world.apply(&source(NAMESPACE)).await.unwrap();
    world
}

/// Whether statuses or Events have a text.
async fn is_told(world: &World, text: &str) -> bool {
    let all = Selection::default();
    let mut told = String::new();
    for resource in [&KUSTOMIZATIONS, &EVENTS] {
        let listed = world.client.list_all(resource, Some(NAMESPACE), &all).await;
        let statuses = listed.unwrap().items.into_iter();
        statuses.for_each(|object: Value| told.push_str(&object.to_string()));
    }
    told.contains(text)
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn substituted_secrets_are_not_repeated_from_errors() {
    let mut world = world("PASS", "hunter2hunter2").await;
    let from = json!([{"kind": "Secret", "name": "s"}]);
    let spec = json!({"path": "./app", "postBuild": {"substituteFrom": from}});
    world.apply(&kustomization(spec)).await.unwrap();
    world.sleep(Duration::from_secs(30)).await;
    let (status, message) = condition(&world, NAMESPACE, "Ready").await.unwrap();
    assert_eq!(status, "False", "{message}");
    assert!(message.contains("(a value of a Secret) key"), "{message}");
    assert!(!is_told(&world, "hunter2").await);
    world.stop_engine().await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn kubeconfigs_that_cannot_be_read_are_not_quoted() {
    for text in [
        "a: *hunter2\n",
        "a: !!int hunter2\n",
        "? {hunter2: 1}\n: 1\n",
    ] {
        let mut world = world("value", text).await;
        let spec = json!({"path": "./app", "kubeConfig": {"secretRef": {"name": "s"}}});
        world.apply(&kustomization(spec)).await.unwrap();
        world.sleep(Duration::from_secs(30)).await;
        let (status, message) = condition(&world, NAMESPACE, "Ready").await.unwrap();
        assert_eq!(status, "False", "{message}");
        assert!(message.starts_with("yaml: "), "{message}");
        assert!(!is_told(&world, "hunter2").await, "{message}");
        world.stop_engine().await;
    }
}
