//! A cluster in memory with a toy kind, and faults on demand.

#![allow(dead_code)]

pub mod toy;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everflow_cluster::auth::User;
use everflow_cluster::faults::{EventVerdict, Faults, Verdict};
use everflow_cluster::rest::watch::Event;
use everflow_cluster::status::ApiError;
use everflow_cluster::{ApiServer, ApiService, Options, Request};
use everflow_embedded::{EmbeddedTransport, ServerWorld};
use everflow_env::{Env, MemoryDialer, SeededRandom};
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Client, Resource, Selection, WriteOptions};
use everflow_runtime::transport::{ClusterConfig, HttpsTransport};

/// The toy kind.
pub const TOYS: Resource = Resource::namespaced("example.com", "v1", "toys", "Toy");
/// Where definitions of kinds live.
pub const DEFINITIONS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);

/// Faults that a test sets and clears.
#[derive(Default)]
pub struct Switches {
    rules: Mutex<Rules>,
}

type Before = Box<dyn FnMut(&Request) -> Verdict + Send>;
type After = Box<dyn FnMut(&Request, u16) -> Verdict + Send>;
type OnEvent = Box<dyn FnMut(&Request, &str, &[u8]) -> EventVerdict + Send>;

#[derive(Default)]
struct Rules {
    before: Option<Before>,
    after: Option<After>,
    event: Option<OnEvent>,
    requests: Vec<String>,
    bodies: BTreeMap<usize, Value>,
}

impl Switches {
    pub fn before(&self, rule: impl FnMut(&Request) -> Verdict + Send + 'static) {
        self.rules.lock().unwrap().before = Some(Box::new(rule));
    }
    pub fn after(&self, rule: impl FnMut(&Request, u16) -> Verdict + Send + 'static) {
        self.rules.lock().unwrap().after = Some(Box::new(rule));
    }
    pub fn event(&self, rule: impl FnMut(&Request, &str, &[u8]) -> EventVerdict + Send + 'static) {
        self.rules.lock().unwrap().event = Some(Box::new(rule));
    }
    pub fn clear(&self) {
        let mut rules = self.rules.lock().unwrap();
        (rules.before, rules.after, rules.event) = (None, None, None);
    }
    /// Every request that reached the server, as `METHOD path`.
    pub fn requests(&self) -> Vec<String> {
        self.rules.lock().unwrap().requests.clone()
    }
    /// The body of the request of that number.
    pub fn body(&self, number: usize) -> Value {
        let rules = self.rules.lock().unwrap();
        rules.bodies.get(&number).cloned().unwrap_or_default()
    }
}

impl Faults for Switches {
    fn before(&self, request: &Request) -> Verdict {
        let mut rules = self.rules.lock().unwrap();
        let watch = if request.param("watch").is_some() {
            "?watch"
        } else {
            ""
        };
        let number = rules.requests.len();
        rules
            .requests
            .push(format!("{} {}{watch}", request.method, request.path));
        if let Ok(body) = everflow_json::from_slice(&request.body) {
            rules.bodies.insert(number, body);
        }
        match &mut rules.before {
            Some(rule) => rule(request),
            None => Verdict::Pass,
        }
    }

    fn after(&self, request: &Request, status: u16) -> Verdict {
        match &mut self.rules.lock().unwrap().after {
            Some(rule) => rule(request, status),
            None => Verdict::Pass,
        }
    }

    fn event(&self, request: &Request, event: &Event) -> EventVerdict {
        match &mut self.rules.lock().unwrap().event {
            Some(rule) => rule(request, event.kind, &event.line()),
            None => EventVerdict::Pass,
        }
    }
}

/// A refusal with a code.
pub fn refuse(code: u16, reason: &'static str) -> Verdict {
    Verdict::Fail(ApiError::new(code, reason, format!("{reason} on purpose")))
}

/// A cluster in memory, and a world.
pub struct World {
    pub env: Env,
    pub server: ApiServer,
    pub faults: Arc<Switches>,
    pub client: Client,
    /// A client that no fault touches.
    pub user: Client,
}

impl World {
    /// A cluster that knows toys, with the namespace `apps`.
    pub async fn new(seed: u64) -> World {
        let env = Env::simulated(seed, MemoryDialer::new());
        let world = ServerWorld::new(env.clock.clone(), Arc::new(SeededRandom::new(!seed)));
        let server = ApiServer::new(Arc::new(world), Options::default());
        let faults = Arc::new(Switches::default());
        let world = World {
            client: client(&env, &server, Some(faults.clone())),
            user: client(&env, &server, None),
            env,
            server,
            faults,
        };
        world.prepare().await;
        world
    }

    /// A real cluster, by its kubeconfig.
    pub async fn real(kubeconfig: &std::path::Path) -> World {
        let mut world = World::new(0).await;
        let disk = everflow_env::RealDisk::new(&std::env::temp_dir()).unwrap();
        world.env = Env::system(disk);
        let config = ClusterConfig::from_file(kubeconfig, None).unwrap();
        let connect = || {
            let transport = HttpsTransport::new(&world.env, config.clone()).unwrap();
            Client::new(Arc::new(transport), world.env.clock.clone())
        };
        let (client, user) = (connect(), connect());
        (world.client, world.user) = (client, user);
        world.prepare().await;
        for _ in 0..100 {
            let all = Selection::default();
            if world.user.list_all(&TOYS, None, &all).await.is_ok() {
                break;
            }
            world.sleep(0.1).await;
        }
        world
    }

    async fn prepare(&self) {
        let world = self;
        let by = WriteOptions::by("user");
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps"}});
        let namespaces = Resource::cluster("", "v1", "namespaces", "Namespace");
        world
            .user
            .create(&namespaces, "", &namespace, &by)
            .await
            .unwrap();
        world
            .user
            .create(&DEFINITIONS, "", &definition(), &by)
            .await
            .unwrap();
    }

    /// Another client with the same faults: another replica.
    pub fn another_client(&self) -> Client {
        client(&self.env, &self.server, Some(self.faults.clone()))
    }

    pub async fn create_toy(&self, name: &str, spec: Value) -> Value {
        let toy = json!({
            "apiVersion": "example.com/v1",
            "kind": "Toy",
            "metadata": {"name": name, "namespace": "apps"},
            "spec": spec,
        });
        let by = WriteOptions::by("user");
        self.user.create(&TOYS, "apps", &toy, &by).await.unwrap()
    }

    pub async fn toy(&self, name: &str) -> Value {
        self.user.get(&TOYS, At::new("apps", name)).await.unwrap()
    }

    pub async fn sleep(&self, seconds: f64) {
        self.env.clock.sleep(Duration::from_secs_f64(seconds)).await;
    }
}

fn client(env: &Env, server: &ApiServer, faults: Option<Arc<Switches>>) -> Client {
    let mut service = ApiService::new(server.clone()).as_user(User::admin());
    if let Some(faults) = faults {
        service = service.with_faults(faults);
    }
    Client::new(Arc::new(EmbeddedTransport::new(service)), env.clock.clone())
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "toys.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "toys", "singular": "toy", "kind": "Toy", "listKind": "ToyList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                        "status": {
                            "type": "object",
                            "default": {"observedGeneration": -1},
                            "x-kubernetes-preserve-unknown-fields": true,
                        },
                    },
                }},
            }],
        },
    })
}
