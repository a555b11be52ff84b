//! What a text, written plain, would be read back as.

use crate::Dialect;

/// What a reader takes an untagged plain text for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Implicit {
    Null,
    Bool,
    Int,
    Float,
    Timestamp,
    String,
}

/// What the dialect reads the plain text as.
pub(super) fn implicit(text: &str, dialect: Dialect) -> Implicit {
    let Some(&first) = text.as_bytes().first() else {
        return Implicit::Null;
    };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => {
            word(text, dialect)
        }
        b'.' if is_nan(text) || is_infinity(text) || is_finite_float(text) => Implicit::Float,
        b'+' | b'-' if is_infinity(&text[1..]) => Implicit::Float,
        b'0'..=b'9' | b'+' | b'-' => number_or_date(text, dialect),
        _ => Implicit::String,
    }
}

fn word(text: &str, dialect: Dialect) -> Implicit {
    match text {
        "~" | "null" | "Null" | "NULL" => Implicit::Null,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Implicit::Bool,
        _ if dialect == Dialect::Sigs && is_old_bool(text) => Implicit::Bool,
        _ => Implicit::String,
    }
}

/// The short YAML 1.1 booleans: v2 reads them, v3 reads strings but quotes them all the same.
pub(super) fn is_old_bool(text: &str) -> bool {
    matches!(
        text,
        "y" | "Y"
            | "yes"
            | "Yes"
            | "YES"
            | "on"
            | "On"
            | "ON"
            | "n"
            | "N"
            | "no"
            | "No"
            | "NO"
            | "off"
            | "Off"
            | "OFF"
    )
}

fn is_nan(text: &str) -> bool {
    matches!(text, ".nan" | ".NaN" | ".NAN")
}

fn is_infinity(text: &str) -> bool {
    matches!(text, ".inf" | ".Inf" | ".INF")
}

/// Sexagesimal numbers such as `1:30`: nobody reads them any more, yet both libraries quote them.
pub(super) fn is_sexagesimal(text: &str) -> bool {
    if !matches!(text.as_bytes().first(), Some(b'+' | b'-' | b'0'..=b'9')) {
        return false;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !unsigned.starts_with(|first: char| first.is_ascii_digit()) || !unsigned.contains(':') {
        return false;
    }
    let (whole, fraction) = match unsigned.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (unsigned, ""),
    };
    let digit_or_underscore = |byte: u8| byte.is_ascii_digit() || byte == b'_';
    let mut parts = whole.split(':');
    let head = parts.next().unwrap_or_default();
    head.bytes().all(digit_or_underscore)
        && fraction.bytes().all(digit_or_underscore)
        && parts.all(|part| match part.as_bytes() {
            [ones] => ones.is_ascii_digit(),
            [tens, ones] => matches!(tens, b'0'..=b'5') && ones.is_ascii_digit(),
            _ => false,
        })
}

fn number_or_date(text: &str, dialect: Dialect) -> Implicit {
    if is_timestamp(text) {
        return Implicit::Timestamp;
    }
    let without;
    let plain = if text.contains('_') {
        without = text.replace('_', "");
        without.as_str()
    } else {
        text
    };
    if is_integer(plain) {
        Implicit::Int
    } else if is_finite_float(plain) {
        Implicit::Float
    } else if is_oddly_signed(plain, dialect) {
        Implicit::Int
    } else {
        Implicit::String
    }
}

/// An integer as Go's `ParseInt` and `ParseUint` take it with base 0.
fn is_integer(plain: &str) -> bool {
    let (negative, unsigned) = match plain.as_bytes().first() {
        Some(b'-') => (true, &plain[1..]),
        Some(b'+') => (false, &plain[1..]),
        _ => (false, plain),
    };
    let signed = unsigned.len() != plain.len();
    let lower = unsigned.get(..2).map(str::to_ascii_lowercase);
    let (digits, radix) = match lower.as_deref() {
        Some("0x") => (&unsigned[2..], 16),
        Some("0o") => (&unsigned[2..], 8),
        Some("0b") => (&unsigned[2..], 2),
        Some(prefix) if prefix.starts_with('0') => (&unsigned[1..], 8),
        _ => (unsigned, 10),
    };
    if digits.starts_with(['+', '-']) {
        return false;
    }
    match u64::from_str_radix(digits, radix) {
        Ok(_) if !signed => true,
        Ok(size) if negative => size <= i64::MIN.unsigned_abs(),
        Ok(size) => i64::try_from(size).is_ok(),
        Err(_) => false,
    }
}

/// `0b-1`: Go hands what follows the prefix to a parser that takes a sign.
fn is_oddly_signed(plain: &str, dialect: Dialect) -> bool {
    let parses = |prefix: &str, radix: u32| {
        plain
            .strip_prefix(prefix)
            .is_some_and(|digits| i64::from_str_radix(digits, radix).is_ok())
    };
    parses("0b", 2) || dialect == Dialect::Kyaml && parses("0o", 8)
}

/// A decimal float that fits: `1e309` stays a string.
fn is_finite_float(plain: &str) -> bool {
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(plain);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_ok = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && all_digits(fraction),
        Some((whole, fraction)) => all_digits(whole) && all_digits(fraction),
        None => !mantissa.is_empty() && all_digits(mantissa),
    };
    let exponent_ok = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && all_digits(digits)
    });
    mantissa_ok && exponent_ok && plain.parse::<f64>().is_ok_and(f64::is_finite)
}

/// The four date formats both libraries know; one or two digits everywhere but in the year.
fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < 8 || bytes[4] != b'-' || !bytes[..4].iter().all(u8::is_ascii_digit) {
        return false;
    }
    let mut reader = Fields { rest: &bytes[5..] };
    let Some(month) = reader.number(1..=12) else {
        return false;
    };
    if !reader.take(b'-') {
        return false;
    }
    let year = bytes[..4]
        .iter()
        .fold(0, |year, digit| year * 10 + u32::from(digit - b'0'));
    let Some(_) = reader.number(1..=days_in(month, year)) else {
        return false;
    };
    match reader.rest.first() {
        None => true,
        Some(b'T' | b't') => reader.skip() && reader.clock() && reader.zone(),
        Some(b' ') => reader.skip() && reader.clock() && reader.rest.is_empty(),
        Some(_) => false,
    }
}

fn days_in(month: u32, year: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        _ => 31,
    }
}

/// The rest of a date, read field by field.
struct Fields<'a> {
    rest: &'a [u8],
}

impl Fields<'_> {
    fn take(&mut self, byte: u8) -> bool {
        let matches = self.rest.first() == Some(&byte);
        matches && self.skip()
    }

    fn skip(&mut self) -> bool {
        self.rest = &self.rest[1..];
        true
    }

    /// One or two digits.
    fn number(&mut self, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
        let digits = self
            .rest
            .iter()
            .take(2)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if digits == 0 {
            return None;
        }
        let (text, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let number = text
            .iter()
            .fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
        range.contains(&number).then_some(number)
    }

    /// `15:4:5` with an optional fraction of a second.
    fn clock(&mut self) -> bool {
        let whole = self.number(0..=23).is_some()
            && self.take(b':')
            && self.number(0..=59).is_some()
            && self.take(b':')
            && self.number(0..=59).is_some();
        if whole && matches!(self.rest, [b'.' | b',', b'0'..=b'9', ..]) {
            let digits = self.rest[1..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            self.rest = &self.rest[1 + digits..];
        }
        whole
    }

    /// `Z` or `+07:00`, and nothing after it.
    fn zone(&self) -> bool {
        let two = |tens: u8, ones: u8| {
            (tens.is_ascii_digit() && ones.is_ascii_digit())
                .then(|| u32::from(tens - b'0') * 10 + u32::from(ones - b'0'))
        };
        match *self.rest {
            [b'Z'] => true,
            [b'+' | b'-', h1, h2, b':', m1, m2] => {
                two(h1, h2).is_some_and(|hours| hours <= 24)
                    && two(m1, m2).is_some_and(|minutes| minutes <= 60)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_dates_and_words_of_both_dialects() {
        for text in [
            "",
            "1",
            "-1",
            "0x1F",
            "0o17",
            "017",
            "08",
            "1_000",
            "1e3",
            ".5",
            "1.",
            "+1",
            "0b-1",
            "true",
            "~",
            "null",
            ".inf",
            "-.inf",
            "+.INF",
            ".nan",
            "2024-01-01",
            "2024-1-2T3:4:5Z",
            "2024-01-01 10:11:12.5",
            "18446744073709551615",
            "99999999999999999999",
        ] {
            assert_ne!(implicit(text, Dialect::Sigs), Implicit::String, "{text}");
            assert_ne!(implicit(text, Dialect::Kyaml), Implicit::String, "{text}");
        }
        for text in [
            "a",
            "1e309",
            "0o8",
            "0x",
            "-.nan",
            "1:30",
            "2024-13-01",
            "2024-02-30",
            "1.2.3",
            "tRUE",
            "+",
            "-",
            ".",
            "._5",
            "0xFFFFFFFFFFFFFFFFF",
            "<<",
        ] {
            assert_eq!(implicit(text, Dialect::Sigs), Implicit::String, "{text}");
            assert_eq!(implicit(text, Dialect::Kyaml), Implicit::String, "{text}");
        }
    }

    #[test]
    fn short_booleans_are_v2_only() {
        assert_ne!(implicit("yes", Dialect::Sigs), Implicit::String);
        assert_eq!(implicit("yes", Dialect::Kyaml), Implicit::String);
    }

    #[test]
    fn sexagesimal() {
        assert!(is_sexagesimal("1:30"));
        assert!(is_sexagesimal("-1_0:59.5"));
        assert!(!is_sexagesimal("1:60"));
        assert!(!is_sexagesimal("1"));
        assert!(!is_sexagesimal("a:1"));
    }
}
