//! A cluster in memory with Flux's kinds, stand-ins for providers, and a dispatcher that can be killed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everflow_cluster::auth::User;
use everflow_cluster::faults::{Faults, Verdict};
use everflow_cluster::status::ApiError;
use everflow_cluster::{ApiServer, ApiService, Options as ServerOptions, Request};
use everflow_dispatch::receiver::{ReceiverController, ReceiverServer};
use everflow_dispatch::resources::{ALERTS, PROVIDERS, RECEIVERS};
use everflow_dispatch::{EventServer, Intake, Options, Setup, dispatcher};
use everflow_embedded::{EmbeddedTransport, ServerWorld};
use everflow_env::{Env, MemoryDialer, MemoryDisk, SeededRandom};
use everflow_json::{Value, json};
use everflow_runtime::Signal;
use everflow_runtime::client::{At, Client, Resource, Selection, WriteOptions};
use everflow_runtime::engine::Builder;
use everflow_runtime::events::{EVENTS, recorder};
use everflow_runtime::log::{Encoding, Level, Logger};
use everflow_runtime::metrics::Metrics;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::task::JoinHandle;

const DEFINITIONS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);
pub const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
pub const GIT_REPOSITORIES: Resource = Resource::namespaced(
    "source.toolkit.fluxcd.io",
    "v1",
    "gitrepositories",
    "GitRepository",
);

/// How a stand-in behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Answers with this status.
    Answers(u16),
    /// Repeats the request with this status.
    Repeats(u16),
    /// Takes requests and never answers.
    Hangs,
    /// Takes requests and closes the connection.
    Closes,
}

/// What a stand-in was sent: path and body.
pub type Got = Arc<Mutex<Vec<(String, String)>>>;

/// An API server that is away when told so.
#[derive(Debug, Default)]
pub struct Away(Mutex<bool>);

impl Faults for Away {
    fn before(&self, _: &Request) -> Verdict {
        match *self.0.lock().unwrap() {
            true => Verdict::Fail(ApiError::new(503, "ServiceUnavailable", "away on purpose")),
            false => Verdict::Pass,
        }
    }
}

pub struct World {
    pub env: Env,
    pub dialer: MemoryDialer,
    pub disk: MemoryDisk,
    pub metrics: Metrics,
    /// A client that no fault touches.
    pub user: Client,
    pub logged: Arc<Mutex<String>>,
    away: Arc<Away>,
    client: Client,
    running: Vec<JoinHandle<()>>,
}

impl World {
    pub async fn new() -> Self {
        let (dialer, disk) = (MemoryDialer::new(), MemoryDisk::new());
        let mut env = Env::simulated(1, dialer.clone());
        env.disk = Arc::new(disk.clone());
        let world = ServerWorld::new(env.clock.clone(), Arc::new(SeededRandom::new(2)));
        let server = ApiServer::new(Arc::new(world), ServerOptions::default());
        let away = Arc::new(Away::default());
        let service = ApiService::new(server.clone()).as_user(User::admin());
        let connect =
            |service| Client::new(Arc::new(EmbeddedTransport::new(service)), env.clock.clone());
        let world = World {
            user: connect(service.clone()),
            client: connect(service.with_faults(away.clone())),
            metrics: Metrics::new(),
            logged: Arc::default(),
            running: Vec::new(),
            env,
            dialer,
            disk,
            away,
        };
        for definition in everflow_api::crds() {
            let group = definition["spec"]["group"].as_str().unwrap();
            if group.starts_with("notification") || group.starts_with("source.toolkit") {
                world.put(&DEFINITIONS, &definition).await;
            }
        }
        let namespaces = Resource::cluster("", "v1", "namespaces", "Namespace");
        let apps = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps"}});
        world.put(&namespaces, &apps).await;
        world
    }

    pub async fn put(&self, resource: &Resource, object: &Value) {
        let namespace = if resource.namespaced { "apps" } else { "" };
        let by = WriteOptions::by("user");
        self.user
            .create(resource, namespace, object, &by)
            .await
            .unwrap();
    }

    pub async fn object(&self, resource: &Resource, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": resource.api_version(), "kind": resource.kind.as_str(),
            "metadata": {"name": name, "namespace": "apps"}, "spec": spec,
        });
        self.put(resource, &object).await;
    }

    pub async fn secret(&self, name: &str, data: Value) {
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "apps"},
            "stringData": data,
        });
        self.put(&SECRETS, &object).await;
    }

    /// An Alert for all Kustomizations and a Provider, both of this name.
    pub async fn alert(&self, name: &str, provider: Value) {
        self.object(&PROVIDERS, name, provider).await;
        let sources = json!([{"kind": "Kustomization", "name": "*"}]);
        let spec = json!({"providerRef": {"name": name}, "eventSources": sources});
        self.object(&ALERTS, name, spec).await;
    }

    pub async fn get(&self, resource: &Resource, name: &str) -> Value {
        self.user
            .get(resource, At::new("apps", name))
            .await
            .unwrap()
    }

    pub async fn all(&self, resource: &Resource) -> Vec<Value> {
        let everything = Selection::default();
        let listing = self.user.list_all(resource, Some("apps"), &everything);
        listing.await.unwrap().items
    }

    /// The Events there are: reason and message.
    pub async fn events(&self) -> Vec<(String, String)> {
        let text =
            |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        self.all(&EVENTS)
            .await
            .iter()
            .map(|event| (text(event, "reason"), text(event, "message")))
            .collect()
    }

    pub fn set_away(&self, is_away: bool) {
        *self.away.0.lock().unwrap() = is_away;
    }

    pub async fn sleep(&self, seconds: u64) {
        self.env.clock.sleep(Duration::from_secs(seconds)).await;
    }

    fn log(&self) -> Logger {
        let logged = self.logged.clone();
        Logger::new(
            self.env.clock.clone(),
            Level::Debug,
            Encoding::Json,
            move |line| {
                logged.lock().unwrap().push_str(line);
            },
        )
    }

    pub async fn start(&mut self, options: Options) -> Intake {
        let (events, telling) =
            recorder(&self.env, &self.client, &self.metrics, None, "test").unwrap();
        let (intake, dispatcher) = dispatcher(Setup {
            env: self.env.clone(),
            client: self.client.clone(),
            log: self.log(),
            metrics: self.metrics.clone(),
            recorder: events,
            host_name: "host".to_owned(),
            options,
        });
        self.running.push(tokio::spawn(telling.run()));
        self.running
            .push(tokio::spawn(dispatcher.run(Signal::new())));
        self.sleep(1).await;
        intake
    }

    /// The controller of Receivers, and the server for their webhooks.
    pub async fn start_receivers(&mut self) -> ReceiverServer {
        let options = everflow_runtime::Options::default();
        let (events, telling) =
            recorder(&self.env, &self.client, &self.metrics, None, "test").unwrap();
        let controller = ReceiverController::new(&options, 4);
        let log = self.log();
        let builder = Builder::new(
            self.env.clone(),
            self.client.clone(),
            options,
            log.clone(),
            self.metrics.clone(),
        );
        let engine = builder.controller(controller, |_| false).build(events);
        let store = engine.handle().store("Receiver").unwrap();
        self.running.push(tokio::spawn(telling.run()));
        self.running
            .push(tokio::spawn(engine.run(None, Signal::new())));
        self.sleep(2).await;
        let options = everflow_notify::receiver::Options::default();
        ReceiverServer::new(&self.env, &self.client, store, options, &log, &self.metrics)
    }

    /// What anybody may see of it: logs, metrics, Events, Alerts, Providers and Receivers, and the queue on disk.
    pub async fn left_behind(&self) -> String {
        let mut left = self.logged.lock().unwrap().clone();
        left.push_str(&self.metrics.text());
        for resource in [&EVENTS, &ALERTS, &PROVIDERS, &RECEIVERS] {
            for object in self.all(resource).await {
                left.push_str(&object.to_string());
            }
        }
        for file in everflow_env::Disk::list(&self.disk, "notifications").unwrap_or_default() {
            let path = format!("notifications/{}", file.name);
            let bytes = everflow_env::disk::read_all(&self.disk, &path, 64 << 20).unwrap();
            left.push_str(&String::from_utf8(bytes).unwrap());
        }
        left
    }

    /// Ends everything as kill -9 would, and loses what was not synced.
    pub async fn kill(&mut self) {
        for task in self.running.drain(..) {
            task.abort();
            let _ = task.await;
        }
        self.disk.crash();
    }

    /// A stand-in at a host, port 80.
    pub fn provider(&self, host: &str, manner: Manner) -> Got {
        self.provider_at(host, 80, manner)
    }

    pub fn provider_at(&self, host: &str, port: u16, manner: Manner) -> Got {
        let got = Got::default();
        let mut incoming = self.dialer.listen(host, port);
        let told = got.clone();
        tokio::spawn(async move {
            while let Some(stream) = incoming.recv().await {
                tokio::spawn(take(stream, manner, told.clone()));
            }
        });
        got
    }

    pub async fn path(&self, receiver: &str) -> String {
        let receiver = self.get(&RECEIVERS, receiver).await;
        receiver["status"]["webhookPath"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

async fn take(mut stream: DuplexStream, manner: Manner, got: Got) {
    let Some((head, body)) = read_message(&mut stream).await else {
        return;
    };
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let (status, text) = match manner {
        Manner::Answers(status) => (status, "{}".to_owned()),
        Manner::Repeats(status) => (status, format!("{head}\n\n{body}")),
        Manner::Hangs => {
            got.lock().unwrap().push((path, body));
            return std::future::pending().await;
        }
        Manner::Closes => return got.lock().unwrap().push((path, body)),
    };
    got.lock().unwrap().push((path, body));
    let length = text.len();
    let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{text}");
    // Whoever has heard enough may have gone.
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// Head and body of a message.
async fn read_message(stream: &mut DuplexStream) -> Option<(String, String)> {
    let mut text = String::new();
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.trim().parse().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                return Some((head.to_owned(), body.to_owned()));
            }
        }
        let mut chunk = [0; 4_096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => text.push_str(&String::from_utf8_lossy(&chunk[..count])),
        }
    }
}

/// An answer: its status, and its headers with names in lower case.
pub type Heard = (u16, BTreeMap<String, String>);

fn request(path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut text = format!("POST {path} HTTP/1.1\r\nhost: x\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    text
}

pub async fn exchange(mut ours: DuplexStream, request: String) -> Heard {
    let (mut reading, mut writing) = tokio::io::split(&mut ours);
    let _ = writing.write_all(request.as_bytes()).await;
    let mut text = Vec::new();
    let mut chunk = [0; 4_096];
    while !text.windows(4).any(|end| end == b"\r\n\r\n") {
        match reading.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(count) => text.extend_from_slice(&chunk[..count]),
        }
    }
    let text = String::from_utf8(text).unwrap();
    let mut lines = text.lines();
    let status = lines.next().unwrap_or_default().split(' ').nth(1);
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    (
        status.map_or(0, |status| status.parse().unwrap()),
        headers.collect(),
    )
}

pub async fn post_event(server: &EventServer, body: &str) -> Heard {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let server = server.clone();
    tokio::spawn(async move { server.serve(theirs).await });
    exchange(ours, request("/", &[], body)).await
}

pub async fn call(
    server: &ReceiverServer,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Heard {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let server = server.clone();
    tokio::spawn(async move { server.serve(theirs).await });
    exchange(ours, request(path, headers, body)).await
}
