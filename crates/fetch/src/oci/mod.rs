//! Artifacts in OCI registries: which one a name stands for, and an archive of its content.
//!
//! An [`OciClient`] is for one repository. It greets the registry once, keeps what it learned
//! (plain or secure, a token) and sends credentials to that registry alone. What comes back is
//! checked against the digests that name it before anything is made of it.

pub(crate) mod answer;
pub(crate) mod challenge;
mod chart;
#[cfg(test)]
mod conformance;
pub mod cosign;
mod layer;
pub(crate) mod manifest;
mod name;
mod push;
mod reference;
mod session;
mod signatures;
#[cfg(test)]
mod tests;
pub mod trust;

use std::collections::BTreeMap;
use std::sync::Arc;

use ::http::{Method, header};
use everflow_env::Env;
use everflow_json::Value;
use tokio::sync::OnceCell;

pub use chart::{Chart, HELM_CHART_LAYER};
pub use layer::{LayerOperation, PullOptions, Pulled};
pub use manifest::{Descriptor, Manifest};
pub use name::{Reference, Repository, SCHEME, Target};
pub use push::{LARGEST_PUSH, NewArtifact};
pub use reference::OciRef;

use crate::archive::{Digest, digest_of};
pub use crate::docker_config::{DockerConfig, RegistryAuth};
use crate::http::{Client, ClientOptions, Limits, Proxy, Response, TlsOptions};
use crate::{Deadline, Error};
use manifest::Document;
use session::Session;

/// How to speak to a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheme {
    /// HTTPS; where the registry is marked insecure or near, plain HTTP when HTTPS does not work.
    #[default]
    Detect,
    /// HTTPS, whatever the registry is.
    Https,
    /// Plain HTTP.
    Http,
}

/// A repository somewhere.
#[derive(Debug, Clone)]
pub struct Remote {
    /// Where it is: `oci://registry/path`.
    pub url: String,
    /// Plain HTTP is fine, and so is any certificate unless `tls` says whom to trust.
    pub insecure: bool,
    /// How to speak to the registry.
    pub scheme: Scheme,
    /// Who we are.
    pub auth: RegistryAuth,
    /// Whom to trust.
    pub tls: TlsOptions,
    /// A proxy in between.
    pub proxy: Option<Proxy>,
    /// Limits of requests; that of answers does not hold for layers.
    pub limits: Limits,
    /// Bytes of one layer.
    pub largest_layer: u64,
}

impl Remote {
    /// A repository without credentials, proxies or certificates, with the usual limits.
    pub fn new(url: impl Into<String>) -> Self {
        Remote {
            url: url.into(),
            insecure: false,
            scheme: Scheme::Detect,
            auth: RegistryAuth::Anonymous,
            tls: TlsOptions::default(),
            proxy: None,
            limits: Limits::default(),
            largest_layer: 16 << 30,
        }
    }
}

/// Which artifact is meant, right now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// What was asked for, with the tag that a range of versions led to.
    pub reference: Reference,
    /// As `v1@sha256:…`, or `sha256:…` when a digest was asked for.
    pub revision: String,
    /// The digest of the manifest.
    pub digest: Digest,
}

impl Resolution {
    /// The artifact by its digest.
    pub fn by_digest(&self) -> Reference {
        self.reference.repository.digest(self.digest.as_str())
    }
}

/// The largest manifest that is read.
const LARGEST_MANIFEST: u64 = 8 << 20;
/// The largest page of tags that is read.
const LARGEST_PAGE: u64 = 32 << 20;
/// How many pages of tags are read.
const MOST_PAGES: usize = 10_000;
/// How many tags are read.
const MOST_TAGS: usize = 1_000_000;
/// How deep lists of manifests may nest.
const DEEPEST_INDEX: usize = 4;

/// Fetches from one repository.
#[derive(Debug)]
pub struct OciClient {
    env: Env,
    remote: Remote,
    repository: Repository,
    http: Arc<Client>,
    session: OnceCell<Session>,
}

impl OciClient {
    /// A client for a repository; an error when its address, certificates or keys cannot be used.
    pub fn new(env: &Env, mut remote: Remote) -> Result<Self, Error> {
        let repository = Repository::parse(&remote.url).map_err(|error| {
            // What stands before an @ may be a password.
            let shown = match remote.url.rsplit_once('@') {
                Some((_, host)) => format!("{SCHEME}{host}"),
                None => remote.url.clone(),
            };
            Error::Url(format!("URL validation failed for '{shown}': {error}"))
        })?;
        let tls = &mut remote.tls;
        if remote.insecure && tls.ca.is_none() && tls.client.is_none() {
            tls.insecure = true;
        }
        let mut limits = remote.limits.clone();
        limits.body = limits.body.max(remote.largest_layer.saturating_add(1));
        let options = ClientOptions {
            tls: remote.tls.clone(),
            proxy: remote.proxy.clone(),
            limits,
            user_agent: String::new(),
        };
        let http = Client::new(env, options).map_err(|error| {
            Error::Authentication(format!(
                "failed to generate transport for '{}': {error}",
                remote.url
            ))
        })?;
        Ok(OciClient {
            env: env.clone(),
            remote,
            repository,
            http: Arc::new(http),
            session: OnceCell::new(),
        })
    }

    /// The repository.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    async fn session(&self, deadline: &Deadline) -> Result<&Session, Error> {
        self.session
            .get_or_try_init(|| {
                Session::open(
                    &self.env,
                    self.http.clone(),
                    &self.remote,
                    &self.repository,
                    deadline,
                )
            })
            .await
    }

    /// Asks the registry which artifact is meant. `layer` is the media type of the layer that is
    /// wanted: tags of Helm charts are read as their versions are written.
    pub async fn resolve(
        &self,
        wanted: &OciRef,
        layer: &str,
        deadline: &Deadline,
    ) -> Result<Resolution, Error> {
        let undetermined = |error: Error| Error::Source {
            reason: "OCIArtifactPullFailed",
            message: format!("failed to determine artifact digest: {error}"),
        };
        if !wanted.digest.is_empty() {
            let digest = name::parse_digest(&wanted.digest).map_err(undetermined)?;
            return Ok(Resolution {
                reference: self.repository.digest(&wanted.digest),
                revision: digest.to_string(),
                digest,
            });
        }
        let tag = match (wanted.semver.as_str(), wanted.tag.as_str()) {
            ("", "") => "latest".to_owned(),
            ("", tag) => tag.to_owned(),
            _ => self
                .highest(wanted, layer, deadline)
                .await
                .map_err(|error| Error::Source {
                    reason: "ReadOperationFailed",
                    message: format!(
                        "failed to determine the artifact tag for '{}': {error}",
                        self.remote.url
                    ),
                })?,
        };
        let digest = self
            .digest_of_tag(&tag, deadline)
            .await
            .map_err(undetermined)?;
        Ok(Resolution {
            revision: format!("{tag}@{digest}"),
            reference: self.repository.tag(&tag),
            digest,
        })
    }

    async fn highest(
        &self,
        wanted: &OciRef,
        layer: &str,
        deadline: &Deadline,
    ) -> Result<String, Error> {
        let tags = self.tags(deadline).await?;
        reference::by_version(wanted, &tags, layer)
    }

    /// All tags of the repository, in the registry's order.
    pub async fn tags(&self, deadline: &Deadline) -> Result<Vec<String>, Error> {
        let session = self.session(deadline).await?;
        let mut url = session.url("tags", "list")?;
        url.query = Some("n=1000".to_owned());
        let mut tags = Vec::new();
        for _ in 0..MOST_PAGES {
            let response = session.ask(Method::GET, &url, "", deadline).await?;
            let next = next_page(&response)?;
            let from = response.url.clone();
            let bytes = response.body.read_all(LARGEST_PAGE).await?;
            let more = page(&bytes).ok_or_else(|| {
                Error::Protocol(format!("GET {url}: the answer is no list of tags"))
            })?;
            tags.extend(more);
            if tags.len() > MOST_TAGS {
                break;
            }
            match next {
                None => return Ok(tags),
                Some(next) => {
                    let next = session.follow(&from, &next)?;
                    if next == url {
                        return Err(Error::Protocol(
                            "the registry gives the same page of tags again and again".to_owned(),
                        ));
                    }
                    url = next;
                }
            }
        }
        Err(Error::TooLarge {
            what: format!("the list of tags of {}", self.repository),
            limit: MOST_TAGS as u64,
        })
    }

    /// The digest that a tag points to.
    pub async fn digest_of_tag(&self, tag: &str, deadline: &Deadline) -> Result<Digest, Error> {
        let session = self.session(deadline).await?;
        let url = session.url("manifests", tag)?;
        let accept = manifest::acceptable();
        let head = session.ask(Method::HEAD, &url, &accept, deadline).await;
        match head {
            Ok(head) => {
                let whole = head.header(header::CONTENT_TYPE).is_some()
                    && head.header(header::CONTENT_LENGTH).is_some();
                let digest = head
                    .header("docker-content-digest")
                    .and_then(|text| name::parse_digest(text).ok());
                if let Some(digest) = digest.filter(|_| whole) {
                    return Ok(digest);
                }
            }
            Err(error @ (Error::Deadline(_) | Error::Lost)) => return Err(error),
            // Answers to HEAD say little: those to GET say what is wrong.
            Err(_) => {}
        }
        let (_, _, digest) = self
            .document(&Target::Tag(tag.to_owned()), deadline)
            .await?;
        Ok(digest)
    }

    /// A document with the name that the registry has for its kind, and its digest.
    async fn document(
        &self,
        target: &Target,
        deadline: &Deadline,
    ) -> Result<(Vec<u8>, String, Digest), Error> {
        let session = self.session(deadline).await?;
        let url = session.url("manifests", target.as_str())?;
        let accept = manifest::acceptable();
        let response = session.ask(Method::GET, &url, &accept, deadline).await?;
        let kind = response
            .header(header::CONTENT_TYPE)
            .unwrap_or_default()
            .to_owned();
        let bytes = response.body.read_all(LARGEST_MANIFEST).await?;
        let algorithm = match target {
            Target::Digest(text) => name::parse_digest(text)?.algorithm(),
            Target::Tag(_) => Default::default(),
        };
        let digest = digest_of(algorithm, &bytes);
        if let Target::Digest(wanted) = target
            && digest.as_str() != wanted
        {
            return Err(Error::Digest(format!(
                "manifest digest: {:?} does not match requested digest: {wanted:?} for {:?}",
                digest.as_str(),
                self.repository.digest(wanted).to_string()
            )));
        }
        Ok((bytes, kind, digest))
    }

    /// The manifest of an artifact; of a list of manifests the one for Linux on amd64.
    pub async fn manifest(&self, target: &Target, deadline: &Deadline) -> Result<Manifest, Error> {
        let pulling = |error: Error| Error::Source {
            reason: "OCIArtifactPullFailed",
            message: format!(
                "failed to pull artifact from '{}': {error}",
                self.remote.url
            ),
        };
        let mut target = target.clone();
        for _ in 0..DEEPEST_INDEX {
            let (bytes, kind, digest) = self.document(&target, deadline).await.map_err(pulling)?;
            let document =
                Document::parse(&bytes, &kind, digest).map_err(|error| Error::Source {
                    reason: "OCIArtifactLayerOperationFailed",
                    message: format!("failed to parse artifact manifest: {error}"),
                })?;
            let index = match document {
                Document::Manifest(manifest) => return Ok(*manifest),
                Document::Index(index) => index,
            };
            let Some(child) = manifest::pick(&index) else {
                let whole = Reference {
                    repository: self.repository.clone(),
                    target,
                };
                let text = format!("no child with platform linux/amd64 in index {whole}");
                return Err(pulling(Error::Protocol(text)));
            };
            target = Target::Digest(child.digest.to_string());
        }
        let text = format!("the lists of manifests nest deeper than {DEEPEST_INDEX}");
        Err(pulling(Error::Protocol(text)))
    }
}

/// The tags of one page.
fn page(bytes: &[u8]) -> Option<Vec<String>> {
    let whole: Value = everflow_json::from_slice(bytes).ok()?;
    match whole.as_object()?.get("tags") {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(tags)) => tags
            .iter()
            .map(|tag| tag.as_str().map(str::to_owned))
            .collect(),
        Some(_) => None,
    }
}

/// Where the registry says that there is more.
fn next_page(response: &Response) -> Result<Option<String>, Error> {
    let Some(link) = response
        .header(header::LINK)
        .filter(|link| !link.is_empty())
    else {
        return Ok(None);
    };
    let inner = link.strip_prefix('<').and_then(|link| link.split_once('>'));
    match inner {
        Some((location, _)) => Ok(Some(location.to_owned())),
        None => Err(Error::Protocol(format!(
            "failed to parse link header: missing '<' or '>' in: {link}"
        ))),
    }
}

/// What is said of an artifact, as its status shows it.
pub type Metadata = BTreeMap<String, String>;
