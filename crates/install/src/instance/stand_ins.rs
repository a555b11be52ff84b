//! Flux's Deployments and ServiceAccounts as patches expect them: names, labels, the order of arguments, volumes.
//!
//! Only their shape counts. Nothing of them is ever applied.

use everflow_json::{Value, json};

use crate::component::Component;
use crate::options::Options;

/// The Deployment that Flux has for a component.
pub(super) fn deployment(component: Component, options: &Options) -> Value {
    let name = component.name();
    let labels = json!({
        "app.kubernetes.io/component": name,
        "app.kubernetes.io/instance": options.namespace,
        "app.kubernetes.io/part-of": "flux",
        "app.kubernetes.io/version": "v2.9.5",
        "control-plane": "controller",
    });
    let mut spec = json!({
        "replicas": 1,
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {
                "annotations": {"prometheus.io/port": "8080", "prometheus.io/scrape": "true"},
                "labels": {
                    "app": name,
                    "app.kubernetes.io/component": name,
                    "app.kubernetes.io/instance": options.namespace,
                    "app.kubernetes.io/part-of": "flux",
                    "app.kubernetes.io/version": "v2.9.5",
                },
            },
            "spec": {
                "containers": [container(component, options)],
                "nodeSelector": {"kubernetes.io/os": "linux"},
                "priorityClassName": "system-cluster-critical",
                "securityContext": {"fsGroup": 1337},
                "serviceAccountName": name,
                "terminationGracePeriodSeconds": grace(component),
                "volumes": volumes(component),
            },
        },
    });
    if component == Component::Source {
        spec["strategy"] = json!({"type": "Recreate"});
    }
    if !options.image_pull_secret.is_empty() {
        spec["template"]["spec"]["imagePullSecrets"] = json!([{"name": options.image_pull_secret}]);
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": options.namespace, "labels": labels},
        "spec": spec,
    })
}

/// The ServiceAccount that Flux has for a component.
pub(super) fn service_account(component: Component, options: &Options) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": component.name(),
            "namespace": options.namespace,
            "labels": {
                "app.kubernetes.io/component": component.name(),
                "app.kubernetes.io/instance": options.namespace,
                "app.kubernetes.io/part-of": "flux",
                "app.kubernetes.io/version": "v2.9.5",
            },
        },
    })
}

fn grace(component: Component) -> u32 {
    match component {
        Component::Kustomize => 60,
        Component::Helm => 600,
        Component::Source | Component::Notification => 10,
    }
}

/// Their temporary directory has two names.
fn volumes(component: Component) -> Value {
    match component {
        Component::Source => json!([
            {"emptyDir": {}, "name": "data"},
            {"emptyDir": {}, "name": "tmp"},
        ]),
        _ => json!([{"emptyDir": {}, "name": "temp"}]),
    }
}

fn container(component: Component, options: &Options) -> Value {
    let mounts = match component {
        Component::Source => json!([
            {"mountPath": "/data", "name": "data"},
            {"mountPath": "/tmp", "name": "tmp"},
        ]),
        _ => json!([{"mountPath": "/tmp", "name": "temp"}]),
    };
    let mut ports = vec![json!({"containerPort": 8080, "name": "http-prom", "protocol": "TCP"})];
    match component {
        Component::Source => {
            ports.insert(
                0,
                json!({"containerPort": 9090, "name": "http", "protocol": "TCP"}),
            );
        }
        Component::Notification => {
            ports.insert(
                0,
                json!({"containerPort": 9090, "name": "http", "protocol": "TCP"}),
            );
            ports.insert(
                1,
                json!({"containerPort": 9292, "name": "http-webhook", "protocol": "TCP"}),
            );
        }
        Component::Kustomize | Component::Helm => {}
    }
    ports.push(json!({"containerPort": 9440, "name": "healthz", "protocol": "TCP"}));
    json!({
        "args": args(component, options),
        "env": [{"name": "RUNTIME_NAMESPACE",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "image": format!("ghcr.io/fluxcd/{}:v1.9.0", component.name()),
        "imagePullPolicy": "IfNotPresent",
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "healthz"}},
        "name": crate::names::CONTAINER,
        "ports": ports,
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "healthz"}},
        "resources": {
            "limits": {"cpu": "1000m", "memory": "1Gi"},
            "requests": {"cpu": "100m", "memory": "64Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": mounts,
    })
}

/// Patches replace arguments by their place, so the order counts.
fn args(component: Component, options: &Options) -> Vec<String> {
    let domain = options.cluster_domain.trim_end_matches('.');
    let mut args = Vec::new();
    if component != Component::Notification {
        args.push(format!(
            "--events-addr=http://notification-controller.$(RUNTIME_NAMESPACE).svc.{domain}./"
        ));
    }
    let all = options.watch_all_namespaces;
    args.push(format!("--watch-all-namespaces={all}"));
    args.push(format!("--log-level={}", options.log_level));
    args.push("--log-encoding=json".to_owned());
    args.push("--enable-leader-election".to_owned());
    if component == Component::Source {
        args.push("--storage-path=/data".to_owned());
        args.push(format!(
            "--storage-adv-addr=source-controller.$(RUNTIME_NAMESPACE).svc.{domain}."
        ));
    }
    args
}
