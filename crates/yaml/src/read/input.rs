//! From bytes to text: encodings, forbidden characters, and when Go would notice them.
//!
//! Go reads its input in blocks of 512 bytes and finds a bad byte when it decodes the block, which
//! may be long before the scanner comes to it and may be never. So the text ends where the block
//! with the bad byte begins, and the error waits there.

use crate::error::Error;
use std::borrow::Cow;

const BLOCK: usize = 512;

/// Text that the scanner can trust, and what waits at its end.
pub(crate) struct Input<'a> {
    pub(crate) text: Cow<'a, str>,
    /// The error to report when the scanner reaches the end of the text.
    pub(crate) at_end: Option<Error>,
    /// Some characters have more than one byte.
    pub(crate) multibyte: bool,
}

struct BadByte {
    problem: &'static str,
    /// Where it is.
    offset: usize,
    /// Go notices it only when it needs the characters after the last good one.
    late: bool,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        match bytes {
            [0xFF, 0xFE, ..] => from_utf16(bytes, u16::from_le_bytes),
            [0xFE, 0xFF, ..] => from_utf16(bytes, u16::from_be_bytes),
            _ => from_utf8(bytes),
        }
    }
}

fn from_utf8(bytes: &[u8]) -> Input<'_> {
    let start = if bytes.starts_with(b"\xEF\xBB\xBF") {
        3
    } else {
        0
    };
    let body = &bytes[start..];
    let (clean, ascii) = survey(body);
    if ascii && clean {
        // Every byte is printable ASCII, so this cannot fail.
        if let Ok(text) = std::str::from_utf8(body) {
            return whole(text, false);
        }
    }
    let (text, broken) = match std::str::from_utf8(body) {
        Ok(text) => (text, None),
        Err(error) => {
            let good = error.valid_up_to();
            let text = std::str::from_utf8(&body[..good]).unwrap_or_default();
            (text, Some(broken_sequence(&body[good..], good)))
        }
    };
    let bad = forbidden_character(text).or(broken);
    let Some(bad) = bad else {
        return whole(text, !ascii);
    };
    let end = if bad.late {
        bad.offset
    } else {
        block_start(bytes, start + bad.offset).saturating_sub(start)
    };
    Input {
        text: Cow::Borrowed(text.get(..end).unwrap_or_default()),
        at_end: Some(Error::Encoding {
            problem: bad.problem,
            offset: start + bad.offset,
        }),
        multibyte: !ascii,
    }
}

fn whole(text: &str, multibyte: bool) -> Input<'_> {
    Input {
        text: Cow::Borrowed(text),
        at_end: None,
        multibyte,
    }
}

/// (no forbidden ASCII byte, all bytes are ASCII); written so that the compiler vectorizes it.
fn survey(bytes: &[u8]) -> (bool, bool) {
    let mut forbidden = false;
    let mut high = 0u8;
    for chunk in bytes.chunks(64) {
        let mut bad = 0u8;
        for &byte in chunk {
            let control = (byte < 0x20) as u8;
            let allowed = (byte == b'\t') as u8 | (byte == b'\n') as u8 | (byte == b'\r') as u8;
            bad |= (control & (1 - allowed)) | (byte == 0x7F) as u8;
            high |= byte;
        }
        forbidden |= bad != 0;
    }
    (!forbidden, high < 0x80)
}

fn forbidden_character(text: &str) -> Option<BadByte> {
    let (offset, _) = text.char_indices().find(|&(_, c)| {
        !matches!(c,
            '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{D7FF}'
            | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..='\u{10FFFF}')
    })?;
    Some(BadByte {
        problem: "control characters are not allowed",
        offset,
        late: false,
    })
}

/// Go's name for what is wrong with bytes that are not UTF-8.
fn broken_sequence(rest: &[u8], offset: usize) -> BadByte {
    let bad = |problem, late| BadByte {
        problem,
        offset,
        late,
    };
    let width = super::chars::width(rest[0]);
    if width == 0 {
        return bad("invalid leading UTF-8 octet", false);
    }
    if width > rest.len() {
        return bad("incomplete UTF-8 octet sequence", true);
    }
    let mut value = u32::from(rest[0]) & (0x7F >> width);
    for &byte in &rest[1..width] {
        if byte & 0xC0 != 0x80 {
            return bad("invalid trailing UTF-8 octet", false);
        }
        value = (value << 6) | u32::from(byte & 0x3F);
    }
    let shortest = [0, 0, 0x80, 0x800, 0x10000];
    if value < shortest[width] {
        return bad("invalid length of a UTF-8 sequence", false);
    }
    bad("invalid Unicode character", false)
}

/// Where the block begins in which Go decodes the byte at `offset`. A character that does not fit
/// its block moves to the next one.
fn block_start(bytes: &[u8], offset: usize) -> usize {
    let mut start = 0;
    loop {
        let mut next = start + BLOCK;
        if next > offset + 3 || next >= bytes.len() {
            return start;
        }
        while next > start && bytes[next] & 0xC0 == 0x80 {
            next -= 1;
        }
        if next > offset || next == start {
            return start;
        }
        start = next;
    }
}

fn from_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Input<'static> {
    let mut text = String::with_capacity(bytes.len());
    // Where each block begins, in the text.
    let mut block = (2, 0);
    let mut at = 2;
    let mut bad = None;
    while at < bytes.len() {
        if at - (block.0 & !(BLOCK - 1)) >= BLOCK {
            block = (at, text.len());
        }
        match utf16_character(&bytes[at..], unit) {
            Ok((c, width)) => {
                text.push(c);
                at += width;
            }
            Err((problem, late)) => {
                bad = Some((problem, late));
                break;
            }
        }
    }
    let multibyte = !text.is_ascii();
    let Some((problem, late)) = bad else {
        return Input {
            text: Cow::Owned(text),
            at_end: None,
            multibyte,
        };
    };
    if !late {
        text.truncate(block.1);
    }
    Input {
        text: Cow::Owned(text),
        at_end: Some(Error::Encoding {
            problem,
            offset: at,
        }),
        multibyte,
    }
}

fn utf16_character(
    rest: &[u8],
    unit: fn([u8; 2]) -> u16,
) -> Result<(char, usize), (&'static str, bool)> {
    let unit_at = |index: usize| match rest.get(index..index + 2) {
        Some(&[a, b]) => Some(u32::from(unit([a, b]))),
        _ => None,
    };
    let first = unit_at(0).ok_or(("incomplete UTF-16 character", true))?;
    let (value, width) = match first & 0xFC00 {
        0xDC00 => return Err(("unexpected low surrogate area", false)),
        0xD800 => {
            let second = unit_at(2).ok_or(("incomplete UTF-16 surrogate pair", true))?;
            if second & 0xFC00 != 0xDC00 {
                return Err(("expected low surrogate area", false));
            }
            (0x10000 + ((first & 0x3FF) << 10) + (second & 0x3FF), 4)
        }
        _ => (first, 2),
    };
    let allowed = matches!(value,
        0x09 | 0x0A | 0x0D | 0x20..=0x7E | 0x85 | 0xA0..=0xD7FF | 0xE000..=0xFFFD
        | 0x10000..=0x10FFFF);
    match char::from_u32(value) {
        Some(c) if allowed => Ok((c, width)),
        _ => Err(("control characters are not allowed", false)),
    }
}
