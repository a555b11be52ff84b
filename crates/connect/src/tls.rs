//! Secure connections.

use std::io;
use std::sync::Arc;

use everflow_env::tls::{TrustAnyone, system_roots};
use everflow_env::{Clock, Stream};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_rustls::client::TlsStream;

use crate::words::go_words;
use crate::{Error, Secret, Unusable};

/// The name of HTTP/1.1 in a handshake.
pub const HTTP: &[u8] = b"http/1.1";
/// The name of HTTP/2 in a handshake.
pub const HTTP2: &[u8] = b"h2";

/// Whom to trust, and who we are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Certificates (PEM) to trust beside the system's.
    pub ca: Option<Vec<u8>>,
    /// Our own certificate chain and key (PEM).
    pub client: Option<(Vec<u8>, Secret<Vec<u8>>)>,
    /// Trust only `ca`, not the system's certificates.
    pub without_system_roots: bool,
    /// Trust anyone. Only for what a user marked as insecure.
    pub insecure: bool,
}

impl TlsOptions {
    /// Whether nobody asked for anything of their own: then nothing can be wrong with it.
    pub fn is_plain(&self) -> bool {
        self.ca.is_none() && self.client.is_none()
    }
}

/// The time of certificates is the time of the `Env`'s clock.
#[derive(Debug)]
struct ClockTime(Arc<dyn Clock>);

impl rustls::time_provider::TimeProvider for ClockTime {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().seconds).ok()?;
        let since = std::time::Duration::from_secs(seconds);
        Some(UnixTime::since_unix_epoch(since))
    }
}

fn unusable(which: Unusable, message: impl Into<String>) -> Error {
    Error::Unusable {
        which,
        message: message.into(),
    }
}

/// Reads certificates in PEM: those to trust, or our own.
pub fn certificates(pem: &[u8], which: Unusable) -> Result<Vec<CertificateDer<'static>>, Error> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let what = match which {
        Unusable::Authority => "CA certificate",
        _ => "TLS client certificate",
    };
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err(unusable(
            which,
            format!("failed to parse {what}: no valid certificate in PEM format"),
        )),
    }
}

/// Builds the configuration of secure connections. `protocols` are what is spoken on them, what we like best first.
///
/// # Errors
/// When certificates or keys cannot be used.
pub fn configure(
    options: &TlsOptions,
    clock: &Arc<dyn Clock>,
    protocols: &[&[u8]],
) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(provider::default_provider());
    let extra = match &options.ca {
        Some(pem) => certificates(pem, Unusable::Authority)?,
        None => Vec::new(),
    };
    let verifier: Arc<dyn ServerCertVerifier> = if options.insecure {
        Arc::new(TrustAnyone::new(provider.clone()))
    } else {
        Arc::new(verifier(options, extra, &provider)?)
    };
    let builder = ClientConfig::builder_with_details(provider, Arc::new(ClockTime(clock.clone())))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::tls(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match &options.client {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let chain = certificates(chain, Unusable::Certificate)?;
            let key = PrivateKeyDer::from_pem_slice(key.reveal()).map_err(|_| {
                let why = "failed to parse TLS client key: no valid private key in PEM format";
                unusable(Unusable::Key, why)
            })?;
            builder.with_client_auth_cert(chain, key).map_err(|error| {
                let why = "TLS client certificate and key do not fit together";
                unusable(Unusable::Pair, format!("{why}: {error}"))
            })?
        }
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}

fn verifier(
    options: &TlsOptions,
    extra: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<PinnedOrTrusted, Error> {
    let mut roots = match options.without_system_roots {
        true => RootCertStore::empty(),
        false => system_roots().clone(),
    };
    roots.add_parsable_certificates(extra.iter().cloned());
    let inner = match roots.is_empty() {
        true => None,
        false => Some(
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()
                .map_err(|error| Error::tls(error.to_string()))?,
        ),
    };
    Ok(PinnedOrTrusted {
        inner,
        pinned: extra,
        signatures: TrustAnyone::new(provider.clone()),
    })
}

/// Trusts chains that end at a root, and a server certificate that is itself one of the given
/// ones: servers with a self-signed certificate work as they do with Go.
#[derive(Debug)]
struct PinnedOrTrusted {
    inner: Option<Arc<WebPkiServerVerifier>>,
    pinned: Vec<CertificateDer<'static>>,
    signatures: TrustAnyone,
}

impl ServerCertVerifier for PinnedOrTrusted {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let pinned = || {
            self.pinned
                .iter()
                .any(|own| own.as_ref() == end_entity.as_ref())
        };
        let trusted = match &self.inner {
            Some(inner) => {
                inner.verify_server_cert(end_entity, intermediates, server_name, ocsp, now)
            }
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        match trusted {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::Other(_),
            )) if pinned() => {
                let parsed = rustls::server::ParsedCertificate::try_from(end_entity)?;
                rustls::client::verify_server_name(&parsed, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signatures.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signatures.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.supported_verify_schemes()
    }
}

/// Makes a connection secure. The caller sets the deadline.
pub(crate) async fn secure(
    config: Arc<ClientConfig>,
    host: &str,
    stream: Box<dyn Stream>,
) -> Result<TlsStream<Box<dyn Stream>>, Error> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| Error::tls(format!("tls: {host:?} is not a valid host name")))?;
    let shaking = tokio_rustls::TlsConnector::from(config).connect(name, stream);
    shaking.await.map_err(|error| Error::Tls {
        message: describe(&error, host),
        cause: Some(error),
    })
}

/// The words that Go has for what rustls found.
pub fn describe(error: &io::Error, host: &str) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(inner) = inner else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
            _ => go_words(error),
        };
    };
    match inner {
        rustls::Error::InvalidCertificate(cause) => {
            let cause = certificate_words(cause, host);
            format!("tls: failed to verify certificate: x509: {cause}")
        }
        rustls::Error::InvalidMessage(_) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        rustls::Error::AlertReceived(alert) => {
            format!("remote error: tls: {}", alert_words(*alert))
        }
        other => format!("tls: {other}"),
    }
}

fn certificate_words(error: &CertificateError, host: &str) -> String {
    let moment = |time: &UnixTime| {
        let seconds = i64::try_from(time.as_secs()).unwrap_or_default();
        everflow_time::Timestamp::from_seconds(seconds)
    };
    let expired = "certificate has expired or is not yet valid";
    match error {
        CertificateError::UnknownIssuer => "certificate signed by unknown authority".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => format!(
            "{expired}: current time {} is after {}",
            moment(time),
            moment(not_after)
        ),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "{expired}: current time {} is before {}",
            moment(time),
            moment(not_before)
        ),
        CertificateError::Expired | CertificateError::NotValidYet => expired.to_owned(),
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<&str> = presented
                .iter()
                .map(|name| name.split('"').nth(1).unwrap_or(name))
                .collect();
            match (names.is_empty(), host.parse::<std::net::IpAddr>().is_ok()) {
                (_, true) => format!(
                    "cannot validate certificate for {host} because it doesn't contain any IP SANs"
                ),
                (true, _) => {
                    format!("certificate is not valid for any names, but wanted to match {host}")
                }
                _ => format!("certificate is valid for {}, not {host}", names.join(", ")),
            }
        }
        CertificateError::NotValidForName => format!("certificate is not valid for {host}"),
        CertificateError::BadEncoding => "malformed certificate".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        CertificateError::Other(other) => other.to_string(),
        other => other.to_string(),
    }
}

fn alert_words(alert: rustls::AlertDescription) -> String {
    use rustls::AlertDescription as Alert;
    let words = match alert {
        Alert::HandshakeFailure => "handshake failure",
        Alert::BadCertificate => "bad certificate",
        Alert::UnknownCA => "unknown certificate authority",
        Alert::CertificateRequired => "certificate required",
        Alert::CertificateExpired => "expired certificate",
        Alert::CertificateUnknown => "unknown certificate",
        Alert::AccessDenied => "access denied",
        Alert::ProtocolVersion => "protocol version not supported",
        Alert::UnrecognisedName => "unrecognized name",
        Alert::InternalError => "internal error",
        other => return format!("{other:?}"),
    };
    words.to_owned()
}
