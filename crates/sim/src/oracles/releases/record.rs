//! Records of releases, as the rules look at them.

use std::collections::BTreeMap;
use std::sync::Arc;

use everflow_api::helm::HelmRelease;
use everflow_api::inventory::ObjectId;
use everflow_api::object::Object;
use everflow_cluster::store::Store;
use everflow_json::Value;
use everflow_release::action::Event;
use everflow_release::manifest::objects;
use everflow_release::names::ReleaseTarget;
use everflow_release::record::mark::{Progress, Stage};
use everflow_release::record::{Status, StoredRecord, Summary};

/// The table of Secrets.
pub const SECRETS: &str = "/secrets";
/// The table of HelmReleases.
pub const HELM_RELEASES: &str = "helm.toolkit.fluxcd.io/helmreleases";

/// A hook of a revision.
#[derive(Debug, Clone)]
pub struct Hook {
    /// What it creates.
    pub id: ObjectId,
    /// When it runs.
    pub events: Vec<String>,
    /// How it ran last.
    pub phase: String,
}

impl Hook {
    /// Whether it does something that ends.
    pub fn runs(&self) -> bool {
        matches!(self.id.kind.as_str(), "Job" | "Pod")
    }

    /// Whether it runs at an event.
    pub fn is_of(&self, event: Event) -> bool {
        self.events.iter().any(|name| name == event.as_str())
    }
}

/// A revision of a release in storage.
#[derive(Debug, Clone)]
pub struct Record {
    /// The Secret, as NAMESPACE/NAME.
    pub secret: String,
    /// The release's name.
    pub name: String,
    /// The namespace of its objects.
    pub namespace: String,
    /// Which revision.
    pub version: i64,
    /// How it stands.
    pub status: Status,
    /// The name of the chart.
    pub chart: String,
    /// Its version.
    pub chart_version: String,
    /// The digest of the values.
    pub config: String,
    /// The digest of the manifest.
    pub manifest: String,
    /// Whether it was rolled back to.
    pub is_rollback: bool,
    /// The HelmRelease that it was made for.
    pub made_for: Option<(String, String)>,
    /// The action that is under way.
    pub progress: Option<Progress>,
    /// Its hooks.
    pub hooks: Vec<Hook>,
    /// Its objects.
    pub objects: Vec<ObjectId>,
}

/// Everything is in a namespace; who looks for objects of the whole cluster takes either.
fn everywhere(_: &str, _: &str) -> Option<bool> {
    Some(true)
}

fn ids(manifest: &str, namespace: &str) -> Vec<ObjectId> {
    let found = objects(manifest, namespace, &everywhere).unwrap_or_default();
    found.iter().map(ObjectId::of).collect()
}

impl Record {
    /// Of a Secret; none when it is no record that can be read.
    pub fn of(secret: &Value) -> Option<Self> {
        if secret["type"] != "helm.sh/release.v1" {
            return None;
        }
        let stored = StoredRecord::of(secret).ok()?;
        let (release, place) = (&stored.release, &stored.place);
        let summary = Summary::of(release);
        let hooks = release.hooks.iter().map(|hook| Hook {
            id: ids(&hook.hook.manifest, &release.namespace)
                .into_iter()
                .next()
                .unwrap_or_default(),
            events: hook.hook.events.clone(),
            phase: hook.phase.clone(),
        });
        let made_for = match (&place.made_from, &summary.origin) {
            (Some(from), _) => Some((from.namespace.clone(), from.name.clone())),
            (None, origin) => origin.clone(),
        };
        Some(Record {
            secret: place.secret.clone(),
            name: release.name.clone(),
            namespace: release.namespace.clone(),
            version: release.version,
            status: summary.status,
            is_rollback: summary.info.rollback_revision > 0,
            chart: summary.chart_name,
            chart_version: summary.chart_version,
            config: summary.config_digest,
            manifest: summary.manifest_digest,
            made_for,
            progress: place.progress.clone(),
            hooks: hooks.collect(),
            objects: ids(&release.manifest, &release.namespace),
        })
    }

    /// Whether an action is under way: on the revision itself, or its tests.
    pub fn is_under_way(&self) -> bool {
        let failed = self.stage() == Some(Stage::Failed);
        !failed && (self.status.is_in_progress() || self.progress.is_some())
    }

    /// How far the action has come.
    pub fn stage(&self) -> Option<Stage> {
        self.progress.as_ref().map(|progress| progress.stage)
    }

    /// Whether it can be rolled back to.
    pub fn is_target(&self) -> bool {
        matches!(self.status, Status::Deployed | Status::Superseded)
    }

    /// Whether an object is of the revision.
    pub fn has(&self, id: &ObjectId) -> bool {
        self.objects.iter().any(|own| {
            let same = (&own.name, &own.group, &own.kind) == (&id.name, &id.group, &id.kind);
            same && (id.namespace.is_empty() || own.namespace == id.namespace)
        })
    }

    /// What it is made of.
    pub fn content(&self) -> (&str, &str, &str, &str) {
        let content = (&self.chart, &self.chart_version, &self.config);
        (content.0, content.1, content.2, &self.manifest)
    }

    /// The namespace of the Secret.
    pub fn storage(&self) -> &str {
        self.secret.split('/').next().unwrap_or_default()
    }
}

/// Records that were read, by Secret and revision of the store.
#[derive(Debug, Default)]
pub struct Records {
    read: BTreeMap<String, (u64, Option<Arc<Record>>)>,
}

impl Records {
    /// The records in a namespace, the oldest first; of one release, or of all where no name is given.
    pub fn list(&mut self, store: &Store, storage: &str, name: &str) -> Vec<Arc<Record>> {
        let prefix = match storage.is_empty() {
            true => String::new(),
            false => format!("{storage}/"),
        };
        let mut found = Vec::new();
        for stored in store.list(SECRETS, &prefix, None, 0).items {
            let metadata = &stored.value["metadata"];
            let labels = &metadata["labels"];
            let is_of = name.is_empty() || labels["name"] == name;
            if labels["owner"] != "helm" || !is_of {
                continue;
            }
            let text = |field: &str| metadata[field].as_str().unwrap_or_default();
            let key = format!("{}/{}", text("namespace"), text("name"));
            let known = self.read.get(&key);
            let record = match known.filter(|(revision, _)| *revision == stored.revision) {
                Some((_, record)) => record.clone(),
                None => {
                    let record = Record::of(&stored.value).map(Arc::new);
                    self.read.insert(key, (stored.revision, record.clone()));
                    record
                }
            };
            found.extend(record);
        }
        found.sort_by_key(|record| record.version);
        found
    }
}

/// A HelmRelease in the store.
pub fn helm_release(store: &Store, namespace: &str, name: &str) -> Option<Object<HelmRelease>> {
    let stored = store.get(HELM_RELEASES, &format!("{namespace}/{name}"))?;
    Object::<HelmRelease>::read(&stored.value).ok()
}

/// The records of what a HelmRelease asks for.
pub fn of_object(
    records: &mut Records,
    store: &Store,
    object: &Object<HelmRelease>,
) -> Vec<Arc<Record>> {
    let target = ReleaseTarget::of(object);
    records.list(store, &target.storage_namespace, &target.name)
}
