//! Whatever a registry or a Secret hands over: no panic, and nothing is verified that was not signed.

#![allow(clippy::unwrap_used)]

use std::sync::OnceLock;

use everflow_cosign::testing::{Signing, Sigstore};
use everflow_cosign::{
    Identities, Layer, PublicKey, Signature, TrustRoot, verify_keyed, verify_keyless,
};
use everflow_limits::Budget;
use proptest::prelude::*;

const DIGEST: &str = "sha256:5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9";
const KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

struct World {
    root: TrustRoot,
    text: String,
    bundle: Vec<u8>,
    layer: Layer,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let sigstore = Sigstore::new();
        let text = sigstore.trusted_root();
        World {
            root: TrustRoot::from_json(text.as_bytes()).unwrap(),
            text,
            bundle: sigstore.bundle(&Signing::of(DIGEST)),
            layer: sigstore.layer(&Signing::of(DIGEST)),
        }
    })
}

/// Changes some bytes, cuts, and repeats a part.
fn mutate(bytes: &[u8], changes: &[(prop::sample::Index, u8)], cut: usize, twice: bool) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (at, value) in changes {
        let at = at.index(bytes.len());
        bytes[at] = *value;
    }
    if twice {
        let half = bytes[bytes.len() / 2..].to_vec();
        bytes.extend(half);
    }
    bytes.truncate(bytes.len().saturating_sub(cut % 64));
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..4)
}

fn try_all(signature: &Signature) {
    let (rules, budget) = (Identities::default(), Budget::unlimited());
    let _ = verify_keyless(signature, DIGEST, &world().root, &rules, &budget);
    let keys = [PublicKey::from_pem(KEY.as_bytes()).unwrap()];
    assert!(!verify_keyed(signature, DIGEST, &keys, &budget).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_bundles_do_not_panic(changes in changes(), cut in 0..128_usize, twice: bool) {
        try_all(&Signature::Bundle(mutate(&world().bundle, &changes, cut, twice)));
    }

    #[test]
    fn mutated_layers_do_not_panic(changes in changes(), cut in 0..128_usize, twice: bool, which in 0..5) {
        let mut layer = world().layer.clone();
        let text = |text: &str| {
            let bytes = mutate(text.as_bytes(), &changes, cut, twice);
            String::from_utf8_lossy(&bytes).into_owned()
        };
        match which {
            0 => layer.payload = mutate(&layer.payload, &changes, cut, twice),
            1 => layer.signature = text(&layer.signature),
            2 => layer.certificate = text(&layer.certificate),
            3 => layer.chain = text(&layer.chain),
            _ => layer.bundle = text(&layer.bundle),
        }
        try_all(&Signature::Layer(Box::new(layer)));
    }

    #[test]
    fn certificates_with_mutated_der_do_not_panic(changes in changes(), cut in 0..128_usize) {
        use base64::Engine as _;
        let engine = base64::engine::general_purpose::STANDARD;
        let bundle = String::from_utf8(world().bundle.clone()).unwrap();
        let (before, rest) = bundle.split_once(r#""certificate":{"rawBytes":""#).unwrap();
        let (certificate, after) = rest.split_once('"').unwrap();
        let certificate = mutate(&engine.decode(certificate).unwrap(), &changes, cut, false);
        let bundle = format!(
            r#"{before}"certificate":{{"rawBytes":"{}"{after}"#,
            engine.encode(certificate)
        );
        try_all(&Signature::Bundle(bundle.into_bytes()));
    }

    #[test]
    fn random_bytes_are_no_signature_key_or_root(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        try_all(&Signature::Bundle(bytes.clone()));
        prop_assert!(TrustRoot::from_json(&bytes).is_err());
        prop_assert!(PublicKey::from_pem(&bytes).is_err());
    }

    #[test]
    fn mutated_roots_and_keys_do_not_panic(changes in changes(), cut in 0..128_usize, twice: bool) {
        let _ = TrustRoot::from_json(&mutate(world().text.as_bytes(), &changes, cut, twice));
        if let Ok(key) = PublicKey::from_pem(&mutate(KEY.as_bytes(), &changes, cut, twice)) {
            prop_assert!(!key.verifies(b"message", b"signature"));
        }
    }

    #[test]
    fn keys_with_random_der_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n");
        let _ = PublicKey::from_pem(pem.as_bytes());
    }
}
