//! What is released: objects that are healthy as soon as their controllers have seen them.

use std::path::Path;

use everflow_json::{Value, json};

/// The one namespace of all.
pub const NAMESPACE: &str = "bench";

/// The template of the chart.
const TEMPLATE: &str = "apiVersion: v1
kind: ServiceAccount
metadata: {name: '{{ .Release.Name }}', labels: {app: '{{ .Release.Name }}', chart: '{{ .Chart.Version }}'}}
---
apiVersion: v1
kind: Service
metadata: {name: '{{ .Release.Name }}', labels: {app: '{{ .Release.Name }}'}}
spec: {selector: {app: '{{ .Release.Name }}'}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: '{{ .Release.Name }}', labels: {app: '{{ .Release.Name }}'}}
spec:
  replicas: 0
  selector: {matchLabels: {app: '{{ .Release.Name }}'}}
  template:
    metadata: {labels: {app: '{{ .Release.Name }}'}}
    spec:
      serviceAccountName: '{{ .Release.Name }}'
      containers:
      - name: app
        image: registry.example.com/app:1.0.0
        env: [{name: LEVEL, value: '{{ .Values.color }}'}]
        ports: [{containerPort: 8080, name: http}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: '{{ .Release.Name }}', labels: {app: '{{ .Release.Name }}'}}
spec:
  rules:
  - host: '{{ .Release.Name }}.example.com'
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: '{{ .Release.Name }}', port: {name: http}}}}
";

/// Puts versions of the chart into a directory, with the index.
pub fn publish(directory: &Path, versions: &[&str]) {
    let versions: Vec<(&str, &str)> = versions
        .iter()
        .map(|version| (*version, TEMPLATE))
        .collect();
    crate::charts::packed(directory, "app", &versions);
}

/// The name of a release.
pub fn name(index: usize) -> String {
    format!("app-{index:05}")
}

/// The HelmRelease of an application.
pub fn helm_release(index: usize, interval: &str) -> Value {
    json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"namespace": NAMESPACE, "name": name(index)},
        "spec": {
            "interval": interval, "timeout": "5m",
            "values": {"color": format!("color-{}", index % 7)},
            "chart": {"spec": {"chart": "app", "version": "1.x", "interval": "1h",
                "sourceRef": {"kind": "HelmRepository", "name": "charts"}}},
        },
    })
}

/// The repository of the chart.
pub fn helm_repository(url: &str) -> Value {
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository",
        "metadata": {"namespace": NAMESPACE, "name": "charts"},
        "spec": {"interval": "1h", "url": url},
    })
}

/// The objects of one release, each with its path in the API, as somebody else would apply them.
pub fn raw(name: &str) -> Vec<(String, Value)> {
    let rendered = TEMPLATE
        .replace("{{ .Release.Name }}", name)
        .replace("{{ .Chart.Version }}", "0")
        .replace("{{ .Values.color }}", "red");
    let places = [
        ("api/v1", "serviceaccounts"),
        ("api/v1", "services"),
        ("apis/apps/v1", "deployments"),
        ("apis/networking.k8s.io/v1", "ingresses"),
    ];
    let documents = rendered.split("---\n");
    let read = |((group, plural), text): ((&str, &str), &str)| {
        let limits = everflow_yaml::Limits::GO;
        let object = everflow_yaml::sigs::to_json(text.as_bytes(), false, limits);
        let path =
            format!("/{group}/namespaces/{NAMESPACE}/{plural}/{name}?fieldManager=raw&force=true");
        (path, object.unwrap_or_default())
    };
    places.into_iter().zip(documents).map(read).collect()
}
