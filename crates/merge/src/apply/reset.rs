//! Fields that a resource or subresource resets on every write, and that nobody owns therefore.

use crate::fieldpath::FieldSet;

/// Which fields of a write count for ownership.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ResetFields {
    /// All of them.
    #[default]
    Nothing,
    /// All but these and what is below them.
    Exclude(FieldSet),
    /// Only those below one of these prefixes, where `None` is any step.
    Only(Vec<Vec<Option<&'static str>>>),
}

/// Main resources that reset `status`, by group and resource.
const WITH_STATUS: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "namespaces",
            "nodes",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "replicationcontrollers",
            "resourcequotas",
            "services",
        ],
    ),
    (
        "admissionregistration.k8s.io",
        &["validatingadmissionpolicies"],
    ),
    ("apiextensions.k8s.io", &["customresourcedefinitions"]),
    ("apiregistration.k8s.io", &["apiservices"]),
    (
        "apps",
        &["daemonsets", "deployments", "replicasets", "statefulsets"],
    ),
    ("autoscaling", &["horizontalpodautoscalers"]),
    ("batch", &["cronjobs", "jobs"]),
    ("certificates.k8s.io", &["certificatesigningrequests"]),
    (
        "flowcontrol.apiserver.k8s.io",
        &["flowschemas", "prioritylevelconfigurations"],
    ),
    ("internal.apiserver.k8s.io", &["storageversions"]),
    ("networking.k8s.io", &["ingresses", "servicecidrs"]),
    ("policy", &["poddisruptionbudgets"]),
    (
        "resource.k8s.io",
        &[
            "devicetaintrules",
            "resourceclaims",
            "resourcepoolstatusrequests",
        ],
    ),
    ("scheduling.k8s.io", &["podgroups"]),
    ("storagemigration.k8s.io", &["storageversionmigrations"]),
];

/// Status subresources that reset all of `metadata` too.
const STATUS_KEEPS_METADATA: &[&str] = &[
    "validatingadmissionpolicies",
    "apiservices",
    "flowschemas",
    "prioritylevelconfigurations",
    "storageversions",
    "servicecidrs",
    "devicetaintrules",
    "resourceclaims",
    "resourcepoolstatusrequests",
    "podgroups",
    "storageversionmigrations",
];

impl ResetFields {
    /// What a built-in resource (`deployments`) or its subresource resets; `subresource` is empty
    /// for the main resource.
    #[must_use]
    pub fn of_builtin(group: &str, resource: &str, subresource: &str) -> Self {
        let listed = WITH_STATUS
            .iter()
            .any(|(name, resources)| *name == group && resources.contains(&resource));
        let exclude = |paths: &[&[&str]]| Self::Exclude(FieldSet::of_field_paths(paths));
        match (subresource, resource) {
            ("ephemeralcontainers", "pods") => {
                Self::Only(vec![vec![Some("spec"), Some("ephemeralContainers")]])
            }
            ("resize", "pods") => Self::Only(
                [("containers", "resources"), ("containers", "resizePolicy")]
                    .into_iter()
                    .chain([
                        ("initContainers", "resources"),
                        ("initContainers", "resizePolicy"),
                    ])
                    .map(|(list, field)| vec![Some("spec"), Some(list), None, Some(field)])
                    .collect(),
            ),
            ("finalize", "namespaces") => exclude(&[&["status"]]),
            ("approval", "certificatesigningrequests") => {
                exclude(&[&["spec"], &["status", "certificate"]])
            }
            ("", "certificatesigningrequests") => exclude(&[&["spec"], &["status"]]),
            ("", _) if listed => exclude(&[&["status"]]),
            ("status", "certificatesigningrequests") => {
                exclude(&[&["spec"], &["status", "conditions"]])
            }
            ("status", "podcertificaterequests") => exclude(&[&["spec"]]),
            ("status", "pods") => exclude(&[
                &["spec"],
                &["metadata", "deletionTimestamp"],
                &["metadata", "ownerReferences"],
            ]),
            ("status", "deployments") => exclude(&[&["spec"], &["metadata", "labels"]]),
            ("status", _) if listed && STATUS_KEEPS_METADATA.contains(&resource) => {
                exclude(&[&["spec"], &["metadata"]])
            }
            ("status", _) if listed => exclude(&[&["spec"]]),
            _ => Self::Nothing,
        }
    }

    /// What a custom resource or its subresource resets.
    #[must_use]
    pub fn of_custom_resource(has_status_subresource: bool, subresource: &str) -> Self {
        let exclude = |paths: &[&[&str]]| Self::Exclude(FieldSet::of_field_paths(paths));
        match subresource {
            "" if has_status_subresource => exclude(&[&["status"]]),
            "status" => exclude(&[&["metadata"], &["spec"]]),
            _ => Self::Nothing,
        }
    }

    /// The set without the reset fields.
    pub(crate) fn filter(&self, set: FieldSet) -> FieldSet {
        match self {
            Self::Nothing => set,
            Self::Exclude(excluded) if !set.meets(excluded) => set,
            Self::Exclude(excluded) => set.recursive_difference(excluded),
            Self::Only(prefixes) => {
                let prefixes: Vec<&[Option<&str>]> = prefixes.iter().map(Vec::as_slice).collect();
                set.only_below(&prefixes)
            }
        }
    }
}
