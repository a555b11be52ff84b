//! In which order objects are applied and deleted.

use std::collections::BTreeSet;

use everflow_api::inventory::ObjectId;
use everflow_json::Value;

/// The order in which kinds are uninstalled; kinds that are not named come last, by name.
const UNINSTALL_ORDER: [&str; 38] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "APIService",
    "Ingress",
    "IngressClass",
    "Service",
    "CronJob",
    "Job",
    "StatefulSet",
    "HorizontalPodAutoscaler",
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "Pod",
    "DaemonSet",
    "RoleBindingList",
    "RoleBinding",
    "RoleList",
    "Role",
    "ClusterRoleBindingList",
    "ClusterRoleBinding",
    "ClusterRoleList",
    "ClusterRole",
    "CustomResourceDefinition",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "ConfigMap",
    "SecretList",
    "Secret",
    "ServiceAccount",
    "PodDisruptionBudget",
    "PodSecurityPolicy",
    "LimitRange",
    "ResourceQuota",
    "NetworkPolicy",
    "Namespace",
    "PriorityClass",
];

/// Objects in runs of one kind. Those of a run are worked on side by side, a run after the one before.
pub fn batches(objects: &[Value]) -> Vec<&[Value]> {
    objects
        .chunk_by(|one, two| one["kind"] == two["kind"])
        .collect()
}

/// The objects of the old manifest that the new one lacks, in the order of the old one. Another version of
/// the same kind is the same object.
pub fn removed(old: &[Value], new: &[Value]) -> Vec<Value> {
    let kept: BTreeSet<ObjectId> = new.iter().map(ObjectId::of).collect();
    let gone = old
        .iter()
        .filter(|object| !kept.contains(&ObjectId::of(object)));
    gone.cloned().collect()
}

/// Objects in the order in which they are uninstalled.
pub fn uninstall_order(mut objects: Vec<Value>) -> Vec<Value> {
    fn key(object: &Value) -> (usize, String) {
        let kind = object["kind"].as_str().unwrap_or_default();
        let place = UNINSTALL_ORDER.iter().position(|known| *known == kind);
        match place {
            Some(place) => (place, String::new()),
            None => (UNINSTALL_ORDER.len(), kind.to_owned()),
        }
    }
    objects.sort_by_cached_key(key);
    objects
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    fn object(api_version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
    }

    #[test]
    fn removed_objects_are_found_across_api_versions() {
        let old = [
            object("v1", "ConfigMap", "a"),
            object("apps/v1beta1", "Deployment", "d"),
            object("v1", "Service", "s"),
        ];
        let new = [
            object("apps/v1", "Deployment", "d"),
            object("v1", "ConfigMap", "s"),
        ];
        let names: Vec<String> = removed(&old, &new)
            .iter()
            .map(|object| ObjectId::of(object).subject())
            .collect();
        assert_eq!(names, ["ConfigMap/a", "Service/s"]);
    }

    #[test]
    fn kinds_are_applied_in_runs_and_uninstalled_in_helms_order() {
        let objects = vec![
            object("v1", "ConfigMap", "a"),
            object("v1", "ConfigMap", "b"),
            object("apps/v1", "Deployment", "d"),
            object("example.com/v1", "Thing", "t"),
            object("v1", "Service", "s"),
        ];
        let sizes: Vec<usize> = batches(&objects).iter().map(|batch| batch.len()).collect();
        assert_eq!(sizes, [2, 1, 1, 1]);
        let order: Vec<String> = uninstall_order(objects)
            .iter()
            .map(|object| ObjectId::of(object).subject())
            .collect();
        assert_eq!(
            order,
            [
                "Service/s",
                "Deployment/d",
                "ConfigMap/a",
                "ConfigMap/b",
                "Thing/t"
            ]
        );
    }
}
