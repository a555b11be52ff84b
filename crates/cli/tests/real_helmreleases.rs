//! Releases of `everflow run` under kill -9, and in the hands of the helm CLI: on the embedded API and, in the real
//! tier, on a real kube-apiserver with helm 3 and helm 4.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::panic,
    dead_code
)]

#[path = "common/charts.rs"]
mod charts;
#[path = "common/cluster.rs"]
mod cluster;
#[path = "common/delivery.rs"]
mod delivery;
#[path = "common/releases.rs"]
mod releases;
#[path = "../../git/tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use charts::{Repository, packed};
use cluster::Cluster;
use delivery::{Engine, NAMESPACE, World};
use everflow_corpus::real::{self, ApiServer};
use everflow_json::{Value, json};
use everflow_runtime::client::{At, DeleteOptions, Selection};
use releases::{HELM_GROUP, JobRunner, TEMPLATE, helm_release, helm_repository, until};

/// Leases that end soon, so that who was killed is followed soon.
const SHORT_LEASE: [&str; 4] = [
    "--leader-election-lease-duration=3s",
    "--leader-election-renew-deadline=2s",
    "--leader-election-retry-period=500ms",
    "--concurrent=10",
];

async fn prepared(kubeconfig: &Path) -> (World, Repository) {
    let world = World::new(kubeconfig);
    for definition in everflow_api::crds() {
        world.apply(definition).await;
    }
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    world.apply(namespace).await;
    let directory = world.place.path().join("charts");
    packed(
        &directory,
        "web",
        &[("1.0.0", TEMPLATE), ("1.1.0", TEMPLATE)],
    );
    let repository = Repository::serve(&directory);
    world.apply(helm_repository(&repository.url)).await;
    (world, repository)
}

fn chart_version(object: &Value) -> &str {
    object["status"]["history"][0]["chartVersion"]
        .as_str()
        .unwrap_or_default()
}

/// Kills the engine while it installs, then while it upgrades. Each hook ran once for each revision, and there is one
/// revision for each thing that was asked for.
async fn killed_engine_finishes_what_it_began(kubeconfig: &Path, count: usize) {
    let (world, _repository) = prepared(kubeconfig).await;
    let runner = JobRunner::start(world.client.clone(), Duration::from_millis(400));
    let storage = world.place.path().join("artifacts");
    let names: Vec<String> = (0..count).map(|number| format!("web-{number}")).collect();
    for (version, revision) in [("1.0.0", 1), ("1.1.0", 2)] {
        for name in &names {
            world.apply(helm_release(name, version)).await;
        }
        // Spans that fall into fetching, hooks and applying; what is left is done by the last one.
        for span in [2_000, 700, 1_500, 2_500] {
            let engine = Engine::start_with(kubeconfig, &storage, &SHORT_LEASE);
            tokio::time::sleep(Duration::from_millis(3_500 + span)).await;
            drop(engine);
        }
        let engine = Engine::start_with(kubeconfig, &storage, &SHORT_LEASE);
        for name in &names {
            let object = until(&world, name, |object| chart_version(object) == version).await;
            let history = object["status"]["history"].as_array().unwrap();
            assert_eq!(history[0]["version"], revision, "{name}: {history:?}");
            assert_eq!(history[0]["status"], "deployed", "{name}");
            let settings = world
                .get("v1", "ConfigMap", &format!("{name}-settings"))
                .await
                .unwrap();
            assert_eq!(settings["data"]["chart"], version, "{name}");
        }
        engine.end();
    }
    let runs = runner.runs();
    for name in &names {
        for revision in ["1", "2"] {
            let key = (format!("{name}-migrate"), revision.to_owned());
            assert_eq!(
                runs.get(&key),
                Some(&1),
                "hook of {name}, revision {revision}"
            );
        }
    }
    assert_eq!(runs.len(), 2 * count, "{runs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_engine_finishes_what_it_began_on_the_embedded_server() {
    let cluster = Cluster::start("killed", &[]);
    killed_engine_finishes_what_it_began(&cluster.directory.join("kubeconfig"), 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_engine_finishes_what_it_began_on_a_real_server() {
    if let Some(real) = ApiServer::start("killed") {
        killed_engine_finishes_what_it_began(&real.kubeconfig(), 50).await;
    }
}

fn signal(engine: &Engine, name: &str) {
    let id = engine.0.id().to_string();
    let sent = Command::new("kill").args([name, &id]).status().unwrap();
    assert!(sent.success());
}

/// The records of releases, by name, with their versions.
async fn records(world: &World) -> Vec<(String, String)> {
    let secrets = world.resource("v1", "Secret").await;
    let list = world
        .client
        .list_all(
            &secrets,
            Some(NAMESPACE),
            &Selection::labelled("owner=helm"),
        )
        .await
        .unwrap();
    let of = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    let mut all: Vec<_> = list
        .items
        .iter()
        .map(|object| (of(object, "name"), of(object, "resourceVersion")))
        .collect();
    all.sort();
    all
}

/// The leader stands still in the middle of installs and goes on when another one has finished them.
async fn paused_leader_changes_nothing_afterwards(kubeconfig: &Path, count: usize) {
    let (world, _repository) = prepared(kubeconfig).await;
    let runner = JobRunner::start(world.client.clone(), Duration::from_millis(1_500));
    let place = world.place.path();
    let first = Engine::start_with(kubeconfig, &place.join("first"), &SHORT_LEASE);
    let names: Vec<String> = (0..count).map(|number| format!("web-{number}")).collect();
    for name in &names {
        world.apply(helm_release(name, "1.0.0")).await;
    }
    // The hooks run for a while: that is the middle.
    for attempt in 0.. {
        if runner.runs().len() * 2 >= count {
            break;
        }
        assert!(attempt < 600, "no hook runs");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    signal(&first, "-STOP");
    let second = Engine::start_with(kubeconfig, &place.join("second"), &SHORT_LEASE);
    for name in &names {
        let object = until(&world, name, |_| true).await;
        assert_eq!(object["status"]["history"][0]["version"], 1, "{name}");
    }
    let before = records(&world).await;
    signal(&first, "-CONT");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(records(&world).await, before);
    for (hook, runs) in runner.runs() {
        assert_eq!(runs, 1, "{hook:?}");
    }
    second.end();
    drop(first);
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_leader_changes_nothing_afterwards_on_the_embedded_server() {
    let cluster = Cluster::start("paused", &[]);
    paused_leader_changes_nothing_afterwards(&cluster.directory.join("kubeconfig"), 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_leader_changes_nothing_afterwards_on_a_real_server() {
    if let Some(real) = ApiServer::start("paused") {
        paused_leader_changes_nothing_afterwards(&real.kubeconfig(), 10).await;
    }
}

/// The helm CLI, against one cluster.
struct Helm<'a> {
    program: PathBuf,
    kubeconfig: &'a Path,
    home: &'a Path,
    /// How fields are taken from another manager, where objects are applied by the server.
    force: &'static [&'static str],
}

impl Helm<'_> {
    fn must(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.program)
            .args(arguments)
            .args(["--namespace", NAMESPACE])
            .env("KUBECONFIG", self.kubeconfig)
            .env("HOME", self.home)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{} {}: {}{}",
            self.program.display(),
            arguments.join(" "),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn history(&self, name: &str) -> Vec<(u64, String)> {
        let text = self.must(&["history", name, "-o", "json"]);
        let list: Value = everflow_json::from_str(&text).unwrap();
        let entries = list.as_array().unwrap().iter();
        entries
            .map(|entry| {
                let revision = entry["revision"].as_u64().unwrap();
                (revision, entry["status"].as_str().unwrap().to_owned())
            })
            .collect()
    }
}

/// What the engine made is read, changed, rolled back and uninstalled by helm, and the other way round.
async fn helm_and_the_engine_share_releases(
    program: PathBuf,
    force: &'static [&'static str],
    kubeconfig: &Path,
) {
    let (world, _repository) = prepared(kubeconfig).await;
    let _runner = JobRunner::start(world.client.clone(), Duration::from_millis(100));
    let place = world.place.path().to_owned();
    let chart = place.join("charts/web-1.1.0.tgz");
    let chart = chart.to_str().unwrap();
    let helm = Helm {
        program,
        kubeconfig,
        home: &place,
        force,
    };
    let storage = place.join("artifacts");
    let engine = Engine::start_with(kubeconfig, &storage, &SHORT_LEASE);
    let mut object = helm_release("web", "1.0.0");
    object["spec"]["values"] = json!({"color": "green"});
    world.apply(object.clone()).await;
    until(&world, "web", |_| true).await;
    engine.end();

    // Ours in the hands of helm.
    assert!(helm.must(&["list"]).contains("web-1.0.0"));
    assert!(helm.must(&["status", "web"]).contains("deployed"));
    assert!(
        helm.must(&["get", "values", "web"])
            .contains("color: green")
    );
    assert!(
        helm.must(&["get", "manifest", "web"])
            .contains("web-settings")
    );
    assert!(helm.must(&["get", "hooks", "web"]).contains("web-migrate"));
    helm.must(&["get", "notes", "web"]);
    assert_eq!(helm.history("web"), [(1, "deployed".to_owned())]);
    helm.must(&[&["rollback", "web", "1"], helm.force].concat());
    // What it was rolled back to is what is asked for: no revision is made, and the status says how it came.
    let engine = Engine::start_with(kubeconfig, &storage, &SHORT_LEASE);
    let rolled_back = until(&world, "web", |object| {
        object["status"]["history"][0]["version"] == 2
    })
    .await;
    let released = everflow_api::view::condition(&rolled_back, "Released").unwrap();
    assert_eq!(released["reason"], "RollbackSucceeded", "{released}");
    let message = released["message"].as_str().unwrap();
    let said = "Helm rollback succeeded for release shop/web.v2 with chart web@1.0.0";
    assert_eq!(message, said);
    engine.end();
    assert_eq!(helm.history("web").len(), 2);
    let upgrade = [
        "upgrade",
        "web",
        chart,
        "--reuse-values",
        "--set",
        "color=blue",
    ];
    helm.must(&[&upgrade, helm.force].concat());
    let states: Vec<String> = helm
        .history("web")
        .into_iter()
        .map(|(_, state)| state)
        .collect();
    assert_eq!(states, ["superseded", "superseded", "deployed"]);

    // The engine finds a release that helm made, and makes it what is asked for.
    let engine = Engine::start_with(kubeconfig, &storage, &SHORT_LEASE);
    until(&world, "web", |object| {
        object["status"]["history"][0]["version"] == 4
    })
    .await;
    let settings = world.get("v1", "ConfigMap", "web-settings").await.unwrap();
    assert_eq!(settings["data"]["color"], "green");

    // helm takes it away; the engine puts it back.
    helm.must(&["uninstall", "web"]);
    object["metadata"]["annotations"] = json!({"reconcile.fluxcd.io/requestedAt": "again"});
    world.apply(object).await;
    until(&world, "web", |object| {
        object["status"]["lastHandledReconcileAt"] == "again"
            && object["status"]["history"][0]["version"] == 1
    })
    .await;
    assert_eq!(helm.history("web"), [(1, "deployed".to_owned())]);

    // A release that helm installed is adopted.
    helm.must(&["install", "shelf", chart]);
    world.apply(helm_release("shelf", "1.1.0")).await;
    until(&world, "shelf", |_| true).await;
    assert_eq!(helm.history("shelf").last().unwrap().1, "deployed");
    let releases = world.resource(HELM_GROUP, "HelmRelease").await;
    let at = At::new(NAMESPACE, "shelf");
    let asked = DeleteOptions::default();
    world.client.delete(&releases, at, &asked).await.unwrap();
    for attempt in 0.. {
        if !helm.must(&["list"]).contains("shelf") {
            break;
        }
        assert!(attempt < 100, "the release is not uninstalled");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    engine.end();
}

async fn shared_with(name: &str, force: &'static [&'static str]) {
    let Some(program) = real::program(name) else {
        return;
    };
    let cluster = Cluster::start(name, &[]);
    helm_and_the_engine_share_releases(
        program.clone(),
        force,
        &cluster.directory.join("kubeconfig"),
    )
    .await;
    drop(cluster);
    if let Some(server) = ApiServer::start(name) {
        helm_and_the_engine_share_releases(program, force, &server.kubeconfig()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_4_and_the_engine_share_releases() {
    shared_with("helm", &["--force-conflicts"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_3_and_the_engine_share_releases() {
    shared_with("helm3", &[]).await;
}
