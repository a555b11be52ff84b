//! What is known of applied objects, and who is woken when someone touches them.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everflow_api::names::label;
use everflow_apply::ObjectId;
use everflow_apply::effects::{AppliedCache, Live, LiveState};
use everflow_apply::inventory::Entry;
use everflow_json::Value;
use everflow_runtime::attempt::Context;
use everflow_runtime::client::{Resource, Selection};
use everflow_runtime::queue::WakeOn;
use everflow_runtime::reflector::Watched;
use everflow_runtime::store::{CachedObject, Change, Keep, Store};

use crate::Fingerprint;

/// For so long after the server was heard what it said counts.
const FRESH: Duration = Duration::from_secs(180);

/// The labels that say whose an object is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnerLabels {
    /// The name of the owner.
    pub(crate) name: &'static str,
    /// Its namespace.
    pub(crate) namespace: &'static str,
}

impl OwnerLabels {
    /// Those of Kustomizations.
    pub(crate) const KUSTOMIZATION: OwnerLabels = OwnerLabels {
        name: label::KUSTOMIZATION_NAME,
        namespace: label::KUSTOMIZATION_NAMESPACE,
    };
    /// Those of HelmReleases.
    pub(crate) const HELM_RELEASE: OwnerLabels = OwnerLabels {
        name: label::HELM_RELEASE_NAME,
        namespace: label::HELM_RELEASE_NAMESPACE,
    };
}

/// What each owner has applied, by namespace and name.
#[derive(Debug)]
pub(crate) struct AppliedCaches {
    labels: OwnerLabels,
    all: Mutex<BTreeMap<(String, String), Remembered>>,
    /// How often the server had gone back when the store of each kind was looked at last.
    rewinds: Mutex<BTreeMap<Resource, u64>>,
}

#[derive(Debug)]
struct Remembered {
    /// The cluster and account it was applied with.
    target: Fingerprint,
    memory: Arc<AppliedCache>,
}

impl AppliedCaches {
    pub(crate) fn new(labels: OwnerLabels) -> Self {
        AppliedCaches {
            labels,
            all: Mutex::default(),
            rewinds: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Remembered>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a Kustomization has applied to a cluster; of another cluster nothing is known.
    pub(crate) fn of(&self, namespace: &str, name: &str, target: Fingerprint) -> Arc<AppliedCache> {
        let mut all = self.lock();
        let key = (namespace.to_owned(), name.to_owned());
        let fresh = || Remembered {
            target,
            memory: Arc::default(),
        };
        let remembered = all.entry(key).or_insert_with(fresh);
        if remembered.target != target {
            *remembered = fresh();
        }
        remembered.memory.clone()
    }

    /// Nothing that is remembered counts once the server was found to have gone back.
    fn note_rewinds(&self, resource: &Resource, rewinds: u64) {
        let mut noted = self.rewinds.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.get(resource) == Some(&rewinds) {
            return;
        }
        noted.insert(resource.clone(), rewinds);
        if rewinds > 0 {
            let all = self.lock();
            all.values().for_each(|known| known.memory.invalidate());
        }
    }

    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        self.lock().remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Whether a change of an object that has an owner's labels matters to that owner.
    fn matter(&self, resource: &Resource, change: &Change) -> bool {
        let owner = |stored: &Option<Arc<CachedObject>>| self.owner(&stored.as_ref()?.value());
        let (before, now) = (owner(&change.old), owner(&change.new));
        let new = OnceCell::new();
        let new = || new.get_or_init(|| change.new.as_ref().map(|stored| stored.value()));
        [&before, &now].into_iter().flatten().any(|owner| {
            // Another Kustomization has it now: they do not fight between intervals.
            if now.as_ref().is_some_and(|now| now != owner) {
                return false;
            }
            let memory = self.lock().get(owner).map(|known| known.memory.clone());
            let id = ObjectId {
                namespace: change.name.0.to_string(),
                name: change.name.1.to_string(),
                group: resource.group.to_string(),
                kind: resource.kind.to_string(),
            };
            // What is remembered is doubted when the attempt looks at the store.
            memory.is_some_and(|memory| change.goes_back() || memory.matters(&id, new().as_ref()))
        })
    }

    fn owner(&self, object: &Value) -> Option<(String, String)> {
        let labels = object.pointer("/metadata/labels")?;
        let text = |key: &str| labels.get(key)?.as_str().map(str::to_owned);
        Some((text(self.labels.namespace)?, text(self.labels.name)?))
    }
}

/// Kinds whose health is in their status and changes often while they are waited for: they are
/// watched with it, so that nobody has to ask at each change.
pub(crate) fn tells_health(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet") | ("batch", "Job")
    )
}

/// The collection of an applied object, if the server has it.
pub(crate) async fn resource_of(context: &Context, entry: &Entry) -> Option<Resource> {
    let api_version = entry.api_version();
    let found = context.client.resource(&api_version, &entry.id.kind).await;
    found.ok()
}

/// Watches applied objects: one watch for each kind, whoever owns them, for its metadata or also its
/// health.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveView<'a> {
    pub(crate) context: &'a Context,
    pub(crate) caches: &'a Arc<AppliedCaches>,
    /// Whether the objects are in this cluster.
    pub(crate) local: bool,
}

impl LiveView<'_> {
    /// What is watched of a kind.
    pub(crate) fn watched(&self, resource: &Resource) -> Watched {
        let selection = Selection::labelled(self.caches.labels.name);
        let (selection, keep) = match tells_health(&resource.group, &resource.kind) {
            true => (selection, Keep::WithoutTemplates),
            false => (selection.metadata(), Keep::Metadata),
        };
        Watched {
            resource: resource.clone(),
            namespace: None,
            selection,
            keep,
        }
    }

    fn store(&self, resource: &Resource) -> Store {
        let (caches, kind) = (self.caches.clone(), resource.clone());
        let matters = Arc::new(move |change: &Change| caches.matter(&kind, change));
        let watched = self.watched(resource);
        let store = self.context.watch_where(&watched, matters);
        self.caches.note_rewinds(resource, store.rewinds());
        store
    }

    /// Has the kinds of these objects watched, and says what wakes their owner.
    pub(crate) async fn watch(&self, entries: &[Entry], keep: &mut Vec<Watched>) -> Vec<WakeOn> {
        let mut wakes = Vec::with_capacity(entries.len());
        if !self.local {
            return wakes;
        }
        for entry in entries {
            let Some(resource) = resource_of(self.context, entry).await else {
                continue;
            };
            self.store(&resource);
            let watched = self.watched(&resource);
            if !keep.contains(&watched) {
                keep.push(watched);
            }
            let namespace = match resource.namespaced {
                true => entry.id.namespace.as_str(),
                false => "",
            };
            wakes.push(resource.wake_on(namespace, &entry.id.name));
        }
        wakes
    }
}

impl LiveView<'_> {
    /// Whether a watch that has begun tells the health of an object.
    pub(crate) async fn tells(&self, entry: &Entry) -> bool {
        let id = &entry.id;
        if !tells_health(&id.group, &id.kind) {
            return false;
        }
        let resource = resource_of(self.context, entry).await;
        resource.is_some_and(|resource| {
            self.metadata(&resource, &id.namespace, &id.name) != LiveState::Unknown
        })
    }
}

impl Live for LiveView<'_> {
    fn metadata(&self, resource: &Resource, namespace: &str, name: &str) -> LiveState {
        if !self.local {
            return LiveState::Unknown;
        }
        let store = self.store(resource);
        // Watches end and begin anew every two minutes: a store that is older has lost touch.
        if !store.is_synced() || store.age().is_none_or(|age| age > FRESH) {
            return LiveState::Unknown;
        }
        let found: Option<Arc<CachedObject>> = store.get(namespace, name);
        match found {
            Some(stored) => LiveState::Present(stored.value()),
            None => LiveState::Absent,
        }
    }
}
