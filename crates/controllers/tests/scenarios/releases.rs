//! Releases in situations that were not recorded, or in which we do better on purpose.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everflow_api::view;
use everflow_controllers::{ControllerKind, Options};
use everflow_json::{Value, json};
use everflow_runtime::client::{At, DeleteOptions, Patch, Resource, Selection, WriteOptions};
use everflow_runtime::events::EVENTS;

use super::helm_charts::Repository;
use super::scenario::Scenario;
use super::workloads;
use super::world::{HELM, World, recorded_options};

const NAMESPACE: &str = "own";
const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
const RELEASES: Resource = Resource::namespaced(
    "helm.toolkit.fluxcd.io",
    "v2",
    "helmreleases",
    "HelmRelease",
);

/// A world with one chart of one template in its repository.
async fn world(template: &str, options: Options) -> World {
    let scenario: Scenario = everflow_json::from_value(json!({
        "name": "own", "namespace": NAMESPACE, "then": {},
    }))
    .unwrap();
    let world = World::start(&scenario, options, ControllerKind::ALL).await;
    tokio::spawn(workloads::run(world.client.clone(), world.env.clone()));
    let mut repository = Repository::default();
    repository.publish(&json!({
        "Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n",
        "values.yaml": "greeting: hello\n", "templates/all.yaml": template,
    }));
    world.put_charts(&repository.served());
    let source = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository",
        "metadata": {"namespace": NAMESPACE, "name": "charts"},
        "spec": {"interval": "1h", "url": format!("http://127.0.0.1:{HELM}/{NAMESPACE}")},
    });
    world.apply(&source).await.unwrap();
    world
}

fn release(name: &str, more: Value) -> Value {
    let mut object = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {"interval": "10m", "timeout": "1m", "chart": {"spec": {"chart": "app",
            "sourceRef": {"kind": "HelmRepository", "name": "charts"}}}},
    });
    for (key, value) in more.as_object().unwrap() {
        object["spec"][key.as_str()] = value.clone();
    }
    object
}

async fn get(world: &World, name: &str) -> Value {
    let at = At::new(NAMESPACE, name);
    world.client.get(&RELEASES, at).await.unwrap()
}

async fn ready(world: &World, name: &str) -> (String, String) {
    let object = get(world, name).await;
    let ready = view::condition(&object, "Ready").cloned();
    let ready = ready.unwrap_or_default();
    let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("message"))
}

async fn until_ready(world: &World, name: &str) {
    for _ in 0..120 {
        if ready(world, name).await.0 == "True" {
            return;
        }
        world.sleep(Duration::from_millis(500)).await;
    }
    panic!("{name}: {:?}", ready(world, name).await);
}

/// How often Events say something.
async fn told(world: &World, text: &str) -> usize {
    let all = Selection::default();
    let listed = world.client.list_all(&EVENTS, Some(NAMESPACE), &all).await;
    let events = listed.unwrap().items.into_iter();
    let is_told = |event: &Value| {
        event["message"]
            .as_str()
            .is_some_and(|one| one.contains(text))
    };
    events.filter(is_told).count()
}

const MAP: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}'}
data: {greeting: '{{ .Values.greeting }}'}
";

/// Somebody who has his own mind of a ConfigMap, and how often he had to say so.
fn rival(world: &World, name: &'static str) -> Arc<AtomicUsize> {
    let (client, env) = (world.client.clone(), world.env.clone());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        loop {
            env.clock.sleep(Duration::from_millis(500)).await;
            let at = At::new(NAMESPACE, name);
            let Ok(map) = client.get(&MAPS, at).await else {
                continue;
            };
            if map["data"]["greeting"] == "mine" {
                continue;
            }
            counted.fetch_add(1, Ordering::Relaxed);
            let patch = Patch::Merge(json!({"data": {"greeting": "mine"}}));
            let by = WriteOptions::by("rival");
            client.patch(&MAPS, at, &patch, &by).await.unwrap();
        }
    });
    count
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn contested_object_is_left_alone_by_the_next_process_too() {
    let mut world = world(MAP, recorded_options()).await;
    let detection = json!({"driftDetection": {"mode": "enabled"}});
    world.apply(&release("app", detection)).await.unwrap();
    until_ready(&world, "app").await;
    let said = rival(&world, "app");
    let count = || said.load(Ordering::Relaxed);
    world.sleep(Duration::from_secs(60)).await;
    // Once for the install, and once for each correction.
    assert_eq!(count(), 4);
    let again = "is changed again and again";
    assert_eq!(told(&world, again).await, 1);

    world.kill_engine().await;
    world.start_engine().await;
    world.sleep(Duration::from_secs(60)).await;
    assert_eq!(count(), 4, "corrected again after a restart");

    // When its time is over it is tried once more, and left alone for longer.
    world.sleep(Duration::from_secs(1_300)).await;
    assert_eq!(count(), 5);
    assert_eq!(told(&world, again).await, 1);
    world.stop_engine().await;
}

const CUSTOM: &str = "apiVersion: source.toolkit.fluxcd.io/v1
kind: Bucket
metadata: {name: '{{ .Release.Name }}'}
spec: {interval: 1h, suspend: true, bucketName: b, endpoint: example.com}
";

/// A custom object that says it is not ready keeps a release waiting by its status, and not as Helm 3 waited.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn legacy_wait_does_not_ask_custom_objects() {
    let mut world = world(CUSTOM, recorded_options()).await;
    let legacy = json!({"waitStrategy": {"name": "legacy"}});
    world.apply(&release("legacy", legacy)).await.unwrap();
    until_ready(&world, "legacy").await;
    world.apply(&release("poller", json!({}))).await.unwrap();
    world.sleep(Duration::from_secs(90)).await;
    let (status, message) = ready(&world, "poller").await;
    assert_eq!(status, "False", "{message}");
    assert!(message.contains("Bucket/own/poller"), "{message}");
    world.stop_engine().await;
}

/// A template prints what it was given by a Secret, and fails with it.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn failing_template_does_not_show_values_of_secrets() {
    let template = "{{ fail (printf \"bad password %s\" .Values.password) }}";
    let mut world = world(template, recorded_options()).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "values"},
        "stringData": {"values.yaml": "password: hunter2hunter2\n"}});
    world.apply(&secret).await.unwrap();
    let from = json!({"valuesFrom": [{"kind": "Secret", "name": "values"}]});
    world.apply(&release("app", from)).await.unwrap();
    world.sleep(Duration::from_secs(20)).await;
    let (_, message) = ready(&world, "app").await;
    assert!(
        message.contains("bad password (a value of a Secret)"),
        "{message}"
    );
    assert!(message.contains("app/templates/all.yaml:1:3"), "{message}");
    assert!(!get(&world, "app").await.to_string().contains("hunter2"));
    assert_eq!(told(&world, "hunter2").await, 0);
    world.stop_engine().await;
}

const GENERATED: &str = "apiVersion: v1
kind: ConfigMap
metadata: {generateName: gen-}
";

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn generated_names_are_refused_before_anything_is_stored() {
    let mut world = world(&format!("{MAP}---\n{GENERATED}"), recorded_options()).await;
    world.apply(&release("app", json!({}))).await.unwrap();
    world.sleep(Duration::from_secs(20)).await;
    let (status, message) = ready(&world, "app").await;
    let start = "Helm install failed for release own/app with chart app@1.0.0: missing metadata.name in object ConfigMap \
                 of app/templates/all.yaml: ";
    assert!(status == "False" && message.starts_with(start), "{message}");
    let owned = Selection::labelled("owner=helm");
    let records = world
        .client
        .list_all(&SECRETS, Some(NAMESPACE), &owned)
        .await;
    assert!(records.unwrap().items.is_empty());
    assert!(
        world
            .client
            .get(&MAPS, At::new(NAMESPACE, "app"))
            .await
            .is_err()
    );
    world.stop_engine().await;
}

/// All records are lost at once: a few releases are installed anew, the others one by one, and a process that starts
/// meanwhile does not begin with a few again.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn guard_rail_goes_on_holding_after_a_restart() {
    let mut options = recorded_options();
    options.helm.guard.most = 3;
    let mut world = world(MAP, options).await;
    let names: Vec<String> = (0..12).map(|number| format!("app-{number}")).collect();
    for name in &names {
        world.apply(&release(name, json!({}))).await.unwrap();
    }
    for name in &names {
        until_ready(&world, name).await;
    }
    world.stop_engine().await;
    let owned = Selection::labelled("owner=helm");
    let records = world
        .client
        .list_all(&SECRETS, Some(NAMESPACE), &owned)
        .await;
    for record in records.unwrap().items {
        let all = DeleteOptions::default();
        world
            .client
            .delete(&SECRETS, At::of(&record), &all)
            .await
            .unwrap();
    }
    world.start_engine().await;
    world.sleep(Duration::from_secs(20)).await;
    let installed = async |world: &World| {
        let listed = world
            .client
            .list_all(&SECRETS, Some(NAMESPACE), &owned)
            .await;
        listed.unwrap().items.len()
    };
    let first = installed(&world).await;
    assert!(
        (3..=8).contains(&first),
        "{first} of 12 are installed anew at once"
    );
    world.kill_engine().await;
    world.start_engine().await;
    world.sleep(Duration::from_secs(20)).await;
    let second = installed(&world).await;
    assert!(second <= first + 1, "{second} after {first}");
    world.sleep(Duration::from_secs(600)).await;
    assert_eq!(installed(&world).await, 12);
    world.stop_engine().await;
}
