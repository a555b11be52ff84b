//! `format` of strings: clauses as in C, with the words of cel-go when they do not fit.

use super::convert::double_text;
use crate::error::EvalError;
use crate::value::Value;

const PRECISION: usize = 6;
/// As with Go.
const LARGEST_PRECISION: usize = 1_000_000;
/// More digits behind the point than this no double has.
const DIGITS: usize = 1_100;

/// A piece of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Text to be kept.
    Text(&'a str),
    /// A clause that takes the next argument.
    Clause {
        verb: char,
        precision: Option<usize>,
    },
}

/// Reads the next piece of a template that gets `left` more arguments after `used` ones.
pub(crate) fn next_piece<'a>(
    template: &mut &'a str,
    used: usize,
    left: usize,
) -> Result<Option<Piece<'a>>, String> {
    let text = *template;
    let Some(at) = text.find('%') else {
        *template = "";
        return Ok((!text.is_empty()).then_some(Piece::Text(text)));
    };
    if at > 0 {
        *template = &text[at..];
        return Ok(Some(Piece::Text(&text[..at])));
    }
    if let Some(rest) = text.strip_prefix("%%") {
        *template = rest;
        return Ok(Some(Piece::Text("%")));
    }
    let mut rest = &text[1..];
    if rest.is_empty() {
        return Err("unexpected end of string".to_owned());
    }
    if left == 0 {
        return Err(format!("index {used} out of range"));
    }
    let unparsed = |problem: &str| format!("could not parse formatting clause: {problem}");
    let mut precision = None;
    if let Some(after) = rest.strip_prefix('.') {
        let digits = after.find(|c: char| !c.is_ascii_digit()).ok_or_else(|| {
            unparsed("error while parsing precision: could not find end of precision specifier")
        })?;
        precision = Some(after[..digits].parse::<usize>().map_err(|_| {
            unparsed(&format!(
                "error while parsing precision: error while converting precision to integer: \
                 strconv.Atoi: parsing {:?}: invalid syntax",
                &after[..digits]
            ))
        })?);
        if precision > Some(LARGEST_PRECISION) {
            return Err(unparsed(&format!(
                "a precision of {} is too large, {LARGEST_PRECISION} is the largest",
                &after[..digits]
            )));
        }
        rest = &after[digits..];
    }
    let verb = rest.chars().next().unwrap_or(' ');
    if !"sdfebxXo".contains(verb) {
        return Err(unparsed(&format!(
            "unrecognized formatting clause \"{verb}\""
        )));
    }
    *template = &rest[1..];
    Ok(Some(Piece::Clause { verb, precision }))
}

/// What is wrong with an argument of a clause.
pub(crate) fn wrong_type(verb: char, given: &str) -> String {
    let problem = match verb {
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'o' => "octal clause can only be used on integers",
        'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
        _ => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, \
             types, durations, and timestamps"
        }
    };
    format!("error during formatting: {problem}, was given {given}")
}

/// The template with its clauses filled in.
pub(super) fn format(template: &str, args: &[Value]) -> Result<Value, EvalError> {
    let mut out = String::new();
    let mut rest = template;
    let mut used = 0;
    while let Some(piece) =
        next_piece(&mut rest, used, args.len() - used).map_err(EvalError::other)?
    {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Clause { verb, precision } => {
                out.push_str(&formatted(verb, precision, &args[used])?);
                used += 1;
            }
        }
    }
    Ok(Value::string(out))
}

fn formatted(verb: char, precision: Option<usize>, arg: &Value) -> Result<String, EvalError> {
    let precision = precision.unwrap_or(PRECISION);
    Ok(match (verb, arg) {
        ('s', arg) => shown(arg).ok_or_else(|| wrong(verb, arg))?,
        ('d', Value::Int(value)) => value.to_string(),
        ('d', Value::Uint(value)) => value.to_string(),
        ('f', Value::Double(value)) => grouped(&fixed(*value, precision)),
        ('f' | 'e', Value::String(text)) if matches!(&**text, "NaN" | "Infinity" | "-Infinity") => {
            text.replace("Infinity", "∞")
        }
        ('e', Value::Double(value)) => scientific(*value),
        ('b', Value::Int(value)) => signed(*value, |value| format!("{value:b}")),
        ('b', Value::Uint(value)) => format!("{value:b}"),
        ('b', Value::Bool(value)) => u8::from(*value).to_string(),
        ('o', Value::Int(value)) => signed(*value, |value| format!("{value:o}")),
        ('o', Value::Uint(value)) => format!("{value:o}"),
        ('x', Value::Int(value)) => signed(*value, |value| format!("{value:x}")),
        ('x', Value::Uint(value)) => format!("{value:x}"),
        ('X', Value::Int(value)) => signed(*value, |value| format!("{value:X}")),
        ('X', Value::Uint(value)) => format!("{value:X}"),
        ('x', Value::String(value)) => hex(value.as_bytes()),
        ('X', Value::String(value)) => hex(value.as_bytes()).to_uppercase(),
        ('x', Value::Bytes(value)) => hex(value),
        ('X', Value::Bytes(value)) => hex(value).to_uppercase(),
        _ => return Err(wrong(verb, arg)),
    })
}

fn wrong(verb: char, arg: &Value) -> EvalError {
    EvalError::other(wrong_type(verb, arg.type_name()))
}

fn signed(value: i64, print: impl Fn(u64) -> String) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", print(value.unsigned_abs()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn fixed(value: f64, precision: usize) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        value if value.is_infinite() => if value > 0.0 { "∞" } else { "-∞" }.to_owned(),
        value => {
            let digits = precision.min(DIGITS);
            let mut text = format!("{value:.digits$}");
            text.extend(std::iter::repeat_n('0', precision - digits));
            text
        }
    }
}

/// English writes commas between thousands.
fn grouped(number: &str) -> String {
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", number),
    };
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, format!(".{fraction}")),
        None => (digits, String::new()),
    };
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && digit.is_ascii_digit() {
            out.push(',');
        }
        out.push(digit);
    }
    format!("{sign}{out}{fraction}")
}

/// English writes powers of ten with raised digits.
fn scientific(value: f64) -> String {
    if !value.is_finite() {
        return fixed(value, PRECISION);
    }
    let plain = format!("{value:.PRECISION$e}");
    let (mantissa, power) = plain.split_once('e').unwrap_or((&plain, "0"));
    let (sign, digits) = match power.strip_prefix('-') {
        Some(digits) => ("⁻", digits),
        None => ("", power),
    };
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raised: String = format!("{digits:0>2}")
        .chars()
        .filter_map(|digit| RAISED.get(digit.to_digit(10)? as usize))
        .collect();
    format!("{mantissa} × 10{sign}{raised}")
}

/// A value as text; nothing for values that have none.
fn shown(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Uint(uint) => uint.to_string(),
        Value::Double(double) => double_text(*double),
        Value::String(text) => text.to_string(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::List(list) => {
            let items: Option<Vec<String>> = list.items.iter().map(inside).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Map(map) => {
            let entries: Option<Vec<String>> = map
                .iter()
                .map(|(key, value)| {
                    Some(format!("{}:{}", inside(&key.to_value())?, inside(value)?))
                })
                .collect();
            let mut entries = entries?;
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Timestamp(timestamp) => timestamp.to_string(),
        Value::Duration(duration) => duration.to_string(),
        Value::Type(name) => name.to_string(),
        _ => return None,
    })
}

/// A value inside a list or map, as a constant would be written.
fn inside(value: &Value) -> Option<String> {
    Some(match value {
        Value::String(text) => format!("{text:?}"),
        Value::Bytes(bytes) => format!("b{:?}", String::from_utf8_lossy(bytes)),
        Value::Double(double) if !double.is_finite() => format!("{:?}", fixed(*double, PRECISION)),
        Value::Double(double) => format!("{double:.PRECISION$}"),
        Value::Timestamp(timestamp) => format!("timestamp({:?})", timestamp.to_string()),
        Value::Duration(duration) => format!("duration({:?})", duration.to_string()),
        other => shown(other)?,
    })
}
