//! `everflow run` delivers a repository, on the embedded API over HTTPS and, in the real tier, on a
//! real kube-apiserver: the same steps on both.
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
use std::time::Duration;

use cluster::Cluster;
use delivery::{Engine, NAMESPACE, World, write};
use everflow_api::view;
use everflow_corpus::real::ApiServer;
use everflow_json::{Value, json};
use everflow_runtime::client::{At, DeleteOptions, Patch, WriteOptions};
use support::{git, git_is_here};

fn definition() -> String {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "gadgets.shop.example.com" },
        "spec": {
            "group": "shop.example.com", "scope": "Namespaced",
            "names": { "kind": "Gadget", "plural": "gadgets" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    })
    .to_string()
}

fn kustomization(name: &str, depends_on: &[&str]) -> Value {
    let depends_on: Vec<Value> = depends_on
        .iter()
        .map(|name| json!({ "name": name }))
        .collect();
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": { "namespace": NAMESPACE, "name": name },
        "spec": {
            "interval": "10m", "prune": true, "path": format!("./{name}"), "wait": true,
            "targetNamespace": NAMESPACE, "dependsOn": depends_on,
            "sourceRef": { "kind": "GitRepository", "name": "shop" },
        },
    })
}

async fn deliver(kubeconfig: &Path) {
    let world = World::new(kubeconfig);
    let root = world.place.path().join("repositories");
    let work = root.join("shop");
    write(&work, "infra/gadgets.yaml", &definition());
    write(
        &work,
        "apps/gadget.yaml",
        "apiVersion: shop.example.com/v1\nkind: Gadget\nmetadata: {name: one}\nspec: {size: 1}\n",
    );
    write(
        &work,
        "apps/settings.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {level: info}\n",
    );
    git(&work, 1, &["init", "-q", "-b", "main"]);
    git(&work, 1, &["add", "-A"]);
    git(&work, 1, &["commit", "-qm", "first"]);
    let (_server, repository) = world.serve(&root).await;
    let engine = Engine::start(kubeconfig, &world.place.path().join("artifacts"));
    world.apply(repository).await;
    world.apply(kustomization("apps", &["infra"])).await;
    world.apply(kustomization("infra", &[])).await;

    let apps = world.until("apps", |_| true).await;
    let first = apps["status"]["lastAppliedRevision"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        apps["status"]["inventory"]["entries"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let settings = world.get("v1", "ConfigMap", "settings").await.unwrap();
    assert_eq!(
        view::label(&settings, "kustomize.toolkit.fluxcd.io/name"),
        Some("apps")
    );
    assert_eq!(
        settings["metadata"]["managedFields"][0]["manager"],
        "kustomize-controller"
    );
    assert!(
        world
            .get("shop.example.com/v1", "Gadget", "one")
            .await
            .is_some()
    );

    // A new commit changes one object and takes the other away.
    write(
        &work,
        "apps/settings.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {level: debug}\n",
    );
    std::fs::remove_file(work.join("apps/gadget.yaml")).unwrap();
    git(&work, 2, &["add", "-A"]);
    git(&work, 2, &["commit", "-qm", "second"]);
    let repositories = world
        .resource("source.toolkit.fluxcd.io/v1", "GitRepository")
        .await;
    let request = Patch::Merge(
        json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "t1" } } }),
    );
    let at = At::new(NAMESPACE, "shop");
    world
        .client
        .patch(&repositories, at, &request, &WriteOptions::by("user"))
        .await
        .unwrap();
    world
        .until("apps", |object| {
            object["status"]["lastAppliedRevision"] != first.as_str()
        })
        .await;
    assert!(
        world
            .get("shop.example.com/v1", "Gadget", "one")
            .await
            .is_none()
    );
    assert_eq!(
        world.get("v1", "ConfigMap", "settings").await.unwrap()["data"]["level"],
        "debug"
    );

    // Drift is corrected without a request.
    let maps = world.resource("v1", "ConfigMap").await;
    let at = At::new(NAMESPACE, "settings");
    world
        .client
        .delete(&maps, at, &DeleteOptions::default())
        .await
        .unwrap();
    for attempt in 0.. {
        if world.get("v1", "ConfigMap", "settings").await.is_some() {
            break;
        }
        assert!(attempt < 200, "what was deleted does not come back");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    // What a Kustomization deployed goes with it.
    let kustomizations = world
        .resource("kustomize.toolkit.fluxcd.io/v1", "Kustomization")
        .await;
    let at = At::new(NAMESPACE, "apps");
    world
        .client
        .delete(&kustomizations, at, &DeleteOptions::default())
        .await
        .unwrap();
    for attempt in 0.. {
        if world.kustomization("apps").await.is_none() {
            break;
        }
        assert!(attempt < 200, "the Kustomization does not go");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(world.get("v1", "ConfigMap", "settings").await.is_none());
    engine.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_embedded_server() {
    if !git_is_here() {
        return;
    }
    let cluster = Cluster::start("run", &[]);
    deliver(&cluster.directory.join("kubeconfig")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_real_server() {
    if !git_is_here() {
        return;
    }
    if let Some(real) = ApiServer::start("run") {
        deliver(&real.kubeconfig()).await;
    }
}
