//! Whom to trust, and who we are.

use std::sync::Arc;

use everflow_connect::{Error, HTTP, HTTP2, Secret, TlsOptions, Unusable};
use everflow_env::Clock;
use rustls::ClientConfig;

use super::config::{ClientCertificate, ClusterConfig};
use crate::client::TransportError;

/// What a cluster's configuration says of TLS.
pub(super) fn options(
    config: &ClusterConfig,
    certificate: Option<&ClientCertificate>,
) -> TlsOptions {
    TlsOptions {
        ca: config.authority.clone(),
        client: certificate.map(|(chain, key)| (chain.clone(), Secret::new(key.0.clone()))),
        without_system_roots: config.authority.is_some(),
        insecure: config.insecure,
    }
}

/// The configuration of TLS for a cluster.
pub(super) fn configure(
    options: &TlsOptions,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<ClientConfig>, TransportError> {
    let configured = everflow_connect::configure(options, clock, &[HTTP2, HTTP]);
    configured.map_err(|error| match error {
        Error::Unusable { which, message } => TransportError::text(match which {
            Unusable::Authority => "the certificate authority has no certificate in it".to_owned(),
            Unusable::Certificate => "the client's certificate is not PEM".to_owned(),
            Unusable::Key => "the client's key is not PEM".to_owned(),
            Unusable::Pair => message,
        }),
        other => TransportError::new(&other),
    })
}
