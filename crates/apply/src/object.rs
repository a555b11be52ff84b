//! Which kind is meant.

use everflow_json::Value;

/// A kind within its group, whatever the version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// Empty for the core group.
    pub group: String,
    /// For example `Deployment`.
    pub kind: String,
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

/// The version of an `apiVersion`.
pub(crate) fn version(object: &Value) -> &str {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    api_version.rsplit('/').next().unwrap_or_default()
}
