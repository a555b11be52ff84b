//! The namespace, the addresses under Flux's names, and who may reach them.

use everflow_json::{Value, json};

use crate::component::Component;
use crate::names::{DEPLOYMENT, PODS, labels, namespaced};
use crate::options::Options;

pub(crate) fn namespace(options: &Options) -> Value {
    let mut labels = labels(options);
    labels["pod-security.kubernetes.io/warn"] = json!("restricted");
    labels["pod-security.kubernetes.io/warn-version"] = json!("latest");
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": options.namespace, "labels": labels},
    })
}

/// The Services under the names that artifact URLs, Alerts and webhooks have.
pub(crate) fn services(options: &Options) -> Vec<Value> {
    let mut services = Vec::new();
    let main = DEPLOYMENT.to_owned();
    if options.has(Component::Source) {
        services.push(service(options, "source-controller", &main, "http"));
        let shards = options
            .sharding
            .iter()
            .flat_map(|sharding| &sharding.shards);
        for shard in shards {
            let (name, pods) = (
                format!("source-controller-{shard}"),
                format!("{DEPLOYMENT}-{shard}"),
            );
            services.push(service(options, &name, &pods, "http"));
        }
    }
    if options.has(Component::Notification) {
        services.push(service(options, "notification-controller", &main, "http"));
        services.push(service(options, "webhook-receiver", &main, "http-webhook"));
    }
    services
}

fn service(options: &Options, name: &str, pods: &str, target: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": namespaced(options, name),
        "spec": {
            "type": "ClusterIP",
            "selector": {PODS: pods},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": target}],
        },
    })
}

/// Within the namespace everything, from outside metrics and webhooks only.
pub(crate) fn policies(options: &Options) -> Vec<Value> {
    if !options.network_policies {
        return Vec::new();
    }
    let policy = |name: &str, spec: Value| {
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": namespaced(options, name),
            "spec": spec,
        })
    };
    let mut policies = vec![
        policy(
            "allow-egress",
            json!({
                "podSelector": {},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"from": [{"podSelector": {}}]}],
                "egress": [{}],
            }),
        ),
        policy(
            "allow-scraping",
            json!({
                "podSelector": {},
                "policyTypes": ["Ingress"],
                "ingress": [{
                    "from": [{"namespaceSelector": {}}],
                    "ports": [{"port": 8080, "protocol": "TCP"}],
                }],
            }),
        ),
    ];
    if options.has(Component::Notification) {
        // Flux opens all ports of its notification-controller; here artifacts are in the same pod.
        policies.push(policy(
            "allow-webhooks",
            json!({
                "podSelector": {"matchLabels": {PODS: DEPLOYMENT}},
                "policyTypes": ["Ingress"],
                "ingress": [{
                    "from": [{"namespaceSelector": {}}],
                    "ports": [{"port": 9292, "protocol": "TCP"}],
                }],
            }),
        ));
    }
    policies
}

pub(crate) fn pod_monitor(options: &Options) -> Option<Value> {
    options.pod_monitor.then(|| {
        json!({
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PodMonitor",
            "metadata": namespaced(options, DEPLOYMENT),
            "spec": {
                "selector": {"matchLabels": {"app.kubernetes.io/name": DEPLOYMENT}},
                "podMetricsEndpoints": [{"port": "http-prom"}],
            },
        })
    })
}
