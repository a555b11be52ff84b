//! What the benchmarks write.

use everflow_json::{Value, json};

/// A small ConfigMap as an applier sends it.
pub fn config_map(index: usize, value: usize) -> String {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("cm-{index:06}"), "labels": {"app": "bench", "shard": format!("s{}", index % 10)}},
        "data": {"key": format!("value {value}"), "other": "constant"}
    })
    .to_string()
}

/// A Deployment as people write them.
pub fn deployment(index: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": format!("web-{index:06}"), "labels": {"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": format!("i{index}")}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": format!("web-{index}")}},
            "template": {
                "metadata": {"labels": {"app": format!("web-{index}")}},
                "spec": {"containers": [{
                    "name": "web", "image": "registry.example.com/web:1.2.3",
                    "ports": [{"name": "http", "containerPort": 8080}],
                    "env": [{"name": "LEVEL", "value": "info"}, {"name": "MODE", "value": "fast"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                    "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}}
                }]}
            }
        }
    })
}

/// A Service as people write them.
pub fn service(index: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": format!("web-{index:06}"), "labels": {"app.kubernetes.io/name": "web"}},
        "spec": {"selector": {"app": format!("web-{index}")}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}
    })
}
