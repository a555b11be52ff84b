//! Kinds that a repository uses and nobody defines.

use std::collections::{BTreeMap, BTreeSet};

use everflow_api::view;
use serde_json::{Value, json};

use crate::tree::{Contents, Found};

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
    /// Whether any of them says a namespace.
    pub namespaced: bool,
}

/// What a kind is known by.
type GroupKind = (String, String);

/// Finds the kinds that are missing. `served` says whether the cluster has a kind.
pub fn missing(contents: &Contents, served: &dyn Fn(&str, &str) -> bool) -> Vec<MissingKind> {
    let mut used: BTreeMap<GroupKind, MissingKind> = BTreeMap::new();
    let mut defined: BTreeSet<GroupKind> = BTreeSet::new();
    for found in &contents.objects {
        if found.object["kind"] == "CustomResourceDefinition" {
            defined.insert(definition_of(&found.object));
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
    let for_tools = group.ends_with("config.k8s.io")
        || group.ends_with("kustomize.config.k8s.io")
        || !object["metadata"]["name"].is_string()
        || [group, version, kind]
            .iter()
            .any(|text| text.contains(['$', '{', ' ']));
    if for_tools {
        return;
    }
    let key = (group.to_owned(), kind.to_owned());
    let missing = used.entry(key).or_insert_with(|| MissingKind {
        group: group.to_owned(),
        versions: BTreeSet::new(),
        kind: kind.to_owned(),
        users: Vec::new(),
        namespaced: false,
    });
    missing.versions.insert(version.to_owned());
    missing.namespaced |= !view::namespace(object).is_empty();
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
        // A kind of the whole cluster mostly says so in its name.
        let cluster_wide = !self.namespaced && self.kind.starts_with("Cluster");
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
    use crate::tree::Tree;

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
