//! Files encrypted with age for X25519 keys. Only data keys are read here, so a file is small.

use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use everflow_limits::{Budget, Exceeded};
use ring::{aead, hkdf, hmac};
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};

use crate::bech32;
use crate::error::Fault;

const INTRO: &str = "age-encryption.org/v1\n";
const ARMOR_BEGIN: &str = "-----BEGIN AGE ENCRYPTED FILE-----";
const ARMOR_END: &str = "-----END AGE ENCRYPTED FILE-----";
/// How much text one piece of the payload holds.
const CHUNK: usize = 64 * 1024;
const TAG: usize = 16;
/// How many recipients a file may have: each costs a multiplication on the curve. SOPS makes a file
/// for each recipient.
const MAX_STANZAS: usize = 16;
const MISMATCH: &str =
    "identity did not match any of the recipients: incorrect identity for recipient block";

/// A secret key.
#[derive(Clone)]
pub struct Identity {
    secret: [u8; 32],
    /// Worked out when it is needed: a Secret can hold thousands of keys.
    public: OnceLock<[u8; 32]>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity(…)")
    }
}

impl Identity {
    /// Reads `AGE-SECRET-KEY-1…`.
    pub fn parse(text: &str) -> Result<Identity, String> {
        if text.starts_with("AGE-PLUGIN-") {
            return Err("identities of age plugins are not supported".to_owned());
        }
        if text.starts_with("AGE-SECRET-KEY-PQ-1") {
            return Err("hybrid post-quantum identities are not supported yet".to_owned());
        }
        if !text.starts_with("AGE-SECRET-KEY-1") {
            return Err("unknown identity type".to_owned());
        }
        let (_, bytes) = bech32::decode(text).ok_or("malformed secret key: invalid checksum")?;
        let secret: [u8; 32] = bytes
            .try_into()
            .map_err(|_| "malformed secret key: invalid length")?;
        Ok(Identity {
            secret,
            public: OnceLock::new(),
        })
    }

    fn public(&self) -> &[u8; 32] {
        self.public
            .get_or_init(|| x25519(self.secret, X25519_BASEPOINT_BYTES))
    }
}

/// Decrypts an armored file with the first identity that fits.
pub fn decrypt(armored: &str, identities: &[Identity], budget: &Budget) -> Result<Vec<u8>, Fault> {
    let file = dearmor(armored)?;
    let header = Header::read(&file)?;
    let file_key = header.file_key(identities, budget)?.ok_or(MISMATCH)?;
    let mac_key = derive(&file_key, b"", b"header").ok_or("bad header key")?;
    hmac::verify(
        &hmac::Key::new(hmac::HMAC_SHA256, &mac_key),
        header.covered,
        &header.mac,
    )
    .map_err(|_| "bad header MAC")?;
    Ok(open_payload(&file_key, header.payload)?)
}

fn dearmor(armored: &str) -> Result<Vec<u8>, String> {
    let wrong = || "failed to read header: parsing age header: invalid armor".to_owned();
    let text = armored.trim();
    let body = text
        .strip_prefix(ARMOR_BEGIN)
        .and_then(|rest| rest.strip_suffix(ARMOR_END))
        .ok_or_else(wrong)?;
    let joined: String = body.split_whitespace().collect();
    STANDARD.decode(joined).map_err(|_| wrong())
}

struct Header<'a> {
    stanzas: Vec<Stanza>,
    /// What the authentication code is over.
    covered: &'a [u8],
    mac: Vec<u8>,
    payload: &'a [u8],
}

/// The file key, encrypted for one recipient.
struct Stanza {
    kind: String,
    arguments: Vec<String>,
    body: Vec<u8>,
}

impl<'a> Header<'a> {
    /// The file key, by the first identity that fits.
    fn file_key(
        &self,
        identities: &[Identity],
        budget: &Budget,
    ) -> Result<Option<Vec<u8>>, Exceeded> {
        for identity in identities {
            for stanza in &self.stanzas {
                budget.check()?;
                if let Some(key) = stanza.unwrap(identity) {
                    return Ok(Some(key));
                }
            }
        }
        Ok(None)
    }

    fn read(file: &'a [u8]) -> Result<Header<'a>, String> {
        let wrong = |what: &str| format!("failed to read header: parsing age header: {what}");
        let mut lines = Lines { file, at: 0 };
        if !file.starts_with(INTRO.as_bytes()) {
            return Err(wrong("unexpected intro"));
        }
        lines.at = INTRO.len();
        let mut stanzas = Vec::new();
        loop {
            let start = lines.at;
            let line = lines.next().ok_or_else(|| wrong("unexpected end"))?;
            if let Some(mac) = line.strip_prefix("--- ") {
                let mac = STANDARD_NO_PAD.decode(mac);
                return Ok(Header {
                    stanzas,
                    covered: &file[..start + 3],
                    mac: mac.map_err(|_| wrong("malformed closing line"))?,
                    payload: &file[lines.at..],
                });
            }
            let opening = line
                .strip_prefix("-> ")
                .ok_or_else(|| wrong("malformed stanza"))?;
            let mut words = opening.split(' ').map(str::to_owned);
            let kind = words.next().unwrap_or_default();
            let arguments = words.collect();
            let mut text = String::new();
            loop {
                let line = lines.next().ok_or_else(|| wrong("unexpected end"))?;
                text.push_str(line);
                if line.len() < 64 {
                    break;
                }
            }
            if stanzas.len() == MAX_STANZAS {
                return Err(wrong("more recipients than SOPS writes"));
            }
            let body = STANDARD_NO_PAD.decode(text);
            stanzas.push(Stanza {
                kind,
                arguments,
                body: body.map_err(|_| wrong("malformed body"))?,
            });
        }
    }
}

struct Lines<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let rest = self.file.get(self.at..)?;
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        self.at += end + 1;
        std::str::from_utf8(&rest[..end]).ok()
    }
}

impl Stanza {
    /// The file key, if the stanza is for this identity.
    fn unwrap(&self, identity: &Identity) -> Option<Vec<u8>> {
        if self.kind != "X25519" || self.body.len() != 32 {
            return None;
        }
        let [share] = self.arguments.as_slice() else {
            return None;
        };
        let share: [u8; 32] = STANDARD_NO_PAD.decode(share).ok()?.try_into().ok()?;
        let shared = x25519(identity.secret, share);
        if shared == [0; 32] {
            return None;
        }
        let salt = [share, *identity.public()].concat();
        let key = derive(&shared, &salt, b"age-encryption.org/v1/X25519")?;
        open(&key, [0; 12], &self.body)
    }
}

fn open_payload(file_key: &[u8], payload: &[u8]) -> Result<Vec<u8>, String> {
    let wrong = || "failed to decrypt and authenticate payload chunk".to_owned();
    let (nonce, sealed) = payload.split_at_checked(16).ok_or_else(wrong)?;
    let key = derive(file_key, nonce, b"payload").ok_or_else(wrong)?;
    let mut plain = Vec::with_capacity(sealed.len());
    let count = sealed.len().div_ceil(CHUNK + TAG);
    for (index, chunk) in sealed.chunks(CHUNK + TAG).enumerate() {
        let mut nonce = [0; 12];
        let counter = u64::try_from(index).map_err(|_| wrong())?;
        nonce[3..11].copy_from_slice(&counter.to_be_bytes());
        nonce[11] = u8::from(index + 1 == count);
        plain.extend(open(&key, nonce, chunk).ok_or_else(wrong)?);
    }
    match count {
        0 => Err(wrong()),
        _ => Ok(plain),
    }
}

fn derive(secret: &[u8], salt: &[u8], info: &[u8]) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    hkdf::Salt::new(hkdf::HKDF_SHA256, salt)
        .extract(secret)
        .expand(&[info], hkdf::HKDF_SHA256)
        .and_then(|okm| okm.fill(&mut key))
        .ok()?;
    Some(key)
}

fn open(key: &[u8; 32], nonce: [u8; 12], sealed: &[u8]) -> Option<Vec<u8>> {
    let key = aead::UnboundKey::new(&aead::CHACHA20_POLY1305, key).ok()?;
    let key = aead::LessSafeKey::new(key);
    let nonce = aead::Nonce::assume_unique_for_key(nonce);
    let mut buffer = sealed.to_vec();
    let plain = key
        .open_in_place(nonce, aead::Aad::empty(), &mut buffer)
        .ok()?;
    Some(plain.to_vec())
}
