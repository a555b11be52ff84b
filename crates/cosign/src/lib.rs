//! Verifies cosign signatures, keyed and keyless.
//!
//! Nothing here reads a file, opens a connection or asks for the time of day to decide what is
//! trusted: signatures, roots of trust and the transport that refreshes them are handed in. A
//! signature is either a Sigstore bundle (cosign 3) or the payload and annotations of a layer below
//! the tag `sha256-HEX.sig` (cosign 2). Either way what is signed names the digest of the artifact,
//! and a signature of something else is none.

#![forbid(unsafe_code)]

mod cost;
mod error;
mod identity;
mod key;
mod keyless;
mod layer;
mod provider;
mod root;
mod statement;
#[cfg(feature = "testing")]
pub mod testing;
mod update;

pub use error::Error;
pub use identity::{Identities, Signer};
pub use key::PublicKey;
pub use keyless::verify_keyless;
pub use layer::Layer;
pub use root::TrustRoot;
pub use statement::verify_keyed;
pub use update::{Answer, Files, Mirror, SIGSTORE_MIRROR, Update, embedded_update_root, update};

/// The largest bundle that is read: attestations carry whole bills of materials.
pub const MAX_BUNDLE_BYTES: usize = 10 << 20;
/// The largest payload of the older signatures: a few lines of JSON, with room for annotations.
pub const MAX_PAYLOAD_BYTES: usize = 4 << 20;
/// How many signatures of one artifact are looked at.
pub const MAX_SIGNATURES: usize = 64;
/// How many entries of logs, timestamps or certificates one signature may have.
pub(crate) const MAX_PROOFS: usize = 16;

/// A signature as it lies in the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signature {
    /// A bundle in JSON.
    Bundle(Vec<u8>),
    /// A layer of cosign 2.
    Layer(Box<Layer>),
}
