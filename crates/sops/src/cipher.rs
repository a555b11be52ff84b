//! Single encrypted values: `ENC[AES256_GCM,data:…,iv:…,tag:…,type:…]`.

use aes_gcm::aead::consts::{U12, U16, U32};
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::aes::Aes256;
use aes_gcm::{AesGcm, Nonce};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::time_text;
use crate::tree::Tree;

/// What a value decrypts to.
#[derive(Debug, PartialEq)]
pub enum Plain {
    Value(Tree),
    Comment(String),
}

/// Decrypts a value that stands at a path. An empty text is itself.
pub fn decrypt(text: &str, key: &[u8], path: &str) -> Result<Plain, String> {
    if text.is_empty() {
        return Ok(Plain::Value(Tree::Text(String::new())));
    }
    let parts = Parts::read(text)
        // What does not have the form may be a secret that was never encrypted.
        .ok_or("Input string <redacted> does not match sops' data format")?;
    let decode = |what: &str, text: &str| {
        STANDARD
            .decode(text)
            .map_err(|error| format!("Error base64-decoding {what}: {error}"))
    };
    let mut sealed = decode("data", parts.data)?;
    let nonce = decode("iv", parts.iv)?;
    sealed.extend(decode("tag", parts.tag)?);
    let bytes = open(key, &nonce, &sealed, path.as_bytes())?;
    typed(bytes, parts.kind)
}

struct Parts<'a> {
    data: &'a str,
    iv: &'a str,
    tag: &'a str,
    kind: &'a str,
}

impl<'a> Parts<'a> {
    fn read(text: &'a str) -> Option<Parts<'a>> {
        let rest = text.strip_prefix("ENC[AES256_GCM,data:")?;
        let rest = &rest[..rest.rfind(']')?];
        let (rest, kind) = rest.rsplit_once(",type:")?;
        let (rest, tag) = rest.rsplit_once(",tag:")?;
        let (data, iv) = rest.rsplit_once(",iv:")?;
        let given = [data, iv, tag, kind].iter().all(|part| !part.is_empty());
        given.then_some(Parts {
            data,
            iv,
            tag,
            kind,
        })
    }
}

fn open(key: &[u8], nonce: &[u8], sealed: &[u8], path: &[u8]) -> Result<Vec<u8>, String> {
    if key.len() != 32 {
        return Err(format!("crypto/aes: invalid key size {}", key.len()));
    }
    let payload = Payload {
        msg: sealed,
        aad: path,
    };
    let opened = match nonce.len() {
        32 => AesGcm::<Aes256, U32>::new_from_slice(key)
            .ok()
            .and_then(|cipher| cipher.decrypt(Nonce::from_slice(nonce), payload).ok()),
        16 => AesGcm::<Aes256, U16>::new_from_slice(key)
            .ok()
            .and_then(|cipher| cipher.decrypt(Nonce::from_slice(nonce), payload).ok()),
        12 => AesGcm::<Aes256, U12>::new_from_slice(key)
            .ok()
            .and_then(|cipher| cipher.decrypt(Nonce::from_slice(nonce), payload).ok()),
        length => return Err(format!("a nonce of {length} bytes is not supported")),
    };
    opened.ok_or_else(|| {
        "Could not decrypt with AES_GCM: cipher: message authentication failed".to_owned()
    })
}

fn typed(bytes: Vec<u8>, kind: &str) -> Result<Plain, String> {
    let wrong = || format!("the value is not of its type {kind}");
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).ok();
    Ok(Plain::Value(match kind {
        "str" => Tree::of_bytes(bytes),
        "bytes" => Tree::of_bytes(bytes),
        "int" => {
            let number = text(&bytes).and_then(|text| text.parse().ok());
            Tree::Int(number.ok_or_else(wrong)?)
        }
        "float" => {
            let number = text(&bytes).and_then(|text| text.parse().ok());
            Tree::Float(number.ok_or_else(wrong)?)
        }
        "bool" => match bytes.as_slice() {
            b"1" | b"t" | b"T" | b"true" | b"TRUE" | b"True" => Tree::Bool(true),
            b"0" | b"f" | b"F" | b"false" | b"FALSE" | b"False" => Tree::Bool(false),
            _ => return Err(wrong()),
        },
        "time" => {
            let moment = text(&bytes).and_then(|text| time_text::normal_form(&text));
            Tree::Time(moment.ok_or_else(wrong)?)
        }
        "comment" => return Ok(Plain::Comment(String::from_utf8_lossy(&bytes).into_owned())),
        other => return Err(format!("Unknown datatype: {other}")),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unencrypted_value_is_not_shown_in_the_error() {
        let error = decrypt("hunter2", &[0; 32], "a:").unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
        assert_eq!(
            decrypt("", &[0; 32], "a:"),
            Ok(Plain::Value(Tree::Text(String::new())))
        );
    }

    #[test]
    fn a_wrong_key_is_noticed() {
        let text = "ENC[AES256_GCM,data:FQQSac8=,iv:1TrdYymTuXRUPQWGYYUs2ph+CtKPajPlw7z7RkkPVC0=,tag:w0+HgiKotPi0fWdjZ20Trw==,type:str]";
        let error = decrypt(text, &[0; 32], "stringData:user:").unwrap_err();
        assert!(error.contains("message authentication failed"), "{error}");
    }
}
