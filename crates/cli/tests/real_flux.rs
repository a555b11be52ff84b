//! The controllers of a real Flux 2.9 as clients of `everflow cluster start`.
//!
//! Part of the real tier: runs where `EVERFLOW_REAL` is set and the controllers are on PATH, or built
//! by `real/peers.sh build source-controller kustomize-controller helm-controller`. A controller that
//! is missing is named, and what needs it is left out.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    dead_code
)]

#[path = "common/cluster.rs"]
mod cluster;
#[path = "../../git/tests/support/mod.rs"]
mod support;
#[path = "common/world.rs"]
mod world;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cluster::Cluster;
use everflow_api::view;
use everflow_json::{Value, json};
use support::{GitServer, git, git_is_here};
use world::World;

const CONTROLLERS: [&str; 3] = [
    "source-controller",
    "kustomize-controller",
    "helm-controller",
];

/// The controllers that are there; says which are not.
fn programs() -> Vec<(&'static str, PathBuf)> {
    if !everflow_corpus::real::wanted("a real Flux on our API") || !git_is_here() {
        return Vec::new();
    }
    let found: Vec<_> = CONTROLLERS
        .into_iter()
        .filter_map(|name| Some((name, everflow_corpus::real::installed(name)?)))
        .collect();
    let missing: Vec<&str> = CONTROLLERS
        .into_iter()
        .filter(|name| found.iter().all(|(there, _)| there != name))
        .collect();
    if !missing.is_empty() {
        let names = missing.join(", ");
        println!(
            "skipped: what needs Flux's {names}: not on PATH, and not built (real/peers.sh build NAME)"
        );
    }
    // Nothing works without sources.
    if missing.contains(&CONTROLLERS[0]) {
        return Vec::new();
    }
    found
}

/// A controller, ended with the test.
struct Controller(Child);

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Controller {
    /// Starts one with a home of its own. Outside of a cluster they elect no leader.
    fn start(name: &str, program: &Path, cluster: &Cluster) -> Self {
        let home = cluster.directory.join(name);
        std::fs::create_dir_all(home.join("tmp")).unwrap();
        std::fs::create_dir_all(home.join("data")).unwrap();
        let log = File::create(cluster.directory.join(format!("{name}.log"))).unwrap();
        let mut command = Command::new(program);
        command
            .args(["--watch-all-namespaces", "--metrics-addr=0"])
            .arg(format!("--health-addr=127.0.0.1:{}", free_port()))
            .args(["--log-level=info", "--requeue-dependency=1s"])
            .env("KUBECONFIG", cluster.directory.join("kubeconfig"))
            .env("RUNTIME_NAMESPACE", "flux-system")
            .env("HOME", &home)
            .env("TMPDIR", home.join("tmp"))
            .current_dir(&home)
            .stdout(Stdio::from(log.try_clone().unwrap()))
            .stderr(Stdio::from(log));
        if name == CONTROLLERS[0] {
            let address = format!("127.0.0.1:{}", free_port());
            command
                .arg(format!("--storage-path={}", home.join("data").display()))
                .arg(format!("--storage-addr={address}"))
                .arg(format!("--storage-adv-addr={address}"));
        }
        Controller(command.spawn().unwrap())
    }
}

/// A cluster with Flux's definitions, a repository, and the controllers.
struct Flux {
    world: World,
    cluster: Cluster,
    repository: PathBuf,
    address: String,
    _git: GitServer,
    controllers: Vec<(&'static str, Controller)>,
}

impl Flux {
    async fn start() -> Option<Self> {
        let programs = programs();
        if programs.is_empty() {
            return None;
        }
        let cluster = Cluster::start("flux", &["--workload-delay", "0.3"]);
        let world = World::new(&cluster.directory.join("kubeconfig"), &cluster.directory);
        for definition in everflow_api::crds() {
            world.apply(&definition).await;
        }
        for name in ["flux-system", "shop"] {
            world.apply(&object("v1", "Namespace", name)).await;
        }
        let root = cluster.directory.join("repositories");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let git = GitServer::on_tcp(listener, &root);
        let mut flux = Flux {
            world,
            repository: root.join("shop"),
            address: format!("http://127.0.0.1:{port}/shop/.git"),
            _git: git,
            controllers: Vec::new(),
            cluster,
        };
        flux.first_commit();
        for (name, program) in programs {
            let controller = Controller::start(name, &program, &flux.cluster);
            flux.controllers.push((name, controller));
        }
        Some(flux)
    }

    fn has(&self, name: &str) -> bool {
        self.controllers.iter().any(|(there, _)| *there == name)
    }

    fn write(&self, file: &str, text: &str) {
        let file = self.repository.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    fn first_commit(&self) {
        self.write("apps/settings.yaml", SETTINGS);
        self.write("apps/web.yaml", DEPLOYMENT);
        self.write(
            "charts/cache/Chart.yaml",
            "apiVersion: v2\nname: cache\nversion: 1.0.0\n",
        );
        self.write("charts/cache/values.yaml", "level: info\nreplicas: 1\n");
        self.write("charts/cache/templates/all.yaml", TEMPLATE);
        git(&self.repository, 1, &["init", "-q", "-b", "main"]);
        self.commit(1);
    }

    fn commit(&self, when: u32) -> String {
        git(&self.repository, when, &["add", "-A"]);
        git(&self.repository, when, &["commit", "-qm", "change"]);
        let hash = git(&self.repository, when, &["rev-parse", "HEAD"]);
        format!("main@sha1:{hash}")
    }

    /// The last lines of every controller's log.
    fn logs(&self) -> String {
        let mut text = String::new();
        for (name, _) in &self.controllers {
            let file = self.cluster.directory.join(format!("{name}.log"));
            let log = std::fs::read_to_string(file).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(30)..];
            text += &format!("--- {name}\n{}\n", last.join("\n"));
        }
        text
    }

    /// Waits until an object is ready and shows what is wanted.
    async fn until(&self, object: &Value, wanted: impl Fn(&Value) -> bool) -> Value {
        let ready = |found: &Value| view::is_current(found) && wanted(found);
        let found = self.world.until(object, ready).await;
        found.unwrap_or_else(|last| {
            let name = view::name_of(object);
            panic!("{name} does not become ready: {last:#?}\n{}", self.logs())
        })
    }

    async fn until_gone(&self, object: &Value) {
        let gone = self.world.until_gone(object).await;
        gone.unwrap_or_else(|last| {
            let name = view::name_of(object);
            panic!("{name} does not go: {last:#?}\n{}", self.logs())
        });
    }
}

/// An object that says who it is and nothing else.
fn object(api_version: &str, kind: &str, name: &str) -> Value {
    let mut object =
        json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name } });
    if kind != "Namespace" {
        object["metadata"]["namespace"] = "shop".into();
    }
    object
}

fn with_spec(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    let mut object = object(api_version, kind, name);
    object["spec"] = spec;
    object
}

const SETTINGS: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {level: '${level}'}\n";

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: 'nginx:1'}]
";

const TEMPLATE: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  level: {{ .Values.level }}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ .Release.Name }}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: cache}}
  serviceName: cache
  template:
    metadata: {labels: {app: cache}}
    spec:
      containers: [{name: cache, image: 'redis:7'}]
";

#[tokio::test(flavor = "multi_thread")]
async fn a_real_flux_delivers_on_our_api() {
    let Some(flux) = Flux::start().await else {
        return;
    };
    let repository = with_spec(
        "source.toolkit.fluxcd.io/v1",
        "GitRepository",
        "shop",
        json!({ "interval": "10m", "url": flux.address, "ref": { "branch": "main" } }),
    );
    flux.world.apply(&repository).await;
    let ready = flux.until(&repository, |_| true).await;
    let revision = ready["status"]["artifact"]["revision"].as_str().unwrap();
    assert!(revision.starts_with("main@sha1:"), "{revision}");
    if flux.has("kustomize-controller") {
        kustomization(&flux, &repository).await;
    }
    if flux.has("helm-controller") {
        helm_release(&flux).await;
    }
}

/// A Kustomization is built, applied, waited for, changed by a commit, pruned and deleted.
async fn kustomization(flux: &Flux, repository: &Value) {
    let mut apps = with_spec(
        "kustomize.toolkit.fluxcd.io/v1",
        "Kustomization",
        "apps",
        json!({
            "interval": "10m", "prune": true, "wait": true, "timeout": "1m", "path": "./apps",
            "targetNamespace": "shop", "postBuild": { "substitute": { "level": "info" } },
            "sourceRef": { "kind": "GitRepository", "name": "shop" },
        }),
    );
    flux.world.apply(&apps).await;
    flux.until(&apps, |_| true).await;
    let settings = object("v1", "ConfigMap", "settings");
    let found = flux.world.now(&settings).await.unwrap();
    assert_eq!(found["data"]["level"], "info");
    assert_eq!(
        found["metadata"]["managedFields"][0]["manager"],
        "kustomize-controller"
    );
    let web = object("apps/v1", "Deployment", "web");
    let found = flux.world.now(&web).await.unwrap();
    assert_eq!(found["status"]["readyReplicas"], 2);

    // A commit takes one object away; a change of the Kustomization itself changes the other.
    std::fs::remove_file(flux.repository.join("apps/web.yaml")).unwrap();
    let second = flux.commit(2);
    apps["spec"]["postBuild"]["substitute"]["level"] = "debug".into();
    flux.world.apply(&apps).await;
    let mut request = repository.clone();
    request["metadata"]["annotations"] = json!({ "reconcile.fluxcd.io/requestedAt": "once" });
    flux.world.apply(&request).await;
    flux.until(&apps, |found| {
        found["status"]["lastAppliedRevision"] == second.as_str()
    })
    .await;
    flux.until_gone(&web).await;
    let found = flux.world.now(&settings).await.unwrap();
    assert_eq!(found["data"]["level"], "debug");

    // What it deployed goes with it.
    flux.world.delete(&apps).await;
    flux.until_gone(&apps).await;
    flux.until_gone(&settings).await;
}

/// A release of a chart of the repository is installed, upgraded and uninstalled.
async fn helm_release(flux: &Flux) {
    let mut release = with_spec(
        "helm.toolkit.fluxcd.io/v2",
        "HelmRelease",
        "cache",
        json!({
            "interval": "10m", "timeout": "1m", "values": { "replicas": 2 },
            "chart": { "spec": {
                "chart": "./charts/cache",
                "sourceRef": { "kind": "GitRepository", "name": "shop" },
            } },
        }),
    );
    flux.world.apply(&release).await;
    flux.until(&release, |_| true).await;
    let settings = object("v1", "ConfigMap", "cache");
    let found = flux.world.now(&settings).await.unwrap();
    assert_eq!(found["data"]["level"], "info");
    assert_eq!(
        view::label(&found, "app.kubernetes.io/managed-by"),
        Some("Helm")
    );
    let set = object("apps/v1", "StatefulSet", "cache");
    let found = flux.world.now(&set).await.unwrap();
    assert_eq!(found["status"]["readyReplicas"], 2);

    release["spec"]["values"]["level"] = "debug".into();
    flux.world.apply(&release).await;
    let second = |found: &Value| found["status"]["history"][0]["version"] == 2;
    let upgraded = flux.until(&release, second).await;
    assert_eq!(upgraded["status"]["history"][0]["status"], "deployed");
    let found = flux.world.now(&settings).await.unwrap();
    assert_eq!(found["data"]["level"], "debug");

    flux.world.delete(&release).await;
    flux.until_gone(&release).await;
    flux.until_gone(&settings).await;
    let record = object("v1", "Secret", "sh.helm.release.v1.cache.v2");
    assert!(flux.world.now(&record).await.is_none());
}
