//! The server over HTTPS, with a certificate authority of its own.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::faults::Faults;
use crate::server_core::ApiServer;
use crate::service::ApiService;

/// How long open requests may take after the stop was asked for.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Why certificates could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The certificate could not be used.
    #[error("cannot use the certificate: {0}")]
    Config(#[from] rustls::Error),
    /// A stored key or certificate is not readable.
    #[error("the stored {what} is not valid; delete it to have a new one made")]
    Stored {
        /// Which file.
        what: &'static str,
    },
}

/// A certificate authority and the server's certificate, as PEM text.
#[derive(Clone, Debug)]
pub struct Authority {
    /// The authority's certificate.
    pub ca_certificate: String,
    /// The server's certificate.
    pub certificate: String,
    /// The server's private key.
    pub key: String,
}

impl Authority {
    /// A new authority and a certificate for these names and addresses.
    pub fn generate(names: &[String]) -> Result<Self, TlsError> {
        use rcgen::{
            BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
            KeyPair, KeyUsagePurpose,
        };
        let ca_key = KeyPair::generate()?;
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::CrlSign,
        ];
        ca.distinguished_name
            .push(DnType::CommonName, "everflow-cluster-ca");
        let ca_certificate = ca.self_signed(&ca_key)?.pem();
        let issuer = Issuer::new(ca, ca_key);
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names.to_vec())?;
        params
            .distinguished_name
            .push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        let certificate = params.signed_by(&key, &issuer)?.pem();
        Ok(Authority {
            ca_certificate,
            certificate,
            key: key.serialize_pem(),
        })
    }

    /// The TLS configuration of a server with this certificate.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        use rustls::pki_types::pem::PemObject as _;
        let mut chain: Vec<CertificateDer<'static>> = Vec::new();
        for pem in [&self.certificate, &self.ca_certificate] {
            chain.push(CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| {
                TlsError::Stored {
                    what: "certificate",
                }
            })?);
        }
        let key =
            PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|_| TlsError::Stored {
                what: "private key",
            })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Accepts connections until `stop` is done, then lets open requests finish for a moment.
pub async fn serve(
    server: ApiServer,
    faults: Arc<dyn Faults>,
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let acceptor = TlsAcceptor::from(tls);
    let graceful = GracefulShutdown::new();
    let service = ApiService::new(server).with_faults(faults);
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _peer)) = accepted else {
            // Out of descriptors or a client that left at once: go on, but not in a hot loop.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let acceptor = acceptor.clone();
        let service = service.clone();
        let watcher = graceful.watcher();
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let builder = auto::Builder::new(TokioExecutor::new());
            let connection = builder
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
                .into_owned();
            // A connection that ends badly concerns nobody but its client.
            let _ = watcher.watch(connection).await;
        });
    }
    let _ = tokio::time::timeout(STOP_GRACE, graceful.shutdown()).await;
    Ok(())
}

/// Whether only this machine can reach an address.
pub fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().is_loopback()
}

/// A kubeconfig for a server.
pub fn kubeconfig(url: &str, ca_certificate: &str, token: &str) -> String {
    use base64::Engine as _;
    let ca = base64::engine::general_purpose::STANDARD.encode(ca_certificate);
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: everflow\n  cluster:\n    server: {url}\n    certificate-authority-data: {ca}\nusers:\n- name: admin\n  user:\n    token: {token}\ncontexts:\n- name: everflow\n  context:\n    cluster: everflow\n    user: admin\ncurrent-context: everflow\n"
    )
}
