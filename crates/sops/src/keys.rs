//! The secret keys at hand.

use pgp::composed::SignedSecretKey;

use crate::age::Identity;
use crate::error::KeyError;
use crate::openpgp;

/// Secret keys to decrypt with.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    pub(crate) age: Vec<Identity>,
    pub(crate) pgp: Vec<SignedSecretKey>,
}

impl Keys {
    /// No keys.
    pub const fn new() -> Self {
        Keys {
            age: Vec::new(),
            pgp: Vec::new(),
        }
    }

    /// Adds an entry of a Secret by its name: `*.agekey` has age identities and `*.asc` a PGP key.
    /// Entries with other names are left out, as Flux leaves them out.
    ///
    /// # Errors
    /// When the entry is no key.
    pub fn add(&mut self, name: &str, content: &[u8]) -> Result<(), KeyError> {
        if name.ends_with(".agekey") {
            self.add_age(&String::from_utf8_lossy(content))
        } else if name.ends_with(".asc") {
            self.add_pgp(content)
        } else {
            Ok(())
        }
    }

    /// Adds age identities, one on each line; empty lines and lines with `#` are skipped.
    ///
    /// # Errors
    /// When a line is no identity.
    pub fn add_age(&mut self, text: &str) -> Result<(), KeyError> {
        for line in text.lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            self.age
                .push(Identity::parse(line.trim_end()).map_err(KeyError::Age)?);
        }
        Ok(())
    }

    /// Adds armored PGP secret keys.
    ///
    /// # Errors
    /// When there is none.
    pub fn add_pgp(&mut self, armored: &[u8]) -> Result<(), KeyError> {
        self.pgp
            .extend(openpgp::read_keys(armored).map_err(KeyError::Pgp)?);
        Ok(())
    }

    /// Whether there is no key at all.
    pub fn is_empty(&self) -> bool {
        self.age.is_empty() && self.pgp.is_empty()
    }
}
