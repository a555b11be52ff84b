//! Whom to trust, and who we are.

use std::sync::Arc;

use everflow_env::tls::{TrustAnyone, system_roots};
use rustls::crypto::ring as provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::config::{ClientCertificate, ClusterConfig};
use crate::client::TransportError;

/// The configuration of TLS for a cluster.
pub(super) fn configure(
    config: &ClusterConfig,
    certificate: Option<&ClientCertificate>,
) -> Result<Arc<ClientConfig>, TransportError> {
    let provider = Arc::new(provider::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| TransportError::new(&error))?;
    let builder = match config.insecure {
        true => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustAnyone::new(provider))),
        false => builder.with_root_certificates(roots(config)?),
    };
    let mut tls = match certificate {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let wrong = |what: &str| TransportError::text(format!("the client's {what}"));
            let chain: Result<Vec<CertificateDer<'static>>, _> =
                CertificateDer::pem_slice_iter(chain).collect();
            let chain = chain.map_err(|_| wrong("certificate is not PEM"))?;
            let key = PrivateKeyDer::from_pem_slice(&key.0);
            let key = key.map_err(|_| wrong("key is not PEM"))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| TransportError::new(&error))?
        }
    };
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(tls))
}

fn roots(config: &ClusterConfig) -> Result<RootCertStore, TransportError> {
    let Some(pem) = &config.authority else {
        return Ok(system_roots().clone());
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate
            .map_err(|_| TransportError::text("the certificate authority is not PEM"))?;
        roots
            .add(certificate)
            .map_err(|error| TransportError::new(&error))?;
    }
    if roots.is_empty() {
        let why = "the certificate authority has no certificate in it";
        return Err(TransportError::text(why));
    }
    Ok(roots)
}
