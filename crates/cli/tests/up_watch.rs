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

#[test]
fn changes_are_deployed_while_others_look() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("up-watch");
    let _ = fs::remove_dir_all(&root);
    let repository = root.join("repository");
    fs::create_dir_all(&repository).unwrap();
    fs::write(
        repository.join("kustomization.yaml"),
        "resources: [a.yaml]\n",
    )
    .unwrap();
    fs::write(repository.join("a.yaml"), map("one")).unwrap();
    let kubeconfig = root.join("kubeconfig");
    let mut up = Command::new(PROGRAM)
        .args(["up", "--offline", "--watch", "--kubeconfig-out"])
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
