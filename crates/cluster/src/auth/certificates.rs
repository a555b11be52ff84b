//! Callers who show a client certificate: its common name is the user, its organizations are the groups.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::ObjectIdentifier;

use super::User;

/// Asks clients for a certificate without insisting. One that is not accepted does not break the connection: its
/// requests are answered as unauthorized, unless they have a token.
#[derive(Debug)]
pub struct Certificates {
    inner: Arc<dyn ClientCertVerifier>,
}

/// Who a connection belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// Somebody without a certificate.
    #[default]
    Unknown,
    /// Somebody with a certificate of one of our authorities.
    Known(User),
    /// Somebody with a certificate that is not accepted.
    Refused,
}

impl Certificates {
    /// Accepts certificates of these authorities.
    pub fn new(
        authorities: RootCertStore,
        provider: Arc<rustls::crypto::CryptoProvider>,
    ) -> Result<Arc<Self>, rustls::Error> {
        let inner = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider)
            .allow_unauthenticated()
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        Ok(Arc::new(Certificates { inner }))
    }

    /// Who shows this chain of certificates.
    pub fn peer(&self, chain: Option<&[CertificateDer<'_>]>) -> Peer {
        let Some([own, between @ ..]) = chain else {
            return Peer::Unknown;
        };
        match self.inner.verify_client_cert(own, between, UnixTime::now()) {
            Ok(_) => user_of(own).map_or(Peer::Refused, Peer::Known),
            Err(_) => Peer::Refused,
        }
    }
}

impl ClientCertVerifier for Certificates {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _own: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        // Looked at again once the connection stands, see `peer`.
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

/// The caller whom the subject of a certificate names; certificates without a common name name nobody.
fn user_of(certificate: &[u8]) -> Option<User> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let mut user = User::default();
    for set in &certificate.tbs_certificate.subject.0 {
        for part in set.0.iter() {
            let text = String::from_utf8_lossy(part.value.value()).into_owned();
            match part.oid {
                COMMON_NAME => user.name = text,
                ORGANIZATION => user.groups.push(text),
                _ => {}
            }
        }
    }
    if user.name.is_empty() {
        return None;
    }
    user.join("system:authenticated");
    Some(user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustls::pki_types::pem::PemObject as _;

    #[test]
    fn subjects_are_read_and_broken_ones_refused() {
        let authority = crate::Authority::generate(&["localhost".to_owned()]).unwrap();
        let (certificate, _) = authority.client_certificate("jane", Some("devs")).unwrap();
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let user = user_of(&der).unwrap();
        assert_eq!(user.name, "jane");
        assert_eq!(user.groups, ["devs", "system:authenticated"]);
        for cut in 0..der.len() {
            assert_eq!(user_of(&der[..cut]), None);
        }
        let mut longer = der.to_vec();
        longer.push(0);
        assert_eq!(user_of(&longer), None);
    }

    fn certificate() -> &'static [u8] {
        static DER: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        DER.get_or_init(|| {
            let authority = crate::Authority::generate(&["localhost".to_owned()]).unwrap();
            let (certificate, _) = authority.client_certificate("jane", Some("devs")).unwrap();
            let der = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
            der.to_vec()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn mutated_certificates_do_not_panic(
            changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..4),
            cut in 0..8_usize,
        ) {
            let mut der = certificate().to_vec();
            for (at, value) in changes {
                let at = at.index(der.len());
                der[at] = value;
            }
            der.truncate(der.len() - cut);
            if let Some(user) = user_of(&der) {
                // Nothing is made up: all of it stands in the certificate.
                let size = user.groups.iter().map(String::len).sum::<usize>() + user.name.len();
                prop_assert!(size <= 3 * der.len() + "system:authenticated".len());
            }
        }

        #[test]
        fn random_bytes_are_no_client_certificate(der in prop::collection::vec(any::<u8>(), 0..512)) {
            prop_assert_eq!(user_of(&der), None);
        }
    }
}
