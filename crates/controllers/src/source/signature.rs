//! Signatures of artifacts in registries.

use everflow_api::common::SignatureProvider;
use everflow_fetch::Deadline;
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
    _client: &OciClient,
    resolution: &Resolution,
    request: &Request<'_>,
    _deadline: &Deadline,
) -> Result<(), String> {
    if request.provider == SignatureProvider::Notation {
        return Err(
            "notation is not supported yet: use the provider 'cosign' with keys".to_owned(),
        );
    }
    let Some(name) = request.secret else {
        return Err(
            "keyless verification is not supported yet: name a Secret with public keys in \
             spec.verify.secretRef"
                .to_owned(),
        );
    };
    let secret = SecretData::get(&context.client, namespace, name).await;
    let secret = secret.map_err(|unread| unread.told().to_owned())?;
    let keys = secret.entries().filter(|(key, _)| key.ends_with(".pub"));
    if keys.count() == 0 {
        return Err(format!(
            "no matching signatures were found for '{}'",
            resolution.by_digest()
        ));
    }
    Err("PEM decoding failed".to_owned())
}
