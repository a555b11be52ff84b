//! Secrets: read by name when they are needed, never kept.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_api::Object;
use everflow_api::notification::Provider;
use everflow_json::Value;
use everflow_notify::SecretData;
use everflow_notify::provider::{Lookup, Secrets, secret_names};
use everflow_runtime::Error;
use everflow_runtime::client::{At, Client};
use futures_util::future::join3;

use crate::resources::SECRETS;

/// A Secret by its name, if one is named. The error is one that says nothing about the Secret itself.
///
/// # Errors
/// When the API server cannot be asked now.
pub async fn lookup(client: &Client, namespace: &str, name: Option<&str>) -> Result<Lookup, Error> {
    let Some(name) = name else {
        return Ok(Lookup::None);
    };
    match client.get(&SECRETS, At::new(namespace, name)).await {
        Ok(secret) => Ok(Lookup::Found(read(namespace, name, &secret))),
        Err(error) if error.is_transient() => Err(error),
        Err(error) => Ok(Lookup::Failed(error.to_string())),
    }
}

/// All Secrets that a Provider names.
pub(crate) async fn of_provider(
    client: &Client,
    provider: &Object<Provider>,
) -> Result<Secrets, Error> {
    let namespace = provider.metadata.namespace();
    let [credentials, proxy, certificates] = secret_names(provider);
    let (credentials, proxy, certificates) = join3(
        lookup(client, namespace, credentials),
        lookup(client, namespace, proxy),
        lookup(client, namespace, certificates),
    )
    .await;
    Ok(Secrets {
        credentials: credentials?,
        proxy: proxy?,
        certificates: certificates?,
    })
}

fn read(namespace: &str, name: &str, secret: &Value) -> SecretData {
    let entries = secret.get("data").and_then(Value::as_object);
    let entries = entries.into_iter().flatten().filter_map(|(key, value)| {
        let bytes = STANDARD.decode(value.as_str()?).ok()?;
        Some((key.to_string(), bytes))
    });
    SecretData::new(
        format!("{namespace}/{name}"),
        entries.collect::<BTreeMap<_, _>>(),
    )
}
