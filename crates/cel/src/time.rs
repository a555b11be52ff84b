//! Moments and spans of time.

use everflow_time::{Calendar, days_in_month, unix_seconds};

/// A moment: seconds and nanoseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanos: u32,
}

/// A span of time in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(pub i64);

const NANOS: i128 = 1_000_000_000;

impl Timestamp {
    /// Reads RFC 3339.
    pub fn parse(text: &str) -> Option<Self> {
        let number = |range: std::ops::Range<usize>| -> Option<i64> {
            let part = text.get(range)?;
            part.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
            part.parse().ok()
        };
        let bytes = text.as_bytes();
        let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
        if bytes.len() < 20 || separators.iter().any(|(at, mark)| bytes[*at] != *mark) {
            return None;
        }
        if !matches!(bytes[10], b'T' | b't') {
            return None;
        }
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
        if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
            return None;
        }
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let mut rest = &text[19..];
        let mut nanos = 0;
        if let Some(fraction) = rest.strip_prefix('.') {
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 {
                return None;
            }
            let nine: String = fraction[..digits]
                .chars()
                .chain("000000000".chars())
                .take(9)
                .collect();
            nanos = nine.parse().ok()?;
            rest = &fraction[digits..];
        }
        let offset = match rest {
            "Z" | "z" => 0,
            _ => parse_offset(rest)?,
        };
        let seconds = unix_seconds((year, month, day), (hour, minute, second)) - offset;
        Some(Timestamp { seconds, nanos })
    }

    pub(crate) fn calendar(self, offset: i64) -> Calendar {
        Calendar::from_unix(self.seconds, offset)
    }

    pub(crate) fn plus(self, duration: Duration) -> Option<Self> {
        let total =
            i128::from(self.seconds) * NANOS + i128::from(self.nanos) + i128::from(duration.0);
        Some(Timestamp {
            seconds: i64::try_from(total.div_euclid(NANOS)).ok()?,
            nanos: u32::try_from(total.rem_euclid(NANOS)).ok()?,
        })
    }

    pub(crate) fn minus(self, other: Timestamp) -> Option<Duration> {
        let total = (i128::from(self.seconds) - i128::from(other.seconds)) * NANOS
            + i128::from(self.nanos)
            - i128::from(other.nanos);
        i64::try_from(total).ok().map(Duration)
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let c = self.calendar(0);
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            c.year, c.month, c.day, c.hour, c.minute, c.second
        )?;
        if self.nanos > 0 {
            let fraction = format!("{:09}", self.nanos);
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

impl Duration {
    /// Reads Go's form: `1h30m`, `1.5s`, `-2ms`.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Some(Duration(0));
        }
        if rest.is_empty() {
            return None;
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let digits = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .filter(|length| *length > 0)?;
            let (number, after) = rest.split_at(digits);
            let units = [
                ("ns", 1),
                ("us", 1_000),
                ("µs", 1_000),
                ("μs", 1_000),
                ("ms", 1_000_000),
                ("s", 1_000_000_000),
                ("m", 60_000_000_000),
                ("h", 3_600_000_000_000i128),
            ];
            let (unit, scale) = units.iter().find(|(unit, _)| after.starts_with(unit))?;
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            if whole.is_empty() && fraction.is_empty() {
                return None;
            }
            let count: i128 = match whole {
                "" => 0,
                whole => whole.parse().ok()?,
            };
            total = total.checked_add(count.checked_mul(*scale)?)?;
            let mut weight = *scale;
            for digit in fraction.bytes() {
                weight /= 10;
                let digit = i128::from(digit.checked_sub(b'0').filter(|d| *d < 10)?);
                total = total.checked_add(digit * weight)?;
            }
            rest = &after[unit.len()..];
        }
        i64::try_from(if negative { -total } else { total })
            .ok()
            .map(Duration)
    }
}

impl std::fmt::Display for Duration {
    /// As cel-go prints it: seconds with their fraction.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        write!(f, "{sign}{}", nanos / 1_000_000_000)?;
        let fraction = nanos % 1_000_000_000;
        if fraction > 0 {
            write!(f, ".{}", format!("{fraction:09}").trim_end_matches('0'))?;
        }
        f.write_str("s")
    }
}

/// `+02:00` or `-02:00` in seconds; `UTC` too. Names of places are not known.
pub(crate) fn parse_offset(text: &str) -> Option<i64> {
    if text.is_empty() || text == "UTC" || text == "Z" {
        return Some(0);
    }
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let (hours, minutes) = rest.split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_beyond_what_can_be_counted_are_refused() {
        let most = "170141183460469231731687303715884105727ns";
        assert_eq!(Duration::parse(&most.repeat(3)), None);
        assert_eq!(Duration::parse(&format!("{}h", "9".repeat(60))), None);
    }

    #[test]
    fn timestamps_survive() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2024-02-29T23:59:59.5Z",
            "0001-01-01T00:00:00Z",
        ] {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            Timestamp::parse("2024-01-01T02:00:00+02:00"),
            Timestamp::parse("2024-01-01T00:00:00Z")
        );
        assert!(Timestamp::parse("2023-02-29T00:00:00Z").is_none());
    }

    #[test]
    fn durations_read_and_print() {
        assert_eq!(Duration::parse("1h30m").unwrap().to_string(), "5400s");
        assert_eq!(Duration::parse("-1.5s").unwrap().to_string(), "-1.5s");
        assert!(Duration::parse("5").is_none());
        assert!(Duration::parse("").is_none());
    }
}
