//! Against a real kube-apiserver, when `EVERFLOW_REAL=1` asks for it.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use std::path::PathBuf;
use std::process::Command;

use everflow_schema::openapi::{custom_resources_v3, documents};
use serde_json::{Value, json};

/// A running API server; stopped when dropped.
struct Server {
    peers: PathBuf,
    directory: PathBuf,
    address: String,
    token: String,
}

impl Server {
    /// Starts one, or says why not.
    fn start() -> Option<Self> {
        if std::env::var("EVERFLOW_REAL").as_deref() != Ok("1") {
            eprintln!("skipped: set EVERFLOW_REAL=1 to compare with a real kube-apiserver");
            return None;
        }
        let peers = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../real/peers.sh");
        let directory =
            std::env::temp_dir().join(format!("everflow-schema-real-{}", std::process::id()));
        run(Command::new(&peers).args(["build", "etcd", "kube-apiserver"]));
        run(Command::new(&peers)
            .args(["start", "--dir"])
            .arg(&directory));
        let text = std::fs::read_to_string(directory.join("kubeconfig")).unwrap();
        let field = |name: &str| {
            let line = text
                .lines()
                .find_map(|line| line.trim().strip_prefix(name))
                .unwrap();
            line.trim().to_owned()
        };
        Some(Self {
            peers,
            directory,
            address: field("server:"),
            token: field("token:"),
        })
    }

    fn curl(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let mut command = Command::new("curl");
        command.args([
            "-sk",
            "-X",
            method,
            "-H",
            &format!("Authorization: Bearer {}", self.token),
        ]);
        if let Some(body) = body {
            command.args([
                "-H",
                "Content-Type: application/json",
                "--data-binary",
                &body.to_string(),
            ]);
        }
        let output = command
            .arg(format!("{}{path}", self.address))
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new(&self.peers)
            .args(["stop", "--dir"])
            .arg(&self.directory)
            .status();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn documents_are_those_that_the_server_publishes() {
    let Some(server) = Server::start() else {
        return;
    };
    assert_eq!(
        server.curl("GET", "/openapi/v2", None),
        documents().v2().unwrap()
    );
    let index = server.curl("GET", "/openapi/v3", None);
    for path in index["paths"].as_object().unwrap().keys() {
        let published = server.curl("GET", &format!("/openapi/v3/{path}"), None);
        assert_eq!(published, documents().v3(path).unwrap(), "{path}");
    }
    let definitions = definitions();
    for definition in &definitions {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let answer = server.curl("POST", path, Some(definition));
        assert_eq!(answer["kind"], "CustomResourceDefinition", "{answer}");
    }
    let mut versions: Vec<(String, String)> = definitions
        .iter()
        .flat_map(|definition| {
            let group = definition["spec"]["group"].as_str().unwrap();
            let versions = definition["spec"]["versions"].as_array().unwrap();
            versions.iter().map(move |version| {
                (
                    group.to_owned(),
                    version["name"].as_str().unwrap().to_owned(),
                )
            })
        })
        .collect();
    versions.sort();
    versions.dedup();
    for (group, version) in versions {
        let ours = normal(custom_resources_v3(&definitions, &group, &version));
        let path = format!("/openapi/v3/apis/{group}/{version}");
        // The document follows the definitions after a moment.
        let mut published = Value::Null;
        for _ in 0..100 {
            published = normal(server.curl("GET", &path, None));
            if published == ours {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        assert_eq!(published, ours, "{path}");
    }
}

/// The server lists other groups' versions of `DeleteOptions` that mean nothing here.
fn normal(mut document: Value) -> Value {
    let options = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
    if let Some(schema) = document["components"]["schemas"].get_mut(options) {
        schema["x-kubernetes-group-version-kind"] = Value::Null;
    }
    document
}

fn definitions() -> Vec<Value> {
    let mut definitions = vec![json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.wide.everflow.test"},
        "spec": {
            "group": "wide.everflow.test",
            "scope": "Cluster",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [
                {
                    "name": "v1", "served": true, "storage": true,
                    "selectableFields": [{"jsonPath": ".spec.a"}],
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                    },
                    "schema": {"openAPIV3Schema": {
                        "type": "object",
                        "description": "A widget",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["a"],
                                "properties": {
                                    "a": {"type": "string", "default": "x", "enum": ["x", "y"], "nullable": true},
                                    "replicas": {"type": "integer", "format": "int32"},
                                    "either": {
                                        "x-kubernetes-int-or-string": true,
                                        "anyOf": [{"type": "integer"}, {"type": "string"}],
                                    },
                                    "object": {
                                        "type": "object",
                                        "x-kubernetes-embedded-resource": true,
                                        "x-kubernetes-preserve-unknown-fields": true,
                                    },
                                    "any": {"x-kubernetes-preserve-unknown-fields": true},
                                    "map": {
                                        "type": "object",
                                        "additionalProperties": {"type": "integer", "format": "int64"},
                                        "x-kubernetes-map-type": "atomic",
                                    },
                                },
                                "oneOf": [{"required": ["a"]}],
                            },
                            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                        },
                    }},
                },
                {
                    "name": "v1beta1", "served": true, "storage": false,
                    "schema": {"openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    }},
                },
            ],
        },
    })];
    if let Some(corpus) = common::corpus("apiserver") {
        let mut files: Vec<PathBuf> = std::fs::read_dir(corpus.join("fixtures/crds"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        definitions.extend(
            files
                .iter()
                .map(|file| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()),
        );
    }
    definitions
}
