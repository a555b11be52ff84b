//! Public keys that signatures are checked with.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256,
    UnparsedPublicKey, VerificationAlgorithm,
};
use spki::der::Decode as _;
use spki::der::asn1::{AnyRef, BitStringRef};
use spki::{ObjectIdentifier, SubjectPublicKeyInfo};

use crate::Error;

/// The largest PEM file that is read: a key on RSA with 16384 bits has three thousand bytes.
const MAX_PEM_BYTES: usize = 64 << 10;

const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const ED: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    P256,
    P384,
    Rsa,
    Ed25519,
}

/// A key that signatures are checked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    kind: Kind,
    bytes: Vec<u8>,
}

/// The first section of a PEM file: its name and its content.
pub(crate) fn section(pem: &[u8]) -> Option<(&str, Vec<u8>)> {
    let text = std::str::from_utf8(pem).ok()?;
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (name, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {name}-----"))?;
    let body: String = body
        .chars()
        .filter(|char| !char.is_ascii_whitespace())
        .collect();
    Some((name, STANDARD.decode(body).ok()?))
}

/// The algorithm and the key of a `SubjectPublicKeyInfo`.
fn subject_key(der: &[u8]) -> Option<(Kind, Vec<u8>)> {
    let info = SubjectPublicKeyInfo::<AnyRef<'_>, BitStringRef<'_>>::from_der(der).ok()?;
    let kind = match info.algorithm.oid {
        EC => match info.algorithm.parameters_oid().ok()? {
            P256 => Kind::P256,
            P384 => Kind::P384,
            _ => return None,
        },
        RSA => Kind::Rsa,
        ED => Kind::Ed25519,
        _ => return None,
    };
    Some((kind, info.subject_public_key.as_bytes()?.to_vec()))
}

impl PublicKey {
    /// Reads a key in PEM: ECDSA on P-256 or P-384, RSA, or Ed25519.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let read = Some(pem).filter(|pem| pem.len() <= MAX_PEM_BYTES);
        let Some((kind, der)) = read.and_then(section) else {
            return Err(Error::Key("PEM decoding failed".to_owned()));
        };
        let (kind, bytes) = match kind {
            "PUBLIC KEY" => subject_key(&der).ok_or_else(|| {
                Error::Key(
                    "the public key is of a kind that is not supported: \
                     use ECDSA on P-256 or P-384, RSA or Ed25519"
                        .to_owned(),
                )
            })?,
            "RSA PUBLIC KEY" => (Kind::Rsa, der),
            other => {
                return Err(Error::Key(format!(
                    "unknown Public key PEM file type: {other}. Are you passing the correct public key?"
                )));
            }
        };
        Ok(PublicKey { kind, bytes })
    }

    /// Whether the signature of a message is by this key.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &'static dyn VerificationAlgorithm = match self.kind {
            Kind::P256 => &ECDSA_P256_SHA256_ASN1,
            Kind::P384 => &ECDSA_P384_SHA256_ASN1,
            Kind::Rsa => &RSA_PKCS1_2048_8192_SHA256,
            Kind::Ed25519 => &ED25519,
        };
        UnparsedPublicKey::new(algorithm, &self.bytes)
            .verify(message, signature)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `openssl dgst -sha256 -sign` and `openssl pkeyutl -rawin`.
    const MADE_ELSEWHERE: [(&str, &str); 4] = include!("data/keys.rs.txt");

    #[test]
    fn keys_of_all_kinds_are_read_and_used() {
        for (pem, signature) in MADE_ELSEWHERE {
            let key = PublicKey::from_pem(pem.as_bytes()).unwrap();
            let signature = STANDARD.decode(signature).unwrap();
            let name = key.kind;
            assert!(key.verifies(b"signed by cosign", &signature), "{name:?}");
            assert!(!key.verifies(b"signed by nobody", &signature), "{name:?}");
        }
    }

    #[test]
    fn invalid_public_keys_are_refused() {
        let large = format!("-----BEGIN PUBLIC KEY-----\n{}", "A".repeat(MAX_PEM_BYTES));
        for (pem, words) in [
            ("nope", "PEM decoding failed"),
            (large.as_str(), "PEM decoding failed"),
            (
                "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n",
                "unknown Public key PEM file type: CERTIFICATE. Are",
            ),
            (
                "-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n",
                "the public key is of a kind that is not supported",
            ),
        ] {
            let error = PublicKey::from_pem(pem.as_bytes()).unwrap_err();
            assert_eq!(error.reason(), "VerificationError");
            assert!(error.to_string().starts_with(words), "{error}");
        }
    }
}
