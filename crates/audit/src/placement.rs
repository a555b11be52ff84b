//! Where the scheduler would put pods: enough of it to see what a soft preference changes.

use std::collections::BTreeMap;

use everflow_json::{Map, Value, json};

use crate::model::{Model, ObjectId};
use crate::selector::{all_in, labels_of, selects};

/// The label of the zone of a node.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
/// The label of the name of a node.
pub(crate) const HOST: &str = "kubernetes.io/hostname";

/// The name of a node.
pub(crate) fn name_of(object: &Value) -> &str {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    name.unwrap_or_default()
}

/// The node that a pod is on.
pub(crate) fn node_of(pod: &Value) -> Option<&str> {
    pod.pointer("/spec/nodeName").and_then(Value::as_str)
}

/// Makes the pods of a workload anew, one after the other, each where it fits best. A model without
/// nodes has no pods to make.
pub(crate) fn place(model: &mut Model, id: &ObjectId) {
    let Some(workload) = model.find(id).cloned() else {
        return;
    };
    if model.of_kind("Node").next().is_none() || id.kind == "DaemonSet" {
        return;
    }
    let old: Vec<ObjectId> = model
        .pods_of(&workload)
        .into_iter()
        .map(ObjectId::of)
        .collect();
    model
        .objects
        .retain(|object| object["kind"] != "Pod" || !old.contains(&ObjectId::of(object)));
    let replicas = workload.pointer("/spec/replicas").and_then(Value::as_u64);
    let template = workload.pointer("/spec/template").unwrap_or(&Value::Null);
    for number in 0..replicas.unwrap_or(1).min(64) {
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": format!("{}-{number}", id.name),
                "namespace": id.namespace,
                "labels": Value::Object(labels_of(template)),
            },
            "spec": template.get("spec").cloned().unwrap_or_default(),
        });
        if let Some(node) = best_node(model, &pod) {
            pod["spec"]["nodeName"] = node.into();
        }
        model.objects.push(pod);
    }
}

/// The node that suits a pod best, among those that it may run on.
fn best_node(model: &Model, pod: &Value) -> Option<String> {
    let domains: BTreeMap<&str, Map> = model
        .of_kind("Node")
        .map(|node| {
            let mut labels = labels_of(node);
            let host = labels.get(HOST).cloned();
            labels.insert(HOST.into(), host.unwrap_or_else(|| name_of(node).into()));
            (name_of(node), labels)
        })
        .collect();
    let candidates = model.of_kind("Node").filter(|node| may_run(pod, node));
    let best = candidates.min_by_key(|node| {
        let name = name_of(node);
        let busy = model
            .of_kind("Pod")
            .filter(|other| node_of(other) == Some(name));
        (
            penalty(model, pod, name, &domains),
            busy.count(),
            name.to_owned(),
        )
    });
    best.map(|node| name_of(node).to_owned())
}

fn may_run(pod: &Value, node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let not_ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] != "True");
    let closed = node
        .pointer("/spec/unschedulable")
        .is_some_and(|closed| *closed == true);
    let selector = pod.pointer("/spec/nodeSelector").unwrap_or(&Value::Null);
    let taints = node.pointer("/spec/taints").and_then(Value::as_array);
    let mut taints = taints
        .into_iter()
        .flatten()
        .filter(|taint| taint["effect"] != "PreferNoSchedule");
    !not_ready
        && !closed
        && all_in(selector, &labels_of(node))
        && taints.all(|taint| tolerates(pod, taint))
}

fn tolerates(pod: &Value, taint: &Value) -> bool {
    let tolerations = pod.pointer("/spec/tolerations").and_then(Value::as_array);
    tolerations.into_iter().flatten().any(|toleration| {
        let key = toleration["key"].as_str().unwrap_or_default();
        let keys = key.is_empty() || taint["key"] == key;
        let values = toleration["operator"] == "Exists" || toleration["value"] == taint["value"];
        let effect = toleration["effect"].as_str().unwrap_or_default();
        keys && values && (effect.is_empty() || taint["effect"] == effect)
    })
}

/// How much speaks against a node: by spread and by preferences to stay away from others.
fn penalty(model: &Model, pod: &Value, node: &str, domains: &BTreeMap<&str, Map>) -> u64 {
    let own = pod.pointer("/metadata/namespace").and_then(Value::as_str);
    let neighbours = |key: &str, selector: Option<&Value>, namespaces: &Value| {
        let domain = domains.get(node).and_then(|labels| labels.get(key));
        let named = namespaces.as_array().into_iter().flatten();
        let mut named: Vec<&str> = named.filter_map(Value::as_str).collect();
        if named.is_empty() {
            named.extend(own);
        }
        let pods = model.of_kind("Pod").filter(|other| {
            let there = node_of(other).and_then(|node| domains.get(node)?.get(key));
            let namespace = other.pointer("/metadata/namespace").and_then(Value::as_str);
            there.is_some()
                && there == domain
                && namespace.is_some_and(|namespace| named.contains(&namespace))
                && selects(selector, &labels_of(other))
        });
        u64::try_from(pods.count()).unwrap_or(u64::MAX)
    };
    let list = |pointer: &str| {
        pod.pointer(pointer)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let spread = list("/spec/topologySpreadConstraints").map(|constraint| {
        let key = constraint["topologyKey"].as_str().unwrap_or_default();
        neighbours(key, constraint.get("labelSelector"), &Value::Null) * 100
    });
    let away = "/spec/affinity/podAntiAffinity";
    let required = list(&format!(
        "{away}/requiredDuringSchedulingIgnoredDuringExecution"
    ))
    .map(|term| (10_000, term));
    let preferred = list(&format!(
        "{away}/preferredDuringSchedulingIgnoredDuringExecution"
    ))
    .map(|preference| {
        (
            preference["weight"].as_u64().unwrap_or(1),
            &preference["podAffinityTerm"],
        )
    });
    let away = required.chain(preferred).map(|(weight, term)| {
        let key = term["topologyKey"].as_str().unwrap_or_default();
        neighbours(key, term.get("labelSelector"), &term["namespaces"]) * weight
    });
    spread.sum::<u64>() + away.sum::<u64>()
}
