//! Why an object of Kubernetes' own kinds is not healthy. Only failures pay for looking.

use everflow_json::Value;
use everflow_runtime::client::{At, Client, Paging, Resource, Selection, meta_text};
use everflow_runtime::events::EVENTS;

use crate::health::causes::{is_being_made, of_events, of_pods, of_workload, pod_selector};
use crate::inventory::Entry;

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
/// So many causes are told of one object.
const TOLD: usize = 3;
/// So many pods or events are looked at.
const READ: usize = 50;

/// What an object itself, its pods or the events about it say. What may not be read is not told.
pub async fn causes(client: &Client, entry: &Entry) -> Vec<String> {
    let id = &entry.id;
    if !matches!(id.group.as_str(), "" | "apps" | "batch") {
        return Vec::new();
    }
    let resource = client.resource(&entry.api_version(), &id.kind).await;
    let Ok(resource) = resource else {
        return Vec::new();
    };
    let at = At::new(&id.namespace, &id.name);
    let Ok(object) = client.get(&resource, at).await else {
        return Vec::new();
    };
    let mut causes: Vec<String> = of_workload(&object).into_iter().collect();
    let mut about = meta_text(&object, "uid").to_owned();
    if let Some(selector) = pod_selector(&object) {
        let selection = Selection::labelled(selector);
        let pods = read(client, &PODS, &id.namespace, &selection).await;
        causes.extend(of_pods(&pods));
        // Why pods do not get beyond their making is in events about them.
        if let Some(pod) = pods.iter().find(|pod| is_being_made(pod)) {
            about = meta_text(pod, "uid").to_owned();
        } else if !causes.is_empty() {
            about.clear();
        }
    }
    if !about.is_empty() {
        let selection = Selection {
            fields: format!("involvedObject.uid={about},type=Warning"),
            ..Selection::default()
        };
        let events = read(client, &EVENTS, &id.namespace, &selection).await;
        causes.extend(of_events(&events));
    }
    causes.truncate(TOLD);
    causes
}

async fn read(
    client: &Client,
    resource: &Resource,
    namespace: &str,
    selection: &Selection,
) -> Vec<Value> {
    let paging = Paging {
        limit: READ,
        ..Paging::default()
    };
    let listed = client.list(resource, Some(namespace), selection, &paging);
    listed.await.map(|list| list.items).unwrap_or_default()
}
