//! Keys for SSH: made for an account of a repository, and asked of a server.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use everflow_env::Env;
use russh::client::{Config, Handler};
use russh::keys::ssh_key::private::{KeypairData, RsaKeypair};
use russh::keys::ssh_key::rand_core::{TryCryptoRng, TryRng};
use russh::keys::ssh_key::{Algorithm, EcdsaCurve, LineEnding};
use russh::keys::{PrivateKey, PublicKeyOrCertificate};

use crate::{Deadline, Error, Secret};
use everflow_fetch::http::Limits;

/// What key is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA of so many bits.
    Rsa(usize),
    /// NIST P-256.
    P256,
    /// NIST P-384.
    P384,
    /// NIST P-521.
    P521,
    /// Ed25519.
    Ed25519,
}

/// A private key and its public half, as files have them.
#[derive(Debug, Clone)]
pub struct KeyPair {
    /// The private key.
    pub identity: Secret<String>,
    /// The line for the server.
    pub public: String,
}

impl KeyPair {
    /// Makes a new key. `fill` gives random bytes that nobody can guess.
    ///
    /// # Errors
    /// The key cannot be made.
    pub fn generate(kind: KeyKind, fill: &mut dyn FnMut(&mut [u8])) -> Result<Self, Error> {
        let mut source = Source(fill);
        let ecdsa = |curve| Algorithm::Ecdsa { curve };
        let key = match kind {
            KeyKind::Rsa(bits) => RsaKeypair::random(&mut source, bits)
                .and_then(|pair| PrivateKey::new(KeypairData::from(pair), "")),
            KeyKind::P256 => PrivateKey::random(&mut source, ecdsa(EcdsaCurve::NistP256)),
            KeyKind::P384 => PrivateKey::random(&mut source, ecdsa(EcdsaCurve::NistP384)),
            KeyKind::P521 => PrivateKey::random(&mut source, ecdsa(EcdsaCurve::NistP521)),
            KeyKind::Ed25519 => PrivateKey::random(&mut source, Algorithm::Ed25519),
        };
        let key = key.map_err(|error| failed("an SSH key cannot be made", &error))?;
        Self::of(&key)
    }

    /// Reads a private key in PEM or OpenSSH's form.
    ///
    /// # Errors
    /// It is no private key, or the password is wrong.
    pub fn read(text: &str, password: &str) -> Result<Self, Error> {
        let password = Some(password).filter(|password| !password.is_empty());
        let key = russh::keys::decode_secret_key(text, password)
            .map_err(|error| failed("the private key cannot be read", &error))?;
        let public = Self::of(&key)?.public;
        Ok(KeyPair {
            identity: text.to_owned().into(),
            public,
        })
    }

    fn of(key: &PrivateKey) -> Result<Self, Error> {
        let wrong = |error| failed("the SSH key cannot be written", &error);
        let identity = key.to_openssh(LineEnding::LF).map_err(wrong)?;
        let public = key.public_key().to_openssh().map_err(wrong)?;
        Ok(KeyPair {
            identity: identity.to_string().into(),
            public: format!("{public}\n"),
        })
    }
}

fn failed(what: &str, error: &dyn fmt::Display) -> Error {
    Error::Authentication(format!("{what}: {error}"))
}

/// Random bytes of somebody else.
struct Source<'f>(&'f mut dyn FnMut(&mut [u8]));

impl TryRng for Source<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        (self.0)(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        (self.0)(&mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        (self.0)(bytes);
        Ok(())
    }
}

impl TryCryptoRng for Source<'_> {}

/// Asks a server for its key; a line for a file of known hosts. Nobody vouches for the answer.
///
/// # Errors
/// The server cannot be reached, or shows no key.
pub async fn scan_host_key(
    env: &Env,
    host: &str,
    port: u16,
    deadline: &Deadline,
) -> Result<String, Error> {
    let shown = Arc::new(Mutex::new(None));
    let spans = Limits::default().spans();
    let asking = async {
        let stream = everflow_connect::tunnel(env, None, host, port, spans, deadline).await?;
        let collector = Collector(shown.clone());
        // The connection ends when the key was seen: whether it goes on is of no interest.
        let _ = russh::client::connect_stream(Arc::new(Config::default()), stream, collector).await;
        Ok::<(), Error>(())
    };
    deadline.wait(asking).await.ok_or(Error::Deadline(""))??;
    let key = shown.lock().unwrap_or_else(PoisonError::into_inner).take();
    let key = key.ok_or_else(|| Error::Git(format!("ssh: {host}:{port} showed no host key")))?;
    Ok(match port {
        22 => format!("{host} {key}\n"),
        port => format!("[{host}]:{port} {key}\n"),
    })
}

/// Keeps the key that a server shows.
struct Collector(Arc<Mutex<Option<String>>>);

impl Handler for Collector {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        server: &PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        if let PublicKeyOrCertificate::PublicKey { key, .. } = server {
            let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *shown = key.to_openssh().ok();
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(kind: KeyKind) -> KeyPair {
        let mut state = 7_u8;
        KeyPair::generate(kind, &mut |bytes| {
            for byte in bytes {
                state = state.wrapping_mul(31).wrapping_add(11);
                *byte = state;
            }
        })
        .unwrap()
    }

    #[test]
    fn keys_that_are_made_can_be_read() {
        for (kind, name) in [
            (KeyKind::P384, "ecdsa-sha2-nistp384 "),
            (KeyKind::Ed25519, "ssh-ed25519 "),
        ] {
            let pair = made(kind);
            assert!(pair.public.starts_with(name), "{}", pair.public);
            let again = KeyPair::read(pair.identity.reveal(), "").unwrap();
            assert_eq!(again.public, pair.public);
        }
    }

    #[test]
    fn unreadable_private_key_is_refused() {
        let error = KeyPair::read("nothing", "").unwrap_err().to_string();
        assert!(error.contains("private key cannot be read"), "{error}");
    }
}
