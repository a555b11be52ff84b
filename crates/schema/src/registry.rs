//! The built-in kinds and resources of Kubernetes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::data;
use crate::model::{Type, TypeId, TypeTable};
use crate::schema::SchemaView;

/// Everything Kubernetes knows of its own kinds.
#[derive(Debug)]
pub struct Registry {
    facts: Facts,
    by_name: BTreeMap<SmolStr, TypeId>,
    by_plural: BTreeMap<SmolStr, Vec<usize>>,
}

/// The facts as they are stored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Facts {
    /// The release they were read from (`1.36.1`).
    pub kubernetes_version: SmolStr,
    /// All types.
    pub types: TypeTable,
    /// All groups in the order of discovery.
    pub groups: Vec<Group>,
    /// All resources in the order of discovery.
    pub resources: Vec<Resource>,
    /// All kinds with a type, sorted by group, version and kind.
    pub kinds: Vec<Kind>,
}

/// An API group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The name; empty for the core group.
    pub name: SmolStr,
    /// The served versions, the preferred one first.
    pub versions: Vec<SmolStr>,
}

/// A kind that has a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kind {
    /// The group; empty for the core group.
    pub group: SmolStr,
    /// The version.
    pub version: SmolStr,
    /// The kind.
    pub kind: SmolStr,
    /// The type of its objects.
    pub type_id: TypeId,
}

/// A served resource of one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// The group; empty for the core group.
    pub group: SmolStr,
    /// The version.
    pub version: SmolStr,
    /// The name in paths (`deployments`).
    pub plural: SmolStr,
    /// The name of one object (`deployment`).
    pub singular: SmolStr,
    /// The kind of its objects.
    pub kind: SmolStr,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The allowed verbs, sorted.
    pub verbs: Vec<SmolStr>,
    /// Short names (`deploy`).
    pub short_names: Vec<SmolStr>,
    /// Categories (`all`).
    pub categories: Vec<SmolStr>,
    /// Subresources, sorted by name.
    pub subresources: Vec<Subresource>,
    /// The `apiVersion` in which objects are stored; absent for resources without storage.
    pub storage_api_version: Option<SmolStr>,
    /// `storageVersionHash` of discovery.
    pub storage_version_hash: Option<SmolStr>,
    /// The columns of its tables.
    pub columns: Vec<Column>,
}

/// A subresource of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subresource {
    /// The last part of the path (`status`).
    pub name: SmolStr,
    /// The group of the kind it speaks; the resource's own when empty and `version` is empty.
    pub group: SmolStr,
    /// The version of the kind it speaks; the resource's own when empty.
    pub version: SmolStr,
    /// The kind it speaks.
    pub kind: SmolStr,
    /// The allowed verbs, sorted.
    pub verbs: Vec<SmolStr>,
}

/// A column of the server's tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// The header.
    pub name: SmolStr,
    /// The OpenAPI type of the cells.
    #[serde(rename = "type")]
    pub cell_type: SmolStr,
    /// The OpenAPI format of the cells.
    pub format: SmolStr,
    /// What the column shows.
    pub description: SmolStr,
    /// 0 is always shown, higher ones only in wide output.
    pub priority: i32,
}

impl Registry {
    /// Builds the indexes over the facts.
    pub fn new(facts: Facts) -> Self {
        let by_name = facts
            .types
            .iter()
            .filter_map(|(id, node)| Some((node.name.clone()?, id)))
            .collect();
        let mut by_plural: BTreeMap<SmolStr, Vec<usize>> = BTreeMap::new();
        for (at, resource) in facts.resources.iter().enumerate() {
            by_plural
                .entry(resource.plural.clone())
                .or_default()
                .push(at);
        }
        Self {
            facts,
            by_name,
            by_plural,
        }
    }

    /// The release the facts come from.
    pub fn kubernetes_version(&self) -> &str {
        &self.facts.kubernetes_version
    }

    /// All types.
    pub fn types(&self) -> &TypeTable {
        &self.facts.types
    }

    /// All groups in the order of discovery, the core group first.
    pub fn groups(&self) -> &[Group] {
        &self.facts.groups
    }

    /// The group with the given name.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.facts.groups.iter().find(|group| group.name == name)
    }

    /// All resources in the order of discovery.
    pub fn resources(&self) -> &[Resource] {
        &self.facts.resources
    }

    /// The resource with the given plural name.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Resource> {
        self.by_plural
            .get(plural)?
            .iter()
            .filter_map(|at| self.facts.resources.get(*at))
            .find(|resource| resource.group == group && resource.version == version)
    }

    /// The resource that stores objects of a kind.
    pub fn resource_of(&self, group: &str, version: &str, kind: &str) -> Option<&Resource> {
        self.facts.resources.iter().find(|resource| {
            resource.group == group && resource.version == version && resource.kind == kind
        })
    }

    /// All kinds with a type.
    pub fn kinds(&self) -> &[Kind] {
        &self.facts.kinds
    }

    /// The kind with the given name.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Kind> {
        let wanted = (group, version, kind);
        let at = self
            .facts
            .kinds
            .binary_search_by(|entry| {
                (
                    entry.group.as_str(),
                    entry.version.as_str(),
                    entry.kind.as_str(),
                )
                    .cmp(&wanted)
            })
            .ok()?;
        self.facts.kinds.get(at)
    }

    /// The type of a kind's objects.
    pub fn type_of(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        self.kind(group, version, kind).map(|entry| entry.type_id)
    }

    /// The type of a kind's objects, by its `apiVersion`.
    pub fn type_of_api_version(&self, api_version: &str, kind: &str) -> Option<TypeId> {
        let (group, version) = split_api_version(api_version);
        self.type_of(group, version, kind)
    }

    /// The schema of a kind.
    pub fn schema(&self, group: &str, version: &str, kind: &str) -> Option<SchemaView<'_>> {
        let root = self.type_of(group, version, kind)?;
        Some(SchemaView {
            types: &self.facts.types,
            root,
        })
    }

    /// The type with the given definition name (`io.k8s.api.core.v1.PodSpec`).
    pub fn type_named(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    /// The type with the given id.
    pub fn get(&self, id: TypeId) -> Option<&Type> {
        self.facts.types.get(id)
    }
}

/// Splits an `apiVersion` into group and version; the core group is empty.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

static BUILTIN: LazyLock<Registry> =
    LazyLock::new(|| Registry::new(data::load().unwrap_or_default()));

/// The built-in kinds, decoded on first use.
pub fn builtin() -> &'static Registry {
    &BUILTIN
}
