//! What is delivered: objects that are healthy as soon as they are there.

use std::path::Path;

use everflow_json::{Value, json};

/// What a new revision does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// Makes all there is.
    First,
    /// Changes one object of each Kustomization.
    Changed,
    /// Changes none.
    Nothing,
}

/// Whether a Deployment without replicas is among the objects, for which somebody has to run the
/// controllers of Kubernetes; else there is a ConfigMap in its place.
pub fn with_deployments() -> bool {
    std::env::var_os("CONFIGMAPS").is_none()
}

/// The four objects of a Kustomization. `who` stands in a label of each.
pub fn objects(namespace: &str, name: &str, level: &str, who: &str) -> Vec<Value> {
    let metadata =
        json!({"name": name, "namespace": namespace, "labels": {"app": "app", "who": who}});
    let settings = match with_deployments() {
        true => json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "app"}},
                "template": {
                    "metadata": {"labels": {"app": "app"}},
                    "spec": {"serviceAccountName": "app", "containers": [{
                        "name": "app", "image": "registry.example.com/app:1.0.0",
                        "env": [{"name": "LEVEL", "value": level}],
                        "ports": [{"containerPort": 8080, "name": "http"}],
                    }]},
                },
            },
        }),
        false => json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
            "data": {"level": level, "settings.yaml": "listen: 8080\nretries: 3\n"}}),
    };
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"selector": {"app": "app"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}}),
        settings,
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata,
        "spec": {"rules": [{"host": format!("{namespace}.example.com"), "http": {"paths": [{
            "path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "app", "port": {"name": "http"}}},
        }]}}]}}),
    ]
}

/// The path of an object in the API.
pub fn path(object: &Value) -> String {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or("");
    let (group, plural) = match text("/kind") {
        "ServiceAccount" => ("api/v1", "serviceaccounts"),
        "Service" => ("api/v1", "services"),
        "ConfigMap" => ("api/v1", "configmaps"),
        "Deployment" => ("apis/apps/v1", "deployments"),
        _ => ("apis/networking.k8s.io/v1", "ingresses"),
    };
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    format!("/{group}/namespaces/{namespace}/{plural}/{name}?fieldManager=raw&force=true")
}

/// The namespace of a Kustomization's objects.
pub fn namespace(index: usize) -> String {
    format!("app-{index:05}")
}

/// Writes the files of a revision.
pub fn write(root: &Path, count: usize, commit: Commit) -> std::io::Result<()> {
    let level = match commit {
        Commit::First => "info",
        Commit::Changed => "debug",
        Commit::Nothing => {
            return std::fs::write(root.join("README.md"), "Nothing to apply.\n");
        }
    };
    for index in 0..count {
        let directory = root.join(format!("apps/{index:05}"));
        std::fs::create_dir_all(&directory)?;
        for object in objects(&namespace(index), "app", level, "${who}") {
            let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
            std::fs::write(
                directory.join(format!("{kind}.yaml")),
                format!("{object:#}\n"),
            )?;
        }
    }
    Ok(())
}

/// The Kustomization of an application.
pub fn kustomization(index: usize, interval: &str) -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"namespace": "bench", "name": namespace(index)},
        "spec": {
            "interval": interval, "retryInterval": "1m", "timeout": "5m", "prune": true, "wait": true,
            "path": format!("./apps/{index:05}"),
            "sourceRef": {"kind": "GitRepository", "name": "bench"},
            "postBuild": {"substitute": {"who": format!("team-{}", index % 7)}},
        },
    })
}
