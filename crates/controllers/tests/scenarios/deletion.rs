//! Deletions of things that are half gone: they end, or say what they wait for.

use std::time::Duration;

use everflow_controllers::ControllerKind;
use everflow_json::{Value, json};
use everflow_runtime::client::{At, DeleteOptions, Patch, Resource, WriteOptions};
use everflow_runtime::events::EVENTS;

use super::remote::{condition, delete, kustomization, source, state};
use super::scenario::Scenario;
use super::world::{World, recorded_options};

const NAMESPACE: &str = "k-deletion";
const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

fn map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: '1'}}\n")
}

async fn started(files: Value, spec: Value) -> World {
    let scenario: Scenario = everflow_json::from_value(
        json!({"name": "deletion", "namespace": NAMESPACE, "then": {}, "files": files}),
    )
    .unwrap();
    let world = World::start(&scenario, recorded_options(), ControllerKind::ALL).await;
    world.apply(&source(NAMESPACE)).await.unwrap();
    let mut object = kustomization(spec);
    object["spec"]["targetNamespace"] = NAMESPACE.into();
    world.apply(&object).await.unwrap();
    world.sleep(Duration::from_secs(8)).await;
    let (ready, message) = state(&world, NAMESPACE).await.unwrap();
    assert_eq!(ready, "True", "{message}");
    world
}

async fn remove(world: &World, resource: &Resource, namespace: &str, name: &str) {
    let (at, asked) = (At::new(namespace, name), DeleteOptions::default());
    world.client.delete(resource, at, &asked).await.unwrap();
}

async fn messages(world: &World) -> Vec<String> {
    let all = Default::default();
    let events = world.client.list_all(&EVENTS, Some(NAMESPACE), &all).await;
    let text = |event: &Value| event["message"].as_str().unwrap().to_owned();
    events.unwrap().items.iter().map(text).collect()
}

async fn has_map(world: &World, name: &str) -> bool {
    let found = world.client.get(&MAPS, At::new(NAMESPACE, name)).await;
    found.is_ok()
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn deletion_prunes_without_a_source() {
    let mut world = started(json!({"one.yaml": map("one")}), json!({})).await;
    let sources = world
        .resource("source.toolkit.fluxcd.io/v1", "GitRepository")
        .await;
    remove(&world, &sources, NAMESPACE, "src").await;
    delete(&world, NAMESPACE).await;
    world.sleep(Duration::from_secs(5)).await;
    assert_eq!(state(&world, NAMESPACE).await, None);
    assert!(!has_map(&world, "one").await);
    world.stop_engine().await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn deletion_prunes_without_the_definition_of_a_kind() {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    let files = json!({"crd.yaml": definition.to_string(), "one.yaml": map("one"),
        "gadget.yaml": "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g}\n"});
    let mut world = started(files, json!({})).await;
    let definitions = world
        .resource("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        .await;
    // Somebody deletes the kind just before the Kustomization.
    delete(&world, NAMESPACE).await;
    remove(&world, &definitions, "", "gadgets.example.com").await;
    world.sleep(Duration::from_secs(60)).await;
    assert_eq!(state(&world, NAMESPACE).await, None);
    assert!(!has_map(&world, "one").await);
    world.stop_engine().await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn deletion_prunes_in_a_terminating_namespace() {
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "k-other"}});
    let files = json!({"one.yaml": map("one"), "ns.yaml": other.to_string(),
        "two.yaml": map("two").replace("name: two", "name: two, namespace: k-other")});
    let scenario: Scenario = everflow_json::from_value(
        json!({"name": "deletion", "namespace": NAMESPACE, "then": {}, "files": files}),
    )
    .unwrap();
    let mut world = World::start(&scenario, recorded_options(), ControllerKind::ALL).await;
    world.apply(&source(NAMESPACE)).await.unwrap();
    let mut object = kustomization(json!({}));
    object["spec"]
        .as_object_mut()
        .unwrap()
        .remove("targetNamespace");
    world.apply(&object).await.unwrap();
    world.sleep(Duration::from_secs(8)).await;
    // The namespace of the Kustomization itself goes, with all in it.
    let namespaces = Resource::cluster("", "v1", "namespaces", "Namespace");
    remove(&world, &namespaces, "", NAMESPACE).await;
    world.sleep(Duration::from_secs(60)).await;
    assert_eq!(state(&world, NAMESPACE).await, None);
    assert!(
        world
            .client
            .get(&namespaces, At::new("", NAMESPACE))
            .await
            .is_err()
    );
    assert!(
        world
            .client
            .get(&namespaces, At::new("", "k-other"))
            .await
            .is_err()
    );
    world.stop_engine().await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn object_stuck_in_deletion_is_named() {
    let spec = json!({"deletionPolicy": "WaitForTermination", "timeout": "5m"});
    let mut world = started(json!({"one.yaml": map("one")}), spec).await;
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    let (at, by) = (At::new(NAMESPACE, "one"), WriteOptions::by("user"));
    world.client.patch(&MAPS, at, &hold, &by).await.unwrap();
    delete(&world, NAMESPACE).await;
    world.sleep(Duration::from_secs(30)).await;
    let (ready, message) = condition(&world, NAMESPACE, "Reconciling").await.unwrap();
    assert_eq!(ready, "True", "{message}");
    assert!(
        message.contains("waiting for ConfigMap/k-deletion/one")
            && message.contains("example.com/hold"),
        "{message}"
    );
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    world.client.patch(&MAPS, at, &free, &by).await.unwrap();
    world.sleep(Duration::from_secs(10)).await;
    assert_eq!(state(&world, NAMESPACE).await, None);
    world.stop_engine().await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn event_announces_a_large_prune_before_it_starts() {
    let names = ["a", "b", "c", "d", "e"];
    let mut files = everflow_json::Map::new();
    for name in names {
        files.insert(format!("{name}.yaml").into(), map(name).into());
    }
    let mut world = started(files.into(), json!({})).await;
    world.engine_client.meter().record();
    let gone: everflow_json::Map = names[1..]
        .iter()
        .map(|name| (format!("{name}.yaml"), Value::Null))
        .collect();
    let gone = Value::Object(gone);
    let repositories = world.git.clone();
    let commit = json!({"commit": gone});
    repositories
        .lock()
        .unwrap()
        .get_mut(NAMESPACE)
        .unwrap()
        .more(&commit, &gone);
    world.ask_for("GitRepository/src").await;
    world.sleep(Duration::from_secs(8)).await;
    let told = messages(&world).await;
    let warned =
        "This revision deletes 4 objects and keeps 1, about to delete: ConfigMap/k-deletion/";
    assert!(told.iter().any(|text| text.starts_with(warned)), "{told:?}");
    let lines = world.engine_client.meter().recorded();
    let first = lines
        .iter()
        .position(|line| line.starts_with("DELETE "))
        .unwrap();
    let event = lines
        .iter()
        .position(|line| line.contains("about to delete"))
        .unwrap();
    assert!(event < first, "{lines:#?}");
    world.stop_engine().await;
}

/// Another engine has taken over the sources: what they had is elsewhere now.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn an_artifact_that_moves_is_followed() {
    let mut world = started(json!({"one.yaml": map("one")}), json!({})).await;
    world.stop_engine().await;
    let sources = world
        .resource("source.toolkit.fluxcd.io/v1", "GitRepository")
        .await;
    let (at, by) = (At::new(NAMESPACE, "src"), WriteOptions::by("user"));
    // Nobody answers there.
    let away = json!({"status": {"artifact": {"url": "http://127.0.0.1:1/gone.tar.gz"}}});
    let patch = Patch::Merge(away);
    let moved = world.client.patch(&sources, at.status(), &patch, &by).await;
    moved.unwrap();
    world.start_engine().await;
    world.ask_for("Kustomization/app").await;
    world.sleep(Duration::from_secs(15)).await;
    let kustomizations = world
        .resource("kustomize.toolkit.fluxcd.io/v1", "Kustomization")
        .await;
    let at = At::new(NAMESPACE, "app");
    let object = world.client.get(&kustomizations, at).await.unwrap();
    let asked = &object["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"];
    assert_eq!(object["status"]["lastHandledReconcileAt"], *asked);
    let (ready, message) = state(&world, NAMESPACE).await.unwrap();
    assert_eq!(ready, "True", "{message}");
    world.stop_engine().await;
}
