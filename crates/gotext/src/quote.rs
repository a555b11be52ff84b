//! Go's quoted strings and characters, in both directions.

use crate::unicode_tables::{DIGIT, LETTER, PRINT};

/// Go's replacement for bytes that are not UTF-8.
pub const RUNE_ERROR: u32 = 0xFFFD;

/// The highest code point.
pub const MAX_RUNE: u32 = 0x10_FFFF;

/// Decodes one character as Go does: the code point and how many bytes it takes. Bytes that are
/// not UTF-8 count as one replacement character each.
pub fn decode_rune(bytes: &[u8]) -> (u32, usize) {
    match bytes.first() {
        None => (RUNE_ERROR, 0),
        Some(&byte) if byte < 0x80 => (u32::from(byte), 1),
        Some(_) => {
            let window = &bytes[..bytes.len().min(4)];
            let valid = match std::str::from_utf8(window) {
                Ok(text) => text,
                Err(error) => std::str::from_utf8(&window[..error.valid_up_to()]).unwrap_or(""),
            };
            match valid.chars().next() {
                Some(c) => (u32::from(c), c.len_utf8()),
                None => (RUNE_ERROR, 1),
            }
        }
    }
}

/// Appends a code point as UTF-8, U+FFFD when it is none.
pub fn push_rune(out: &mut Vec<u8>, rune: u32) {
    let c = char::from_u32(rune).unwrap_or(char::REPLACEMENT_CHARACTER);
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn in_table(table: &[(u32, u32)], rune: u32) -> bool {
    table
        .binary_search_by(|&(first, last)| {
            if last < rune {
                std::cmp::Ordering::Less
            } else if first > rune {
                std::cmp::Ordering::Greater
            } else {
                std::cmp::Ordering::Equal
            }
        })
        .is_ok()
}

/// Whether Go prints the character without an escape.
pub fn is_print(rune: u32) -> bool {
    match rune {
        0x20..=0x7e => true,
        0..0xa1 => false,
        _ => in_table(PRINT, rune),
    }
}

/// Go's `unicode.IsLetter`.
pub fn is_letter(rune: u32) -> bool {
    match u8::try_from(rune) {
        Ok(byte) if byte < 0x80 => byte.is_ascii_alphabetic(),
        _ => in_table(LETTER, rune),
    }
}

/// Go's `unicode.IsDigit`.
pub fn is_digit(rune: u32) -> bool {
    match u8::try_from(rune) {
        Ok(byte) if byte < 0x80 => byte.is_ascii_digit(),
        _ => in_table(DIGIT, rune),
    }
}

/// A double-quoted Go string (`strconv.Quote`).
pub fn quote(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    append_quoted(&mut out, text, b'"', false);
    String::from_utf8(out).unwrap_or_default()
}

/// A double-quoted Go string in ASCII (`strconv.QuoteToASCII`).
pub fn quote_to_ascii(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    append_quoted(&mut out, text, b'"', true);
    String::from_utf8(out).unwrap_or_default()
}

/// A character in single quotes (`strconv.QuoteRune`).
pub fn quote_rune(rune: char) -> String {
    let mut out = Vec::new();
    append_quoted_rune(&mut out, u32::from(rune), false);
    String::from_utf8(out).unwrap_or_default()
}

/// Appends text in quotes of a kind.
pub fn append_quoted(out: &mut Vec<u8>, text: &[u8], mark: u8, ascii_only: bool) {
    out.push(mark);
    let mut rest = text;
    while let Some(&first) = rest.first() {
        let (rune, width) = decode_rune(rest);
        if width == 1 && rune == RUNE_ERROR {
            out.extend_from_slice(format!("\\x{first:02x}").as_bytes());
        } else {
            append_escaped(out, rune, mark, ascii_only);
        }
        rest = &rest[width..];
    }
    out.push(mark);
}

/// A single-quoted character constant; code points that are none become U+FFFD.
pub fn append_quoted_rune(out: &mut Vec<u8>, rune: u32, ascii_only: bool) {
    let rune = char::from_u32(rune).map_or(RUNE_ERROR, u32::from);
    out.push(b'\'');
    append_escaped(out, rune, b'\'', ascii_only);
    out.push(b'\'');
}

fn append_escaped(out: &mut Vec<u8>, rune: u32, mark: u8, ascii_only: bool) {
    if rune == u32::from(mark) || rune == u32::from(b'\\') {
        out.push(b'\\');
        push_rune(out, rune);
        return;
    }
    if is_print(rune) && (!ascii_only || rune < 0x80) {
        push_rune(out, rune);
        return;
    }
    let short = match rune {
        0x07 => "\\a",
        0x08 => "\\b",
        0x0c => "\\f",
        0x0a => "\\n",
        0x0d => "\\r",
        0x09 => "\\t",
        0x0b => "\\v",
        _ => "",
    };
    let escape = match rune {
        _ if !short.is_empty() => short.to_owned(),
        0..0x20 | 0x7f => format!("\\x{rune:02x}"),
        0..0x1_0000 => format!("\\u{rune:04x}"),
        _ => format!("\\U{rune:08x}"),
    };
    out.extend_from_slice(escape.as_bytes());
}

/// Whether the text can stand between backquotes on one line.
pub fn can_backquote(text: &[u8]) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let (rune, width) = decode_rune(rest);
        rest = &rest[width..];
        let fits = match width {
            1 => rune != RUNE_ERROR && (rune >= 0x20 || rune == 9) && rune != 0x60 && rune != 0x7f,
            _ => rune != 0xFEFF,
        };
        if !fits {
            return false;
        }
    }
    true
}

/// What `strconv` says about text it cannot read.
pub const SYNTAX: &str = "invalid syntax";

/// Reads one character of a quoted string: its value, whether it stands for several bytes, and
/// what follows. Go's `strconv.UnquoteChar`.
pub fn unquote_char(text: &[u8], mark: u8) -> Result<(u32, bool, &[u8]), &'static str> {
    let Some(&first) = text.first() else {
        return Err(SYNTAX);
    };
    if first == mark && (mark == b'\'' || mark == b'"') {
        return Err(SYNTAX);
    }
    if first >= 0x80 {
        let (rune, width) = decode_rune(text);
        return Ok((rune, true, &text[width..]));
    }
    if first != b'\\' {
        return Ok((u32::from(first), false, &text[1..]));
    }
    let Some(&letter) = text.get(1) else {
        return Err(SYNTAX);
    };
    let rest = &text[2..];
    let simple = match letter {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => 0x0a,
        b'r' => 0x0d,
        b't' => 0x09,
        b'v' => 0x0b,
        b'\\' => u32::from(b'\\'),
        b'\'' | b'"' if letter == mark => u32::from(letter),
        b'x' => return unquote_hex(rest, 2).map(|(rune, rest)| (rune, false, rest)),
        b'u' => return unquote_unicode(rest, 4),
        b'U' => return unquote_unicode(rest, 8),
        b'0'..=b'7' => return unquote_octal(&text[1..]),
        _ => return Err(SYNTAX),
    };
    Ok((simple, false, rest))
}

fn unquote_hex(text: &[u8], digits: usize) -> Result<(u32, &[u8]), &'static str> {
    let head = text.get(..digits).ok_or(SYNTAX)?;
    let mut value: u32 = 0;
    for byte in head {
        let digit = char::from(*byte).to_digit(16).ok_or(SYNTAX)?;
        value = value.wrapping_shl(4) | digit;
    }
    Ok((value, &text[digits..]))
}

fn unquote_unicode(text: &[u8], digits: usize) -> Result<(u32, bool, &[u8]), &'static str> {
    let (rune, rest) = unquote_hex(text, digits)?;
    match char::from_u32(rune) {
        Some(_) => Ok((rune, true, rest)),
        None => Err(SYNTAX),
    }
}

fn unquote_octal(text: &[u8]) -> Result<(u32, bool, &[u8]), &'static str> {
    let head = text.get(..3).ok_or(SYNTAX)?;
    let mut value: u32 = 0;
    for byte in head {
        value = (value << 3) | char::from(*byte).to_digit(8).ok_or(SYNTAX)?;
    }
    match value {
        0..=255 => Ok((value, false, &text[3..])),
        _ => Err(SYNTAX),
    }
}

/// Reads a Go string literal in double quotes or backquotes (`strconv.Unquote`).
pub fn unquote(literal: &[u8]) -> Result<Vec<u8>, &'static str> {
    let (Some(&mark), Some(&last)) = (literal.first(), literal.last()) else {
        return Err(SYNTAX);
    };
    if literal.len() < 2 || mark != last {
        return Err(SYNTAX);
    }
    let inner = &literal[1..literal.len() - 1];
    match mark {
        b'`' if inner.contains(&b'`') => Err(SYNTAX),
        b'`' => Ok(inner.iter().copied().filter(|b| *b != b'\r').collect()),
        b'"' if inner.contains(&b'\n') => Err(SYNTAX),
        b'"' => unquote_interpreted(inner),
        _ => Err(SYNTAX),
    }
}

fn unquote_interpreted(inner: &[u8]) -> Result<Vec<u8>, &'static str> {
    if !inner.contains(&b'\\') && !inner.contains(&b'"') && std::str::from_utf8(inner).is_ok() {
        return Ok(inner.to_vec());
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while !rest.is_empty() {
        let (rune, multibyte, tail) = unquote_char(rest, b'"')?;
        match u8::try_from(rune) {
            Ok(byte) if byte < 0x80 || !multibyte => out.push(byte),
            _ => push_rune(&mut out, rune),
        }
        rest = tail;
    }
    Ok(out)
}
