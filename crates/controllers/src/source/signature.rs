//! Signatures of artifacts in registries.

use everflow_api::common::SignatureProvider;
use everflow_fetch::Deadline;
use everflow_fetch::oci::cosign::{PublicKey, unsupported_verification};
use everflow_fetch::oci::{OciClient, Resolution};
use everflow_runtime::attempt::Context;

use super::secrets::SecretData;

/// Whose signature is asked for.
pub(super) struct Request<'a> {
    pub provider: SignatureProvider,
    /// The Secret with the keys.
    pub secret: Option<&'a str>,
}

/// Checks that an artifact is signed; what is wrong when it is not.
pub(super) async fn verify(
    context: &Context,
    namespace: &str,
    client: &OciClient,
    resolution: &Resolution,
    request: &Request<'_>,
    deadline: &Deadline,
) -> Result<(), String> {
    let unsupported = || unsupported_verification(request.provider.as_str()).to_string();
    let name = match (request.provider, request.secret) {
        (SignatureProvider::Cosign, Some(name)) => name,
        _ => return Err(unsupported()),
    };
    let secret = SecretData::get(&context.client, namespace, name).await;
    let secret = secret.map_err(|unread| unread.told().to_owned())?;
    let keys: Result<Vec<PublicKey>, _> = secret
        .entries()
        .filter(|(key, _)| key.ends_with(".pub"))
        .map(|(_, pem)| PublicKey::from_pem(pem))
        .collect();
    let keys = keys.map_err(|error| error.to_string())?;
    if keys.is_empty() {
        return Err(format!(
            "no matching signatures were found for '{}': the secret '{namespace}/{name}' has no \
             key whose name ends with .pub",
            resolution.by_digest()
        ));
    }
    let verified = client
        .verify_cosign(&resolution.digest, &keys, deadline)
        .await;
    verified.map_err(|error| error.to_string())
}
