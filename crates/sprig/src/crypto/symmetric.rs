//! AES-256 in CBC mode, the way sprig wraps it.

use aes::Aes256;
use aes::cipher::generic_array::GenericArray;
use aes::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit};

use crate::encoding::{base64_decode, base64_encode};
use crate::source::Source;

const BLOCK: usize = 16;

/// The first 32 bytes of the password, filled up with zeros.
fn key(password: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    let len = password.len().min(32);
    key[..len].copy_from_slice(&password[..len]);
    key
}

/// Encrypts a text; nothing stays nothing.
pub(crate) fn encrypt(password: &[u8], text: &[u8], source: &mut dyn Source) -> String {
    if text.is_empty() {
        return String::new();
    }
    let mut iv = [0; BLOCK];
    source.fill(&mut iv);
    let padding = BLOCK - text.len() % BLOCK;
    let mut content = text.to_vec();
    content.resize(text.len() + padding, padding as u8);
    let mut cipher = cbc::Encryptor::<Aes256>::new(&key(password).into(), &iv.into());
    for block in content.chunks_exact_mut(BLOCK) {
        cipher.encrypt_block_mut(GenericArray::from_mut_slice(block));
    }
    base64_encode(&[iv.as_slice(), &content].concat())
}

/// Decrypts what [`encrypt`] made. With a wrong password the padding rarely fits; the complaint
/// is then that of the slice expression in the original.
pub(crate) fn decrypt(password: &[u8], encrypted: &[u8]) -> Result<Vec<u8>, String> {
    if encrypted.is_empty() {
        return Ok(Vec::new());
    }
    let bytes = base64_decode(encrypted)?;
    let Some((iv, content)) = bytes.split_at_checked(BLOCK) else {
        // The capacity is that of the buffer which was sized by the encoded text.
        let capacity = encrypted.len() / 4 * 3;
        return Err(format!(
            "runtime error: slice bounds out of range [:{BLOCK}] with capacity {capacity}"
        ));
    };
    if content.len() % BLOCK != 0 {
        return Err("crypto/cipher: input not full blocks".to_owned());
    }
    let mut content = content.to_vec();
    let mut cipher =
        cbc::Decryptor::<Aes256>::new(&key(password).into(), GenericArray::from_slice(iv));
    for block in content.chunks_exact_mut(BLOCK) {
        cipher.decrypt_block_mut(GenericArray::from_mut_slice(block));
    }
    let Some(&padding) = content.last() else {
        return Err("runtime error: index out of range [-1]".to_owned());
    };
    let kept = content.len() as i64 - i64::from(padding);
    match usize::try_from(kept) {
        Ok(kept) => {
            content.truncate(kept);
            Ok(content)
        }
        Err(_) => Err(format!(
            "runtime error: slice bounds out of range [:{kept}]"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::FixedSource;

    #[test]
    fn encrypted_text_decrypts_to_the_original() {
        let mut source = FixedSource::new(0, 0, 1);
        let encrypted = encrypt(b"secretkey", b"plaintext", &mut source);
        assert_eq!(
            decrypt(b"secretkey", encrypted.as_bytes()),
            Ok(b"plaintext".to_vec())
        );
        assert_eq!(encrypt(b"k", b"", &mut source), "");
        assert!(
            decrypt(b"k", b"YWJj")
                .unwrap_err()
                .ends_with("[:16] with capacity 3")
        );
    }
}
