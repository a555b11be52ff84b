//! Which kinds the server knows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use everflow_json::Value;
use http::Method;

use super::{Client, Resource};
use crate::error::Error;

/// What was learnt so far, by group and version.
#[derive(Debug, Default)]
pub(super) struct Discovery {
    versions: Mutex<BTreeMap<String, Arc<Vec<Resource>>>>,
}

impl Discovery {
    fn known(&self, version: &str) -> Option<Arc<Vec<Resource>>> {
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.get(version).cloned()
    }

    fn learn(&self, version: &str, resources: Arc<Vec<Resource>>) {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.insert(version.to_owned(), resources);
    }

    fn forget(&self, version: &str) {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.remove(version);
    }
}

impl Client {
    /// The collection of a kind in a version. What is not known is asked for, so a kind that has
    /// just come is found; a kind that has gone is noticed by [`Client::forget_version`].
    pub async fn resource(&self, api_version: &str, kind: &str) -> Result<Resource, Error> {
        let find = |resources: &[Resource]| {
            let mut matching = resources.iter().filter(|resource| resource.kind == kind);
            matching.next().cloned()
        };
        let discovery = &self.shared.discovery;
        if let Some(resources) = discovery.known(api_version)
            && let Some(resource) = find(&resources)
        {
            return Ok(resource);
        }
        let missing = || Error::NoKind {
            kind: kind.to_owned(),
            version: api_version.to_owned(),
        };
        let resources = match self.read_version(api_version).await {
            Ok(resources) => resources,
            Err(Error::NotFound(_)) => {
                discovery.forget(api_version);
                return Err(missing());
            }
            Err(error) => return Err(error),
        };
        let found = find(&resources);
        discovery.learn(api_version, Arc::new(resources));
        found.ok_or_else(missing)
    }

    /// The collections of a version that are known now or can be read.
    pub async fn resources(&self, api_version: &str) -> Result<Arc<Vec<Resource>>, Error> {
        if let Some(resources) = self.shared.discovery.known(api_version) {
            return Ok(resources);
        }
        let resources = Arc::new(self.read_version(api_version).await?);
        self.shared.discovery.learn(api_version, resources.clone());
        Ok(resources)
    }

    /// Forgets what is known of a version: a definition came, changed or went.
    pub fn forget_version(&self, api_version: &str) {
        self.shared.discovery.forget(api_version);
    }

    /// All versions that the server serves, the preferred one of each group first.
    pub async fn versions(&self) -> Result<Vec<String>, Error> {
        let mut versions = vec!["v1".to_owned()];
        let groups = self
            .ask(Method::GET, "/apis", "application/json", None)
            .await?;
        for group in groups["groups"].as_array().into_iter().flatten() {
            let preferred = group["preferredVersion"]["groupVersion"].as_str();
            let served = group["versions"].as_array().into_iter().flatten();
            let others = served.filter_map(|version| version["groupVersion"].as_str());
            versions.extend(preferred.map(str::to_owned));
            versions.extend(
                others
                    .filter(|version| Some(*version) != preferred)
                    .map(str::to_owned),
            );
        }
        Ok(versions)
    }

    async fn read_version(&self, api_version: &str) -> Result<Vec<Resource>, Error> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let path = match group.is_empty() {
            true => format!("/api/{version}"),
            false => format!("/apis/{group}/{version}"),
        };
        let answer = self
            .ask(Method::GET, &path, "application/json", None)
            .await?;
        let listed = answer["resources"].as_array().into_iter().flatten();
        let text =
            |resource: &Value, field: &str| resource[field].as_str().unwrap_or_default().to_owned();
        Ok(listed
            .filter(|resource| !text(resource, "name").contains('/'))
            .map(|resource| Resource {
                group: group.into(),
                version: version.into(),
                plural: text(resource, "name").into(),
                kind: text(resource, "kind").into(),
                namespaced: resource["namespaced"].as_bool().unwrap_or_default(),
            })
            .collect())
    }
}
