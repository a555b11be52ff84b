//! What was applied, as `status.inventory` remembers it.
//!
//! Everything that may be in the cluster because of us is in the inventory before it is applied,
//! and leaves it only after it is known to be gone.

use std::collections::BTreeSet;

use everflow_api::ApiError;
use everflow_api::inventory::{ObjectId, ResourceRef};
use everflow_json::{Value, json};
use thiserror::Error;

use crate::object::version;
use crate::order;

/// Objects that were applied, in the order in which they were.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    entries: Vec<Entry>,
}

/// An object with the version it was applied in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Which object.
    pub id: ObjectId,
    /// For example `v1`.
    pub version: String,
}

/// A stored inventory that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InventoryError {
    /// An id without its four parts.
    #[error("status.inventory.entries: {0}")]
    Id(#[from] ApiError),
    /// An entry that is no id with a version.
    #[error("status.inventory.entries[{0}] has no id and v")]
    Entry(usize),
}

impl Entry {
    /// Of an object that is to be applied.
    pub fn of(object: &Value) -> Self {
        Entry {
            id: ObjectId::of(object),
            version: version(object).to_owned(),
        }
    }

    /// The `apiVersion` of the object.
    pub fn api_version(&self) -> String {
        match self.id.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}

impl Inventory {
    /// Of objects, in the order in which they are applied.
    pub fn of<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let entries = objects.into_iter().map(Entry::of);
        Inventory::from_entries(entries)
    }

    /// Of entries; an object that comes twice counts once.
    pub fn from_entries(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut entries: Vec<Entry> = entries.into_iter().collect();
        let mut seen = BTreeSet::new();
        let fresh: Vec<bool> = entries.iter().map(|entry| seen.insert(&entry.id)).collect();
        let mut fresh = fresh.into_iter();
        entries.retain(|_| fresh.next().unwrap_or(true));
        Inventory { entries }
    }

    /// Of the entries of a status that was read.
    ///
    /// # Errors
    /// Names an id that is none.
    pub fn of_refs(stored: &[ResourceRef]) -> Result<Self, InventoryError> {
        let mut entries = Vec::with_capacity(stored.len());
        for entry in stored {
            entries.push(Entry {
                id: entry.object_id()?,
                version: entry.version.clone(),
            });
        }
        Ok(Inventory::from_entries(entries))
    }

    /// Reads `status.inventory`; nothing there is an empty inventory.
    pub fn read(stored: &Value) -> Result<Self, InventoryError> {
        let stored = stored["entries"].as_array().map_or(&[][..], Vec::as_slice);
        let mut entries = Vec::with_capacity(stored.len());
        for (at, entry) in stored.iter().enumerate() {
            let (Some(id), Some(version)) = (entry["id"].as_str(), entry["v"].as_str()) else {
                return Err(InventoryError::Entry(at));
            };
            entries.push(Entry {
                id: id.parse()?,
                version: version.to_owned(),
            });
        }
        Ok(Inventory::from_entries(entries))
    }

    /// As `status.inventory` stores it.
    pub fn write(&self) -> Value {
        let entry = |entry: &Entry| json!({"id": entry.id.to_string(), "v": entry.version});
        json!({"entries": self.entries.iter().map(entry).collect::<Vec<_>>()})
    }

    /// What is in it.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether the object is in it.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.entries.iter().any(|entry| entry.id == *id)
    }

    /// What is in this one or the other. Versions are this one's where both have the object.
    pub fn union(&self, other: &Inventory) -> Inventory {
        Inventory::from_entries(self.entries.iter().chain(&other.entries).cloned())
    }

    /// What is in this one and not in the other, in the order in which it is to be deleted. An object
    /// of the whole cluster is the same one, also where it is listed with the namespace that its
    /// manifest gives it.
    pub fn without(&self, other: &Inventory) -> Vec<Entry> {
        let kept: BTreeSet<&ObjectId> = other.entries.iter().map(|entry| &entry.id).collect();
        let anywhere = |id: &ObjectId| ObjectId {
            namespace: String::new(),
            ..id.clone()
        };
        let kept_anywhere: BTreeSet<ObjectId> = kept.iter().map(|id| anywhere(id)).collect();
        let is_kept = |id: &ObjectId| {
            kept.contains(id)
                || kept.contains(&anywhere(id))
                || (id.namespace.is_empty() && kept_anywhere.contains(id))
        };
        let gone = self.entries.iter().filter(|entry| !is_kept(&entry.id));
        let mut gone: Vec<Entry> = gone.cloned().collect();
        gone.sort_by(|one, two| order::compare(&two.id, &one.id));
        gone
    }

    /// Takes out what is known to be gone from the cluster.
    pub fn forget(&mut self, gone: &BTreeSet<ObjectId>) {
        self.entries.retain(|entry| !gone.contains(&entry.id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
        let mut metadata = json!({"name": name});
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
    }

    #[test]
    fn objects_of_the_whole_cluster_are_the_same_with_and_without_a_namespace() {
        let written = object("a.b/v1", "ClusterStore", "team", "store");
        let served = object("a.b/v1", "ClusterStore", "", "store");
        let (written, served) = (Inventory::of(&[written]), Inventory::of(&[served]));
        assert!(written.without(&served).is_empty());
        assert!(served.without(&written).is_empty());
        let moved = object("v1", "ConfigMap", "other", "store");
        let there = object("v1", "ConfigMap", "team", "store");
        assert_eq!(
            Inventory::of(&[there])
                .without(&Inventory::of(&[moved]))
                .len(),
            1
        );
    }

    #[test]
    fn entries_are_stored_as_flux_stores_them() {
        let objects = [
            object("v1", "Namespace", "", "team"),
            object("apps/v1", "Deployment", "team", "app"),
            object(
                "rbac.authorization.k8s.io/v1",
                "ClusterRole",
                "",
                "team:read_all",
            ),
        ];
        let stored = Inventory::of(&objects).write();
        let expected = json!({"entries": [
            {"id": "_team__Namespace", "v": "v1"},
            {"id": "team_app_apps_Deployment", "v": "v1"},
            {"id": "_team__read_all_rbac.authorization.k8s.io_ClusterRole", "v": "v1"},
        ]});
        assert_eq!(stored, expected);
        assert_eq!(Inventory::read(&stored).unwrap(), Inventory::of(&objects));
        assert!(Inventory::read(&Value::Null).unwrap().is_empty());
        let broken = json!({"entries": [{"id": "team_app", "v": "v1"}]});
        assert!(Inventory::read(&broken).is_err());
    }

    #[test]
    fn removed_objects_are_deleted_in_reverse_apply_order() {
        let old = [
            object("v1", "Namespace", "", "team"),
            object("v1", "Service", "team", "app"),
            object("apps/v1", "Deployment", "team", "app"),
            object("example.com/v1", "Widget", "team", "one"),
        ];
        let new = [object("apps/v1", "Deployment", "team", "app")];
        let gone = Inventory::of(&old).without(&Inventory::of(&new));
        let names: Vec<String> = gone.iter().map(|entry| entry.id.subject()).collect();
        assert_eq!(
            names,
            ["Widget/team/one", "Service/team/app", "Namespace/team"]
        );
    }

    #[test]
    fn inventory_union_has_both_sides_and_without_removes_only_the_given() {
        let old = Inventory::of(&[object("v1", "Secret", "a", "old")]);
        let new = Inventory::of(&[object("v1", "Secret", "a", "new")]);
        let mut both = new.union(&old);
        assert_eq!(both.entries().len(), 2);
        let gone = old.entries().iter().map(|entry| entry.id.clone()).collect();
        both.forget(&gone);
        assert_eq!(both, new);
    }
}
