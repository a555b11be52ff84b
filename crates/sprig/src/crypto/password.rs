//! Password hashes and derived passwords.

use blowfish::Blowfish;
use everflow_gotemplate::{FuncError, Meter};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::source::Source;

const COST: u32 = 10;
/// How long a round of bcrypt takes.
const STEPS_OF_A_ROUND: u64 = 300;
/// How long it takes to derive a password, and what it needs.
const STEPS_OF_SCRYPT: u64 = 500_000;
const BYTES_OF_SCRYPT: usize = 33 << 20;
const BCRYPT_ALPHABET: &[u8; 64] =
    b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// A bcrypt hash with a random salt.
pub(crate) fn bcrypt(
    password: &[u8],
    source: &mut dyn Source,
    meter: &Meter<'_>,
) -> Result<String, FuncError> {
    if password.len() > 72 {
        let told = "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes";
        return Ok(told.to_owned());
    }
    let mut salt = [0; 16];
    source.fill(&mut salt);
    hash(password, &salt, meter)
}

fn hash(password: &[u8], salt: &[u8; 16], meter: &Meter<'_>) -> Result<String, FuncError> {
    let key = [password, &[0]].concat();
    let mut state = Blowfish::<byteorder::BE>::bc_init_state();
    state.salted_expand_key(salt, &key);
    for _ in 0..1u32 << COST {
        meter.steps(STEPS_OF_A_ROUND)?;
        state.bc_expand_key(&key);
        state.bc_expand_key(salt);
    }
    let mut words = [0u32; 6];
    for (word, bytes) in words
        .iter_mut()
        .zip(b"OrpheanBeholderScryDoubt".chunks_exact(4))
    {
        *word = bytes
            .iter()
            .fold(0, |word, &byte| word << 8 | u32::from(byte));
    }
    for pair in words.chunks_exact_mut(2) {
        for _ in 0..64 {
            let encrypted = state.bc_encrypt([pair[0], pair[1]]);
            pair.copy_from_slice(&encrypted);
        }
    }
    let digest: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let (salt, digest) = (encode(salt), encode(&digest[..23]));
    Ok(format!("$2a${COST:02}${salt}{digest}"))
}

/// Bcrypt's own base64.
fn encode(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let mut bits: u32 = 0;
        for index in 0..3 {
            bits = bits << 8 | u32::from(chunk.get(index).copied().unwrap_or_default());
        }
        for index in 0..=chunk.len() {
            let value = (bits >> (18 - 6 * index)) & 63;
            out.push(char::from(BCRYPT_ALPHABET[value as usize]));
        }
    }
    out
}

const SEED: &[u8] = b"com.lyndir.masterpassword";

/// Patterns of the kinds of passwords; each letter stands for a set of characters.
fn patterns(kind: &[u8]) -> Option<&'static [&'static str]> {
    Some(match kind {
        b"maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        b"long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        b"medium" => &["CvcnoCvc", "CvcCvcno"],
        b"short" => &["Cvcn"],
        b"basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        b"pin" => &["nnnn"],
        _ => return None,
    })
}

fn characters(letter: u8) -> &'static [u8] {
    match letter {
        b'V' => b"AEIOU",
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'A' => b"AEIOUBCDFGHJKLMNPQRSTVWXYZ",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

/// The password of the master password algorithm for a site. Problems are told in its place.
pub(crate) fn derive(
    counter: u32,
    kind: &[u8],
    password: &[u8],
    user: &[u8],
    site: &[u8],
    meter: &Meter<'_>,
) -> Result<Vec<u8>, FuncError> {
    let Some(patterns) = patterns(kind) else {
        return Ok([b"cannot find password template ", kind].concat());
    };
    meter.steps(STEPS_OF_SCRYPT)?;
    let _held = meter.hold(BYTES_OF_SCRYPT)?;
    let length = |text: &[u8]| (text.len() as u32).to_be_bytes();
    let salt = [SEED, &length(user), user].concat();
    let mut key = [0; 64];
    let derived = scrypt::Params::new(15, 8, 2, 64)
        .map_err(|error| error.to_string())
        .and_then(|params| {
            scrypt::scrypt(password, &salt, &params, &mut key).map_err(|error| error.to_string())
        });
    if let Err(error) = derived {
        return Ok(format!("failed to derive password: {error}").into_bytes());
    }
    let message = [SEED, &length(site), site, &counter.to_be_bytes()].concat();
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else {
        return Ok(Vec::new());
    };
    mac.update(&message);
    let seed = mac.finalize().into_bytes();
    let pattern = patterns[usize::from(seed[0]) % patterns.len()];
    let letters = pattern.bytes().zip(seed.iter().skip(1));
    Ok(letters
        .map(|(letter, &byte)| {
            let set = characters(letter);
            set[usize::from(byte) % set.len()]
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use everflow_gotemplate::Limits;
    use everflow_limits::Budget;

    use super::*;

    #[test]
    fn known_hash() {
        let budget = Budget::unlimited();
        let meter = Meter::new(&Limits::default(), &budget);
        // Checked with golang.org/x/crypto/bcrypt.
        let hash = hash(
            b"allmine",
            b"\x71\xd7\x9f\x82\x18\xa3\x92\x59\xa7\xa2\x9a\xab\xb2\xdb\xaf\xc3",
            &meter,
        );
        assert_eq!(
            hash.unwrap(),
            "$2a$10$abcdefghijklmnopqrstuuRXn.H.TK1Zm6/NWJvZciW7xqpK0ZRuy"
        );
    }
}
