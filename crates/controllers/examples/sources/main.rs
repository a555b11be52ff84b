//! Measures what a thousand sources cost; see `bench/sources.sh`.
//!
//! - `sources serve DIRECTORY` serves git repositories and charts, and prints the port.
//! - `sources install KUBECONFIG` brings Flux's definitions and the namespace into a cluster.
//! - `sources measure KUBECONFIG PID PORT COUNT NAMESPACE` makes sources, waits until they are
//!   ready and prints what it took: requests as the API server counts them, CPU time and memory of
//!   the process as the kernel does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod serve;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everflow_controllers::ControllerKind;
use everflow_env::{Env, RealDisk};
use everflow_json::{Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{
    At, Body, Client, Paging, Patch, Resource, Selection, Transport, WriteOptions,
};
use everflow_runtime::transport::{ClusterConfig, HttpsTransport};
use futures_util::StreamExt as _;

const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
const DEFINITIONS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);
const PATIENCE: Duration = Duration::from_secs(600);

/// A thing that is counted: verb, resource and part of it.
type Counts = BTreeMap<(String, String, String), u64>;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["serve", directory] => serve::serve(Path::new(directory)),
        ["install", kubeconfig] => Bench::new(kubeconfig, "").install().await,
        ["measure", kubeconfig, pid, port, count, namespace] => {
            let bench = Bench::new(kubeconfig, namespace);
            bench.measure(pid, port, count.parse().unwrap()).await;
        }
        _ => println!("see the comment at the top of the source"),
    }
}

struct Bench {
    client: Client,
    transport: Arc<HttpsTransport>,
    namespace: String,
}

impl Bench {
    fn new(kubeconfig: &str, namespace: &str) -> Self {
        let env = Env::system(RealDisk::new(&std::env::temp_dir()).unwrap());
        let config = ClusterConfig::from_file(Path::new(kubeconfig), None).unwrap();
        let transport = Arc::new(HttpsTransport::new(&env, config).unwrap());
        Bench {
            client: Client::new(transport.clone(), env.clock.clone()).named("bench"),
            transport,
            namespace: namespace.to_owned(),
        }
    }

    async fn make(&self, resource: &Resource, object: Value) {
        let patch = Patch::Apply(object.clone());
        let options = WriteOptions::by("bench").force();
        loop {
            let at = At::of(&object);
            match self.client.patch(resource, at, &patch, &options).await {
                Ok(_) => return,
                // A kind that was defined a moment ago.
                Err(Error::NotFound(_)) => tokio::time::sleep(Duration::from_millis(200)).await,
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn install(&self) {
        for definition in everflow_api::crd::crds() {
            self.make(&DEFINITIONS, definition).await;
        }
        for name in ["bench-first", "bench-second"] {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            self.make(&NAMESPACES, namespace).await;
        }
        for kind in ControllerKind::ALL {
            while self
                .client
                .list(
                    &kind.resource(),
                    None,
                    &Selection::default(),
                    &Paging::default(),
                )
                .await
                .is_err()
            {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }

    /// All requests that the server has counted so far.
    async fn counts(&self) -> Counts {
        let request = http::Request::get("/metrics").body(None).unwrap();
        let answer = self.transport.send(request).await.unwrap();
        let Body::Bytes(mut body) = answer.into_body() else {
            panic!("the metrics are no text");
        };
        let mut text = Vec::new();
        while let Some(piece) = body.next().await {
            text.extend_from_slice(&piece.unwrap());
        }
        let text = String::from_utf8(text).unwrap();
        let mut counts = Counts::new();
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("apiserver_request_total{") else {
                continue;
            };
            let (labels, number) = rest.rsplit_once("} ").unwrap();
            let label = |name: &str| {
                let quoted = format!("{name}=\"");
                let from = labels
                    .find(&quoted)
                    .map_or(labels.len(), |at| at + quoted.len());
                labels[from..]
                    .split('"')
                    .next()
                    .unwrap_or_default()
                    .to_owned()
            };
            let key = (label("verb"), label("resource"), label("subresource"));
            *counts.entry(key).or_default() += number.parse::<f64>().unwrap() as u64;
        }
        counts
    }

    /// Waits until so many objects of a kind are ready; how often it had to look.
    async fn ready(&self, kind: ControllerKind, count: usize) -> u64 {
        let resource = kind.resource();
        let started = Instant::now();
        let mut looks = 0;
        loop {
            let namespace = Some(self.namespace.as_str());
            let listed = self
                .client
                .list(
                    &resource,
                    namespace,
                    &Selection::default(),
                    &Paging::default(),
                )
                .await
                .unwrap();
            looks += 1;
            let ready = |object: &&Value| {
                let conditions = object["status"]["conditions"].as_array();
                conditions.into_iter().flatten().any(|condition| {
                    condition["type"] == "Ready"
                        && condition["status"] == "True"
                        && object["status"]["observedGeneration"]
                            == object["metadata"]["generation"]
                })
            };
            let done = listed.items.iter().filter(ready).count();
            if done >= count {
                return looks;
            }
            if started.elapsed() > PATIENCE {
                let one = listed.items.iter().find(|object| !ready(object));
                panic!("{done} of {count} {resource} are ready; one that is not: {one:#?}");
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn measure(&self, pid: &str, port: &str, count: usize) {
        tokio::time::sleep(Duration::from_secs(10)).await;
        self.rest(pid, "empty").await;
        let interval = "1h";
        let git = |number: usize| {
            json!({
                "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
                "metadata": {"name": format!("git-{number}"), "namespace": self.namespace},
                "spec": {"interval": interval, "url": format!("http://127.0.0.1:{port}/git/repository"),
                    "ref": {"branch": "main"}},
            })
        };
        self.stage(pid, "git", ControllerKind::GitRepository, count, git)
            .await;
        self.rest(pid, "idle").await;
        let repository = |_| {
            json!({
                "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository",
                "metadata": {"name": "charts", "namespace": self.namespace},
                "spec": {"interval": interval, "url": format!("http://127.0.0.1:{port}/charts")},
            })
        };
        self.stage(
            pid,
            "repository",
            ControllerKind::HelmRepository,
            1,
            repository,
        )
        .await;
        let chart = |number: usize| {
            json!({
                "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart",
                "metadata": {"name": format!("chart-{number}"), "namespace": self.namespace},
                "spec": {"interval": interval, "chart": "small", "version": "1.x",
                    "sourceRef": {"kind": "HelmRepository", "name": "charts"}},
            })
        };
        self.stage(pid, "chart", ControllerKind::HelmChart, count, chart)
            .await;
        self.rest(pid, "idle_both").await;
    }

    /// Makes objects and waits until they are ready.
    async fn stage(
        &self,
        pid: &str,
        name: &str,
        kind: ControllerKind,
        count: usize,
        object: impl Fn(usize) -> Value,
    ) {
        let (before, cpu, started) = (self.counts().await, cpu_seconds(pid), Instant::now());
        let resource = kind.resource();
        let all = (0..count).map(|number| self.make(&resource, object(number)));
        futures_util::stream::iter(all)
            .buffer_unordered(8)
            .collect::<Vec<()>>()
            .await;
        let looks = self.ready(kind, count).await;
        let took = started.elapsed().as_secs_f64();
        // Events come a little later.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let spent = cpu_seconds(pid) - cpu;
        let mut counts = self.counts().await;
        for (key, number) in &mut counts {
            *number -= before.get(key).copied().unwrap_or(0);
            if key.1 == resource.plural && key.2.is_empty() {
                match key.0.as_str() {
                    "LIST" => *number = number.saturating_sub(looks),
                    "APPLY" => *number = number.saturating_sub(count as u64),
                    _ => {}
                }
            }
        }
        let mut total = 0;
        for ((verb, resource, part), number) in counts {
            let ours = matches!(verb.as_str(), "WATCH" | "CONNECT") || number == 0;
            let lease = resource == "leases" || resource.is_empty();
            if ours || lease || !relevant(&resource) {
                continue;
            }
            total += number;
            let part = if part.is_empty() {
                part
            } else {
                format!("/{part}")
            };
            println!("# {name} {verb} {resource}{part} {number}");
        }
        println!("{name}_requests_each {:.2}", total as f64 / count as f64);
        println!("{name}_cpu_ms_each {:.2}", spent * 1e3 / count as f64);
        println!("{name}_cpu_s {spent:.2}");
        println!("{name}_ready_s {took:.1}");
        println!("{name}_rss_mb {:.1}", memory(pid, "VmRSS"));
        println!("{name}_peak_mb {:.1}", memory(pid, "VmHWM"));
    }

    async fn rest(&self, pid: &str, name: &str) {
        // What was needed for the work is given back by then.
        tokio::time::sleep(Duration::from_secs(20)).await;
        let before = cpu_seconds(pid);
        tokio::time::sleep(Duration::from_secs(20)).await;
        let spent = (cpu_seconds(pid) - before) / 20.0;
        println!("{name}_cpu_percent {:.2}", spent * 100.0);
        println!("{name}_rss_mb {:.1}", memory(pid, "VmRSS"));
        println!(
            "# {name} of that: anonymous {:.1} MB, of files {:.1} MB",
            memory(pid, "RssAnon"),
            memory(pid, "RssFile")
        );
    }
}

/// What the API server asks of itself is not the engine's.
fn relevant(resource: &str) -> bool {
    let mut kinds = ControllerKind::ALL.iter();
    matches!(
        resource,
        "events" | "secrets" | "serviceaccounts" | "configmaps"
    ) || kinds.any(|kind| kind.resource().plural == resource)
}

/// CPU time of a process, all threads.
fn cpu_seconds(pid: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

fn memory(pid: &str, field: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<f64>()
        .unwrap()
        / 1024.0
}
