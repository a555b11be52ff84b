//! Points in time as the API writes them: RFC 3339 in UTC, to the second or the microsecond.

use std::fmt;

use everflow_time::{days_in_month, unix_seconds};

/// Microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// A point in time from microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Timestamp(micros)
    }

    /// A point in time from whole seconds since the epoch.
    pub const fn from_seconds(seconds: i64) -> Self {
        Timestamp(seconds * 1_000_000)
    }

    /// Microseconds since the epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// The same point some seconds later.
    #[must_use]
    pub const fn plus_seconds(self, seconds: i64) -> Self {
        Timestamp(self.0.saturating_add(seconds.saturating_mul(1_000_000)))
    }

    /// The same point some microseconds later.
    #[must_use]
    pub const fn plus_micros(self, micros: i64) -> Self {
        Timestamp(self.0.saturating_add(micros))
    }

    /// `2006-01-02T15:04:05Z`.
    pub fn rfc3339(self) -> String {
        self.moment().rfc3339()
    }

    /// `2006-01-02T15:04:05.000000Z`.
    pub fn rfc3339_micro(self) -> String {
        self.moment().rfc3339_micro()
    }

    fn moment(self) -> everflow_time::Timestamp {
        everflow_time::Timestamp {
            seconds: self.seconds(),
            nanos: self.0.rem_euclid(1_000_000) as u32 * 1_000,
        }
    }

    /// Reads an RFC 3339 time (with an offset and any fraction).
    pub fn parse(text: &str) -> Option<Timestamp> {
        let bytes = text.as_bytes();
        if bytes.len() < 20
            || bytes[4] != b'-'
            || bytes[7] != b'-'
            || bytes[10] != b'T'
            || bytes[13] != b':'
            || bytes[16] != b':'
        {
            return None;
        }
        let number = |from: usize, to: usize| -> Option<i64> {
            let part = text.get(from..to)?;
            part.bytes()
                .all(|b| b.is_ascii_digit())
                .then(|| part.parse().ok())
                .flatten()
        };
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        if !(1..=12).contains(&month)
            || day < 1
            || day > days_in_month(year, month)
            || hour > 23
            || minute > 59
            || second > 59
        {
            return None;
        }
        let mut rest = &text[19..];
        let mut micros = 0;
        if let Some(fraction) = rest.strip_prefix('.') {
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 {
                return None;
            }
            let padded: String = fraction[..digits]
                .chars()
                .chain("000000".chars())
                .take(6)
                .collect();
            micros = padded.parse::<i64>().ok()?;
            rest = &fraction[digits..];
        }
        let offset = match rest.as_bytes() {
            [b'Z'] => 0,
            [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2]
                if [h1, h2, m1, m2].iter().all(|b| b.is_ascii_digit()) =>
            {
                let digit = |b: &u8| i64::from(b - b'0');
                let minutes = (digit(h1) * 10 + digit(h2)) * 60 + digit(m1) * 10 + digit(m2);
                if *sign == b'+' {
                    minutes * 60
                } else {
                    -minutes * 60
                }
            }
            _ => return None,
        };
        let seconds = unix_seconds((year, month, day), (hour, minute, second)) - offset;
        Some(Timestamp(seconds * 1_000_000 + micros))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.rfc3339())
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn times_round_trip() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2000-02-29T23:59:59Z",
            "2026-11-15T01:02:03Z",
            "1969-12-31T23:59:59Z",
        ] {
            assert_eq!(Timestamp::parse(text).unwrap().rfc3339(), text);
        }
        assert_eq!(
            Timestamp::parse("2026-11-15T01:02:03.5+01:00")
                .unwrap()
                .rfc3339_micro(),
            "2026-11-15T00:02:03.500000Z"
        );
        assert!(Timestamp::parse("2026-13-15T01:02:03Z").is_none());
    }
}
