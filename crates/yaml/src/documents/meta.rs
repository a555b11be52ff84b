//! What kyaml knows of a resource's metadata.

use super::kio::is_tagged_null;
use crate::node::{Node, Value};
use std::collections::BTreeMap;
use std::fmt;

/// The parts of a resource that say what it is. Values of other types than strings are their text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceMeta {
    /// `apiVersion`
    pub api_version: String,
    /// `kind`
    pub kind: String,
    /// `metadata.name`
    pub name: String,
    /// `metadata.namespace`
    pub namespace: String,
    /// `metadata.labels`
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`
    pub annotations: BTreeMap<String, String>,
}

/// `RNode.GetMeta`; none where kyaml says that the metadata is missing.
pub fn resource_meta(root: &Node) -> Option<ResourceMeta> {
    let mut meta = ResourceMeta::default();
    let mut found = false;
    let mut text_of = |node: &Node, name: &str| match filled(node, name) {
        Some(value) => {
            found = true;
            text(value)
        }
        None => String::new(),
    };
    meta.api_version = text_of(root, "apiVersion");
    meta.kind = text_of(root, "kind");
    if let Some(metadata) = filled(root, "metadata") {
        meta.name = text_of(metadata, "name");
        meta.namespace = text_of(metadata, "namespace");
        for (name, map) in [
            ("labels", &mut meta.labels),
            ("annotations", &mut meta.annotations),
        ] {
            let Some(value) = filled(metadata, name) else {
                continue;
            };
            found = true;
            let entries = value.as_mapping().map(|mapping| mapping.entries.as_slice());
            for entry in entries.unwrap_or_default() {
                map.entry(text(&entry.key))
                    .or_insert_with(|| text(&entry.value));
            }
        }
    }
    found.then_some(meta)
}

/// The value of a field unless it is null or an empty collection.
fn filled<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    node.get(name).filter(|value| !is_empty(value))
}

/// `RNode.IsNilOrEmpty`
pub(super) fn is_empty(node: &Node) -> bool {
    match &node.value {
        Value::Sequence(items) => items.is_empty(),
        Value::Mapping(mapping) => mapping.is_empty(),
        _ => is_tagged_null(node),
    }
}

fn text(node: &Node) -> String {
    match &node.value {
        Value::Alias(name) => name.to_string(),
        _ if is_tagged_null(node) => String::new(),
        _ => node.as_text().unwrap_or_default().to_owned(),
    }
}

/// `%v` of Go's struct.
impl fmt::Display for ResourceMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let map = |map: &BTreeMap<String, String>| {
            let entries: Vec<_> = map.iter().map(|(k, v)| format!("{k}:{v}")).collect();
            format!("map[{}]", entries.join(" "))
        };
        write!(
            f,
            "{{{{{} {}}} {{{{{} {}}} {} {}}}}}",
            self.api_version,
            self.kind,
            self.name,
            self.namespace,
            map(&self.labels),
            map(&self.annotations)
        )
    }
}
