//! Data keys encrypted with PGP.

use pgp::composed::{Deserializable, Message, SignedSecretKey};
use pgp::types::Password;

/// The secret keys of an armored text.
pub fn read_keys(armored: &[u8]) -> Result<Vec<SignedSecretKey>, String> {
    let (keys, _) = SignedSecretKey::from_armor_many(armored)
        .map_err(|error| format!("the armor cannot be read: {error}"))?;
    let keys: Result<Vec<_>, _> = keys.collect();
    let keys = keys.map_err(|error| format!("the key cannot be read: {error}"))?;
    match keys.is_empty() {
        true => Err("there is no secret key in it".to_owned()),
        false => Ok(keys),
    }
}

/// Decrypts an armored message with the first key that fits.
pub fn decrypt(armored: &str, keys: &[SignedSecretKey]) -> Result<Vec<u8>, String> {
    let mut problem = "no PGP key was given".to_owned();
    for key in keys {
        match decrypt_with(armored, key) {
            Ok(plain) => return Ok(plain),
            Err(error) => problem = error,
        }
    }
    Err(problem)
}

fn decrypt_with(armored: &str, key: &SignedSecretKey) -> Result<Vec<u8>, String> {
    let (message, _) = Message::from_armor(armored.as_bytes())
        .map_err(|e| format!("armor decoding failed: {e}"))?;
    let message = message
        .decrypt(&Password::empty(), key)
        .map_err(|error| format!("reading PGP message failed: {error}"))?;
    let mut message = match message.is_compressed() {
        true => message.decompress().map_err(|error| error.to_string())?,
        false => message,
    };
    message.as_data_vec().map_err(|error| error.to_string())
}
