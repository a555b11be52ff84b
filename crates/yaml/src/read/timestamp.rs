//! Dates and times as both Go libraries recognize them.

use std::fmt;

/// A date with a time and an offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp {
    pub(crate) year: u16,
    pub(crate) month: u8,
    pub(crate) day: u8,
    pub(crate) hour: u8,
    pub(crate) minute: u8,
    pub(crate) second: u8,
    pub(crate) nanosecond: u32,
    /// Minutes east of UTC.
    pub(crate) offset: i32,
}

impl Timestamp {
    /// The formats `2006-1-2`, `2006-1-2T15:4:5.9Z07:00` (also with `t`) and `2006-1-2 15:4:5.9`.
    pub(crate) fn parse(text: &str) -> Option<Timestamp> {
        let bytes = text.as_bytes();
        if bytes.len() < 8 || bytes[4] != b'-' || !bytes[..4].iter().all(u8::is_ascii_digit) {
            return None;
        }
        let mut rest = Rest(&bytes[4..]);
        let year = text[..4].parse().ok()?;
        rest.literal(b'-')?;
        let month = rest.number()?;
        rest.literal(b'-')?;
        let day = rest.number()?;
        let mut time = Timestamp {
            year,
            month,
            day,
            hour: 0,
            minute: 0,
            second: 0,
            nanosecond: 0,
            offset: 0,
        };
        match rest.0.first() {
            None => {}
            Some(b'T' | b't') => {
                rest.0 = &rest.0[1..];
                time.clock(&mut rest)?;
                time.offset = rest.offset()?;
            }
            Some(b' ') => {
                // A space in Go's layout stands for any number of them.
                while rest.0.first() == Some(&b' ') {
                    rest.0 = &rest.0[1..];
                }
                time.clock(&mut rest)?;
            }
            Some(_) => return None,
        }
        (rest.0.is_empty() && time.is_in_range()).then_some(time)
    }

    fn clock(&mut self, rest: &mut Rest<'_>) -> Option<()> {
        self.hour = rest.number()?;
        rest.literal(b':')?;
        self.minute = rest.number()?;
        rest.literal(b':')?;
        self.second = rest.number()?;
        self.nanosecond = rest.fraction();
        Some(())
    }

    fn is_in_range(&self) -> bool {
        let leap = self.year.is_multiple_of(4)
            && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        let days = match self.month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return false,
        };
        (1..=days).contains(&self.day) && self.hour < 24 && self.minute < 60 && self.second < 60
    }
}

/// RFC 3339 with as many digits of the second as it needs, as Go writes times into JSON.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            self.year, self.month, self.day, self.hour, self.minute, self.second
        )?;
        if self.nanosecond != 0 {
            let digits = format!("{:09}", self.nanosecond);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        match self.offset {
            0 => f.write_str("Z"),
            offset => {
                let sign = if offset < 0 { '-' } else { '+' };
                let minutes = offset.abs();
                write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn literal(&mut self, byte: u8) -> Option<()> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        (first == byte).then_some(())
    }

    /// One or two digits.
    fn number(&mut self) -> Option<u8> {
        let digit = |index: usize| {
            let byte = *self.0.get(index)?;
            byte.is_ascii_digit().then(|| byte - b'0')
        };
        let first = digit(0)?;
        let (value, width) = match digit(1) {
            Some(second) => (first * 10 + second, 2),
            None => (first, 1),
        };
        self.0 = &self.0[width..];
        Some(value)
    }

    fn fraction(&mut self) -> u32 {
        let starts = matches!(self.0, [b'.' | b',', digit, ..] if digit.is_ascii_digit());
        if !starts {
            return 0;
        }
        let digits = self.0[1..].iter().take_while(|b| b.is_ascii_digit());
        let count = digits.clone().count();
        let value = digits
            .take(9)
            .fold(0u32, |value, digit| value * 10 + u32::from(digit - b'0'));
        self.0 = &self.0[1 + count..];
        value * 10u32.pow(9 - count.min(9) as u32)
    }

    /// `Z` or `+07:00`, in minutes.
    fn offset(&mut self) -> Option<i32> {
        match self.0 {
            [b'Z', rest @ ..] => {
                self.0 = rest;
                Some(0)
            }
            [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2, rest @ ..]
                if [h1, h2, m1, m2].iter().all(|b| b.is_ascii_digit()) =>
            {
                let hours = i32::from(h1 - b'0') * 10 + i32::from(h2 - b'0');
                let minutes = i32::from(m1 - b'0') * 10 + i32::from(m2 - b'0');
                if hours > 24 || minutes > 60 {
                    return None;
                }
                self.0 = rest;
                let offset = hours * 60 + minutes;
                Some(if *sign == b'-' { -offset } else { offset })
            }
            _ => None,
        }
    }
}
