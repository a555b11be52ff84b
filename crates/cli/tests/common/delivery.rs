//! A cluster to deliver to, and the program that delivers.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use everflow_api::view;
use everflow_env::{Env, RealDisk};
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Client, Patch, Resource, WriteOptions};
use everflow_runtime::transport::{ClusterConfig, HttpsTransport};

use crate::support::GitServer;

pub const NAMESPACE: &str = "shop";

/// A program that delivers, ended with the test.
pub struct Engine(pub Child);

impl Engine {
    pub fn start(kubeconfig: &Path, storage: &Path) -> Self {
        Engine::start_with(kubeconfig, storage, &[])
    }

    /// The same, with more flags.
    pub fn start_with(kubeconfig: &Path, storage: &Path, more: &[&str]) -> Self {
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
            .args(more)
            .env("RUNTIME_NAMESPACE", "default")
            .stdout(Stdio::null())
            .spawn();
        Engine(child.unwrap())
    }

    /// Asks it to stop and waits until it has, however it ends.
    pub fn end(mut self) {
        let id = self.0.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let _ = self.0.wait();
    }

    /// Asks it to stop and waits until it has.
    pub fn stop(mut self) {
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

pub struct World {
    pub client: Client,
    pub place: tempfile::TempDir,
}

impl World {
    pub fn new(kubeconfig: &Path) -> Self {
        let place = tempfile::tempdir().unwrap();
        let env = Env::system(RealDisk::new(place.path()).unwrap());
        let config = ClusterConfig::from_file(kubeconfig, None).unwrap();
        let transport = HttpsTransport::new(&env, config).unwrap();
        let client = Client::new(Arc::new(transport), env.clock.clone());
        World { client, place }
    }

    pub async fn resource(&self, api_version: &str, kind: &str) -> Resource {
        for _ in 0..100 {
            if let Ok(resource) = self.client.resource(api_version, kind).await {
                return resource;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{api_version} {kind} is not served");
    }

    pub async fn apply(&self, object: Value) {
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

    pub async fn get(&self, api_version: &str, kind: &str, name: &str) -> Option<Value> {
        let resource = self.resource(api_version, kind).await;
        self.client
            .get(&resource, At::new(NAMESPACE, name))
            .await
            .ok()
    }

    /// Serves the repository `shop` below a directory, and has the API know Flux's kinds, the
    /// namespace of the tests. Gives the GitRepository for it.
    pub async fn serve(&self, root: &Path) -> (GitServer, Value) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = GitServer::on_tcp(listener, root);
        for definition in everflow_api::crds() {
            self.apply(definition).await;
        }
        self.apply(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        )
        .await;
        let url = format!("http://127.0.0.1:{port}/shop/.git");
        let repository = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"namespace": NAMESPACE, "name": "shop"},
            "spec": {"interval": "10m", "url": url, "ref": {"branch": "main"}},
        });
        (server, repository)
    }

    pub async fn kustomization(&self, name: &str) -> Option<Value> {
        self.get("kustomize.toolkit.fluxcd.io/v1", "Kustomization", name)
            .await
    }

    /// Waits until a Kustomization is ready and shows what is wanted.
    pub async fn until(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
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

/// Writes a file below a directory.
pub fn write(root: &Path, file: &str, text: &str) {
    let file = root.join(file);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}
