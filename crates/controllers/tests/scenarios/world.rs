//! A cluster, remotes and the engine, for one scenario.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_cluster::auth::User;
use everflow_cluster::faults::{Faults, NoFaults};
use everflow_cluster::{ApiServer, ApiService, Authority, controllers};
use everflow_controllers::{ControllerKind, Options, Setup};
use everflow_embedded::{EmbeddedAdmission, EmbeddedTransport, ServerWorld};
use everflow_env::{Env, MemoryDialer, SeededRandom};
use everflow_fetch::storage::{FileServer, ServerLimits, Storage, StorageOptions};
use everflow_json::{Value, json};
use everflow_runtime::Signal;
use everflow_runtime::client::{At, Client, DeleteOptions, Patch, Resource, WriteOptions};
use everflow_runtime::engine::Handle;
use everflow_runtime::events::recorder;
use everflow_runtime::log::{Encoding, Level, Logger};
use everflow_runtime::metrics::Metrics;
use tokio::task::JoinHandle;

use super::git::{self, File, Repository};
use super::net::{Answer, serve};
use super::registry::Registry;
use super::scenario::{Ordered, Scenario};

pub const GIT: u16 = 9_001;
pub const HELM: u16 = 9_002;
pub const REGISTRY: u16 = 9_003;
const STORAGE: u16 = 9_004;
const SINK: u16 = 9_005;
pub const API: u16 = 6_443;
/// The host of another cluster.
pub const REMOTE: &str = "remote.example.com";
const DEAD: &str = "127.0.0.1:1";
/// The token that kubeconfigs show.
pub const TOKEN: &str = "token-of-an-admin";

/// How long nothing may change before a state counts as settled.
const QUIET: Duration = Duration::from_secs(2);
/// A state that goes on changing is taken after so long.
const PATIENCE: Duration = Duration::from_secs(120);

const DEFINITIONS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);
/// The kinds of Flux that the recordings are about.
const KINDS: [(&str, &str); 7] = [
    ("source.toolkit.fluxcd.io", "Bucket"),
    ("source.toolkit.fluxcd.io", "ExternalArtifact"),
    ("source.toolkit.fluxcd.io", "GitRepository"),
    ("source.toolkit.fluxcd.io", "HelmChart"),
    ("source.toolkit.fluxcd.io", "HelmRepository"),
    ("source.toolkit.fluxcd.io", "OCIRepository"),
    ("kustomize.toolkit.fluxcd.io", "Kustomization"),
];
const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");

/// The kinds whose controllers ran when sources and Kustomizations were recorded.
pub const RECORDED: &[ControllerKind] = &[
    ControllerKind::GitRepository,
    ControllerKind::OCIRepository,
    ControllerKind::HelmRepository,
    ControllerKind::Bucket,
    ControllerKind::HelmChart,
    ControllerKind::Kustomization,
];

/// Options as the recording had them.
pub fn recorded_options() -> Options {
    let mut options = Options::default();
    options.runtime.requeue_dependency = Duration::from_secs(1);
    options.runtime.min_retry_delay = Duration::from_millis(300);
    options.runtime.interval_jitter_percentage = 0;
    options.concurrent = 48;
    options.runtime.concurrency = 48;
    options.runtime.concurrency_per_host = 48;
    options.kustomize.http_retry = 1;
    options.kustomize.concurrent = 48;
    options
}

/// Making keys takes its time: one authority serves all worlds.
fn authority() -> Arc<Authority> {
    static ONE: OnceLock<Arc<Authority>> = OnceLock::new();
    let names = ["127.0.0.1".to_owned(), REMOTE.to_owned()];
    let make = || Arc::new(Authority::generate(&names).unwrap());
    ONE.get_or_init(make).clone()
}

/// Serves a cluster over TLS. Connections end with the task.
pub fn serve_cluster(
    dialer: &MemoryDialer,
    host: &str,
    server: &ApiServer,
    authority: &Authority,
) -> JoinHandle<()> {
    let service = ApiService::new(server.clone());
    let tls = authority.server_config().unwrap();
    let mut incoming = dialer.listen(host, API);
    tokio::spawn(async move {
        let mut open = tokio::task::JoinSet::new();
        while let Some(stream) = incoming.recv().await {
            let (service, tls) = (service.clone(), tls.clone());
            open.spawn(everflow_cluster::server::converse(service, tls, stream));
        }
    })
}

/// An engine that runs.
struct Running {
    handle: Handle,
    stop: Signal,
    task: JoinHandle<()>,
}

/// All of it.
pub struct World {
    pub env: Env,
    pub server: ApiServer,
    /// A client that no fault touches.
    pub client: Client,
    /// What the controllers ask with.
    pub engine_client: Client,
    pub namespace: String,
    pub git: Arc<Mutex<BTreeMap<String, Repository>>>,
    pub charts: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    pub registry: Arc<Mutex<Registry>>,
    pub posted: Arc<Mutex<Vec<Value>>>,
    pub dialer: MemoryDialer,
    /// Whether the API server is told the news of an attempt in one Event, as `everflow run` does.
    pub brief: bool,
    /// Who vouches for the servers of the clusters.
    pub authority: Arc<Authority>,
    /// All that the engine logged.
    pub logged: Arc<Mutex<String>>,
    options: Options,
    kinds: Vec<ControllerKind>,
    running: Option<Running>,
    requests: u32,
}

impl World {
    /// A world with the remotes and objects of a scenario; the engine runs.
    pub async fn start(scenario: &Scenario, options: Options, kinds: &[ControllerKind]) -> World {
        Self::start_with(scenario, options, kinds, Arc::new(NoFaults)).await
    }

    /// The same, with faults between the engine and the API server.
    pub async fn start_with(
        scenario: &Scenario,
        options: Options,
        kinds: &[ControllerKind],
        faults: Arc<dyn Faults>,
    ) -> World {
        let dialer = MemoryDialer::new();
        let env = Env::simulated(1, dialer.clone());
        let server_world = ServerWorld::new(env.clock.clone(), Arc::new(SeededRandom::new(2)));
        let server = ApiServer::new(
            Arc::new(server_world),
            everflow_cluster::Options {
                authorization: true,
                // The recording had the controllers of Deployments and ReplicaSets besides, but
                // nothing that would run Pods.
                controllers: vec![controllers::Controller::Namespace],
                tokens: vec![(TOKEN.to_owned(), User::admin())],
                ..everflow_cluster::Options::default()
            },
        );
        let service = ApiService::new(server.clone()).as_user(User::admin());
        let client = Client::new(Arc::new(EmbeddedTransport::new(service)), env.clock.clone());
        let faulty = ApiService::new(server.clone())
            .as_user(User::admin())
            .with_faults(faults);
        let faulty = Arc::new(EmbeddedTransport::new(faulty));
        let engine_client = Client::new(faulty, env.clock.clone());
        tokio::spawn(tick(server.clone(), env.clone()));
        let mut world = World {
            env,
            server,
            client,
            engine_client,
            namespace: scenario.namespace.clone(),
            git: Arc::default(),
            charts: Arc::default(),
            registry: Arc::default(),
            posted: Arc::default(),
            dialer: dialer.clone(),
            brief: false,
            authority: authority(),
            logged: Arc::default(),
            options,
            kinds: kinds.to_vec(),
            running: None,
            requests: 0,
        };
        world.serve_remotes(&dialer);
        serve_cluster(&dialer, "127.0.0.1", &world.server, &world.authority);
        world.prepare(scenario).await;
        world.start_engine().await;
        world
    }

    pub fn serve_remotes(&self, dialer: &MemoryDialer) {
        let repositories = self.git.clone();
        serve(dialer, GIT, move |asked| {
            git::answer(&repositories.lock().unwrap(), asked)
        });
        let charts = self.charts.clone();
        serve(dialer, HELM, move |asked| {
            helm(&charts.lock().unwrap(), asked)
        });
        let registry = self.registry.clone();
        serve(dialer, REGISTRY, move |asked| {
            registry.lock().unwrap().answer(asked)
        });
        let posted = self.posted.clone();
        serve(dialer, SINK, move |asked| {
            posted
                .lock()
                .unwrap()
                .push(everflow_json::from_slice(&asked.body).unwrap());
            Answer::status(202)
        });
        let files = FileServer::new(&self.env, ServerLimits::default());
        let mut incoming = dialer.listen("127.0.0.1", STORAGE);
        tokio::spawn(async move {
            while let Some(stream) = incoming.recv().await {
                let files = files.clone();
                tokio::spawn(async move { files.serve(stream).await });
            }
        });
    }

    async fn prepare(&mut self, scenario: &Scenario) {
        let by = WriteOptions::by("user");
        let groups = KINDS.map(|(group, _)| group);
        for definition in everflow_api::crds() {
            let group = definition["spec"]["group"].as_str().unwrap();
            if !groups.contains(&group) && group != "helm.toolkit.fluxcd.io" {
                continue;
            }
            self.client
                .create(&DEFINITIONS, "", &definition, &by)
                .await
                .unwrap();
        }
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace},
        });
        self.client
            .create(&NAMESPACES, "", &namespace, &by)
            .await
            .unwrap();
        self.prepare_git(scenario);
        self.put_charts(&scenario.charts);
        for push in &scenario.oci {
            self.registry.lock().unwrap().push(&self.namespace, push);
        }
    }

    fn prepare_git(&mut self, scenario: &Scenario) {
        let mut repository = Repository::new();
        if let Some(files) = scenario.files.as_object() {
            repository.write(files);
            repository.commit("init");
        }
        for more in &scenario.git {
            repository.more(more, &more["files"]);
        }
        let mut repositories = self.git.lock().unwrap();
        if scenario.namespace == "s-git-submodules" {
            // What the note of that scenario describes.
            let mut library = Repository::new();
            library.put_file("lib.yaml", File::Plain(b"lib: 1\n".to_vec()));
            library.commit("lib");
            let url = format!("http://127.0.0.1:{GIT}/s-git-submodules-lib.git");
            let modules = format!("[submodule \"lib\"]\n\tpath = lib\n\turl = {url}\n");
            repository.put_file(".gitmodules", File::Plain(modules.into_bytes()));
            repository.put_file("lib", File::Module(library.commits[0]));
            repository.commit("add submodule");
            repositories.insert("s-git-submodules-lib".to_owned(), library);
        }
        repositories.insert(self.namespace.clone(), repository);
    }

    pub fn put_charts(&self, charts: &Value) {
        let mut files = self.charts.lock().unwrap();
        for (name, content) in charts.as_object().into_iter().flatten() {
            let bytes = match content {
                Value::String(text) => self.real(text).into_bytes(),
                content => STANDARD
                    .decode(content["base64"].as_str().unwrap())
                    .unwrap(),
            };
            files.insert(format!("/{}/{name}", self.namespace), bytes);
        }
    }

    pub async fn start_engine(&mut self) {
        let (env, metrics) = (self.env.clone(), Metrics::new());
        let storage = StorageOptions {
            advertised: format!("127.0.0.1:{STORAGE}"),
            ..StorageOptions::default()
        };
        let log = match std::env::var_os("EVERFLOW_TEST_LOG") {
            None => {
                let logged = self.logged.clone();
                Logger::new(
                    env.clock.clone(),
                    Level::Debug,
                    Encoding::Json,
                    move |line| {
                        logged.lock().unwrap().push_str(line);
                    },
                )
            }
            Some(_) => Logger::to_stderr(env.clock.clone(), Level::Debug, Encoding::Console),
        };
        let setup = Setup {
            env: env.clone(),
            client: self.engine_client.clone(),
            options: self.options.clone(),
            admission: Some(Arc::new(EmbeddedAdmission)),
            storage: Storage::open(&env, storage).await.unwrap(),
            log,
            metrics: metrics.clone(),
        };
        let sink = format!("http://127.0.0.1:{SINK}/");
        let (mut recorder, event_sender) =
            recorder(&env, &self.engine_client, &metrics, Some(&sink), "test").unwrap();
        if self.brief {
            recorder = recorder.briefly();
        }
        let engine = setup.engine(&self.kinds, recorder);
        let (handle, stop) = (engine.handle(), Signal::new());
        let ending = stop.clone();
        tokio::spawn(event_sender.run());
        let task = tokio::spawn(engine.run(None, ending));
        self.running = Some(Running { handle, stop, task });
    }

    pub async fn stop_engine(&mut self) {
        let running = self.running.take().unwrap();
        running.stop.raise();
        running.task.await.unwrap();
    }

    /// Ends the engine as kill -9 would.
    pub async fn kill_engine(&mut self) {
        let running = self.running.take().unwrap();
        running.task.abort();
        let _ = running.task.await;
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub fn handle(&self) -> &Handle {
        &self.running.as_ref().unwrap().handle
    }

    pub async fn sleep(&self, span: Duration) {
        self.env.clock.sleep(span).await;
    }

    fn symbols(&self) -> Vec<(String, String)> {
        let host = |port: u16| format!("127.0.0.1:{port}");
        let mut symbols: Vec<(String, String)> = Vec::new();
        for (name, port) in [("GIT", GIT), ("HELM", HELM), ("STORAGE", STORAGE)] {
            symbols.push((format!("${name}HOST"), host(port)));
            symbols.push((format!("${name}"), format!("http://{}", host(port))));
        }
        symbols.push(("$APIHOST".to_owned(), host(API)));
        symbols.push(("$API".to_owned(), format!("https://{}", host(API))));
        symbols.push(("$REG".to_owned(), host(REGISTRY)));
        symbols.push(("$TOKEN".to_owned(), TOKEN.to_owned()));
        let authority = STANDARD.encode(&self.authority.ca_certificate);
        symbols.push(("$CA".to_owned(), authority));
        symbols.push(("$DEAD".to_owned(), DEAD.to_owned()));
        let repositories = self.git.lock().unwrap();
        if let Some(repository) = repositories.get(&self.namespace) {
            for (at, id) in repository.commits.iter().enumerate().rev() {
                let (symbol, id) = (format!("$SHA{}", at + 1), id.to_string());
                symbols.push((format!("{symbol}:short"), id[..7].to_owned()));
                symbols.push((symbol, id));
            }
        }
        symbols
    }

    /// Text of a scenario with this world's values.
    pub fn real(&self, text: &str) -> String {
        let symbols = self.symbols();
        symbols
            .iter()
            .fold(text.to_owned(), |text, (symbol, value)| {
                text.replace(symbol, value)
            })
    }

    /// Text of this world with a scenario's symbols: longer values first.
    pub fn symbolic(&self, text: &str) -> String {
        let mut symbols = self.symbols();
        symbols.retain(|(symbol, _)| !symbol.ends_with("HOST") && !symbol.ends_with(":short"));
        symbols.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        let mut text = symbols
            .iter()
            .fold(text.to_owned(), |text, (symbol, value)| {
                text.replace(value, symbol)
            });
        for (symbol, value) in symbols
            .iter()
            .filter(|(symbol, _)| symbol.starts_with("$SHA"))
        {
            text = text.replace(&value[..12], &format!("{symbol}:short"));
        }
        for (symbol, port) in [
            ("$GITHOST", GIT),
            ("$HELMHOST", HELM),
            ("$STORAGEHOST", STORAGE),
        ] {
            text = text.replace(&format!("127.0.0.1:{port}"), symbol);
        }
        text
    }

    fn real_value(&self, value: &Value) -> Value {
        everflow_json::from_str(&self.real(&value.to_string())).unwrap()
    }

    pub async fn resource(&self, api_version: &str, kind: &str) -> Resource {
        self.client.resource(api_version, kind).await.unwrap()
    }

    /// Applies an object as the recording did; an error when the API refuses it.
    pub async fn apply(&self, object: &Value) -> Result<(), everflow_runtime::Error> {
        self.apply_by(object, "user").await
    }

    pub async fn apply_by(
        &self,
        object: &Value,
        manager: &str,
    ) -> Result<(), everflow_runtime::Error> {
        let mut object = self.with_artifact(&self.real_value(object)).await;
        let status = object.as_object_mut().unwrap().remove("status");
        let text = |field: &str| object[field].as_str().unwrap().to_owned();
        let resource = self.resource(&text("apiVersion"), &text("kind")).await;
        if resource.namespaced && object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = self.namespace.as_str().into();
        }
        let by = WriteOptions::by(manager).force();
        let patch = Patch::Apply(object.clone());
        self.client
            .patch(&resource, At::of(&object), &patch, &by)
            .await?;
        if let Some(status) = status {
            let patch = Patch::Merge(json!({"status": status}));
            let by = WriteOptions::by(manager);
            self.client
                .patch(&resource, At::of(&object).status(), &patch, &by)
                .await?;
        }
        Ok(())
    }

    /// What stands for the artifact of another object is filled in.
    async fn with_artifact(&self, value: &Value) -> Value {
        let text = value.to_string();
        let Some(from) = text.find("$ARTIFACT_URL(") else {
            return value.clone();
        };
        let name = text[from..].trim_start_matches("$ARTIFACT_URL(");
        let name = name.split(')').next().unwrap().to_owned();
        let (kind, object) = name.split_once('/').unwrap();
        let version = "source.toolkit.fluxcd.io/v1";
        let resource = self.resource(version, kind).await;
        let at = At::new(&self.namespace, object);
        let source = self.client.get(&resource, at).await.unwrap();
        let part = |field: &str| {
            source["status"]["artifact"][field]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let text = text
            .replace(&format!("$ARTIFACT_URL({name})"), &part("url"))
            .replace("$ARTIFACT_DIGEST", &part("digest"))
            .replace("$ARTIFACT_REV", &part("revision"))
            .replace("$ARTIFACT_TIME", &part("lastUpdateTime"));
        everflow_json::from_str(&text).unwrap()
    }

    async fn at(&self, reference: &Value) -> (Resource, String, String) {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let resource = self.resource(text("apiVersion"), text("kind")).await;
        let namespace = match text("namespace") {
            "" => self.namespace.clone(),
            namespace => namespace.to_owned(),
        };
        (resource, namespace, text("name").to_owned())
    }

    async fn merge(
        &self,
        reference: &Value,
        merge: Value,
        manager: &str,
        part: &str,
    ) -> Result<(), everflow_runtime::Error> {
        let (resource, namespace, name) = self.at(reference).await;
        let mut at = At::new(&namespace, &name);
        at.subresource = part;
        let by = WriteOptions::by(manager);
        let merge = Patch::Merge(self.real_value(&merge));
        self.client
            .patch(&resource, at, &merge, &by)
            .await
            .map(drop)
    }

    /// Asks for an attempt, as a user does.
    pub async fn ask_for(&mut self, name: &str) {
        let step = everflow_json::from_value(json!({"reconcile": [name]})).unwrap();
        assert!(self.step(&step).await.is_none());
    }

    /// Carries out one step. Gives what the API refused.
    pub async fn step(&mut self, step: &Ordered) -> Option<everflow_runtime::Error> {
        let mut verbs: Vec<&(String, Value)> = step.0.iter().collect();
        // What changes a remote comes before those who are to see it.
        verbs.sort_by_key(|(verb, _)| !verb.starts_with("git_"));
        if !step.get("commit").is_null() {
            // A tag moves to the commit of the same step.
            verbs.sort_by_key(|(verb, _)| verb != "commit");
        }
        let mut refused = None;
        for (verb, content) in verbs {
            let done = self.verb(verb, content, step).await;
            refused = refused.or(done.err());
        }
        refused
    }

    async fn verb(
        &mut self,
        verb: &str,
        content: &Value,
        step: &Ordered,
    ) -> Result<(), everflow_runtime::Error> {
        let own = self.namespace.clone();
        match verb {
            "apply" => {
                let objects = content
                    .as_array()
                    .cloned()
                    .unwrap_or_else(|| vec![content.clone()]);
                for object in &objects {
                    self.apply(object).await?;
                }
            }
            "delete" => {
                let references = content
                    .as_array()
                    .cloned()
                    .unwrap_or_else(|| vec![content.clone()]);
                for reference in &references {
                    let (resource, namespace, name) = self.at(reference).await;
                    let at = At::new(&namespace, &name);
                    self.client
                        .delete(&resource, at, &DeleteOptions::default())
                        .await?;
                }
            }
            "commit" => {
                let mut repositories = self.git.lock().unwrap();
                repositories
                    .get_mut(&own)
                    .unwrap()
                    .more(&step.value(), content);
            }
            "git_delete_branch" => {
                let mut repositories = self.git.lock().unwrap();
                repositories
                    .get_mut(&own)
                    .unwrap()
                    .delete_branch(content.as_str().unwrap());
            }
            "git_amend" => {
                let mut repositories = self.git.lock().unwrap();
                let message = content["message"].as_str().unwrap();
                repositories.get_mut(&own).unwrap().amend(message);
            }
            "git_move_tag" => {
                let mut repositories = self.git.lock().unwrap();
                repositories
                    .get_mut(&own)
                    .unwrap()
                    .tag(content.as_str().unwrap(), false);
            }
            "reconcile" => {
                for name in content.as_array().unwrap() {
                    self.request(name.as_str().unwrap()).await?;
                }
            }
            "annotate" => {
                let merge = json!({"metadata": {"annotations": content["annotations"]}});
                self.merge(&content["ref"], merge, "user", "").await?;
            }
            "patch" => {
                let manager = content["fieldManager"].as_str().unwrap_or("user");
                let part = content["subresource"].as_str().unwrap_or_default();
                self.merge(&content["ref"], content["merge"].clone(), manager, part)
                    .await?;
            }
            "force_ssa" => {
                let manager = content["fieldManager"].as_str().unwrap();
                self.apply_by(&content["object"], manager).await?;
            }
            "charts" => self.put_charts(content),
            "oci_push" => {
                self.registry
                    .lock()
                    .unwrap()
                    .retag(&own, content.as_object().unwrap());
            }
            "restart" => {
                self.stop_engine().await;
                self.start_engine().await;
            }
            "sleep" => {
                self.sleep(Duration::from_secs_f64(content.as_f64().unwrap()))
                    .await
            }
            "note" | "then" | "result" | "tag" | "branch" | "msg" | "annotated" => {}
            other => panic!("there is no verb {other}"),
        }
        Ok(())
    }

    /// Asks for a reconcile of `KIND/NAME`.
    async fn request(&mut self, name: &str) -> Result<(), everflow_runtime::Error> {
        self.requests += 1;
        let (kind, name) = name.split_once('/').unwrap();
        let info = everflow_api::KINDS
            .iter()
            .find(|info| info.kind == kind)
            .unwrap();
        let reference = json!({"apiVersion": info.api_version(), "kind": kind, "name": name});
        let value = format!("t{}", self.requests);
        let annotations = json!({"reconcile.fluxcd.io/requestedAt": value});
        self.merge(
            &reference,
            json!({"metadata": {"annotations": annotations}}),
            "flux",
            "",
        )
        .await
    }

    /// Waits until all objects of Flux have had their attempt and nothing changes any more.
    pub async fn settle(&self) {
        let started = self.env.clock.elapsed();
        let mut last = Value::Null;
        let mut since = started;
        let mut revision = 0;
        loop {
            self.sleep(Duration::from_millis(250)).await;
            let now = self.env.clock.elapsed();
            // Most writes are Events of attempts that are made again.
            let newest = self.server.store().revision();
            if newest != revision {
                revision = newest;
                let state = self.state().await;
                if state != last {
                    (last, since) = (state, now);
                }
            }
            let settled = now - since >= QUIET && self.all_attempted(&last);
            if settled || now - started >= PATIENCE {
                return;
            }
        }
    }

    /// All objects of Flux, without what changes at every write.
    async fn state(&self) -> Value {
        let mut all = Vec::new();
        for mut object in self.flux_objects().await {
            let metadata = object["metadata"].as_object_mut().unwrap();
            metadata.remove("managedFields");
            metadata.remove("resourceVersion");
            all.push(object);
        }
        all.into()
    }

    fn all_attempted(&self, state: &Value) -> bool {
        let run = |object: &Value| {
            self.kinds
                .iter()
                .any(|kind| object["kind"] == kind.resource().kind.as_str())
                && object["spec"]["suspend"] != true
                && object["spec"]["type"] != "oci"
        };
        state
            .as_array()
            .into_iter()
            .flatten()
            .filter(|object| run(object))
            .all(|object| {
                let requested =
                    &object["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"];
                let handled = &object["status"]["lastHandledReconcileAt"];
                object["status"]["observedGeneration"] == object["metadata"]["generation"]
                    && (requested.is_null() || requested == handled)
                    && object["metadata"]["deletionTimestamp"].is_null()
            })
    }

    /// The objects of Flux's kinds in the namespace.
    pub async fn flux_objects(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for (group, kind) in KINDS {
            let resource = self.resource(&format!("{group}/v1"), kind).await;
            let list = self
                .client
                .list_all(&resource, Some(&self.namespace), &Default::default())
                .await
                .unwrap();
            all.extend(list.items);
        }
        all
    }
}

/// Drives what the API server does by the clock.
async fn tick(server: ApiServer, env: Env) {
    loop {
        env.clock.sleep(Duration::from_millis(100)).await;
        if server.next_due().is_some() {
            server.tick();
        }
    }
}

fn helm(files: &BTreeMap<String, Vec<u8>>, asked: &super::net::Asked) -> Answer {
    let path = asked.target.as_str();
    if path.starts_with("/hang/") {
        return Answer::Hang;
    }
    if path.starts_with("/auth/") && !asked.is_signed_in() {
        return Answer::status(401);
    }
    let path = path.strip_prefix("/auth").unwrap_or(path);
    match files.get(path) {
        Some(bytes) => Answer::new(200, "application/octet-stream", bytes.clone()),
        None => Answer::status(404),
    }
}
