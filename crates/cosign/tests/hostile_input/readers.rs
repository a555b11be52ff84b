//! The readers of signatures, keys and roots of trust.

use std::sync::LazyLock;

use everflow_corpus::hostile::Reader;
use everflow_cosign::testing::{Signing, Sigstore};
use everflow_cosign::{
    Identities, Layer, PublicKey, Signature, TrustRoot, verify_keyed, verify_keyless,
};
use everflow_limits::Budget;

/// All of them.
pub const ALL: &[Reader] = &[
    Reader::new("bundle", bundle, || vec![world().bundle.clone()])
        .cases(100)
        .tokens(TOKENS),
    Reader::new(
        "payload",
        |bytes| layer(|layer| layer.payload = bytes.to_vec()),
        || vec![world().layer.payload.clone()],
    )
    .cases(100)
    .tokens(TOKENS),
    Reader::new(
        "layer-certificate",
        |bytes| layer(|layer| layer.certificate = text(bytes)),
        || vec![world().layer.certificate.clone().into_bytes()],
    )
    .cases(100)
    .tokens(TOKENS),
    Reader::new(
        "layer-bundle",
        |bytes| layer(|layer| layer.bundle = text(bytes)),
        || vec![world().layer.bundle.clone().into_bytes()],
    )
    .cases(100)
    .tokens(TOKENS),
    Reader::new(
        "trusted-root",
        |bytes| TrustRoot::from_json(bytes).is_ok(),
        || vec![world().trusted_root.clone().into_bytes()],
    )
    .cases(100)
    .tokens(TOKENS),
    Reader::new("public-key", key, || vec![KEY.as_bytes().to_vec()]).tokens(TOKENS),
];

const TOKENS: &[&str] = &[
    "[",
    "{",
    "{\"a\":",
    "null",
    "]",
    "}",
    "-----BEGIN CERTIFICATE-----\n",
    "-----BEGIN PUBLIC KEY-----\n",
    "MII",
    "AAAA",
    "\"dsseEnvelope\":{",
    "\"mediaType\":\"\",",
    "\"tlogEntries\":[",
    "\"payloadType\":\"\",",
    "sha256:",
];
const DIGEST: &str = "sha256:5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9";
const KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

struct World {
    root: TrustRoot,
    trusted_root: String,
    bundle: Vec<u8>,
    layer: Layer,
}

fn world() -> &'static World {
    static WORLD: LazyLock<World> = LazyLock::new(|| {
        let sigstore = Sigstore::new();
        let trusted_root = sigstore.trusted_root();
        World {
            root: TrustRoot::from_json(trusted_root.as_bytes()).unwrap(),
            trusted_root,
            bundle: sigstore.bundle(&Signing::of(DIGEST)),
            layer: sigstore.layer(&Signing::of(DIGEST)),
        }
    });
    &WORLD
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn verified(signature: &Signature) -> bool {
    let budget = Budget::unlimited();
    let keys = [PublicKey::from_pem(KEY.as_bytes()).unwrap()];
    assert!(!verify_keyed(signature, DIGEST, &keys, &budget).unwrap());
    verify_keyless(
        signature,
        DIGEST,
        &world().root,
        &Identities::default(),
        &budget,
    )
    .is_ok()
}

fn bundle(bytes: &[u8]) -> bool {
    verified(&Signature::Bundle(bytes.to_vec()))
}

fn layer(change: impl FnOnce(&mut Layer)) -> bool {
    let mut layer = world().layer.clone();
    change(&mut layer);
    verified(&Signature::Layer(Box::new(layer)))
}

fn key(bytes: &[u8]) -> bool {
    PublicKey::from_pem(bytes).is_ok_and(|key| !key.verifies(b"message", b"signature"))
}
