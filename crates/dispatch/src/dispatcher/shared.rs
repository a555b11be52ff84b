//! What was told lately, for the other replicas: a ConfigMap with a key for each event.
//!
//! Whoever takes over then tells nothing once more that was told a few seconds ago. Keys are added and removed by merge
//! patches, so that replicas do not write over each other.

use std::collections::BTreeMap;
use std::time::Duration;

use everflow_json::{Map, Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{At, Client, Patch, Resource, Selection, WriteOptions};
use everflow_runtime::reflector::Watched;
use everflow_runtime::store::{Keep, Store};
use everflow_time::Timestamp;

use crate::journal::{Identity, hex, unhex};
use crate::report::CONTROLLER;

/// The name of the ConfigMap.
const NAME: &str = "everflow-notifications-told";
const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
/// News is written at once when there was none for so long, and not more often than this.
const PAUSE: Duration = Duration::from_secs(1);
/// The newest so many are kept there.
const KEPT: usize = 1_000;

/// What replicas tell each other.
#[derive(Debug)]
pub(super) struct Shared {
    namespace: String,
    store: Store,
    /// For so long an event counts as told.
    memory: everflow_time::Duration,
    news: BTreeMap<Identity, Timestamp>,
    due: Option<Duration>,
    written: Option<Duration>,
}

/// What has to be watched.
pub(super) fn watched(namespace: &str) -> Watched {
    Watched {
        resource: CONFIG_MAPS,
        namespace: Some(namespace.to_owned()),
        selection: Selection {
            fields: format!("metadata.name={NAME}"),
            ..Selection::default()
        },
        keep: Keep::default(),
    }
}

impl Shared {
    pub(super) fn new(namespace: &str, store: Store, memory: everflow_time::Duration) -> Self {
        Shared {
            namespace: namespace.to_owned(),
            store,
            memory,
            news: BTreeMap::new(),
            due: None,
            written: None,
        }
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// What is there.
    pub(super) fn told(&self) -> Vec<(Timestamp, Identity)> {
        let Some(cached) = self.store.get(&self.namespace, NAME) else {
            return Vec::new();
        };
        let value = cached.value();
        let data = value.get("data").and_then(Value::as_object);
        let told = data.into_iter().flatten().filter_map(|(key, at)| {
            let seconds = at.as_str()?.parse().ok()?;
            Some((Timestamp::from_seconds(seconds), unhex(key)?))
        });
        let mut told: Vec<_> = told.collect();
        told.sort_unstable();
        told
    }

    /// Notes that an event was told here.
    pub(super) fn note(&mut self, identity: Identity, at: Timestamp, now: Duration) {
        self.news.insert(identity, at);
        let due = self.written.map_or(now, |written| now.max(written + PAUSE));
        self.due.get_or_insert(due);
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        self.due
    }

    /// The patch that is due: the news, and what is too old or too much.
    pub(super) fn patch(&mut self, now: Duration, wall: Timestamp) -> Option<Value> {
        self.due.take_if(|due| *due <= now)?;
        self.written = Some(now);
        let there = self.told();
        let news = std::mem::take(&mut self.news);
        let surplus = (there.len() + news.len()).saturating_sub(KEPT);
        let mut data = Map::new();
        for (index, (at, identity)) in there.iter().enumerate() {
            if index < surplus || wall.since(*at) >= self.memory {
                data.insert(hex(identity).into(), Value::Null);
            }
        }
        for (identity, at) in news {
            data.insert(hex(&identity).into(), at.seconds.to_string().into());
        }
        Some(Value::Object(data))
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// Writes a patch. That it is not written means that another replica may tell these events once more.
pub(super) async fn write(client: Client, namespace: String, data: Value) {
    let options = WriteOptions::by(CONTROLLER).without_managed_fields();
    let at = At::new(&namespace, NAME);
    let patch = Patch::Merge(json!({ "data": data }));
    if let Err(Error::NotFound(_)) = client.patch(&CONFIG_MAPS, at, &patch, &options).await {
        let Value::Object(data) = data else {
            return;
        };
        let data: Map = data.into_iter().filter(|(_, at)| !at.is_null()).collect();
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": namespace}, "data": Value::Object(data),
        });
        let _ = client
            .create(&CONFIG_MAPS, &namespace, &object, &options)
            .await;
    }
}
