//! Kinds that a repository uses and nobody defines.

use std::collections::{BTreeMap, BTreeSet};

use everflow_api::view;
use serde_json::{Value, json};

use crate::tree::{Contents, Found, Tree};

/// A kind that the repository uses but neither the cluster nor the repository defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingKind {
    /// The API group.
    pub group: String,
    /// Its versions that are used.
    pub versions: BTreeSet<String>,
    /// The kind.
    pub kind: String,
    /// Which objects need it: `name in file`.
    pub users: Vec<String>,
}

/// A version of a kind that is no longer served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormerVersion {
    /// What is written.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// What to write instead.
    pub instead: String,
    /// Which objects are written so: `name in file`.
    pub users: Vec<String>,
}

/// What a kind is known by.
type GroupKind = (String, String);

/// Kinds of the whole cluster that do not say so in their name, and are often used without their
/// definition.
const CLUSTER_WIDE: [(&str, &str); 65] = [
    ("apiextensions.crossplane.io", "CompositeResourceDefinition"),
    ("apiextensions.crossplane.io", "Composition"),
    ("capsule.clastix.io", "Tenant"),
    ("cdi.kubevirt.io", "CDI"),
    ("cilium.io", "CiliumBGPAdvertisement"),
    ("cilium.io", "CiliumBGPClusterConfig"),
    ("cilium.io", "CiliumBGPNodeConfigOverride"),
    ("cilium.io", "CiliumBGPPeerConfig"),
    ("cilium.io", "CiliumBGPPeeringPolicy"),
    ("cilium.io", "CiliumCIDRGroup"),
    ("cilium.io", "CiliumClusterwideEnvoyConfig"),
    ("cilium.io", "CiliumClusterwideNetworkPolicy"),
    ("cilium.io", "CiliumEgressGatewayPolicy"),
    ("cilium.io", "CiliumL2AnnouncementPolicy"),
    ("cilium.io", "CiliumLoadBalancerIPPool"),
    ("cilium.io", "CiliumPodIPPool"),
    ("cilium.io", "TracingPolicy"),
    ("crd.projectcalico.org", "BGPConfiguration"),
    ("crd.projectcalico.org", "BGPPeer"),
    ("crd.projectcalico.org", "FelixConfiguration"),
    ("crd.projectcalico.org", "IPPool"),
    ("deviceplugin.intel.com", "GpuDevicePlugin"),
    ("deviceplugin.intel.com", "NpuDevicePlugin"),
    ("karpenter.sh", "NodeClaim"),
    ("karpenter.sh", "NodePool"),
    ("kepler.system.sustainable.computing.io", "Kepler"),
    ("kepler.system.sustainable.computing.io", "PowerMonitor"),
    (
        "kepler.system.sustainable.computing.io",
        "PowerMonitorInternal",
    ),
    ("kubevirt.io", "VirtualMachineClusterInstancetype"),
    ("kueue.x-k8s.io", "AdmissionCheck"),
    ("kueue.x-k8s.io", "Cohort"),
    ("kueue.x-k8s.io", "ResourceFlavor"),
    ("kwok.x-k8s.io", "Stage"),
    ("kyverno.io", "GlobalContextEntry"),
    ("nfd.k8s-sigs.io", "NodeFeatureGroup"),
    ("nfd.k8s-sigs.io", "NodeFeatureRule"),
    ("nmstate.io", "NMState"),
    ("nmstate.io", "NodeNetworkConfigurationPolicy"),
    ("nvidia.com", "NVIDIADriver"),
    ("objectbucket.io", "ObjectBucket"),
    ("operator.tigera.io", "APIServer"),
    ("operator.tigera.io", "Installation"),
    ("piraeus.io", "LinstorCluster"),
    ("piraeus.io", "LinstorNodeConnection"),
    ("piraeus.io", "LinstorSatelliteConfiguration"),
    ("pkg.crossplane.io", "Configuration"),
    ("pkg.crossplane.io", "DeploymentRuntimeConfig"),
    ("pkg.crossplane.io", "Function"),
    ("pkg.crossplane.io", "Provider"),
    ("policies.kyverno.io", "DeletingPolicy"),
    ("policies.kyverno.io", "GeneratingPolicy"),
    ("policies.kyverno.io", "ImageValidatingPolicy"),
    ("policies.kyverno.io", "MutatingPolicy"),
    ("policies.kyverno.io", "ValidatingPolicy"),
    ("policy.networking.k8s.io", "AdminNetworkPolicy"),
    ("policy.networking.k8s.io", "BaselineAdminNetworkPolicy"),
    ("scheduling.volcano.sh", "Queue"),
    ("snapshot.storage.k8s.io", "VolumeSnapshotContent"),
    ("tailscale.com", "Connector"),
    ("tailscale.com", "DNSConfig"),
    ("tailscale.com", "ProxyGroup"),
    ("templates.gatekeeper.sh", "ConstraintTemplate"),
    ("trust.cert-manager.io", "Bundle"),
    ("tuppr.home-operations.com", "KubernetesUpgrade"),
    ("tuppr.home-operations.com", "TalosUpgrade"),
];

/// Whether a kind is one of the whole cluster, as far as its name tells.
fn is_cluster_wide(group: &str, kind: &str) -> bool {
    // Cluster alone is a cluster of databases, and lives in a namespace.
    let by_name = (kind.starts_with("Cluster") && kind.len() > "Cluster".len())
        || kind.starts_with("Global")
        || kind.ends_with("Class");
    // Those of the Cluster API are about clusters, and SecretProviderClasses about pods.
    let is_other = group.ends_with("cluster.x-k8s.io") || kind == "SecretProviderClass";
    let is_policy = ["constraints.gatekeeper.sh", "mutations.gatekeeper.sh"].contains(&group);
    (by_name && !is_other) || is_policy || CLUSTER_WIDE.contains(&(group, kind))
}

/// Finds the versions that are no longer served.
pub fn former(
    contents: &Contents,
    instead: &dyn Fn(&str, &str) -> Option<String>,
) -> Vec<FormerVersion> {
    let mut former: BTreeMap<(String, String), FormerVersion> = BTreeMap::new();
    for found in contents.objects.iter().filter(|found| !is_hidden(found)) {
        let text = |field: &str| found.object[field].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let Some(instead) = instead(&api_version, &kind) else {
            continue;
        };
        let key = (api_version.clone(), kind.clone());
        let version = former.entry(key).or_insert_with(|| FormerVersion {
            api_version,
            kind,
            instead,
            users: Vec::new(),
        });
        let name = view::name(&found.object);
        version.users.push(format!("{name} in {}", found.path));
    }
    former.into_values().collect()
}

/// The namespaces that a repository uses without defining them.
pub fn namespaces(tree: &Tree, contents: &Contents) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let mut note = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        if !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            used.insert(name.to_owned());
        }
    };
    for found in contents.objects.iter().filter(|found| !is_hidden(found)) {
        note(&found.object["metadata"]["namespace"]);
        note(&found.object["spec"]["targetNamespace"]);
    }
    for path in &contents.manifests {
        if path.ends_with("kustomization.yaml") || path.ends_with("kustomization.yml") {
            let text = tree.text(path).unwrap_or_default();
            if let Ok(file) = everflow_yaml::sigs::yaml_to_json(text.as_bytes()) {
                note(&file["namespace"]);
            }
        }
    }
    used
}

fn is_hidden(found: &Found) -> bool {
    found.path.split('/').any(|part| part.starts_with('.'))
}

/// Finds the kinds that are missing. `served` says whether the cluster has a kind.
pub fn missing(contents: &Contents, served: &dyn Fn(&str, &str) -> bool) -> Vec<MissingKind> {
    let mut used: BTreeMap<GroupKind, MissingKind> = BTreeMap::new();
    let mut defined: BTreeSet<GroupKind> = BTreeSet::new();
    for found in contents.objects.iter().filter(|found| !is_hidden(found)) {
        if found.object["kind"] == "CustomResourceDefinition" {
            // Those of other versions are not served any more, and define nothing.
            if found.object["apiVersion"] == "apiextensions.k8s.io/v1" {
                defined.insert(definition_of(&found.object));
            }
            continue;
        }
        note(found, &mut used);
    }
    used.into_iter()
        .filter(|(kind, _)| !defined.contains(kind) && !served(&kind.0, &kind.1))
        .map(|(_, missing)| missing)
        .collect()
}

fn note(found: &Found, used: &mut BTreeMap<GroupKind, MissingKind>) {
    let object = &found.object;
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let Some((group, version)) = api_version.split_once('/') else {
        return;
    };
    // Files for tools rather than for a cluster, and templates of names.
    let is_word = |text: &str| {
        let plain = |char: char| char.is_ascii_alphanumeric() || "-.".contains(char);
        !text.is_empty() && text.chars().all(plain)
    };
    let for_tools = group.ends_with("config.k8s.io")
        || group.ends_with("kustomize.config.k8s.io")
        || !group.contains('.')
        || !object["metadata"]["name"].is_string();
    if for_tools || ![group, version, kind].into_iter().all(is_word) {
        return;
    }
    let key = (group.to_owned(), kind.to_owned());
    let missing = used.entry(key).or_insert_with(|| MissingKind {
        group: group.to_owned(),
        versions: BTreeSet::new(),
        kind: kind.to_owned(),
        users: Vec::new(),
    });
    missing.versions.insert(version.to_owned());
    missing
        .users
        .push(format!("{} in {}", view::name(object), found.path));
}

fn definition_of(definition: &Value) -> GroupKind {
    let text = |at: &str| {
        definition
            .pointer(at)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    (
        text("/spec/group").to_owned(),
        text("/spec/names/kind").to_owned(),
    )
}

impl MissingKind {
    /// A definition that accepts whatever is written.
    pub fn assumed(&self) -> Value {
        let plural = plural(&self.kind);
        let cluster_wide = is_cluster_wide(&self.group, &self.kind);
        let mut versions: Vec<Value> = self.versions.iter().map(|name| version(name)).collect();
        if let Some(last) = versions.last_mut() {
            last["storage"] = json!(true);
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{plural}.{}", self.group),
                "annotations": annotations(&self.group),
            },
            "spec": {
                "group": self.group,
                "scope": if cluster_wide { "Cluster" } else { "Namespaced" },
                "names": { "kind": self.kind, "plural": plural },
                "versions": versions,
            },
        })
    }
}

/// The API server wants to know who approved definitions in Kubernetes' own groups.
fn annotations(group: &str) -> Value {
    match group.ends_with(".k8s.io") || group.ends_with(".kubernetes.io") {
        true => json!({ "api-approved.kubernetes.io": "unapproved, assumed by everflow" }),
        false => json!({}),
    }
}

fn version(name: &str) -> Value {
    json!({
        "name": name,
        "served": true,
        "storage": false,
        "subresources": { "status": {} },
        "schema": {
            "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        },
    })
}

/// The plural that most definitions choose.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| kind.ends_with(ending));
    if ends(&["s", "x", "ch", "sh"]) {
        format!("{kind}es")
    } else if kind.ends_with('y') && !ends(&["ay", "ey", "oy", "uy"]) {
        format!("{}ies", &kind[..kind.len() - 1])
    } else {
        format!("{kind}s")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everflow_env::disk::write_whole;
    use everflow_env::{Disk, MemoryDisk};

    use super::*;

    #[test]
    fn kinds_that_nobody_defines() {
        let disk = MemoryDisk::new();
        let files = [
            (
                "crd.yaml",
                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.x.io}\nspec: {group: x.io, names: {kind: A}}\n",
            ),
            (
                "a.yaml",
                "apiVersion: x.io/v1\nkind: A\nmetadata: {name: a}\n",
            ),
            (
                "b.yaml",
                "apiVersion: y.io/v1\nkind: Policy\nmetadata: {name: b, namespace: n}\n---\napiVersion: y.io/v1beta1\nkind: Policy\nmetadata: {name: c}\n",
            ),
            (
                "d.yaml",
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n",
            ),
            (
                "kustomization.yaml",
                "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
            ),
        ];
        for (path, text) in files {
            write_whole(&disk, path, text.as_bytes()).unwrap();
        }
        let tree = Tree::new(Arc::new(disk) as Arc<dyn Disk>);
        let contents = tree.contents().unwrap();
        let found = missing(&contents, &|group, _| group == "apps");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].users, ["b in b.yaml", "c in b.yaml"]);
        let definition = found[0].assumed();
        assert_eq!(definition["metadata"]["name"], "policies.y.io");
        assert_eq!(definition["spec"]["scope"], "Namespaced");
        assert_eq!(definition["spec"]["versions"][1]["storage"], true);
    }
}
