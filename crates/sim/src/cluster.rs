//! The cluster that all runs begin with: made once, forked for each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use everflow_cluster::auth::User;
use everflow_cluster::controllers::Controller;
use everflow_cluster::env::ManualEnvironment;
use everflow_cluster::time::Timestamp;
use everflow_cluster::{ApiServer, Options, Request};
use everflow_json::{Value, json};

/// The namespaces that there are.
pub const NAMESPACES: [&str; 3] = ["flux-system", "apps", "other"];

/// A server with Flux's kinds and so many others, whose workloads take so many seconds. An hour passes between its making
/// and the beginning of a run.
pub fn base(kinds: u32, workloads: u64) -> ApiServer {
    static BASES: Mutex<BTreeMap<(u32, u64), ApiServer>> = Mutex::new(BTreeMap::new());
    let mut bases = BASES.lock().unwrap_or_else(PoisonError::into_inner);
    let made = bases.entry((kinds, workloads)).or_insert_with(|| {
        let server = match workloads {
            0 => usual().fork(Arc::new(beginning()), None),
            _ => booted(Duration::from_secs(workloads)),
        };
        (0..kinds).for_each(|number| define(&server, number));
        server
    });
    made.clone()
}

fn beginning() -> ManualEnvironment {
    const START: i64 = 1_767_222_000_000_000;
    ManualEnvironment::new(Timestamp::from_micros(START), 1)
}

fn usual() -> &'static ApiServer {
    static USUAL: OnceLock<ApiServer> = OnceLock::new();
    USUAL.get_or_init(|| booted(Duration::ZERO))
}

/// A server with Flux's kinds, whose workloads take so long.
fn booted(workload_delay: Duration) -> ApiServer {
    let options = Options {
        controllers: vec![
            Controller::Namespace,
            Controller::GarbageCollector,
            Controller::Workload,
        ],
        workload_delay,
        ..Options::default()
    };
    let server = with_objects(options, &everflow_api::crds());
    for name in NAMESPACES {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(&server, "/api/v1/namespaces", &namespace);
    }
    server
}

/// A server with definitions and accounts.
pub fn with_objects(options: Options, objects: &[Value]) -> ApiServer {
    let server = ApiServer::new(Arc::new(beginning()), options);
    let mut namespaces = std::collections::BTreeSet::new();
    for object in objects {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        if !namespace.is_empty() && namespaces.insert(namespace) {
            let object =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            create(&server, "/api/v1/namespaces", &object);
        }
        create(&server, &collection(object, namespace), object);
    }
    server
}

/// Where an object of a built-in kind is created.
fn collection(object: &Value, namespace: &str) -> String {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let root = if version.contains('/') { "apis" } else { "api" };
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let inside = match namespace {
        "" => String::new(),
        namespace => format!("namespaces/{namespace}/"),
    };
    format!("/{root}/{version}/{inside}{kind}s")
}

fn create(server: &ApiServer, path: &str, object: &Value) {
    let body = everflow_json::to_vec(object).unwrap_or_default();
    let mut request = Request::new("POST", path, body).header("content-type", "application/json");
    request.user = Some(Arc::new(User::admin()));
    let _ = server.handle(&request);
}

/// Puts into a server what was stored before anybody checked it.
pub fn furnish(server: &ApiServer, stored: &[Value]) {
    for (number, object) in stored.iter().enumerate() {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
        let plural = match kind.strip_suffix('y') {
            Some(start) => format!("{start}ies"),
            None => format!("{kind}s"),
        };
        let key = match text("namespace") {
            "" => text("name").to_owned(),
            namespace => format!("{namespace}/{}", text("name")),
        };
        let mut object = object.clone();
        object["metadata"]["uid"] = format!("00000000-0000-4000-8000-{number:012}").into();
        object["metadata"]["generation"] = 1.into();
        object["metadata"]["creationTimestamp"] = "2025-12-31T23:00:00Z".into();
        // Nothing else has the name: a scenario that says so twice has one of them.
        let _ = server
            .store()
            .create(&format!("{group}/{plural}"), &key, object);
    }
}

/// Makes a kind that means nothing.
fn define(server: &ApiServer, number: u32) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("kind{number}s.group{}.example", number / 10)},
        "spec": {
            "group": format!("group{}.example", number / 10),
            "names": {"kind": format!("Kind{number}"), "plural": format!("kind{number}s")},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    create(server, path, &definition);
}
