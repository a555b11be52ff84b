//! Why objects are not healthy, for those who read the status. Only failures pay for looking.

use std::time::Duration;

use everflow_apply::health::causes::{
    is_being_made, of_events, of_pods, of_workload, pod_selector,
};
use everflow_apply::health::{Assessment, Health};
use everflow_apply::inventory::Entry;
use everflow_runtime::client::{At, Paging, Resource, Selection};
use everflow_runtime::events::EVENTS;
use serde_json::Value;

use super::attempt::Attempt;
use super::target::Target;

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
/// So many objects are looked into, and so many causes are told of each.
const LOOKED_INTO: usize = 5;
const TOLD: usize = 3;
/// So many pods or events are looked at.
const READ: usize = 50;
/// No longer than that is looked for causes: the failure itself must be told.
const PATIENCE: Duration = Duration::from_secs(10);

impl Attempt<'_> {
    /// What is known of the causes, a line for each object. What may not be read is not told.
    pub(super) async fn causes(
        &self,
        open: &[&(Entry, Assessment)],
        target: &Target,
    ) -> Vec<String> {
        let clock = &*self.context.env.clock;
        let until = clock.elapsed() + PATIENCE;
        let mut lines = Vec::new();
        for (entry, assessed) in open.iter().take(LOOKED_INTO) {
            let mut parts = match assessed.health {
                // Is said already.
                Health::Unknown | Health::NotFound => continue,
                _ if assessed.message.is_empty() => Vec::new(),
                _ => vec![assessed.message.clone()],
            };
            let left = until.saturating_sub(clock.elapsed());
            let deeper = everflow_env::within(clock, left, deeper(entry, target));
            parts.extend(deeper.await.into_iter().flatten());
            if !parts.is_empty() {
                lines.push(format!("{}: {}", entry.id.subject(), parts.join("; ")));
            }
        }
        lines
    }
}

/// What the pods of a workload, or the events about an object of Kubernetes' own kinds, say.
async fn deeper(entry: &Entry, target: &Target) -> Vec<String> {
    let id = &entry.id;
    if !matches!(id.group.as_str(), "" | "apps" | "batch") {
        return Vec::new();
    }
    let client = &target.client;
    let resource = client.resource(&entry.api_version(), &id.kind).await;
    let Ok(resource) = resource else {
        return Vec::new();
    };
    let at = At::new(&id.namespace, &id.name);
    let Ok(object) = client.get(&resource, at).await else {
        return Vec::new();
    };
    let mut causes: Vec<String> = of_workload(&object).into_iter().collect();
    let mut about = uid(&object).to_owned();
    if let Some(selector) = pod_selector(&object) {
        let pods = read(target, &PODS, &id.namespace, Selection::labelled(selector)).await;
        causes.extend(of_pods(&pods));
        // Why pods do not get beyond their making is in events about them.
        if let Some(pod) = pods.iter().find(|pod| is_being_made(pod)) {
            about = uid(pod).to_owned();
        } else if !causes.is_empty() {
            about.clear();
        }
    }
    if !about.is_empty() {
        let selection = Selection {
            fields: format!("involvedObject.uid={about},type=Warning"),
            ..Selection::default()
        };
        let events = read(target, &EVENTS, &id.namespace, selection).await;
        causes.extend(of_events(&events));
    }
    causes.truncate(TOLD);
    causes
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

async fn read(
    target: &Target,
    resource: &Resource,
    namespace: &str,
    selection: Selection,
) -> Vec<Value> {
    let paging = Paging {
        limit: READ,
        ..Paging::default()
    };
    let listed = target
        .client
        .list(resource, Some(namespace), &selection, &paging);
    listed.await.map(|list| list.items).unwrap_or_default()
}
