//! The landscape of `examples/sovereign` on three API servers with an engine each, and one git server: what a push
//! does, what the gates hold back, and that a region which was cut off catches up by itself.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    dead_code
)]

#[path = "common/cluster.rs"]
mod cluster;
#[path = "common/delivery.rs"]
mod delivery;
#[path = "../../git/tests/support/mod.rs"]
mod support;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cluster::Cluster;
use delivery::{Engine, World};
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Patch, WriteOptions};
use support::{GitServer, git, git_is_here};
use tokio::net::{TcpListener, TcpStream};

const SOURCE: &str = "source.toolkit.fluxcd.io/v1";
const KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io/v1";
/// How long anything may take on a machine that much else is using.
const PATIENCE: Duration = Duration::from_secs(120);

/// One cluster of the landscape, with its engine.
struct Member {
    /// Ended before its cluster is.
    engine: Option<Engine>,
    cluster: Cluster,
    world: World,
    entry: &'static str,
}

impl Member {
    fn start(name: &str, entry: &'static str) -> Self {
        let cluster = Cluster::start(name, &[]);
        let world = World::new(&cluster.directory.join("kubeconfig"));
        Member {
            engine: None,
            cluster,
            world,
            entry,
        }
    }

    /// What bootstrap does: the definitions, the namespace, what is to be synchronised, and the engine.
    async fn bootstrap(&mut self, repository: &Path) {
        for definition in everflow_api::crds() {
            self.world.apply(definition).await;
        }
        let namespace = json!({"name": "flux-system"});
        self.world
            .apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": namespace}))
            .await;
        let sync = repository
            .join(self.entry)
            .join("flux-system/gotk-sync.yaml");
        let sync = std::fs::read_to_string(sync).unwrap();
        for document in sync.split("\n---\n") {
            let object = everflow_yaml::sigs::yaml_to_json(document.as_bytes()).unwrap();
            self.world.apply(object).await;
        }
        let kubeconfig = self.cluster.directory.join("kubeconfig");
        self.engine = Some(Engine::start(
            &kubeconfig,
            &self.cluster.directory.join("storage"),
        ));
    }

    async fn get(&self, api_version: &str, kind: &str, at: At<'_>) -> Option<Value> {
        let resource = self.world.client.resource(api_version, kind).await.ok()?;
        self.world.client.get(&resource, at).await.ok()
    }

    /// Waits until an object is as wanted.
    async fn until(
        &self,
        api_version: &str,
        kind: &str,
        at: At<'_>,
        wanted: impl Fn(&Value) -> bool,
    ) {
        let since = Instant::now();
        let mut last = None;
        while since.elapsed() < PATIENCE {
            last = self.get(api_version, kind, at).await;
            if last.as_ref().is_some_and(&wanted) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{}: {kind} {at:?} is not as wanted: {last:#?}", self.entry);
    }

    async fn until_ready(&self, name: &str) {
        let at = At::new("flux-system", name);
        self.until(KUSTOMIZE, "Kustomization", at, is_ready).await;
    }

    async fn patch(&self, api_version: &str, kind: &str, at: At<'_>, patch: Value) {
        let resource = self.world.resource(api_version, kind).await;
        let options = WriteOptions::by("test");
        let done = self
            .world
            .client
            .patch(&resource, at, &Patch::Merge(patch), &options)
            .await;
        done.unwrap();
    }

    /// Plays an operator: waits until there is an object, and says how it stands.
    async fn operator_says(&self, api_version: &str, kind: &str, at: At<'_>, status: Value) {
        self.until(api_version, kind, at, |_| true).await;
        self.patch(api_version, kind, at.status(), json!({"status": status}))
            .await;
    }

    /// What a webhook does.
    async fn told_of_a_push(&self, when: &str) {
        let asked = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": when}}});
        self.patch(
            SOURCE,
            "GitRepository",
            At::new("flux-system", "flux-system"),
            asked,
        )
        .await;
    }

    async fn until_image_is(&self, tag: &str) {
        let has = |object: &Value| {
            let image = &object["spec"]["template"]["spec"]["containers"][0]["image"];
            image.as_str().is_some_and(|image| image.ends_with(tag))
        };
        self.until("apps/v1", "Deployment", At::new("shop", "shop"), has)
            .await;
    }

    /// Megabytes that the engine has in memory.
    fn memory(&self) -> Option<u64> {
        let id = self.engine.as_ref()?.0.id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kilobytes / 1024)
    }
}

fn is_ready(object: &Value) -> bool {
    everflow_api::view::is_current(object)
}

/// A way to the git server that can be cut.
async fn way_to(port: u16, is_open: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let way = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            if !is_open.load(Ordering::SeqCst) {
                continue;
            }
            tokio::spawn(async move {
                let mut far = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    way
}

/// The example as a repository whose clusters read it from the addresses given.
fn repository(root: &Path, addresses: &[(&str, u16)]) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sovereign");
    let copied = Command::new("cp").arg("-r").arg(example).arg(root).status();
    assert!(copied.unwrap().success());
    for (entry, port) in addresses {
        let file = root.join(entry).join("flux-system/gotk-sync.yaml");
        let text = std::fs::read_to_string(&file).unwrap();
        let from = text
            .lines()
            .find_map(|line| line.strip_prefix("  url: "))
            .unwrap();
        let to = format!("http://127.0.0.1:{port}/sovereign/.git");
        std::fs::write(&file, text.replace(from, &to)).unwrap();
    }
    git(root, 1, &["init", "--quiet", "--initial-branch=main"]);
    git(root, 1, &["add", "--all"]);
    git(
        root,
        1,
        &["commit", "--quiet", "--message", "the landscape"],
    );
}

fn push(root: &Path, file: &str, from: &str, to: &str) {
    let path = root.join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file}");
    std::fs::write(path, text.replace(from, to)).unwrap();
    git(
        root,
        2,
        &["commit", "--all", "--quiet", "--message", "a new version"],
    );
}

/// The word of the operators, one after the other, and what it lets through.
async fn bring_up(member: &Member) {
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let secrets = "external-secrets.io/v1";
    let shop = At::new("shop", "shop");
    member
        .operator_says(
            secrets,
            "ClusterSecretStore",
            At::new("", "region"),
            ready.clone(),
        )
        .await;
    // The store is healthy, the pushed secret has said nothing yet: what depends on it waits.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let stores = member
        .get(
            KUSTOMIZE,
            "Kustomization",
            At::new("flux-system", "secret-stores"),
        )
        .await;
    assert!(
        stores.is_some_and(|stores| !is_ready(&stores)),
        "{}: the gate is open",
        member.entry
    );
    assert!(
        member.get("apps/v1", "Deployment", shop).await.is_none(),
        "{}",
        member.entry
    );

    let pushed = At::new("shop", "shop-database");
    member
        .operator_says("external-secrets.io/v1alpha1", "PushSecret", pushed, ready)
        .await;
    let canary = json!({"phase": "Initialized"});
    member
        .operator_says("flagger.app/v1beta1", "Canary", shop, canary)
        .await;
    for name in [
        "definitions",
        "identity",
        "secrets",
        "secret-stores",
        "rollouts",
        "shop",
        "flux-system",
    ] {
        member.until_ready(name).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_reaches_all_regions_and_one_that_was_cut_off_catches_up() {
    if !git_is_here() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("sovereign");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let is_open = Arc::new(AtomicBool::new(true));
    let way = way_to(port, is_open.clone()).await;
    let entries = [
        "clusters/management",
        "clusters/north/production",
        "clusters/south/production",
    ];
    repository(
        &root,
        &[(entries[0], port), (entries[1], port), (entries[2], way)],
    );
    let _server = GitServer::on_tcp(listener, place.path());

    let mut management = Member::start("management", entries[0]);
    let mut north = Member::start("north", entries[1]);
    let mut south = Member::start("south", entries[2]);
    let started = Instant::now();
    for member in [&mut management, &mut north, &mut south] {
        member.bootstrap(&root).await;
    }
    tokio::join!(bring_up(&north), bring_up(&south), async {
        for name in ["identity", "gitea", "flux-system"] {
            management.until_ready(name).await;
        }
    });
    println!(
        "all three are up after {:.1} s",
        started.elapsed().as_secs_f64()
    );

    let version = "apps/shop/environments/production/kustomization.yaml";
    push(&root, version, "newTag: 1.0.4", "newTag: 1.0.5");
    let pushed = Instant::now();
    for member in [&management, &north, &south] {
        member.told_of_a_push("first").await;
    }
    tokio::join!(
        north.until_image_is(":1.0.5"),
        south.until_image_is(":1.0.5")
    );
    println!(
        "a push is in both regions after {:.1} s",
        pushed.elapsed().as_secs_f64()
    );

    // South is cut off: north goes on, and south keeps what it has.
    is_open.store(false, Ordering::SeqCst);
    push(&root, version, "newTag: 1.0.5", "newTag: 1.0.6");
    for member in [&north, &south] {
        member.told_of_a_push("second").await;
    }
    north.until_image_is(":1.0.6").await;
    let at = At::new("flux-system", "flux-system");
    south
        .until(SOURCE, "GitRepository", at, |object| !is_ready(object))
        .await;
    south.until_image_is(":1.0.5").await;

    // Nobody tells it when the way is open again.
    is_open.store(true, Ordering::SeqCst);
    let opened = Instant::now();
    south.until_image_is(":1.0.6").await;
    south.until_ready("shop").await;
    println!(
        "the region that was cut off has it {:.1} s after that",
        opened.elapsed().as_secs_f64()
    );
    for member in [&management, &north, &south] {
        println!("{}: the engine has {:?} MB", member.entry, member.memory());
    }
}
