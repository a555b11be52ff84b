//! `status.inventory` of a HelmRelease.

use everflow_api::inventory::{ObjectId, ResourceInventory, ResourceRef};
use everflow_json::Value;

/// The inventory of a release: its objects in the order of the manifest, then the chart's definitions,
/// whether these were applied or not.
pub fn inventory(objects: &[Value], definitions: &[Value]) -> ResourceInventory {
    let is_hook = |object: &&Value| {
        object["metadata"]["annotations"]
            .get("helm.sh/hook")
            .is_some()
    };
    let objects = objects.iter().filter(|object| !is_hook(object));
    ResourceInventory {
        entries: objects.chain(definitions).map(entry).collect(),
        ..ResourceInventory::default()
    }
}

fn entry(object: &Value) -> ResourceRef {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let version = match api_version.split_once('/') {
        Some((_, version)) => version,
        None => api_version,
    };
    ResourceRef::new(&ObjectId::of(object), version)
}
