//! Moments.

use std::fmt;
use std::ops::{Add, Sub};

use crate::{Calendar, Duration, days_in_month};

const NANOS: i128 = 1_000_000_000;

/// A moment: seconds and nanoseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanos: u32,
}

impl Timestamp {
    /// The moment so many whole seconds after 1970.
    pub const fn from_seconds(seconds: i64) -> Self {
        Timestamp { seconds, nanos: 0 }
    }

    /// Reads RFC 3339.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, rest) = parse_date_and_time(text)?;
        let (nanos, rest) = parse_fraction(rest)?;
        let offset = parse_offset(rest)?;
        Some(Timestamp {
            seconds: date.unix() - offset,
            nanos,
        })
    }

    /// RFC 3339 in whole seconds, as Kubernetes writes `metav1.Time`.
    pub fn rfc3339(self) -> String {
        let mut text = self.date_and_time();
        text.push('Z');
        text
    }

    /// RFC 3339 with six digits of the second, as Kubernetes writes `metav1.MicroTime`.
    pub fn rfc3339_micro(self) -> String {
        format!("{}.{:06}Z", self.date_and_time(), self.nanos / 1_000)
    }

    /// The moment without its fraction of a second.
    pub const fn truncated(self) -> Self {
        Timestamp {
            seconds: self.seconds,
            nanos: 0,
        }
    }

    /// The span from `earlier` to this moment, negative when it is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let nanos = self.total() - earlier.total();
        Duration(i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX }))
    }

    fn date_and_time(self) -> String {
        let parts = Calendar::from_unix(self.seconds, 0);
        if (0..=9999).contains(&parts.year) {
            return digits(&parts);
        }
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            parts.year, parts.month, parts.day, parts.hour, parts.minute, parts.second
        )
    }

    fn total(self) -> i128 {
        i128::from(self.seconds) * NANOS + i128::from(self.nanos)
    }

    fn from_total(total: i128) -> Self {
        let seconds = total.div_euclid(NANOS);
        Timestamp {
            seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
            nanos: total.rem_euclid(NANOS) as u32,
        }
    }
}

impl Add<std::time::Duration> for Timestamp {
    type Output = Timestamp;
    fn add(self, span: std::time::Duration) -> Timestamp {
        Timestamp::from_total(self.total() + span.as_nanos().min(i64::MAX as u128) as i128)
    }
}

impl Sub<std::time::Duration> for Timestamp {
    type Output = Timestamp;
    fn sub(self, span: std::time::Duration) -> Timestamp {
        Timestamp::from_total(self.total() - span.as_nanos().min(i64::MAX as u128) as i128)
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 with as many digits of the second as there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.date_and_time())?;
        if self.nanos > 0 {
            let fraction = format!("{:09}", self.nanos);
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// Date and time of a year with four digits. Servers write times all the time: this is faster than formatting.
fn digits(parts: &Calendar) -> String {
    let mut text = String::with_capacity(28);
    let mut push = |number: i64, mark: Option<char>| {
        text.push(char::from(b'0' + (number / 10 % 10) as u8));
        text.push(char::from(b'0' + (number % 10) as u8));
        text.extend(mark);
    };
    push(parts.year / 100, None);
    push(parts.year % 100, Some('-'));
    push(parts.month, Some('-'));
    push(parts.day, Some('T'));
    push(parts.hour, Some(':'));
    push(parts.minute, Some(':'));
    push(parts.second, None);
    text
}

fn parse_date_and_time(text: &str) -> Option<(Calendar, &str)> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let part = text.get(from..to)?;
        part.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
        part.parse().ok()
    };
    let bytes = text.as_bytes();
    let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if marks.iter().any(|(at, mark)| bytes.get(*at) != Some(mark)) {
        return None;
    }
    if !matches!(bytes[10], b'T' | b't') {
        return None;
    }
    let date = Calendar {
        year: number(0, 4)?,
        month: number(5, 7)?,
        day: number(8, 10)?,
        day_of_year: 0,
        weekday: 0,
        hour: number(11, 13)?,
        minute: number(14, 16)?,
        second: number(17, 19)?,
    };
    let valid = (1..=12).contains(&date.month)
        && (1..=days_in_month(date.year, date.month)).contains(&date.day)
        && date.hour < 24
        && date.minute < 60
        && date.second < 60;
    valid.then_some((date, text.get(19..)?))
}

fn parse_fraction(text: &str) -> Option<(u32, &str)> {
    let Some(fraction) = text.strip_prefix('.') else {
        return Some((0, text));
    };
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return None;
    }
    let mut nanos = 0;
    for at in 0..9 {
        let digit = if at < digits {
            fraction.as_bytes()[at] - b'0'
        } else {
            0
        };
        nanos = nanos * 10 + u32::from(digit);
    }
    Some((nanos, &fraction[digits..]))
}

fn parse_offset(text: &str) -> Option<i64> {
    if matches!(text, "Z" | "z") {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text[1..].split_once(':')?;
    let number = |part: &str| -> Option<i64> {
        let digits = part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| part.parse().ok())?
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_and_written() {
        let moment = Timestamp::parse("2026-11-16T02:50:46.1205+01:00").unwrap();
        assert_eq!(moment.to_string(), "2026-11-16T01:50:46.1205Z");
        assert_eq!(moment.rfc3339(), "2026-11-16T01:50:46Z");
        assert_eq!(moment.rfc3339_micro(), "2026-11-16T01:50:46.120500Z");
        for wrong in [
            "",
            "2026-11-16",
            "2026-02-29T00:00:00Z",
            "2026-11-16T00:00:00",
            "2026-11-16T00:00:00+1:00",
        ] {
            assert_eq!(Timestamp::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn spans_are_added_and_taken() {
        let moment = Timestamp::from_seconds(10);
        let later = moment + std::time::Duration::from_millis(1_500);
        assert_eq!(later.to_string(), "1970-01-01T00:00:11.5Z");
        assert_eq!(later - std::time::Duration::from_millis(1_500), moment);
        assert_eq!(moment.since(later), Duration(-1_500_000_000));
    }
}
