//! One replica on a volume that cannot follow it.

use everflow_json::Value;

use super::finding;
use crate::finding::{Finding, Rule, Severity};
use crate::model::{Critical, Model, ObjectId};

/// Provisioners whose volumes are directories or disks of one node.
const OF_ONE_NODE: &[&str] = &[
    "kubernetes.io/no-provisioner",
    "rancher.io/local-path",
    "openebs.io/local",
    "local.csi.openebs.io",
    "topolvm.io",
];

pub(super) fn find(model: &Model, critical: &[Critical<'_>]) -> Vec<Finding> {
    let single = critical
        .iter()
        .filter(|workload| !workload.is_daemon_set() && workload.replicas() == 1);
    let bound = single.filter_map(|workload| {
        let volume = bound_volume(model, workload)?;
        let message = format!(
            "{} ({}) has one replica, and its volume {volume} is bound to one node: if that node fails, it cannot \
             start elsewhere",
            workload.shown(),
            workload.role.carries
        );
        let remedy = "move its data to storage that follows pods, or replicate it: no patch of the workload mends this";
        let severity = match workload.role.delivers {
            crate::roles::Delivery::GoesOn => Severity::Warning,
            _ => Severity::Error,
        };
        let subjects = vec![workload.id.to_string()];
        Some(finding(Rule::NodeBoundVolume, severity, subjects, message, remedy))
    });
    bound.collect()
}

/// The name of a volume that is bound to a node.
fn bound_volume(model: &Model, workload: &Critical<'_>) -> Option<String> {
    let volumes = workload.pod_spec()["volumes"]
        .as_array()
        .into_iter()
        .flatten();
    for volume in volumes {
        let name = volume["name"].as_str().unwrap_or_default();
        let claim = volume["persistentVolumeClaim"]["claimName"].as_str();
        let host_path = volume["hostPath"].is_object();
        if host_path || claim.is_some_and(|claim| is_bound(model, workload, claim, volume)) {
            return Some(name.to_owned());
        }
    }
    let templates = workload.object.pointer("/spec/volumeClaimTemplates");
    let templates = templates.and_then(Value::as_array).into_iter().flatten();
    for template in templates {
        let name = template
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let claim = format!("{name}-{}-0", workload.id.name);
        if is_bound(model, workload, &claim, template) {
            return Some(name.to_owned());
        }
    }
    None
}

/// Whether a claim, or what it is to be made from, leads to a volume of one node.
fn is_bound(model: &Model, workload: &Critical<'_>, claim: &str, otherwise: &Value) -> bool {
    let named = |kind: &str, namespace: &str, name: &str| {
        model.find(&ObjectId {
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        })
    };
    let claim = named("PersistentVolumeClaim", &workload.id.namespace, claim).unwrap_or(otherwise);
    let volume = claim.pointer("/spec/volumeName").and_then(Value::as_str);
    if let Some(volume) = volume.and_then(|name| named("PersistentVolume", "", name)) {
        let local = [
            "/spec/local",
            "/spec/hostPath",
            "/spec/nodeAffinity/required",
        ];
        // Disks of clouds are bound to a zone, whose nodes take over from one another.
        let zonal = volume["spec"].get("csi").is_some()
            && !volume.to_string().contains("kubernetes.io/hostname");
        return !zonal
            && local
                .iter()
                .any(|pointer| volume.pointer(pointer).is_some());
    }
    let class = claim
        .pointer("/spec/storageClassName")
        .and_then(Value::as_str);
    let class = class.and_then(|name| named("StorageClass", "", name));
    class.is_some_and(|class| {
        OF_ONE_NODE
            .iter()
            .any(|provisioner| class["provisioner"] == *provisioner)
    })
}
