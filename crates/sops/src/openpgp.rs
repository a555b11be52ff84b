//! Data keys encrypted with PGP.

use std::io::Read;

use everflow_limits::Budget;
use pgp::composed::{Message, SignedSecretKey};
use pgp::types::{Password, S2kParams, SecretParams, StringToKey};

use crate::error::Fault;
use crate::packets::{explain, read_armored};

/// How long a decrypted data key, or a part of one, may be: messages may be compressed.
const LONGEST: u64 = 64 << 10;

/// The secret keys of an armored text.
pub fn read_keys(armored: &[u8]) -> Result<Vec<SignedSecretKey>, String> {
    let keys = read_armored::<SignedSecretKey>(armored)
        .map_err(|error| format!("the armor cannot be read: {error}"))?;
    let keys: Result<Vec<_>, _> = keys.into_iter().collect();
    let keys = keys.map_err(|error| format!("the key cannot be read: {error}"))?;
    if keys.iter().any(is_costly) {
        return Err(
            "the key is locked with Argon2, which can ask for any amount of memory: take its \
             passphrase off"
                .to_owned(),
        );
    }
    match keys.is_empty() {
        true => Err("there is no secret key in it".to_owned()),
        false => Ok(keys),
    }
}

/// Whether trying to unlock a key can take any amount of memory.
fn is_costly(key: &SignedSecretKey) -> bool {
    let subkeys = key.secret_subkeys.iter();
    let mut all = subkeys
        .map(|subkey| subkey.key.secret_params())
        .chain([key.primary_key.secret_params()]);
    all.any(|params| match params {
        SecretParams::Plain(_) => false,
        SecretParams::Encrypted(locked) => match locked.string_to_key_params() {
            S2kParams::Aead { s2k, .. }
            | S2kParams::Cfb { s2k, .. }
            | S2kParams::MalleableCfb { s2k, .. } => matches!(s2k, StringToKey::Argon2 { .. }),
            S2kParams::Unprotected | S2kParams::LegacyCfb { .. } => false,
        },
    })
}

/// Decrypts an armored message with the first key that fits.
pub fn decrypt(armored: &str, keys: &[SignedSecretKey], budget: &Budget) -> Result<Vec<u8>, Fault> {
    let mut problem = "no PGP key was given".to_owned();
    for key in keys {
        budget.check()?;
        match decrypt_with(armored, key) {
            Ok(plain) => return Ok(plain),
            Err(error) => problem = error,
        }
    }
    Err(problem.into())
}

fn decrypt_with(armored: &str, key: &SignedSecretKey) -> Result<Vec<u8>, String> {
    let (message, _) = Message::from_armor(armored.as_bytes())
        .map_err(|error| format!("armor decoding failed: {}", explain(&error)))?;
    let message = message
        .decrypt(&Password::empty(), key)
        .map_err(|error| format!("reading PGP message failed: {}", explain(&error)))?;
    let message = match message.is_compressed() {
        true => message.decompress().map_err(|error| explain(&error))?,
        false => message,
    };
    let mut plain = Vec::new();
    message
        .take(LONGEST + 1)
        .read_to_end(&mut plain)
        .map_err(|error| error.to_string())?;
    match plain.len() as u64 > LONGEST {
        true => Err(format!("the data key is longer than {LONGEST} bytes")),
        false => Ok(plain),
    }
}
