//! Kustomizations that apply to other clusters, over TLS, and in the name of others.

use std::sync::Arc;
use std::time::Duration;

use everflow_cluster::auth::User;
use everflow_cluster::{ApiServer, ApiService, kubeconfig};
use everflow_controllers::ControllerKind;
use everflow_embedded::{EmbeddedTransport, ServerWorld};
use everflow_env::SeededRandom;
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Client, DeleteOptions, Patch, Resource, WriteOptions};
use tokio::task::JoinHandle;

use super::scenario::Scenario;
use super::world::{API, REMOTE, TOKEN, World, recorded_options, serve_cluster};

const NAMESPACE: &str = "k-remote";
const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
const KUSTOMIZATIONS: Resource = Resource::namespaced(
    "kustomize.toolkit.fluxcd.io",
    "v1",
    "kustomizations",
    "Kustomization",
);

fn scenario() -> Scenario {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {a: '1'}\n";
    let files = json!({"one.yaml": map});
    everflow_json::from_value(
        json!({"name": "remote", "namespace": NAMESPACE, "then": {}, "files": files}),
    )
    .unwrap()
}

pub fn kustomization(spec: Value) -> Value {
    let mut object = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "app"},
        "spec": {"interval": "10m", "retryInterval": "5s", "timeout": "30s", "prune": true, "wait": true,
            "targetNamespace": NAMESPACE, "sourceRef": {"kind": "GitRepository", "name": "src"}}});
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

pub fn source(namespace: &str) -> Value {
    json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "src"},
        "spec": {"interval": "10m", "url": format!("$GIT/{namespace}.git"), "ref": {"branch": "main"}}})
}

/// Another cluster, and a client that no network is between.
struct Remote {
    client: Client,
    server: ApiServer,
    serving: Option<JoinHandle<()>>,
}

impl Remote {
    async fn start(world: &World) -> Self {
        let random = Arc::new(SeededRandom::new(7));
        let options = everflow_cluster::Options {
            authorization: true,
            tokens: vec![(TOKEN.to_owned(), User::admin())],
            ..everflow_cluster::Options::default()
        };
        let there = Arc::new(ServerWorld::new(world.env.clock.clone(), random));
        let server = ApiServer::new(there, options);
        let service = ApiService::new(server.clone()).as_user(User::admin());
        let transport = Arc::new(EmbeddedTransport::new(service));
        let client = Client::new(transport, world.env.clock.clone());
        let namespaces = Resource::cluster("", "v1", "namespaces", "Namespace");
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        let by = WriteOptions::by("user");
        client
            .create(&namespaces, "", &namespace, &by)
            .await
            .unwrap();
        let mut remote = Remote {
            client,
            server,
            serving: None,
        };
        remote.serve(world);
        remote
    }

    fn serve(&mut self, world: &World) {
        let (dialer, authority) = (&world.dialer, &world.authority);
        self.serving = Some(serve_cluster(dialer, REMOTE, &self.server, authority));
    }

    async fn map(&self) -> Option<Value> {
        self.client.get(&MAPS, At::new(NAMESPACE, "one")).await.ok()
    }
}

fn secret(world: &World) -> Value {
    let url = format!("https://{REMOTE}:{API}");
    let text = kubeconfig(&url, &world.authority.ca_certificate, TOKEN);
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kc"}, "stringData": {"value": text}})
}

/// The Ready condition: its status and message.
pub async fn state(world: &World, namespace: &str) -> Option<(String, String)> {
    condition(world, namespace, "Ready").await
}

pub async fn condition(world: &World, namespace: &str, kind: &str) -> Option<(String, String)> {
    let at = At::new(namespace, "app");
    let object = world.client.get(&KUSTOMIZATIONS, at).await.ok()?;
    let conditions = object["status"]["conditions"].as_array()?;
    let ready = conditions.iter().find(|one| one["type"] == kind)?;
    let text = |field: &str| ready[field].as_str().unwrap().to_owned();
    Some((text("status"), text("message")))
}

pub async fn delete(world: &World, namespace: &str) {
    let at = At::new(namespace, "app");
    let asked = DeleteOptions::default();
    let done = world.client.delete(&KUSTOMIZATIONS, at, &asked).await;
    done.unwrap();
}

async fn started(spec: Value) -> (World, Remote) {
    let world = World::start(&scenario(), recorded_options(), ControllerKind::ALL).await;
    let remote = Remote::start(&world).await;
    world.apply(&source(NAMESPACE)).await.unwrap();
    world.apply(&secret(&world)).await.unwrap();
    world.apply(&kustomization(spec)).await.unwrap();
    world.sleep(Duration::from_secs(8)).await;
    (world, remote)
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_kubeconfig_in_a_secret_leads_to_another_cluster() {
    let spec = json!({"kubeConfig": {"secretRef": {"name": "kc"}}});
    let (mut world, remote) = started(spec).await;
    let (ready, message) = state(&world, NAMESPACE).await.unwrap();
    assert_eq!(ready, "True", "{message}");
    assert_eq!(remote.map().await.unwrap()["data"]["a"], "1");
    // Nothing of it is here.
    let here = world.client.get(&MAPS, At::new(NAMESPACE, "one")).await;
    assert!(here.is_err());
    delete(&world, NAMESPACE).await;
    world.sleep(Duration::from_secs(5)).await;
    assert_eq!(state(&world, NAMESPACE).await, None);
    assert!(remote.map().await.is_none());
    world.stop_engine().await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_cluster_that_is_gone_holds_up_a_deletion_which_says_so() {
    let spec = json!({"kubeConfig": {"secretRef": {"name": "kc"}}});
    let (mut world, mut remote) = started(spec).await;
    assert!(remote.map().await.is_some());
    remote.serving.take().unwrap().abort();
    delete(&world, NAMESPACE).await;
    world.sleep(Duration::from_secs(120)).await;
    let (ready, message) = state(&world, NAMESPACE).await.unwrap();
    assert_eq!(ready, "False");
    assert!(
        message.contains("pruning for deleted resource failed")
            && message.contains("ConfigMap/k-remote/one")
            && message.contains(REMOTE),
        "{message}"
    );
    assert!(remote.map().await.is_some());
    // It comes back, and the deletion ends by itself.
    remote.serve(&world);
    world.sleep(Duration::from_secs(900)).await;
    assert_eq!(state(&world, NAMESPACE).await, None);
    assert!(remote.map().await.is_none());
    world.stop_engine().await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_kubeconfig_that_is_gone_holds_up_a_deletion_which_says_so() {
    let spec = json!({"kubeConfig": {"secretRef": {"name": "kc"}}});
    let (mut world, remote) = started(spec).await;
    let secrets = Resource::namespaced("", "v1", "secrets", "Secret");
    let (at, asked) = (At::new(NAMESPACE, "kc"), DeleteOptions::default());
    world.client.delete(&secrets, at, &asked).await.unwrap();
    delete(&world, NAMESPACE).await;
    world.sleep(Duration::from_secs(30)).await;
    let (ready, message) = state(&world, NAMESPACE).await.unwrap();
    assert_eq!(ready, "False");
    assert!(
        message.contains("unable to read KubeConfig secret 'k-remote/kc'"),
        "{message}"
    );
    assert!(remote.map().await.is_some());
    world.apply(&secret(&world)).await.unwrap();
    world.sleep(Duration::from_secs(900)).await;
    assert_eq!(state(&world, NAMESPACE).await, None);
    assert!(remote.map().await.is_none());
    world.stop_engine().await;
}

/// A service account with these rights in the namespace.
pub async fn account(world: &World, verbs: &[&str]) {
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "deployer"}});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "deployer"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "deployer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": NAMESPACE}]});
    for object in [account, role, binding] {
        world.apply(&object).await.unwrap();
    }
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_kubeconfig_in_a_config_map_takes_a_token_of_a_service_account() {
    let mut world = World::start(&scenario(), recorded_options(), ControllerKind::ALL).await;
    account(&world, &["get", "create", "patch", "delete"]).await;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kc"}, "data": {
        "provider": "generic", "address": "$API", "serviceAccountName": "deployer",
        "ca.crt": world.authority.ca_certificate, "audiences": "[https://kubernetes.default.svc]"}});
    world.apply(&config).await.unwrap();
    world.apply(&source(NAMESPACE)).await.unwrap();
    let spec = json!({"kubeConfig": {"configMapRef": {"name": "kc"}}});
    world.apply(&kustomization(spec)).await.unwrap();
    world.sleep(Duration::from_secs(8)).await;
    let (ready, message) = state(&world, NAMESPACE).await.unwrap();
    assert_eq!(ready, "True", "{message}");
    // The server knows who it was only by the rights; take them away and it is refused.
    let roles = world.resource("rbac.authorization.k8s.io/v1", "Role").await;
    let patch = Patch::Merge(json!({"rules": []}));
    let at = At::new(NAMESPACE, "deployer");
    let by = WriteOptions::by("user");
    world.client.patch(&roles, at, &patch, &by).await.unwrap();
    world.ask_for("Kustomization/app").await;
    world.sleep(Duration::from_secs(8)).await;
    let (ready, message) = state(&world, NAMESPACE).await.unwrap();
    assert_eq!(ready, "False", "{message}");
    assert!(
        message.contains("system:serviceaccount:k-remote:deployer"),
        "{message}"
    );
    world.stop_engine().await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_service_account_applies_what_it_may() {
    let mut world = World::start(&scenario(), recorded_options(), ControllerKind::ALL).await;
    account(&world, &["get"]).await;
    world.apply(&source(NAMESPACE)).await.unwrap();
    let spec = json!({"serviceAccountName": "deployer"});
    world.apply(&kustomization(spec)).await.unwrap();
    world.sleep(Duration::from_secs(8)).await;
    let (ready, message) = state(&world, NAMESPACE).await.unwrap();
    assert_eq!(ready, "False");
    assert!(
        message.contains("ConfigMap/k-remote/one dry-run failed (Forbidden)")
            && message.contains("system:serviceaccount:k-remote:deployer"),
        "{message}"
    );
    account(&world, &["get", "create", "patch", "delete"]).await;
    world.sleep(Duration::from_secs(15)).await;
    let (ready, message) = state(&world, NAMESPACE).await.unwrap();
    assert_eq!(ready, "True", "{message}");
    world.stop_engine().await;
}
