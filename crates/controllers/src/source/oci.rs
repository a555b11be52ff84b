//! OCIRepository.

use std::time::Duration;

use everflow_api::Reason;
use everflow_api::common::{Artifact, SignatureProvider};
use everflow_api::condition::{ConditionStatus, find};
use everflow_api::names::{ORIGIN_REVISION, ORIGIN_SOURCE, condition as types};
use everflow_api::source::{
    self as api, DEFAULT_TIMEOUT, OCIRepository, OCIRepositorySpec, RegistryProvider,
};
use everflow_fetch::http::Proxy;
use everflow_fetch::oci::{
    LayerOperation, OciClient, OciRef, PullOptions, RegistryAuth, Remote, Repository, Resolution,
};
use everflow_fetch::storage::Storage;
use everflow_fetch::{Deadline, Error};
use everflow_runtime::attempt::Context;
use everflow_runtime::client::Resource;

use super::controller::Source;
use super::draft::Draft;
use super::outcome::{Failure, Outcome, Stop};
use super::publish::{Finished, file_name, publish};
use super::registry::{pull_secrets, unsupported_provider};
use super::secrets::SecretData;
use super::signature::{self, Signatures};
use crate::resources::OCI_REPOSITORIES;
use crate::{Options, Setup};

const UNAUTHENTICATED: &str = "AuthenticationFailed";

/// The source of OCI repositories.
#[derive(Debug)]
pub(crate) struct Oci {
    storage: Storage,
    options: Options,
    signatures: Signatures,
}

impl Oci {
    pub(crate) fn new(setup: &Setup) -> Self {
        Oci {
            storage: setup.storage.clone(),
            options: setup.options.clone(),
            signatures: Signatures::new(setup, Self::NAME),
        }
    }

    /// Reads the Secrets and works out the remote.
    async fn remote(
        &self,
        draft: &mut Draft<OCIRepository>,
        context: &Context,
    ) -> Result<Remote, Failure> {
        let spec = draft.object.spec.clone();
        let namespace = draft.namespace().to_owned();
        let client = &context.client;
        let config = {
            let name = spec
                .secret_ref
                .as_ref()
                .map(|reference| reference.name.as_str());
            let account = spec.service_account_name.as_deref();
            let config = pull_secrets(client, &namespace, name, account).await;
            if let (Err(why), Some(name)) = (&config, name)
                && why.contains("secrets ")
            {
                draft.trace(UNAUTHENTICATED, format!("auth secret '{name}' not found"));
            }
            config.map_err(|why| {
                Failure::passing(UNAUTHENTICATED, format!("failed to get credential: {why}"))
            })?
        };
        let proxy = proxy(client, &namespace, spec.proxy_secret_ref.as_ref()).await?;
        let provider = spec.provider.unwrap_or(RegistryProvider::Generic);
        if provider != RegistryProvider::Generic && config.is_none() {
            let account = spec.service_account_name.is_some();
            return Err(unsupported_provider(
                &self.options,
                provider.as_str(),
                account,
            ));
        }
        let mut remote = Remote::new(spec.url.clone());
        remote.insecure = spec.insecure;
        remote.proxy = proxy;
        if let Some(reference) = spec
            .cert_secret_ref
            .as_ref()
            .filter(|cert| !cert.name.is_empty())
        {
            let secret = SecretData::get(client, &namespace, &reference.name).await;
            let tls = secret
                .map_err(|unread| unread.to_string())
                .and_then(|secret| secret.tls());
            remote.tls = tls.map_err(|why| {
                let message = format!("failed to generate transport for '{}': {why}", spec.url);
                Failure::passing(UNAUTHENTICATED, message)
            })?;
        }
        if let (Some(config), Ok(repository)) = (config, Repository::parse(&spec.url)) {
            remote.auth = config.auth_for(&repository);
        } else {
            remote.auth = RegistryAuth::Anonymous;
        }
        Ok(remote)
    }

    async fn resolve(
        &self,
        draft: &Draft<OCIRepository>,
        context: &Context,
        remote: Remote,
        deadline: &Deadline,
    ) -> Result<(OciClient, Resolution), Failure> {
        let client = OciClient::new(&context.env, remote).map_err(|error| match error {
            Error::Url(message) => Failure::stalling(Reason::URLInvalid.as_str(), message),
            error => Failure::passing(error.reason(), error.to_string()),
        })?;
        let wanted = wanted(&draft.object.spec);
        let layer = media_type(&draft.object.spec);
        let resolution = client.resolve(&wanted, &layer, deadline).await;
        let resolution =
            resolution.map_err(|error| Failure::passing(error.reason(), error.to_string()))?;
        Ok((client, resolution))
    }

    /// Checks signatures, where that is asked for and not done already.
    async fn verify(
        &self,
        draft: &mut Draft<OCIRepository>,
        context: &Context,
        client: &OciClient,
        resolution: &Resolution,
        stored: bool,
        deadline: &Deadline,
    ) -> Result<(), Failure> {
        let Some(asked) = draft.object.spec.verify.clone() else {
            draft.remove(types::SOURCE_VERIFIED);
            return Ok(());
        };
        let verified = find(&draft.object.status.conditions, types::SOURCE_VERIFIED);
        let known = verified.is_some_and(|verified| {
            verified.status == ConditionStatus::True
                && verified.observed_generation == draft.generation()
        });
        if stored && known {
            return Ok(());
        }
        let namespace = draft.namespace().to_owned();
        let (secret, root) = (&asked.secret_ref, &asked.trusted_root_secret_ref);
        let request = signature::Request {
            provider: asked.provider.unwrap_or(SignatureProvider::Cosign),
            secret: secret.as_ref().map(|secret| secret.name.as_str()),
            identities: &asked.match_oidc_identity,
            trusted_root: root.as_ref().map(|secret| secret.name.as_str()),
        };
        let verified = self
            .signatures
            .verify(context, &namespace, client, resolution, &request, deadline);
        if let Err(why) = verified.await {
            let message = format!(
                "failed to verify the signature using provider '{}': {why}",
                request.named()
            );
            let failure = Failure::passing(Reason::VerificationError.as_str(), message);
            return Err(draft.unverified(failure));
        }
        let message = format!("verified signature of revision {}", resolution.revision);
        let reason = Reason::Succeeded.as_str();
        draft.set(
            types::SOURCE_VERIFIED,
            ConditionStatus::True,
            reason,
            message,
        );
        Ok(())
    }

    async fn store(
        &self,
        draft: &mut Draft<OCIRepository>,
        context: &Context,
        client: &OciClient,
        resolution: &Resolution,
        deadline: &Deadline,
    ) -> Result<(), Failure> {
        let spec = draft.object.spec.clone();
        let selector = spec.layer_selector.as_ref();
        let options = PullOptions {
            media_type: media_type(&spec),
            operation: match selector.and_then(|selector| selector.operation) {
                Some(api::LayerOperation::Copy) => LayerOperation::Copy,
                _ => LayerOperation::Extract,
            },
            ignore: spec.ignore.as_deref().map(str::to_owned),
            algorithm: self.storage.algorithm(),
            unpack: self.options.artifact_limits(),
        };
        let pulled = client
            .pull(resolution, &options, deadline)
            .await
            .map_err(|error| {
                let condition = match error {
                    Error::Disk { .. } => types::STORAGE_OPERATION_FAILED,
                    _ => types::FETCH_FAILED,
                };
                draft.fail(
                    condition,
                    Failure::passing(error.reason(), error.to_string()),
                )
            })?;
        draft.remove(types::FETCH_FAILED);
        let named = draft.object.status.artifact.as_ref();
        let name = file_name(&resolution.digest.to_string(), &pulled.digest, named);
        let finished = Finished {
            path: &pulled.path(),
            name: &name,
            digest: pulled.digest.clone(),
            size: pulled.size,
            revision: &resolution.revision,
            action: "archive artifact",
        };
        let published = publish::<Self>(&self.storage, draft, context, finished);
        let (artifact, link) = published.await?;
        let status = &mut draft.object.status;
        status.artifact = Some(Artifact {
            metadata: pulled.metadata.clone(),
            ..artifact
        });
        status.observed_ignore = spec.ignore;
        status.observed_layer_selector = spec.layer_selector;
        draft.linked(link, |status, url| status.url = Some(url));
        draft.remove(types::STORAGE_OPERATION_FAILED);
        Ok(())
    }
}

async fn proxy(
    client: &everflow_runtime::client::Client,
    namespace: &str,
    reference: Option<&everflow_api::common::LocalObjectReference>,
) -> Result<Option<Proxy>, Failure> {
    let Some(reference) = reference else {
        return Ok(None);
    };
    let secret = SecretData::get(client, namespace, &reference.name).await;
    let proxy = secret
        .map_err(|unread| unread.to_string())
        .and_then(|secret| secret.proxy());
    proxy.map(Some).map_err(|why| {
        Failure::passing(
            UNAUTHENTICATED,
            format!("failed to get proxy address: {why}"),
        )
    })
}

fn wanted(spec: &OCIRepositorySpec) -> OciRef {
    let Some(asked) = &spec.reference else {
        return OciRef::default();
    };
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    OciRef {
        digest: text(&asked.digest),
        semver: text(&asked.semver),
        semver_filter: text(&asked.semver_filter),
        tag: text(&asked.tag),
    }
}

fn media_type(spec: &OCIRepositorySpec) -> String {
    let selector = spec.layer_selector.as_ref();
    selector
        .and_then(|selector| selector.media_type.clone())
        .unwrap_or_default()
}

fn config_changed(draft: &Draft<OCIRepository>) -> bool {
    let (spec, status) = (&draft.object.spec, &draft.object.status);
    spec.ignore != status.observed_ignore || spec.layer_selector != status.observed_layer_selector
}

fn said(draft: &Draft<OCIRepository>) -> String {
    let url = &draft.object.spec.url;
    let Some(artifact) = &draft.object.status.artifact else {
        return String::new();
    };
    let mut said = format!(
        "stored artifact with revision '{}' from '{url}'",
        artifact.revision
    );
    let origin = |key: &str| artifact.metadata.get(key).filter(|text| !text.is_empty());
    if let (Some(source), Some(revision)) = (origin(ORIGIN_SOURCE), origin(ORIGIN_REVISION)) {
        said.push_str(&format!(
            ", origin source '{source}', origin revision '{revision}'"
        ));
    }
    said
}

impl Source for Oci {
    type Kind = OCIRepository;
    const RESOURCE: Resource = OCI_REPOSITORIES;
    const NAME: &'static str = "ocirepository";
    const ADDRESS: &'static str = "/spec/url";
    const LINK: &'static str = "latest.tar.gz";

    fn is_suspended(spec: &OCIRepositorySpec) -> bool {
        spec.suspend
    }

    fn interval(spec: &OCIRepositorySpec) -> Duration {
        spec.interval.unsigned()
    }

    fn timeout(spec: &OCIRepositorySpec) -> Duration {
        spec.timeout.unwrap_or(DEFAULT_TIMEOUT).unsigned()
    }

    fn set_url(status: &mut api::OCIRepositoryStatus, url: Option<String>) {
        status.url = url;
    }

    async fn reconcile(
        &self,
        draft: &mut Draft<OCIRepository>,
        context: &Context,
    ) -> Result<Outcome, Stop> {
        draft.forget_failed_verification();
        let deadline = Deadline::after(&context.env.clock, Self::timeout(&draft.object.spec));
        let remote = self.remote(draft, context).await;
        let remote = remote.map_err(|failure| draft.fail(types::FETCH_FAILED, failure))?;
        context.check()?;
        let resolved = self.resolve(draft, context, remote, &deadline).await;
        let (client, resolution) =
            resolved.map_err(|failure| draft.fail(types::FETCH_FAILED, failure))?;
        let revision = resolution.revision.clone();
        let current = draft.object.status.artifact.as_ref();
        let stored = current.is_some_and(|current| current.revision == revision);
        if !stored {
            let message = format!("new revision '{revision}' for '{}'", resolution.reference);
            draft.outdated(&message);
        }
        self.verify(draft, context, &client, &resolution, stored, &deadline)
            .await?;
        if stored && !config_changed(draft) {
            draft.remove(types::FETCH_FAILED);
            draft.stored(
                Reason::Succeeded,
                format!("stored artifact for digest '{revision}'"),
            );
            return Ok(Outcome::Unchanged {
                said: said(draft),
                reason: Reason::ArtifactUpToDate,
                message: format!("artifact up-to-date with remote revision: '{revision}'"),
            });
        }
        context.check()?;
        self.store(draft, context, &client, &resolution, &deadline)
            .await?;
        draft.stored(
            Reason::Succeeded,
            format!("stored artifact for digest '{revision}'"),
        );
        Ok(Outcome::done(said(draft)))
    }
}
