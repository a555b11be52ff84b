//! What is in the cluster: a Flux, and 50 Kustomizations and HelmReleases in many states.

use std::path::Path;

use everflow_json::{Value, json};

use crate::delivery::{NAMESPACE, write};
use crate::support::git;

pub const KUSTOMIZE: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");
pub const HELM: (&str, &str) = ("helm.toolkit.fluxcd.io/v2", "HelmRelease");
/// How many there are of each kind.
pub const ALL: usize = 50;

/// What is the matter with an object; its name says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Healthy,
    /// Deployed, and then suspended.
    Suspended,
    /// Deployed, and Unknown ever since.
    Stuck,
    /// What it is to deploy is not in the repository.
    NoPath,
    /// What it is to deploy cannot be built.
    Broken,
    /// Waits for a Deployment that nobody makes ready.
    Waiting,
}

impl State {
    const EACH: [State; 6] = [
        State::Healthy,
        State::Suspended,
        State::Stuck,
        State::NoPath,
        State::Broken,
        State::Waiting,
    ];

    pub fn word(self) -> &'static str {
        match self {
            State::Healthy => "healthy",
            State::Suspended => "suspended",
            State::Stuck => "stuck",
            State::NoPath => "nopath",
            State::Broken => "broken",
            State::Waiting => "waiting",
        }
    }

    /// By the name of an object.
    pub fn of(name: &str) -> State {
        let mut each = State::EACH.into_iter();
        each.find(|state| name.starts_with(state.word())).unwrap()
    }

    /// Of every ten objects five are healthy.
    fn at(number: usize) -> State {
        match number % 10 {
            0..5 => State::Healthy,
            rest => State::EACH[rest - 4],
        }
    }

    fn directory(self) -> &'static str {
        match self {
            State::Healthy | State::Suspended | State::Stuck => "fine",
            State::NoPath => "absent",
            State::Broken => "broken",
            State::Waiting => "waiting",
        }
    }
}

/// The condition Ready of an object.
pub fn ready(object: &Value) -> Value {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|one| one["type"] == "Ready");
    found.cloned().unwrap_or_default()
}

const FINE: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: 'ks-${name}'}
data: {level: info}
---
apiVersion: v1
kind: Service
metadata: {name: 'ks-${name}'}
spec: {selector: {app: '${name}'}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: 'ks-${name}'}
";

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: 'NAME'}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'nginx:1'}]}
";

/// What all of them deploy from.
pub fn repository(work: &Path) {
    let chart = |name: &str, template: &str| {
        let head = format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n");
        write(work, &format!("charts/{name}/Chart.yaml"), &head);
        write(work, &format!("charts/{name}/values.yaml"), "level: info\n");
        write(work, &format!("charts/{name}/templates/all.yaml"), template);
    };
    write(work, "apps/fine/all.yaml", FINE);
    write(work, "apps/broken/all.yaml", "apiVersion: v1\nkind: [\n");
    let waiting = DEPLOYMENT.replace("NAME", "ks-${name}");
    write(work, "apps/waiting/all.yaml", &waiting);
    let settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n\
         data: {level: '{{ .Values.level }}', of: '{{ .Release.Name }}'}\n---\n\
         apiVersion: v1\nkind: Service\nmetadata: {name: '{{ .Release.Name }}'}\n\
         spec: {selector: {app: web}, ports: [{port: 80}]}\n";
    chart("fine", settings);
    chart(
        "broken",
        "{{ required \"a size is wanted\" .Values.size }}\n",
    );
    chart(
        "waiting",
        &DEPLOYMENT.replace("NAME", "{{ .Release.Name }}"),
    );
    git(work, 1, &["init", "-q", "-b", "main"]);
    git(work, 1, &["add", "-A"]);
    git(work, 1, &["commit", "-qm", "first"]);
}

/// The Kustomizations and HelmReleases.
pub fn appliers() -> Vec<Value> {
    let source = json!({"kind": "GitRepository", "name": "shop"});
    let mut all = Vec::new();
    for number in 0..ALL {
        let state = State::at(number);
        let name = format!("{}-{number}", state.word());
        let metadata = json!({"namespace": NAMESPACE, "name": name});
        let directory = state.directory();
        all.push(json!({
            "apiVersion": KUSTOMIZE.0, "kind": KUSTOMIZE.1, "metadata": metadata,
            "spec": {
                "interval": "30m", "retryInterval": "1m", "prune": true, "timeout": "20m",
                "path": format!("./apps/{directory}"), "wait": state == State::Waiting,
                "targetNamespace": NAMESPACE, "sourceRef": source,
                "postBuild": {"substitute": {"name": name}},
            },
        }));
        all.push(json!({
            "apiVersion": HELM.0, "kind": HELM.1, "metadata": metadata,
            "spec": {
                "interval": "30m", "timeout": "20m", "releaseName": format!("hr-{name}"),
                "values": {"level": "debug"},
                "install": {"disableWait": state != State::Waiting, "remediation": {"retries": -1}},
                "chart": {"spec": {"chart": format!("./charts/{directory}"), "sourceRef": source}},
            },
        }));
    }
    all
}

/// Flux as the cluster has it: its Deployments, which `nodes` runs.
pub fn flux() -> Vec<Value> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "flux-system", "labels": {"app.kubernetes.io/part-of": "flux"}}});
    let mut all = vec![namespace];
    for (name, args) in [
        ("source-controller", vec!["--storage-path=/data"]),
        (
            "kustomize-controller",
            vec!["--concurrent=20", "--requeue-dependency=5s"],
        ),
        ("helm-controller", vec!["--concurrent=20"]),
        ("notification-controller", vec![]),
    ] {
        let labels = json!({"app": name});
        all.push(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "flux-system", "labels": {
                "app.kubernetes.io/part-of": "flux", "app.kubernetes.io/version": "v2.9.4",
                "app.kubernetes.io/component": name}},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [
                    {"name": "manager", "image": format!("ghcr.io/fluxcd/{name}:v1"), "args": args}]}}},
        }));
    }
    all
}
