//! The real kubectl against `everflow cluster start`. Debian has it in the package `kubernetes-client`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "common/cluster.rs"]
mod cluster;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cluster::Cluster;

const WEB: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: web
        image: nginx:1.25
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  level: info
";

fn kubectl() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path)
        .map(|directory| directory.join("kubectl"))
        .find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: there is no kubectl on PATH (Debian: apt install kubernetes-client)");
    }
    found
}

#[test]
fn the_common_verbs_work() {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::start("kubectl", &["--workload-delay", "0.2"]);
    let run = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        cluster.must(&kubectl, &words)
    };
    cluster.file("web.yaml", WEB);
    assert!(run("api-resources").contains("deployments"));
    assert!(run("explain deployment.spec.replicas").contains("replicas"));
    assert!(run("apply -f web.yaml").contains("deployment.apps/web created"));
    assert!(run("rollout status deployment/web --timeout=30s").contains("successfully rolled out"));
    assert!(run("get deployments").contains("2/2"));
    assert_eq!(run("get pods -o name").lines().count(), 2);
    run("wait --for=condition=Available deployment/web --timeout=30s");
    assert!(run("apply -f web.yaml").contains("deployment.apps/web unchanged"));
    assert!(run("scale deployment/web --replicas=3").contains("scaled"));
    run("label configmap settings tier=one");
    run("annotate configmap settings note=two");
    assert!(run("get configmap -l tier=one -o name").contains("configmap/settings"));
    assert!(run("describe deployment web").contains("Replicas:"));
    run("create namespace other");
    run("create configmap made --from-literal=a=b -n other");
    run("create secret generic hidden --from-literal=a=b -n other");
    run("create serviceaccount robot -n other");
    assert_eq!(
        run("create token robot -n other").trim().split('.').count(),
        3
    );
    assert_eq!(run("auth can-i delete pods").trim(), "yes");
    assert!(run("auth whoami").contains("admin"));
    assert!(
        run("apply --server-side --force-conflicts -f web.yaml").contains("serverside-applied")
    );
    cluster.file("web.yaml", &WEB.replace("level: info", "level: debug"));
    let diff = cluster.run(
        &kubectl,
        &[
            "diff",
            "--server-side",
            "--force-conflicts",
            "-f",
            "web.yaml",
        ],
    );
    assert_eq!(diff.status.code(), Some(1), "{diff:?}");
    assert!(String::from_utf8_lossy(&diff.stdout).contains("+  level: debug"));
    run(
        "patch configmap settings --type=json -p [{\"op\":\"add\",\"path\":\"/data/more\",\"value\":\"x\"}]",
    );
    assert!(run("get configmap settings -o jsonpath={.data.more}").contains('x'));
    edited_while_watched(&cluster, &kubectl);
    run("delete -f web.yaml --timeout=30s");
    run("delete namespace other --timeout=30s");
    let gone = cluster.run(&kubectl, &["get", "deployment", "web"]);
    assert!(
        String::from_utf8_lossy(&gone.stderr).contains("NotFound"),
        "{gone:?}"
    );
}

/// `edit` writes what the editor left, and `get -w` shows it.
fn edited_while_watched(cluster: &Cluster, kubectl: &Path) {
    let command = |words: &str| {
        let mut command = Command::new(kubectl);
        command
            .args(words.split_whitespace())
            .current_dir(&cluster.directory)
            .env("KUBECONFIG", cluster.directory.join("kubeconfig"))
            .env("HOME", &cluster.directory);
        command
    };
    let mut watching = command("get configmap settings -w -o jsonpath={.data.level}{\"\\n\"}")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "info");
    let edited = command("edit configmap settings")
        .env("KUBE_EDITOR", "sed -i s/level:.info/level:\\ edited/")
        .output()
        .unwrap();
    assert!(edited.status.success(), "{edited:?}");
    assert_eq!(lines.next().unwrap().unwrap(), "edited");
    let _ = watching.kill();
    let _ = watching.wait();
}
