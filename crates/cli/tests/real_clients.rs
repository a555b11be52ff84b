//! The real helm, versions 4 and 3, against `everflow cluster start`.
//!
//! Part of the real tier: runs where `EVERFLOW_REAL` is set and the peers are built, see `real/README.md`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "common/cluster.rs"]
mod cluster;

use cluster::Cluster;
use everflow_corpus::real;

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
  annotations:
    cluster.everflow.dev/behavior: {{ .Values.behavior }}
spec:
  replicas: {{ .Values.replicas }}
  selector:
    matchLabels: {app: {{ .Release.Name }}}
  template:
    metadata:
      labels: {app: {{ .Release.Name }}}
    spec:
      containers:
      - name: web
        image: nginx:{{ .Values.tag }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec:
  selector: {app: {{ .Release.Name }}}
  ports: [{port: 80}]
";

const HOOK: &str = "apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-check
  annotations:
    helm.sh/hook: post-install,post-upgrade
    helm.sh/hook-delete-policy: before-hook-creation
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: check, image: busybox}]
";

/// The life of a release; every step waits for the workloads.
fn life(name: &str) {
    let Some(helm) = real::program(name) else {
        return;
    };
    let cluster = Cluster::start(name, &["--workload-delay", "0.3"]);
    cluster.file(
        "chart/Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    );
    cluster.file(
        "chart/values.yaml",
        "replicas: 1\ntag: \"1\"\nbehavior: healthy\n",
    );
    cluster.file("chart/templates/web.yaml", DEPLOYMENT);
    cluster.file("chart/templates/hook.yaml", HOOK);
    let run = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        cluster.must(&helm, &words)
    };
    let installed = run("install rel chart -n apps --create-namespace --wait --timeout 60s");
    assert!(installed.contains("STATUS: deployed"), "{installed}");
    run("upgrade rel chart -n apps --set replicas=3,tag=2 --wait --timeout 60s");
    let list = run("list -n apps");
    assert!(
        list.contains("web-1.0.0") && list.contains("deployed"),
        "{list}"
    );
    assert!(run("get manifest rel -n apps").contains("nginx:2"));
    run("rollback rel 1 -n apps --wait --timeout 60s");
    let history = run("history rel -n apps");
    assert!(history.contains("Rollback to 1"), "{history}");
    let stuck = cluster.run(
        &helm,
        &[
            "upgrade",
            "rel",
            "chart",
            "-n",
            "apps",
            "--set",
            "tag=3,behavior=never-ready",
            "--wait",
            "--timeout",
            "3s",
        ],
    );
    assert!(
        !stuck.status.success(),
        "an upgrade that never becomes ready fails"
    );
    run("uninstall rel -n apps --wait --timeout 60s");
    let list = run("list -n apps");
    assert!(!list.contains("web-1.0.0"), "{list}");
}

#[test]
fn helm_4_installs_upgrades_and_goes_back() {
    life("helm");
}

#[test]
fn helm_3_installs_upgrades_and_goes_back() {
    life("helm3");
}
