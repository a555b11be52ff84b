//! The API server, the repository and the engine.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use everflow_env::{Env, RealDisk};
use everflow_json::{Value, json};
use everflow_runtime::client::{
    At, Body, ByteStream, Client, Patch, Resource, Transport, WriteOptions,
};
use everflow_runtime::transport::{ClusterConfig, HttpsTransport};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::figures::Usage;
use crate::payload::{self, Commit};
use crate::support::{GitServer, git};
use crate::{Failure, payload::namespace};

/// So many requests are under way at once when objects are applied raw.
const RAW: usize = 20;
/// After so long without a change of the counts of requests, all has been said.
const QUIET: Duration = Duration::from_secs(3);
/// After so long it is not waited for that.
const LOUD: Duration = Duration::from_secs(60);
const KUSTOMIZATIONS: Resource = Resource::namespaced(
    "kustomize.toolkit.fluxcd.io",
    "v1",
    "kustomizations",
    "Kustomization",
);
const REPOSITORIES: Resource = Resource::namespaced(
    "source.toolkit.fluxcd.io",
    "v1",
    "gitrepositories",
    "GitRepository",
);

/// Everything but the engine.
pub struct World {
    client: Client,
    transport: HttpsTransport,
    pub count: usize,
    pub servers: Vec<String>,
    kubeconfig: String,
    directory: PathBuf,
    repository: PathBuf,
    port: u16,
    _server: GitServer,
}

/// A program under test, ended with the run.
pub struct Engine(Child);

impl Engine {
    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl World {
    pub async fn new(
        kubeconfig: &str,
        directory: &Path,
        servers: Vec<String>,
        count: usize,
    ) -> Result<Self, Failure> {
        std::fs::create_dir_all(directory)?;
        let env = Env::system(RealDisk::new(directory)?);
        let connect = || {
            let config = ClusterConfig::from_file(Path::new(kubeconfig), None)?;
            HttpsTransport::new(&env, config)
        };
        let client = Client::new(Arc::new(connect()?), env.clock.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let root = directory.join("repositories");
        let repository = root.join("bench");
        std::fs::create_dir_all(&repository)?;
        Ok(World {
            transport: connect()?,
            client,
            count,
            servers,
            kubeconfig: kubeconfig.to_owned(),
            directory: directory.to_owned(),
            repository,
            port,
            _server: GitServer::on_tcp(listener, &root),
        })
    }

    /// Sends a request and reads the whole answer.
    async fn send(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: Option<&Value>,
    ) -> Result<String, Failure> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("accept", "application/json, */*")
            .header("content-type", media)
            .header("user-agent", "bench/1")
            .body(body)?;
        let answer = self.transport.send(request).await?;
        let status = answer.status();
        let chunks: Vec<Bytes> = bytes(answer.into_body()).try_collect().await?;
        let text = String::from_utf8(chunks.concat())?;
        match status.is_success() {
            true => Ok(text),
            false => Err(format!("{method} {path}: {status} {text}").into()),
        }
    }

    pub async fn text(&self, path: &str) -> Result<String, Failure> {
        self.send("GET", path, "application/json", None).await
    }

    /// Applies objects, so many at once; each is made when its turn comes.
    async fn apply_all(&self, all: impl Iterator<Item = (String, Value)>) -> Result<(), Failure> {
        let media = "application/apply-patch+yaml";
        stream::iter(all.map(Ok))
            .try_for_each_concurrent(RAW, |(path, object)| async move {
                self.send("PATCH", &path, media, Some(&object)).await?;
                Ok(())
            })
            .await
    }

    /// What has to be there for all: definitions, namespaces, the repository. How long the namespaces
    /// took.
    pub async fn prepare(&self) -> Result<Duration, Failure> {
        for definition in everflow_api::crds() {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?fieldManager=bench"
            );
            let media = "application/apply-patch+yaml";
            self.send("PATCH", &path, media, Some(&definition)).await?;
        }
        let names = ["bench", "warm-up"].map(str::to_owned);
        self.make_namespaces(names.into_iter()).await?;
        let begun = Instant::now();
        self.make_namespaces((0..self.count).map(namespace)).await?;
        let took = begun.elapsed();
        payload::write(&self.repository, self.count, Commit::First)?;
        self.git(&["init", "-q", "-b", "main"]);
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", "first"]);
        // The first applies of a kind are slower.
        for _ in 0..50 {
            self.apply_all(self.raw_objects("warm-up".to_owned(), "app"))
                .await?;
        }
        Ok(took)
    }

    async fn make_namespaces(&self, names: impl Iterator<Item = String>) -> Result<(), Failure> {
        self.apply_all(names.map(|name| {
            let path = format!("/api/v1/namespaces/{name}?fieldManager=bench");
            let object =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            (path, object)
        }))
        .await
    }

    fn raw_objects(
        &self,
        namespace: String,
        name: &str,
    ) -> impl Iterator<Item = (String, Value)> + use<> {
        let objects = payload::objects(&namespace, name, "info", "team-1");
        objects
            .into_iter()
            .map(|object| (payload::path(&object), object))
    }

    /// The same objects, applied by nobody but us.
    pub async fn apply_raw(&self, begun: &Usage) -> Result<Usage, Failure> {
        let all = (0..self.count).flat_map(|index| self.raw_objects(namespace(index), "app"));
        self.apply_all(all).await?;
        Ok(Usage::of(self, &[]).await?.since(begun))
    }

    /// Waits until the controllers of Kubernetes have seen all Deployments.
    pub async fn until_all_observed(&self) -> Result<(), Failure> {
        loop {
            let all = self.text("/apis/apps/v1/deployments").await?;
            let all: Value = everflow_json::from_str(&all)?;
            let unseen = |object: &Value| {
                object["status"]["observedGeneration"] != object["metadata"]["generation"]
            };
            if !all["items"].as_array().into_iter().flatten().any(unseen) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// The least that an engine has to write: the same objects, and for each Kustomization its
    /// finalizer, its inventory, its status and an Event.
    pub async fn apply_least(&self) -> Result<(), Failure> {
        stream::iter((0..self.count).map(Ok))
            .try_for_each_concurrent(RAW, |index| self.least(index))
            .await
    }

    async fn least(&self, index: usize) -> Result<(), Failure> {
        let path = KUSTOMIZATIONS.object_path(&At::of(&idle_kustomization(index)));
        let patch = |path: String, operations: Value| async move {
            let media = "application/json-patch+json";
            let path = format!("{path}?fieldManager=raw");
            self.send("PATCH", &path, media, Some(&operations)).await
        };
        let finalizers = json!(["finalizers.fluxcd.io"]);
        let answer = patch(
            path.clone(),
            json!([{"op": "add", "path": "/metadata/finalizers", "value": finalizers}]),
        )
        .await?;
        let objects: Vec<(String, Value)> = self.raw_objects(namespace(index), "app").collect();
        let entries: Vec<Value> = objects
            .iter()
            .map(|(_, object)| json!({"id": format!("{}_app__{}", namespace(index), object["kind"]), "v": "v1"}))
            .collect();
        // At the version that was just answered: the cheapest way to write a status.
        let status = |answer: String, text: &str, ready: &str| {
            let mut object: Value = everflow_json::from_str(&answer).unwrap_or_default();
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("managedFields");
            }
            object["status"] = json!({
                "inventory": {"entries": entries}, "observedGeneration": 1,
                "conditions": [{"type": "Ready", "status": ready, "reason": "Progressing", "message": text,
                    "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}],
            });
            let path = format!("{path}/status?fieldManager=raw");
            async move {
                let media = "application/json";
                self.send("PUT", &path, media, Some(&object)).await
            }
        };
        let answer = status(answer, "begun", "Unknown").await?;
        self.apply_all(objects.into_iter()).await?;
        status(answer, "done", "True").await?;
        let event = json!({"apiVersion": "v1", "kind": "Event", "type": "Normal", "reason": "Done",
            "metadata": {"name": format!("least-{index}"), "namespace": "bench"},
            "involvedObject": {"kind": "Kustomization", "namespace": "bench", "name": namespace(index)},
            "message": "created ".repeat(20), "source": {"component": "raw"}});
        let path = "/api/v1/namespaces/bench/events?fieldManager=raw";
        self.send("POST", path, "application/json", Some(&event))
            .await?;
        Ok(())
    }

    /// Makes the Kustomizations of that, which nobody works on.
    pub async fn declare_least(&self) -> Result<(), Failure> {
        let all = (0..self.count).map(|index| {
            let object = idle_kustomization(index);
            let path = KUSTOMIZATIONS.object_path(&At::of(&object));
            (format!("{path}?fieldManager=bench&force=true"), object)
        });
        self.apply_all(all).await
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(&self.repository, 1, arguments)
    }

    /// The revision that all are to have.
    pub fn revision(&self) -> Result<String, Failure> {
        Ok(format!("main@sha1:{}", self.git(&["rev-parse", "HEAD"])))
    }

    /// Makes a new revision.
    pub fn commit(&self, commit: Commit) -> Result<(), Failure> {
        payload::write(&self.repository, self.count, commit)?;
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", "next"]);
        Ok(())
    }

    /// Makes the repository and the Kustomizations known to the cluster.
    pub async fn declare(&self) -> Result<(), Failure> {
        let url = format!("http://127.0.0.1:{}/bench/.git", self.port);
        let repository = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"namespace": "bench", "name": "bench"},
            "spec": {"interval": "1h", "url": url, "ref": {"branch": "main"}},
        });
        let path = |resource: &Resource, object: &Value| {
            let path = resource.object_path(&At::of(object));
            format!("{path}?fieldManager=bench&force=true")
        };
        let all = (0..self.count).map(|index| {
            let object = payload::kustomization(index, "1h");
            (path(&KUSTOMIZATIONS, &object), object)
        });
        let first = (path(&REPOSITORIES, &repository), repository);
        self.apply_all(std::iter::once(first).chain(all)).await
    }

    /// Gives all Kustomizations another interval.
    pub async fn set_interval(&self, interval: &str) -> Result<(), Failure> {
        let all = (0..self.count).map(|index| {
            let object = payload::kustomization(index, interval);
            let path = KUSTOMIZATIONS.object_path(&At::of(&object));
            (format!("{path}?fieldManager=bench&force=true"), object)
        });
        self.apply_all(all).await
    }

    /// Starts the engines; their arguments are followed by `--` but for the last.
    pub fn start(&self, programs: &[String]) -> Result<Vec<Engine>, Failure> {
        let mut engines = Vec::new();
        let programs = programs.split(|word| word == "--");
        for (number, words) in programs.enumerate() {
            let Some((program, arguments)) = words.split_first() else {
                continue;
            };
            let log = self.directory.join(format!("engine-{number}.log"));
            let log = std::fs::File::create(log)?;
            let child = Command::new(program)
                .args(arguments)
                .env("KUBECONFIG", &self.kubeconfig)
                .env("RUNTIME_NAMESPACE", "bench")
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()?;
            engines.push(Engine(child));
        }
        Ok(engines)
    }

    /// Has the repository looked at now.
    pub async fn request(&self, token: &str) -> Result<(), Failure> {
        let token = format!("{token}-{}", self.git(&["rev-parse", "HEAD"]));
        let request =
            json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": token}}});
        let by = WriteOptions::by("bench");
        let patch = Patch::Merge(request);
        let at = At::new("bench", "bench");
        self.client.patch(&REPOSITORIES, at, &patch, &by).await?;
        Ok(())
    }

    /// Waits until all are ready at a revision, by a watch: asking again and again would cost the
    /// server more than the engine does.
    pub async fn until_all_have(&self, revision: &str, begun: Instant) -> Result<(), Failure> {
        let mut open: std::collections::BTreeSet<String> = (0..self.count).map(namespace).collect();
        let done = |object: &Value| {
            let conditions = object["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            object["status"]["lastAppliedRevision"] == revision
                && conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        let path = KUSTOMIZATIONS.path(Some("bench"));
        let path = format!(
            "{path}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        );
        loop {
            let request = http::Request::builder()
                .uri(&path)
                .header("accept", "application/json")
                .body(None)?;
            let mut body = bytes(self.transport.send(request).await?.into_body());
            let mut rest = Vec::new();
            while let Some(chunk) = body.next().await {
                let Ok(chunk) = chunk else { break };
                rest.extend_from_slice(&chunk);
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    let event: Value = everflow_json::from_slice(&line)?;
                    let object = &event["object"];
                    if done(object) {
                        open.remove(object["metadata"]["name"].as_str().unwrap_or_default());
                    }
                }
                if open.is_empty() {
                    return Ok(());
                }
                if begun.elapsed() > Duration::from_secs(3_600) {
                    return Err(format!("{} are not ready after an hour", open.len()).into());
                }
            }
        }
    }

    /// Waits until nobody asks the server anything any more.
    pub async fn until_quiet(&self, engines: &[String]) -> Result<Usage, Failure> {
        let begun = Instant::now();
        let mut last = Usage::of(self, engines).await?;
        loop {
            tokio::time::sleep(QUIET).await;
            let now = Usage::of(self, engines).await?;
            let asked = now.since(&last);
            if asked.is_quiet() {
                return Ok(now);
            }
            if begun.elapsed() > LOUD {
                println!("it does not become quiet: {}", asked.requests());
                return Ok(now);
            }
            last = now;
        }
    }
}

/// The text of an answer, as it comes over a connection.
fn bytes(body: Body) -> ByteStream {
    match body {
        Body::Bytes(stream) => stream,
        Body::Tree(_) | Body::Events(_) => Box::pin(stream::empty()),
    }
}

/// A Kustomization that no engine works on.
fn idle_kustomization(index: usize) -> Value {
    let mut object = payload::kustomization(index, "1h");
    object["spec"]["suspend"] = true.into();
    object
}
