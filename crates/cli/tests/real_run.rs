//! `everflow run` delivers a repository, on the embedded API over HTTPS and, in the real tier, on a
//! real kube-apiserver: the same steps on both.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    dead_code
)]

#[path = "common/cluster.rs"]
mod cluster;
#[path = "../../fetch/tests/support/mod.rs"]
mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cluster::Cluster;
use everflow_api::view;
use everflow_corpus::real::ApiServer;
use everflow_env::{Env, RealDisk};
use everflow_runtime::client::{At, Client, DeleteOptions, Patch, Resource, WriteOptions};
use everflow_runtime::transport::{ClusterConfig, HttpsTransport};
use serde_json::{Value, json};
use support::{GitServer, git, git_is_here};

const NAMESPACE: &str = "shop";

/// The program under test, ended with the test.
struct Engine(Child);

impl Engine {
    fn start(kubeconfig: &Path, storage: &Path) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_everflow"))
            .args([
                "run",
                "--min-retry-delay",
                "200ms",
                "--requeue-dependency",
                "1s",
            ])
            .args([
                "--enable-leader-election",
                "--log-level",
                "error",
                "--kubeconfig",
            ])
            .arg(kubeconfig)
            .arg("--storage-path")
            .arg(storage)
            .env("RUNTIME_NAMESPACE", "default")
            .stdout(Stdio::null())
            .spawn();
        Engine(child.unwrap())
    }

    /// Asks it to stop and waits until it has.
    fn stop(mut self) {
        let id = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .unwrap()
                .success()
        );
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct World {
    client: Client,
    place: tempfile::TempDir,
}

impl World {
    fn new(kubeconfig: &Path) -> Self {
        let place = tempfile::tempdir().unwrap();
        let env = Env::system(RealDisk::new(place.path()).unwrap());
        let config = ClusterConfig::from_file(kubeconfig, None).unwrap();
        let transport = HttpsTransport::new(&env, config).unwrap();
        let client = Client::new(Arc::new(transport), env.clock.clone());
        World { client, place }
    }

    async fn resource(&self, api_version: &str, kind: &str) -> Resource {
        for _ in 0..100 {
            if let Ok(resource) = self.client.resource(api_version, kind).await {
                return resource;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{api_version} {kind} is not served");
    }

    async fn apply(&self, object: Value) {
        let text = |field: &str| object[field].as_str().unwrap().to_owned();
        let resource = self.resource(&text("apiVersion"), &text("kind")).await;
        let patch = Patch::Apply(object.clone());
        let options = WriteOptions::by("user").force();
        let done = self
            .client
            .patch(&resource, At::of(&object), &patch, &options)
            .await;
        done.unwrap_or_else(|error| panic!("{}: {error}", view::name_of(&object)));
    }

    async fn get(&self, api_version: &str, kind: &str, name: &str) -> Option<Value> {
        let resource = self.resource(api_version, kind).await;
        self.client
            .get(&resource, At::new(NAMESPACE, name))
            .await
            .ok()
    }

    async fn kustomization(&self, name: &str) -> Option<Value> {
        self.get("kustomize.toolkit.fluxcd.io/v1", "Kustomization", name)
            .await
    }

    /// Waits until a Kustomization is ready and shows what is wanted.
    async fn until(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = None;
        for _ in 0..300 {
            last = self.kustomization(name).await;
            if let Some(object) = last
                .as_ref()
                .filter(|object| view::is_current(object) && wanted(object))
            {
                return object.clone();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let repository = self
            .get("source.toolkit.fluxcd.io/v1", "GitRepository", "shop")
            .await;
        panic!("{name} does not become ready: {last:#?}\n{repository:#?}");
    }
}

fn write(root: &Path, file: &str, text: &str) {
    let file = root.join(file);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

fn definition() -> String {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "gadgets.shop.example.com" },
        "spec": {
            "group": "shop.example.com", "scope": "Namespaced",
            "names": { "kind": "Gadget", "plural": "gadgets" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    })
    .to_string()
}

fn kustomization(name: &str, depends_on: &[&str]) -> Value {
    let depends_on: Vec<Value> = depends_on
        .iter()
        .map(|name| json!({ "name": name }))
        .collect();
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": { "namespace": NAMESPACE, "name": name },
        "spec": {
            "interval": "10m", "prune": true, "path": format!("./{name}"), "wait": true,
            "targetNamespace": NAMESPACE, "dependsOn": depends_on,
            "sourceRef": { "kind": "GitRepository", "name": "shop" },
        },
    })
}

async fn deliver(kubeconfig: &Path) {
    let world = World::new(kubeconfig);
    let root = world.place.path().join("repositories");
    let work = root.join("shop");
    write(&work, "infra/gadgets.yaml", &definition());
    write(
        &work,
        "apps/gadget.yaml",
        "apiVersion: shop.example.com/v1\nkind: Gadget\nmetadata: {name: one}\nspec: {size: 1}\n",
    );
    write(
        &work,
        "apps/settings.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {level: info}\n",
    );
    git(&work, 1, &["init", "-q", "-b", "main"]);
    git(&work, 1, &["add", "-A"]);
    git(&work, 1, &["commit", "-qm", "first"]);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let _server = GitServer::on_tcp(listener, &root);
    for definition in everflow_api::crds() {
        world.apply(definition).await;
    }
    world
        .apply(
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        )
        .await;
    let engine = Engine::start(kubeconfig, &world.place.path().join("artifacts"));
    world
        .apply(json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": { "namespace": NAMESPACE, "name": "shop" },
            "spec": { "interval": "10m", "url": format!("http://127.0.0.1:{port}/shop/.git"), "ref": { "branch": "main" } },
        }))
        .await;
    world.apply(kustomization("apps", &["infra"])).await;
    world.apply(kustomization("infra", &[])).await;

    let apps = world.until("apps", |_| true).await;
    let first = apps["status"]["lastAppliedRevision"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        apps["status"]["inventory"]["entries"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let settings = world.get("v1", "ConfigMap", "settings").await.unwrap();
    assert_eq!(
        view::label(&settings, "kustomize.toolkit.fluxcd.io/name"),
        Some("apps")
    );
    assert_eq!(
        settings["metadata"]["managedFields"][0]["manager"],
        "kustomize-controller"
    );
    assert!(
        world
            .get("shop.example.com/v1", "Gadget", "one")
            .await
            .is_some()
    );

    // A new commit changes one object and takes the other away.
    write(
        &work,
        "apps/settings.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {level: debug}\n",
    );
    std::fs::remove_file(work.join("apps/gadget.yaml")).unwrap();
    git(&work, 2, &["add", "-A"]);
    git(&work, 2, &["commit", "-qm", "second"]);
    let repositories = world
        .resource("source.toolkit.fluxcd.io/v1", "GitRepository")
        .await;
    let request = Patch::Merge(
        json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "t1" } } }),
    );
    let at = At::new(NAMESPACE, "shop");
    world
        .client
        .patch(&repositories, at, &request, &WriteOptions::by("user"))
        .await
        .unwrap();
    world
        .until("apps", |object| {
            object["status"]["lastAppliedRevision"] != first.as_str()
        })
        .await;
    assert!(
        world
            .get("shop.example.com/v1", "Gadget", "one")
            .await
            .is_none()
    );
    assert_eq!(
        world.get("v1", "ConfigMap", "settings").await.unwrap()["data"]["level"],
        "debug"
    );

    // Drift is corrected without a request.
    let maps = world.resource("v1", "ConfigMap").await;
    let at = At::new(NAMESPACE, "settings");
    world
        .client
        .delete(&maps, at, &DeleteOptions::default())
        .await
        .unwrap();
    for attempt in 0.. {
        if world.get("v1", "ConfigMap", "settings").await.is_some() {
            break;
        }
        assert!(attempt < 200, "what was deleted does not come back");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    // What a Kustomization deployed goes with it.
    let kustomizations = world
        .resource("kustomize.toolkit.fluxcd.io/v1", "Kustomization")
        .await;
    let at = At::new(NAMESPACE, "apps");
    world
        .client
        .delete(&kustomizations, at, &DeleteOptions::default())
        .await
        .unwrap();
    for attempt in 0.. {
        if world.kustomization("apps").await.is_none() {
            break;
        }
        assert!(attempt < 200, "the Kustomization does not go");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(world.get("v1", "ConfigMap", "settings").await.is_none());
    engine.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_embedded_server() {
    if !git_is_here() {
        return;
    }
    let cluster = Cluster::start("run", &[]);
    deliver(&cluster.directory.join("kubeconfig")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_real_server() {
    if !git_is_here() {
        return;
    }
    if let Some(real) = ApiServer::start("run") {
        deliver(&real.kubeconfig()).await;
    }
}
