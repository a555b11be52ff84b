//! In which order objects are applied.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use everflow_json::Value;

use everflow_api::inventory::ObjectId;

use crate::object::GroupKind;

/// Kinds that others build on, in this order, before all others.
const FIRST: [&str; 23] = [
    "CustomResourceDefinition",
    "Namespace",
    "ClusterRole",
    "ClusterClass",
    "RuntimeClass",
    "PriorityClass",
    "StorageClass",
    "VolumeSnapshotClass",
    "IngressClass",
    "GatewayClass",
    "ClusterRoleBinding",
    "ResourceQuota",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "Secret",
    "Service",
    "LimitRange",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];

/// Kinds that stand in the way of others, after all others.
const LAST: [&str; 2] = [
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

fn rank(kind: &str) -> usize {
    let first = FIRST.iter().position(|known| *known == kind);
    let last = LAST.iter().position(|known| *known == kind);
    match (first, last) {
        (Some(at), _) => at,
        (None, Some(at)) => FIRST.len() + 1 + at,
        (None, None) => FIRST.len(),
    }
}

/// The order within a stage: by kind, group, namespace and name. Deletion takes the reverse.
pub fn compare(one: &ObjectId, two: &ObjectId) -> Ordering {
    let key = |id: &ObjectId| rank(&id.kind);
    key(one)
        .cmp(&key(two))
        .then_with(|| one.group.cmp(&two.group))
        .then_with(|| one.kind.cmp(&two.kind))
        .then_with(|| one.namespace.cmp(&two.namespace))
        .then_with(|| one.name.cmp(&two.name))
}

/// When an object is applied. A stage begins when the one before has settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Definitions, namespaces and cluster roles.
    Definitions,
    /// Kinds that end in `Class`.
    Classes,
    /// Kinds that the user wants before the rest.
    Custom,
    /// All others.
    Rest,
}

impl Stage {
    /// Of an object.
    pub fn of(object: &Value, custom: &BTreeSet<GroupKind>) -> Self {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        let group = |name: &str| api_version.starts_with(name);
        let definition = match kind.to_ascii_lowercase().as_str() {
            "customresourcedefinition" => group("apiextensions.k8s.io/"),
            "namespace" => api_version == "v1",
            "clusterrole" => group("rbac.authorization.k8s.io/"),
            _ => false,
        };
        if definition {
            Stage::Definitions
        } else if kind.ends_with("Class") {
            Stage::Classes
        } else if custom.contains(&GroupKind::new(api_version, kind)) {
            Stage::Custom
        } else {
            Stage::Rest
        }
    }

    /// Whether the next stage waits until the objects of this one are ready.
    pub fn settles(self) -> bool {
        matches!(self, Stage::Definitions | Stage::Classes)
    }
}

/// Objects by stage, each in its order. Stages without objects are left out.
pub fn staged(objects: Vec<Value>, custom: &BTreeSet<GroupKind>) -> Vec<(Stage, Vec<Value>)> {
    let mut keyed: Vec<(Stage, ObjectId, Value)> = objects
        .into_iter()
        .map(|object| (Stage::of(&object, custom), ObjectId::of(&object), object))
        .collect();
    keyed.sort_by(|one, two| one.0.cmp(&two.0).then_with(|| compare(&one.1, &two.1)));
    let mut stages: Vec<(Stage, Vec<Value>)> = Vec::new();
    for (stage, _, object) in keyed {
        match stages.last_mut() {
            Some((last, objects)) if *last == stage => objects.push(object),
            _ => stages.push((stage, vec![object])),
        }
    }
    stages
}

/// Reads `GROUP/KIND,KIND,…`, as `--custom-apply-stage-kinds` has it.
pub fn parse_kinds(text: &str) -> BTreeSet<GroupKind> {
    let kinds = text
        .split(',')
        .map(str::trim)
        .filter(|kind| !kind.is_empty());
    let one = |kind: &str| {
        let (group, kind) = kind.split_once('/').unwrap_or(("", kind));
        GroupKind {
            group: group.to_owned(),
            kind: kind.to_owned(),
        }
    };
    kinds.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    fn object(api_version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
    }

    #[test]
    fn stages_come_in_order_and_objects_within_them_too() {
        let objects = vec![
            object(
                "admissionregistration.k8s.io/v1",
                "ValidatingWebhookConfiguration",
                "hook",
            ),
            object("example.com/v1", "Widget", "b"),
            object("example.com/v1", "Widget", "a"),
            object("v1", "Secret", "s"),
            object("storage.k8s.io/v1", "StorageClass", "fast"),
            object("v1", "Namespace", "team"),
            object(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                "widgets",
            ),
            object("early.example.com/v1", "First", "one"),
        ];
        let custom = parse_kinds("early.example.com/First, Other");
        let shown: Vec<(Stage, Vec<String>)> = staged(objects, &custom)
            .into_iter()
            .map(|(stage, objects)| {
                let names = objects.iter().map(|object| ObjectId::of(object).subject());
                (stage, names.collect())
            })
            .collect();
        let expected = [
            (
                Stage::Definitions,
                vec!["CustomResourceDefinition/widgets", "Namespace/team"],
            ),
            (Stage::Classes, vec!["StorageClass/fast"]),
            (Stage::Custom, vec!["First/one"]),
            (
                Stage::Rest,
                vec![
                    "Secret/s",
                    "Widget/a",
                    "Widget/b",
                    "ValidatingWebhookConfiguration/hook",
                ],
            ),
        ];
        assert_eq!(shown.len(), expected.len());
        for ((stage, names), (expected_stage, expected_names)) in shown.iter().zip(&expected) {
            assert_eq!((stage, names.len()), (expected_stage, expected_names.len()));
            assert!(names.iter().eq(expected_names.iter()), "{names:?}");
        }
    }
}
