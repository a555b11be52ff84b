//! Which object is meant.

use std::fmt;

use serde_json::Value;

/// A kind within its group, whatever the version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// Empty for the core group.
    pub group: String,
    /// For example `Deployment`.
    pub kind: String,
}

/// What tells an object from all others of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Its group and kind.
    pub group_kind: GroupKind,
    /// Empty when the kind has no namespaces.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl GroupKind {
    /// From the `apiVersion` and `kind` of an object.
    pub fn new(api_version: &str, kind: &str) -> Self {
        GroupKind {
            group: api_version
                .split_once('/')
                .map_or("", |(group, _)| group)
                .to_owned(),
            kind: kind.to_owned(),
        }
    }
}

impl ObjectId {
    /// Of an object; what it does not say is empty.
    pub fn of(object: &Value) -> Self {
        let text = |at: &str| {
            object
                .pointer(at)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        ObjectId {
            group_kind: GroupKind::new(text("/apiVersion"), text("/kind")),
            namespace: text("/metadata/namespace").to_owned(),
            name: text("/metadata/name").to_owned(),
        }
    }
}

impl fmt::Display for ObjectId {
    /// As Flux names objects in messages: `Deployment/team/app`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.group_kind.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// The version of an `apiVersion`.
pub(crate) fn version(object: &Value) -> &str {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    api_version.rsplit('/').next().unwrap_or_default()
}
