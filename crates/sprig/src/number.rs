//! Reading numbers the way Go's `strconv` and the cast library do.

use everflow_gotemplate::Value;

use crate::time::Duration;

/// Reads a whole number in a base; base 0 goes by the prefix (`0x`, `0o`, `0b`, `0`) and allows
/// underscores. `None` for anything else, also when it does not fit 64 bits.
pub(crate) fn parse_int(text: &[u8], base: u32) -> Option<i64> {
    let (negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = parse_uint(digits, base)?;
    if negative {
        (magnitude <= 1 << 63).then(|| (magnitude as i64).wrapping_neg())
    } else {
        i64::try_from(magnitude).ok()
    }
}

fn parse_uint(text: &[u8], base: u32) -> Option<u64> {
    let (base, digits, by_prefix) = match (base, text) {
        (0, [b'0', b'x' | b'X', rest @ ..]) => (16, rest, true),
        (0, [b'0', b'o' | b'O', rest @ ..]) => (8, rest, true),
        (0, [b'0', b'b' | b'B', rest @ ..]) => (2, rest, true),
        (0, [b'0', rest @ ..]) if !rest.is_empty() => (8, rest, true),
        (0, _) => (10, text, true),
        (base, _) => (base, text, false),
    };
    if digits.is_empty() || by_prefix && !underscores_fit(text) {
        return None;
    }
    let mut value: u64 = 0;
    for &byte in digits {
        if byte == b'_' && by_prefix {
            continue;
        }
        let digit = char::from(byte).to_digit(base)?;
        value = value
            .checked_mul(u64::from(base))?
            .checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// Underscores may stand only between digits or after the prefix.
fn underscores_fit(text: &[u8]) -> bool {
    let mut previous = b'^';
    let mut rest = text;
    let mut hex = false;
    if let [
        b'0',
        letter @ (b'b' | b'B' | b'o' | b'O' | b'x' | b'X'),
        tail @ ..,
    ] = text
    {
        previous = b'0';
        hex = letter.eq_ignore_ascii_case(&b'x');
        rest = tail;
    }
    for &byte in rest {
        if byte.is_ascii_digit() || hex && byte.is_ascii_hexdigit() {
            previous = b'0';
        } else if byte == b'_' {
            if previous != b'0' {
                return false;
            }
            previous = b'_';
        } else {
            if previous == b'_' {
                return false;
            }
            previous = b'!';
        }
    }
    previous != b'_'
}

/// Reads a floating point number: decimal, hexadecimal, `inf` and `nan`. `None` for anything
/// else, also when it is too large.
pub(crate) fn parse_float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = match digits.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => f64::INFINITY,
        "nan" => f64::NAN,
        lower if lower.contains('_') => {
            if !underscores_fit(lower.as_bytes()) {
                return None;
            }
            return parse_float(text.replace('_', "").as_bytes());
        }
        lower if lower.starts_with("0x") => parse_hex_float(&lower[2..])?,
        lower => {
            let starts = lower.starts_with(|c: char| c.is_ascii_digit() || c == '.');
            let plain = lower
                .bytes()
                .all(|b| b.is_ascii_digit() || b".e+-".contains(&b));
            let parsed: f64 = (starts && plain).then(|| lower.parse().ok()).flatten()?;
            parsed.is_finite().then_some(parsed)?
        }
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// `1.8p3` after the `0x`.
fn parse_hex_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once('p')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0f64;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let shift = exponent.checked_sub(i32::try_from(fraction.len()).ok()?.checked_mul(4)?)?;
    let scaled = value * 2f64.powi(shift);
    scaled.is_finite().then_some(scaled)
}

/// Whatever it is as a whole number; what is none counts as zero.
pub(crate) fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Object(_)
            if value
                .as_object::<crate::objects::DurationObject>()
                .is_some() =>
        {
            0
        }
        Value::Bool(value) => i64::from(*value),
        Value::String(text) => {
            parse_int(without_zero_fraction(text.as_bytes()), 0).unwrap_or_default()
        }
        Value::Object(_) => 0,
        _ => {
            if let Some(int) = value.as_int() {
                int
            } else if let Some(uint) = value.as_uint() {
                uint as i64
            } else if let Some(float) = value.as_float() {
                float_to_int(float)
            } else {
                0
            }
        }
    }
}

/// A float cut to a whole number; out of range it is the smallest one, as on amd64.
pub(crate) fn float_to_int(float: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&float) {
        float as i64
    } else {
        i64::MIN
    }
}

/// `1.00` without its `.00`.
fn without_zero_fraction(text: &[u8]) -> &[u8] {
    let zeros = text.iter().rev().take_while(|&&b| b == b'0').count();
    let head = &text[..text.len() - zeros];
    match head.split_last() {
        Some((b'.', whole)) if zeros > 0 => whole,
        _ => text,
    }
}

/// Whatever it is as a floating point number; what is none counts as zero.
pub(crate) fn to_float64(value: &Value) -> f64 {
    match value {
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::String(text) => parse_float(text.as_bytes()).unwrap_or_default(),
        Value::Object(_) => 0.0,
        _ => {
            if let Some(int) = value.as_int() {
                int as f64
            } else if let Some(uint) = value.as_uint() {
                uint as f64
            } else {
                value.as_float().unwrap_or_default()
            }
        }
    }
}

const MAX_SECONDS: i64 = i64::MAX / 1_000_000_000;

/// A duration from a duration, a text such as `1h30m` or a number of seconds.
pub(crate) fn to_duration(value: &Value) -> Result<Duration, String> {
    if let Some(duration) = value.as_object::<crate::objects::DurationObject>() {
        return Ok(duration.0);
    }
    if let Value::String(text) = value {
        let trimmed = crate::text::runes::trim_space(text.as_bytes());
        if trimmed.is_empty() {
            return Err("empty duration".to_owned());
        }
        if let Ok(duration) = Duration::parse(trimmed) {
            return Ok(duration);
        }
        if let Some(seconds) = parse_float(trimmed) {
            return duration_of_seconds(seconds);
        }
        let shown = everflow_gotemplate::gofmt::quote(text.as_bytes());
        return Err(format!("could not parse duration {shown}"));
    }
    if matches!(value, Value::Nil) {
        return Err("invalid duration".to_owned());
    }
    if let Some(seconds) = value.as_int() {
        if seconds.unsigned_abs() > MAX_SECONDS as u64 {
            return Err(format!("duration seconds overflow: {seconds}"));
        }
        return Ok(Duration(seconds * 1_000_000_000));
    }
    if let Some(seconds) = value.as_uint() {
        if seconds > MAX_SECONDS as u64 {
            return Err(format!("duration seconds overflow: {seconds}"));
        }
        return Ok(Duration(seconds as i64 * 1_000_000_000));
    }
    match value.as_float() {
        Some(seconds) => duration_of_seconds(seconds),
        None => Err(format!("unsupported duration type {}", value.type_name())),
    }
}

fn duration_of_seconds(seconds: f64) -> Result<Duration, String> {
    let shown = everflow_yaml::gojson::format_shortest(seconds);
    if !seconds.is_finite() {
        return Err(format!("invalid duration seconds: {shown}"));
    }
    let limit = i64::MAX as f64 / 1e9;
    if seconds > limit || seconds < -limit {
        return Err(format!("duration seconds overflow: {shown}"));
    }
    Ok(Duration(float_to_int(seconds * 1e9)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers() {
        for (text, value) in [
            ("42", Some(42)),
            ("0x1F", Some(31)),
            ("010", Some(8)),
            ("0b11", Some(3)),
            ("1_000", Some(1000)),
            ("1__0", None),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("", None),
            ("1.5", None),
        ] {
            assert_eq!(parse_int(text.as_bytes(), 0), value, "{text}");
        }
        assert_eq!(to_int64(&Value::string("12.00")), 12);
        assert_eq!(to_int64(&Value::string("12.5")), 0);
        assert_eq!(to_int64(&Value::Float64(1e30)), i64::MIN);
    }

    #[test]
    fn floats() {
        for (text, value) in [
            ("1.5", Some(1.5)),
            ("1e3", Some(1000.0)),
            ("0x1p4", Some(16.0)),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("1e999", None),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(parse_float(text.as_bytes()), value, "{text}");
        }
    }
}
