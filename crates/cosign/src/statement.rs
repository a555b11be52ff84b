//! What signed texts say about an artifact, and signatures by keys.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_json::Value;
use everflow_limits::Budget;

use crate::cost::Charge;
use crate::{Error, MAX_BUNDLE_BYTES, MAX_PROOFS, PublicKey, Signature};

/// Splits `sha256:HEX`.
fn parts(digest: &str) -> Option<(&str, &str)> {
    digest.split_once(':')
}

/// Whether the payload of an older signature is about the artifact.
pub(crate) fn names_digest(payload: &[u8], digest: &str) -> bool {
    let Ok(payload) = everflow_json::from_slice::<Value>(payload) else {
        return false;
    };
    let named = payload.pointer("/critical/image/docker-manifest-digest");
    named.and_then(Value::as_str) == Some(digest)
}

/// Whether the subject of an in-toto statement is the artifact.
fn states_digest(payload: &[u8], digest: &str) -> bool {
    let (Ok(statement), Some((algorithm, hex))) =
        (everflow_json::from_slice::<Value>(payload), parts(digest))
    else {
        return false;
    };
    let subjects = statement.get("subject").and_then(Value::as_array);
    subjects.is_some_and(|subjects| {
        subjects.iter().any(|subject| {
            let named = subject
                .get("digest")
                .and_then(|digests| digests.get(algorithm));
            named.and_then(Value::as_str) == Some(hex)
        })
    })
}

/// Whether a bundle holds a statement about the artifact that one of the keys signed.
fn bundle_is_by_key(
    bundle: &Value,
    digest: &str,
    keys: &[PublicKey],
    budget: &Budget,
) -> Result<bool, Error> {
    let text = |pointer: &str| bundle.pointer(pointer).and_then(Value::as_str);
    let decode = |text: &str| STANDARD.decode(text).ok();
    let (Some(kind), Some(payload)) = (
        text("/dsseEnvelope/payloadType"),
        text("/dsseEnvelope/payload").and_then(decode),
    ) else {
        return Ok(false);
    };
    let _payload = Charge::for_texts(budget, &[&payload])?;
    let mut message = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    message.extend_from_slice(&payload);
    let signatures = bundle.pointer("/dsseEnvelope/signatures");
    let signed = signatures.and_then(Value::as_array).is_some_and(|all| {
        all.iter().take(MAX_PROOFS).any(|one| {
            let signature = one.get("sig").and_then(Value::as_str).and_then(decode);
            signature
                .is_some_and(|signature| keys.iter().any(|key| key.verifies(&message, &signature)))
        })
    });
    Ok(signed && states_digest(&payload, digest))
}

/// Whether one of the keys made this signature of the artifact with the digest (`sha256:HEX`).
pub fn verify_keyed(
    signature: &Signature,
    digest: &str,
    keys: &[PublicKey],
    budget: &Budget,
) -> Result<bool, Error> {
    budget.check()?;
    Ok(match signature {
        Signature::Bundle(bytes) if bytes.len() > MAX_BUNDLE_BYTES => false,
        Signature::Bundle(bytes) => {
            let _text = Charge::for_texts(budget, &[bytes])?;
            match everflow_json::from_slice::<Value>(bytes) {
                Ok(bundle) => bundle_is_by_key(&bundle, digest, keys, budget)?,
                Err(_) => false,
            }
        }
        Signature::Layer(layer) => STANDARD.decode(&layer.signature).is_ok_and(|signature| {
            let by_key = |key: &PublicKey| key.verifies(&layer.payload, &signature);
            keys.iter().any(by_key) && names_digest(&layer.payload, digest)
        }),
    })
}
