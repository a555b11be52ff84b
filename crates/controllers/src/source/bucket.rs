//! Bucket.

use std::time::Duration;

use everflow_api::Reason;
use everflow_api::common::LocalObjectReference;
use everflow_api::names::condition as types;
use everflow_api::source::{
    Bucket, BucketProvider, BucketSpec, BucketStatus, DEFAULT_TIMEOUT, StsProvider,
};
use everflow_fetch::archive::Algorithm;
use everflow_fetch::bucket::{BucketAuth, BucketClient, Ldap, Remote, unsupported_provider};
use everflow_fetch::http::TlsOptions;
use everflow_fetch::storage::Storage;
use everflow_fetch::{Deadline, Error, Secret};
use everflow_runtime::attempt::Context;
use everflow_runtime::client::{Client, Resource};

use super::controller::Source;
use super::draft::Draft;
use super::outcome::{Failure, Outcome, Stop};
use super::publish::{Finished, publish};
use super::secrets::SecretData;
use crate::resources::BUCKETS;
use crate::{Options, Setup};

const UNAUTHENTICATED: &str = "AuthenticationFailed";

/// The source of buckets.
#[derive(Debug)]
pub(crate) struct Buckets {
    storage: Storage,
    options: Options,
}

impl Buckets {
    pub(crate) fn new(setup: &Setup) -> Self {
        Buckets {
            storage: setup.storage.clone(),
            options: setup.options.clone(),
        }
    }
}

/// Reads the Secrets and works out the bucket.
async fn remote(
    options: &Options,
    client: &Client,
    namespace: &str,
    spec: &BucketSpec,
) -> Result<Remote, Failure> {
    let provider = spec.provider.unwrap_or(BucketProvider::Generic);
    let unauthenticated = |why: String| Failure::passing(UNAUTHENTICATED, why);
    if provider != BucketProvider::Generic && spec.service_account_name.is_some() {
        let failure = super::registry::unsupported_provider(options, provider.as_str(), true);
        return Err(failure);
    }
    let named = |prefix: &str, reference: &LocalObjectReference| {
        format!("{prefix} '{namespace}/{}'", reference.name)
    };
    let mut remote = Remote::new(&spec.endpoint, &spec.bucket_name);
    remote.insecure = spec.insecure;
    remote.total = options.artifact_max_size;
    remote.region = spec.region.clone().unwrap_or_default();
    remote.prefix = spec.prefix.clone().unwrap_or_default();
    if let Some(reference) = &spec.secret_ref {
        let secret = SecretData::get(client, namespace, &reference.name).await;
        let secret = secret.map_err(|unread| {
            let what = named("failed to get secret", reference);
            unauthenticated(format!("{what}: {}", unread.told()))
        })?;
        let supported = matches!(provider, BucketProvider::Generic | BucketProvider::Aws);
        if supported {
            let auth = BucketAuth::from_secret(&reference.name, secret.data());
            remote.auth = auth.map_err(|error| unauthenticated(error.to_string()))?;
        }
    }
    let keyless = provider == BucketProvider::Aws && spec.secret_ref.is_none();
    if keyless || matches!(provider, BucketProvider::Gcp | BucketProvider::Azure) {
        let error = unsupported_provider(provider.as_str());
        return Err(Failure::stalling(error.reason(), error.to_string()));
    }
    if let Some(reference) = &spec.proxy_secret_ref {
        let secret = SecretData::get(client, namespace, &reference.name).await;
        let proxy = secret
            .map_err(|unread| unread.to_string())
            .and_then(|secret| secret.proxy());
        remote.proxy =
            Some(proxy.map_err(|why| unauthenticated(format!("failed to get proxy URL: {why}")))?);
    }
    if let Some(reference) = &spec.cert_secret_ref {
        let tls = trust(client, namespace, reference).await;
        remote.tls =
            tls.map_err(|why| unauthenticated(format!("failed to get TLS config: {why}")))?;
    }
    if let Some(sts) = &spec.sts {
        remote.auth = BucketAuth::Ldap(directory(client, namespace, sts).await?);
    }
    Ok(remote)
}

/// The service that gives keys to users of a directory.
async fn directory(
    client: &Client,
    namespace: &str,
    sts: &everflow_api::source::BucketStsSpec,
) -> Result<Ldap, Failure> {
    let unauthenticated = |why: String| Failure::passing(UNAUTHENTICATED, why);
    if sts.provider != StsProvider::Ldap {
        let message = format!(
            "the STS provider '{}' is not supported yet: use the provider 'ldap'",
            sts.provider.as_str()
        );
        let reason = Reason::InvalidSTSConfiguration.as_str();
        return Err(Failure::stalling(reason, message));
    }
    let mut ldap = Ldap {
        endpoint: sts.endpoint.clone(),
        username: String::new(),
        password: Secret::new(String::new()),
        tls: TlsOptions::default(),
    };
    if let Some(reference) = &sts.secret_ref {
        let secret = SecretData::get(client, namespace, &reference.name).await;
        let secret = secret.map_err(|unread| {
            unauthenticated(format!(
                "failed to get STS secret '{namespace}/{}': {}",
                reference.name,
                unread.told()
            ))
        })?;
        if !secret.has("username") || !secret.has("password") {
            return Err(unauthenticated(format!(
                "invalid '{}' secret data for the STS provider 'ldap': required fields \
                 'username' and 'password'",
                reference.name
            )));
        }
        ldap.username = secret.text("username");
        ldap.password = Secret::new(secret.text("password"));
    }
    if let Some(reference) = &sts.cert_secret_ref {
        let tls = trust(client, namespace, reference).await;
        ldap.tls =
            tls.map_err(|why| unauthenticated(format!("failed to get STS TLS config: {why}")))?;
    }
    Ok(ldap)
}

async fn trust(
    client: &Client,
    namespace: &str,
    reference: &LocalObjectReference,
) -> Result<TlsOptions, String> {
    let secret = SecretData::get(client, namespace, &reference.name).await;
    secret.map_err(|unread| unread.to_string())?.tls()
}

fn said(spec: &BucketSpec, files: usize) -> String {
    format!(
        "stored artifact with {files} fetched files from '{}' bucket",
        spec.bucket_name
    )
}

impl Source for Buckets {
    type Kind = Bucket;
    const RESOURCE: Resource = BUCKETS;
    const NAME: &'static str = "bucket";
    const ADDRESS: &'static str = "/spec/endpoint";
    const LINK: &'static str = "latest.tar.gz";

    fn is_suspended(spec: &BucketSpec) -> bool {
        spec.suspend
    }

    fn interval(spec: &BucketSpec) -> Duration {
        spec.interval.unsigned()
    }

    fn timeout(spec: &BucketSpec) -> Duration {
        spec.timeout.unwrap_or(DEFAULT_TIMEOUT).unsigned()
    }

    fn set_url(status: &mut BucketStatus, url: Option<String>) {
        status.url = url;
    }

    async fn reconcile(
        &self,
        draft: &mut Draft<Bucket>,
        context: &Context,
    ) -> Result<Outcome, Stop> {
        let namespace = draft.namespace().to_owned();
        let spec = draft.object.spec.clone();
        let failed = |draft: &mut Draft<Bucket>, error: &Error| {
            let failure = Failure::passing(error.reason(), error.to_string());
            draft.fail(types::FETCH_FAILED, failure)
        };
        let remote = remote(&self.options, &context.client, &namespace, &spec).await;
        let remote = remote.map_err(|failure| draft.fail(types::FETCH_FAILED, failure))?;
        let client = BucketClient::new(&context.env, remote);
        let client = client.map_err(|error| failed(draft, &error))?;
        context.check()?;
        let timeout = Self::timeout(&spec);
        let deadline = Deadline::after(&context.env.clock, timeout);
        let index = client.index(spec.ignore.as_deref(), &deadline).await;
        let index = index.map_err(|error| failed(draft, &error))?;
        let current = draft.object.status.artifact.as_ref();
        if let Some(current) = current.filter(|current| index.is(&current.revision)) {
            let revision = current.revision.clone();
            draft.remove(types::FETCH_FAILED);
            draft.stored(
                Reason::Succeeded,
                format!("stored artifact: revision '{revision}'"),
            );
            return Ok(Outcome::Unchanged {
                said: said(&spec, index.objects.len()),
                reason: Reason::ArtifactUpToDate,
                message: format!("artifact up-to-date with remote revision: '{revision}'"),
            });
        }
        let revision = index.revision(Algorithm::Sha256);
        draft.outdated(&format!("new upstream revision '{revision}'"));
        // Downloads have a time of their own.
        let deadline = Deadline::after(&context.env.clock, timeout);
        let fetched = client
            .fetch(index, self.storage.algorithm(), &deadline)
            .await;
        let fetched = fetched.map_err(|error| failed(draft, &error))?;
        draft.remove(types::FETCH_FAILED);
        context.check()?;
        // Objects may have changed while they were downloaded.
        let revision = fetched.index.revision(Algorithm::Sha256);
        let name = format!("{}.tar.gz", revision.hex());
        let finished = Finished {
            path: &fetched.path(),
            name: &name,
            digest: fetched.digest.clone(),
            size: fetched.size,
            revision: revision.as_str(),
            action: "archive artifact",
        };
        let published = publish::<Self>(&self.storage, draft, context, finished);
        let (artifact, link) = published.await?;
        let status = &mut draft.object.status;
        status.artifact = Some(artifact);
        status.observed_ignore = spec.ignore.clone();
        draft.linked(link, |status, url| status.url = Some(url));
        draft.remove(types::STORAGE_OPERATION_FAILED);
        draft.stored(
            Reason::Succeeded,
            format!("stored artifact: revision '{revision}'"),
        );
        Ok(Outcome::done(said(&spec, fetched.index.objects.len())))
    }
}
