//! How little is asked of the API server, and how soon drift is corrected.

use std::time::Duration;

use everflow_controllers::ControllerKind;
use everflow_json::{Value, json};
use everflow_runtime::client::{At, DeleteOptions};

use super::scenario::Scenario;
use super::world::{World, recorded_options};

pub(super) const NAMESPACE: &str = "k-economy";

fn map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: '{value}'}}\n")
}

pub(super) fn scenario() -> Scenario {
    let service =
        "apiVersion: v1\nkind: Service\nmetadata: {name: svc}\nspec:\n  ports: [{port: 80}]\n";
    let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: sa}\n";
    everflow_json::from_value(json!({
        "name": "economy", "namespace": NAMESPACE, "then": {},
        "files": {"one.yaml": map("one", "1"), "two.yaml": map("two", "1"),
            "svc.yaml": service, "sa.yaml": account},
    }))
    .unwrap()
}

pub(super) fn source() -> Value {
    json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "src"},
        "spec": {"interval": "10m", "url": format!("$GIT/{NAMESPACE}.git"), "ref": {"branch": "main"}}})
}

pub(super) fn kustomization() -> Value {
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "app"},
        "spec": {"interval": "10m", "prune": true, "wait": true, "targetNamespace": NAMESPACE,
            "sourceRef": {"kind": "GitRepository", "name": "src"}}})
}

/// Requests since a line: no watches, no lists that begin them, no discovery, nothing of the
/// user's or of the source's.
fn asked(world: &World, since: usize) -> Vec<String> {
    let lines = world.engine_client.meter().recorded();
    let counts = |line: &&String| {
        let target = line.split(' ').nth(1).unwrap_or_default();
        let path = target.split('?').next().unwrap_or_default();
        let shared = line.starts_with("GET ")
            && (target.contains("watch=")
                || target.contains("limit=")
                || path.split('/').count() <= 4);
        let of_source = line.contains("gitrepositories")
            || path.ends_with("/events") && line.contains("\"GitRepository\"");
        !shared
            && !target.contains("fieldManager=user")
            && !target.contains("fieldManager=flux")
            && !of_source
    };
    lines[since..].iter().filter(counts).cloned().collect()
}

fn but_events(lines: &[String]) -> Vec<String> {
    let shown = |line: &String| line.chars().take(160).collect::<String>();
    lines
        .iter()
        .filter(|line| !line.contains("/events"))
        .map(shown)
        .collect()
}

async fn commit(world: &mut World, files: Value) {
    let repositories = world.git.clone();
    repositories
        .lock()
        .unwrap()
        .get_mut(NAMESPACE)
        .unwrap()
        .more(&json!({"commit": files}), &files);
    let reference = json!({"reconcile": ["GitRepository/src"]});
    let step = everflow_json::from_value(reference).unwrap();
    assert!(world.step(&step).await.is_none());
    world.sleep(Duration::from_secs(5)).await;
}

async fn started(watch_applied: bool) -> World {
    let mut options = recorded_options();
    options.kustomize.watch_applied = watch_applied;
    let mut world = World::start(&scenario(), options, ControllerKind::ALL).await;
    world.brief = true;
    world.stop_engine().await;
    world.start_engine().await;
    world.apply(&source()).await.unwrap();
    world.sleep(Duration::from_secs(5)).await;
    world.engine_client.meter().record();
    world.apply(&kustomization()).await.unwrap();
    world.sleep(Duration::from_secs(5)).await;
    world
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn reconcile_stays_within_its_request_budget() {
    let mut world = started(true).await;
    let new = asked(&world, 0);
    assert!(but_events(&new).len() <= 7, "{:#?}", but_events(&new));
    assert!(new.len() <= 8, "{new:#?}");

    let mark = world.engine_client.meter().recorded().len();
    commit(&mut world, json!({"one.yaml": map("one", "2")})).await;
    let changed = asked(&world, mark);
    assert!(changed.len() <= 3, "{changed:#?}");

    let mark = world.engine_client.meter().recorded().len();
    commit(&mut world, json!({"README.md": "nothing to apply"})).await;
    let unchanged = asked(&world, mark);
    assert_eq!(unchanged.len(), 1, "{unchanged:#?}");
    assert!(unchanged[0].contains("/status"), "{unchanged:#?}");

    let mark = world.engine_client.meter().recorded().len();
    world.sleep(Duration::from_secs(3_600)).await;
    let later = asked(&world, mark);
    assert_eq!(later, Vec::<String>::new());
    world.stop_engine().await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn drift_is_corrected_at_once() {
    let mut world = started(true).await;
    let maps = world.resource("v1", "ConfigMap").await;
    let at = At::new(NAMESPACE, "one");
    let gone = world
        .client
        .delete(&maps, at, &DeleteOptions::default())
        .await;
    assert!(gone.is_ok());
    world.sleep(Duration::from_secs(3)).await;
    let back = world.client.get(&maps, at).await.unwrap();
    assert_eq!(back["data"]["a"], "1");
    world.stop_engine().await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn object_of_two_kustomizations_is_reported() {
    let mut world = started(true).await;
    let mut other = kustomization();
    other["metadata"]["name"] = "other".into();
    world.apply(&other).await.unwrap();
    world.sleep(Duration::from_secs(5)).await;
    let kustomizations = world
        .resource("kustomize.toolkit.fluxcd.io/v1", "Kustomization")
        .await;
    let at = At::new(NAMESPACE, "other");
    let found = world.client.get(&kustomizations, at).await.unwrap();
    let conditions = found["status"]["conditions"].as_array().unwrap();
    let ready = conditions
        .iter()
        .find(|one| one["type"] == "Ready")
        .unwrap();
    let message = ready["message"].as_str().unwrap();
    let named = "; ConfigMap/k-economy/one is applied by Kustomization/k-economy/app too";
    assert!(
        message.starts_with("Applied revision: main@sha1:") && message.contains(named),
        "{message}"
    );
    world.stop_engine().await;
}
