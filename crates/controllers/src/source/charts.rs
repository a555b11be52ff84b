//! Where charts come from: Helm repositories behind HTTP and in registries.

use std::sync::Arc;

use everflow_api::source::{HelmRepository, RegistryProvider};
use everflow_api::{Object, Reason};
use everflow_env::BoxFuture;
use everflow_fetch::helm::{
    ChartSource, HelmClient, HttpCharts, IndexCache, OciCharts, Repositories, Repository,
    normalize_url,
};
use everflow_fetch::http::{Auth, TlsOptions};
use everflow_fetch::oci::{self, DockerConfig, OciRef, RegistryAuth};
use everflow_fetch::{Deadline, Error, Url};
use everflow_json::json;
use everflow_runtime::attempt::Context;
use everflow_runtime::client::Client;

use super::helm_repository::remote;
use super::outcome::Failure;
use super::registry::unsupported_provider;
use super::secrets::SecretData;
use super::signature;
use crate::fingerprint::Parts;
use crate::{Fingerprint, Options};

const UNAUTHENTICATED: &str = "AuthenticationFailed";

/// The charts of a repository.
#[derive(Debug)]
pub(super) enum Charts {
    Http(Box<HttpCharts>),
    Oci(Box<OciCharts>),
}

/// Which chart is meant.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    /// The namespace of who asks.
    pub namespace: &'a str,
    /// The name of the chart.
    pub name: &'a str,
    /// Which version.
    pub version: &'a str,
}

/// Why a signature could not be verified.
pub(super) enum Unverified {
    /// Charts from there have none.
    NotPossible(String),
    /// It is not right.
    Failed(String),
}

impl Charts {
    pub(super) fn charts(&self) -> &dyn ChartSource {
        match self {
            Charts::Http(charts) => &**charts,
            Charts::Oci(charts) => &**charts,
        }
    }

    /// Verifies the signature of the version of a chart that is meant.
    pub(super) async fn verify(
        &self,
        signatures: &signature::Signatures,
        context: &Context,
        wanted: &Wanted<'_>,
        request: &signature::Request<'_>,
        deadline: &Deadline,
    ) -> Result<(), Unverified> {
        let Charts::Oci(charts) = self else {
            return Err(Unverified::NotPossible(
                "chart verification error: not implemented: only charts in OCI registries can be \
                 verified"
                    .to_owned(),
            ));
        };
        let verified = async {
            let chosen = charts.choose(wanted.name, wanted.version, deadline).await;
            let chosen = chosen.map_err(|error| error.to_string())?;
            let client = charts
                .client(&chosen.name)
                .map_err(|error| error.to_string())?;
            let tag = OciRef {
                tag: chosen.version.replace('+', "_"),
                ..OciRef::default()
            };
            let resolution = client.resolve(&tag, "", deadline).await;
            let resolution = resolution.map_err(|error| error.to_string())?;
            let namespace = wanted.namespace;
            signatures
                .verify(context, namespace, &client, &resolution, request, deadline)
                .await
        };
        verified.await.map_err(|why| {
            Unverified::Failed(format!(
                "failed to verify the signature using provider '{}': {why}",
                request.named()
            ))
        })
    }
}

/// The charts of a HelmRepository.
pub(super) async fn source(
    options: &Options,
    cache: &Arc<IndexCache>,
    context: &Context,
    repository: &Object<HelmRepository>,
) -> Result<Charts, Failure> {
    if !repository.spec.is_oci() {
        let remote = remote(options, &context.client, repository).await?;
        let stored = repository.status.artifact.as_ref();
        let stored = stored.map(|artifact| artifact.path.clone());
        let requester = requester(&remote, repository);
        return http(context, remote, stored, cache.clone(), requester);
    }
    let spec = &repository.spec;
    let invalid = |why: String| {
        let message = format!("failed to construct Helm client: {why}");
        Failure::stalling(Reason::Failed.as_str(), message)
    };
    let url = normalize_url(&spec.url).map_err(|error| invalid(error.to_string()))?;
    if !url.starts_with("oci://") {
        let url = everflow_fetch::shown(&url);
        return Err(invalid(format!("invalid OCI registry URL: {url}")));
    }
    let provider = spec.provider.unwrap_or(RegistryProvider::Generic);
    if provider != RegistryProvider::Generic && spec.secret_ref.is_none() {
        return Err(unsupported_provider(options, provider.as_str(), false));
    }
    let mut remote = oci::Remote::new(url.clone());
    remote.insecure = spec.insecure;
    let access = registry_access(&context.client, repository, &url).await;
    let (auth, tls) = access.map_err(|why| Failure::passing(UNAUTHENTICATED, why))?;
    remote.auth = auth;
    if let Some(tls) = tls {
        remote.tls = tls;
    }
    let largest = options.helm_chart_max_size;
    Ok(Charts::Oci(Box::new(OciCharts::new(
        &context.env,
        remote,
        largest,
    ))))
}

/// Who asks a repository: its namespace and name, user and password, CA and certificate.
fn requester(remote: &Repository, object: &Object<HelmRepository>) -> Fingerprint {
    let metadata = &object.metadata;
    let asks = Parts::of("HelmRepository").and(metadata.namespace());
    let asks = asks.and(&metadata.name).and(remote.url.to_string());
    let asks = match &remote.auth {
        None => asks.and("nobody"),
        Some(Auth::Basic { username, password }) => asks.and(username).and(password.reveal()),
        Some(Auth::Bearer(token)) => asks.and("").and(token.reveal()),
    };
    let asks = asks.maybe(remote.tls.ca.as_ref());
    let client = remote.tls.client.as_ref();
    let asks = match client {
        None => asks.and("-"),
        Some((certificate, key)) => asks.and(certificate).and(key.reveal()),
    };
    asks.done()
}

fn http(
    context: &Context,
    remote: Repository,
    stored: Option<String>,
    cache: Arc<IndexCache>,
    requester: Fingerprint,
) -> Result<Charts, Failure> {
    let client = HelmClient::new(&context.env, remote).map_err(|error| {
        let message = format!("failed to construct Helm client's TLS config: {error}");
        Failure::passing(UNAUTHENTICATED, message)
    })?;
    let charts = HttpCharts::new(client, stored).with_cache(cache, &requester.to_string());
    Ok(Charts::Http(Box::new(charts)))
}

/// Who we are to the registry of a HelmRepository, and whom we trust.
async fn registry_access(
    client: &Client,
    repository: &Object<HelmRepository>,
    url: &str,
) -> Result<(RegistryAuth, Option<TlsOptions>), String> {
    let (spec, namespace) = (&repository.spec, repository.metadata.namespace());
    let mut tls = None;
    if let Some(reference) = &spec.cert_secret_ref {
        let name = &reference.name;
        let secret = SecretData::get(client, namespace, name).await;
        let secret = secret.map_err(|unread| {
            format!(
                "failed to get TLS authentication secret '{namespace}/{name}': {}",
                unread.told()
            )
        })?;
        tls = Some(
            secret
                .tls()
                .map_err(|why| format!("failed to construct Helm client's TLS config: {why}"))?,
        );
    }
    let Some(reference) = &spec.secret_ref else {
        return Ok((RegistryAuth::Anonymous, tls));
    };
    let name = &reference.name;
    let secret = SecretData::get(client, namespace, name).await;
    let secret = secret.map_err(|unread| {
        format!(
            "failed to get authentication secret '{namespace}/{name}': {}",
            unread.told()
        )
    })?;
    let wrong = |why: String| format!("failed to configure OCI registry authentication: {why}");
    let auth = match secret.kind.as_str() {
        "kubernetes.io/dockerconfigjson" => {
            let mut config = DockerConfig::new();
            let added = config.add_secret(&secret.kind, secret.data());
            added.map_err(|error| wrong(error.to_string()))?;
            let host = url
                .trim_start_matches("oci://")
                .split('/')
                .next()
                .unwrap_or_default();
            config.auth_for_host(host).unwrap_or_default()
        }
        _ => match secret.basic_auth() {
            Ok(Some(Auth::Basic { username, password })) => {
                RegistryAuth::Login { username, password }
            }
            Ok(_) => RegistryAuth::Anonymous,
            Err(why) => return Err(format!("failed to detect authentication methods: {why}")),
        },
    };
    Ok((auth, tls))
}

/// Finds the repositories of a chart's dependencies: those of the namespace by their address, else
/// whatever is there for everybody.
pub(super) struct DependencyRepositories<'a> {
    options: &'a Options,
    cache: &'a Arc<IndexCache>,
    context: &'a Context,
    namespace: String,
}

impl std::fmt::Debug for DependencyRepositories<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DependencyRepositories")
    }
}

impl<'a> DependencyRepositories<'a> {
    pub(super) fn new(
        options: &'a Options,
        cache: &'a Arc<IndexCache>,
        context: &'a Context,
        namespace: &str,
    ) -> Self {
        DependencyRepositories {
            options,
            cache,
            context,
            namespace: namespace.to_owned(),
        }
    }

    fn known(&self, url: &str) -> Option<Object<HelmRepository>> {
        let store = self.context.store("HelmRepository")?;
        let all = store.list(Some(&self.namespace)).into_iter();
        let read = all.filter_map(|stored| Object::<HelmRepository>::read(&stored.value()).ok());
        let mut same = read.filter(|object| {
            normalize_url(&object.spec.url).is_ok_and(|normalized| normalized == url)
        });
        same.next()
    }

    /// A repository that no object describes.
    fn unknown(&self, url: &str) -> Result<Object<HelmRepository>, Error> {
        let kind = if url.starts_with("oci://") {
            "oci"
        } else {
            "default"
        };
        let object = json!({
            "metadata": {"name": "dependency", "namespace": self.namespace},
            "spec": {"url": url, "type": kind},
        });
        Object::read(&object).map_err(|error| Error::Url(error.to_string()))
    }
}

impl Repositories for DependencyRepositories<'_> {
    fn at<'b>(&'b self, url: &'b str) -> BoxFuture<'b, Result<Arc<dyn ChartSource>, Error>> {
        Box::pin(async move {
            Url::parse(url)?;
            let object = match self.known(url) {
                Some(object) => object,
                None => self.unknown(url)?,
            };
            let source = source(self.options, self.cache, self.context, &object).await;
            let source = source.map_err(|failure| Error::Source {
                reason: "DependencyBuildError",
                message: failure.message().to_owned(),
            })?;
            Ok(match source {
                Charts::Http(charts) => Arc::new(*charts) as Arc<dyn ChartSource>,
                Charts::Oci(charts) => Arc::new(*charts),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::{Value, json};

    use super::*;

    fn object(namespace: &str, name: &str) -> Object<HelmRepository> {
        let value: Value = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository",
            "metadata": {"namespace": namespace, "name": name, "uid": "1"},
            "spec": {"url": "https://charts.example"}});
        Object::read(&value).unwrap()
    }

    fn remote(url: &str, password: &str, ca: &str) -> Repository {
        let mut remote = Repository::new(everflow_fetch::Url::parse(url).unwrap());
        if !password.is_empty() {
            remote.auth = Some(Auth::Basic {
                username: "user".to_owned(),
                password: password.to_owned().into(),
            });
        }
        remote.tls.ca = Some(ca.into()).filter(|_| !ca.is_empty());
        remote
    }

    #[test]
    fn helm_requesters_differ_by_object_address_password_and_ca() {
        let of = |namespace: &str, url: &str, password: &str, ca: &str| {
            requester(&remote(url, password, ca), &object(namespace, "r"))
        };
        let all = [
            of("a", "https://charts.example", "", ""),
            of("b", "https://charts.example", "", ""),
            of("a", "https://other.example", "", ""),
            of("a", "https://charts.example", "right", ""),
            of("a", "https://charts.example", "wrong", ""),
            of("a", "https://charts.example", "", "ca"),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(all[3], of("a", "https://charts.example", "right", ""));
    }
}
