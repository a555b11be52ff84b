//! Which HelmReleases ask for one release.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use everflow_api::helm::HelmRelease;
use everflow_api::object::Object;
use everflow_release::names::ReleaseTarget;
use everflow_release::state::Claim;
use everflow_runtime::attempt::Context;
use everflow_runtime::store::Name;

use crate::resources;

/// The releases that all HelmReleases ask for, as far as the store has heard.
#[derive(Debug, Default)]
pub(super) struct Claims {
    index: Mutex<Index>,
}

#[derive(Debug, Default)]
struct Index {
    /// How often the store had changed when it was looked at last.
    changes: Option<u64>,
    known: BTreeMap<Name, Known>,
    by_release: BTreeMap<Place, Vec<Name>>,
}

/// A release's name and the namespace of its records.
type Place = (String, String);

#[derive(Debug, Clone)]
struct Known {
    revision: u64,
    place: Place,
    claim: Claim,
}

impl Claims {
    /// All that ask for a release, the object itself included.
    pub(super) fn of(
        &self,
        context: &Context,
        release: &ReleaseTarget,
        object: &Object<HelmRelease>,
    ) -> Vec<Claim> {
        let metadata = &object.metadata;
        let own = Claim {
            namespace: metadata.namespace().to_owned(),
            name: metadata.name.clone(),
            created: metadata.creation_timestamp,
        };
        // A release in another cluster has a name of its own there.
        if object.spec.kube_config.is_some() {
            return vec![own];
        }
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.refresh(context);
        let place = (release.name.clone(), release.storage_namespace.clone());
        let mut claims = vec![own];
        for name in index.by_release.get(&place).into_iter().flatten() {
            let is_own =
                (name.0.as_str(), name.1.as_str()) == (metadata.namespace(), &metadata.name);
            if let Some(known) = index.known.get(name).filter(|_| !is_own) {
                claims.push(known.claim.clone());
            }
        }
        claims
    }

    /// How many HelmReleases there are.
    pub(super) fn count(&self) -> usize {
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.known.len()
    }
}

impl Index {
    fn refresh(&mut self, context: &Context) {
        let Some(store) = context.store(&resources::HELM_RELEASES.kind) else {
            return;
        };
        let changes = store.changes();
        if self.changes == Some(changes) {
            return;
        }
        let all = store.list(None);
        let mut fresh: BTreeMap<Name, Known> = BTreeMap::new();
        for stored in all {
            let key = stored.key();
            let known = self.known.remove(&key);
            let known = known.filter(|known| known.revision == stored.revision);
            let known = known.or_else(|| read(&stored.value(), stored.revision));
            if let Some(known) = known {
                fresh.insert(key, known);
            }
        }
        self.by_release.clear();
        for (key, known) in &fresh {
            let place = known.place.clone();
            self.by_release.entry(place).or_default().push(key.clone());
        }
        self.known = fresh;
        self.changes = Some(changes);
    }
}

fn read(value: &everflow_json::Value, revision: u64) -> Option<Known> {
    let object = Object::<HelmRelease>::read(value).ok()?;
    if object.spec.kube_config.is_some() {
        return None;
    }
    let release = ReleaseTarget::of(&object);
    Some(Known {
        revision,
        place: (release.name, release.storage_namespace),
        claim: Claim {
            namespace: object.metadata.namespace().to_owned(),
            name: object.metadata.name.clone(),
            created: object.metadata.creation_timestamp,
        },
    })
}
