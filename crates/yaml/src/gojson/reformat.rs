//! JSON text laid out anew without decoding it.

use super::error::JsonError;
use super::escape::HtmlEscape;
use super::scan::{Scanner, Token};

/// What `json.Indent` makes of a text: keys, numbers and strings stay as they were written, and
/// so does white space after the value.
pub fn indent(text: &[u8], indent: &str) -> Result<Vec<u8>, JsonError> {
    let mut scanner = Scanner::new(text);
    let mut out = Vec::with_capacity(text.len());
    let mut depth = 0;
    let mut just_opened = false;
    while let Some(token) = scanner.next()? {
        let closes = matches!(token, Token::ArrayEnd | Token::ObjectEnd);
        if just_opened && !closes {
            depth += 1;
            line_break(&mut out, indent, depth);
        } else if closes && !just_opened {
            depth -= 1;
            line_break(&mut out, indent, depth);
        }
        just_opened = matches!(token, Token::ArrayStart | Token::ObjectStart);
        push_token(&mut out, token);
        match token {
            Token::Comma => line_break(&mut out, indent, depth),
            Token::Colon => out.push(b' '),
            _ => {}
        }
    }
    out.extend_from_slice(&text[scanner.offset()..]);
    scanner.expect_nothing_more()?;
    Ok(out)
}

/// What `json.Compact` makes of a text; with [`HtmlEscape::On`] what `json.Marshal` prints for a
/// `json.RawMessage`.
pub fn compact(text: &[u8], html: HtmlEscape) -> Result<Vec<u8>, JsonError> {
    let mut scanner = Scanner::new(text);
    let mut out = Vec::with_capacity(text.len());
    while let Some(token) = scanner.next()? {
        match token {
            Token::String(quoted) if html == HtmlEscape::On => push_html_escaped(&mut out, quoted),
            _ => push_token(&mut out, token),
        }
    }
    scanner.expect_nothing_more()?;
    Ok(out)
}

fn line_break(out: &mut Vec<u8>, indent: &str, depth: usize) {
    out.push(b'\n');
    for _ in 0..depth {
        out.extend_from_slice(indent.as_bytes());
    }
}

fn push_token(out: &mut Vec<u8>, token: Token<'_>) {
    let text: &[u8] = match token {
        Token::ArrayStart => b"[",
        Token::ArrayEnd => b"]",
        Token::ObjectStart => b"{",
        Token::ObjectEnd => b"}",
        Token::Colon => b":",
        Token::Comma => b",",
        Token::String(text) | Token::Number(text) => text,
        Token::True => b"true",
        Token::False => b"false",
        Token::Null => b"null",
    };
    out.extend_from_slice(text);
}

fn push_html_escaped(out: &mut Vec<u8>, quoted: &[u8]) {
    let mut rest = quoted;
    while let Some(&byte) = rest.first() {
        let (escaped, width): (&[u8], usize) = match rest {
            [b'<', ..] => (b"\\u003c", 1),
            [b'>', ..] => (b"\\u003e", 1),
            [b'&', ..] => (b"\\u0026", 1),
            [0xE2, 0x80, 0xA8, ..] => (b"\\u2028", 3),
            [0xE2, 0x80, 0xA9, ..] => (b"\\u2029", 3),
            _ => (std::slice::from_ref(&byte), 1),
        };
        out.extend_from_slice(escaped);
        rest = &rest[width..];
    }
}
