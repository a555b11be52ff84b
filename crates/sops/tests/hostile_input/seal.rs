//! Writes what SOPS and age write, so that changed content gets past the encryption.

use aes_gcm::aead::consts::{U16, U32};
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::aes::Aes256;
use aes_gcm::{AesGcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ring::{aead, hkdf, hmac};
use sha2::{Digest as _, Sha256, Sha512};
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};

/// An age identity, and its secret.
pub const IDENTITY: &str =
    "AGE-SECRET-KEY-1ZCRAPNUP0GEU4YN7UNE4YUYQEKHC8KPTU59QK95X3MPEUHT62SEQMNZY63";

/// The key that all values are encrypted with.
pub const DATA_KEY: [u8; 32] = [7; 32];

const MODIFIED: &str = "2026-01-01T00:00:00Z";

/// The secret in [`IDENTITY`]: groups of five bits behind the prefix.
fn secret() -> [u8; 32] {
    const ALPHABET: &str = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L";
    let (_, data) = IDENTITY.rsplit_once('1').unwrap();
    let (mut pool, mut bits, mut bytes) = (0_u32, 0, Vec::new());
    for letter in data.chars() {
        pool = (pool << 5 | ALPHABET.find(letter).unwrap() as u32) & 0xfff;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push((pool >> bits) as u8);
        }
    }
    bytes[..32].try_into().unwrap()
}

fn derive(secret: &[u8], salt: &[u8], info: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    prk.expand(&[info], hkdf::HKDF_SHA256)
        .unwrap()
        .fill(&mut key)
        .unwrap();
    key
}

fn chacha(key: &[u8; 32], last: u8, plain: &[u8]) -> Vec<u8> {
    let key = aead::LessSafeKey::new(aead::UnboundKey::new(&aead::CHACHA20_POLY1305, key).unwrap());
    let mut nonce = [0; 12];
    nonce[11] = last;
    let mut sealed = plain.to_vec();
    let nonce = aead::Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, aead::Aad::empty(), &mut sealed)
        .unwrap();
    sealed
}

/// Puts the armor around an age file.
pub fn armor(file: &[u8]) -> String {
    let (begin, end) = (
        "-----BEGIN AGE ENCRYPTED FILE-----",
        "-----END AGE ENCRYPTED FILE-----",
    );
    format!("{begin}\n{}\n{end}\n", STANDARD.encode(file))
}

/// An age file for [`IDENTITY`].
pub fn age(plain: &[u8]) -> Vec<u8> {
    let (file_key, ephemeral) = ([3; 16], [9; 32]);
    let own = x25519(secret(), X25519_BASEPOINT_BYTES);
    let share = x25519(ephemeral, X25519_BASEPOINT_BYTES);
    let salt = [share, own].concat();
    let wrap = derive(
        &x25519(ephemeral, own),
        &salt,
        b"age-encryption.org/v1/X25519",
    );
    let header = format!(
        "age-encryption.org/v1\n-> X25519 {}\n{}\n---",
        STANDARD_NO_PAD.encode(share),
        STANDARD_NO_PAD.encode(chacha(&wrap, 0, &file_key)),
    );
    let key = hmac::Key::new(hmac::HMAC_SHA256, &derive(&file_key, b"", b"header"));
    let mac = hmac::sign(&key, header.as_bytes());
    let payload = chacha(&derive(&file_key, &[5; 16], b"payload"), 1, plain);
    let closing = format!(" {}\n", STANDARD_NO_PAD.encode(mac));
    [header.as_bytes(), closing.as_bytes(), &[5; 16], &payload].concat()
}

/// A value as SOPS encrypts it.
pub fn value(plain: &[u8], kind: &str, path: &str) -> String {
    let key = AesGcm::<Aes256, U32, U16>::new_from_slice(&DATA_KEY).unwrap();
    let payload = Payload {
        msg: plain,
        aad: path.as_bytes(),
    };
    let sealed = key.encrypt(Nonce::from_slice(&[1; 32]), payload).unwrap();
    let (data, tag) = sealed.split_at(plain.len());
    format!(
        "ENC[AES256_GCM,data:{},iv:{},tag:{},type:{kind}]",
        STANDARD.encode(data),
        STANDARD.encode([1; 32]),
        STANDARD.encode(tag),
    )
}

/// The metadata of a file in which only what stands under `sealed` is encrypted, and only that is
/// authenticated, as names and values; `plain` is what stands there.
pub fn metadata(plain: &[u8]) -> Vec<(&'static str, String)> {
    let code = Sha512::new()
        .chain_update(Sha256::digest(b"sops"))
        .chain_update(plain)
        .finalize();
    let code: String = code.iter().map(|byte| format!("{byte:02X}")).collect();
    vec![
        ("lastmodified", MODIFIED.to_owned()),
        ("mac", value(code.as_bytes(), "str", MODIFIED)),
        ("mac_only_encrypted", "true".to_owned()),
        ("encrypted_regex", "^sealed$".to_owned()),
        ("enc", armor(&age(&DATA_KEY))),
    ]
}
