//! Base64 and base32 with Go's complaints.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Standard base64.
pub(crate) fn base64_encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads standard base64, skipping line breaks; the error is Go's.
pub(crate) fn base64_decode(text: &[u8]) -> Result<Vec<u8>, String> {
    decode_base64(text).map_err(|at| format!("illegal base64 data at input byte {at}"))
}

fn decode_base64(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut at = 0;
    loop {
        let mut group = [0u8; 4];
        let mut filled = 0;
        while filled < 4 {
            let Some(&byte) = text.get(at) else {
                return if filled == 0 {
                    Ok(out)
                } else {
                    Err(at - filled)
                };
            };
            at += 1;
            if let Some(value) = base64_value(byte) {
                group[filled] = value;
                filled += 1;
            } else if byte == b'=' {
                check_padding(text, at, filled)?;
                append(&mut out, group, filled);
                return Ok(out);
            } else if !matches!(byte, b'\n' | b'\r') {
                return Err(at - 1);
            }
        }
        append(&mut out, group, 4);
    }
}

/// Checks what follows the first padding character, which must end the text.
fn check_padding(text: &[u8], mut at: usize, filled: usize) -> Result<(), usize> {
    let skip_breaks = |mut at: usize| {
        while matches!(text.get(at), Some(b'\n' | b'\r')) {
            at += 1;
        }
        at
    };
    match filled {
        0 | 1 => return Err(at - 1),
        2 => {
            at = skip_breaks(at);
            match text.get(at) {
                None => return Err(text.len()),
                Some(b'=') => at += 1,
                Some(_) => return Err(at - 1),
            }
        }
        _ => {}
    }
    at = skip_breaks(at);
    if at < text.len() { Err(at) } else { Ok(()) }
}

fn append(out: &mut Vec<u8>, group: [u8; 4], filled: usize) {
    let bits = group
        .iter()
        .fold(0u32, |bits, &value| bits << 6 | u32::from(value));
    let bytes = bits.to_be_bytes();
    out.extend_from_slice(&bytes[1..filled.max(1)]);
}

fn base64_value(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Standard base32.
pub(crate) fn base32_encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(5) * 8);
    for chunk in bytes.chunks(5) {
        let mut group = [0u8; 8];
        group[3..3 + chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_be_bytes(group);
        let used = (chunk.len() * 8).div_ceil(5);
        for index in 0..8 {
            let value = (bits >> (35 - 5 * index)) & 31;
            out.push(if index < used {
                char::from(BASE32[value as usize])
            } else {
                '='
            });
        }
    }
    out
}

/// Reads standard base32, skipping line breaks; the error is Go's.
pub(crate) fn base32_decode(text: &[u8]) -> Result<Vec<u8>, String> {
    let text: Vec<u8> = text
        .iter()
        .copied()
        .filter(|b| !matches!(b, b'\n' | b'\r'))
        .collect();
    decode_base32(&text).map_err(|at| format!("illegal base32 data at input byte {at}"))
}

fn decode_base32(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 8 * 5);
    let mut at = 0;
    let mut ended = false;
    while at < text.len() && !ended {
        let mut bits: u64 = 0;
        let mut filled = 0;
        while filled < 8 {
            let Some(&byte) = text.get(at) else {
                return Err(at - filled);
            };
            at += 1;
            let left = text.len() - at;
            if byte == b'=' && filled >= 2 && left < 8 {
                check_base32_padding(text, at, filled)?;
                ended = true;
                break;
            }
            let value = BASE32.iter().position(|&b| b == byte).ok_or(at - 1)?;
            bits = bits << 5 | value as u64;
            filled += 1;
        }
        let bytes = (bits << (5 * (8 - filled))).to_be_bytes();
        out.extend_from_slice(&bytes[3..3 + filled * 5 / 8]);
    }
    Ok(out)
}

fn check_base32_padding(text: &[u8], at: usize, filled: usize) -> Result<(), usize> {
    let rest = &text[at..];
    if rest.len() + filled < 7 {
        return Err(text.len());
    }
    if let Some(index) = rest.iter().take(7 - filled).position(|&b| b != b'=') {
        return Err((at + index).saturating_sub(1));
    }
    if matches!(filled, 1 | 3 | 6) {
        return Err(at - 1);
    }
    Ok(())
}

/// Lower case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        for len in 0..20 {
            let bytes: Vec<u8> = (0..len).map(|n: u8| n.wrapping_mul(37)).collect();
            assert_eq!(
                base64_decode(base64_encode(&bytes).as_bytes()),
                Ok(bytes.clone())
            );
            assert_eq!(base32_decode(base32_encode(&bytes).as_bytes()), Ok(bytes));
        }
    }

    #[test]
    fn error_messages_name_the_byte() {
        for (text, at) in [
            ("!!!", 0),
            ("hello", 4),
            ("Hello World", 5),
            ("YQ=", 3),
            ("YQ==x", 4),
        ] {
            let wanted = format!("illegal base64 data at input byte {at}");
            assert_eq!(base64_decode(text.as_bytes()), Err(wanted));
        }
        assert!(base32_decode(b"M").unwrap_err().contains("byte 0"));
    }
}
