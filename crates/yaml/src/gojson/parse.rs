//! JSON text to values, as Go decodes into `any`.

use super::error::JsonError;
use super::scan::{Scanner, Token};
use everflow_json::{Map, Number, Value};

/// What JSON numbers become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Floats, all of them: `json.Unmarshal` into `any`, and so helm's values.
    Floats,
    /// Integers that fit an `int64` stay integers: Kubernetes' own decoder.
    Integers,
}

/// What `json.Unmarshal` makes of a text; nothing may follow the value.
///
/// Bytes that are not UTF-8 and lone surrogates become U+FFFD, of equal keys the last counts, and
/// errors read as Go's do.
pub fn parse(text: &[u8], numbers: Numbers) -> Result<Value, JsonError> {
    check_form(text)?;
    build(&mut Scanner::new(text), numbers)
}

/// Go looks the whole text over before it decodes, so errors of form come first.
pub(super) fn check_form(text: &[u8]) -> Result<(), JsonError> {
    let mut scanner = Scanner::new(text);
    while scanner.next()?.is_some() {}
    scanner.expect_nothing_more()
}

/// What a `json.Decoder` makes of the first value of a text, with the bytes it took.
pub fn parse_first(text: &[u8], numbers: Numbers) -> Result<(Value, usize), JsonError> {
    let mut scanner = Scanner::new(text);
    let value = build(&mut scanner, numbers)?;
    Ok((value, scanner.offset()))
}

/// A collection that is not complete yet.
enum Open {
    Array(Vec<Value>),
    Object { fields: Map, key: Option<String> },
}

fn build(scanner: &mut Scanner<'_>, numbers: Numbers) -> Result<Value, JsonError> {
    let mut open: Vec<Open> = Vec::new();
    let mut root = Value::Null;
    while let Some(token) = scanner.next()? {
        let value = match token {
            Token::Colon | Token::Comma => continue,
            Token::ArrayStart => {
                open.push(Open::Array(Vec::new()));
                continue;
            }
            Token::ObjectStart => {
                open.push(Open::Object {
                    fields: Map::new(),
                    key: None,
                });
                continue;
            }
            Token::ArrayEnd | Token::ObjectEnd => match open.pop() {
                Some(Open::Array(items)) => Value::Array(items),
                Some(Open::Object { fields, .. }) => Value::Object(fields),
                None => Value::Null,
            },
            Token::String(quoted) => {
                let text = unquote(quoted);
                if let Some(Open::Object {
                    key: key @ None, ..
                }) = open.last_mut()
                {
                    *key = Some(text);
                    continue;
                }
                Value::String(text.into())
            }
            Token::Number(digits) => number(digits, numbers)?,
            Token::True => Value::Bool(true),
            Token::False => Value::Bool(false),
            Token::Null => Value::Null,
        };
        match open.last_mut() {
            None => root = value,
            Some(Open::Array(items)) => items.push(value),
            Some(Open::Object { fields, key }) => {
                fields.insert(key.take().unwrap_or_default().into(), value);
            }
        }
    }
    Ok(root)
}

pub(super) fn number(digits: &[u8], numbers: Numbers) -> Result<Value, JsonError> {
    let text = String::from_utf8_lossy(digits);
    if numbers == Numbers::Integers
        && let Ok(integer) = text.parse::<i64>()
    {
        return Ok(Value::from(integer));
    }
    text.parse::<f64>()
        .ok()
        .and_then(Number::from_f64)
        .map(Value::Number)
        .ok_or_else(|| JsonError::NumberTooLarge(text.into_owned()))
}

/// The text of a string that the scanner let pass.
pub(super) fn unquote(quoted: &[u8]) -> String {
    let body = &quoted[1..quoted.len() - 1];
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(slash) = rest.iter().position(|byte| *byte == b'\\') {
        push_lossy(&mut out, &rest[..slash]);
        rest = unescape(&mut out, &rest[slash + 1..]);
    }
    push_lossy(&mut out, rest);
    out
}

/// Each byte that is not part of valid UTF-8 becomes one U+FFFD.
fn push_lossy(out: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
}

/// Decodes what follows a backslash and returns what is left.
fn unescape<'a>(out: &mut String, escape: &'a [u8]) -> &'a [u8] {
    let (Some(&kind), mut rest) = (escape.first(), escape.get(1..).unwrap_or_default()) else {
        return &[];
    };
    let char = match kind {
        b'b' => '\u{8}',
        b'f' => '\u{C}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let unit = hex(rest);
            rest = rest.get(4..).unwrap_or_default();
            let low = rest.strip_prefix(b"\\u").map(hex);
            match (char::from_u32(unit), low) {
                (Some(char), _) => char,
                (None, Some(low @ 0xDC00..=0xDFFF)) if unit < 0xDC00 => {
                    rest = rest.get(6..).unwrap_or_default();
                    let code = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
                }
                (None, _) => char::REPLACEMENT_CHARACTER,
            }
        }
        other => char::from(other),
    };
    out.push(char);
    rest
}

fn hex(digits: &[u8]) -> u32 {
    digits.iter().take(4).fold(0, |value, digit| {
        value * 16 + char::from(*digit).to_digit(16).unwrap_or(0)
    })
}
