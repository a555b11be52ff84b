//! Signed tokens and the keys they are checked with.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use everflow_json::Value;
use ring::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

use crate::foreign;

/// No token of a service is longer.
const LONGEST: usize = 64 << 10;

/// A token in its parts; nothing of it is to be believed before it is verified.
#[derive(Debug)]
pub(super) struct Token<'t> {
    header: Value,
    pub(super) claims: Value,
    signed: &'t str,
    signature: Vec<u8>,
}

impl<'t> Token<'t> {
    /// Reads a token.
    pub(super) fn read(text: &'t str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("token is longer than {LONGEST} bytes"));
        }
        let parts: Vec<&str> = text.split('.').collect();
        let [header, claims, signature] = parts.as_slice() else {
            return Err("token is not a JWT".to_owned());
        };
        let object = |part: &str, what: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(part);
            let bytes = bytes.map_err(|error| format!("failed to decode token {what}: {error}"))?;
            let value = foreign::read(&bytes);
            let value = value.map_err(|error| format!("failed to parse token {what}: {error}"))?;
            match value.as_object() {
                Some(_) => Ok(value),
                None => Err(format!("failed to parse token {what}: it is no object")),
            }
        };
        Ok(Token {
            header: object(header, "header")?,
            claims: object(claims, "payload")?,
            signed: &text[..header.len() + 1 + claims.len()],
            signature: URL_SAFE_NO_PAD
                .decode(signature)
                .map_err(|error| format!("failed to decode token signature: {error}"))?,
        })
    }

    /// A claim that is a text, empty when it is not there.
    pub(super) fn text(&self, name: &str) -> &str {
        self.claims
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// A claim that is a moment, in seconds since 1970.
    pub(super) fn seconds(&self, name: &str) -> Option<i64> {
        let number = self.claims.get(name)?.as_f64()?;
        Some(number as i64)
    }

    /// Whether the token is meant for somebody.
    pub(super) fn is_for(&self, audience: &str) -> bool {
        match self.claims.get("aud") {
            Some(Value::String(one)) => one.as_str() == audience,
            Some(Value::Array(several)) => several.iter().any(|one| one.as_str() == Some(audience)),
            _ => false,
        }
    }

    /// Checks the signature with keys, by one of the algorithms that are allowed.
    pub(super) fn verify(&self, keys: &KeySet, allowed: &[String]) -> Result<(), String> {
        let name = self.header["alg"].as_str().unwrap_or_default();
        let algorithm = Algorithm::from_name(name)
            .filter(|_| allowed.iter().any(|one| one == name))
            .ok_or_else(|| {
                let allowed = allowed.join(", ");
                format!("token is signed with algorithm {name:?}, expected one of: {allowed}")
            })?;
        let kid = self.header["kid"].as_str().unwrap_or_default();
        let candidates = keys
            .0
            .iter()
            .filter(|key| (kid.is_empty() || key.id.is_empty() || key.id == kid) && key.fits(name));
        let mut is_known = false;
        for key in candidates {
            is_known = true;
            if key.verify(algorithm, self.signed.as_bytes(), &self.signature) {
                return Ok(());
            }
        }
        Err(match is_known {
            true => "failed to verify the signature of the token".to_owned(),
            false => format!("no key {kid:?} is known for the signature of the token"),
        })
    }
}

/// How a token is signed.
#[derive(Debug, Clone, Copy)]
enum Algorithm {
    Rsa(&'static RsaParameters),
    /// On this curve.
    Ecdsa(&'static str, &'static dyn VerificationAlgorithm),
    Ed25519,
}

impl Algorithm {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Algorithm::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            "RS384" => Algorithm::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            "RS512" => Algorithm::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            "PS256" => Algorithm::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
            "PS384" => Algorithm::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
            "PS512" => Algorithm::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
            "ES256" => Algorithm::Ecdsa("P-256", &signature::ECDSA_P256_SHA256_FIXED),
            "ES384" => Algorithm::Ecdsa("P-384", &signature::ECDSA_P384_SHA384_FIXED),
            "EdDSA" => Algorithm::Ed25519,
            _ => return None,
        })
    }
}

/// A key that checks signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    id: String,
    /// The algorithm it is for; empty when that is not told.
    algorithm: String,
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// On this curve, the uncompressed point.
    Point {
        curve: String,
        point: Vec<u8>,
    },
    Ed25519(Vec<u8>),
}

impl Key {
    fn fits(&self, algorithm: &str) -> bool {
        self.algorithm.is_empty() || self.algorithm == algorithm
    }

    fn verify(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> bool {
        let verified = match (&self.material, algorithm) {
            (Material::Rsa { modulus, exponent }, Algorithm::Rsa(parameters)) => {
                let key = RsaPublicKeyComponents {
                    n: modulus,
                    e: exponent,
                };
                key.verify(parameters, signed, signature)
            }
            (Material::Point { curve, point }, Algorithm::Ecdsa(wanted, algorithm)) => {
                if curve != wanted {
                    return false;
                }
                UnparsedPublicKey::new(algorithm, point).verify(signed, signature)
            }
            (Material::Ed25519(key), Algorithm::Ed25519) => {
                UnparsedPublicKey::new(&signature::ED25519, key).verify(signed, signature)
            }
            _ => return false,
        };
        verified.is_ok()
    }
}

/// A set of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySet(Vec<Key>);

impl KeySet {
    /// Reads a JSON Web Key Set; keys of kinds that are not known are passed over.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(text: &[u8]) -> Result<Self, crate::Error> {
        let wrong = |why: String| crate::Error::Token(format!("failed to read the key set: {why}"));
        let read = foreign::read(text).map_err(wrong)?;
        let keys = read.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or_else(|| wrong("it has no keys".to_owned()))?;
        Ok(KeySet(keys.iter().filter_map(key).collect()))
    }

    /// Whether it has a key that a token may be signed with, by the ids alone: when it has none, the keys may have been
    /// rotated, and are worth fetching again.
    pub fn may_verify(&self, token: &str) -> bool {
        let Ok(token) = Token::read(token) else {
            return true;
        };
        let kid = token.header["kid"].as_str().unwrap_or_default();
        kid.is_empty() || self.0.iter().any(|key| key.id.is_empty() || key.id == kid)
    }
}

fn key(value: &Value) -> Option<Key> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let bytes = |name: &str| {
        let decoded = URL_SAFE_NO_PAD.decode(text(name).trim_end_matches('='));
        decoded.ok().filter(|bytes| !bytes.is_empty())
    };
    if text("use") == "enc" {
        return None;
    }
    let material = match text("kty") {
        "RSA" => Material::Rsa {
            modulus: without_zeros(bytes("n")?),
            exponent: without_zeros(bytes("e")?),
        },
        "EC" => {
            let mut point = vec![4];
            point.extend(bytes("x")?);
            point.extend(bytes("y")?);
            Material::Point {
                curve: text("crv").to_owned(),
                point,
            }
        }
        "OKP" if text("crv") == "Ed25519" => Material::Ed25519(bytes("x")?),
        _ => return None,
    };
    Some(Key {
        id: text("kid").to_owned(),
        algorithm: text("alg").to_owned(),
        material,
    })
}

/// Numbers may be written with zeros in front, which are not taken.
fn without_zeros(bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes[zeros..].to_vec()
}

#[cfg(test)]
mod tests {
    use everflow_json::json;
    use proptest::prelude::*;
    use ring::rand::SystemRandom;
    use ring::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
    };

    use super::*;

    type Signer = Box<dyn Fn(&[u8]) -> Vec<u8>>;

    /// A key of a curve, as a set and as what signs with it.
    fn p256() -> (KeySet, Signer) {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap();
        let point = pair.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        let [x, y] = [x, y].map(|half| URL_SAFE_NO_PAD.encode(half));
        let set = json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "k", "x": x, "y": y}]});
        let signer: Signer = Box::new(move |message| {
            pair.sign(&SystemRandom::new(), message)
                .unwrap()
                .as_ref()
                .to_vec()
        });
        (KeySet::read(set.to_string().as_bytes()).unwrap(), signer)
    }

    fn ed25519() -> (KeySet, Signer) {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let x = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
        let set = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}]});
        let signer: Signer = Box::new(move |message| pair.sign(message).as_ref().to_vec());
        (KeySet::read(set.to_string().as_bytes()).unwrap(), signer)
    }

    fn signed(algorithm: &str, kid: &str, signer: &Signer) -> String {
        let header = json!({"alg": algorithm, "kid": kid}).to_string();
        let claims = json!({"sub": "me"}).to_string();
        let signed = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims)
        );
        let signature = signer(signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn verify(token: &str, keys: &KeySet, allowed: &[&str]) -> Result<(), String> {
        let allowed: Vec<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        Token::read(token)?.verify(keys, &allowed)
    }

    #[test]
    fn tokens_signed_on_curves_are_verified() {
        for (algorithm, (keys, signer)) in [("ES256", p256()), ("EdDSA", ed25519())] {
            let token = signed(algorithm, "k", &signer);
            assert_eq!(verify(&token, &keys, &["RS256", algorithm]), Ok(()));
            assert!(keys.may_verify(&token));
            let (start, end) = token.rsplit_once('.').unwrap();
            let changed = format!("{}.{end}", start.replace('.', "A."));
            assert!(verify(&changed, &keys, &[algorithm]).is_err());
        }
    }

    #[test]
    fn algorithms_that_are_not_allowed_or_do_not_fit_the_key_are_refused() {
        let (keys, signer) = p256();
        let token = signed("ES256", "k", &signer);
        assert!(verify(&token, &keys, &["RS256"]).is_err());
        for algorithm in ["none", "HS256", "RS256", "ES384", "EdDSA", ""] {
            let token = signed(algorithm, "k", &signer);
            assert!(
                verify(
                    &token,
                    &keys,
                    &["ES256", "RS256", "ES384", "EdDSA", "none", "HS256"]
                )
                .is_err(),
                "{algorithm}"
            );
        }
        let (other, _) = p256();
        assert!(verify(&token, &other, &["ES256"]).is_err());
    }

    #[test]
    fn a_token_of_another_key_asks_for_the_keys_once_more() {
        let (keys, signer) = p256();
        let token = signed("ES256", "rotated", &signer);
        assert!(!keys.may_verify(&token));
        let refused = verify(&token, &keys, &["ES256"]).unwrap_err();
        assert_eq!(
            refused,
            "no key \"rotated\" is known for the signature of the token"
        );
    }

    #[test]
    fn keys_of_unknown_kinds_and_for_encryption_are_passed_over() {
        let set = br#"{"keys":[{"kty":"oct","k":"AA"},{"kty":"RSA","use":"enc","n":"AQAB","e":"AQAB"},{"kty":"RSA"},5]}"#;
        assert_eq!(KeySet::read(set).unwrap(), KeySet::default());
        assert!(KeySet::read(b"{}").is_err() && KeySet::read(b"nope").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_token_or_refused(text in "[A-Za-z0-9_.=-]{0,120}") {
            let (keys, _) = ed25519();
            prop_assert!(verify(&text, &keys, &["EdDSA"]).is_err());
        }

        #[test]
        fn any_header_and_any_claims_are_taken_without_panic(header in "\\PC{0,40}", claims in "\\PC{0,40}") {
            let [header, claims] = [header, claims].map(|text| URL_SAFE_NO_PAD.encode(text));
            if let Ok(token) = Token::read(&format!("{header}.{claims}.AA")) {
                let _ = (token.text("iss"), token.seconds("exp"), token.is_for("x"));
            }
        }
    }
}
