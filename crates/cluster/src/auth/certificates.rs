//! Callers who show a client certificate: its common name is the user, its organizations are the groups.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};

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

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const VERSION: u8 = 0xa0;
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// The next value of a DER text: its tag, its content, and what follows.
fn next(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let digits = usize::from(first & 0x7f);
        if digits == 0 || digits > 4 || rest.len() < digits {
            return None;
        }
        let (digits, rest) = rest.split_at(digits);
        let length = digits
            .iter()
            .fold(0_usize, |sum, digit| sum << 8 | usize::from(*digit));
        (length, rest)
    };
    (rest.len() >= length).then(|| {
        let (content, after) = rest.split_at(length);
        (tag, content, after)
    })
}

/// The content of the next value if it has this tag, and what follows.
fn expect(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, after) = next(der)?;
    (found == tag).then_some((content, after))
}

/// The caller whom the subject of a certificate names; certificates without a common name name nobody.
fn user_of(certificate: &[u8]) -> Option<User> {
    let (whole, _) = expect(certificate, SEQUENCE)?;
    let (mut signed, _) = expect(whole, SEQUENCE)?;
    if let Some((_, after)) = expect(signed, VERSION) {
        signed = after;
    }
    // Serial number, signature algorithm, issuer and validity stand in front of the subject.
    for _ in 0..4 {
        (_, _, signed) = next(signed)?;
    }
    let (mut subject, _) = expect(signed, SEQUENCE)?;
    let mut user = User::default();
    while !subject.is_empty() {
        let (mut set, after) = expect(subject, SET)?;
        subject = after;
        while !set.is_empty() {
            let (part, after) = expect(set, SEQUENCE)?;
            set = after;
            let (id, value) = expect(part, OBJECT_ID)?;
            let (_, text, _) = next(value)?;
            let text = String::from_utf8_lossy(text).into_owned();
            match id {
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
            // Whatever is missing, nobody panics.
            let _ = user_of(&der[..cut]);
        }
    }
}
