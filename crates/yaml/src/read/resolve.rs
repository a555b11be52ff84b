//! What a scalar means.

use super::number::{Integer, parse_float, parse_in_base, parse_integer};
use super::timestamp::Timestamp;
use crate::error::Error;
use crate::node::{Dialect, Position, ScalarKind, Style};

/// What untagged plain text means.
pub(crate) fn resolve_plain(dialect: Dialect, text: &str) -> ScalarKind {
    let bytes = text.as_bytes();
    let Some(&first) = bytes.first() else {
        return ScalarKind::Null;
    };
    match first {
        b'0'..=b'9' | b'+' | b'-' => {
            if bytes.len() > 4 && bytes[4] == b'-' && Timestamp::parse(text).is_some() {
                // go-yaml v2 recognizes times only to hand them on as text.
                return match dialect {
                    Dialect::Sigs => ScalarKind::String,
                    Dialect::Kyaml => ScalarKind::Timestamp,
                };
            }
            resolve_number(dialect, text)
        }
        b'.' => special_float(text)
            .or_else(|| parse_fraction(text))
            .map_or(ScalarKind::String, ScalarKind::Float),
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~'
            if bytes.len() <= 5 =>
        {
            resolve_word(dialect, text)
        }
        b'<' if text == "<<" => ScalarKind::Merge,
        _ => ScalarKind::String,
    }
}

/// A float that begins with its point. Go leaves it to a parser that takes underscores between
/// digits and nowhere else.
fn parse_fraction(text: &str) -> Option<f64> {
    if !text.contains('_') {
        return parse_float(text);
    }
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let between_digits =
        |(at, byte): (usize, &u8)| *byte != b'_' || is_digit(at - 1) && is_digit(at + 1);
    let good = bytes.iter().enumerate().skip(1).all(between_digits);
    good.then(|| text.replace('_', ""))
        .and_then(|plain| parse_float(&plain))
}

fn resolve_word(dialect: Dialect, text: &str) -> ScalarKind {
    match text {
        "~" | "null" | "Null" | "NULL" => ScalarKind::Null,
        "true" | "True" | "TRUE" => ScalarKind::Bool(true),
        "false" | "False" | "FALSE" => ScalarKind::Bool(false),
        _ if dialect == Dialect::Kyaml => ScalarKind::String,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => ScalarKind::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => ScalarKind::Bool(false),
        _ => ScalarKind::String,
    }
}

fn special_float(text: &str) -> Option<f64> {
    match text {
        ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

fn resolve_number(dialect: Dialect, text: &str) -> ScalarKind {
    // A plain decimal of up to 18 digits needs no further thought.
    let bytes = text.as_bytes();
    if bytes[0] != b'0' && bytes.len() <= 18 && bytes.iter().all(u8::is_ascii_digit) {
        let value = bytes.iter().fold(0, |n, b| n * 10 + i64::from(b - b'0'));
        return ScalarKind::Int(value);
    }
    if let Some(value) = special_float(text) {
        return ScalarKind::Float(value);
    }
    let without_underscores;
    let plain = match text.contains('_') {
        true => {
            without_underscores = text.replace('_', "");
            without_underscores.as_str()
        }
        false => text,
    };
    let integer = |value: Integer| match value {
        Integer::Signed(value) => ScalarKind::Int(value),
        Integer::Unsigned(value) => ScalarKind::Uint(value),
    };
    if let Some(value) = parse_integer(plain) {
        return integer(value);
    }
    if let Some(value) = parse_float(plain) {
        return ScalarKind::Float(value);
    }
    let odd = |prefix: &str, base: u32| {
        if let Some(digits) = plain.strip_prefix(prefix) {
            return parse_in_base(digits, base);
        }
        let digits = plain.strip_prefix('-')?.strip_prefix(prefix)?;
        match parse_in_base(&format!("-{digits}"), base) {
            Some(Integer::Unsigned(_)) => None,
            value => value,
        }
    };
    odd("0b", 2)
        .or_else(|| match dialect {
            Dialect::Sigs => None,
            Dialect::Kyaml => odd("0o", 8),
        })
        .map_or(ScalarKind::String, integer)
}

const LONG: &str = "tag:yaml.org,2002:";

/// `!!str` for `tag:yaml.org,2002:str`.
pub(crate) fn short_tag(tag: &str) -> std::borrow::Cow<'_, str> {
    match tag.strip_prefix(LONG) {
        Some(name) => format!("!!{name}").into(),
        None => tag.into(),
    }
}

/// The tag that text of this kind has.
pub(crate) fn tag_of(kind: ScalarKind) -> &'static str {
    match kind {
        ScalarKind::Null => "!!null",
        ScalarKind::Bool(_) => "!!bool",
        ScalarKind::Int(_) | ScalarKind::Uint(_) => "!!int",
        ScalarKind::Float(_) => "!!float",
        ScalarKind::String => "!!str",
        ScalarKind::Timestamp => "!!timestamp",
        ScalarKind::Binary => "!!binary",
        ScalarKind::Merge => "!!merge",
    }
}

/// What tagged text means; an error if it cannot be what its tag (in short form) says.
pub(crate) fn resolve_tagged(
    dialect: Dialect,
    tag: &str,
    text: &str,
    position: Position,
) -> Result<ScalarKind, Error> {
    match tag {
        "!!str" => return Ok(ScalarKind::String),
        "!!binary" => return Ok(ScalarKind::Binary),
        "!!merge" => return Ok(ScalarKind::Merge),
        "!!bool" | "!!int" | "!!float" | "!!null" | "!!timestamp" => {}
        _ => return Ok(ScalarKind::String),
    }
    let kind = match resolve_plain(dialect, text) {
        // Times are looked for only where nothing or a time is expected.
        ScalarKind::Timestamp if tag != "!!timestamp" => resolve_number(dialect, text),
        ScalarKind::Merge => ScalarKind::String,
        kind => kind,
    };
    match (tag, kind) {
        ("!!timestamp", _) if Timestamp::parse(text).is_some() => Ok(match dialect {
            Dialect::Sigs => ScalarKind::String,
            Dialect::Kyaml => ScalarKind::Timestamp,
        }),
        ("!!float", ScalarKind::Int(value)) => Ok(ScalarKind::Float(value as f64)),
        _ if tag_of(kind) == tag => Ok(kind),
        _ => Err(Error::decode_at(
            format!("cannot decode {} `{text}` as a {tag}", tag_of(kind)),
            position,
        )),
    }
}

/// What a scalar of the input means. A tag that contradicts the text gives text here and the error
/// when the document is decoded, as in Go.
pub(crate) fn resolve_scalar(
    dialect: Dialect,
    tag: Option<&str>,
    style: Style,
    text: &str,
) -> ScalarKind {
    match tag {
        None if style == Style::Plain => resolve_plain(dialect, text),
        None => ScalarKind::String,
        Some("!") => match (dialect, style) {
            (Dialect::Kyaml, Style::Plain) => resolve_plain(dialect, text),
            (Dialect::Kyaml, _) => ScalarKind::String,
            (Dialect::Sigs, _) if text == "<<" => ScalarKind::Merge,
            (Dialect::Sigs, _) => ScalarKind::String,
        },
        Some(tag) => {
            resolve_tagged(dialect, tag, text, Position::default()).unwrap_or(ScalarKind::String)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn underscores_in_fractions_stand_between_digits() {
        for dialect in [Dialect::Sigs, Dialect::Kyaml] {
            assert_eq!(resolve_plain(dialect, ".5_1"), ScalarKind::Float(0.51));
            for text in ["._5", ".5_", ".5__1", ".5_e1"] {
                assert_eq!(resolve_plain(dialect, text), ScalarKind::String, "{text}");
            }
        }
    }
}
