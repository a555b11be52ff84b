//! Number constants: kept under every type that can hold the value, as Go's ideal constants are.

use crate::gofmt::{quote, unquote_char};
use crate::text::GoStr;

/// A number constant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Number {
    pub int: Option<i64>,
    pub uint: Option<u64>,
    pub float: Option<f64>,
    pub complex: Option<(f64, f64)>,
    /// As written.
    pub text: GoStr,
}

impl Number {
    fn named(text: &[u8]) -> Number {
        Number {
            text: GoStr::from_bytes(text),
            ..Number::default()
        }
    }

    /// A character constant, quotes included.
    pub fn from_character(text: &[u8]) -> Result<Number, String> {
        let (rune, _, tail) = unquote_char(text.get(1..).unwrap_or(&[]), b'\'')?;
        if tail != b"'" {
            let text = String::from_utf8_lossy(text);
            return Err(format!("malformed character constant: {text}"));
        }
        Ok(Number {
            int: Some(i64::from(rune)),
            uint: Some(u64::from(rune)),
            float: Some(f64::from(rune)),
            ..Number::named(text)
        })
    }

    /// A constant such as `1+2i`.
    pub fn from_complex(text: &[u8]) -> Result<Number, String> {
        const SYNTAX: &str = "syntax error scanning complex number";
        let real_end = float_length(text);
        let (real, rest) = text.split_at(real_end);
        let imaginary_end = float_length(rest);
        let (imaginary, rest) = rest.split_at(imaginary_end);
        let signed = matches!(imaginary.first(), Some(b'+' | b'-'));
        if !signed || imaginary.len() < 2 || rest.first() != Some(&b'i') {
            return Err(SYNTAX.to_owned());
        }
        let parse = |part: &[u8]| {
            parse_float(part).ok_or_else(|| {
                format!(
                    "strconv.ParseFloat: parsing {}: invalid syntax",
                    quote(part)
                )
            })
        };
        let mut number = Number::named(text);
        number.set_complex(parse(real)?, parse(imaginary)?);
        Ok(number)
    }

    /// An integer, float or imaginary constant.
    pub fn from_number(text: &[u8]) -> Result<Number, String> {
        let mut number = Number::named(text);
        if let [head @ .., b'i'] = text
            && let Some(imaginary) = parse_float(head)
        {
            number.set_complex(0.0, imaginary);
            return Ok(number);
        }
        number.uint = parse_uint(text);
        number.int = parse_int(text);
        if number.int == Some(0) && number.uint.is_none() {
            number.uint = Some(0);
        }
        #[allow(clippy::cast_precision_loss)]
        match (number.int, number.uint) {
            (Some(n), _) => number.float = Some(n as f64),
            (None, Some(n)) => number.float = Some(n as f64),
            (None, None) => number.set_float(text)?,
        }
        match number.float {
            Some(_) => Ok(number),
            None => Err(format!("illegal number syntax: {}", quote(text))),
        }
    }

    fn set_float(&mut self, text: &[u8]) -> Result<(), String> {
        let Some(value) = parse_float(text) else {
            return Ok(());
        };
        if !text.iter().any(|c| b".eEpP".contains(c)) {
            return Err(format!("integer overflow: {}", quote(text)));
        }
        self.float = Some(value);
        self.int = whole_int(value);
        self.uint = whole_uint(value);
        Ok(())
    }

    fn set_complex(&mut self, real: f64, imaginary: f64) {
        self.complex = Some((real, imaginary));
        if imaginary == 0.0 {
            self.float = Some(real);
            self.int = whole_int(real);
            self.uint = whole_uint(real);
        }
    }

    /// Whether a context without a type takes this for a float.
    pub fn looks_like_float(&self) -> bool {
        let text = self.text.as_bytes();
        let is_rune = text.first() == Some(&b'\'');
        let is_hex_int = text.len() > 2
            && text[0] == b'0'
            && matches!(text[1], b'x' | b'X')
            && !text.iter().any(|c| b"pP".contains(c));
        self.float.is_some() && !is_rune && !is_hex_int && text.iter().any(|c| b".eEpP".contains(c))
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
fn whole_int(value: f64) -> Option<i64> {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value);
    (fits && (value as i64) as f64 == value).then_some(value as i64)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]
fn whole_uint(value: f64) -> Option<u64> {
    let fits = (0.0..18_446_744_073_709_551_616.0).contains(&value);
    (fits && (value as u64) as f64 == value).then_some(value as u64)
}

/// How much of the text Go's scanner takes for one float.
fn float_length(text: &[u8]) -> usize {
    let mut at = 0;
    let accept = |at: &mut usize, valid: &[u8]| {
        let found = text.get(*at).is_some_and(|c| valid.contains(c));
        *at += usize::from(found);
        found
    };
    accept(&mut at, b"+-");
    let (mut digits, mut exponent): (&[u8], &[u8]) = (b"0123456789_", b"eEpP");
    if accept(&mut at, b"0") && accept(&mut at, b"xX") {
        (digits, exponent) = (b"0123456789aAbBcCdDeEfF_", b"pP");
    }
    while accept(&mut at, digits) {}
    if accept(&mut at, b".") {
        while accept(&mut at, digits) {}
    }
    if accept(&mut at, exponent) {
        accept(&mut at, b"+-");
        while accept(&mut at, b"0123456789_") {}
    }
    at
}

/// Whether underscores only separate digits.
fn underscores_fit(text: &[u8]) -> bool {
    let text = match text {
        [b'+' | b'-', rest @ ..] => rest,
        _ => text,
    };
    let prefix = match text {
        [b'0', b'b' | b'B' | b'o' | b'O' | b'x' | b'X', ..] => 2,
        _ => 0,
    };
    let hexadecimal = prefix == 2 && text[1].eq_ignore_ascii_case(&b'x');
    let mut last = if prefix == 2 { b'0' } else { b'^' };
    for &c in &text[prefix..] {
        let digit = c.is_ascii_digit() || (hexadecimal && c.is_ascii_hexdigit());
        match c {
            _ if digit => last = b'0',
            b'_' if last != b'0' => return false,
            b'_' => last = b'_',
            _ if last == b'_' => return false,
            _ => last = b'!',
        }
    }
    last != b'_'
}

/// An unsigned integer with Go's prefixes and underscores.
fn parse_uint(text: &[u8]) -> Option<u64> {
    let (base, digits): (u32, &[u8]) = match text {
        [] => return None,
        [b'0', b'b' | b'B', _, ..] => (2, &text[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &text[2..]),
        [b'0', b'x' | b'X', _, ..] => (16, &text[2..]),
        [b'0', rest @ ..] => (8, rest),
        _ => (10, text),
    };
    let mut value: u64 = 0;
    for &c in digits {
        if c == b'_' {
            continue;
        }
        let digit = char::from(c).to_digit(base)?;
        value = value
            .checked_mul(u64::from(base))?
            .checked_add(u64::from(digit))?;
    }
    (!digits.contains(&b'_') || underscores_fit(text)).then_some(value)
}

fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let magnitude = parse_uint(digits)?;
    match negative {
        true if magnitude <= 1 << 63 => Some(magnitude.wrapping_neg().cast_signed()),
        true => None,
        false => i64::try_from(magnitude).ok(),
    }
}

/// A float with Go's syntax: decimal or hexadecimal, with underscores. `None` also when it is too
/// large.
fn parse_float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let (negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.contains('_') && !underscores_fit(text.as_bytes()) {
        return None;
    }
    let plain: String = digits.chars().filter(|c| *c != '_').collect();
    let hexadecimal = plain.len() > 2 && plain.as_bytes()[0] == b'0' && {
        plain.as_bytes()[1].eq_ignore_ascii_case(&b'x')
    };
    let value = match hexadecimal {
        true => parse_hex_float(&plain[2..])?,
        false => {
            let fits = plain
                .bytes()
                .all(|c| c.is_ascii_digit() || b".eE+-".contains(&c));
            match fits {
                true => plain.parse::<f64>().ok()?,
                false => return None,
            }
        }
    };
    value
        .is_finite()
        .then_some(if negative { -value } else { value })
}

/// `digits[.digits]p±exponent`, without sign and prefix.
fn parse_hex_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let mut exponent: i32 = match exponent.strip_prefix('+').unwrap_or(exponent) {
        digits if digits.len() <= 6 => digits.parse().ok()?,
        _ => return None,
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (mut bits, mut sticky): (u64, bool) = (0, false);
    for (index, c) in whole.chars().chain(fraction.chars()).enumerate() {
        let digit = u64::from(c.to_digit(16)?);
        let in_fraction = index >= whole.len();
        if bits >> 60 == 0 {
            bits = bits << 4 | digit;
            exponent -= if in_fraction { 4 } else { 0 };
        } else {
            sticky |= digit != 0;
            exponent += if in_fraction { 0 } else { 4 };
        }
    }
    if bits == 0 {
        return Some(0.0);
    }
    Some(scale(bits, sticky, exponent))
}

/// `bits × 2^exponent`, rounded half to even.
fn scale(bits: u64, sticky: bool, exponent: i32) -> f64 {
    let top = 63 - bits.leading_zeros().cast_signed();
    // The lowest bit that a result of this size keeps.
    let lowest = (top + exponent - 52).max(-1074);
    let drop = lowest - exponent;
    let mut kept = match drop {
        ..=0 => bits,
        1..64 => bits >> drop,
        _ => 0,
    };
    if drop > 0 {
        let rest = match drop {
            64.. => bits,
            _ => bits & ((1 << drop) - 1),
        };
        let half = match drop {
            1..=64 => 1u64 << (drop - 1),
            _ => u64::MAX,
        };
        let above = rest > half || (rest == half && (sticky || kept & 1 == 1));
        kept += u64::from(above && drop <= 64);
    }
    #[allow(clippy::cast_precision_loss)]
    let value = kept as f64;
    let mut power = exponent + drop.max(0);
    let mut result = value;
    // In steps, so that the factor itself stays a normal number.
    while power != 0 && result != 0.0 && result.is_finite() {
        let step = power.clamp(-1000, 1000);
        result *= 2f64.powi(step);
        power -= step;
    }
    result
}
