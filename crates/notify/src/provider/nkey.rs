//! Keys of NATS: Ed25519, written in base 32 with a prefix and a checksum.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use crate::Secret;

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const SEED: u8 = 18 << 3;
const SEED_LENGTH: usize = 32;

/// A key pair.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct KeyPair {
    /// Whose key it is: a user's, an account's.
    prefix: u8,
    seed: Secret<Vec<u8>>,
    public: Vec<u8>,
}

impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.public_key())
    }
}

impl KeyPair {
    /// Reads a seed.
    pub(super) fn from_seed(text: &str) -> Result<Self, String> {
        let raw = decode(text)?;
        let (content, checksum) = match raw.len() {
            0..4 => return Err("nkeys: invalid encoded key".to_owned()),
            length => raw.split_at(length - 2),
        };
        if crc16(content).to_le_bytes() != checksum {
            return Err("nkeys: invalid checksum".to_owned());
        }
        if content[0] & 0xf8 != SEED {
            return Err("nkeys: invalid seed".to_owned());
        }
        let prefix = (content[0] & 7) << 5 | (content[1] & 0xf8) >> 3;
        let seed = &content[2..];
        if seed.len() != SEED_LENGTH {
            return Err("nkeys: invalid seed length".to_owned());
        }
        let pair = Ed25519KeyPair::from_seed_unchecked(seed)
            .map_err(|_| "nkeys: invalid seed".to_owned())?;
        Ok(KeyPair {
            prefix,
            seed: Secret::new(seed.to_vec()),
            public: pair.public_key().as_ref().to_vec(),
        })
    }

    pub(super) fn public_key(&self) -> String {
        let mut raw = vec![self.prefix];
        raw.extend(&self.public);
        raw.extend(crc16(&raw).to_le_bytes());
        encode(&raw)
    }

    /// The signature of a nonce, as it is sent.
    pub(super) fn sign(&self, nonce: &str) -> String {
        let pair = Ed25519KeyPair::from_seed_unchecked(self.seed.reveal());
        pair.map(|pair| URL_SAFE_NO_PAD.encode(pair.sign(nonce.as_bytes())))
            .unwrap_or_default()
    }
}

fn encode(bytes: &[u8]) -> String {
    let mut out = String::new();
    let (mut buffer, mut bits) = (0_u32, 0);
    for byte in bytes {
        buffer = buffer << 8 | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            out.push(char::from(ALPHABET[(buffer >> bits) as usize & 31]));
        }
    }
    if bits > 0 {
        out.push(char::from(ALPHABET[(buffer << (5 - bits)) as usize & 31]));
    }
    out
}

fn decode(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let (mut buffer, mut bits) = (0_u32, 0);
    for (at, byte) in text.bytes().enumerate() {
        let digit = ALPHABET.iter().position(|letter| *letter == byte);
        let digit = digit.ok_or_else(|| format!("illegal base32 data at input byte {at}"))?;
        buffer = (buffer & 0xff) << 5 | digit as u32;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            out.push((buffer >> bits) as u8);
        }
    }
    Ok(out)
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc: u16, _| {
            match crc & 0x8000 {
                0 => crc << 1,
                _ => crc << 1 ^ 0x1021,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_seed_gives_its_public_key() {
        let pair = KeyPair::from_seed("SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY")
            .unwrap();
        assert_eq!(
            pair.public_key(),
            "UAT6BWCSCWLUKJT6K6MBJJOEOTXZ5AJDOYKNEVRFC7VNO6OA43N4TRNO"
        );
    }

    #[test]
    fn invalid_nkey_seeds_are_refused() {
        for (text, why) in [
            ("nope", "illegal base32 data at input byte 0"),
            ("", "nkeys: invalid encoded key"),
            (
                "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GA",
                "nkeys: invalid checksum",
            ),
        ] {
            assert_eq!(KeyPair::from_seed(text).unwrap_err(), why);
        }
    }

    proptest! {
        #[test]
        fn base_32_is_reversible(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(decode(&encode(&bytes)), Ok(bytes));
        }

        #[test]
        fn any_text_is_a_seed_or_refused(text in "[A-Z2-7]{0,70}") {
            let _ = KeyPair::from_seed(&text);
        }
    }
}
