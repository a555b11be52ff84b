//! Kinds that a repository uses and nobody defines.

use std::collections::{BTreeMap, BTreeSet};

use everflow_api::view;
use everflow_json::{Value, json};

use crate::entry::{Reach, Reached};
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
    /// The file of the repository with its definition, when nothing deploys that.
    pub definition: Option<String>,
    /// The plural that definition gives it, else the usual one.
    plural: String,
    /// Whether it is one of the whole cluster, as far as can be told.
    pub cluster_wide: bool,
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
const CLUSTER_WIDE: [(&str, &str); 66] = [
    ("apiextensions.crossplane.io", "CompositeResourceDefinition"),
    ("apiextensions.crossplane.io", "Composition"),
    ("capsule.clastix.io", "CapsuleConfiguration"),
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

/// Finds the versions that are no longer served, in the files that are read.
pub fn former(
    contents: &Contents,
    reached: Option<&Reached>,
    instead: &dyn Fn(&str, &str) -> Option<String>,
) -> Vec<FormerVersion> {
    let mut former: BTreeMap<(String, String), FormerVersion> = BTreeMap::new();
    let read = |found: &&Found| !is_hidden(found) && is_read(reached, &found.path);
    for found in contents.objects.iter().filter(read) {
        let text = |field: &str| found.object[field].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        // Which version it is will be known when variables are put in.
        let Some(instead) = instead(&api_version, &kind).filter(|_| !api_version.contains('$'))
        else {
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

/// Whether a file is read; all are where that cannot be told.
fn is_read(reached: Option<&Reached>, file: &str) -> bool {
    reached.is_none_or(|reached| reached.has(file))
}

/// Finds the kinds that are missing. `served` says whether the cluster has a kind.
pub fn missing(
    contents: &Contents,
    reach: &Reach<'_>,
    reached: Option<&Reached>,
    served: &dyn Fn(&str, &str) -> bool,
) -> Vec<MissingKind> {
    let mut used: BTreeMap<GroupKind, (MissingKind, Vec<&Found>)> = BTreeMap::new();
    let mut defined: BTreeMap<GroupKind, &Found> = BTreeMap::new();
    for found in contents.objects.iter().filter(|found| !is_hidden(found)) {
        if found.object["kind"] == "CustomResourceDefinition" {
            // Those of other versions are not served any more, and define nothing.
            if found.object["apiVersion"] == "apiextensions.k8s.io/v1" {
                let kind = definition_of(&found.object);
                // One that is deployed counts more than one that is not.
                if !defined.contains_key(&kind) || is_read(reached, &found.path) {
                    defined.insert(kind, found);
                }
            }
            continue;
        }
        note(found, &mut used);
    }
    let mut missing = Vec::new();
    for (kind, (mut it, objects)) in used {
        if served(&kind.0, &kind.1) {
            continue;
        }
        if let Some(definition) = defined.get(&kind) {
            let mut objects = objects.iter();
            let needed = objects.any(|found| is_read(reached, &found.path));
            if is_read(reached, &definition.path) || !needed {
                continue;
            }
            it.take_names(definition);
        } else {
            it.cluster_wide = is_cluster_wide(&kind.0, &kind.1)
                || objects.iter().all(|found| {
                    found.object["metadata"]["namespace"].is_null()
                        && reach.is_left_without_namespace(contents, &found.path, reached)
                });
        }
        let read = objects.iter().filter(|found| is_read(reached, &found.path));
        it.users = read
            .map(|found| format!("{} in {}", view::name(&found.object), found.path))
            .collect();
        missing.push(it);
    }
    missing
}

fn note<'f>(found: &'f Found, used: &mut BTreeMap<GroupKind, (MissingKind, Vec<&'f Found>)>) {
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
    let (missing, objects) = used.entry(key).or_insert_with(|| {
        let missing = MissingKind {
            group: group.to_owned(),
            versions: BTreeSet::new(),
            kind: kind.to_owned(),
            users: Vec::new(),
            definition: None,
            plural: plural(kind),
            cluster_wide: false,
        };
        (missing, Vec::new())
    });
    missing.versions.insert(version.to_owned());
    objects.push(found);
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
    /// The scope and the names of a definition count, as it is not deployed; its schema may be that of
    /// another version.
    fn take_names(&mut self, definition: &Found) {
        let spec = &definition.object["spec"];
        self.definition = Some(definition.path.clone());
        self.cluster_wide = spec["scope"] == "Cluster";
        if let Some(plural) = spec["names"]["plural"].as_str() {
            plural.clone_into(&mut self.plural);
        }
    }

    /// A definition that accepts whatever is written.
    pub fn assumed(&self) -> Value {
        let plural = &self.plural;
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
                "scope": if self.cluster_wide { "Cluster" } else { "Namespaced" },
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
        let reach = Reach::of(&tree, &contents);
        let found = missing(&contents, &reach, None, &|group, _| group == "apps");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].users, ["b in b.yaml", "c in b.yaml"]);
        let definition = found[0].assumed();
        assert_eq!(definition["metadata"]["name"], "policies.y.io");
        assert_eq!(definition["spec"]["scope"], "Namespaced");
        assert_eq!(definition["spec"]["versions"][1]["storage"], true);
    }

    fn tree(files: &[(&str, &str)]) -> Tree {
        let disk = MemoryDisk::new();
        for (path, text) in files {
            write_whole(&disk, path, text.as_bytes()).unwrap();
        }
        Tree::new(Arc::new(disk) as Arc<dyn Disk>)
    }

    fn kustomization(more: &str) -> String {
        format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: a}}\nspec:\n  path: ./apps/a\n  sourceRef: {{kind: GitRepository, name: flux-system}}\n{more}"
        )
    }

    /// The one kind of group `y.io` that is missing when `cluster` is brought up.
    fn one_missing(files: &[(&str, &str)]) -> MissingKind {
        let tree = tree(files);
        let contents = tree.contents().unwrap();
        let reach = Reach::of(&tree, &contents);
        let reached = reach.reached(&tree, &contents, "cluster");
        let served = |group: &str, _: &str| group != "y.io";
        let mut found = missing(&contents, &reach, reached.as_ref(), &served);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn a_kind_is_of_the_whole_cluster_when_nobody_gives_it_a_namespace() {
        let object = "apiVersion: y.io/v1\nkind: Pool\nmetadata: {name: b}\n";
        let (plain, target) = (kustomization(""), kustomization("  targetNamespace: web\n"));
        let of_cluster = |file: &str, overlay: &str, object: &str| {
            let files = [
                ("cluster/a.yaml", file),
                ("apps/a/kustomization.yaml", overlay),
                ("apps/a/b.yaml", object),
            ];
            one_missing(&files).assumed()["spec"]["scope"] == "Cluster"
        };
        let (resources, namespaced) = (
            "resources: [b.yaml]\n",
            "namespace: web\nresources: [b.yaml]\n",
        );
        assert!(of_cluster(&plain, resources, object));
        assert!(!of_cluster(&target, resources, object));
        assert!(!of_cluster(&plain, namespaced, object));
        let own = object.replace("{name: b}", "{name: b, namespace: web}");
        assert!(!of_cluster(&plain, resources, &own));
        let first = one_missing(&[("cluster/a.yaml", object)]);
        assert!(first.cluster_wide);
    }

    #[test]
    fn api_version_with_variables_is_not_a_removed_version() {
        let tree = tree(&[(
            "a.yaml",
            "apiVersion: x.io/${VERSION:-v1}\nkind: A\nmetadata: {name: a}\n---\napiVersion: x.io/v1beta1\nkind: A\nmetadata: {name: b}\n",
        )]);
        let newest = |_: &str, _: &str| Some("x.io/v1".to_owned());
        let found = former(&tree.contents().unwrap(), None, &newest);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].users, ["b in a.yaml"]);
    }

    #[test]
    fn a_definition_that_nothing_deploys_gives_its_names() {
        let files = [
            ("cluster/a.yaml", &*kustomization("")),
            (
                "apps/a/b.yaml",
                "apiVersion: y.io/v1\nkind: Pool\nmetadata: {name: b}\n",
            ),
            (
                "other/crd.yaml",
                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: pools.y.io}\nspec: {group: y.io, scope: Cluster, names: {kind: Pool, plural: poolen}}\n",
            ),
        ];
        let missing = one_missing(&files);
        let assumed = missing.assumed();
        assert_eq!(assumed["spec"]["scope"], "Cluster");
        assert_eq!(assumed["metadata"]["name"], "poolen.y.io");
        assert_eq!(missing.definition.as_deref(), Some("other/crd.yaml"));
    }
}
