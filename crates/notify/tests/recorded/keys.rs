//! Keys and certificates of a run.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use everflow_json::{Value, json};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rsa::pkcs8::{EncodePrivateKey, LineEnding};
use rsa::traits::PublicKeyParts;

pub struct Keys {
    pub ca: String,
    pub other_ca: String,
    pub client_cert: String,
    pub client_key: String,
    pub rsa_pem: String,
    /// The PEM with its line breaks escaped.
    pub rsa_json: String,
    signing: RsaKeyPair,
    other: RsaKeyPair,
    /// The key set with the signing key.
    pub jwks: String,
}

impl Keys {
    pub fn new() -> Self {
        let certificate = || {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            (made.cert.pem(), made.signing_key.serialize_pem())
        };
        let (client_cert, client_key) = certificate();
        let rsa = || rsa::RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 2048).unwrap();
        let key = rsa();
        let rsa_pem = key.to_pkcs8_pem(LineEnding::LF).unwrap().to_string();
        let pair = |key: &rsa::RsaPrivateKey| {
            RsaKeyPair::from_pkcs8(key.to_pkcs8_der().unwrap().as_bytes()).unwrap()
        };
        let jwks = json!({"keys": [{
            "kty": "RSA", "use": "sig", "alg": "RS256", "kid": "k1",
            "n": URL_SAFE_NO_PAD.encode(key.n().to_bytes_be()),
            "e": URL_SAFE_NO_PAD.encode(key.e().to_bytes_be()),
        }]});
        Keys {
            ca: certificate().0,
            other_ca: certificate().0,
            client_cert,
            client_key,
            rsa_json: rsa_pem.replace('\n', "\\n"),
            rsa_pem,
            signing: pair(&key),
            other: pair(&rsa()),
            jwks: jwks.to_string(),
        }
    }

    /// `Bearer` and a token with what a recording asks for.
    pub fn bearer(&self, wanted: &Value, now: i64) -> String {
        let mut claims = wanted["claims"].as_object().cloned().unwrap_or_default();
        let ttl = wanted["ttl"].as_i64().unwrap_or(600);
        for (name, value) in [("iat", now - 5), ("exp", now + ttl)] {
            claims.entry(name).or_insert(Value::from(value));
        }
        let is_unsigned = wanted["alg"].as_str() == Some("none");
        let alg = if is_unsigned { "none" } else { "RS256" };
        let header = json!({"alg": alg, "typ": "JWT", "kid": "k1"}).to_string();
        let claims = Value::Object(claims).to_string();
        let signed = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims)
        );
        let key = match wanted["key"].as_str() {
            Some("other") => &self.other,
            _ => &self.signing,
        };
        let mut signature = vec![0; key.public().modulus_len()];
        key.sign(
            &RSA_PKCS1_SHA256,
            &SystemRandom::new(),
            signed.as_bytes(),
            &mut signature,
        )
        .unwrap();
        let signature = if is_unsigned { Vec::new() } else { signature };
        format!("Bearer {signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}
