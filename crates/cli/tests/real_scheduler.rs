//! Where the real kube-scheduler puts the pods of an installation.
//!
//! Part of the real tier. Nodes are plain Node objects without a kubelet: a pod is placed and never started.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code)]

#[path = "common/world.rs"]
mod world;

use std::process::Command;
use std::time::{Duration, Instant};

use everflow_corpus::real::{ApiServer, Request};
use everflow_json::{Value, json};
use everflow_yaml::documents::yaml_or_json_decoder;
use world::World;

/// How long the controllers and the scheduler may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const PODS: &str = "/api/v1/namespaces/flux-system/pods";

struct Nodes {
    server: ApiServer,
    world: World,
}

impl Nodes {
    fn start() -> Option<Self> {
        let server = ApiServer::start_with("scheduler", &["--controller-manager", "--scheduler"])?;
        let world = World::new(&server.kubeconfig(), server.directory());
        Some(Nodes { server, world })
    }

    fn send(&self, method: &str, path: &str, content_type: &str, body: Option<&Value>) -> Value {
        let answers = self.server.send(&[Request {
            method,
            path,
            headers: vec![("Content-Type", content_type.to_owned())],
            body: body.map(|body| body.to_string().into_bytes()),
        }]);
        let text = String::from_utf8_lossy(&answers[0].body).into_owned();
        assert!(answers[0].status < 300, "{method} {path}: {text}");
        everflow_json::from_str(&text).unwrap()
    }

    fn change(&self, path: &str, patch: &Value) {
        self.send("PATCH", path, "application/merge-patch+json", Some(patch));
    }

    /// A node that is ready and has room. It is tainted when it is made, as kubelets are not heard of yet; in a
    /// cluster a controller takes the taint away.
    fn node(&self, name: &str, zone: &str) {
        let room = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": zone,
            }},
            "status": {"capacity": room, "allocatable": room,
                "conditions": [{"type": "Ready", "status": "True"}]},
        });
        self.send("POST", "/api/v1/nodes", "application/json", Some(&node));
        let path = format!("/api/v1/nodes/{name}");
        self.change(&path, &json!({"spec": {"taints": null}}));
    }

    fn cordon(&self, name: &str) {
        let path = format!("/api/v1/nodes/{name}");
        self.change(&path, &json!({"spec": {"unschedulable": true}}));
    }

    /// What `everflow install` would apply, applied.
    async fn install(&self, more: &[&str]) {
        let exported = Command::new(env!("CARGO_BIN_EXE_everflow"))
            .args(["install", "--export"])
            .args(more)
            .output()
            .unwrap();
        assert!(exported.status.success(), "{exported:?}");
        for document in yaml_or_json_decoder(&exported.stdout) {
            let object = document.unwrap().into_object().unwrap();
            self.world.apply(&object.expect("an object")).await;
        }
    }

    /// The nodes of the pods of the installation, once there are so many and each has one.
    fn placed(&self, count: usize) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let pods = self.send("GET", PODS, "application/json", None);
            let items = pods["items"].as_array().unwrap();
            let nodes = items
                .iter()
                .filter_map(|pod| pod["spec"]["nodeName"].as_str());
            let mut nodes: Vec<String> = nodes.map(str::to_owned).collect();
            if items.len() == count && nodes.len() == count {
                nodes.sort();
                return nodes;
            }
            assert!(begun.elapsed() < PATIENCE, "not placed: {pods:#?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Deletes all pods, as a drain does; their Deployment makes others.
    fn replace_pods(&self) {
        let pods = self.send("GET", PODS, "application/json", None);
        for pod in pods["items"].as_array().unwrap() {
            let name = pod["metadata"]["name"].as_str().unwrap();
            // No kubelet says that it has ended.
            let path = format!("{PODS}/{name}?gracePeriodSeconds=0");
            self.send("DELETE", &path, "application/json", None);
        }
    }

    /// An identity root that runs on a node.
    async fn spire(&self, node: &str, labels: Value) {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "spire"}});
        self.world.apply(&namespace).await;
        let name = format!("server-{node}");
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "spire", "name": name, "labels": labels},
            "spec": {"nodeName": node, "containers": [{"name": "server", "image": "spire:1"}]},
        });
        self.world.apply(&pod).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_placed_apart_and_still_placed_when_nodes_are_cordoned() {
    let Some(nodes) = Nodes::start() else {
        return;
    };
    nodes.node("north-1", "north");
    nodes.node("north-2", "north");
    nodes.node("south-1", "south");
    nodes.spire("north-1", json!({"app": "spire-server"})).await;
    nodes.install(&[]).await;
    assert_eq!(nodes.placed(2), ["north-2", "south-1"]);

    // Only the node of the identity root is left: they rather share it than wait.
    nodes.cordon("north-2");
    nodes.cordon("south-1");
    nodes.replace_pods();
    assert_eq!(nodes.placed(2), ["north-1", "north-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_spread_over_zones_and_kept_from_what_is_selected() {
    let Some(nodes) = Nodes::start() else {
        return;
    };
    for (name, zone) in [
        ("a-1", "a"),
        ("a-2", "a"),
        ("b-1", "b"),
        ("b-2", "b"),
        ("c-1", "c"),
    ] {
        nodes.node(name, zone);
    }
    nodes.spire("c-1", json!({"app": "vault"})).await;
    nodes
        .install(&["--replicas=4", "--spread-from=app=vault"])
        .await;
    assert_eq!(nodes.placed(4), ["a-1", "a-2", "b-1", "b-2"]);
}
