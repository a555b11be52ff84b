//! `everflow adopt` and `everflow release` on a cluster with a Flux that keeps itself up.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    dead_code
)]

#[path = "common/cluster.rs"]
mod cluster;
#[path = "common/delivery.rs"]
mod delivery;
#[path = "bootstrap_parts/manifests.rs"]
mod manifests;
#[path = "../../git/tests/support/mod.rs"]
mod support;

use std::process::{Command, Output};

use cluster::Cluster;
use delivery::{Engine, World, write};
use everflow_json::{Value, json};
use everflow_runtime::client::{At, DeleteOptions};
use support::{git, git_is_here};

struct Place {
    cluster: Cluster,
    world: World,
}

impl Place {
    async fn new(name: &str) -> Self {
        let cluster = Cluster::start(name, &[]);
        let world = World::new(&cluster.directory.join("kubeconfig"));
        for definition in everflow_api::crds() {
            world.apply(definition).await;
        }
        for object in manifests::flux() {
            world.apply(object).await;
        }
        cluster.file("everflow.yaml", &manifests::everflow_yaml());
        Place { cluster, world }
    }

    async fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everflow"));
        command
            .args(words)
            .current_dir(&self.cluster.directory)
            .env("KUBECONFIG", self.cluster.directory.join("kubeconfig"))
            .env("HOME", &self.cluster.directory);
        let running = tokio::task::spawn_blocking(move || command.output().unwrap());
        running.await.unwrap()
    }

    /// Runs the program, which must succeed; what it told.
    async fn must(&self, words: &[&str]) -> String {
        let output = self.run(words).await;
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{words:?}: {told}");
        told
    }

    async fn get(&self, api_version: &str, kind: &str, name: &str) -> Value {
        let resource = self.world.resource(api_version, kind).await;
        let at = At::new("flux-system", name);
        self.world.client.get(&resource, at).await.unwrap()
    }

    async fn replicas(&self, name: &str) -> i64 {
        let live = self.get("apps/v1", "Deployment", name).await;
        live["spec"]["replicas"].as_i64().unwrap()
    }

    async fn selector(&self) -> Value {
        let live = self.get("v1", "Service", "source-controller").await;
        live["spec"]["selector"]["app"].clone()
    }
}

const ADOPT: [&str; 3] = ["adopt", "--manifests=everflow.yaml", "--timeout=90s"];

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_taken_over_and_given_back_with_nothing_rolled_out() {
    if !git_is_here() {
        return;
    }
    let place = Place::new("adopt").await;
    // Flux's own manifests are deployed by a Kustomization, beside a workload.
    let root = place.world.place.path().join("repositories");
    let shop = root.join("shop");
    write(&shop, "gotk-components.yaml", &manifests::flux_yaml());
    let workload = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "shop", "namespace": "flux-system"},
        "spec": {"selector": {"matchLabels": {"app": "shop"}},
            "template": {"metadata": {"labels": {"app": "shop"}},
                "spec": {"containers": [{"name": "shop", "image": "shop:1"}]}}}});
    write(&shop, "shop.yaml", &workload.to_string());
    git(&shop, 1, &["init", "-q", "-b", "main"]);
    git(&shop, 1, &["add", "-A"]);
    git(&shop, 1, &["commit", "-q", "-m", "one"]);
    let (_server, mut source) = place.world.serve(&root).await;
    source["metadata"] = json!({"namespace": "flux-system", "name": "flux-system"});
    place.world.apply(source).await;
    let kustomization = |name: &str, suspend: bool| {
        json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"namespace": "flux-system", "name": name},
            "spec": {"interval": "10m", "path": "./", "prune": true, "suspend": suspend,
                "sourceRef": {"kind": "GitRepository", "name": "flux-system"}}})
    };
    place.world.apply(kustomization("flux-system", false)).await;
    place.world.apply(kustomization("asleep", true)).await;
    let kubeconfig = place.cluster.directory.join("kubeconfig");
    let storage = place.cluster.directory.join("storage");
    let _engine = Engine::start(&kubeconfig, &storage);
    place
        .must(&["reconcile", "ks", "flux-system", "--with-source"])
        .await;
    let workload = place.get("apps/v1", "Deployment", "shop").await;

    let output = place.run(&[&ADOPT[..], &["--dry-run"]].concat()).await;
    let plan = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{plan}");
    for line in [
        "Flux v2.9.4 in flux-system, kept up by the Kustomization flux-system/flux-system",
        "  Kustomization: 2, 1 ready, 1 suspended",
        "  source-controller: 1 replicas",
        "  flux-system/everflow",
        "    Service/flux-system/source-controller",
    ] {
        assert!(plan.lines().any(|found| found == line), "{line}: {plan}");
    }
    assert_eq!(place.replicas("source-controller").await, 1);

    let told = place.must(&ADOPT).await;
    assert!(
        told.contains("✔ 2 of 2 objects had their first attempt"),
        "{told}"
    );
    assert!(
        told.contains("✔ nothing was rolled out, nothing was pruned"),
        "{told}"
    );
    assert_eq!(place.replicas("everflow").await, 1);
    assert_eq!(place.selector().await, "everflow");
    let after = place.get("apps/v1", "Deployment", "shop").await;
    assert_eq!(
        workload["metadata"]["resourceVersion"],
        after["metadata"]["resourceVersion"]
    );
    // Flux's own Kustomization says otherwise and must not start it again.
    place
        .must(&["reconcile", "ks", "flux-system", "--with-source"])
        .await;
    for name in [
        "source-controller",
        "kustomize-controller",
        "helm-controller",
    ] {
        assert_eq!(place.replicas(name).await, 0, "{name}");
    }
    assert_eq!(place.selector().await, "everflow");
    // As often as one likes.
    place.must(&ADOPT).await;
    assert_eq!(place.replicas("source-controller").await, 0);

    let told = place.must(&["release"]).await;
    assert!(
        told.contains("✔ Service/flux-system/source-controller is as it was"),
        "{told}"
    );
    assert_eq!(place.replicas("everflow").await, 0);
    assert_eq!(place.selector().await, "source-controller");
    for name in ["source-controller", "notification-controller"] {
        let live = place.get("apps/v1", "Deployment", name).await;
        assert_eq!(live["spec"]["replicas"], 1);
        let annotations = live["metadata"]["annotations"].to_string();
        assert!(!annotations.contains("adopt.everflow.dev"), "{annotations}");
        assert!(!annotations.contains("disabled"), "{annotations}");
    }
    let output = place.run(&["release"]).await;
    assert!(!output.status.success());
    // And over again.
    place.must(&ADOPT).await;
    assert_eq!(place.replicas("source-controller").await, 0);
    place.must(&["release"]).await;
    assert_eq!(place.replicas("source-controller").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn adopt_refuses_unsupported_features_and_changes_nothing() {
    let place = Place::new("adopt-refused").await;
    let told = |output: Output| String::from_utf8(output.stderr).unwrap();
    // The program's own manifests.
    place.must(&["adopt", "--dry-run"]).await;
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "fluxinstances.fluxcd.controlplane.io"},
        "spec": {"group": "fluxcd.controlplane.io", "scope": "Namespaced",
            "names": {"kind": "FluxInstance", "listKind": "FluxInstanceList", "plural": "fluxinstances", "singular": "fluxinstance"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    place.world.apply(definition).await;
    let instance = json!({"apiVersion": "fluxcd.controlplane.io/v1", "kind": "FluxInstance",
        "metadata": {"namespace": "flux-system", "name": "flux"}, "spec": {}});
    place.world.apply(instance).await;
    for mut object in manifests::flux() {
        if object["kind"] == "Deployment" {
            object["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "flux-operator".into();
            place.world.apply(object).await;
        }
    }
    // The operator is told to leave the instance alone, and to go on afterwards.
    let off = "fluxcd.controlplane.io/reconcile";
    let done = place.run(&ADOPT).await;
    assert!(done.status.success(), "{}", told(done));
    let instance = place
        .get("fluxcd.controlplane.io/v1", "FluxInstance", "flux")
        .await;
    assert_eq!(instance["metadata"]["annotations"][off], "disabled");
    place.must(&["release"]).await;
    let instance = place
        .get("fluxcd.controlplane.io/v1", "FluxInstance", "flux")
        .await;
    assert_eq!(instance["metadata"]["annotations"][off], Value::Null);

    let resource = place.world.resource("apps/v1", "Deployment").await;
    for object in manifests::flux() {
        if object["kind"] == "Deployment" {
            let at = At::of(&object);
            let by = DeleteOptions::default();
            place.world.client.delete(&resource, at, &by).await.unwrap();
        }
    }
    let refused = told(place.run(&ADOPT).await);
    assert!(
        refused.contains("there is no Flux in this cluster"),
        "{refused}"
    );
}
