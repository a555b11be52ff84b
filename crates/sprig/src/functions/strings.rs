use everflow_gotemplate::GoType::{Any, Bool, Int, String as Str};
use everflow_gotemplate::{Args, FuncError, FuncResult, GoStr, GoType, Map, Value, gofmt};

use super::Registry;
use crate::encoding;
use crate::source::Random;
use crate::support::{MAX_TEXT, display, fail, to_text, to_texts};
use crate::text::{case, runes, words};

/// A text out of bytes.
fn text(bytes: Vec<u8>) -> FuncResult {
    Ok(Value::String(GoStr::from_vec(bytes)))
}

fn bytes<'a>(args: &Args<'a>, index: usize) -> Result<&'a [u8], FuncError> {
    Ok(args.text(index)?.as_bytes())
}

pub(super) fn register(r: &mut Registry<'_>) {
    r.add("hello", &[], Str, |_| Ok(Value::string("Hello!")));
    register_shape(r);
    register_parts(r);
    register_joining(r);
    register_encoding(r);
    register_random(r);
}

/// Functions from one text to another.
fn register_shape(r: &mut Registry<'_>) {
    r.add("trim", &[Str], Str, |a| {
        text(runes::trim_space(bytes(&a, 0)?).to_vec())
    });
    r.add("upper", &[Str], Str, |a| text(words::upper(bytes(&a, 0)?)));
    r.add("lower", &[Str], Str, |a| text(words::lower(bytes(&a, 0)?)));
    r.add("title", &[Str], Str, |a| text(words::title(bytes(&a, 0)?)));
    r.add("untitle", &[Str], Str, |a| {
        text(words::untitle(bytes(&a, 0)?))
    });
    r.add("nospace", &[Str], Str, |a| {
        text(words::without_spaces(bytes(&a, 0)?))
    });
    r.add("initials", &[Str], Str, |a| {
        text(words::initials(bytes(&a, 0)?))
    });
    r.add("swapcase", &[Str], Str, |a| {
        text(words::swap_case(bytes(&a, 0)?))
    });
    r.add("snakecase", &[Str], Str, |a| {
        text(case::separated(bytes(&a, 0)?, '_'))
    });
    r.add("kebabcase", &[Str], Str, |a| {
        text(case::separated(bytes(&a, 0)?, '-'))
    });
    r.add("camelcase", &[Str], Str, |a| {
        text(case::pascal(bytes(&a, 0)?))
    });
    for name in ["trimall", "trimAll"] {
        r.add(name, &[Str, Str], Str, |a| {
            text(runes::trim_any(bytes(&a, 1)?, bytes(&a, 0)?).to_vec())
        });
    }
    r.add("trimSuffix", &[Str, Str], Str, |a| {
        let whole = bytes(&a, 1)?;
        text(whole.strip_suffix(bytes(&a, 0)?).unwrap_or(whole).to_vec())
    });
    r.add("trimPrefix", &[Str, Str], Str, |a| {
        let whole = bytes(&a, 1)?;
        text(whole.strip_prefix(bytes(&a, 0)?).unwrap_or(whole).to_vec())
    });
    r.add("replace", &[Str, Str, Str], Str, |a| {
        text(runes::replace(bytes(&a, 2)?, bytes(&a, 0)?, bytes(&a, 1)?))
    });
    r.add("repeat", &[Int, Str], Str, |a| {
        text(repeat(bytes(&a, 1)?, a.int(0)?)?)
    });
    r.add("wrap", &[Int, Str], Str, |a| {
        text(words::wrap(bytes(&a, 1)?, a.int(0)?, b"", false))
    });
    r.add("wrapWith", &[Int, Str, Str], Str, |a| {
        text(words::wrap(bytes(&a, 2)?, a.int(0)?, bytes(&a, 1)?, true))
    });
    r.add("indent", &[Int, Str], Str, |a| {
        text(indent(bytes(&a, 1)?, a.int(0)?, false)?)
    });
    r.add("nindent", &[Int, Str], Str, |a| {
        text(indent(bytes(&a, 1)?, a.int(0)?, true)?)
    });
}

/// Functions about parts of a text.
fn register_parts(r: &mut Registry<'_>) {
    r.add("abbrev", &[Int, Str], Str, |a| {
        let width = a.int(0)?;
        if width < 4 {
            return Ok(a.get(1).clone());
        }
        text(words::abbreviate(bytes(&a, 1)?, 0, width))
    });
    r.add("abbrevboth", &[Int, Int, Str], Str, |a| {
        let (left, right) = (a.int(0)?, a.int(1)?);
        if right < 4 || left > 0 && right < 7 {
            return Ok(a.get(2).clone());
        }
        text(words::abbreviate(bytes(&a, 2)?, left, right))
    });
    r.add("trunc", &[Int, Str], Str, |a| {
        let whole = bytes(&a, 1)?;
        let (count, len) = (a.int(0)?, whole.len() as i64);
        if count < 0 && count.saturating_add(len) > 0 {
            return text(whole[(len + count) as usize..].to_vec());
        }
        if (0..len).contains(&count) {
            return text(whole[..count as usize].to_vec());
        }
        Ok(a.get(1).clone())
    });
    r.add("substr", &[Int, Int, Str], Str, |a| {
        text(substring(bytes(&a, 2)?, a.int(0)?, a.int(1)?)?.to_vec())
    });
    r.add("contains", &[Str, Str], Bool, |a| {
        Ok(Value::Bool(
            runes::find(bytes(&a, 1)?, bytes(&a, 0)?).is_some(),
        ))
    });
    r.add("hasPrefix", &[Str, Str], Bool, |a| {
        Ok(Value::Bool(bytes(&a, 1)?.starts_with(bytes(&a, 0)?)))
    });
    r.add("hasSuffix", &[Str, Str], Bool, |a| {
        Ok(Value::Bool(bytes(&a, 1)?.ends_with(bytes(&a, 0)?)))
    });
    r.add("plural", &[Str, Str, Int], Str, |a| {
        Ok(a.get(if a.int(2)? == 1 { 0 } else { 1 }).clone())
    });
    r.add("split", &[Str, Str], GoType::STRING_MAP, |a| {
        Ok(numbered(runes::split(bytes(&a, 1)?, bytes(&a, 0)?, -1)))
    });
    r.add("splitn", &[Str, Int, Str], GoType::STRING_MAP, |a| {
        Ok(numbered(runes::split(
            bytes(&a, 2)?,
            bytes(&a, 0)?,
            a.int(1)?,
        )))
    });
    r.add("splitList", &[Str, Str], GoType::STRING_SLICE, |a| {
        Ok(Value::strings(runes::split(
            bytes(&a, 1)?,
            bytes(&a, 0)?,
            -1,
        )))
    });
}

/// Functions from values to text.
fn register_joining(r: &mut Registry<'_>) {
    r.variadic("quote", &[Any], Str, |a| {
        joined(a.all(), |value| {
            Ok(gofmt::quote(to_text(value)?.as_bytes()).into())
        })
    });
    r.variadic("squote", &[Any], Str, |a| {
        joined(a.all(), |value| {
            Ok([b"'", display(value)?.as_bytes(), b"'"].concat().into())
        })
    });
    r.variadic("cat", &[Any], Str, |a| {
        let texts = a
            .all()
            .iter()
            .filter(|value| !matches!(value, Value::Nil))
            .map(display);
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        let parts: Vec<&[u8]> = texts.iter().map(GoStr::as_bytes).collect();
        text(parts.join(&b' '))
    });
    r.add("toString", &[Any], Str, |a| {
        Ok(Value::String(to_text(a.get(0))?))
    });
    r.add("toStrings", &[Any], GoType::STRING_SLICE, |a| {
        Ok(Value::strings(to_texts(a.get(0))?))
    });
    r.add("join", &[Str, Any], Str, |a| {
        let texts = to_texts(a.get(1))?;
        let parts: Vec<&[u8]> = texts.iter().map(GoStr::as_bytes).collect();
        text(parts.join(bytes(&a, 0)?))
    });
    r.add("sortAlpha", &[Any], GoType::STRING_SLICE, |a| {
        let mut texts = match a.get(0) {
            list @ Value::List(_) => to_texts(list)?,
            other => vec![to_text(other)?],
        };
        texts.sort();
        Ok(Value::strings(texts))
    });
}

fn register_encoding(r: &mut Registry<'_>) {
    r.add("b64enc", &[Str], Str, |a| {
        Ok(Value::string(encoding::base64_encode(bytes(&a, 0)?)))
    });
    r.add("b64dec", &[Str], Str, |a| {
        text(encoding::base64_decode(bytes(&a, 0)?).unwrap_or_else(String::into_bytes))
    });
    r.add("b32enc", &[Str], Str, |a| {
        Ok(Value::string(encoding::base32_encode(bytes(&a, 0)?)))
    });
    r.add("b32dec", &[Str], Str, |a| {
        text(encoding::base32_decode(bytes(&a, 0)?).unwrap_or_else(String::into_bytes))
    });
}

fn register_random(r: &mut Registry<'_>) {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const ALL: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    r.with_source("randAlphaNum", &[Int], Str, |s, a| {
        random_text(s, a.int(0)?, ALL)
    });
    r.with_source("randAlpha", &[Int], Str, |s, a| {
        random_text(s, a.int(0)?, LETTERS)
    });
    r.with_source("randNumeric", &[Int], Str, |s, a| {
        random_text(s, a.int(0)?, b"0123456789")
    });
    r.with_source("randAscii", &[Int], Str, |s, a| {
        let printable: Vec<u8> = (b' '..=b'~').collect();
        random_text(s, a.int(0)?, &printable)
    });
    r.with_source("shuffle", &[Str], Str, |s, a| {
        let mut characters: Vec<char> = runes::runes(bytes(&a, 0)?).map(|(c, _)| c).collect();
        let mut random = Random(s);
        for last in (1..characters.len()).rev() {
            characters.swap(last, random.below(last as u64 + 1) as usize);
        }
        Ok(Value::string(characters.into_iter().collect::<String>()))
    });
}

fn random_text(source: &mut dyn crate::Source, len: i64, set: &[u8]) -> FuncResult {
    let len = usize::try_from(len).unwrap_or_default();
    if len > MAX_TEXT {
        return fail(format!("a random text of {len} characters is too long"));
    }
    text(Random(source).text(len, set))
}

fn joined(values: &[Value], write: impl Fn(&Value) -> Result<GoStr, FuncError>) -> FuncResult {
    let texts = values
        .iter()
        .filter(|value| !matches!(value, Value::Nil))
        .map(write);
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    let parts: Vec<&[u8]> = texts.iter().map(GoStr::as_bytes).collect();
    text(parts.join(&b' '))
}

fn repeat(unit: &[u8], count: i64) -> Result<Vec<u8>, FuncError> {
    let Ok(count) = usize::try_from(count) else {
        return fail("strings: negative Repeat count");
    };
    match unit.len().checked_mul(count) {
        Some(len) if len <= MAX_TEXT => Ok(unit.repeat(count)),
        _ => fail("strings: Repeat output length overflow"),
    }
}

fn indent(whole: &[u8], width: i64, newline: bool) -> Result<Vec<u8>, FuncError> {
    let padding = repeat(b" ", width)?;
    let lines = whole.iter().filter(|&&b| b == b'\n').count() + 1;
    if padding.len().saturating_mul(lines) > MAX_TEXT {
        return fail("strings: Repeat output length overflow");
    }
    let mut out = Vec::with_capacity(whole.len() + padding.len() * lines + 1);
    if newline {
        out.push(b'\n');
    }
    out.extend_from_slice(&padding);
    for &byte in whole {
        out.push(byte);
        if byte == b'\n' {
            out.extend_from_slice(&padding);
        }
    }
    Ok(out)
}

fn substring(whole: &[u8], start: i64, end: i64) -> Result<&[u8], FuncError> {
    let len = whole.len() as i64;
    let out_of_range =
        |bounds: String| fail(format!("runtime error: slice bounds out of range {bounds}"));
    if start < 0 {
        if end < 0 {
            return out_of_range(format!("[:{end}]"));
        }
        if end > len {
            return out_of_range(format!("[:{end}] with length {len}"));
        }
        return Ok(&whole[..end as usize]);
    }
    if end < 0 || end > len {
        if start > len {
            return out_of_range(format!("[{start}:{len}]"));
        }
        return Ok(&whole[start as usize..]);
    }
    if start > end {
        return out_of_range(format!("[{start}:{end}]"));
    }
    Ok(&whole[start as usize..end as usize])
}

/// A `map[string]string` with the keys `_0`, `_1` and so on.
fn numbered(parts: Vec<Vec<u8>>) -> Value {
    let entries = parts
        .into_iter()
        .enumerate()
        .map(|(index, part)| (GoStr::new(format!("_{index}")), Value::string(part)));
    Value::Map(Map::typed(GoType::STRING_MAP, entries.collect()))
}
