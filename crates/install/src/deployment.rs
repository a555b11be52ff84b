//! The pods: one Deployment, and one more for each shard.

use everflow_json::{Value, json};

use crate::component::Component;
use crate::names::{
    CONTAINER, DEPLOYMENT, PODS, SERVICE_ACCOUNT, labels, namespaced, with_namespace,
};
use crate::options::Options;

/// Where the ConfigMap with the API servers' addresses is mounted.
const API_ADDRESSES: &str = "/etc/everflow/api";
/// The ConfigMap, as `everflow run` writes it.
const API_ADDRESSES_MAP: &str = "everflow-api-endpoints";

/// The name of the Deployment of a shard; the main one has none.
fn name(shard: Option<&str>) -> String {
    match shard {
        None => DEPLOYMENT.to_owned(),
        Some(shard) => format!("{DEPLOYMENT}-{shard}"),
    }
}

fn shards(options: &Options) -> impl Iterator<Item = Option<&str>> {
    let shards = options
        .sharding
        .iter()
        .flat_map(|sharding| &sharding.shards);
    [None]
        .into_iter()
        .chain(shards.map(|shard| Some(shard.as_str())))
}

/// Pods of a critical priority class are only let in where a quota says that they may be (on some clouds).
pub(crate) fn quota(options: &Options) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": namespaced(options, &with_namespace(options, "critical-pods")),
        "spec": {
            "hard": {"pods": "1000"},
            "scopeSelector": {"matchExpressions": [{
                "operator": "In",
                "scopeName": "PriorityClass",
                "values": ["system-node-critical", "system-cluster-critical"],
            }]},
        },
    })
}

pub(crate) fn deployments(options: &Options) -> Vec<Value> {
    shards(options)
        .map(|shard| deployment(options, shard))
        .collect()
}

fn deployment(options: &Options, shard: Option<&str>) -> Value {
    let name = name(shard);
    let mut pod_labels = labels(options);
    pod_labels[PODS] = json!(name);
    let mut metadata = namespaced(options, &name);
    metadata["labels"][PODS] = json!(name);
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": options.replicas,
            "selector": {"matchLabels": {PODS: name}},
            "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {
                    "labels": pod_labels,
                    "annotations": {
                        "prometheus.io/scrape": "true",
                        "prometheus.io/port": "8080",
                        // What its volumes hold can be made anew.
                        "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
                    },
                },
                "spec": pod(options, shard, &name),
            },
        },
    })
}

fn pod(options: &Options, shard: Option<&str>, name: &str) -> Value {
    let mut pod = json!({
        "serviceAccountName": SERVICE_ACCOUNT,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "terminationGracePeriodSeconds": 30,
        "securityContext": {"runAsNonRoot": true},
        "topologySpreadConstraints": [
            spread("kubernetes.io/hostname", name),
            spread("topology.kubernetes.io/zone", name),
        ],
        "containers": [container(options, shard)],
        "volumes": [
            data(options),
            {"name": "tmp", "emptyDir": {}},
            {"name": "api", "configMap": {"name": API_ADDRESSES_MAP, "optional": true}},
        ],
    });
    if !options.openshift {
        pod["securityContext"]["fsGroup"] = json!(1337);
        pod["securityContext"]["seccompProfile"] = json!({"type": "RuntimeDefault"});
    }
    if !options.priority_class.is_empty() {
        pod["priorityClassName"] = json!(options.priority_class);
    }
    if !options.image_pull_secret.is_empty() {
        pod["imagePullSecrets"] = json!([{"name": options.image_pull_secret}]);
    }
    if !options.toleration_keys.is_empty() {
        pod["tolerations"] = json!(options.tolerations());
    }
    let apart: Vec<Value> = options
        .keep_apart_from
        .iter()
        .map(|selector| apart(selector.value()))
        .collect();
    if !apart.is_empty() {
        pod["affinity"] = json!({"podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": apart,
        }});
    }
    pod
}

/// Replicas go to different places where there are such; no pod ever waits for one.
fn spread(topology: &str, name: &str) -> Value {
    json!({
        "maxSkew": 1,
        "topologyKey": topology,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {PODS: name}},
    })
}

/// A preference for nodes that do not carry what is selected, in whatever namespace it runs.
fn apart(selector: &Value) -> Value {
    json!({
        "weight": 100,
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": selector,
            "namespaceSelector": {},
        },
    })
}

/// Where artifacts are. All of it can be made anew, so it may go with the pod.
fn data(options: &Options) -> Value {
    let Some(storage) = &options.storage else {
        return json!({"name": "data", "emptyDir": {}});
    };
    let mut claim = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage.size}},
    });
    if !storage.class.is_empty() {
        claim["storageClassName"] = json!(storage.class);
    }
    json!({"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}})
}

fn container(options: &Options, shard: Option<&str>) -> Value {
    let mut security = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
    });
    if !options.openshift {
        security["seccompProfile"] = json!({"type": "RuntimeDefault"});
    }
    let mut ports = vec![json!({"name": "http", "containerPort": 9090, "protocol": "TCP"})];
    if shard.is_none() && options.has(Component::Notification) {
        ports.push(json!({"name": "http-webhook", "containerPort": 9292, "protocol": "TCP"}));
    }
    ports.push(json!({"name": "http-prom", "containerPort": 8080, "protocol": "TCP"}));
    ports.push(json!({"name": "healthz", "containerPort": 9440, "protocol": "TCP"}));
    json!({
        "name": CONTAINER,
        "image": options.image(),
        "imagePullPolicy": "IfNotPresent",
        "args": args(options, shard),
        "env": [{"name": "RUNTIME_NAMESPACE",
            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}}],
        "ports": ports,
        "securityContext": security,
        "resources": resources(options),
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "healthz"}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "healthz"}},
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "api", "mountPath": API_ADDRESSES, "readOnly": true},
        ],
    })
}

fn resources(options: &Options) -> Value {
    let of = |cpu: &str, memory: &str| {
        let mut amounts = json!({});
        for (name, amount) in [("cpu", cpu), ("memory", memory)] {
            if !amount.is_empty() {
                amounts[name] = json!(amount);
            }
        }
        amounts
    };
    json!({
        "limits": of(&options.cpu_limit, &options.memory_limit),
        "requests": of(&options.cpu_request, &options.memory_request),
    })
}

/// The arguments of the program.
fn args(options: &Options, shard: Option<&str>) -> Vec<String> {
    let domain = options.cluster_domain.trim_end_matches('.');
    let service = match shard {
        None => "source-controller".to_owned(),
        Some(shard) => format!("source-controller-{shard}"),
    };
    let mut args = vec![
        "run".to_owned(),
        "--storage-path=/data".to_owned(),
        format!("--storage-adv-addr={service}.$(RUNTIME_NAMESPACE).svc.{domain}."),
        "--metrics-addr=:8080".to_owned(),
        "--health-addr=:9440".to_owned(),
        format!("--log-level={}", options.log_level),
        "--log-encoding=json".to_owned(),
        "--enable-leader-election".to_owned(),
        format!("--api-endpoints-file={API_ADDRESSES}/endpoints"),
    ];
    let kinds = kinds(options, shard.is_some());
    if !kinds.is_empty() {
        args.push(format!("--only={kinds}"));
    }
    if shard.is_some() && options.has(Component::Notification) {
        args.push(format!(
            "--events-addr=http://notification-controller.$(RUNTIME_NAMESPACE).svc.{domain}./"
        ));
    }
    if let Some(sharding) = &options.sharding {
        args.push(match shard {
            None => format!("--watch-label-selector=!{}", sharding.key),
            Some(shard) => format!("--watch-label-selector={}={shard}", sharding.key),
        });
    }
    if !options.watch_all_namespaces {
        args.push("--watch-namespace=$(RUNTIME_NAMESPACE)".to_owned());
    }
    if options.multitenant {
        args.push("--no-cross-namespace-refs".to_owned());
        args.push(format!(
            "--default-service-account={}",
            options.default_service_account
        ));
    }
    if let Some(count) = options.concurrent {
        args.push(format!("--concurrent={count}"));
    }
    let times = [
        ("requeue-dependency", &options.requeue_dependency),
        ("leader-election-lease-duration", &options.lease.duration),
        (
            "leader-election-renew-deadline",
            &options.lease.renew_deadline,
        ),
        ("leader-election-retry-period", &options.lease.retry_period),
    ];
    for (flag, text) in times {
        if !text.is_empty() {
            args.push(format!("--{flag}={text}"));
        }
    }
    args.extend(options.extra_args.iter().cloned());
    args
}

/// The kinds that are worked on; empty for all of them.
fn kinds(options: &Options, is_shard: bool) -> String {
    let wanted = Component::ALL.into_iter().filter(|component| {
        options.has(*component) && !(is_shard && *component == Component::Notification)
    });
    let wanted: Vec<Component> = wanted.collect();
    if wanted.len() == Component::ALL.len() {
        return String::new();
    }
    let kinds = wanted.into_iter().flat_map(|component| component.kinds());
    kinds.copied().collect::<Vec<_>>().join(",")
}

/// A drain takes one pod after the other; with a single replica it still may.
pub(crate) fn budgets(options: &Options) -> Vec<Value> {
    let budget = |shard| {
        let name = name(shard);
        json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": namespaced(options, &name),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {PODS: name}}},
        })
    };
    shards(options).map(budget).collect()
}
