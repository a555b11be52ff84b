//! The server over HTTPS, with a certificate authority of its own.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use everflow_env::SystemClock;
use everflow_serve::{Connection, Limits, Port};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::auth::certificates::Certificates;
use crate::faults::Faults;
use crate::server_core::ApiServer;
use crate::service::ApiService;

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
#[derive(Clone)]
pub struct Authority {
    /// The authority's certificate.
    pub ca_certificate: String,
    /// The authority's private key, when certificates for clients may be made.
    pub ca_key: Option<String>,
    /// The server's certificate.
    pub certificate: String,
    /// The server's private key.
    pub key: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Authority")
            .field("ca_certificate", &self.ca_certificate)
            .finish_non_exhaustive()
    }
}

/// How a server speaks TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
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
        let ca_key_text = ca_key.serialize_pem();
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
            ca_key: Some(ca_key_text),
            certificate,
            key: key.serialize_pem(),
        })
    }

    /// A certificate and its key for a client: a user's name and their group.
    pub fn client_certificate(
        &self,
        name: &str,
        group: Option<&str>,
    ) -> Result<(String, String), TlsError> {
        use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
        let ca_key = self.ca_key.as_deref().ok_or(TlsError::Stored {
            what: "key of the authority",
        })?;
        let mut ca = CertificateParams::default();
        ca.distinguished_name
            .push(DnType::CommonName, "everflow-cluster-ca");
        let issuer = Issuer::new(ca, KeyPair::from_pem(ca_key)?);
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &issuer)?.pem();
        Ok((certificate, key.serialize_pem()))
    }

    /// How a server with this certificate speaks. Clients may show certificates of this authority, or of another one.
    pub fn server_config(&self) -> Result<Tls, TlsError> {
        self.server_config_for(&self.ca_certificate)
    }

    /// As [`Authority::server_config`], with the authorities of clients as PEM text.
    pub fn server_config_for(&self, client_authorities: &str) -> Result<Tls, TlsError> {
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
        let mut authorities = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(client_authorities.as_bytes()) {
            let certificate = certificate.map_err(|_| TlsError::Stored {
                what: "certificate of the clients' authority",
            })?;
            authorities.add(certificate)?;
        }
        let certificates = Certificates::new(authorities, provider.clone())?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(certificates.clone())
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls {
            config: Arc::new(config),
            certificates,
        })
    }
}

/// Connections that a server has at once. Each watch of a client that speaks HTTP/1 needs one of its own.
const CONNECTIONS: usize = 2_048;

fn port() -> Port {
    let limits = Limits::for_connections(CONNECTIONS);
    Port::new(Arc::new(SystemClock::new()), limits)
}

/// Accepts connections until `stop` is done, then lets open requests finish for a moment.
pub async fn serve(
    server: ApiServer,
    faults: Arc<dyn Faults>,
    listener: TcpListener,
    tls: Tls,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let service = ApiService::new(server.clone()).with_faults(faults);
    let port = port();
    let serving = port.run(listener, stop, |connection| {
        speak(service.clone(), tls.clone(), connection)
    });
    tokio::select! {
        biased;
        () = serving => Ok(()),
        never = keep_time(&server) => match never {},
    }
}

/// Speaks TLS and HTTP with one client, over any stream, until it ends.
pub async fn converse<S>(service: ApiService, tls: Tls, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    port()
        .serve(stream, |connection| speak(service, tls, connection))
        .await;
}

async fn speak<S>(service: ApiService, tls: Tls, connection: Connection<S>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Ok(connection) = connection.tls(&TlsAcceptor::from(tls.config)).await else {
        return;
    };
    let (_, session) = connection.stream().get_ref();
    let peer = tls.certificates.peer(session.peer_certificates());
    let service = TowerToHyperService::new(service.from_peer(peer));
    connection.http(service).await;
}

/// Lets the cluster's own controllers do what is due without a request.
async fn keep_time(server: &ApiServer) -> Infallible {
    // Requests may make something due earlier, so the clock is looked at now and then.
    const LOOK: Duration = Duration::from_millis(100);
    loop {
        let now = server.env().now();
        match server.next_due() {
            Some(when) if when <= now => {
                server.tick();
                tokio::task::yield_now().await;
            }
            _ => tokio::time::sleep(LOOK).await,
        }
    }
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
