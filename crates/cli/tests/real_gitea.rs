//! A push to a real Gitea reaches the cluster by its webhook, and the status of the commit comes back. Runs when
//! `EVERFLOW_REAL` is set and `real/peers.sh build gitea` was run.
#![allow(clippy::unwrap_used, clippy::print_stdout, dead_code)]

#[path = "real_gitea_parts/bootstrap.rs"]
mod bootstrap;
#[path = "common/cluster.rs"]
mod cluster;
#[path = "common/delivery.rs"]
mod delivery;
#[path = "common/gitea.rs"]
mod gitea;
#[path = "bootstrap_parts/manifests.rs"]
mod manifests;
#[path = "../../git/tests/support/mod.rs"]
mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cluster::Cluster;
use delivery::{Engine, NAMESPACE, World, write};
use everflow_json::{Value, json};
use gitea::{Gitea, free_port, must};

fn git(work: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.current_dir(work)
        .args(["-c", "user.name=dev", "-c", "user.email=dev@example.com"]);
    must(git.args(arguments))
}

fn commit(work: &Path, value: &str) -> String {
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings, namespace: {NAMESPACE}}}\ndata: {{value: {value}}}\n"
    );
    write(work, "apps/settings.yaml", &text);
    git(work, &["add", "-A"]);
    git(work, &["commit", "-qm", value]);
    git(work, &["push", "-q", "origin", "main"]);
    git(work, &["rev-parse", "HEAD"])
}

fn secret(name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
        "stringData": data,
    })
}

fn flux(kind: &str, name: &str, version: &str, spec: Value) -> Value {
    json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    })
}

async fn put_objects(world: &World, gitea: &Gitea, token: &str) {
    let address = format!("http://127.0.0.1:{}/openova/flux", gitea.port);
    let source = "source.toolkit.fluxcd.io/v1";
    let notification = "notification.toolkit.fluxcd.io";
    put_token(world, token).await;
    world
        .apply(secret("hook", json!({"token": "everflow-hook"})))
        .await;
    for object in [
        flux(
            "GitRepository",
            "flux",
            source,
            json!({
                "interval": "1h", "url": format!("{address}.git"), "ref": {"branch": "main"},
                "secretRef": {"name": "git"},
            }),
        ),
        flux(
            "Kustomization",
            "apps",
            "kustomize.toolkit.fluxcd.io/v1",
            json!({
                "interval": "1h", "prune": true, "path": "./apps",
                "sourceRef": {"kind": "GitRepository", "name": "flux"},
            }),
        ),
        flux(
            "Receiver",
            "gitea",
            &format!("{notification}/v1"),
            json!({
                "type": "github", "events": ["push"], "secretRef": {"name": "hook"},
                "resources": [{"kind": "GitRepository", "name": "flux"}],
            }),
        ),
        flux(
            "Provider",
            "gitea",
            &format!("{notification}/v1beta3"),
            json!({
                "type": "gitea", "address": address, "secretRef": {"name": "gitea"},
            }),
        ),
        flux(
            "Alert",
            "gitea",
            &format!("{notification}/v1beta3"),
            json!({
                "providerRef": {"name": "gitea"},
                "eventSources": [{"kind": "Kustomization", "name": "*"}],
            }),
        ),
    ] {
        world.apply(object).await;
    }
}

async fn put_token(world: &World, token: &str) {
    world
        .apply(secret("git", json!({"username": "dev", "password": token})))
        .await;
    world.apply(secret("gitea", json!({"token": token}))).await;
}

/// Waits until the ConfigMap has a value; how long that took.
async fn applied(world: &World, value: &str, since: Instant) -> Duration {
    for _ in 0..3_000 {
        let settings = world.get("v1", "ConfigMap", "settings").await;
        if settings.is_some_and(|settings| settings["data"]["value"] == value) {
            return since.elapsed();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let repository = world
        .get("source.toolkit.fluxcd.io/v1", "GitRepository", "flux")
        .await;
    panic!(
        "{value} is not applied: {repository:#?} {:#?}",
        world.kustomization("apps").await
    );
}

async fn webhook_path(world: &World) -> String {
    for _ in 0..100 {
        let receiver = world
            .get("notification.toolkit.fluxcd.io/v1", "Receiver", "gitea")
            .await;
        let path = receiver
            .as_ref()
            .and_then(|receiver| receiver["status"]["webhookPath"].as_str());
        if let Some(path) = path {
            return path.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the Receiver gets no path");
}

/// Waits for a status of a commit: success, by Kustomization `apps`.
async fn status_of(gitea: &Gitea, token: &str, commit: &str) -> Duration {
    let since = Instant::now();
    for _ in 0..600 {
        let path = format!("repos/openova/flux/commits/{commit}/statuses");
        let all = gitea.api(token, "GET", &path, None);
        let found = all.as_array().unwrap().iter().any(|status| {
            let context = status["context"].as_str().unwrap_or_default();
            status["status"] == "success" && context.starts_with("kustomization/apps/")
        });
        if found {
            return since.elapsed();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no status of {commit} by the Kustomization");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_to_gitea_is_applied_and_its_status_comes_back() {
    if !everflow_corpus::real::wanted("the run with a real Gitea") {
        return;
    }
    let Some(binary) = everflow_corpus::real::installed("gitea") else {
        println!("skipped: Gitea is not built; run real/peers.sh build gitea");
        return;
    };
    let mut gitea = Gitea::new(&binary);
    gitea.start();
    let token = gitea.token("first");
    gitea.repository(&token, "flux");

    let cluster = Cluster::start("gitea", &[]);
    let kubeconfig = cluster.directory.join("kubeconfig");
    let world = World::new(&kubeconfig);
    for definition in everflow_api::crds() {
        world.apply(definition).await;
    }
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    world.apply(namespace).await;
    let work = world.place.path().join("clone");
    std::fs::create_dir_all(&work).unwrap();
    git(&work, &["init", "-q", "-b", "main"]);
    let remote = format!(
        "http://dev:everflow-dev@127.0.0.1:{}/openova/flux.git",
        gitea.port
    );
    git(&work, &["remote", "add", "origin", &remote]);
    commit(&work, "one");

    let hooks = format!("127.0.0.1:{}", free_port());
    let mut engine = Command::new(env!("CARGO_BIN_EXE_everflow"));
    engine.args([
        "run",
        "--log-level",
        "info",
        "--receiver-addr",
        &hooks,
        "--kubeconfig",
    ]);
    engine
        .arg(&kubeconfig)
        .arg("--storage-path")
        .arg(world.place.path().join("store"));
    let log = std::fs::File::create(world.place.path().join("log")).unwrap();
    let _engine = Engine(engine.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    put_objects(&world, &gitea, &token).await;
    applied(&world, "one", Instant::now()).await;
    let path = webhook_path(&world).await;
    // What was pushed before the hook was there may still be on its way.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let hook = json!({
        "type": "gitea", "active": true, "events": ["push"],
        "config": {
            "url": format!("http://{hooks}{path}"), "content_type": "json", "secret": "everflow-hook",
        },
    });
    gitea.api(&token, "POST", "repos/openova/flux/hooks", Some(hook));

    // The machine is busy at times: the quickest of a few pushes counts.
    let mut quickest = Duration::MAX;
    for value in ["two", "three", "four"] {
        let commit = commit(&work, value);
        let taken = applied(&world, value, Instant::now()).await;
        let told = status_of(&gitea, &token, &commit).await;
        println!("push to applied: {taken:?}; from then to the status of the commit: {told:?}");
        quickest = quickest.min(taken);
    }
    assert!(quickest < Duration::from_secs(2), "{quickest:?}");

    // The token is rotated, and Gitea is away in between.
    let rotated = gitea.token("second");
    put_token(&world, &rotated).await;
    let basic = format!(
        "http://127.0.0.1:{}/api/v1/users/dev/tokens/first",
        gitea.port
    );
    must(Command::new("curl").args(["-fsS", "-X", "DELETE", "-u", "dev:everflow-dev", &basic]));
    gitea.queue_by("level");
    gitea.stop();
    gitea.start();
    let rotation = commit(&work, "rotated");
    let taken = applied(&world, "rotated", Instant::now()).await;
    println!("with another token, push to applied: {taken:?}");
    status_of(&gitea, &rotated, &rotation).await;

    // It ends right after a push: its webhook is on disk, and so is the status that nobody takes meanwhile.
    let restart = commit(&work, "restarted");
    gitea.stop();
    tokio::time::sleep(Duration::from_secs(3)).await;
    gitea.start();
    let taken = applied(&world, "restarted", Instant::now()).await;
    println!("after a restart, start to applied: {taken:?}");
    status_of(&gitea, &rotated, &restart).await;
    let log = std::fs::read_to_string(world.place.path().join("log")).unwrap();
    for secret in [&token, &rotated, "everflow-hook"] {
        assert!(!log.contains(secret), "the log shows a secret");
    }
}
