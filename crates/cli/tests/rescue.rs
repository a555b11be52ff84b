//! `everflow run` in several replicas, and `everflow rescue` when they are dead: the programs, on the embedded API.
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
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use cluster::Cluster;
use delivery::{Engine, NAMESPACE, World, write};
use everflow_json::{Value, json};
use everflow_runtime::client::Selection;
use everflow_runtime::lease::LEASES;
use support::{git, git_is_here};

/// A replica with leases that run out soon.
fn replica(kubeconfig: &Path, storage: &Path) -> Engine {
    let soon = [
        "--leader-election-lease-duration=5s",
        "--leader-election-renew-deadline=4s",
        "--leader-election-retry-period=1s",
    ];
    replica_of("laptop", &soon, kubeconfig, storage)
}

/// A replica on a host of this name.
fn replica_of(host: &str, flags: &[&str], kubeconfig: &Path, storage: &Path) -> Engine {
    let child = Command::new(env!("CARGO_BIN_EXE_everflow"))
        .args(["run", "--enable-leader-election", "--log-level", "error"])
        .args(["--min-retry-delay", "200ms", "--shards", "4"])
        .args(flags)
        .env("HOSTNAME", host)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .arg("--storage-path")
        .arg(storage)
        .env("RUNTIME_NAMESPACE", "default")
        .stdout(Stdio::null())
        .spawn();
    Engine(child.unwrap())
}

fn rescue(kubeconfig: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_everflow"))
        .arg("rescue")
        .args(words)
        .args(["-n", NAMESPACE, "--engine-namespace", "default"])
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .output()
        .unwrap()
}

fn must(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

fn settings(level: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\ndata: {{level: {level}}}\n"
    )
}

fn kustomization(name: &str) -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": { "namespace": NAMESPACE, "name": name },
        "spec": {
            "interval": "10m", "prune": true, "path": "./apps", "wait": true,
            "targetNamespace": NAMESPACE,
            "sourceRef": { "kind": "GitRepository", "name": "shop" },
        },
    })
}

async fn level(world: &World) -> String {
    let settings = world.get("v1", "ConfigMap", "settings").await;
    let settings = settings.unwrap_or_default();
    settings["data"]["level"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Who holds the shards.
async fn holders(world: &World) -> Vec<String> {
    let all = Selection::default();
    let leases = world.client.list_all(&LEASES, Some("default"), &all).await;
    let leases = leases.unwrap().items.into_iter().filter(|lease| {
        let name = lease["metadata"]["name"].as_str().unwrap();
        name.contains("-shard-")
    });
    leases
        .map(|lease| lease["spec"]["holderIdentity"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rescue_delivers_when_the_engine_cannot_and_hands_back() {
    if !git_is_here() {
        return;
    }
    let cluster = Cluster::start("rescue", &[]);
    let kubeconfig = cluster.directory.join("kubeconfig");
    let world = World::new(&kubeconfig);
    let root = world.place.path().join("repositories");
    let work = root.join("shop");
    write(&work, "apps/settings.yaml", &settings("info"));
    git(&work, 1, &["init", "-q", "-b", "main"]);
    git(&work, 1, &["add", "-A"]);
    git(&work, 1, &["commit", "-qm", "first"]);
    let (_server, repository) = world.serve(&root).await;
    world.apply(repository).await;
    world.apply(kustomization("apps")).await;

    // Whether an engine runs cannot be seen without a lease.
    let output = rescue(&kubeconfig, &["kustomization/apps"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && text.contains("there is no Lease"),
        "{text}"
    );

    let one = replica(&kubeconfig, &world.place.path().join("one"));
    let two = replica(&kubeconfig, &world.place.path().join("two"));
    world.until("apps", |_| true).await;
    for attempt in 0.. {
        let mut holders = holders(&world).await;
        let count = holders.len();
        holders.sort();
        holders.dedup();
        if (count, holders.len()) == (4, 2) {
            break;
        }
        assert!(attempt < 200, "the work is not shared: {holders:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    // Replicas that live hand over what is asked for, and have it back.
    let text = must(&rescue(&kubeconfig, &["ks/apps"]));
    assert!(text.contains("handed back to the engine"), "{text}");

    // Both die; the next commit is delivered from here.
    drop((one, two));
    write(&work, "apps/settings.yaml", &settings("debug"));
    git(&work, 2, &["add", "-A"]);
    git(&work, 2, &["commit", "-qm", "second"]);
    let text = must(&rescue(&kubeconfig, &["kustomization/apps"]));
    assert_eq!(level(&world).await, "debug", "{text}");
    assert!(holders(&world).await.iter().all(String::is_empty) || text.contains("handed back"));

    // From a checkout that nobody has committed.
    write(&work, "apps/settings.yaml", &settings("trace"));
    let checkout = work.to_str().unwrap();
    let text = must(&rescue(&kubeconfig, &["ks/apps", "--path", checkout]));
    assert_eq!(level(&world).await, "trace", "{text}");

    // The engine goes on at once, with the repository's own.
    let started = Instant::now();
    let three = replica(&kubeconfig, &world.place.path().join("three"));
    while level(&world).await != "debug" {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "the engine does not go on"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    three.stop();
    // Nothing is left to wait for.
    let text = must(&rescue(&kubeconfig, &["--all"]));
    assert!(text.contains("Kustomization/shop/apps"), "{text}");
}

/// A pod of a Deployment by its name, which does not exist in the cluster.
const POD: &str = "everflow-7d9f8b6c5-x2x4z";

/// An engine that runs with flags, as its Deployment says. Nothing starts it here.
fn deployment(flags: &[&str]) -> Value {
    let flags: Vec<Value> = flags.iter().map(|flag| (*flag).into()).collect();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "default", "name": "everflow"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "everflow"}},
            "template": {
                "metadata": {"labels": {"app": "everflow"}},
                "spec": {"containers": [{"name": "everflow", "image": "everflow", "args": flags}]},
            },
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn rescue_does_not_wait_for_a_pod_that_is_gone_and_keeps_the_engines_flags() {
    if !git_is_here() {
        return;
    }
    let cluster = Cluster::start("rescue-gone", &[]);
    let kubeconfig = cluster.directory.join("kubeconfig");
    let world = World::new(&kubeconfig);
    let root = world.place.path().join("repositories");
    let work = root.join("shop");
    write(&work, "apps/settings.yaml", &settings("info"));
    git(&work, 1, &["init", "-q", "-b", "main"]);
    git(&work, 1, &["add", "-A"]);
    git(&work, 1, &["commit", "-qm", "first"]);
    let (_server, repository) = world.serve(&root).await;
    world.apply(repository).await;
    world.apply(kustomization("apps")).await;
    world
        .apply(deployment(&["run", "--no-cross-namespace-refs"]))
        .await;

    // The leases last for minutes, and their holder was a pod.
    let long = [
        "--leader-election-lease-duration=600s",
        "--leader-election-renew-deadline=590s",
    ];
    let engine = replica_of(POD, &long, &kubeconfig, &world.place.path().join("one"));
    world.until("apps", |_| true).await;
    drop(engine);
    write(&work, "apps/settings.yaml", &settings("debug"));
    git(&work, 2, &["add", "-A"]);
    git(&work, 2, &["commit", "-qm", "second"]);
    let text = must(&rescue(&kubeconfig, &["ks/apps", "--timeout", "60s"]));
    assert!(
        text.contains(&format!("{POD} is gone: there is no such pod")),
        "{text}"
    );
    assert_eq!(level(&world).await, "debug", "{text}");

    // What the engine refuses is refused.
    let elsewhere =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}});
    world.apply(elsewhere).await;
    let mut other = kustomization("other");
    other["spec"]["sourceRef"]["namespace"] = "elsewhere".into();
    world.apply(other).await;
    let mut source = world
        .get("source.toolkit.fluxcd.io/v1", "GitRepository", "shop")
        .await
        .unwrap();
    source = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"namespace": "elsewhere", "name": "shop"}, "spec": source["spec"].clone(),
    });
    world.apply(source).await;
    let output = rescue(&kubeconfig, &["ks/other", "--timeout", "20s"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(
        text.contains("references to other namespaces are refused"),
        "{text}"
    );
    assert!(
        text.contains("can't access 'GitRepository/elsewhere/shop'"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rescue_waits_for_a_holder_that_may_live() {
    if !git_is_here() {
        return;
    }
    let cluster = Cluster::start("rescue-lives", &[]);
    let kubeconfig = cluster.directory.join("kubeconfig");
    let world = World::new(&kubeconfig);
    let root = world.place.path().join("repositories");
    let work = root.join("shop");
    write(&work, "apps/settings.yaml", &settings("info"));
    git(&work, 1, &["init", "-q", "-b", "main"]);
    git(&work, 1, &["add", "-A"]);
    git(&work, 1, &["commit", "-qm", "first"]);
    let (_server, repository) = world.serve(&root).await;
    world.apply(repository).await;
    world.apply(kustomization("apps")).await;
    // The pod is there, on a node that is there: it may only be cut off.
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": POD},
        "spec": {"containers": [{"name": "everflow", "image": "everflow"}]},
    });
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "everflow"}});
    world.apply(node).await;
    world.apply(pod).await;
    let soon = [
        "--leader-election-lease-duration=8s",
        "--leader-election-renew-deadline=6s",
        "--leader-election-retry-period=1s",
    ];
    let engine = replica_of(POD, &soon, &kubeconfig, &world.place.path().join("one"));
    world.until("apps", |_| true).await;
    let id = engine.0.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-STOP", &id])
            .status()
            .unwrap()
            .success()
    );
    let begun = Instant::now();
    let text = must(&rescue(&kubeconfig, &["ks/apps"]));
    assert!(!text.contains("is gone"), "{text}");
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(5), "{took:?}: {text}");
    // The one that hangs still serves artifacts as far as connections go: nobody waits for those.
    assert!(took < Duration::from_secs(50), "{took:?}: {text}");
}
