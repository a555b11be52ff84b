//! Durations as Go reads and prints them.

use std::fmt;

use thiserror::Error;

/// A span of time in nanoseconds, negative ones included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(pub i64);

/// A text that is no duration; the words are Go's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DurationError {
    /// No number where one must be, or too large a span.
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number without its unit.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    /// A unit that Go does not know.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// What stands where the unit should.
        unit: String,
        /// The whole text.
        text: String,
    },
}

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl Duration {
    /// So many whole seconds.
    pub const fn from_seconds(seconds: i64) -> Self {
        Duration(seconds.saturating_mul(1_000_000_000))
    }

    /// Reads `1h30m`, `1.5s`, `-2ms`.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let invalid = || DurationError::Invalid(text.to_owned());
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Duration(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        // Go counts in unsigned nanoseconds, so that the smallest span can be read too.
        let limit = 1_u64 << 63;
        let mut total = 0_u64;
        while !rest.is_empty() {
            let (span, after) = parse_part(text, rest)?;
            total = total
                .checked_add(span)
                .filter(|sum| *sum <= limit)
                .ok_or_else(invalid)?;
            rest = after;
        }
        match negative {
            true => Ok(Duration(0_i64.wrapping_sub_unsigned(total))),
            false => i64::try_from(total).map(Duration).map_err(|_| invalid()),
        }
    }

    /// The span as the standard library has it; nothing is shorter than zero there.
    pub fn unsigned(self) -> std::time::Duration {
        std::time::Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

impl From<std::time::Duration> for Duration {
    fn from(span: std::time::Duration) -> Self {
        Duration(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
    }
}

/// One number with its unit, and what follows.
fn parse_part<'a>(text: &str, part: &'a str) -> Result<(u64, &'a str), DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = part.split_at(digits(part));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let end = rest
        .find(|c: char| c == '.' || c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    if unit.is_empty() {
        return Err(DurationError::MissingUnit(text.to_owned()));
    }
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        let (unit, text) = (unit.to_owned(), text.to_owned());
        return Err(DurationError::UnknownUnit { unit, text });
    };
    let whole: u64 = match whole {
        "" => 0,
        digits => digits.parse().map_err(|_| invalid())?,
    };
    let mut span = whole.checked_mul(*scale).ok_or_else(invalid)?;
    if !fraction.is_empty() {
        // Digits that no longer fit do not matter any more.
        let shown = &fraction[..fraction.len().min(18)];
        let value: f64 = shown.parse().map_err(|_| invalid())?;
        let part = value * (*scale as f64 / 10_f64.powi(shown.len() as i32));
        span = span.checked_add(part as u64).ok_or_else(invalid)?;
    }
    Ok((span, rest))
}

impl fmt::Display for Duration {
    /// As Go prints it: `1h30m0s`, `1.5s`, `20ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => write!(f, "{}µs", with_fraction(nanos, 1_000)),
            1_000_000..1_000_000_000 => write!(f, "{}ms", with_fraction(nanos, 1_000_000)),
            _ => {
                let (minutes, rest) = (nanos / 60_000_000_000, nanos % 60_000_000_000);
                let (hours, minutes) = (minutes / 60, minutes % 60);
                if hours > 0 {
                    write!(f, "{hours}h{minutes}m")?;
                } else if minutes > 0 {
                    write!(f, "{minutes}m")?;
                }
                write!(f, "{}s", with_fraction(rest, 1_000_000_000))
            }
        }
    }
}

fn with_fraction(value: u64, unit: u64) -> String {
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_printed_by_go_are_read_back() {
        let shown = [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (20_000_000, "20ms"),
            (1_500_000_000, "1.5s"),
            (60_000_000_000, "1m0s"),
            (5_400_000_000_000, "1h30m0s"),
            (-3_600_000_000_000, "-1h0m0s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ];
        for (nanos, text) in shown {
            assert_eq!(Duration(nanos).to_string(), text);
            assert_eq!(Duration::parse(text), Ok(Duration(nanos)), "{text}");
        }
    }

    #[test]
    fn other_forms_are_read() {
        let forms = [
            ("0", 0),
            ("+5s", 5_000_000_000),
            (".5s", 500_000_000),
            ("1.h", 3_600_000_000_000),
            ("1m1ms", 60_001_000_000),
            ("0.100000000000000000000h", 360_000_000_000),
        ];
        for (text, nanos) in forms {
            assert_eq!(Duration::parse(text), Ok(Duration(nanos)), "{text}");
        }
    }

    #[test]
    fn errors_are_worded_as_go_words_them() {
        let errors = [
            ("", "time: invalid duration \"\""),
            ("s", "time: invalid duration \"s\""),
            ("3", "time: missing unit in duration \"3\""),
            ("3d", "time: unknown unit \"d\" in duration \"3d\""),
            (
                "9223372036854775808ns",
                "time: invalid duration \"9223372036854775808ns\"",
            ),
        ];
        for (text, message) in errors {
            assert_eq!(Duration::parse(text).unwrap_err().to_string(), message);
        }
    }
}
