//! Layouts: texts in which parts of a fixed moment stand for the parts of any.

use super::{Civil, Time};

/// One part of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    LongMonth,
    Month,
    MonthNumber,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    SpaceDay,
    ZeroDay,
    SpaceYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperPm,
    LowerPm,
    ZoneName,
    /// `Z07:00` and its kin: `Z` for UTC.
    IsoOffset(Offset),
    /// `-07:00` and its kin.
    NumericOffset(Offset),
    /// `.000` or `,000`: that many digits.
    Fraction {
        digits: usize,
        separator: u8,
    },
    /// `.999` or `,999`: up to that many digits, nothing if zero.
    TrimmedFraction {
        digits: usize,
        separator: u8,
    },
}

/// How an offset is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offset {
    Hours,
    HoursMinutes,
    ColonMinutes,
    HoursMinutesSeconds,
    ColonSeconds,
}

impl Offset {
    pub(crate) fn has_colons(self) -> bool {
        matches!(self, Self::ColonMinutes | Self::ColonSeconds)
    }

    pub(crate) fn has_seconds(self) -> bool {
        matches!(self, Self::HoursMinutesSeconds | Self::ColonSeconds)
    }
}

pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(crate) const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

const WORDS: [(&[u8], Part); 34] = [
    (b"January", Part::LongMonth),
    (b"Monday", Part::LongWeekday),
    (b"MST", Part::ZoneName),
    (b"002", Part::ZeroYearDay),
    (b"01", Part::ZeroMonth),
    (b"02", Part::ZeroDay),
    (b"03", Part::ZeroHour12),
    (b"04", Part::ZeroMinute),
    (b"05", Part::ZeroSecond),
    (b"06", Part::Year),
    (b"15", Part::Hour),
    (b"1", Part::MonthNumber),
    (b"2006", Part::LongYear),
    (b"2", Part::Day),
    (b"__2", Part::SpaceYearDay),
    (b"3", Part::Hour12),
    (b"4", Part::Minute),
    (b"5", Part::Second),
    (b"PM", Part::UpperPm),
    (b"pm", Part::LowerPm),
    (b"-07:00:00", Part::NumericOffset(Offset::ColonSeconds)),
    (b"-070000", Part::NumericOffset(Offset::HoursMinutesSeconds)),
    (b"-07:00", Part::NumericOffset(Offset::ColonMinutes)),
    (b"-0700", Part::NumericOffset(Offset::HoursMinutes)),
    (b"-07", Part::NumericOffset(Offset::Hours)),
    (b"Z07:00:00", Part::IsoOffset(Offset::ColonSeconds)),
    (b"Z070000", Part::IsoOffset(Offset::HoursMinutesSeconds)),
    (b"Z07:00", Part::IsoOffset(Offset::ColonMinutes)),
    (b"Z0700", Part::IsoOffset(Offset::HoursMinutes)),
    (b"Z07", Part::IsoOffset(Offset::Hours)),
    // These need a look at what follows.
    (b"Jan", Part::Month),
    (b"Mon", Part::Weekday),
    (b"_2", Part::SpaceDay),
    (b"_2006", Part::LongYear),
];

/// Splits a layout into the text before its first part, the part, and what follows.
pub(crate) fn next_part(layout: &[u8]) -> (&[u8], Option<Part>, &[u8]) {
    for start in 0..layout.len() {
        if let Some((part, skip, len)) = part_at(&layout[start..]) {
            // `_2006` is an underscore and a year.
            let (prefix, rest) = (start + skip, start + skip + len);
            return (&layout[..prefix], Some(part), &layout[rest..]);
        }
    }
    (layout, None, &[])
}

fn part_at(text: &[u8]) -> Option<(Part, usize, usize)> {
    let found = |part: Part, len: usize| Some((part, 0, len));
    match text.first()? {
        b'J' if text.starts_with(b"Jan") => {
            if text.starts_with(b"January") {
                return found(Part::LongMonth, 7);
            }
            if !starts_lower(&text[3..]) {
                return found(Part::Month, 3);
            }
            None
        }
        b'M' if text.starts_with(b"Mon") => {
            if text.starts_with(b"Monday") {
                return found(Part::LongWeekday, 6);
            }
            if !starts_lower(&text[3..]) {
                return found(Part::Weekday, 3);
            }
            None
        }
        b'_' if text.starts_with(b"_2006") => Some((Part::LongYear, 1, 4)),
        b'_' if text.starts_with(b"__2") => found(Part::SpaceYearDay, 3),
        b'_' if text.starts_with(b"_2") => found(Part::SpaceDay, 2),
        b'.' | b',' => fraction_at(text),
        _ => WORDS
            .iter()
            .filter(|(word, _)| !matches!(word[0], b'J' | b'_') && *word != b"Mon")
            .find(|(word, _)| text.starts_with(word))
            .map(|(word, part)| (*part, 0, word.len())),
    }
}

fn starts_lower(text: &[u8]) -> bool {
    text.first().is_some_and(u8::is_ascii_lowercase)
}

fn fraction_at(text: &[u8]) -> Option<(Part, usize, usize)> {
    let digit = *text.get(1)?;
    if digit != b'0' && digit != b'9' {
        return None;
    }
    let digits = text[1..].iter().take_while(|&&b| b == digit).count();
    if text.get(1 + digits).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let separator = text[0];
    let part = if digit == b'0' {
        Part::Fraction { digits, separator }
    } else {
        Part::TrimmedFraction { digits, separator }
    };
    Some((part, 0, digits + 1))
}

/// Writes a time by a layout.
pub(crate) fn format(time: &Time, layout: &[u8]) -> Vec<u8> {
    let (zone_name, offset) = time.zone.at(time.seconds);
    let civil = time.civil();
    let mut out = Vec::with_capacity(layout.len() + 10);
    let mut rest = layout;
    loop {
        let (prefix, part, tail) = next_part(rest);
        out.extend_from_slice(prefix);
        let Some(part) = part else { return out };
        rest = tail;
        write_part(&mut out, part, &civil, time.nanos, &zone_name, offset);
    }
}

fn write_part(out: &mut Vec<u8>, part: Part, t: &Civil, nanos: u32, zone: &str, offset: i32) {
    let hour12 = match t.hour % 12 {
        0 => 12,
        hour => hour,
    };
    let month = MONTHS[usize::from(t.month - 1)];
    let weekday = WEEKDAYS[usize::from(t.weekday)];
    let text = match part {
        Part::LongMonth => month.to_owned(),
        Part::Month => month[..3].to_owned(),
        Part::MonthNumber => t.month.to_string(),
        Part::ZeroMonth => format!("{:02}", t.month),
        Part::LongWeekday => weekday.to_owned(),
        Part::Weekday => weekday[..3].to_owned(),
        Part::Day => t.day.to_string(),
        Part::SpaceDay => format!("{:2}", t.day),
        Part::ZeroDay => format!("{:02}", t.day),
        Part::SpaceYearDay => format!("{:3}", t.year_day),
        Part::ZeroYearDay => format!("{:03}", t.year_day),
        Part::Hour => format!("{:02}", t.hour),
        Part::Hour12 => hour12.to_string(),
        Part::ZeroHour12 => format!("{hour12:02}"),
        Part::Minute => t.minute.to_string(),
        Part::ZeroMinute => format!("{:02}", t.minute),
        Part::Second => t.second.to_string(),
        Part::ZeroSecond => format!("{:02}", t.second),
        Part::LongYear if t.year < 0 => format!("-{:04}", -t.year),
        Part::LongYear => format!("{:04}", t.year),
        Part::Year => format!("{:02}", t.year.unsigned_abs() % 100),
        Part::UpperPm => if t.hour >= 12 { "PM" } else { "AM" }.to_owned(),
        Part::LowerPm => if t.hour >= 12 { "pm" } else { "am" }.to_owned(),
        Part::ZoneName if zone.is_empty() => write_offset(offset, Offset::HoursMinutes),
        Part::ZoneName => zone.to_owned(),
        Part::IsoOffset(_) if offset == 0 => "Z".to_owned(),
        Part::IsoOffset(style) | Part::NumericOffset(style) => write_offset(offset, style),
        Part::Fraction { digits, separator } => fraction(nanos, digits, separator, false),
        Part::TrimmedFraction { digits, separator } => fraction(nanos, digits, separator, true),
    };
    out.extend_from_slice(text.as_bytes());
}

fn write_offset(offset: i32, style: Offset) -> String {
    let sign = if offset / 60 < 0 { '-' } else { '+' };
    let minutes = (offset / 60).abs();
    let seconds = offset.abs() % 60;
    let colon = if style.has_colons() { ":" } else { "" };
    let mut out = format!("{sign}{:02}{colon}", minutes / 60);
    if style == Offset::Hours {
        return out;
    }
    out.push_str(&format!("{:02}", minutes % 60));
    if style.has_seconds() {
        out.push_str(&format!("{colon}{seconds:02}"));
    }
    out
}

fn fraction(nanos: u32, digits: usize, separator: u8, trim: bool) -> String {
    let mut text = format!("{nanos:09}");
    text.truncate(digits);
    if trim {
        let kept = text.trim_end_matches('0').len();
        text.truncate(kept);
        if text.is_empty() {
            return text;
        }
    }
    format!("{}{text}", char::from(separator))
}
