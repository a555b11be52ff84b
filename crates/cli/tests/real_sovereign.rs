//! `examples/sovereign` on three real API servers: an engine beside each, one git server for all. What each engine takes
//! in memory, how soon a push is everywhere, and that a region which was cut off catches up by itself.
//!
//! Part of the real tier. `EVERFLOW_PROGRAM` names another program to run, as one built with `--profile dist` for figures.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::panic,
    dead_code
)]

#[path = "common/delivery.rs"]
mod delivery;
#[path = "../../git/tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use delivery::World;
use everflow_api::view;
use everflow_corpus::real::ApiServer;
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Patch, Selection, WriteOptions};
use everflow_yaml::documents::yaml_or_json_decoder;
use support::{GitServer, git, git_is_here};
use tokio::net::{TcpListener, TcpStream};

const CLUSTERS: [&str; 3] = ["management", "north/production", "south/production"];
const PATIENCE: Duration = Duration::from_secs(240);
const SYNC: &str = "flux-system";

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sovereign")
}

/// The way of a region to the git server, which can be cut.
struct Line {
    port: u16,
    server: u16,
    open: tokio::task::JoinHandle<()>,
}

impl Line {
    async fn new(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let open = tokio::spawn(carry(listener, server));
        Line { port, server, open }
    }

    async fn cut(&mut self) {
        self.open.abort();
        // Connections are refused once the listener is gone.
        while TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn mend(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.unwrap();
        self.open = tokio::spawn(carry(listener, self.server));
    }
}

async fn carry(listener: TcpListener, server: u16) {
    while let Ok((mut from, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut to = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
            // Either side may end it.
            let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
        });
    }
}

/// A cluster with an engine.
struct Region {
    name: &'static str,
    server: ApiServer,
    world: World,
    engine: Child,
    operators: tokio::task::JoinHandle<()>,
}

impl Drop for Region {
    fn drop(&mut self) {
        self.operators.abort();
        let _ = self.engine.kill();
        let _ = self.engine.wait();
    }
}

impl Region {
    /// As after a bootstrap: the definitions, and the objects that sync the repository.
    async fn start(name: &'static str, work: &Path) -> Option<Self> {
        let server = ApiServer::start(&format!("sovereign-{}", name.replace('/', "-")))?;
        let world = World::new(&server.kubeconfig());
        for definition in everflow_api::crds() {
            world.apply(definition).await;
        }
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYNC}});
        world.apply(namespace).await;
        let sync = work.join(format!("clusters/{name}/{SYNC}/gotk-sync.yaml"));
        for document in yaml_or_json_decoder(&std::fs::read(sync).unwrap()) {
            let object = document.unwrap().into_object().unwrap();
            world.apply(object.unwrap()).await;
        }
        let log = std::fs::File::create(server.directory().join("engine.log")).unwrap();
        let program = std::env::var_os("EVERFLOW_PROGRAM");
        let engine = Command::new(program.unwrap_or(env!("CARGO_BIN_EXE_everflow").into()))
            .args(["run", "--enable-leader-election", "--kubeconfig"])
            .arg(server.kubeconfig())
            .arg("--storage-path")
            .arg(server.directory().join("artifacts"))
            .env("RUNTIME_NAMESPACE", SYNC)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let operators = tokio::spawn(operate(World::new(&server.kubeconfig())));
        Some(Region {
            name,
            server,
            world,
            engine: engine.unwrap(),
            operators,
        })
    }

    async fn kustomizations(&self) -> Vec<Value> {
        let kind = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");
        listed(&self.world, kind.0, kind.1).await
    }

    /// Waits until all Kustomizations are ready at a revision.
    async fn until_at(&self, revision: &str) {
        let begun = Instant::now();
        loop {
            let all = self.kustomizations().await;
            let is_there = |object: &&Value| {
                view::is_current(object) && object["status"]["lastAppliedRevision"] == revision
            };
            let late: Vec<String> = all
                .iter()
                .filter(|object| !is_there(object))
                .map(|object| format!("{}: {}", view::name_of(object), object["status"]))
                .collect();
            if late.is_empty() && all.len() >= 3 {
                return;
            }
            let is_late = begun.elapsed() > PATIENCE;
            assert!(!is_late, "{}: {}", self.name, late.join("\n"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// What a webhook does when somebody has pushed.
    async fn notify(&self, word: &str) {
        let api_version = "source.toolkit.fluxcd.io/v1";
        let resource = self.world.resource(api_version, "GitRepository").await;
        let annotations = json!({"reconcile.fluxcd.io/requestedAt": word});
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let (at, by) = (At::new(SYNC, SYNC), WriteOptions::by("webhook"));
        let client = &self.world.client;
        client.patch(&resource, at, &patch, &by).await.unwrap();
    }

    /// The memory of the engine: now, and at most, in MB.
    fn memory(&self) -> (u64, u64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.engine.id())).unwrap();
        let field = |name: &str| {
            let mut lines = status.lines();
            let line = lines.find_map(|line| line.strip_prefix(name)).unwrap();
            let kibibytes: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
            kibibytes * 1024 / 1_000_000
        };
        (field("VmRSS:"), field("VmHWM:"))
    }
}

async fn listed(world: &World, api_version: &str, kind: &str) -> Vec<Value> {
    let Ok(resource) = world.client.resource(api_version, kind).await else {
        // Its definition is not there yet.
        return Vec::new();
    };
    let all = Selection::default();
    let listed = world.client.list_all(&resource, None, &all).await;
    listed.map(|listed| listed.items).unwrap_or_default()
}

/// What the operators and the controllers of workloads would write: that all is well.
async fn operate(world: World) {
    let ready = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Valid",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    let workload = |object: &Value| {
        let count = object["spec"]["replicas"].as_i64().unwrap_or(1);
        json!({"observedGeneration": object["metadata"]["generation"], "replicas": count,
        "readyReplicas": count, "updatedReplicas": count, "availableReplicas": count,
        "conditions": [
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]})
    };
    let daemons = |object: &Value| {
        json!({"observedGeneration": object["metadata"]["generation"], "desiredNumberScheduled": 1,
            "currentNumberScheduled": 1, "numberMisscheduled": 0, "numberReady": 1,
            "updatedNumberScheduled": 1, "numberAvailable": 1})
    };
    loop {
        for (api_version, kind) in [
            ("apps/v1", "Deployment"),
            ("apps/v1", "StatefulSet"),
            ("apps/v1", "DaemonSet"),
            ("external-secrets.io/v1", "ClusterSecretStore"),
            ("external-secrets.io/v1", "ExternalSecret"),
            ("external-secrets.io/v1alpha1", "PushSecret"),
            ("flagger.app/v1beta1", "Canary"),
        ] {
            for object in listed(&world, api_version, kind).await {
                let status = match kind {
                    "DaemonSet" => daemons(&object),
                    "Deployment" | "StatefulSet" => workload(&object),
                    "Canary" => json!({"phase": "Initialized"}),
                    _ => ready.clone(),
                };
                let told = status.as_object().unwrap();
                if told
                    .iter()
                    .all(|(field, value)| object["status"][&**field] == *value)
                {
                    continue;
                }
                let resource = world.client.resource(api_version, kind).await.unwrap();
                let patch = Patch::Merge(json!({"status": status}));
                let (at, by) = (At::of(&object).status(), WriteOptions::by("operators"));
                // Deleted meanwhile.
                let _ = world.client.patch(&resource, at, &patch, &by).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The example as a repository in which each cluster syncs from its own address.
fn repository(work: &Path, lines: &[Line]) {
    std::fs::create_dir_all(work.parent().unwrap()).unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .arg(example())
        .arg(work)
        .status();
    assert!(copied.unwrap().success());
    for (name, line) in CLUSTERS.iter().zip(lines) {
        let file = work.join(format!("clusters/{name}/{SYNC}/gotk-sync.yaml"));
        let text = std::fs::read_to_string(&file).unwrap();
        let url = format!("  url: http://127.0.0.1:{}/sovereign/.git", line.port);
        let lines = text
            .lines()
            .map(|line| match line.starts_with("  url: https://") {
                true => url.as_str(),
                false => line,
            });
        let moved = lines.collect::<Vec<_>>().join("\n");
        assert!(moved.contains(&url), "{name}: {text}");
        std::fs::write(&file, moved).unwrap();
    }
    git(work, 1, &["init", "-q", "-b", "main"]);
    git(work, 1, &["add", "-A"]);
    git(work, 1, &["commit", "-qm", "first"]);
}

/// A commit that changes what every cluster deploys; its revision.
fn push(work: &Path, when: u32) -> String {
    for file in ["platform/identity/root", "platform/definitions"] {
        let file = work.join(file).join("namespace.yaml");
        let file = match file.exists() {
            true => file,
            false => work.join("platform/definitions/namespaces.yaml"),
        };
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("# change {when}\n{text}")).unwrap();
    }
    git(work, when, &["add", "-A"]);
    git(work, when, &["commit", "-qm", "change"]);
    head(work)
}

fn head(work: &Path) -> String {
    format!("main@sha1:{}", git(work, 1, &["rev-parse", "HEAD"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn regions_follow_one_repository_and_catch_up_after_being_cut_off() {
    if !everflow_corpus::real::wanted("the landscape on three API servers") || !git_is_here() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let work = place.path().join("sovereign");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let _git = GitServer::on_tcp(listener, place.path());
    let mut lines = Vec::new();
    for _ in CLUSTERS {
        lines.push(Line::new(port).await);
    }
    repository(&work, &lines);
    let begun = Instant::now();
    let mut regions = Vec::new();
    for name in CLUSTERS {
        regions.push(Region::start(name, &work).await.unwrap());
    }
    let first = head(&work);
    for region in &regions {
        region.until_at(&first).await;
    }
    println!("all regions are up after {:.1?}", begun.elapsed());

    let second = push(&work, 2);
    let pushed = Instant::now();
    for region in &regions {
        region.notify("second").await;
    }
    for region in &regions {
        region.until_at(&second).await;
    }
    println!("a push is in all regions after {:.1?}", pushed.elapsed());

    // One region is cut off; the others go on, and it keeps what it has.
    lines[2].cut().await;
    let third = push(&work, 3);
    for region in &regions {
        region.notify("third").await;
    }
    for region in &regions[..2] {
        region.until_at(&third).await;
    }
    let begun = Instant::now();
    let is_failing = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|one| one["type"] == "Ready" && one["status"] == "False")
    };
    loop {
        let sources = listed(
            &regions[2].world,
            "source.toolkit.fluxcd.io/v1",
            "GitRepository",
        )
        .await;
        if sources.iter().any(is_failing) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{sources:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for object in regions[2].kustomizations().await {
        assert_eq!(object["status"]["lastAppliedRevision"], second.as_str());
    }
    lines[2].mend().await;
    let mended = Instant::now();
    regions[2].until_at(&third).await;
    println!(
        "a region that was cut off has caught up {:.1?} later",
        mended.elapsed()
    );
    for region in &regions {
        let (now, most) = region.memory();
        println!("engine of {}: {now} MB, {most} MB at most", region.name);
    }
}
