//! Signatures over bodies, and tokens, compared without telling by the time it takes how much of them was right.

use ring::hmac;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Checks a signature of the form `ALGORITHM=HEX`.
pub(super) fn verify(signature: &str, body: &[u8], key: &[u8]) -> Result<(), String> {
    if signature.is_empty() {
        return Err("missing signature".to_owned());
    }
    let Some((name, digits)) = signature.split_once('=') else {
        return Err("the signature is not of the form ALGORITHM=HEX".to_owned());
    };
    let algorithm = match name {
        "sha1" => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        "sha256" => hmac::HMAC_SHA256,
        "sha512" => hmac::HMAC_SHA512,
        _ => {
            return Err(
                "unknown algorithm of the signature: use sha1, sha256 or sha512".to_owned(),
            );
        }
    };
    let expected = unhex(digits).ok_or("the signature is not hexadecimal")?;
    let key = hmac::Key::new(algorithm, key);
    hmac::verify(&key, body, &expected).map_err(|_| "payload signature check failed".to_owned())
}

/// Whether a text is the lower-case hexadecimal HMAC-SHA1 of a body.
pub(super) fn is_sha1(text: &str, body: &[u8], key: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key);
    let lower = text
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let expected = unhex(text).filter(|_| lower);
    expected.is_some_and(|expected| hmac::verify(&key, body, &expected).is_ok())
}

/// Whether two tokens are the same. Their digests are compared, so that their lengths are not told either.
pub(super) fn is_same(left: &[u8], right: &[u8]) -> bool {
    let [left, right] = [left, right].map(Sha256::digest);
    left.as_slice().ct_eq(right.as_slice()).into()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn signatures_of_all_algorithms_are_checked() {
        // echo -n body | openssl dgst -hmac key
        let sha256 = "sha256=f39bc8f87ef0da8b1d34ce4bd49ba01fdedcbea4bb1d0cdf4a2a2cd8e1d94d79";
        let wrong = verify(sha256, b"body", b"key").unwrap_err();
        assert_eq!(wrong, "payload signature check failed");
        for algorithm in [
            hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            hmac::HMAC_SHA256,
            hmac::HMAC_SHA512,
        ] {
            let tag = hmac::sign(&hmac::Key::new(algorithm, b"key"), b"body");
            let name = match tag.as_ref().len() {
                20 => "sha1",
                32 => "sha256",
                _ => "sha512",
            };
            let digits = crate::provider::hex(tag.as_ref());
            assert_eq!(verify(&format!("{name}={digits}"), b"body", b"key"), Ok(()));
            assert_eq!(
                verify(
                    &format!("{name}={}", digits.to_uppercase()),
                    b"body",
                    b"key"
                ),
                Ok(())
            );
            assert!(verify(&format!("{name}={digits}"), b"body!", b"key").is_err());
        }
    }

    #[test]
    fn tokens_are_the_same_or_not() {
        assert!(is_same(b"", b"") && is_same(b"abc", b"abc"));
        assert!(!is_same(b"abc", b"abcd") && !is_same(b"abc", b"abd"));
    }

    proptest! {
        #[test]
        fn any_signature_is_taken_without_panic(text in "\\PC{0,80}", body in prop::collection::vec(any::<u8>(), 0..20)) {
            prop_assert!(verify(&text, &body, b"key").is_err());
            prop_assert!(!is_sha1(&text, &body, b"key"));
        }
    }
}
