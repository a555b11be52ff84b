//! Signing commits with SSH and PGP keys.

use russh::keys::PrivateKey;
use russh::keys::ssh_key::{HashAlg, LineEnding};

use super::pgp_signing::PgpKey;
use crate::{Error, Secret};

/// A key that signs commits.
#[derive(Clone)]
pub struct SigningKey(Key);

#[derive(Clone)]
enum Key {
    Ssh(Box<PrivateKey>),
    Pgp(Box<PgpKey>),
}

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
            false => Ok(SigningKey(Key::Ssh(Box::new(key)))),
        }
    }

    /// Takes a key out of a PGP key ring, armored or not: the one whose fingerprint ends with the id, or the first.
    ///
    /// # Errors
    /// It is no key ring, has no such key, or the passphrase is wrong.
    pub fn of_ring(ring: &[u8], passphrase: Secret<String>, id: &str) -> Result<Self, Error> {
        let key = PgpKey::read(ring, passphrase, id)?;
        Ok(SigningKey(Key::Pgp(Box::new(key))))
    }

    /// The armored signature of a commit that is made at a time.
    pub(super) fn sign(&self, commit: &[u8], seconds: i64) -> Result<String, Error> {
        let failed = |error: russh::keys::ssh_key::Error| {
            Error::Authentication(format!("the commit cannot be signed: {error}"))
        };
        match &self.0 {
            Key::Pgp(key) => key.sign(commit, seconds),
            Key::Ssh(key) => {
                let signature = key.sign("git", HashAlg::Sha512, commit);
                signature
                    .map_err(failed)?
                    .to_pem(LineEnding::LF)
                    .map_err(failed)
            }
        }
    }
}
