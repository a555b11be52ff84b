//! Bech32, in which age writes its keys.

const ALPHABET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const GENERATOR: [u32; 5] = [
    0x3b6a_57b2,
    0x2650_8e6d,
    0x1ea1_19fa,
    0x3d42_33dd,
    0x2a14_62b3,
];

/// The prefix in lower case, and the bytes.
pub fn decode(text: &str) -> Option<(String, Vec<u8>)> {
    let is_mixed = text.bytes().any(|b| b.is_ascii_lowercase())
        && text.bytes().any(|b| b.is_ascii_uppercase());
    if is_mixed || !text.is_ascii() {
        return None;
    }
    let text = text.to_ascii_lowercase();
    let (prefix, data) = text.rsplit_once('1')?;
    let mut values = Vec::with_capacity(data.len());
    for byte in data.bytes() {
        let value = ALPHABET.iter().position(|letter| *letter == byte)?;
        values.push(u8::try_from(value).ok()?);
    }
    if prefix.is_empty() || values.len() < 6 || !is_consistent(prefix, &values) {
        return None;
    }
    values.truncate(values.len() - 6);
    Some((prefix.to_owned(), to_bytes(&values)?))
}

fn is_consistent(prefix: &str, values: &[u8]) -> bool {
    let high = prefix.bytes().map(|byte| byte >> 5);
    let low = prefix.bytes().map(|byte| byte & 31);
    let all = high.chain([0]).chain(low).chain(values.iter().copied());
    let mut sum: u32 = 1;
    for value in all {
        let top = sum >> 25;
        sum = (sum & 0x01ff_ffff) << 5 ^ u32::from(value);
        for (bit, generator) in GENERATOR.iter().enumerate() {
            if top >> bit & 1 == 1 {
                sum ^= generator;
            }
        }
    }
    sum == 1
}

/// Groups of five bits to bytes; what is left over must be zero.
fn to_bytes(values: &[u8]) -> Option<Vec<u8>> {
    let (mut pool, mut bits) = (0u32, 0u32);
    let mut bytes = Vec::with_capacity(values.len() * 5 / 8);
    for value in values {
        pool = pool << 5 | u32::from(*value);
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(pool >> bits & 0xff).ok()?);
        }
        pool &= (1 << bits) - 1;
    }
    (bits < 5 && pool == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_typing_errors_noticed() {
        let key = "AGE-SECRET-KEY-1ZCRAPNUP0GEU4YN7UNE4YUYQEKHC8KPTU59QK95X3MPEUHT62SEQMNZY63";
        let (prefix, bytes) = decode(key).unwrap();
        assert_eq!((prefix.as_str(), bytes.len()), ("age-secret-key-", 32));
        assert!(decode(&key.replace("ZCRA", "ZCRQ")).is_none());
        assert!(decode(&key.replace("ZCRA", "zcra")).is_none());
        assert!(decode("").is_none());
    }
}
