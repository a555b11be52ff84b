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
    /// Reads RFC 3339 as `time.Time.UnmarshalJSON` does; the error is in Go's words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rest = Rest {
            all: text,
            left: text,
        };
        let year = rest.digits("2006", 4)?;
        rest.literal("-")?;
        let month = rest.in_range("01", 2, 1..=12, "month")?;
        rest.literal("-")?;
        let day = rest.digits("02", 2)?;
        rest.literal("T")?;
        let hour = rest.hour()?;
        rest.literal(":")?;
        let minute = rest.in_range("04", 2, 0..=59, "minute")?;
        rest.literal(":")?;
        let second = rest.in_range("05", 2, 0..=59, "second")?;
        let nanos = rest.fraction();
        let offset = rest.offset()?;
        if !rest.left.is_empty() {
            return Err(rest.refused(&format!(": extra text: {:?}", rest.left)));
        }
        if day < 1 || day > everflow_time::days_in_month(year, month) {
            return Err(rest.refused(": day out of range"));
        }
        let local = everflow_time::unix_seconds((year, month, day), (hour, minute, second));
        Ok(GoTime {
            moment: Timestamp {
                seconds: local - offset,
                nanos,
            },
            offset,
        })
    }

    /// The moment itself, by which times are compared.
    pub fn moment(self) -> Timestamp {
        self.moment
    }
}

/// What is left of a text.
struct Rest<'t> {
    all: &'t str,
    left: &'t str,
}

impl Rest<'_> {
    fn refused(&self, why: &str) -> String {
        format!("parsing time {:?}{why}", self.all)
    }

    fn misfit(&self, element: &str) -> String {
        self.refused(&format!(
            " as \"2006-01-02T15:04:05Z07:00\": cannot parse {:?} as {element:?}",
            self.left
        ))
    }

    fn literal(&mut self, text: &str) -> Result<(), String> {
        self.left = self
            .left
            .strip_prefix(text)
            .ok_or_else(|| self.misfit(text))?;
        Ok(())
    }

    fn digits(&mut self, element: &str, count: usize) -> Result<i64, String> {
        let number = self.left.get(..count).and_then(number);
        let number = number.ok_or_else(|| self.misfit(element))?;
        self.left = &self.left[count..];
        Ok(number)
    }

    fn in_range(
        &mut self,
        element: &str,
        count: usize,
        range: std::ops::RangeInclusive<i64>,
        name: &str,
    ) -> Result<i64, String> {
        let number = self.digits(element, count)?;
        match range.contains(&number) {
            true => Ok(number),
            false => Err(self.refused(&format!(": {name} out of range"))),
        }
    }

    /// One digit is enough.
    fn hour(&mut self) -> Result<i64, String> {
        let two = self.left.get(..2).is_some_and(|two| number(two).is_some());
        self.in_range("15", if two { 2 } else { 1 }, 0..=23, "hour")
    }

    /// Digits after a period or a comma; what is finer than nanoseconds is dropped.
    fn fraction(&mut self) -> u32 {
        let Some(after) = self.left.strip_prefix(['.', ',']) else {
            return 0;
        };
        let count = after.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return 0;
        }
        self.left = &after[count..];
        let digits = &after[..count.min(9)];
        format!("{digits:0<9}").parse().unwrap_or_default()
    }

    fn offset(&mut self) -> Result<i64, String> {
        const ELEMENT: &str = "Z07:00";
        if let Some(left) = self.left.strip_prefix('Z') {
            self.left = left;
            return Ok(0);
        }
        let bytes = self.left.as_bytes();
        let (sign, colon) = (bytes.first().copied(), bytes.get(3).copied());
        let part = |from: usize| self.left.get(from..from + 2).and_then(number);
        let (Some(sign @ (b'+' | b'-')), Some(b':'), Some(hours), Some(minutes)) =
            (sign, colon, part(1), part(4))
        else {
            return Err(self.misfit(ELEMENT));
        };
        // Go reads an hour more and a minute more, and cannot print the hour.
        for (name, number, most) in [("hour", hours, 23), ("minute", minutes, 60)] {
            if number > most {
                return Err(self.refused(&format!(": time zone offset {name} out of range")));
            }
        }
        self.left = &self.left[6..];
        let offset = hours * 3_600 + minutes * 60;
        Ok(if sign == b'-' { -offset } else { offset })
    }
}

/// A number of digits only.
fn number(text: &str) -> Option<i64> {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().ok(),
        false => None,
    }
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
            ("2026-01-01T7:00:00,5Z", "2026-01-01T07:00:00.5Z"),
            ("2026-01-01T00:00:00+02:00", "2026-01-01T00:00:00+02:00"),
        ] {
            assert_eq!(GoTime::parse(text).unwrap().to_string(), expected);
        }
        assert_eq!(GoTime::default().to_string(), "0001-01-01T00:00:00Z");
    }

    #[test]
    fn times_that_go_refuses_are_refused() {
        for text in [
            "",
            "2026-01-01",
            "2026-01-01 00:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00",
            "é26-01-01T00:00:00Z",
        ] {
            assert!(GoTime::parse(text).is_err(), "{text}");
        }
    }
}
