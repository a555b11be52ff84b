//! The API server, the chart's repository and the engines.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use everflow_env::{Env, RealDisk};
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Body, ByteStream, Resource, Transport};
use everflow_runtime::transport::{ClusterConfig, HttpsTransport};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::Failure;
use crate::charts::Repository;
use crate::figures::Usage;
use crate::payload::{self, NAMESPACE};

/// So many requests are under way at once when objects are applied by us.
const AT_ONCE: usize = 20;
/// After so long without a change of the counts of requests, all has been said.
const QUIET: Duration = Duration::from_secs(3);
/// After so long it is not waited for that.
const LOUD: Duration = Duration::from_secs(60);
const APPLY: &str = "application/apply-patch+yaml";
const RELEASES: Resource = Resource::namespaced(
    "helm.toolkit.fluxcd.io",
    "v2",
    "helmreleases",
    "HelmRelease",
);
const REPOSITORIES: Resource = Resource::namespaced(
    "source.toolkit.fluxcd.io",
    "v1",
    "helmrepositories",
    "HelmRepository",
);

/// Everything but the engines.
pub struct World {
    transport: HttpsTransport,
    pub count: usize,
    pub servers: Vec<String>,
    kubeconfig: String,
    directory: PathBuf,
    charts: PathBuf,
    repository: Repository,
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
    pub fn new(
        kubeconfig: &str,
        directory: &Path,
        servers: Vec<String>,
        count: usize,
    ) -> Result<Self, Failure> {
        let charts = directory.join("charts");
        std::fs::create_dir_all(&charts)?;
        let env = Env::system(RealDisk::new(directory)?);
        let config = ClusterConfig::from_file(Path::new(kubeconfig), None)?;
        payload::publish(&charts, &["1.0.0"]);
        Ok(World {
            transport: HttpsTransport::new(&env, config)?,
            count,
            servers,
            kubeconfig: kubeconfig.to_owned(),
            directory: directory.to_owned(),
            repository: Repository::serve(&charts),
            charts,
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

    async fn apply_all(&self, all: impl Iterator<Item = (String, Value)>) -> Result<(), Failure> {
        stream::iter(all.map(Ok))
            .try_for_each_concurrent(AT_ONCE, |(path, object)| async move {
                self.send("PATCH", &path, APPLY, Some(&object)).await?;
                Ok(())
            })
            .await
    }

    /// What has to be there for all: definitions and the namespace.
    pub async fn prepare(&self) -> Result<(), Failure> {
        let definitions = everflow_api::crds().into_iter().map(|definition| {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            (format!("{path}/{name}?fieldManager=bench"), definition)
        });
        self.apply_all(definitions).await?;
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        let path = format!("/api/v1/namespaces/{NAMESPACE}?fieldManager=bench");
        self.send("PATCH", &path, APPLY, Some(&namespace)).await?;
        // Definitions are served a moment later.
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok(())
    }

    /// The objects of as many releases, applied by us.
    pub async fn apply_raw(&self) -> Result<(), Failure> {
        let names = (0..self.count).map(|index| format!("raw-{index:05}"));
        self.apply_all(names.flat_map(|name| payload::raw(&name)))
            .await
    }

    /// Makes the repository and the HelmReleases known to the cluster; again with another interval.
    pub async fn declare(&self, interval: &str) -> Result<(), Failure> {
        let path = |resource: &Resource, object: &Value| {
            let path = resource.object_path(&At::of(object));
            format!("{path}?fieldManager=bench&force=true")
        };
        let repository = payload::helm_repository(&self.repository.url);
        let first = (path(&REPOSITORIES, &repository), repository);
        let all = (0..self.count).map(|index| {
            let object = payload::helm_release(index, interval);
            (path(&RELEASES, &object), object)
        });
        self.apply_all(std::iter::once(first).chain(all)).await
    }

    /// Publishes another version of the chart and has the repository looked at.
    pub async fn publish(&self, versions: &[&str]) -> Result<(), Failure> {
        payload::publish(&self.charts, versions);
        let annotations = json!({"reconcile.fluxcd.io/requestedAt": versions.join(" ")});
        let request = json!({"metadata": {"annotations": annotations}});
        let path = REPOSITORIES.object_path(&At::new(NAMESPACE, "charts"));
        let media = "application/merge-patch+json";
        self.send("PATCH", &path, media, Some(&request)).await?;
        Ok(())
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
                .env("RUNTIME_NAMESPACE", NAMESPACE)
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()?;
            engines.push(Engine(child));
        }
        Ok(engines)
    }

    /// Waits until all are ready with a version of the chart, by a watch: asking again and again would cost the server
    /// more than the engine does.
    pub async fn until_all_have(&self, version: &str, longest: Duration) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut open: BTreeSet<String> = (0..self.count).map(payload::name).collect();
        let done = |object: &Value| {
            let status = &object["status"];
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            status["history"][0]["chartVersion"] == version
                && status["observedGeneration"] == object["metadata"]["generation"]
                && conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        let path = RELEASES.path(Some(NAMESPACE));
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
            loop {
                let chunk = tokio::time::timeout(Duration::from_secs(5), body.next()).await;
                if begun.elapsed() > longest {
                    return Err(format!("{} are not ready after {longest:?}", open.len()).into());
                }
                let Ok(chunk) = chunk else { continue };
                let Some(Ok(chunk)) = chunk else { break };
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
            }
        }
    }

    /// The Events there are by now, counted by their reason.
    pub async fn events(&self) -> Result<String, Failure> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/events");
        let list: Value = everflow_json::from_str(&self.text(&path).await?)?;
        let mut reasons = std::collections::BTreeMap::<String, usize>::new();
        for event in list["items"].as_array().into_iter().flatten() {
            let reason = event["reason"].as_str().unwrap_or_default();
            *reasons.entry(reason.to_owned()).or_default() += 1;
        }
        let counts = reasons
            .iter()
            .map(|(name, count)| format!("{name} {count}"));
        Ok(counts.collect::<Vec<_>>().join(", "))
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
