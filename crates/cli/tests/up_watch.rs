//! `everflow up --watch`: what changes on disk is deployed, and other programs can look.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_everflow");

fn map(value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: default}}\ndata: {{key: {value}}}\n"
    )
}

const ALERT: &str = "apiVersion: notification.toolkit.fluxcd.io/v1beta3
kind: Provider
metadata: {name: chat, namespace: flux-system}
spec: {type: slack, channel: c, address: 'http://127.0.0.1:9/chat'}
---
apiVersion: notification.toolkit.fluxcd.io/v1beta3
kind: Alert
metadata: {name: chat, namespace: flux-system}
spec:
  providerRef: {name: chat}
  eventSources: [{kind: Kustomization, name: '*'}]
";

#[test]
fn watch_deploys_changes_while_clients_are_connected() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("up-watch");
    let _ = fs::remove_dir_all(&root);
    let repository = root.join("repository");
    fs::create_dir_all(&repository).unwrap();
    fs::write(
        repository.join("kustomization.yaml"),
        "resources: [a.yaml, alert.yaml]\n",
    )
    .unwrap();
    fs::write(repository.join("alert.yaml"), ALERT).unwrap();
    fs::write(repository.join("a.yaml"), map("one")).unwrap();
    let kubeconfig = root.join("kubeconfig");
    let mut up = Command::new(PROGRAM)
        .args(["up", "--offline", "--watch", "--notifications"])
        .arg("--kubeconfig-out")
        .arg(&kubeconfig)
        .arg(&repository)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (send, lines) = mpsc::channel();
    let out = BufReader::new(up.stdout.take().unwrap());
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    let mut said = String::new();
    let mut until = |wanted: &str| {
        while let Ok(line) = lines.recv_timeout(Duration::from_secs(60)) {
            said += &format!("{line}\n");
            if line.contains(wanted) {
                return;
            }
        }
        panic!("{wanted} was not said:\n{said}");
    };
    until("notifications would be sent");
    until("watching for changes");
    let look = || {
        let output = Command::new(PROGRAM)
            .args(["get", "kustomizations", "-A", "--kubeconfig"])
            .arg(&kubeconfig)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let first = look();
    assert!(first.contains("Applied revision: local@sha256:"), "{first}");
    fs::write(repository.join("a.yaml"), map("two")).unwrap();
    until("a.yaml changed");
    until("► ConfigMap/default/a configured");
    until("+   key: two");
    until("objects deployed");
    until("Progressing: ConfigMap/default/a configured");
    until("POST http://127.0.0.1:9/chat");
    until("1 notifications would be sent");
    let second = look();
    assert!(
        second.contains("Applied revision: local@sha256:"),
        "{second}"
    );
    assert_ne!(first, second);
    fs::write(repository.join("a.yaml"), "kind: [\n").unwrap();
    until("✗ Kustomization/flux-system/flux-system");
    until("objects deployed");
    let id = up.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let ended = up.wait().unwrap();
    assert_eq!(ended.code(), Some(1));
}

/// A deployment whose pods never come up, and a Kustomization that waits for it.
const NEVER: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: never, namespace: default, annotations: {cluster.everflow.dev/behavior: never-ready}}
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec: {containers: [{name: a, image: a}]}
";

#[test]
fn an_interruption_says_what_it_stopped() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("up-interrupted");
    let _ = fs::remove_dir_all(&root);
    for (path, text) in [
        (
            "cluster/app.yaml",
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: app, namespace: flux-system}\nspec: {interval: 1h, prune: true, wait: true, timeout: 1h, path: ./app, sourceRef: {kind: GitRepository, name: flux-system}}\n",
        ),
        ("app/a.yaml", NEVER),
    ] {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), text).unwrap();
    }
    let mut up = Command::new(PROGRAM)
        .args(["up", "--offline", "--entry", "cluster"])
        .arg(&root)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(up.stdout.take().unwrap()).lines();
    let is_up = |line: &str| line.contains("Kustomization/flux-system/flux-system  ready");
    assert!(lines.any(|line| is_up(&line.unwrap())));
    std::thread::sleep(Duration::from_millis(500));
    let killed = Command::new("kill")
        .args(["-INT", &up.id().to_string()])
        .status();
    assert!(killed.unwrap().success());
    let output = up.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(
        said.starts_with("✗ interrupted: 2 ready, 1 progressing")
            && said.contains("stopped while waiting for Kustomization/flux-system/app"),
        "{said}"
    );
}
