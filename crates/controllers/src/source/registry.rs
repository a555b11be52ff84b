//! Who we are to a registry.

use everflow_api::Reason;
use everflow_fetch::oci::DockerConfig;
use everflow_json::Value;
use everflow_runtime::Error;
use everflow_runtime::client::{At, Client};

use super::outcome::Failure;
use super::secrets::SecretData;
use crate::Options;
use crate::resources::SERVICE_ACCOUNTS;

/// The credentials of a Secret and of a service account's pull secrets; none when neither is
/// named, or the account has none.
pub(super) async fn pull_secrets(
    client: &Client,
    namespace: &str,
    secret: Option<&str>,
    account: Option<&str>,
) -> Result<Option<DockerConfig>, String> {
    let mut secrets = Vec::new();
    if let Some(name) = secret {
        let read = SecretData::get(client, namespace, name).await;
        secrets.push(read.map_err(|unread| {
            format!(
                "failed to get secret '{namespace}/{name}': {}",
                unread.told()
            )
        })?);
    }
    if let Some(account) = account {
        let full = format!("{namespace}/{account}");
        let read = client
            .get(&SERVICE_ACCOUNTS, At::new(namespace, account))
            .await;
        let read = read.map_err(|error| match error {
            Error::NotFound(_) => format!("serviceaccount '{full}' not found"),
            error => format!("failed to get serviceaccount '{full}': {error}"),
        })?;
        let named = read.get("imagePullSecrets").and_then(Value::as_array);
        for reference in named.into_iter().flatten() {
            let name = reference["name"].as_str().unwrap_or_default();
            let secret = SecretData::get(client, namespace, name).await;
            secrets.push(secret.map_err(|unread| {
                format!("failed to get image pull secret for serviceaccount '{full}': {unread}")
            })?);
        }
    }
    if secrets.is_empty() {
        return Ok(None);
    }
    let mut config = DockerConfig::new();
    for secret in &secrets {
        let added = config.add_secret(&secret.kind, secret.data());
        added.map_err(|error| format!("secret '{}': {error}", secret.name()))?;
    }
    Ok(Some(config))
}

/// What is said of clouds' own credentials.
pub(super) fn unsupported_provider(options: &Options, provider: &str, account: bool) -> Failure {
    if account && !options.gates.object_level_workload_identity {
        return Failure::stalling(
            Reason::FeatureGateDisabled.as_str(),
            "to use spec.serviceAccountName for provider authentication please enable the \
             ObjectLevelWorkloadIdentity feature gate in the controller",
        );
    }
    let message = format!(
        "the provider '{provider}' is not supported yet: use the provider 'generic' with a \
         secretRef"
    );
    Failure::stalling(Reason::InvalidProviderConfiguration.as_str(), message)
}
