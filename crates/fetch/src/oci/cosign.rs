//! Signatures that cosign made, with keys and without.
//!
//! Bundles that refer to the artifact count alone where there are any, as for cosign itself; else
//! those under the tag `sha256-HEX.sig` do. Signatures are fetched and verified one by one, so that
//! only one is in memory at a time.

use std::sync::Arc;

pub use everflow_cosign::{Identities, PublicKey, TrustRoot};
use everflow_cosign::{Signature, verify_keyed, verify_keyless};
use everflow_env::run_budgeted;

use super::signatures::Form;
use super::{Descriptor, OciClient};
use crate::archive::Digest;
use crate::{Deadline, Error};

/// How many reasons an error gives.
const REASONS: usize = 4;

fn failed(message: impl Into<String>) -> Error {
    Error::Signature {
        reason: "VerificationError",
        message: message.into(),
    }
}

impl From<everflow_cosign::Error> for Error {
    fn from(error: everflow_cosign::Error) -> Self {
        match error {
            everflow_cosign::Error::Limit(limit) => Error::Limit(limit),
            error => Error::Signature {
                reason: error.reason(),
                message: error.to_string(),
            },
        }
    }
}

/// The error for a way of verification that Flux knows and we do not know yet.
pub fn unsupported_verification(provider: &str) -> Error {
    let message = match provider {
        "notation" => {
            "verification by notation is not supported yet: use cosign with public keys by \
             spec.verify.secretRef, or without keys by spec.verify.matchOIDCIdentity"
        }
        _ => "the verification provider is not supported: use cosign",
    };
    Error::Unsupported {
        reason: "VerificationError",
        message: message.to_owned(),
    }
}

/// Whose signature counts.
#[derive(Debug)]
pub enum Trust {
    /// That of one of these keys.
    Keys(Vec<PublicKey>),
    /// That of a certificate.
    Keyless {
        /// Whose certificates and logs count.
        root: TrustRoot,
        /// Who may have signed.
        identities: Identities,
    },
}

/// What came of one signature: nothing when it is good, else why not.
type Outcome = Result<(), String>;

impl Trust {
    fn check(
        &self,
        signature: &Signature,
        digest: &str,
        budget: &everflow_limits::Budget,
    ) -> Result<Outcome, Error> {
        let checked = match self {
            Trust::Keys(keys) => {
                let by_key = verify_keyed(signature, digest, keys, budget);
                by_key.map(|by_key| by_key.then_some(()).ok_or_else(String::new))
            }
            Trust::Keyless { root, identities } => {
                let signer = verify_keyless(signature, digest, root, identities, budget);
                signer.map(|_| Ok(()))
            }
        };
        match checked {
            Ok(outcome) => Ok(outcome),
            Err(everflow_cosign::Error::Limit(limit)) => Err(Error::Limit(limit)),
            Err(error) => Ok(Err(error.to_string())),
        }
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
        let trust = Arc::new(Trust::Keys(keys.to_vec()));
        self.verify(digest, &trust, deadline).await
    }

    /// Checks that somebody who is trusted signed the artifact of this digest.
    pub async fn verify(
        &self,
        digest: &Digest,
        trust: &Arc<Trust>,
        deadline: &Deadline,
    ) -> Result<(), Error> {
        let bundles = self.bundles(digest, deadline).await;
        let looked = match bundles {
            Ok(bundles) => {
                self.look_at(Form::Bundle, bundles, digest, trust, deadline)
                    .await
            }
            Err(error) => Err(error),
        };
        let looked = match looked {
            Ok(looked) if looked.count > 0 => Ok(looked),
            Err(error @ (Error::Limit(_) | Error::Lost)) => Err(error),
            // Registries that know nothing of referrers know the older signatures.
            _ => match self.layers(digest, deadline).await {
                Ok(layers) => {
                    self.look_at(Form::Layer, layers, digest, trust, deadline)
                        .await
                }
                Err(error) => Err(error),
            },
        };
        let why = match looked {
            Ok(Looked { good: true, .. }) => return Ok(()),
            Ok(looked) => looked.told(trust),
            Err(error @ (Error::Limit(_) | Error::Lost)) => return Err(error),
            Err(Error::Registry { status: 404, .. }) => Looked::default().told(trust),
            Err(error) => error.to_string(),
        };
        if matches!(**trust, Trust::Keyless { .. }) {
            return Err(failed(why));
        }
        let whole = self.repository.digest(digest.as_str());
        Err(failed(format!(
            "no matching signatures were found for '{whole}': {why}"
        )))
    }

    async fn look_at(
        &self,
        form: Form,
        candidates: Vec<Descriptor>,
        digest: &Digest,
        trust: &Arc<Trust>,
        deadline: &Deadline,
    ) -> Result<Looked, Error> {
        let mut looked = Looked {
            form: Some(form),
            ..Looked::default()
        };
        for candidate in candidates {
            let Some(signature) = self.signature(form, &candidate, deadline).await? else {
                continue;
            };
            looked.count += 1;
            let (trust, digest) = (trust.clone(), digest.to_string());
            let checked = run_budgeted(&*self.env.blocking, move |budget| {
                trust.check(&signature, &digest, budget)
            });
            let checked = deadline.wait(checked).await;
            let checked = checked.ok_or(Error::Deadline(""))?.ok_or(Error::Lost)??;
            match checked {
                Ok(()) => {
                    looked.good = true;
                    return Ok(looked);
                }
                Err(why) if looked.whys.len() < REASONS && !looked.whys.contains(&why) => {
                    looked.whys.push(why);
                }
                Err(_) => {}
            }
        }
        Ok(looked)
    }
}

/// What was seen of the signatures of an artifact.
#[derive(Debug, Default)]
struct Looked {
    good: bool,
    form: Option<Form>,
    count: usize,
    whys: Vec<String>,
}

impl Looked {
    fn told(&self, trust: &Trust) -> String {
        match (trust, self.count) {
            (Trust::Keys(_), 0) => "it has no signatures".to_owned(),
            (Trust::Keys(_), count) => format!("none of its {count} signatures is by a given key"),
            (Trust::Keyless { .. }, 0) => "no signatures found".to_owned(),
            (Trust::Keyless { .. }, _) => {
                let what = match self.form {
                    Some(Form::Bundle) => "attestations",
                    _ => "signatures",
                };
                format!("no matching {what}: {}", self.whys.join("\n "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::manifest::OCI_INDEX;
    use crate::oci::tests::{client, deadline, packed, world};
    use crate::testing::{Push, Registry};
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use everflow_cosign::Layer;
    use everflow_cosign::testing::{BUNDLE_TYPE, Flaw, ISSUER, SUBJECT, Signing, Sigstore};
    use everflow_json::json;
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
            let mut der = STANDARD
                .decode("MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgA=")
                .unwrap();
            der.extend_from_slice(self.pair.public_key().as_ref());
            let text = STANDARD.encode(der);
            let pem = format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n");
            PublicKey::from_pem(pem.as_bytes()).unwrap()
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
        let signature = signature.to_owned();
        put_layer(registry, digest, payload, &[(Layer::SIGNATURE, &signature)]);
    }

    fn put_layer(
        registry: &Registry,
        digest: &str,
        payload: &[u8],
        annotations: &[(&str, &String)],
    ) {
        let blob = registry.put_blob(payload);
        let config = registry.put_blob(b"{}");
        let annotations: Vec<String> = annotations
            .iter()
            .map(|(name, value)| format!("\"{name}\":{}", json!(value.as_str())))
            .collect();
        let manifest = format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"c","size":2,"digest":"{config}"}},"layers":[{{"mediaType":"application/vnd.dev.cosign.simplesigning.v1+json","size":{},"digest":"{blob}","annotations":{{{}}}}}]}}"#,
            payload.len(),
            annotations.join(",")
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
        put_referrer(registry, digest, bundle.into_bytes());
    }

    fn put_referrer(registry: &Registry, digest: &str, bundle: Vec<u8>) {
        put_referrers(registry, digest, &[bundle]);
    }

    fn put_referrers(registry: &Registry, digest: &str, bundles: &[Vec<u8>]) {
        let put = |(number, bundle): (usize, &Vec<u8>)| {
            let push = Push {
                layers: vec![(BUNDLE_TYPE.to_owned(), bundle.clone())],
                annotations: vec![("number".to_owned(), number.to_string())],
                ..Push::default()
            };
            let own = registry.push("team/app", &[], &push);
            format!(
                r#"{{"mediaType":"m","size":1,"digest":"{own}","artifactType":"{BUNDLE_TYPE}"}}"#
            )
        };
        let manifests: Vec<String> = bundles.iter().enumerate().map(put).collect();
        let index = format!(
            r#"{{"schemaVersion":2,"manifests":[{}]}}"#,
            manifests.join(",")
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

    /// A registry with an artifact, and a Sigstore.
    struct Keyless {
        registry: Registry,
        env: everflow_env::Env,
        digest: String,
        sigstore: Sigstore,
    }

    impl Keyless {
        fn new() -> Self {
            let (registry, env) = world();
            let push = Push::content(packed(&[("a", "1")]));
            Keyless {
                digest: registry.push("team/app", &["v1"], &push),
                registry,
                env,
                sigstore: Sigstore::new(),
            }
        }

        async fn verify(&self, rules: &[(&str, &str)]) -> Result<(), String> {
            let trust = Arc::new(Trust::Keyless {
                root: TrustRoot::from_json(self.sigstore.trusted_root().as_bytes()).unwrap(),
                identities: Identities::new(rules.iter().copied()).unwrap(),
            });
            let wanted = Digest::parse(&self.digest).unwrap();
            let client = client(&self.env, "team/app");
            let done = client.verify(&wanted, &trust, &deadline(&self.env)).await;
            done.map_err(|error| {
                assert_eq!(error.reason(), "VerificationError");
                error.to_string()
            })
        }

        fn put_layer(&self, layer: &everflow_cosign::Layer) {
            let annotations = [
                (Layer::SIGNATURE, &layer.signature),
                (Layer::CERTIFICATE, &layer.certificate),
                (Layer::CHAIN, &layer.chain),
                (Layer::BUNDLE, &layer.bundle),
            ];
            put_layer(&self.registry, &self.digest, &layer.payload, &annotations);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn keyless_bundles_are_found_by_what_refers_to_the_artifact() {
        let world = Keyless::new();
        assert_eq!(world.verify(&[]).await.unwrap_err(), "no signatures found");
        let signing = Signing::of(&world.digest);
        put_referrer(
            &world.registry,
            &world.digest,
            world.sigstore.bundle(&signing),
        );
        world.verify(&[]).await.unwrap();
        world.verify(&[(ISSUER, "team/app")]).await.unwrap();
        assert_eq!(
            world.verify(&[("", "^nobody$")]).await.unwrap_err(),
            format!(
                "no matching attestations: none of the expected identities matched what was in \
                 the certificate, got subjects [{SUBJECT}] with issuer {ISSUER}"
            )
        );
        let forged = signing.with(Flaw::ForgedPromise);
        put_referrer(
            &world.registry,
            &world.digest,
            world.sigstore.bundle(&forged),
        );
        let error = world.verify(&[]).await.unwrap_err();
        assert!(error.contains("SET verification failed"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn keyless_layers_of_the_older_tag_are_verified() {
        let world = Keyless::new();
        let signing = Signing::of(&world.digest);
        world.put_layer(&world.sigstore.layer(&signing));
        world.verify(&[(ISSUER, "team/app")]).await.unwrap();
        let error = world.verify(&[("google", "")]).await.unwrap_err();
        assert!(
            error.starts_with("no matching signatures: none of"),
            "{error}"
        );
        let other = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
        world.put_layer(&world.sigstore.layer(&Signing::of(other)));
        let error = world.verify(&[]).await.unwrap_err();
        assert!(error.contains("the signature is not of"), "{error}");
        world.put_layer(&world.sigstore.layer(&signing.with(Flaw::Late)));
        let error = world.verify(&[]).await.unwrap_err();
        assert!(error.contains("CertExpired"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_does_not_stand_in_for_a_certificate() {
        let world = Keyless::new();
        let signer = Signer::new();
        let signed = payload(&world.digest);
        put_old(
            &world.registry,
            &world.digest,
            &signed,
            &signer.sign(&signed),
        );
        let error = world.verify(&[]).await.unwrap_err();
        assert_eq!(
            error,
            "no matching signatures: no certificate found on signature"
        );
        put_bundle(&world.registry, &world.digest, &signer, &world.digest);
        world.verify(&[]).await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_signatures_are_looked_at() {
        let world = Keyless::new();
        let good = world.sigstore.bundle(&Signing::of(&world.digest));
        let mut bundles = vec![b"{}".to_vec(); everflow_cosign::MAX_SIGNATURES];
        bundles.push(good.clone());
        put_referrers(&world.registry, &world.digest, &bundles);
        let asked = world.registry.seen().len();
        world.verify(&[]).await.unwrap_err();
        assert!(world.registry.seen().len() - asked < 2 * bundles.len() + 8);
        bundles.truncate(everflow_cosign::MAX_SIGNATURES - 1);
        bundles.push(good);
        put_referrers(&world.registry, &world.digest, &bundles);
        world.verify(&[]).await.unwrap();
    }
}
