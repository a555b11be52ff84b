use std::collections::BTreeMap;

use everflow_gotemplate::GoType::{Any, Bool, Int, String as Str};
use everflow_gotemplate::{
    Args, BYTES_OF_A_STEP, ENTRY_BYTES, FuncError, FuncResult, GoStr, GoType, List, Map, Meter,
    Value, gofmt, text_bytes,
};

use super::Registry;
use crate::encoding;
use crate::source::Random;
use crate::support::{MAX_TEXT, Parts, display, fail, joined, to_text, to_texts};
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
    r.metered("replace", &[Str, Str, Str], Str, |m, a| {
        let (old, new, whole) = (bytes(&a, 0)?, bytes(&a, 1)?, bytes(&a, 2)?);
        text(runes::replace(whole, old, new, m)?)
    });
    r.metered("repeat", &[Int, Str], Str, |m, a| {
        text(repeat(bytes(&a, 1)?, a.int(0)?, m)?)
    });
    r.metered("wrap", &[Int, Str], Str, |m, a| {
        text(words::wrap(bytes(&a, 1)?, a.int(0)?, b"", false, m)?)
    });
    r.metered("wrapWith", &[Int, Str, Str], Str, |m, a| {
        let (line_break, whole) = (bytes(&a, 1)?, bytes(&a, 2)?);
        text(words::wrap(whole, a.int(0)?, line_break, true, m)?)
    });
    r.metered("indent", &[Int, Str], Str, |m, a| {
        text(indent(bytes(&a, 1)?, a.int(0)?, false, m)?)
    });
    r.metered("nindent", &[Int, Str], Str, |m, a| {
        text(indent(bytes(&a, 1)?, a.int(0)?, true, m)?)
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
    r.metered("split", &[Str, Str], GoType::STRING_MAP, |m, a| {
        numbered(runes::split(bytes(&a, 1)?, bytes(&a, 0)?, -1), m)
    });
    r.metered("splitn", &[Str, Int, Str], GoType::STRING_MAP, |m, a| {
        let (separator, limit, whole) = (bytes(&a, 0)?, a.int(1)?, bytes(&a, 2)?);
        numbered(runes::split(whole, separator, limit), m)
    });
    r.metered("splitList", &[Str, Str], GoType::STRING_SLICE, |m, a| {
        let mut parts = Parts::new(m);
        for part in runes::split(bytes(&a, 1)?, bytes(&a, 0)?, -1) {
            parts.push(part)?;
        }
        Ok(Value::List(List::typed(GoType::STRING_SLICE, parts.values)))
    });
}

/// Functions from values to text.
fn register_joining(r: &mut Registry<'_>) {
    r.metered_variadic("quote", &[Any], Str, |m, a| {
        each_joined(m, a.all(), |value| {
            let text = to_text(value, m)?;
            // A byte may become four.
            let _held = m.hold(4 * text.len())?;
            Ok(gofmt::quote(text.as_bytes()).into())
        })
    });
    r.metered_variadic("squote", &[Any], Str, |m, a| {
        each_joined(m, a.all(), |value| {
            Ok([b"'", display(value, m)?.as_bytes(), b"'"].concat().into())
        })
    });
    r.metered_variadic("cat", &[Any], Str, |m, a| {
        each_joined(m, a.all(), |value| display(value, m))
    });
    r.metered("toString", &[Any], Str, |m, a| {
        Ok(Value::String(to_text(a.get(0), m)?))
    });
    r.metered("toStrings", &[Any], GoType::STRING_SLICE, |m, a| {
        Ok(Value::strings(to_texts(a.get(0), m)?))
    });
    r.metered("join", &[Str, Any], Str, |m, a| {
        joined(&to_texts(a.get(1), m)?, bytes(&a, 0)?, m)
    });
    r.metered("sortAlpha", &[Any], GoType::STRING_SLICE, |m, a| {
        let mut texts = match a.get(0) {
            list @ Value::List(_) => to_texts(list, m)?,
            other => vec![to_text(other, m)?],
        };
        // Texts may be the same over their whole length, and each is compared some times.
        let total = texts.iter().fold(0, |sum: usize, text| {
            sum.saturating_add(text.len() + BYTES_OF_A_STEP / 16)
        });
        let rounds = texts.len().max(2).ilog2() as usize;
        m.steps((total.saturating_mul(rounds) / BYTES_OF_A_STEP) as u64)?;
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
    r.with_source_and_meter("randAlphaNum", &[Int], Str, |s, m, a| {
        random_text(s, m, a.int(0)?, ALL)
    });
    r.with_source_and_meter("randAlpha", &[Int], Str, |s, m, a| {
        random_text(s, m, a.int(0)?, LETTERS)
    });
    r.with_source_and_meter("randNumeric", &[Int], Str, |s, m, a| {
        random_text(s, m, a.int(0)?, b"0123456789")
    });
    r.with_source_and_meter("randAscii", &[Int], Str, |s, m, a| {
        let printable: Vec<u8> = (b' '..=b'~').collect();
        random_text(s, m, a.int(0)?, &printable)
    });
    r.with_source_and_meter("shuffle", &[Str], Str, |s, m, a| {
        let _held = m.hold(bytes(&a, 0)?.len().saturating_mul(8))?;
        let mut characters: Vec<char> = runes::runes(bytes(&a, 0)?).map(|(c, _)| c).collect();
        let mut random = Random(s);
        for last in (1..characters.len()).rev() {
            m.steps(1)?;
            characters.swap(last, random.below(last as u64 + 1) as usize);
        }
        Ok(Value::string(characters.into_iter().collect::<String>()))
    });
}

fn random_text(
    source: &mut dyn crate::Source,
    meter: &Meter<'_>,
    len: i64,
    set: &[u8],
) -> FuncResult {
    let len = usize::try_from(len).unwrap_or_default();
    if len > MAX_TEXT {
        return fail(format!("a random text of {len} characters is too long"));
    }
    let _held = meter.hold(2 * len)?;
    let mut random = Random(source);
    let mut out = Vec::with_capacity(len);
    for _ in 0..len {
        meter.steps(1)?;
        out.push(random.one_of(set));
    }
    text(out)
}

/// The texts of all values but nils, with spaces between them.
fn each_joined(
    meter: &Meter<'_>,
    values: &[Value],
    write: impl Fn(&Value) -> Result<GoStr, FuncError>,
) -> FuncResult {
    let mut texts = Vec::with_capacity(values.len());
    for value in values {
        if !matches!(value, Value::Nil) {
            let text = write(value)?;
            meter.charge(text_bytes(text.len()))?;
            texts.push(text);
        }
    }
    joined(&texts, b" ", meter)
}

fn repeat(unit: &[u8], count: i64, meter: &Meter<'_>) -> Result<Vec<u8>, FuncError> {
    let Ok(count) = usize::try_from(count) else {
        return fail("strings: negative Repeat count");
    };
    match unit.len().checked_mul(count) {
        Some(len) if len <= MAX_TEXT => {
            let _held = meter.hold(2 * len)?;
            Ok(unit.repeat(count))
        }
        _ => fail("strings: Repeat output length overflow"),
    }
}

fn indent(
    whole: &[u8],
    width: i64,
    newline: bool,
    meter: &Meter<'_>,
) -> Result<Vec<u8>, FuncError> {
    let padding = repeat(b" ", width, meter)?;
    let lines = whole.iter().filter(|&&b| b == b'\n').count() + 1;
    if padding.len().saturating_mul(lines) > MAX_TEXT {
        return fail("strings: Repeat output length overflow");
    }
    let length = whole.len() + padding.len() * lines + 1;
    let _held = meter.hold(2 * length)?;
    let mut out = Vec::with_capacity(length);
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
fn numbered<'t>(parts: impl Iterator<Item = &'t [u8]>, meter: &Meter<'_>) -> FuncResult {
    let mut entries = BTreeMap::new();
    for (index, part) in parts.enumerate() {
        meter.steps(1)?;
        meter.charge(ENTRY_BYTES + text_bytes(part.len()))?;
        entries.insert(GoStr::new(format!("_{index}")), Value::string(part));
    }
    Ok(Value::Map(Map::typed(GoType::STRING_MAP, entries)))
}
