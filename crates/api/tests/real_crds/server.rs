//! A real API server, spoken to by curl.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: &'static str,
    pub path: String,
    pub accept: &'static str,
    pub body: Option<Value>,
}

impl Request {
    pub fn new(method: &'static str, path: impl Into<String>, body: Option<Value>) -> Self {
        Self {
            method,
            path: path.into(),
            accept: "application/json",
            body,
        }
    }
}

/// What the server answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub status: u16,
    pub body: Value,
}

/// A running etcd and kube-apiserver; stopped when dropped.
pub struct Server {
    directory: PathBuf,
    address: String,
    token: String,
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../real/peers.sh")
}

fn run(arguments: &[&str], directory: Option<&Path>) {
    let output = Command::new(script())
        .args(arguments)
        .args(directory)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}

impl Server {
    /// Starts one with these definitions.
    pub fn with_definitions(name: &str, definitions: &[Value]) -> Self {
        let directory =
            std::env::temp_dir().join(format!("everflow-api-{name}-{}", std::process::id()));
        run(&["build", "etcd", "kube-apiserver"], None);
        run(&["start", "--dir"], Some(&directory));
        let kubeconfig = std::fs::read_to_string(directory.join("kubeconfig")).unwrap();
        let field = |name: &str| {
            let mut lines = kubeconfig.lines();
            let line = lines.find_map(|line| line.trim().strip_prefix(name));
            line.unwrap_or_default().trim().trim_matches('"').to_owned()
        };
        let server = Self {
            address: field("server:"),
            token: field("token:"),
            directory,
        };
        server.install(definitions);
        server
    }

    fn install(&self, definitions: &[Value]) {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let requests: Vec<Request> = definitions
            .iter()
            .map(|definition| Request::new("POST", path, Some(definition.clone())))
            .collect();
        for reply in self.send(&requests) {
            assert_eq!(reply.status, 201, "{}", reply.body);
        }
        for definition in definitions {
            let name = definition["metadata"]["name"].as_str().unwrap();
            self.wait_for(name);
        }
    }

    fn wait_for(&self, definition: &str) {
        let (plural, group) = definition.split_once('.').unwrap();
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}");
        let stored = self.one(Request::new("GET", path, None)).body;
        let version = stored["spec"]["versions"][0]["name"].as_str().unwrap();
        let path = format!("/apis/{group}/{version}/{plural}");
        for _ in 0..300 {
            if self.one(Request::new("GET", &path, None)).status == 200 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{definition} is not served");
    }

    /// Sends one request.
    pub fn one(&self, request: Request) -> Reply {
        self.send(&[request]).remove(0)
    }

    /// Sends requests one after the other over one connection.
    pub fn send(&self, requests: &[Request]) -> Vec<Reply> {
        let work = self.directory.join("requests");
        let _ = std::fs::remove_dir_all(&work);
        std::fs::create_dir_all(&work).unwrap();
        let mut config = String::new();
        for (index, request) in requests.iter().enumerate() {
            if index > 0 {
                config.push_str("next\n");
            }
            let _ = writeln!(config, "silent\ninsecure\nrequest = \"{}\"", request.method);
            let _ = writeln!(config, "url = \"{}{}\"", self.address, request.path);
            let _ = writeln!(config, "header = \"Authorization: Bearer {}\"", self.token);
            let _ = writeln!(config, "header = \"Accept: {}\"", request.accept);
            if let Some(body) = &request.body {
                let file = work.join(format!("body-{index}"));
                std::fs::write(&file, body.to_string()).unwrap();
                let content_type = match request.method {
                    "PATCH" => "application/merge-patch+json",
                    _ => "application/json",
                };
                let _ = writeln!(config, "header = \"Content-Type: {content_type}\"");
                let _ = writeln!(config, "data-binary = \"@{}\"", file.display());
            }
            let output = work.join(format!("answer-{index}"));
            let _ = writeln!(
                config,
                "output = \"{}\"\nwrite-out = \"%{{http_code}}\\n\"",
                output.display()
            );
        }
        let file = work.join("config");
        std::fs::write(&file, config).unwrap();
        let output = Command::new("curl")
            .arg("--config")
            .arg(&file)
            .output()
            .unwrap();
        let codes = String::from_utf8_lossy(&output.stdout).into_owned();
        let codes: Vec<u16> = codes.lines().filter_map(|line| line.parse().ok()).collect();
        assert_eq!(codes.len(), requests.len());
        let answer = |(index, status)| {
            let text = std::fs::read(work.join(format!("answer-{index}"))).unwrap_or_default();
            Reply {
                status,
                body: serde_json::from_slice(&text)
                    .unwrap_or(json!(String::from_utf8_lossy(&text))),
            }
        };
        codes.into_iter().enumerate().map(answer).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new(script())
            .args(["stop", "--dir"])
            .arg(&self.directory)
            .output();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
