//! Everflow takes over from Flux, and Flux from Everflow: nothing that is applied changes by it.
//!
//! Needs `EVERFLOW_REAL=1` and source-controller and kustomize-controller, on PATH or built by
//! `real/peers.sh`.
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

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use delivery::{Engine, NAMESPACE, World, write};
use everflow_corpus::real::ApiServer;
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Patch, WriteOptions};
use support::{git, git_is_here};

const GROUP: &str = "kustomize.toolkit.fluxcd.io/v1";

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Flux's two controllers.
struct Flux {
    engines: Vec<Engine>,
}

impl Flux {
    /// Starts both, the second when the first serves the artifact: in a cluster the address of
    /// artifacts is a Service, which stays when the engine behind it changes.
    async fn start(
        world: &World,
        programs: &[PathBuf; 2],
        kubeconfig: &Path,
        storage: &Path,
    ) -> Self {
        std::fs::create_dir_all(storage).unwrap();
        let run = |program: &Path, more: &[String]| {
            let health = format!("--health-addr=127.0.0.1:{}", free_port());
            let log = storage.join(format!(
                "{}.log",
                program.file_name().unwrap().to_string_lossy()
            ));
            let log = std::fs::File::create(log).unwrap();
            let child = Command::new(program)
                .args(["--metrics-addr=0", "--events-addr=", "--log-level=info"])
                .arg(health)
                .args(more)
                .env("KUBECONFIG", kubeconfig)
                .env("RUNTIME_NAMESPACE", "default")
                .stdout(Stdio::null())
                .stderr(log)
                .spawn();
            Engine(child.unwrap())
        };
        let address = format!("127.0.0.1:{}", free_port());
        let source = run(
            &programs[0],
            &[
                format!("--storage-path={}", storage.display()),
                format!("--storage-addr={address}"),
                format!("--storage-adv-addr={address}"),
            ],
        );
        let resource = world
            .resource("source.toolkit.fluxcd.io/v1", "GitRepository")
            .await;
        for _ in 0..600 {
            let at = At::new(NAMESPACE, "shop");
            let repository = world.client.get(&resource, at).await.unwrap();
            let url = repository["status"]["artifact"]["url"].as_str();
            if url.is_some_and(|url| url.contains(&address)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let kustomize = run(&programs[1], &["--requeue-dependency=1s".to_owned()]);
        Flux {
            engines: vec![source, kustomize],
        }
    }

    fn stop(self) {
        for engine in self.engines {
            engine.end();
        }
    }
}

/// A repository with something of all that matters to who owns which field.
fn repository(work: &Path) {
    let labels = "labels: {app: web}";
    write(
        work,
        "base/app.yaml",
        &format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: web, {labels}}}\n\
             spec:\n  selector: {{app: web}}\n  ports: [{{port: 80, targetPort: http}}]\n---\n\
             apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: web, {labels}}}\n---\n\
             apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, {labels}}}\n\
             spec:\n  replicas: 0\n  selector: {{matchLabels: {{app: web}}}}\n  template:\n\
             \x20   metadata: {{{labels}}}\n    spec:\n      containers:\n\
             \x20     - {{name: web, image: 'registry.example.com/web:1', ports: [{{name: http, containerPort: 8080}}]}}\n"
        ),
    );
    write(
        work,
        "base/kustomization.yaml",
        "resources: [app.yaml]\nconfigMapGenerator:\n- {name: settings, literals: [level=info]}\n",
    );
    write(
        work,
        "apps/kustomization.yaml",
        "resources: [../base]\nnamePrefix: shop-\nimages: [{name: registry.example.com/web, newTag: '2'}]\n",
    );
    write(
        work,
        "infra/rbac.yaml",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: swap-viewer}\n\
         rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n---\n\
         apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {key: '${value}'}\n---\n\
         apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
         metadata: {name: gadgets.swap.example.com}\nspec:\n  group: swap.example.com\n  scope: Namespaced\n\
         \x20 names: {kind: Gadget, plural: gadgets}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n\
         \x20   schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}\n",
    );
    write(
        work,
        "gadgets/one.yaml",
        "apiVersion: swap.example.com/v1\nkind: Gadget\nmetadata: {name: one}\nspec: {size: 1}\n",
    );
    git(work, 1, &["init", "-q", "-b", "main"]);
    git(work, 1, &["add", "-A"]);
    git(work, 1, &["commit", "-qm", "first"]);
}

fn kustomization(name: &str, more: Value) -> Value {
    let mut object = json!({
        "apiVersion": GROUP, "kind": "Kustomization",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {
            "interval": "10m", "prune": true, "path": format!("./{name}"), "timeout": "1m",
            "targetNamespace": NAMESPACE, "sourceRef": {"kind": "GitRepository", "name": "shop"},
        },
    });
    for (key, value) in more.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

const NAMES: [&str; 3] = ["infra", "apps", "gadgets"];

/// Asks for all of them and waits until they say that they have heard.
async fn reconcile(world: &World, token: &str) {
    let request = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": token}}});
    let all = NAMES.map(|name| (GROUP, "Kustomization", name));
    let source = ("source.toolkit.fluxcd.io/v1", "GitRepository", "shop");
    for (group, kind, name) in std::iter::once(source).chain(all) {
        let resource = world.resource(group, kind).await;
        let (at, by) = (At::new(NAMESPACE, name), WriteOptions::by("user"));
        let patch = Patch::Merge(request.clone());
        world
            .client
            .patch(&resource, at, &patch, &by)
            .await
            .unwrap();
    }
    for name in NAMES {
        let heard =
            |object: &Value| object["status"]["lastHandledReconcileAt"].as_str() == Some(token);
        world.until(name, heard).await;
    }
    // Who comes second may still be at it.
    tokio::time::sleep(Duration::from_secs(3)).await;
}

/// Everything in the inventories, by name: the version of each object and who manages what.
async fn applied(world: &World) -> BTreeMap<String, (String, String)> {
    let mut all = BTreeMap::new();
    for name in NAMES {
        let object = world.kustomization(name).await.unwrap();
        for entry in object["status"]["inventory"]["entries"].as_array().unwrap() {
            let id = entry["id"].as_str().unwrap();
            let parsed: everflow_api::inventory::ObjectId = id.parse().unwrap();
            let version = entry["v"].as_str().unwrap();
            let api_version = match parsed.group.as_str() {
                "" => version.to_owned(),
                group => format!("{group}/{version}"),
            };
            let resource = world.resource(&api_version, &parsed.kind).await;
            let at = At::new(&parsed.namespace, &parsed.name);
            let live = world.client.get(&resource, at).await.unwrap();
            let metadata = &live["metadata"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let managers = metadata["managedFields"].to_string();
            all.insert(
                id.to_owned(),
                (text(&metadata["resourceVersion"]), managers),
            );
        }
    }
    all
}

/// What of the Kustomizations must not change: all but the status and what says when.
async fn declared(world: &World) -> Vec<Value> {
    let mut all = Vec::new();
    for name in NAMES {
        let object = world.kustomization(name).await.unwrap();
        let metadata = &object["metadata"];
        let status = &object["status"];
        all.push(json!({
            "spec": object["spec"], "generation": metadata["generation"],
            "finalizers": metadata["finalizers"], "labels": metadata["labels"],
            "inventory": status["inventory"], "revision": status["lastAppliedRevision"],
            "digest": status["history"][0]["digest"],
        }));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn switching_between_flux_and_everflow_changes_no_object() {
    if !everflow_corpus::real::wanted("the swap with Flux's controllers") {
        return;
    }
    let programs =
        ["source-controller", "kustomize-controller"].map(everflow_corpus::real::installed);
    let [Some(source), Some(kustomize)] = programs else {
        println!("skipped: source-controller and kustomize-controller are not on PATH");
        return;
    };
    if !git_is_here() {
        return;
    }
    let Some(real) = ApiServer::start("swap") else {
        return;
    };
    let (programs, kubeconfig) = ([source, kustomize], real.kubeconfig());
    let world = World::new(&kubeconfig);
    let root = world.place.path().join("repositories");
    repository(&root.join("shop"));
    let (_server, served) = world.serve(&root).await;
    world.apply(served).await;
    let substitute = json!({"postBuild": {"substitute": {"value": "hush"}}, "wait": true});
    world.apply(kustomization("infra", substitute)).await;
    let metadata = json!({"commonMetadata": {"labels": {"team": "shop"}},
        "patches": [{"patch": "[{\"op\": \"add\", \"path\": \"/metadata/annotations\", \"value\": {\"a\": \"b\"}}]",
            "target": {"kind": "Service"}}]});
    world.apply(kustomization("apps", metadata)).await;
    let waits = json!({"dependsOn": [{"name": "infra"}], "wait": true});
    world.apply(kustomization("gadgets", waits)).await;

    let flux = Flux::start(
        &world,
        &programs,
        &kubeconfig,
        &world.place.path().join("flux"),
    )
    .await;
    for name in NAMES {
        world.until(name, |_| true).await;
    }
    flux.stop();
    let (before, spec) = (applied(&world).await, declared(&world).await);
    assert_eq!(before.len(), 8, "{:?}", before.keys());

    let ours = Engine::start(&kubeconfig, &world.place.path().join("ours"));
    reconcile(&world, "ours-1").await;
    ours.stop();
    assert_eq!(applied(&world).await, before);
    assert_eq!(declared(&world).await, spec);

    let flux = Flux::start(
        &world,
        &programs,
        &kubeconfig,
        &world.place.path().join("flux-2"),
    )
    .await;
    reconcile(&world, "flux-2").await;
    flux.stop();
    assert_eq!(applied(&world).await, before);
    assert_eq!(declared(&world).await, spec);
}
