//! The real server, spoken to by curl.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Reply;
use crate::documents::Operation;

/// A running etcd and kube-apiserver; stopped when dropped.
pub struct Server {
    directory: PathBuf,
    address: String,
    token: String,
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../real/peers.sh")
}

impl Server {
    pub fn start(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!(
            "everflow-differential-{name}-{}",
            std::process::id()
        ));
        std::fs::create_dir_all(&directory).unwrap();
        let output = Command::new(script())
            .args(["start", "--dir"])
            .arg(&directory)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let kubeconfig = std::fs::read_to_string(directory.join("kubeconfig")).unwrap();
        let field = |name: &str| {
            let line = kubeconfig
                .lines()
                .find_map(|line| line.trim().strip_prefix(name));
            line.unwrap_or_default().trim().trim_matches('"').to_owned()
        };
        Self {
            address: field("server:"),
            token: field("token:"),
            directory,
        }
    }

    /// Sends requests one after the other over one connection.
    pub fn send(&self, operations: &[Operation]) -> Vec<Reply> {
        let work = self.directory.join("requests");
        std::fs::create_dir_all(&work).unwrap();
        let mut config = String::new();
        for (index, operation) in operations.iter().enumerate() {
            if index > 0 {
                config.push_str("next\n");
            }
            let _ = writeln!(
                config,
                "silent\ninsecure\nrequest = \"{}\"",
                operation.method
            );
            let _ = writeln!(config, "url = \"{}{}\"", self.address, operation.path);
            let _ = writeln!(config, "header = \"Authorization: Bearer {}\"", self.token);
            for (name, value) in operation.headers() {
                let _ = writeln!(config, "header = \"{name}: {value}\"");
            }
            if !operation.body.is_empty() {
                let file = work.join(format!("body-{index}"));
                std::fs::write(&file, &operation.body).unwrap();
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
        assert_eq!(
            codes.len(),
            operations.len(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        codes
            .into_iter()
            .enumerate()
            .map(|(index, status)| {
                let text = std::fs::read(work.join(format!("answer-{index}"))).unwrap_or_default();
                Reply {
                    status,
                    body: serde_json::from_slice(&text).unwrap_or(Value::Null),
                }
            })
            .collect()
    }

    /// Waits until the definition of widgets is served.
    pub fn wait_for_widgets(&self) {
        self.wait_for(&Operation {
            method: "GET".to_owned(),
            path: "/apis/differential.io/v1/widgets".to_owned(),
            content_type: "application/json",
            body: String::new(),
        });
    }

    /// Waits until a request is answered with 200.
    pub fn wait_for(&self, probe: &Operation) {
        for _ in 0..100 {
            if self.send(std::slice::from_ref(probe))[0].status == 200 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
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
