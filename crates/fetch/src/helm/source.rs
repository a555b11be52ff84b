//! Where charts come from.

use std::fmt;
use std::sync::{Arc, OnceLock};

use everflow_env::{BoxFuture, Env};
use everflow_helm::index::{
    SelectError, StoredVersions, parse_version, select_tag, select_version,
};
use tokio::sync::Mutex;

use super::cache::IndexCache;
use super::index::versions_in;
use super::{HelmClient, LoadedIndex, Reason, address, failed};
use crate::archive::{Algorithm, Digest, digest_of};
use crate::oci::{self, OciClient};
use crate::{Deadline, Error};

/// A version of a chart that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The name of the chart.
    pub name: String,
    /// The version, or for OCI the tag.
    pub version: String,
    /// Where to get it; none when the index does not say.
    pub url: Option<String>,
    /// The digest of the archive, when the index has one.
    pub digest: String,
    /// The manifest to pull, once its signature was found to be right.
    pub pinned: Option<Digest>,
}

/// What came of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verified {
    /// Nobody asked.
    NotAsked,
    /// It is right.
    Yes,
}

/// Checks signatures of charts in registries.
pub trait ChartVerifier: Send + Sync + fmt::Debug {
    /// An error unless a signature of the manifest is right.
    fn verify<'a>(
        &'a self,
        client: &'a OciClient,
        manifest: &'a Digest,
        deadline: &'a Deadline,
    ) -> BoxFuture<'a, Result<(), Error>>;
}

/// A repository of charts. The reasons of its errors are Flux's: `InvalidChartReference` when the
/// fault lies in what was asked for, else `ChartPullError`.
pub trait ChartSource: Send + Sync + fmt::Debug {
    /// The version of a chart that is meant by a version or range.
    fn choose<'a>(
        &'a self,
        name: &'a str,
        wanted: &'a str,
        deadline: &'a Deadline,
    ) -> BoxFuture<'a, Result<Chosen, Error>>;

    /// Checks the signature of a version that was chosen, and pins it. Repositories behind HTTP
    /// cannot, and neither can Flux's.
    fn verify<'a>(
        &'a self,
        chosen: Chosen,
        deadline: &'a Deadline,
    ) -> BoxFuture<'a, Result<Chosen, Error>> {
        let _ = (chosen, deadline);
        Box::pin(async { Err(failed(Reason::Verification.name(), "not implemented")) })
    }

    /// The archive of a version that was chosen.
    fn download<'a>(
        &'a self,
        chosen: &'a Chosen,
        deadline: &'a Deadline,
    ) -> BoxFuture<'a, Result<Arc<Pulled>, Error>>;
}

/// An archive that was brought here, and what was found out about it.
#[derive(Debug)]
pub struct Pulled {
    /// The archive.
    pub bytes: Vec<u8>,
    /// Its digest, once it was found to be a chart.
    sound: OnceLock<Digest>,
}

impl Pulled {
    /// An archive that nobody has looked into yet.
    pub fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Pulled {
            bytes,
            sound: OnceLock::new(),
        })
    }

    /// The digest of an archive that `check` finds to be a chart; it is asked once.
    pub(super) fn checked(
        &self,
        algorithm: Algorithm,
        check: impl FnOnce(&[u8]) -> Result<(), Error>,
    ) -> Result<Digest, Error> {
        if let Some(digest) = self.sound.get()
            && digest.algorithm() == algorithm
        {
            return Ok(digest.clone());
        }
        check(&self.bytes)?;
        let digest = digest_of(algorithm, &self.bytes);
        Ok(self.sound.get_or_init(|| digest.clone()).clone())
    }
}

/// Finds the repository that a dependency names.
pub trait Repositories: Send + Sync + fmt::Debug {
    /// The repository at an address, which is normalized. It is asked once per address and build.
    fn at<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Arc<dyn ChartSource>, Error>>;
}

/// A repository behind HTTP.
#[derive(Debug)]
pub struct HttpCharts {
    client: HelmClient,
    algorithm: Algorithm,
    /// The path of a stored index; without one it is fetched when it is needed.
    stored: Option<String>,
    fetched: Mutex<Option<LoadedIndex>>,
    /// And who asks it.
    cache: Option<(Arc<IndexCache>, String)>,
}

impl HttpCharts {
    /// The charts of a repository whose index lies in the store, or is yet to be fetched.
    pub fn new(client: HelmClient, stored: Option<String>) -> Self {
        HttpCharts {
            client,
            algorithm: Algorithm::default(),
            stored,
            fetched: Mutex::new(None),
            cache: None,
        }
    }

    /// Asks a cache before a stored index. Only the same `requester` finds there what was found for it.
    pub fn with_cache(mut self, cache: Arc<IndexCache>, requester: &str) -> Self {
        self.cache = Some((cache, requester.to_owned())).filter(|_| self.stored.is_some());
        self
    }

    /// What the index has of a chart.
    async fn versions(
        &self,
        name: &str,
        deadline: &Deadline,
    ) -> Result<Arc<StoredVersions>, Error> {
        let index = self.index(deadline).await?;
        let clock = &self.client.env.clock;
        let cache = self.cache.as_ref();
        let cache = cache.map(|(cache, requester)| (cache, format!("{requester} {index}")));
        if let Some((cache, place)) = &cache
            && let Some(known) = cache.get(place, name, clock.elapsed())
        {
            return Ok(known);
        }
        let found = versions_in(&self.client.env, &index, name).await;
        let found = Arc::new(found.map_err(|error| {
            failed(
                Reason::Pull.name(),
                format!("failed to load index: {error}"),
            )
        })?);
        if let Some((cache, place)) = cache {
            cache.put(&place, name, found.clone(), clock.elapsed());
        }
        Ok(found)
    }

    /// The index to look into.
    async fn index(&self, deadline: &Deadline) -> Result<String, Error> {
        if let Some(stored) = &self.stored {
            return Ok(stored.clone());
        }
        let mut fetched = self.fetched.lock().await;
        if let Some(index) = &*fetched {
            return Ok(index.path());
        }
        let pulling =
            |prefix: &str, error: Error| failed(Reason::Pull.name(), format!("{prefix}: {error}"));
        let index = self
            .client
            .fetch_index(self.algorithm, deadline)
            .await
            .map_err(|error| pulling("failed to cache index", error))?
            .load(self.algorithm)
            .await
            .map_err(|error| pulling("failed to load index", error))?;
        let path = index.path();
        *fetched = Some(index);
        Ok(path)
    }

    async fn choose_version(
        &self,
        name: &str,
        wanted: &str,
        deadline: &Deadline,
    ) -> Result<Chosen, Error> {
        let wrong = |error: SelectError| failed(Reason::Reference.name(), error.to_string());
        let versions = self.versions(name, deadline).await?;
        let versions = versions
            .as_deref()
            .ok_or_else(|| wrong(SelectError::NoChart))?;
        let chosen = select_version(name, versions, wanted).map_err(wrong)?;
        Ok(Chosen {
            name: chosen.name.clone(),
            version: chosen.version.clone(),
            url: chosen.urls.first().cloned(),
            digest: chosen.digest.clone(),
            pinned: None,
        })
    }

    /// The archive, remembered from a moment ago or fetched. What an index names is remembered
    /// only as long as that index is.
    async fn pull(&self, chosen: &Chosen, deadline: &Deadline) -> Result<Arc<Pulled>, Error> {
        let clock = &self.client.env.clock;
        let place = match (&self.cache, &self.stored, &chosen.url) {
            (Some((cache, requester)), Some(index), Some(url)) => {
                Some((cache, format!("{requester} {index} {url}")))
            }
            _ => None,
        };
        if let Some((cache, place)) = &place
            && let Some(pulled) = cache.archive(place, clock.elapsed())
        {
            return Ok(pulled);
        }
        let pulled = Pulled::new(self.fetch(chosen, deadline).await?);
        if let Some((cache, place)) = place {
            cache.put_archive(place, &pulled, clock.elapsed());
        }
        Ok(pulled)
    }

    async fn fetch(&self, chosen: &Chosen, deadline: &Deadline) -> Result<Vec<u8>, Error> {
        let wrong = |text: String| failed(Reason::Pull.name(), text);
        let reference = chosen
            .url
            .as_deref()
            .ok_or_else(|| wrong(format!("chart '{}' has no downloadable URLs", chosen.name)))?;
        let repository = self.client.repository();
        let url = address::resolve_chart_url(&repository.url, reference)
            .map_err(|error| wrong(error.to_string()))?;
        let limit = repository.helm.chart;
        let response = self
            .client
            .get(&url, false, deadline)
            .await
            .map_err(|error| wrong(error.to_string()))?;
        response.body.read_all(limit).await.map_err(|error| {
            wrong(match error {
                Error::TooLarge { .. } => too_large(url.path.as_str(), limit),
                Error::Deadline(_) => {
                    Error::Deadline(" (Client.Timeout or context cancellation while reading body)")
                        .to_string()
                }
                other => other.to_string(),
            })
        })
    }
}

/// Flux's words for a chart that is too large.
pub(super) fn too_large(path: &str, limit: u64) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    format!("size of chart '{name}' exceeds '{limit}' bytes limit")
}

impl ChartSource for HttpCharts {
    fn choose<'a>(
        &'a self,
        name: &'a str,
        wanted: &'a str,
        deadline: &'a Deadline,
    ) -> BoxFuture<'a, Result<Chosen, Error>> {
        Box::pin(self.choose_version(name, wanted, deadline))
    }

    fn download<'a>(
        &'a self,
        chosen: &'a Chosen,
        deadline: &'a Deadline,
    ) -> BoxFuture<'a, Result<Arc<Pulled>, Error>> {
        Box::pin(self.pull(chosen, deadline))
    }
}

/// A repository in an OCI registry: each chart is a repository of its own below one address.
#[derive(Debug, Clone)]
pub struct OciCharts {
    env: Env,
    /// With the address of all charts.
    remote: oci::Remote,
    largest: u64,
    verifier: Option<Arc<dyn ChartVerifier>>,
}

impl OciCharts {
    /// The charts below the address of `remote`, each at most `largest` bytes.
    pub fn new(env: &Env, remote: oci::Remote, largest: u64) -> Self {
        OciCharts {
            env: env.clone(),
            remote,
            largest,
            verifier: None,
        }
    }

    /// With someone who checks signatures.
    pub fn with_verifier(mut self, verifier: Arc<dyn ChartVerifier>) -> Self {
        self.verifier = Some(verifier);
        self
    }

    /// A client for one chart.
    pub fn client(&self, chart: &str) -> Result<OciClient, Error> {
        let mut remote = self.remote.clone();
        remote.url = self.address(chart);
        OciClient::new(&self.env, remote)
    }

    fn address(&self, chart: &str) -> String {
        format!("{}/{chart}", self.remote.url.trim_end_matches('/'))
    }

    async fn choose_version(
        &self,
        name: &str,
        wanted: &str,
        deadline: &Deadline,
    ) -> Result<Chosen, Error> {
        let address = self.address(name);
        let chosen = |version: &str| Chosen {
            name: name.to_owned(),
            version: version.to_owned(),
            url: Some(format!("{address}:{version}")),
            digest: String::new(),
            pinned: None,
        };
        // A version needs no list of tags.
        if parse_version(wanted).is_ok() {
            return Ok(chosen(wanted));
        }
        let wrong = |text: String| failed(Reason::Pull.name(), text);
        let listing = async { self.client(name)?.tags(deadline).await };
        let tags = listing.await.map_err(|error| {
            wrong(format!(
                "could not get tags for {name:?}: could not fetch tags for {address:?}: {error}"
            ))
        })?;
        // Tags cannot hold a plus sign.
        let tags: Vec<String> = tags.iter().map(|tag| tag.replace('_', "+")).collect();
        if tags.is_empty() {
            return Err(wrong(format!(
                "could not get tags for {name:?}: unable to locate any tags in provided repository: {address}"
            )));
        }
        let tag = select_tag(&tags, wanted).map_err(|error| wrong(error.to_string()))?;
        Ok(chosen(tag))
    }

    async fn verified(&self, mut chosen: Chosen, deadline: &Deadline) -> Result<Chosen, Error> {
        let wrong = |text: String| failed(Reason::Verification.name(), text);
        let Some(verifier) = &self.verifier else {
            return Err(wrong("no verifiers available".to_owned()));
        };
        let client = self.client(&chosen.name)?;
        let url = chosen.url.clone().unwrap_or_default();
        let tag = chosen.version.replace('+', "_");
        let digest = client
            .digest_of_tag(&tag, deadline)
            .await
            .map_err(|error| wrong(format!("failed to resolve digest for '{url}': {error}")))?;
        let pinned = format!("{}@{digest}", self.address(&chosen.name));
        verifier
            .verify(&client, &digest, deadline)
            .await
            .map_err(|error| wrong(format!("failed to verify {pinned}: {error}")))?;
        chosen.url = Some(pinned);
        chosen.pinned = Some(digest);
        Ok(chosen)
    }

    async fn fetch(&self, chosen: &Chosen, deadline: &Deadline) -> Result<Vec<u8>, Error> {
        let wrong = |text: String| failed(Reason::Pull.name(), text);
        let fetching = async {
            let client = self.client(&chosen.name)?;
            match &chosen.pinned {
                Some(digest) => client.chart_by_digest(digest, deadline).await,
                None => client.chart(&chosen.version, deadline).await,
            }
        };
        let chart = fetching.await.map_err(|error| {
            let text = error.to_string();
            let prefix = "failed to download chart for remote reference: ";
            wrong(text.strip_prefix(prefix).unwrap_or(&text).to_owned())
        })?;
        if chart.bytes.len() as u64 > self.largest {
            return Err(wrong(too_large(&chosen.name, self.largest)));
        }
        Ok(chart.bytes)
    }
}

impl ChartSource for OciCharts {
    fn choose<'a>(
        &'a self,
        name: &'a str,
        wanted: &'a str,
        deadline: &'a Deadline,
    ) -> BoxFuture<'a, Result<Chosen, Error>> {
        Box::pin(self.choose_version(name, wanted, deadline))
    }

    fn verify<'a>(
        &'a self,
        chosen: Chosen,
        deadline: &'a Deadline,
    ) -> BoxFuture<'a, Result<Chosen, Error>> {
        Box::pin(self.verified(chosen, deadline))
    }

    fn download<'a>(
        &'a self,
        chosen: &'a Chosen,
        deadline: &'a Deadline,
    ) -> BoxFuture<'a, Result<Arc<Pulled>, Error>> {
        Box::pin(async move { Ok(Pulled::new(self.fetch(chosen, deadline).await?)) })
    }
}
