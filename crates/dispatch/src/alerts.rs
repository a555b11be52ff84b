//! The Alerts, prepared for many events and found by what they may match.

use std::collections::BTreeMap;
use std::sync::Arc;

use everflow_api::Object;
use everflow_api::notification::{Alert, Provider};
use everflow_json::Value;
use everflow_notify::Event;
use everflow_notify::alert::Matcher;
use everflow_runtime::store::{CachedObject, Store};

/// An Alert, ready to match.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) object: Object<Alert>,
    pub(crate) matcher: Matcher,
    uid: String,
}

impl Prepared {
    fn read(cached: &CachedObject) -> Option<Self> {
        let object: Object<Alert> = Object::read(&cached.value()).ok()?;
        Some(Prepared {
            matcher: Matcher::new(&object),
            uid: cached.uid.to_string(),
            object,
        })
    }

    /// `NAMESPACE/NAME`.
    pub(crate) fn name(&self) -> String {
        name_of(self.object.metadata.namespace(), &self.object.metadata.name)
    }

    fn is_of(&self, cached: &CachedObject) -> bool {
        self.uid == cached.uid.as_str() && self.object.metadata.generation == cached.generation
    }
}

pub(crate) fn name_of(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// Kind and namespace of objects.
type Place = (String, String);

/// All Alerts by the kinds and namespaces that they look at.
#[derive(Debug, Default)]
pub(crate) struct AlertIndex {
    all: BTreeMap<String, Arc<Prepared>>,
    places: BTreeMap<Place, Vec<Arc<Prepared>>>,
}

impl AlertIndex {
    /// Takes over what the store has; whatever has not changed is kept.
    pub(crate) fn refresh(&mut self, store: &Store) {
        let before = std::mem::take(&mut self.all);
        self.places.clear();
        for cached in store.list(None) {
            let name = name_of(&cached.namespace, &cached.name);
            let known = before.get(&name).filter(|known| known.is_of(&cached));
            let prepared = known
                .cloned()
                .or_else(|| Prepared::read(&cached).map(Arc::new));
            let Some(prepared) = prepared.filter(|_| !cached.deleting) else {
                continue;
            };
            for (kind, namespace) in prepared.matcher.places() {
                let place = (kind.to_owned(), namespace.to_owned());
                let found = self.places.entry(place).or_default();
                if !found.iter().any(|other| Arc::ptr_eq(other, &prepared)) {
                    found.push(prepared.clone());
                }
            }
            self.all.insert(name, prepared);
        }
    }

    /// The Alerts that an event may match.
    pub(crate) fn candidates(&self, event: &Event) -> Vec<Arc<Prepared>> {
        let place = (
            event.involved.kind.clone(),
            event.involved.namespace.clone(),
        );
        self.places.get(&place).cloned().unwrap_or_default()
    }

    /// An Alert by `NAMESPACE/NAME`.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Prepared>> {
        self.all.get(name)
    }
}

/// The Provider of an Alert, or why there is none.
pub(crate) fn provider(store: &Store, alert: &Object<Alert>) -> Result<Object<Provider>, String> {
    let (namespace, name) = (alert.metadata.namespace(), &alert.spec.provider_ref.name);
    let cached = store
        .get(namespace, name)
        .ok_or_else(|| format!("Provider.notification.toolkit.fluxcd.io {name:?} not found"))?;
    Object::read(&cached.value()).map_err(|error| error.to_string())
}

/// The labels of an object as text.
pub(crate) fn labels(value: &Value) -> BTreeMap<String, String> {
    let all = value.as_object().into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned())))
        .collect()
}
