//! Everflow takes HelmReleases over from Flux, and Flux from Everflow: nothing that is released changes by it. What a
//! helm-controller that was killed has left in the middle is brought to its end.
//!
//! Needs `EVERFLOW_REAL=1` and source-controller and helm-controller, on PATH or built by `real/peers.sh`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::panic,
    dead_code
)]

#[path = "common/charts.rs"]
mod charts;
#[path = "common/delivery.rs"]
mod delivery;
#[path = "common/releases.rs"]
mod releases;
#[path = "../../git/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use charts::{Repository, packed};
use delivery::{Engine, NAMESPACE, World};
use everflow_corpus::real::{self, ApiServer};
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Patch, Selection, WriteOptions};
use releases::{HELM_GROUP, JobRunner, TEMPLATE, helm_release, helm_repository, until};

const SOURCE_GROUP: &str = "source.toolkit.fluxcd.io/v1";

/// Objects of several kinds, those among them that the API server adds defaults to.
const OBJECTS: &str = "apiVersion: v1
kind: ServiceAccount
metadata: {name: '{{ .Release.Name }}'}
---
apiVersion: v1
kind: Service
metadata: {name: '{{ .Release.Name }}', labels: {app: web}}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Secret
metadata: {name: '{{ .Release.Name }}'}
stringData: {color: '{{ .Values.color }}'}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: '{{ .Release.Name }}', labels: {app: web}}
spec:
  replicas: 0
  selector: {matchLabels: {app: '{{ .Release.Name }}'}}
  template:
    metadata: {labels: {app: '{{ .Release.Name }}'}}
    spec:
      containers:
      - {name: web, image: 'registry.example.com/web:1', ports: [{name: http, containerPort: 8080}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: '{{ .Release.Name }}'}
spec:
  rules:
  - host: '{{ .Release.Name }}.example.com'
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: '{{ .Release.Name }}', port: {number: 80}}}}
";

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Where Flux's controllers are, and what they work on.
struct Flux<'a> {
    world: &'a World,
    programs: [PathBuf; 2],
    kubeconfig: &'a Path,
}

impl Flux<'_> {
    fn run(&self, program: &Path, storage: &Path, more: &[String]) -> Engine {
        std::fs::create_dir_all(storage).unwrap();
        let name = program.file_name().unwrap().to_string_lossy();
        let log = std::fs::File::create(storage.join(format!("{name}.log"))).unwrap();
        let child = Command::new(program)
            .args(["--metrics-addr=0", "--events-addr=", "--log-level=info"])
            .arg(format!("--health-addr=127.0.0.1:{}", free_port()))
            .args(more)
            .env("KUBECONFIG", self.kubeconfig)
            .env("RUNTIME_NAMESPACE", "default")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        Engine(child.unwrap())
    }

    /// Starts both, helm-controller when source-controller serves the charts: in a cluster the address of artifacts is a
    /// Service, which stays when the engine behind it changes.
    async fn start(&self, storage: &Path, charts: &[&str]) -> Vec<Engine> {
        // They end at once when a kind of theirs is not served yet, which takes the API server a moment.
        for definition in everflow_api::crds() {
            let spec = &definition["spec"];
            let version = spec["versions"][0]["name"].as_str().unwrap();
            let group = format!("{}/{version}", spec["group"].as_str().unwrap());
            let kind = spec["names"]["kind"].as_str().unwrap();
            self.world.resource(&group, kind).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let address = format!("127.0.0.1:{}", free_port());
        let source = self.run(
            &self.programs[0],
            storage,
            &[
                format!("--storage-path={}", storage.display()),
                format!("--storage-addr={address}"),
                format!("--storage-adv-addr={address}"),
            ],
        );
        for name in charts {
            self.until_served(name, &address).await;
        }
        let helm = self.run(
            &self.programs[1],
            storage,
            &["--requeue-dependency=1s".to_owned()],
        );
        vec![source, helm]
    }

    async fn until_served(&self, name: &str, address: &str) {
        for _ in 0..900 {
            let chart = self.world.get(SOURCE_GROUP, "HelmChart", name).await;
            let chart = chart.unwrap_or_default();
            let url = chart["status"]["artifact"]["url"].as_str();
            if url.is_some_and(|url| url.contains(address)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the HelmChart {name} is not served by Flux");
    }
}

fn stop(engines: Vec<Engine>) {
    engines.into_iter().for_each(Engine::end);
}

async fn prepared(kubeconfig: &Path) -> (World, Repository) {
    let world = World::new(kubeconfig);
    for definition in everflow_api::crds() {
        world.apply(definition).await;
    }
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    world.apply(namespace).await;
    let directory = world.place.path().join("charts");
    packed(
        &directory,
        "web",
        &[("1.0.0", OBJECTS), ("1.1.0", OBJECTS), ("2.0.0", TEMPLATE)],
    );
    let repository = Repository::serve(&directory);
    world.apply(helm_repository(&repository.url)).await;
    (world, repository)
}

/// Nobody runs the controllers of Kubernetes here: Deployments are not waited for.
fn unwaited(mut object: Value) -> Value {
    for action in ["install", "upgrade"] {
        let spec = object["spec"].as_object_mut().unwrap();
        let action = spec.entry(action).or_insert(json!({}));
        action["disableWait"] = true.into();
    }
    object
}

/// Releases with something of all that decides what a release is.
fn varied() -> Vec<(String, Value)> {
    let plain = || json!({});
    let mut all = vec![
        ("plain", plain()),
        ("values", json!({"values": {"color": "green"}})),
        (
            "values-from",
            json!({"valuesFrom": [{"kind": "ConfigMap", "name": "colors", "valuesKey": "color.yaml"}]}),
        ),
        (
            "post-rendered",
            json!({"postRenderers": [{"kustomize": {"images": [{"name": "registry.example.com/web", "newTag": "2"}],
                "patches": [{"patch": "[{\"op\": \"add\", \"path\": \"/metadata/annotations\", \"value\": {\"a\": \"b\"}}]",
                    "target": {"kind": "Service"}}]}}]}),
        ),
        (
            "common-metadata",
            json!({"commonMetadata": {"labels": {"team": "shop"}, "annotations": {"a": "b"}}}),
        ),
        (
            "drift",
            json!({"driftDetection": {"mode": "enabled", "ignore": [
                {"paths": ["/spec/replicas"], "target": {"kind": "Deployment"}}]}}),
        ),
        (
            "client-side",
            json!({"install": {"serverSideApply": false}}),
        ),
        ("dependent", json!({"dependsOn": [{"name": "plain"}]})),
        (
            "no-wait",
            json!({"install": {"disableWait": true}, "upgrade": {"disableWait": true}}),
        ),
        ("no-history", json!({"maxHistory": 1})),
    ];
    all.push((
        "hooked",
        json!({"chart": {"spec": {"chart": "web", "version": "2.0.0",
            "sourceRef": {"kind": "HelmRepository", "name": "charts"}}}}),
    ));
    let named = |(name, more): (&str, Value)| {
        let mut object = helm_release(name, "1.0.0");
        for (key, value) in more.as_object().unwrap() {
            object["spec"][key.as_str()] = value.clone();
        }
        (name.to_owned(), unwaited(object))
    };
    all.into_iter().map(named).collect()
}

async fn request(world: &World, name: &str, token: &str) {
    let resource = world.resource(HELM_GROUP, "HelmRelease").await;
    let annotations = json!({"reconcile.fluxcd.io/requestedAt": token});
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    let (at, by) = (At::new(NAMESPACE, name), WriteOptions::by("user"));
    world
        .client
        .patch(&resource, at, &patch, &by)
        .await
        .unwrap();
}

/// Asks for all of them and waits until they say that they have heard.
async fn reconcile(world: &World, names: &[String], token: &str) {
    for name in names {
        request(world, name, token).await;
    }
    for name in names {
        until(world, name, |object| {
            object["status"]["lastHandledReconcileAt"] == token
        })
        .await;
    }
    // Who comes second may still be at it.
    tokio::time::sleep(Duration::from_secs(3)).await;
}

/// Everything in the namespace that is no object of Flux, records of releases included, with its version.
async fn released(world: &World) -> BTreeMap<String, String> {
    let kinds = [
        ("v1", "ConfigMap"),
        ("v1", "Secret"),
        ("v1", "Service"),
        ("v1", "ServiceAccount"),
        ("apps/v1", "Deployment"),
        ("batch/v1", "Job"),
        ("networking.k8s.io/v1", "Ingress"),
    ];
    let mut all = BTreeMap::new();
    for (api_version, kind) in kinds {
        let resource = world.resource(api_version, kind).await;
        let listed = world
            .client
            .list_all(&resource, Some(NAMESPACE), &Default::default())
            .await
            .unwrap();
        for object in listed.items {
            let metadata = &object["metadata"];
            let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
            all.insert(
                format!("{kind}/{}", text("name")),
                text("resourceVersion") + "/" + &text("uid"),
            );
        }
    }
    all
}

/// What of the HelmReleases and HelmCharts must not change: all but conditions and what says when.
async fn declared(world: &World, names: &[String]) -> Vec<Value> {
    let mut all = Vec::new();
    for name in names {
        let object = world.get(HELM_GROUP, "HelmRelease", name).await.unwrap();
        let chart = world
            .get(SOURCE_GROUP, "HelmChart", &format!("{NAMESPACE}-{name}"))
            .await
            .unwrap();
        let (metadata, status) = (&object["metadata"], &object["status"]);
        all.push(json!({
            "name": name, "spec": object["spec"], "generation": metadata["generation"],
            "finalizers": metadata["finalizers"], "labels": metadata["labels"],
            "history": status["history"], "inventory": status["inventory"],
            "attempted": status["lastAttemptedConfigDigest"], "revision": status["lastAttemptedRevision"],
            "action": status["lastAttemptedReleaseAction"], "failures": status["failures"],
            "observed": status["observedGeneration"],
            "postRenderers": status["observedPostRenderersDigest"],
            "commonMetadata": status["observedCommonMetadataDigest"],
            "chart": chart["spec"], "chartGeneration": chart["metadata"]["generation"],
            "chartLabels": chart["metadata"]["labels"],
        }));
    }
    all
}

fn peers() -> Option<[PathBuf; 2]> {
    let programs = ["source-controller", "helm-controller"].map(real::installed);
    let [Some(source), Some(helm)] = programs else {
        println!("skipped: source-controller and helm-controller are not on PATH");
        return None;
    };
    Some([source, helm])
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_released_changes_when_the_engine_does() {
    if !real::wanted("the swap of HelmReleases with Flux's controllers") {
        return;
    }
    let Some(programs) = peers() else { return };
    let Some(server) = ApiServer::start("swap-releases") else {
        return;
    };
    let kubeconfig = server.kubeconfig();
    let (world, _repository) = prepared(&kubeconfig).await;
    let _runner = JobRunner::start(world.client.clone(), Duration::from_millis(100));
    let place = world.place.path();
    world
        .apply(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": NAMESPACE, "name": "colors"}, "data": {"color.yaml": "color: blue"}}))
        .await;
    let mut names = Vec::new();
    for (name, object) in varied() {
        world.apply(object).await;
        names.push(name);
    }
    let flux = Flux {
        world: &world,
        programs,
        kubeconfig: &kubeconfig,
    };
    let engines = flux.start(&place.join("flux"), &[]).await;
    for name in &names {
        until(&world, name, |_| true).await;
    }
    reconcile(&world, &names, "flux-1").await;
    stop(engines);
    let (before, spec) = (released(&world).await, declared(&world, &names).await);
    println!(
        "{} objects and records of {} releases",
        before.len(),
        names.len()
    );

    let ours = Engine::start(&kubeconfig, &place.join("ours"));
    reconcile(&world, &names, "ours-1").await;
    ours.stop();
    assert_eq!(released(&world).await, before, "taken over by Everflow");
    assert_eq!(
        declared(&world, &names).await,
        spec,
        "taken over by Everflow"
    );

    let charts: Vec<String> = names
        .iter()
        .map(|name| format!("{NAMESPACE}-{name}"))
        .collect();
    let charts: Vec<&str> = charts.iter().map(String::as_str).collect();
    let engines = flux.start(&place.join("flux-2"), &charts).await;
    reconcile(&world, &names, "flux-2").await;
    stop(engines);
    assert_eq!(released(&world).await, before, "given back to Flux");
    assert_eq!(declared(&world, &names).await, spec, "given back to Flux");
}

/// The statuses of the records of a release, by revision.
async fn revisions(world: &World, name: &str) -> Vec<(String, String)> {
    let secrets = world.resource("v1", "Secret").await;
    let selection = Selection::labelled(format!("owner=helm,name={name}"));
    let listed = world
        .client
        .list_all(&secrets, Some(NAMESPACE), &selection)
        .await
        .unwrap();
    let label = |object: &Value, name: &str| {
        object["metadata"]["labels"][name]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let mut all: Vec<_> = listed
        .items
        .iter()
        .map(|object| (label(object, "version"), label(object, "status")))
        .collect();
    all.sort();
    all
}

/// A helm-controller is killed while it waits for the hook of an install, and another release of it is left as a lost
/// leader leaves it: Ready is unknown, and nothing else is known.
#[tokio::test(flavor = "multi_thread")]
async fn releases_of_a_killed_helm_controller_are_mended() {
    if !real::wanted("releases of a killed helm-controller") {
        return;
    }
    let Some(programs) = peers() else { return };
    let Some(server) = ApiServer::start("killed-flux") else {
        return;
    };
    let kubeconfig = server.kubeconfig();
    let (world, _repository) = prepared(&kubeconfig).await;
    let place = world.place.path();
    let flux = Flux {
        world: &world,
        programs,
        kubeconfig: &kubeconfig,
    };
    world
        .apply(unwaited(helm_release("unknown", "1.0.0")))
        .await;
    world.apply(helm_release("pending", "2.0.0")).await;
    let engines = flux.start(&place.join("flux"), &[]).await;
    until(&world, "unknown", |_| true).await;
    for attempt in 0.. {
        let hook = world.get("batch/v1", "Job", "pending-migrate").await;
        if hook.is_some() {
            break;
        }
        assert!(attempt < 600, "the hook is not there");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Dropped engines are killed.
    drop(engines);
    let pending = [("1".to_owned(), "pending-install".to_owned())];
    assert_eq!(revisions(&world, "pending").await, pending);
    let resource = world.resource(HELM_GROUP, "HelmRelease").await;
    let object = world.get(HELM_GROUP, "HelmRelease", "unknown").await;
    let at_first = object.unwrap()["metadata"]["creationTimestamp"].clone();
    let lost = json!({"status": {"history": null, "observedGeneration": -1, "conditions": [
        {"type": "Ready", "status": "Unknown", "reason": "Progressing", "observedGeneration": 1,
            "message": "Running 'install' action with timeout of 2m0s", "lastTransitionTime": at_first}]}});
    world
        .client
        .patch(
            &resource,
            At::new(NAMESPACE, "unknown").status(),
            &Patch::Merge(lost),
            &WriteOptions::by("helm-controller"),
        )
        .await
        .unwrap();

    let runner = JobRunner::start(world.client.clone(), Duration::from_millis(100));
    let patience = ["--stuck-release-patience=5s"];
    let ours = Engine::start_with(&kubeconfig, &place.join("ours"), &patience);
    until(&world, "unknown", |_| true).await;
    let deployed = [("1".to_owned(), "deployed".to_owned())];
    assert_eq!(revisions(&world, "unknown").await, deployed);
    until(&world, "pending", |_| true).await;
    assert_eq!(revisions(&world, "pending").await, deployed);
    let hook = ("pending-migrate".to_owned(), "1".to_owned());
    assert_eq!(runner.runs().get(&hook), Some(&1), "{:?}", runner.runs());
    ours.stop();
}
