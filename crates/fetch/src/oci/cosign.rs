//! Signatures that cosign made with keys.
//!
//! A signature lies beside the artifact in the registry: as a bundle that refers to it, or in an
//! artifact of its own under the tag `sha256-HEX.sig`. What is signed names the digest of the
//! artifact, and that is checked too: a signature of something else is none.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_json::Value;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256,
    UnparsedPublicKey, VerificationAlgorithm,
};

use super::manifest::{Document, OCI_INDEX};
use super::{Descriptor, OciClient, Target};
use crate::archive::Digest;
use crate::{Deadline, Error};

const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
/// The largest thing that was signed.
const LARGEST: u64 = 4 << 20;
/// How many signatures of one artifact are looked at.
const MOST: usize = 100;

fn failed(message: impl Into<String>) -> Error {
    Error::Signature {
        reason: "VerificationError",
        message: message.into(),
    }
}

/// The error for a way of verification that Flux knows and we do not know yet.
pub fn unsupported_verification(provider: &str) -> Error {
    let message = match provider {
        "cosign" => {
            "keyless verification is not supported yet: give public keys by spec.verify.secretRef"
        }
        "notation" => {
            "verification by notation is not supported yet: use cosign with public keys by spec.verify.secretRef"
        }
        _ => "the verification provider is not supported: use cosign",
    };
    Error::Unsupported {
        reason: "VerificationError",
        message: message.to_owned(),
    }
}

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
fn section(pem: &[u8]) -> Option<(&str, Vec<u8>)> {
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

/// The next element of DER: its tag, its content, and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match usize::from(*first) {
        length @ 0..=0x7f => (length, rest),
        0x81 => (usize::from(*rest.first()?), &rest[1..]),
        0x82 => {
            let (high, low) = (*rest.first()?, *rest.get(1)?);
            (usize::from(high) << 8 | usize::from(low), &rest[2..])
        }
        _ => return None,
    };
    (rest.len() >= length).then(|| (*tag, &rest[..length], &rest[length..]))
}

/// The algorithm and the key of a `SubjectPublicKeyInfo`.
fn subject_key(der: &[u8]) -> Option<(Kind, Vec<u8>)> {
    let (0x30, inner, _) = element(der)? else {
        return None;
    };
    let (0x30, algorithm, rest) = element(inner)? else {
        return None;
    };
    let (0x03, bits, _) = element(rest)? else {
        return None;
    };
    let key = bits.strip_prefix(&[0])?.to_vec();
    let (0x06, name, parameters) = element(algorithm)? else {
        return None;
    };
    let kind = match name {
        // 1.2.840.10045.2.1, with the name of the curve.
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01] => match element(parameters)? {
            (0x06, [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], _) => Kind::P256,
            (0x06, [0x2b, 0x81, 0x04, 0x00, 0x22], _) => Kind::P384,
            _ => return None,
        },
        // 1.2.840.113549.1.1.1
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01] => Kind::Rsa,
        // 1.3.101.112
        [0x2b, 0x65, 0x70] => Kind::Ed25519,
        _ => return None,
    };
    Some((kind, key))
}

impl PublicKey {
    /// Reads a key in PEM: ECDSA on P-256 or P-384, RSA, or Ed25519.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let Some((kind, der)) = section(pem) else {
            return Err(failed("PEM decoding failed"));
        };
        let (kind, bytes) = match kind {
            "PUBLIC KEY" => subject_key(&der).ok_or_else(|| {
                failed(
                    "the public key is of a kind that is not supported: \
                     use ECDSA on P-256 or P-384, RSA or Ed25519",
                )
            })?,
            "RSA PUBLIC KEY" => (Kind::Rsa, der),
            other => {
                return Err(failed(format!(
                    "unknown Public key PEM file type: {other}. Are you passing the correct public key?"
                )));
            }
        };
        Ok(PublicKey { kind, bytes })
    }

    /// Whether the signature of a message is by this key.
    fn made(&self, message: &[u8], signature: &[u8]) -> bool {
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

impl OciClient {
    /// Checks that one of the keys signed the artifact of this digest. Flux's conditions say
    /// `failed to verify the signature using provider 'cosign': ` before the error.
    pub async fn verify_cosign(
        &self,
        digest: &Digest,
        keys: &[PublicKey],
        deadline: &Deadline,
    ) -> Result<(), Error> {
        let bundles = self.bundles(digest, deadline).await;
        let looked = match bundles {
            Ok(bundles) if !bundles.is_empty() => {
                let good = bundles
                    .iter()
                    .any(|bundle| check_bundle(bundle, digest, keys));
                Ok((good, bundles.len()))
            }
            // Registries that know nothing of referrers know the older signatures.
            _ => self.old_signatures(digest, keys, deadline).await,
        };
        let why = match looked {
            Ok((true, _)) => return Ok(()),
            Ok((false, count)) => format!("none of its {count} signatures is by a given key"),
            Err(Error::Registry { status: 404, .. }) => "it has no signatures".to_owned(),
            Err(error) => error.to_string(),
        };
        let whole = self.repository.digest(digest.as_str());
        Err(failed(format!(
            "no matching signatures were found for '{whole}': {why}"
        )))
    }

    /// The signatures under the tag that is made of the digest.
    async fn old_signatures(
        &self,
        digest: &Digest,
        keys: &[PublicKey],
        deadline: &Deadline,
    ) -> Result<(bool, usize), Error> {
        let tag = format!("{}.sig", digest.as_str().replace(':', "-"));
        let (bytes, kind, own) = self.document(&Target::Tag(tag), deadline).await?;
        let Document::Manifest(manifest) = Document::parse(&bytes, &kind, own)? else {
            return Err(Error::Protocol("the signature is a list".to_owned()));
        };
        let mut count = 0;
        for layer in manifest.layers.iter().take(MOST) {
            let Some(text) = layer.annotations.get(SIGNATURE) else {
                continue;
            };
            count += 1;
            let Ok(signature) = STANDARD.decode(text) else {
                continue;
            };
            let payload = self.small_blob(layer, LARGEST, deadline).await?;
            let signed = keys.iter().any(|key| key.made(&payload, &signature));
            if signed && names_digest(&payload, digest) {
                return Ok((true, count));
            }
        }
        Ok((false, count))
    }

    /// The bundles that refer to the artifact.
    async fn bundles(&self, digest: &Digest, deadline: &Deadline) -> Result<Vec<Value>, Error> {
        let mut bundles = Vec::new();
        for referrer in self.referrers(digest, deadline).await?.iter().take(MOST) {
            // Others may refer to the artifact too.
            if let Ok(Some(bundle)) = self.bundle(referrer, deadline).await {
                bundles.push(bundle);
            }
        }
        Ok(bundles)
    }

    async fn bundle(
        &self,
        referrer: &Descriptor,
        deadline: &Deadline,
    ) -> Result<Option<Value>, Error> {
        if !referrer.artifact_type.is_empty() && !referrer.artifact_type.starts_with(BUNDLE) {
            return Ok(None);
        }
        let target = Target::Digest(referrer.digest.to_string());
        let (bytes, kind, own) = self.document(&target, deadline).await?;
        let Document::Manifest(manifest) = Document::parse(&bytes, &kind, own)? else {
            return Ok(None);
        };
        match manifest.layers.as_slice() {
            [layer] if layer.media_type.starts_with(BUNDLE) => {
                let bytes = self.small_blob(layer, LARGEST, deadline).await?;
                Ok(everflow_json::from_slice(&bytes).ok())
            }
            _ => Ok(None),
        }
    }

    /// What refers to an artifact: by the API for it, else by the tag that stands in for it.
    async fn referrers(
        &self,
        digest: &Digest,
        deadline: &Deadline,
    ) -> Result<Vec<Descriptor>, Error> {
        let session = self.session(deadline).await?;
        let url = session.url("referrers", digest.as_str())?;
        let asked = session
            .ask(::http::Method::GET, &url, OCI_INDEX, deadline)
            .await;
        let bytes = match asked {
            Ok(response) => response.body.read_all(LARGEST).await?,
            Err(Error::Registry { status: 404, .. }) => {
                let tag = digest.as_str().replace(':', "-");
                self.document(&Target::Tag(tag), deadline).await?.0
            }
            Err(error) => return Err(error),
        };
        match Document::parse(&bytes, OCI_INDEX, digest.clone())? {
            Document::Index(index) => Ok(index),
            Document::Manifest(_) => Ok(Vec::new()),
        }
    }
}

/// Whether a signed statement is about the artifact.
fn names_digest(payload: &[u8], digest: &Digest) -> bool {
    let Ok(payload) = everflow_json::from_slice::<Value>(payload) else {
        return false;
    };
    let named = payload.pointer("/critical/image/docker-manifest-digest");
    named.and_then(Value::as_str) == Some(digest.as_str())
}

/// Whether a bundle holds a statement about the artifact that one of the keys signed.
fn check_bundle(bundle: &Value, digest: &Digest, keys: &[PublicKey]) -> bool {
    let text = |pointer: &str| bundle.pointer(pointer).and_then(Value::as_str);
    let decode = |text: &str| STANDARD.decode(text).ok();
    let (Some(kind), Some(payload)) = (
        text("/dsseEnvelope/payloadType"),
        text("/dsseEnvelope/payload").and_then(decode),
    ) else {
        return false;
    };
    let mut message = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    message.extend_from_slice(&payload);
    let signatures = bundle.pointer("/dsseEnvelope/signatures");
    let signed = signatures.and_then(Value::as_array).is_some_and(|all| {
        all.iter().take(MOST).any(|one| {
            let signature = one.get("sig").and_then(Value::as_str).and_then(decode);
            signature.is_some_and(|signature| keys.iter().any(|key| key.made(&message, &signature)))
        })
    });
    signed && states_digest(&payload, digest)
}

/// Whether the subject of an in-toto statement is the artifact.
fn states_digest(payload: &[u8], digest: &Digest) -> bool {
    let Ok(statement) = everflow_json::from_slice::<Value>(payload) else {
        return false;
    };
    let subjects = statement.get("subject").and_then(Value::as_array);
    subjects.is_some_and(|subjects| {
        subjects.iter().any(|subject| {
            let named = subject
                .get("digest")
                .and_then(|digests| digests.get(digest.algorithm().name()));
            named.and_then(Value::as_str) == Some(digest.hex())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::tests::{client, deadline, packed, world};
    use crate::testing::{Push, Registry};
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};

    struct Signer {
        pair: EcdsaKeyPair,
    }

    impl Signer {
        fn new() -> Self {
            let random = SystemRandom::new();
            let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
            let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
            Signer { pair }
        }

        fn key(&self) -> PublicKey {
            PublicKey {
                kind: Kind::P256,
                bytes: self.pair.public_key().as_ref().to_vec(),
            }
        }

        fn sign(&self, message: &[u8]) -> String {
            let signature = self.pair.sign(&SystemRandom::new(), message).unwrap();
            STANDARD.encode(signature.as_ref())
        }
    }

    fn payload(digest: &str) -> Vec<u8> {
        format!(
            r#"{{"critical":{{"identity":{{"docker-reference":""}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"cosign container image signature"}},"optional":null}}"#
        )
        .into_bytes()
    }

    /// Puts a signature as cosign 2 does.
    fn put_old(registry: &Registry, digest: &str, payload: &[u8], signature: &str) {
        let blob = registry.put_blob(payload);
        let config = registry.put_blob(b"{}");
        let manifest = format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"c","size":2,"digest":"{config}"}},"layers":[{{"mediaType":"application/vnd.dev.cosign.simplesigning.v1+json","size":{},"digest":"{blob}","annotations":{{"{SIGNATURE}":"{signature}"}}}}]}}"#,
            payload.len()
        );
        let tag = format!("{}.sig", digest.replace(':', "-"));
        let kind = "application/vnd.oci.image.manifest.v1+json";
        registry.put_manifest("team/app", &[&tag], kind, manifest.as_bytes());
    }

    /// Puts a signature as cosign 3 does.
    fn put_bundle(registry: &Registry, digest: &str, signer: &Signer, subject: &str) {
        let kind = "application/vnd.in-toto+json";
        let statement = format!(
            r#"{{"_type":"https://in-toto.io/Statement/v1","subject":[{{"digest":{{"sha256":"{}"}}}}]}}"#,
            subject.trim_start_matches("sha256:")
        );
        let message = format!(
            "DSSEv1 {} {kind} {} {statement}",
            kind.len(),
            statement.len()
        );
        let bundle = format!(
            r#"{{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","dsseEnvelope":{{"payload":"{}","payloadType":"{kind}","signatures":[{{"sig":"{}"}}]}}}}"#,
            STANDARD.encode(&statement),
            signer.sign(message.as_bytes())
        );
        let media = "application/vnd.dev.sigstore.bundle.v0.3+json";
        let push = Push {
            layers: vec![(media.to_owned(), bundle.into_bytes())],
            ..Push::default()
        };
        let own = registry.push("team/app", &[], &push);
        let index = format!(
            r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"m","size":1,"digest":"{own}","artifactType":"{media}"}}]}}"#
        );
        let tag = digest.replace(':', "-");
        registry.put_manifest("team/app", &[&tag], OCI_INDEX, index.as_bytes());
    }

    #[tokio::test(start_paused = true)]
    async fn signatures_by_any_of_the_keys_are_good() {
        let (registry, env) = world();
        let digest = registry.push("team/app", &["v1"], &Push::content(packed(&[("a", "1")])));
        let wanted = Digest::parse(&digest).unwrap();
        let client = client(&env, "team/app");
        let (one, two) = (Signer::new(), Signer::new());
        let keys = [one.key(), two.key()];
        let whole =
            format!("no matching signatures were found for '127.0.0.1:5000/team/app@{digest}': ");
        let outcome = async |keys: &[PublicKey]| {
            let done = client.verify_cosign(&wanted, keys, &deadline(&env)).await;
            done.map_err(|error| {
                assert_eq!(error.reason(), "VerificationError");
                error.to_string()
            })
        };
        assert_eq!(
            outcome(&keys).await.unwrap_err(),
            format!("{whole}it has no signatures")
        );
        let signed = payload(&digest);
        put_old(&registry, &digest, &signed, &two.sign(&signed));
        outcome(&keys).await.unwrap();
        let foreign = format!("{whole}none of its 1 signatures is by a given key");
        assert_eq!(outcome(&[one.key()]).await.unwrap_err(), foreign);
        // A good signature, but of something else.
        let other =
            payload("sha256:0000000000000000000000000000000000000000000000000000000000000000");
        put_old(&registry, &digest, &other, &two.sign(&other));
        assert_eq!(outcome(&keys).await.unwrap_err(), foreign);
        put_old(&registry, &digest, &signed, "!garbage!");
        assert_eq!(outcome(&keys).await.unwrap_err(), foreign);
        put_bundle(&registry, &digest, &one, &digest);
        outcome(&keys).await.unwrap();
        assert_eq!(outcome(&[two.key()]).await.unwrap_err(), foreign);
        put_bundle(&registry, &digest, &one, "sha256:00");
        assert_eq!(outcome(&keys).await.unwrap_err(), foreign);
    }

    /// Made by `openssl dgst -sha256 -sign` and `openssl pkeyutl -rawin`.
    const MADE_ELSEWHERE: [(&str, &str); 4] = include!("cosign_fixtures.rs.txt");

    #[test]
    fn keys_of_all_kinds_are_read_and_used() {
        for (pem, signature) in MADE_ELSEWHERE {
            let key = PublicKey::from_pem(pem.as_bytes()).unwrap();
            let signature = STANDARD.decode(signature).unwrap();
            assert!(key.made(b"signed by cosign", &signature), "{:?}", key.kind);
            assert!(!key.made(b"signed by nobody", &signature), "{:?}", key.kind);
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for (pem, words) in [
            ("nope", "PEM decoding failed"),
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
        for provider in ["cosign", "notation"] {
            let error = unsupported_verification(provider);
            assert!(error.to_string().contains("not supported yet"), "{error}");
        }
    }
}
