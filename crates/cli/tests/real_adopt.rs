//! `everflow adopt` and `everflow release` with the controllers of a real Flux on a real API server: 50 Kustomizations
//! and 50 HelmReleases in many states.
//!
//! Needs `EVERFLOW_REAL=1` and Flux's source-, kustomize- and helm-controller, on PATH or built by `real/peers.sh`.
//! There is no kubelet: [`nodes`] runs a process for each Deployment that has replicas.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::panic,
    dead_code
)]

#[path = "common/delivery.rs"]
mod delivery;
#[path = "real_adopt_parts/landscape.rs"]
mod landscape;
#[path = "real_adopt_parts/nodes.rs"]
mod nodes;
#[path = "../../git/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use delivery::{NAMESPACE, World};
use everflow_api::view;
use everflow_corpus::real::ApiServer;
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Patch, Selection, WriteOptions};
use landscape::{ALL, HELM, KUSTOMIZE, State};
use nodes::{Nodes, Programs};
use support::git_is_here;

/// How long all objects together may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(400);

struct Place {
    server: ApiServer,
    world: World,
}

impl Place {
    async fn list(&self, api_version: &str, kind: &str, namespace: &str) -> Vec<Value> {
        let resource = self.world.resource(api_version, kind).await;
        let all = Selection::default();
        let listed = self.world.client.list_all(&resource, Some(namespace), &all);
        listed.await.unwrap().items
    }

    async fn patch(&self, api_version: &str, kind: &str, name: &str, status: bool, patch: Value) {
        let resource = self.world.resource(api_version, kind).await;
        let by = WriteOptions::by("user");
        let mut at = At::new(NAMESPACE, name);
        if status {
            at = at.status();
        }
        let patch = Patch::Merge(patch);
        let written = self.world.client.patch(&resource, at, &patch, &by).await;
        written.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    }

    async fn everflow(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everflow"));
        command
            .args(words)
            .env("KUBECONFIG", self.server.kubeconfig());
        let running = tokio::task::spawn_blocking(move || command.output().unwrap());
        running.await.unwrap()
    }

    async fn must(&self, words: &[&str]) -> String {
        let output = self.everflow(words).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let told = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{words:?}: {told}");
        println!("{words:?}\n{told}");
        told
    }

    /// Kustomizations and HelmReleases by kind and name.
    async fn appliers(&self) -> BTreeMap<(&'static str, String), Value> {
        let mut found = BTreeMap::new();
        for (api_version, kind) in [KUSTOMIZE, HELM] {
            for object in self.list(api_version, kind, NAMESPACE).await {
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                found.insert((kind, name), object);
            }
        }
        found
    }

    /// Waits until every one of them is as wanted.
    async fn until(&self, what: &str, wanted: impl Fn(State, &Value) -> bool) {
        let begun = Instant::now();
        loop {
            let all = self.appliers().await;
            let left: Vec<String> = all
                .iter()
                .filter(|((_, name), object)| !wanted(State::of(name), object))
                .map(|((kind, name), object)| {
                    let ready = landscape::ready(object);
                    format!("{kind} {name}: {} {}", ready["status"], ready["message"])
                })
                .collect();
            if left.is_empty() && all.len() == 2 * ALL {
                println!("{what}: {:.0?}", begun.elapsed());
                return;
            }
            let is_late = begun.elapsed() > PATIENCE;
            assert!(!is_late, "{what}: {}", left.join("\n"));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// All that was deployed, with the version of each object.
    async fn deployed(&self) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        for (api_version, kind) in [
            ("v1", "ConfigMap"),
            ("v1", "Service"),
            ("v1", "ServiceAccount"),
            ("v1", "Secret"),
            ("apps/v1", "Deployment"),
        ] {
            for object in self.list(api_version, kind, NAMESPACE).await {
                let name = view::name_as(kind, &object);
                // What an action that goes on writes down about itself.
                let is_record = kind == "Secret" && name.contains("sh.helm.release");
                if is_record && name.contains(State::Waiting.word()) {
                    continue;
                }
                let version = object["metadata"]["resourceVersion"].as_str().unwrap();
                versions.insert(name, version.to_owned());
            }
        }
        versions
    }

    /// What of Flux's own objects is not to change by a swap.
    async fn declared(&self) -> BTreeMap<String, Value> {
        let all = self.appliers().await.into_iter();
        let kept = all.map(|((kind, name), object)| {
            let metadata = &object["metadata"];
            let status = &object["status"];
            let mut kept = json!({
                "spec": object["spec"], "generation": metadata["generation"],
                "finalizers": metadata["finalizers"], "labels": metadata["labels"],
                "ownerReferences": metadata["ownerReferences"],
            });
            if matches!(
                State::of(&name),
                State::Healthy | State::Suspended | State::Stuck
            ) {
                kept["inventory"] = status["inventory"].clone();
                kept["revision"] = status["lastAppliedRevision"].clone();
                kept["release"] = status["history"][0]["version"].clone();
                kept["digest"] = status["history"][0]["digest"].clone();
            }
            (format!("{kind}/{name}"), kept)
        });
        kept.collect()
    }

    /// Has some objects suspended, and others in a state that nothing in Flux ever ends.
    async fn unsettle(&self) {
        for ((kind, name), _) in self.appliers().await {
            let api_version = if kind == HELM.1 { HELM.0 } else { KUSTOMIZE.0 };
            match State::of(&name) {
                State::Suspended => {
                    let patch = json!({"spec": {"suspend": true}});
                    self.patch(api_version, kind, &name, false, patch).await;
                }
                State::Stuck => {
                    let conditions = json!([{"type": "Ready", "status": "Unknown",
                        "reason": "Progressing", "message": "Running 'install' action",
                        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}]);
                    let patch = json!({"status": {"conditions": conditions}});
                    self.patch(api_version, kind, &name, true, patch).await;
                }
                _ => {}
            }
        }
    }
}

/// How objects stand when whoever works on them has done what can be done.
fn settled(state: State, object: &Value) -> bool {
    let ready = landscape::ready(object);
    match state {
        State::Healthy | State::Suspended | State::Stuck => ready["status"] == "True",
        State::NoPath | State::Broken => ready["status"] == "False",
        State::Waiting => !ready["status"].is_null(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_of_each_change_hands_and_nothing_that_is_deployed_changes() {
    if !everflow_corpus::real::wanted("the adoption of a real Flux") || !git_is_here() {
        return;
    }
    let Some(programs) = Programs::find() else {
        println!("skipped: Flux's source-, kustomize- and helm-controller are not all there");
        return;
    };
    let Some(server) = ApiServer::start("adopt") else {
        return;
    };
    let world = World::new(&server.kubeconfig());
    let place = Place { server, world };
    let root = place.world.place.path().join("repositories");
    landscape::repository(&root.join("shop"));
    let (_git, source) = place.world.serve(&root).await;
    for object in landscape::flux() {
        place.world.apply(object).await;
    }
    place.world.apply(source).await;
    for object in landscape::appliers() {
        place.world.apply(object).await;
    }
    let nodes = Nodes::start(&place.server, programs);
    place.until("Flux has settled", settled).await;
    place.unsettle().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (deployed, declared) = (place.deployed().await, place.declared().await);
    println!("{} objects are deployed", deployed.len());

    let plan = place.must(&["adopt", "--dry-run", "--timeout=60s"]).await;
    for line in [
        "Kustomization: 50, ",
        "HelmRelease: 50, ",
        "Carried over from Flux's Deployments",
        "[--concurrent] = 20",
    ] {
        assert!(plan.contains(line), "{line}: {plan}");
    }
    assert_eq!(place.deployed().await, deployed);
    assert_eq!(
        nodes.running(),
        [
            "helm-controller",
            "kustomize-controller",
            "source-controller"
        ]
    );

    let told = place.must(&["adopt", "--timeout=400s"]).await;
    assert!(
        told.contains("✔ nothing was rolled out, nothing was pruned"),
        "{told}"
    );
    assert_eq!(nodes.running(), ["everflow"]);
    place
        .until("everflow has settled", |state, object| match state {
            State::Suspended => true,
            state => settled(state, object),
        })
        .await;
    assert_eq!(place.deployed().await, deployed);
    assert_eq!(place.declared().await, declared);

    place.must(&["release", "--timeout=120s"]).await;
    assert_eq!(
        nodes.running(),
        [
            "helm-controller",
            "kustomize-controller",
            "source-controller"
        ]
    );
    let token = "back-again";
    let request = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": token}}});
    for ((kind, name), _) in place.appliers().await {
        let api_version = if kind == HELM.1 { HELM.0 } else { KUSTOMIZE.0 };
        place
            .patch(api_version, kind, &name, false, request.clone())
            .await;
    }
    place
        .until("Flux has all of them again", |state, object| {
            let heard = object["status"]["lastHandledReconcileAt"] == token;
            match state {
                State::Healthy | State::Stuck => heard && settled(state, object),
                State::Suspended | State::Waiting => true,
                State::NoPath | State::Broken => settled(state, object),
            }
        })
        .await;
    assert_eq!(place.deployed().await, deployed);
    assert_eq!(place.declared().await, declared);
}
