//! What Kustomizations and HelmReleases of a world have deployed, as manifests.

use std::collections::{BTreeMap, BTreeSet};

use everflow_api::inventory::ObjectId;
use everflow_api::view;
use everflow_controllers::resources;
use everflow_json::Value;
use everflow_release::manifest::objects;
use everflow_release::record::StoredRecord;
use everflow_runtime::client::At;

use super::World;
use super::look::Detail;
use crate::Error;
use crate::golden::{self, Rendered};

/// The event of hooks that run only where tests are asked for.
const TEST: &str = "test";

/// The manifests of everything that is deployed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifests {
    /// By object.
    pub all: BTreeMap<ObjectId, Value>,
    /// What several owners deploy.
    pub contested: BTreeSet<ObjectId>,
}

impl World {
    /// What each Kustomization and each HelmRelease rendered, as it was applied.
    pub async fn rendered(&self) -> Result<Vec<Rendered>, Error> {
        let objects = self.flux_objects().await?;
        let deployed = self.deployed(&objects, Detail::Everything).await;
        let hooks = self.hooks(&objects).await;
        let owners = golden::by_owner(&objects, &deployed, &hooks);
        Ok(golden::render(&owners))
    }

    /// The manifests of everything that is deployed, hooks of releases among them.
    pub async fn manifests(&self) -> Result<Manifests, Error> {
        let objects = self.flux_objects().await?;
        let deployed = self.deployed(&objects, Detail::Everything).await;
        let hooks = self.hooks(&objects).await;
        let mut manifests = Manifests::default();
        for (_, owned) in golden::by_owner(&objects, &deployed, &hooks) {
            for (id, manifest) in owned {
                if manifests.all.insert(id.clone(), manifest).is_some() {
                    manifests.contested.insert(id);
                }
            }
        }
        Ok(manifests)
    }

    /// Charts from sources in the cluster that are made anew with a new version only: which version, and the digest
    /// of what is in it.
    pub async fn versioned_charts(&self) -> Result<BTreeMap<ObjectId, (String, String)>, Error> {
        let objects = self.flux_objects().await?;
        let charts = objects.iter().filter(|it| it["kind"] == "HelmChart");
        let charts = charts.filter(|chart| {
            let spec = &chart["spec"];
            spec["sourceRef"]["kind"] != "HelmRepository" && spec["reconcileStrategy"] != "Revision"
        });
        let known = charts.filter_map(|chart| {
            let revision = view::artifact_revision(chart)?.to_owned();
            let digest = view::artifact_digest(chart)?.to_owned();
            Some((ObjectId::of(chart), (revision, digest)))
        });
        Ok(known.collect())
    }

    /// The HelmReleases with hooks that are Jobs or Pods, in which nothing runs here.
    pub async fn hooks_that_did_not_run(&self) -> Result<Vec<String>, Error> {
        let objects = self.flux_objects().await?;
        let runs = |hook: &Value| hook["kind"] == "Job" || hook["kind"] == "Pod";
        let hooks = self.hooks(&objects).await.into_iter();
        let with_runs = hooks.filter(|(_, hooks)| hooks.iter().any(runs));
        Ok(with_runs.map(|(release, _)| release.subject()).collect())
    }

    /// The hooks of releases that run, as the records of the releases have them.
    async fn hooks(&self, objects: &[Value]) -> BTreeMap<ObjectId, Vec<Value>> {
        let mut hooks = BTreeMap::new();
        for release in objects.iter().filter(|it| it["kind"] == "HelmRelease") {
            if let Some(record) = self.record(release).await {
                let tests = release["spec"]["test"]["enable"] == true;
                hooks.insert(ObjectId::of(release), self.hooks_of(&record, tests).await);
            }
        }
        hooks
    }

    /// The newest record of a HelmRelease.
    pub(super) async fn record(&self, release: &Value) -> Option<StoredRecord> {
        let newest = release.pointer("/status/history/0")?;
        let (name, version) = (newest["name"].as_str()?, newest["version"].as_i64()?);
        let namespace = release.pointer("/status/storageNamespace")?.as_str()?;
        let secret = format!("sh.helm.release.v1.{name}.v{version}");
        let at = At::new(namespace, &secret);
        let secret = self.client.get(&resources::SECRETS, at).await;
        StoredRecord::of(&secret.ok()?).ok()
    }

    async fn hooks_of(&self, record: &StoredRecord, tests: bool) -> Vec<Value> {
        let release = &record.release;
        let mut found = Vec::new();
        for hook in &release.hooks {
            let is_only_test = hook.hook.events.iter().all(|event| event == TEST);
            if is_only_test && !tests {
                continue;
            }
            // What cannot be read was told when the release was made.
            let read = objects(
                &hook.hook.manifest,
                &release.namespace,
                &|_: &str, _: &str| Some(true),
            );
            for mut object in read.unwrap_or_default() {
                let text = |field: &str| object[field].as_str().unwrap_or_default();
                let resource = self.client.resource(text("apiVersion"), text("kind")).await;
                if resource.is_ok_and(|resource| !resource.namespaced)
                    && let Some(metadata) = object["metadata"].as_object_mut()
                {
                    metadata.remove("namespace");
                }
                if !view::name(&object).is_empty() {
                    found.push(object);
                }
            }
        }
        found
    }
}
