//! HelmRepository.

use std::time::Duration;

use everflow_api::names::condition as types;
use everflow_api::source::{
    DEFAULT_TIMEOUT, HelmRepository, HelmRepositorySpec, HelmRepositoryStatus,
};
use everflow_api::{Object, Reason};
use everflow_fetch::archive::Algorithm;
use everflow_fetch::helm::{HelmClient, Repository, normalize_url};
use everflow_fetch::storage::Storage;
use everflow_fetch::{Deadline, Url};
use everflow_runtime::attempt::Context;
use everflow_runtime::client::{Client, Resource};

use super::controller::Source;
use super::draft::Draft;
use super::outcome::{Failure, Outcome, Stop};
use super::publish::{Finished, publish};
use super::secrets::SecretData;
use crate::resources::HELM_REPOSITORIES;
use crate::{Options, Setup};

/// How often a repository that does not say is looked at.
const INTERVAL: Duration = Duration::from_secs(60);
const UNAUTHENTICATED: &str = "AuthenticationFailed";

/// The source of Helm repositories.
#[derive(Debug)]
pub(crate) struct Helm {
    storage: Storage,
    options: Options,
}

impl Helm {
    pub(crate) fn new(setup: &Setup) -> Self {
        Helm {
            storage: setup.storage.clone(),
            options: setup.options.clone(),
        }
    }
}

/// Reads the Secrets of a Helm repository behind HTTP and works out how to reach it.
pub(super) async fn remote(
    options: &Options,
    client: &Client,
    object: &Object<HelmRepository>,
) -> Result<Repository, Failure> {
    let (spec, namespace) = (&object.spec, object.metadata.namespace());
    let invalid = |why: String| {
        let message = format!("invalid Helm repository URL: {why}");
        Failure::stalling(Reason::URLInvalid.as_str(), message)
    };
    if spec.url.starts_with("oci://") {
        let why = "'oci' URL scheme cannot be used with 'default' HelmRepository type";
        return Err(invalid(why.to_owned()));
    }
    let unauthenticated = |why: String| Failure::passing(UNAUTHENTICATED, why);
    let normalized = normalize_url(&spec.url).map_err(|error| invalid(error.to_string()))?;
    let url = Url::parse(&normalized).map_err(|error| invalid(error.to_string()))?;
    let mut repository = Repository::new(url);
    repository.pass_credentials = spec.pass_credentials;
    repository.helm = options.helm_limits();
    if let Some(reference) = &spec.cert_secret_ref {
        let secret = SecretData::get(client, namespace, &reference.name).await;
        let secret = secret.map_err(|unread| {
            let name = &reference.name;
            unauthenticated(format!(
                "failed to get TLS authentication secret '{namespace}/{name}': {}",
                unread.told()
            ))
        })?;
        let tls = secret.tls();
        repository.tls = tls.map_err(|why| {
            unauthenticated(format!(
                "failed to construct Helm client's TLS config: {why}"
            ))
        })?;
    }
    if let Some(reference) = &spec.secret_ref {
        let secret = SecretData::get(client, namespace, &reference.name).await;
        let secret = secret.map_err(|unread| {
            let name = &reference.name;
            unauthenticated(format!(
                "failed to get authentication secret '{namespace}/{name}': {}",
                unread.told()
            ))
        })?;
        repository.auth = secret.basic_auth().map_err(|why| {
            unauthenticated(format!("failed to detect authentication methods: {why}"))
        })?;
        // Certificates in this Secret are an old way; the other Secret comes first.
        if spec.cert_secret_ref.is_none()
            && let Ok(tls) = secret.tls()
        {
            repository.tls = tls;
        }
    }
    Ok(repository)
}

fn said(draft: &Draft<HelmRepository>, url: &str) -> String {
    let artifact = draft.object.status.artifact.as_ref();
    let size = artifact.and_then(|artifact| artifact.size);
    let size = match size {
        Some(size) => format!("size {}", human_size(size)),
        None => "unknown size".to_owned(),
    };
    format!("stored fetched index of {size} from '{url}'")
}

/// A size with four digits, as `1.661kB`.
fn human_size(bytes: i64) -> String {
    const UNITS: [&str; 9] = ["B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"];
    let mut size = bytes as f64;
    let mut unit = 0;
    while size >= 1_000.0 && unit + 1 < UNITS.len() {
        size /= 1_000.0;
        unit += 1;
    }
    let digits = match size {
        size if size >= 1_000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    let shown = format!("{size:.digits$}");
    let shown = match shown.contains('.') {
        true => shown.trim_end_matches('0').trim_end_matches('.'),
        false => &shown,
    };
    format!("{shown}{}", UNITS[unit])
}

impl Source for Helm {
    type Kind = HelmRepository;
    const RESOURCE: Resource = HELM_REPOSITORIES;
    const NAME: &'static str = "helmrepository";
    const ADDRESS: &'static str = "/spec/url";
    const LINK: &'static str = "index.yaml";

    fn is_suspended(spec: &HelmRepositorySpec) -> bool {
        spec.suspend
    }

    fn interval(spec: &HelmRepositorySpec) -> Duration {
        spec.interval
            .map_or(INTERVAL, everflow_time::Duration::unsigned)
    }

    fn timeout(spec: &HelmRepositorySpec) -> Duration {
        spec.timeout.unwrap_or(DEFAULT_TIMEOUT).unsigned()
    }

    fn is_static(spec: &HelmRepositorySpec) -> bool {
        spec.is_oci()
    }

    fn set_url(status: &mut HelmRepositoryStatus, url: Option<String>) {
        status.url = url;
    }

    async fn reconcile(
        &self,
        draft: &mut Draft<HelmRepository>,
        context: &Context,
    ) -> Result<Outcome, Stop> {
        let remote = remote(&self.options, &context.client, &draft.object).await;
        let repository = remote.map_err(|failure| draft.fail(types::FETCH_FAILED, failure))?;
        let has_secrets = repository.url.username.is_some() || repository.url.query.is_some();
        let shown = match has_secrets {
            true => repository.url.without_credentials().to_string(),
            false => draft.object.spec.url.clone(),
        };
        let client = HelmClient::new(&context.env, repository).map_err(|error| {
            let message = format!("failed to construct Helm client's TLS config: {error}");
            draft.fail(
                types::FETCH_FAILED,
                Failure::passing(UNAUTHENTICATED, message),
            )
        })?;
        context.check()?;
        let deadline = Deadline::after(&context.env.clock, Self::timeout(&draft.object.spec));
        let index = client.fetch_index(Algorithm::Sha256, &deadline).await;
        let index = index.map_err(|error| {
            let message = format!("failed to fetch Helm repository index: {error}");
            let failure = Failure::passing(Reason::Failed.as_str(), message);
            draft.fail(types::FETCH_FAILED, failure)
        })?;
        let revision = index.digest.to_string();
        let current = draft.object.status.artifact.as_ref();
        if current.is_some_and(|current| current.revision == revision) {
            draft.remove(types::FETCH_FAILED);
            draft.stored(
                Reason::Succeeded,
                format!("stored artifact: revision '{revision}'"),
            );
            return Ok(Outcome::Unchanged {
                said: said(draft, &shown),
                reason: Reason::ArtifactUpToDate,
                message: format!("artifact up-to-date with remote revision: '{revision}'"),
            });
        }
        let loaded = index.load(self.storage.algorithm()).await;
        let loaded = loaded.map_err(|error| {
            let message = format!("failed to load Helm repository from index YAML: {error}");
            let failure = Failure::passing(Reason::IndexationFailed.as_str(), message);
            draft.fail(types::FETCH_FAILED, failure)
        })?;
        draft.remove(types::FETCH_FAILED);
        draft.outdated(&format!("new index revision '{revision}'"));
        context.check()?;
        let name = loaded.file_name();
        let finished = Finished {
            path: &loaded.path(),
            name: &name,
            digest: loaded.digest.clone(),
            size: loaded.size,
            revision: &revision,
            action: "save artifact",
        };
        let published = publish::<Self>(&self.storage, draft, context, finished);
        let (artifact, link) = published.await?;
        draft.object.status.artifact = Some(artifact);
        draft.linked(link, |status, url| status.url = Some(url));
        draft.remove(types::STORAGE_OPERATION_FAILED);
        draft.stored(
            Reason::Succeeded,
            format!("stored artifact: revision '{revision}'"),
        );
        Ok(Outcome::done(said(draft, &shown)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_four_digits() {
        let shown = [0, 999, 1_000, 1_661, 123_456, 52_428_800].map(human_size);
        assert_eq!(
            shown,
            ["0B", "999B", "1kB", "1.661kB", "123.5kB", "52.43MB"]
        );
    }
}
