//! Private keys of the kinds sprig knows.

use ed25519_dalek::{Signer as _, SigningKey};
use everflow_gotemplate::{FuncError, Meter};
use num_bigint_dig::BigUint;
use rsa::pkcs1::{DecodeRsaPrivateKey as _, EncodeRsaPrivateKey as _};
use rsa::pkcs1v15::Pkcs1v15Sign;
use rsa::traits::PublicKeyParts as _;
use rsa::{RsaPrivateKey, RsaPublicKey};
use sha2::{Digest as _, Sha256};

use super::der::{
    INTEGER, NULL, OBJECT_ID, OCTET_STRING, Reader, SEQUENCE, bit_string, object_id, sequence,
    tagged, unsigned,
};
use super::dsa::DsaKey;
use super::pem;
use super::prime::random_prime;
use crate::source::{Random, Source};

const OID_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const OID_SHA256_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
const OID_EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const OID_P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const OID_ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const OID_ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// Larger keys take too long to sign.
const MOST_RSA_BITS: usize = 8192;
/// A key of so many bits takes less.
const MOST_RSA_BYTES: usize = 8 << 10;
const TOO_LARGE: &str = "keys of more than 8192 bits are not supported";

/// A private key.
pub(crate) enum PrivateKey {
    Rsa(Box<RsaPrivateKey>),
    Dsa(Box<DsaKey>),
    Ec(p256::SecretKey),
    Ed25519(SigningKey),
}

impl PrivateKey {
    /// A new RSA key.
    pub(crate) fn generate_rsa(
        bits: u32,
        source: &mut dyn Source,
        meter: &Meter<'_>,
    ) -> Result<Self, FuncError> {
        let mut random = Random(source);
        let p = random_prime(bits / 2, &mut random, meter)?;
        let q = loop {
            let q = random_prime(bits / 2, &mut random, meter)?;
            if q != p {
                break q;
            }
        };
        RsaPrivateKey::from_p_q(p, q, BigUint::from(65_537u32))
            .map(|key| Self::Rsa(Box::new(key)))
            .map_err(|error| error.to_string().into())
    }

    /// A new key of the kind called `rsa`, `dsa`, `ecdsa` or `ed25519`; `None` for other names.
    pub(crate) fn generate(
        kind: &[u8],
        source: &mut dyn Source,
        meter: &Meter<'_>,
    ) -> Option<Result<Self, FuncError>> {
        Some(Ok(match kind {
            b"" | b"rsa" => return Some(Self::generate_rsa(4096, source, meter)),
            b"dsa" => {
                let key = DsaKey::generate(&mut Random(source), meter);
                return Some(key.map(|key| Self::Dsa(Box::new(key))));
            }
            b"ecdsa" => Self::Ec(p256::SecretKey::random(&mut Random(source))),
            b"ed25519" => {
                let mut seed = [0; 32];
                source.fill(&mut seed);
                Self::Ed25519(SigningKey::from_bytes(&seed))
            }
            _ => return None,
        }))
    }

    /// The key as a PEM block.
    pub(crate) fn to_pem(&self) -> Result<String, String> {
        Ok(match self {
            Self::Rsa(key) => {
                let der = key.to_pkcs1_der().map_err(|error| error.to_string())?;
                pem::encode("RSA PRIVATE KEY", der.as_bytes())
            }
            Self::Dsa(key) => pem::encode("DSA PRIVATE KEY", &key.to_der()),
            Self::Ec(key) => pem::encode("EC PRIVATE KEY", &ec_to_der(key)),
            Self::Ed25519(key) => {
                let algorithm = sequence(&[&object_id(OID_ED25519)]);
                let seed = tagged(OCTET_STRING, &tagged(OCTET_STRING, key.as_bytes()));
                pem::encode(
                    "PRIVATE KEY",
                    &sequence(&[&unsigned(&[]), &algorithm, &seed]),
                )
            }
        })
    }

    /// Reads a key from a PEM block; the error is that of the original.
    pub(crate) fn from_pem(text: &[u8]) -> Result<Self, String> {
        let block = pem::decode(text).ok_or_else(|| "no PEM data in input".to_owned())?;
        let malformed = |what: &str| format!("{what}: asn1: structure error: malformed key");
        if block.kind == "PRIVATE KEY" {
            return from_pkcs8(&block.bytes).ok_or_else(|| malformed("decoding PEM as PKCS#8"));
        }
        let Some(kind) = block.kind.strip_suffix(" PRIVATE KEY") else {
            return Err(format!(
                "no private key data in PEM block of type {}",
                block.kind
            ));
        };
        match kind {
            "RSA" => rsa_from_der(&block.bytes)
                .map_err(|error| format!("parsing RSA private key from PEM: {error}")),
            "EC" => ec_from_der(&block.bytes)
                .map(Self::Ec)
                .ok_or_else(|| malformed("parsing EC private key from PEM")),
            "DSA" => DsaKey::from_der(&block.bytes)
                .map(|key| Self::Dsa(Box::new(key)))
                .ok_or_else(|| malformed("parsing DSA private key from PEM")),
            _ => Err(format!("invalid private key type {}", block.kind)),
        }
    }

    /// The public key as certificates hold it; `None` for DSA, which certificates do not take.
    pub(crate) fn public_key_info(&self) -> Option<Vec<u8>> {
        Some(match self {
            Self::Rsa(key) => {
                let public = RsaPublicKey::from(key.as_ref());
                let numbers = sequence(&[
                    &unsigned(&public.n().to_bytes_be()),
                    &unsigned(&public.e().to_bytes_be()),
                ]);
                sequence(&[
                    &sequence(&[&object_id(OID_RSA), NULL]),
                    &bit_string(&numbers),
                ])
            }
            Self::Ec(key) => {
                let algorithm = sequence(&[&object_id(OID_EC), &object_id(OID_P256)]);
                sequence(&[&algorithm, &bit_string(&ec_point(key))])
            }
            Self::Ed25519(key) => {
                let algorithm = sequence(&[&object_id(OID_ED25519)]);
                sequence(&[&algorithm, &bit_string(key.verifying_key().as_bytes())])
            }
            Self::Dsa(_) => return None,
        })
    }

    /// The identifier of the signatures this key makes.
    pub(crate) fn signature_algorithm(&self) -> Option<Vec<u8>> {
        Some(match self {
            Self::Rsa(_) => sequence(&[&object_id(OID_SHA256_RSA), NULL]),
            Self::Ec(_) => sequence(&[&object_id(OID_ECDSA_SHA256)]),
            Self::Ed25519(_) => sequence(&[&object_id(OID_ED25519)]),
            Self::Dsa(_) => return None,
        })
    }

    /// A signature of a message.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Rsa(key) => key
                .sign(Pkcs1v15Sign::new::<Sha256>(), &Sha256::digest(message))
                .map_err(|error| error.to_string()),
            Self::Ec(key) => {
                let signer = p256::ecdsa::SigningKey::from(key);
                let signature: p256::ecdsa::Signature = signer.sign(message);
                Ok(signature.to_der().as_bytes().to_vec())
            }
            Self::Ed25519(key) => Ok(key.sign(message).to_bytes().to_vec()),
            Self::Dsa(_) => Err("DSA keys do not sign certificates".to_owned()),
        }
    }
}

fn rsa_from_der(der: &[u8]) -> Result<PrivateKey, String> {
    let key = match der.len() <= MOST_RSA_BYTES {
        true => RsaPrivateKey::from_pkcs1_der(der).map_err(|error| error.to_string())?,
        false => return Err(TOO_LARGE.to_owned()),
    };
    match key.n().bits() <= MOST_RSA_BITS {
        true => Ok(PrivateKey::Rsa(Box::new(key))),
        false => Err(TOO_LARGE.to_owned()),
    }
}

fn ec_point(key: &p256::SecretKey) -> Vec<u8> {
    use p256::elliptic_curve::sec1::ToEncodedPoint as _;
    key.public_key().to_encoded_point(false).as_bytes().to_vec()
}

fn ec_to_der(key: &p256::SecretKey) -> Vec<u8> {
    sequence(&[
        &unsigned(&[1]),
        &tagged(OCTET_STRING, &key.to_bytes()),
        &tagged(0xa0, &object_id(OID_P256)),
        &tagged(0xa1, &bit_string(&ec_point(key))),
    ])
}

fn ec_from_der(der: &[u8]) -> Option<p256::SecretKey> {
    let mut parts = Reader(Reader(der).expect(SEQUENCE)?);
    parts.expect(INTEGER)?;
    let secret = parts.expect(OCTET_STRING)?;
    if let Some(curve) = parts.optional(0xa0)
        && Reader(curve).expect(OBJECT_ID) != Some(OID_P256)
    {
        return None;
    }
    p256::SecretKey::from_slice(secret).ok()
}

fn from_pkcs8(der: &[u8]) -> Option<PrivateKey> {
    let mut parts = Reader(Reader(der).expect(SEQUENCE)?);
    parts.expect(INTEGER)?;
    let algorithm = Reader(parts.expect(SEQUENCE)?).expect(OBJECT_ID)?;
    let key = parts.expect(OCTET_STRING)?;
    match algorithm {
        OID_RSA => rsa_from_der(key).ok(),
        OID_EC => ec_from_der(key).map(PrivateKey::Ec),
        OID_ED25519 => {
            let seed = Reader(key).expect(OCTET_STRING)?;
            Some(PrivateKey::Ed25519(SigningKey::from_bytes(
                seed.try_into().ok()?,
            )))
        }
        _ => None,
    }
}
