//! Moments with the offset they were written with, as Go keeps and prints them.

use std::fmt;

use everflow_time::Timestamp;

/// A moment; the default is Go's zero, the first second of the year one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoTime {
    moment: Timestamp,
    /// Seconds east of UTC.
    offset: i64,
}

/// The first second of the year one.
const ZERO: i64 = -62_135_596_800;

impl Default for GoTime {
    fn default() -> Self {
        GoTime {
            moment: Timestamp::from_seconds(ZERO),
            offset: 0,
        }
    }
}

impl GoTime {
    /// Reads RFC 3339 as strictly as `time.Time.UnmarshalJSON`; the error is in Go's words.
    pub fn parse(text: &str) -> Result<Self, String> {
        const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
        let wrong = || {
            format!(
                "parsing time {text:?} as {LAYOUT:?}: cannot parse {text:?} as {LAYOUT:?}: write it as in 2026-01-31T12:00:00Z"
            )
        };
        let offset = shape(text).ok_or_else(wrong)?;
        let moment = Timestamp::parse(&cut_fraction(text)).ok_or_else(wrong)?;
        Ok(GoTime { moment, offset })
    }

    /// The moment itself, by which times are compared.
    pub fn moment(self) -> Timestamp {
        self.moment
    }
}

/// Checks the places of digits and signs, and gives the offset.
fn shape(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let head = bytes.get(..19)?;
    let fits = head.iter().enumerate().all(|(at, byte)| match at {
        4 | 7 => *byte == b'-',
        10 => *byte == b'T',
        13 | 16 => *byte == b':',
        _ => byte.is_ascii_digit(),
    });
    if !fits {
        return None;
    }
    let mut rest = &bytes[19..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit());
        let count = digits.count();
        if count == 0 {
            return None;
        }
        rest = &fraction[count..];
    }
    match rest {
        b"Z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let number = |tens: &u8, ones: &u8| {
                let digit = |byte: &u8| char::from(*byte).to_digit(10).map(i64::from);
                Some(digit(tens)? * 10 + digit(ones)?)
            };
            let (hours, minutes) = (number(h1, h2)?, number(m1, m2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let offset = hours * 3_600 + minutes * 60;
            Some(if *sign == b'-' { -offset } else { offset })
        }
        _ => None,
    }
}

/// Go drops what is finer than nanoseconds.
fn cut_fraction(text: &str) -> String {
    let mut digits = 0;
    let mut in_fraction = false;
    text.chars()
        .filter(|char| {
            match char {
                '.' => in_fraction = true,
                '0'..='9' if in_fraction => digits += 1,
                _ => in_fraction = false,
            }
            !(in_fraction && digits > 9)
        })
        .collect()
}

impl fmt::Display for GoTime {
    /// RFC 3339 with as many digits of the second as are needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = everflow_time::Calendar::from_unix(self.moment.seconds, self.offset);
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            local.year, local.month, local.day, local.hour, local.minute, local.second
        )?;
        if self.moment.nanos > 0 {
            let digits = format!("{:09}", self.moment.nanos);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let (sign, span) = match self.offset < 0 {
            true => ('-', -self.offset),
            false => ('+', self.offset),
        };
        write!(f, "{sign}{:02}:{:02}", span / 3_600, span / 60 % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_go_prints_them() {
        for (text, expected) in [
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
            ("2026-01-01T00:00:00.1200Z", "2026-01-01T00:00:00.12Z"),
            ("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00Z"),
            (
                "2026-01-01T00:00:00.1234567899-07:30",
                "2026-01-01T00:00:00.123456789-07:30",
            ),
            ("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00Z"),
            ("2026-01-01T00:00:00+02:00", "2026-01-01T00:00:00+02:00"),
        ] {
            assert_eq!(GoTime::parse(text).unwrap().to_string(), expected);
        }
        assert_eq!(GoTime::default().to_string(), "0001-01-01T00:00:00Z");
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in [
            "",
            "2026-01-01",
            "2026-01-01 00:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00,5Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00",
            "é26-01-01T00:00:00Z",
        ] {
            assert!(GoTime::parse(text).is_err(), "{text}");
        }
    }
}
