//! Signatures of artifacts in registries.

use std::sync::Arc;

use everflow_api::common::SignatureProvider;
use everflow_api::source::OIDCIdentityMatch;
use everflow_fetch::Deadline;
use everflow_fetch::oci::cosign::{
    Identities, PublicKey, Trust, TrustRoot, unsupported_verification,
};
use everflow_fetch::oci::trust::{Refresh, Source, TrustRoots};
use everflow_fetch::oci::{OciClient, Resolution};
use everflow_runtime::attempt::Context;
use everflow_runtime::metrics::Metrics;

use super::secrets::SecretData;
use crate::Setup;

/// The key of a Secret with a root of trust.
const TRUSTED_ROOT: &str = "trusted_root.json";

/// Whose signature is asked for.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub provider: SignatureProvider,
    /// The Secret with the keys.
    pub secret: Option<&'a str>,
    /// Who may have signed without a key.
    pub identities: &'a [OIDCIdentityMatch],
    /// The Secret with the root of trust for signatures without keys.
    pub trusted_root: Option<&'a str>,
}

impl Request<'_> {
    /// The provider as conditions name it.
    pub(super) fn named(&self) -> String {
        let keyless = self.provider == SignatureProvider::Cosign && self.secret.is_none();
        let suffix = if keyless { " keyless" } else { "" };
        format!("{}{suffix}", self.provider.as_str())
    }
}

/// Verifies signatures, with the public root of trust at hand.
#[derive(Debug)]
pub(super) struct Signatures {
    roots: TrustRoots,
    metrics: Metrics,
}

impl Signatures {
    /// `name` tells the controllers apart, each of which keeps the root for itself.
    pub(super) fn new(setup: &Setup, name: &str) -> Self {
        let source = Source {
            file: format!("{name}.json"),
            ..Source::default()
        };
        Signatures {
            roots: TrustRoots::new(source),
            metrics: setup.metrics.clone(),
        }
    }

    /// Checks that an artifact is signed; what is wrong when it is not.
    pub(super) async fn verify(
        &self,
        context: &Context,
        namespace: &str,
        client: &OciClient,
        resolution: &Resolution,
        request: &Request<'_>,
        deadline: &Deadline,
    ) -> Result<(), String> {
        if request.provider != SignatureProvider::Cosign {
            return Err(unsupported_verification(request.provider.as_str()).to_string());
        }
        // Flux reads it before the keys, and without any need for it.
        let custom = match request.trusted_root {
            Some(name) => Some(custom_root(context, namespace, name).await?),
            None => None,
        };
        let trust = match (request.secret, custom) {
            (Some(name), _) => {
                let keys = keys(context, namespace, name).await?;
                if keys.is_empty() {
                    return Err(format!(
                        "no matching signatures were found for '{}': the secret \
                         '{namespace}/{name}' has no key whose name ends with .pub",
                        resolution.by_digest()
                    ));
                }
                Trust::Keys(keys)
            }
            (None, custom) => {
                let rules = request.identities.iter();
                let rules = rules.map(|rule| (rule.issuer.as_str(), rule.subject.as_str()));
                Trust::Keyless {
                    identities: Identities::new(rules).map_err(|error| error.to_string())?,
                    root: match custom {
                        Some(json) => {
                            TrustRoot::from_json(&json).map_err(|error| error.to_string())?
                        }
                        None => self.public_root(context, deadline).await?,
                    },
                }
            }
        };
        let trust = Arc::new(trust);
        let verified = client.verify(&resolution.digest, &trust, deadline);
        verified.await.map_err(|error| error.to_string())
    }

    /// The root of the public instance of Sigstore; an old one when it cannot be refreshed.
    async fn public_root(
        &self,
        context: &Context,
        deadline: &Deadline,
    ) -> Result<TrustRoot, String> {
        let current = self.roots.current(&context.env, deadline).await;
        let (root, refresh) = current.map_err(|error| error.to_string())?;
        let result = match &refresh {
            Refresh::NotDue => return Ok(root),
            Refresh::Done => "success",
            Refresh::NotKept(why) => {
                let message = "failed to keep the root of trust of Sigstore for the next start";
                context.log.error(message, why);
                "success"
            }
            Refresh::Failed(why) => {
                let message = "failed to refresh the root of trust of Sigstore, going on with the \
                               one that is there";
                context.log.error(message, why);
                "failure"
            }
        };
        let name = "everflow_sigstore_root_refreshes_total";
        self.metrics.count(name, &[("result", result)]);
        Ok(root)
    }
}

/// The public keys of a Secret.
async fn keys(context: &Context, namespace: &str, name: &str) -> Result<Vec<PublicKey>, String> {
    let secret = SecretData::get(&context.client, namespace, name).await;
    let secret = secret.map_err(|unread| unread.told().to_owned())?;
    let keys = secret.entries().filter(|(key, _)| key.ends_with(".pub"));
    keys.map(|(_, pem)| PublicKey::from_pem(pem).map_err(|error| error.to_string()))
        .collect()
}

/// The root of trust in a Secret.
async fn custom_root(context: &Context, namespace: &str, name: &str) -> Result<Vec<u8>, String> {
    let unread =
        |why: &str| format!("failed to read trusted root from secret '{namespace}/{name}': {why}");
    let secret = SecretData::get(&context.client, namespace, name).await;
    let secret = secret.map_err(|error| unread(error.told()))?;
    let root = secret.bytes(TRUSTED_ROOT).map(<[u8]>::to_vec);
    root.ok_or_else(|| {
        unread(&format!(
            "'{TRUSTED_ROOT}' not found in secret '{namespace}/{name}'"
        ))
    })
}
