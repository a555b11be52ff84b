//! Signing commits with SSH keys.

use russh::keys::PrivateKey;
use russh::keys::ssh_key::{HashAlg, LineEnding};

use crate::{Error, Secret};

/// An SSH key that signs commits.
#[derive(Clone)]
pub struct SigningKey(PrivateKey);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey")
    }
}

impl SigningKey {
    /// Reads a private key in PEM or OpenSSH's form.
    ///
    /// # Errors
    /// It is no private key, or the password is wrong.
    pub fn read(text: &str, password: &Secret<String>) -> Result<Self, Error> {
        let password = Some(password.reveal().as_str()).filter(|word| !word.is_empty());
        let key = russh::keys::decode_secret_key(text, password).map_err(|error| {
            Error::Authentication(format!("the signing key cannot be read: {error}"))
        })?;
        match key.is_encrypted() {
            true => Err(Error::Authentication(
                "the signing key is protected by a passphrase: give it, too".to_owned(),
            )),
            false => Ok(SigningKey(key)),
        }
    }

    /// The signature of a commit, in armour.
    pub(super) fn sign(&self, commit: &[u8]) -> Result<String, Error> {
        let failed = |error: russh::keys::ssh_key::Error| {
            Error::Authentication(format!("the commit cannot be signed: {error}"))
        };
        let signature = self.0.sign("git", HashAlg::Sha512, commit);
        let signature = signature.map_err(failed)?;
        signature.to_pem(LineEnding::LF).map_err(failed)
    }
}
