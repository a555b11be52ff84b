//! Roots of trust: whose certificates, logs and timestamps count.

use std::sync::Arc;

use sigstore_verify::Verifier;
use sigstore_verify::trust_root::{SIGSTORE_PRODUCTION_TRUSTED_ROOT, TrustedRoot};

use crate::{Error, provider};

/// The largest root that is read: that of the public instance has seven thousand bytes.
const MAX_ROOT_BYTES: usize = 1 << 20;

/// A root of trust, ready for use. Clones share it.
#[derive(Clone)]
pub struct TrustRoot(pub(crate) Arc<Verifier>);

impl std::fmt::Debug for TrustRoot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("TrustRoot")
    }
}

impl TrustRoot {
    /// Reads a `trusted_root.json`.
    pub fn from_json(json: &[u8]) -> Result<Self, Error> {
        provider::install();
        if json.len() > MAX_ROOT_BYTES {
            return Err(Error::Root(format!(
                "it has {} bytes, at most {MAX_ROOT_BYTES} are read",
                json.len()
            )));
        }
        let text = std::str::from_utf8(json).map_err(|error| Error::Root(error.to_string()))?;
        let root = TrustedRoot::from_json(text).map_err(|error| Error::Root(error.to_string()))?;
        let verifier = Verifier::new(&root).map_err(|error| Error::Root(error.to_string()))?;
        Ok(TrustRoot(Arc::new(verifier)))
    }

    /// The root of the public instance of Sigstore as it was when this program was built.
    pub fn embedded() -> Result<Self, Error> {
        Self::from_json(SIGSTORE_PRODUCTION_TRUSTED_ROOT.as_bytes())
    }
}
