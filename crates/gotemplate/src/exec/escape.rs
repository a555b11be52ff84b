//! `html`, `js` and `urlquery`.

use crate::gofmt::{RUNE_ERROR, decode_rune, is_print};
use crate::text::GoStr;

pub(super) fn html(text: &GoStr) -> GoStr {
    let escaped = |byte: &u8| matches!(byte, b'"' | b'\'' | b'&' | b'<' | b'>' | 0);
    if !text.as_bytes().iter().any(escaped) {
        return text.clone();
    }
    let mut out = Vec::with_capacity(text.len() + 16);
    for &byte in text.as_bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"&#34;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            0 => out.extend_from_slice("\u{FFFD}".as_bytes()),
            _ => out.push(byte),
        }
    }
    GoStr::from_vec(out)
}

pub(super) fn js(text: &GoStr) -> GoStr {
    let mut out = Vec::with_capacity(text.len() + 16);
    let mut rest = text.as_bytes();
    while let Some(&byte) = rest.first() {
        let (rune, width) = decode_rune(rest);
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\'' => out.extend_from_slice(b"\\'"),
            b'"' => out.extend_from_slice(b"\\\""),
            b'<' => out.extend_from_slice(b"\\u003C"),
            b'>' => out.extend_from_slice(b"\\u003E"),
            b'&' => out.extend_from_slice(b"\\u0026"),
            b'=' => out.extend_from_slice(b"\\u003D"),
            0..0x20 => out.extend_from_slice(format!("\\u00{byte:02X}").as_bytes()),
            0x20..0x80 => out.push(byte),
            // Bytes that are not UTF-8 decode to U+FFFD, which is printable: they pass as they are.
            _ if is_print(rune) || rune == RUNE_ERROR => out.extend_from_slice(&rest[..width]),
            _ => out.extend_from_slice(format!("\\u{rune:04X}").as_bytes()),
        }
        rest = &rest[width..];
    }
    GoStr::from_vec(out)
}

pub(super) fn url_query(text: &GoStr) -> GoStr {
    let mut out = Vec::with_capacity(text.len() + 16);
    for &byte in text.as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte),
            b' ' => out.push(b'+'),
            _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    GoStr::from_vec(out)
}
