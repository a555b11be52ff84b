//! Reading times by a layout.

use super::civil::{days_in, is_leap, unix_seconds};
use super::layout::{MONTHS, Offset, Part, WEEKDAYS, next_part};
use super::{Time, Zone, quoted};

/// Why a part could not be read.
enum Fault {
    /// The text does not fit the part.
    Bad,
    /// The number does not fit its range, named here.
    Range(&'static str),
}

type Read<T> = Result<T, Fault>;

#[derive(Default)]
struct Parts {
    year: i64,
    month: Option<i64>,
    day: Option<i64>,
    year_day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanos: u32,
    afternoon: bool,
    morning: bool,
    utc: bool,
    offset: Option<i32>,
    zone_name: Vec<u8>,
}

/// Reads `text` by `layout`. The error is Go's text.
pub(crate) fn parse(layout: &[u8], text: &[u8]) -> Result<Time, String> {
    let mismatch = |element: &[u8], part: &[u8]| {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quoted(text),
            quoted(layout),
            quoted(element),
            quoted(part)
        )
    };
    let mut parts = Parts::default();
    let mut rest_layout = layout;
    let mut value = text;
    loop {
        let (prefix, part, tail) = next_part(rest_layout);
        let part_text = &rest_layout[prefix.len()..rest_layout.len() - tail.len()];
        value = skip(value, prefix).map_err(|at| mismatch(at, prefix))?;
        let Some(part) = part else {
            if !value.is_empty() {
                return Err(format!(
                    "parsing time {}: extra text: {}",
                    quoted(text),
                    quoted(value)
                ));
            }
            break;
        };
        rest_layout = tail;
        let before = value;
        match read_part(&mut parts, part, &mut value, tail) {
            Ok(()) => {}
            Err(Fault::Bad) => return Err(mismatch(before, part_text)),
            Err(Fault::Range(what)) => {
                return Err(format!(
                    "parsing time {}: {what} out of range",
                    quoted(text)
                ));
            }
        }
    }
    parts
        .into_time()
        .map_err(|complaint| format!("parsing time {}: {complaint}", quoted(text)))
}

/// Skips literal text; runs of spaces match any number of spaces.
fn skip<'a>(mut value: &'a [u8], mut prefix: &[u8]) -> Result<&'a [u8], &'a [u8]> {
    let trim = |text: &[u8]| text.iter().take_while(|&&b| b == b' ').count();
    while let Some(&first) = prefix.first() {
        if first == b' ' {
            if value.first().is_some_and(|&b| b != b' ') {
                return Err(value);
            }
            prefix = &prefix[trim(prefix)..];
            value = &value[trim(value)..];
            continue;
        }
        if value.first() != Some(&first) {
            return Err(value);
        }
        prefix = &prefix[1..];
        value = &value[1..];
    }
    Ok(value)
}

fn take<'a>(value: &mut &'a [u8], len: usize) -> Read<&'a [u8]> {
    let (head, tail) = value.split_at_checked(len).ok_or(Fault::Bad)?;
    *value = tail;
    Ok(head)
}

fn starts_with_digit(value: &[u8]) -> bool {
    value.first().is_some_and(u8::is_ascii_digit)
}

/// A whole number with an optional sign.
fn whole(text: &[u8]) -> Read<i64> {
    let (negative, digits) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let mut value: i64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(Fault::Bad);
        }
        value = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(i64::from(digit - b'0')))
            .ok_or(Fault::Bad)?;
    }
    Ok(if negative { -value } else { value })
}

/// One or two digits, exactly two if `fixed`.
fn two_digits(value: &mut &[u8], fixed: bool) -> Read<i64> {
    if !starts_with_digit(value) {
        return Err(Fault::Bad);
    }
    let len = if starts_with_digit(&value[1..]) { 2 } else { 1 };
    if fixed && len == 1 {
        return Err(Fault::Bad);
    }
    whole(take(value, len)?)
}

fn three_digits(value: &mut &[u8], fixed: bool) -> Read<i64> {
    let len = value
        .iter()
        .take(3)
        .take_while(|b| b.is_ascii_digit())
        .count();
    if len == 0 || fixed && len != 3 {
        return Err(Fault::Bad);
    }
    whole(take(value, len)?)
}

fn name(value: &mut &[u8], names: &[&str], len: Option<usize>) -> Read<i64> {
    for (index, name) in names.iter().enumerate() {
        let name = &name.as_bytes()[..len.unwrap_or(name.len())];
        if value.len() >= name.len() && value[..name.len()].eq_ignore_ascii_case(name) {
            *value = &value[name.len()..];
            return Ok(index as i64);
        }
    }
    Err(Fault::Bad)
}

fn in_range(number: i64, range: std::ops::Range<i64>, what: &'static str) -> Read<i64> {
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(Fault::Range(what))
    }
}

fn read_part(parts: &mut Parts, part: Part, value: &mut &[u8], tail: &[u8]) -> Read<()> {
    match part {
        Part::Year => {
            let year = whole(take(value, 2)?)?;
            parts.year = year + if year >= 69 { 1900 } else { 2000 };
        }
        Part::LongYear => {
            if value.len() < 4 || !starts_with_digit(value) {
                return Err(Fault::Bad);
            }
            parts.year = whole(take(value, 4)?)?;
        }
        Part::Month => parts.month = Some(name(value, &MONTHS, Some(3))? + 1),
        Part::LongMonth => parts.month = Some(name(value, &MONTHS, None)? + 1),
        Part::MonthNumber | Part::ZeroMonth => {
            let month = two_digits(value, part == Part::ZeroMonth)?;
            parts.month = Some(in_range(month, 1..13, "month")?);
        }
        Part::Weekday => drop(name(value, &WEEKDAYS, Some(3))?),
        Part::LongWeekday => drop(name(value, &WEEKDAYS, None)?),
        Part::Day | Part::SpaceDay | Part::ZeroDay => {
            if part == Part::SpaceDay {
                *value = value.strip_prefix(b" ").unwrap_or(value);
            }
            parts.day = Some(two_digits(value, part == Part::ZeroDay)?);
        }
        Part::SpaceYearDay | Part::ZeroYearDay => {
            if part == Part::SpaceYearDay {
                *value = value.strip_prefix(b" ").unwrap_or(value);
                *value = value.strip_prefix(b" ").unwrap_or(value);
            }
            parts.year_day = Some(three_digits(value, part == Part::ZeroYearDay)?);
        }
        Part::Hour => parts.hour = in_range(two_digits(value, false)?, 0..24, "hour")?,
        Part::Hour12 | Part::ZeroHour12 => {
            let hour = two_digits(value, part == Part::ZeroHour12)?;
            parts.hour = in_range(hour, 0..13, "hour")?;
        }
        Part::Minute | Part::ZeroMinute => {
            let minute = two_digits(value, part == Part::ZeroMinute)?;
            parts.minute = in_range(minute, 0..60, "minute")?;
        }
        Part::Second | Part::ZeroSecond => {
            let second = two_digits(value, part == Part::ZeroSecond)?;
            parts.second = in_range(second, 0..60, "second")?;
            read_unasked_fraction(parts, value, tail)?;
        }
        Part::UpperPm => read_half(parts, value, b"PM", b"AM")?,
        Part::LowerPm => read_half(parts, value, b"pm", b"am")?,
        Part::IsoOffset(_) if value.first() == Some(&b'Z') => {
            *value = &value[1..];
            parts.utc = true;
        }
        Part::IsoOffset(style) | Part::NumericOffset(style) => {
            parts.offset = Some(read_offset(value, style)?);
        }
        Part::ZoneName if value.starts_with(b"UTC") => {
            *value = &value[3..];
            parts.utc = true;
        }
        Part::ZoneName => {
            let len = zone_name_len(value).ok_or(Fault::Bad)?;
            parts.zone_name = take(value, len)?.to_vec();
        }
        Part::Fraction { digits, .. } => {
            parts.nanos = nanoseconds(take(value, digits + 1)?)?;
        }
        Part::TrimmedFraction { .. } => {
            if has_fraction(value) {
                parts.nanos = take_fraction(value)?;
            }
        }
    }
    Ok(())
}

fn has_fraction(value: &[u8]) -> bool {
    matches!(value.first(), Some(b'.' | b',')) && starts_with_digit(&value[1..])
}

fn take_fraction(value: &mut &[u8]) -> Read<u32> {
    let digits = value[1..].iter().take_while(|b| b.is_ascii_digit()).count();
    nanoseconds(take(value, digits + 1)?)
}

/// Seconds may have a fraction even if the layout has none.
fn read_unasked_fraction(parts: &mut Parts, value: &mut &[u8], tail: &[u8]) -> Read<()> {
    let asked = matches!(
        next_part(tail).1,
        Some(Part::Fraction { .. } | Part::TrimmedFraction { .. })
    );
    if has_fraction(value) && !asked {
        parts.nanos = take_fraction(value)?;
    }
    Ok(())
}

/// `.5` is five hundred million; digits after the ninth do not count.
fn nanoseconds(text: &[u8]) -> Read<u32> {
    if !matches!(text.first(), Some(b'.' | b',')) {
        return Err(Fault::Bad);
    }
    let digits = &text[1..text.len().min(10)];
    let value = whole(digits)?;
    if value < 0 {
        return Err(Fault::Range("fractional second"));
    }
    Ok(value as u32 * 10u32.pow(9 - digits.len() as u32))
}

fn read_half(parts: &mut Parts, value: &mut &[u8], after: &[u8], before: &[u8]) -> Read<()> {
    let half = take(value, 2)?;
    if half == after {
        parts.afternoon = true;
    } else if half == before {
        parts.morning = true;
    } else {
        return Err(Fault::Bad);
    }
    Ok(())
}

fn read_offset(value: &mut &[u8], style: Offset) -> Read<i32> {
    let len = match style {
        Offset::Hours => 3,
        Offset::HoursMinutes => 5,
        Offset::ColonMinutes => 6,
        Offset::HoursMinutesSeconds => 7,
        Offset::ColonSeconds => 9,
    };
    if value.len() < len {
        return Err(Fault::Bad);
    }
    let colon = usize::from(style.has_colons());
    if colon == 1 && (value[3] != b':' || style.has_seconds() && value[6] != b':') {
        return Err(Fault::Bad);
    }
    let text = take(value, len)?;
    let number = |from: usize| -> Read<i64> {
        match text.get(from..from + 2) {
            Some(mut digits) => two_digits(&mut digits, true),
            None => Ok(0),
        }
    };
    let hours = number(1)?;
    let minutes = if style == Offset::Hours {
        0
    } else {
        number(3 + colon)?
    };
    let seconds = if style.has_seconds() {
        number(5 + 2 * colon)?
    } else {
        0
    };
    for (part, most, what) in [
        (hours, 24, "time zone offset hour"),
        (minutes, 60, "time zone offset minute"),
        (seconds, 60, "time zone offset second"),
    ] {
        in_range(part, 0..most + 1, what)?;
    }
    let offset = ((hours * 60 + minutes) * 60 + seconds) as i32;
    match text[0] {
        b'+' => Ok(offset),
        b'-' => Ok(-offset),
        _ => Err(Fault::Bad),
    }
}

/// How long the zone abbreviation at the start of a text is.
fn zone_name_len(value: &[u8]) -> Option<usize> {
    if value.len() < 3 {
        return None;
    }
    if value.starts_with(b"ChST") || value.starts_with(b"MeST") {
        return Some(4);
    }
    if let Some(rest) = value.strip_prefix(b"GMT") {
        return Some(3 + signed_hours_len(rest));
    }
    if matches!(value[0], b'+' | b'-') {
        return Some(signed_hours_len(value)).filter(|&len| len > 0);
    }
    match value
        .iter()
        .take(6)
        .take_while(|b| b.is_ascii_uppercase())
        .count()
    {
        5 if value[4] == b'T' => Some(5),
        4 if value[3] == b'T' || value.starts_with(b"WITA") => Some(4),
        3 => Some(3),
        _ => None,
    }
}

fn signed_hours_len(value: &[u8]) -> usize {
    if !matches!(value.first(), Some(b'+' | b'-')) {
        return 0;
    }
    let digits = value[1..].iter().take_while(|b| b.is_ascii_digit()).count();
    match whole(&value[1..=digits]) {
        Ok(0..=23) if digits > 0 => 1 + digits,
        _ => 0,
    }
}

impl Parts {
    fn into_time(mut self) -> Result<Time, &'static str> {
        if self.afternoon && self.hour < 12 {
            self.hour += 12;
        } else if self.morning && self.hour == 12 {
            self.hour = 0;
        }
        let (month, day) = self.month_and_day()?;
        if day < 1 || day > i64::from(days_in(self.year, month)) {
            return Err("day out of range");
        }
        let time = self.hour * 3600 + self.minute * 60 + self.second;
        let seconds = unix_seconds(self.year, month, day, time);
        let (seconds, zone) = self.place(seconds);
        Ok(Time {
            seconds,
            nanos: self.nanos,
            zone,
            monotonic: None,
        })
    }

    fn month_and_day(&self) -> Result<(u8, i64), &'static str> {
        let Some(year_day) = self.year_day else {
            return Ok((self.month.unwrap_or(1) as u8, self.day.unwrap_or(1)));
        };
        // Day 366 of a year that is not a leap year and the like.
        let last = if is_leap(self.year) { 366 } else { 365 };
        if year_day < 1 || year_day > last {
            return Err("day-of-year out of range");
        }
        let (mut month, mut day) = (1, year_day);
        while day > i64::from(days_in(self.year, month)) {
            day -= i64::from(days_in(self.year, month));
            month += 1;
        }
        if self.month.is_some_and(|given| given != i64::from(month)) {
            return Err("day-of-year does not match month");
        }
        if self.day.is_some_and(|given| given != day) {
            return Err("day-of-year does not match day");
        }
        Ok((month, day))
    }

    /// Takes the zone into account, with UTC for the local one.
    fn place(&self, seconds: i64) -> (i64, Zone) {
        if self.utc {
            return (seconds, Zone::utc());
        }
        let name = String::from_utf8_lossy(&self.zone_name);
        // An offset of one second before UTC is taken for none: the original marks absence so.
        if let Some(offset) = self.offset.filter(|&offset| offset != -1) {
            if offset == 0 && (name.is_empty() || name == "UTC") {
                return (seconds, Zone::utc());
            }
            return (seconds - i64::from(offset), Zone::fixed(&name, offset));
        }
        if name.is_empty() {
            return (seconds, Zone::utc());
        }
        let hours = name
            .strip_prefix("GMT")
            .and_then(|hours| whole(hours.as_bytes()).ok());
        // The offset belongs to the name only; the clock is taken as written.
        let offset = hours.unwrap_or(0) as i32 * 3600;
        (seconds, Zone::fixed(&name, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_messages_match_go() {
        let fails =
            |layout: &str, text: &str| parse(layout.as_bytes(), text.as_bytes()).unwrap_err();
        assert_eq!(
            fails("2006-01-02", "hello"),
            "parsing time \"hello\" as \"2006-01-02\": cannot parse \"hello\" as \"2006\""
        );
        assert_eq!(
            fails("2006-01-02", "2023-02-30"),
            "parsing time \"2023-02-30\": day out of range"
        );
        assert_eq!(
            fails("2006-01-02", "2023-02-03x"),
            "parsing time \"2023-02-03x\": extra text: \"x\""
        );
        assert_eq!(
            fails("15:04", "25:00"),
            "parsing time \"25:00\": hour out of range"
        );
    }

    #[test]
    fn layouts_read_what_they_write() {
        for layout in [
            "2006-01-02T15:04:05Z07:00",
            "Mon Jan _2 15:04:05 2006",
            "Monday, 02-Jan-06 15:04:05 MST",
            "2006-01-02 03:04:05.000 PM",
        ] {
            let time = Time::from_unix(1_709_164_800 + 3600 * 15, 0);
            let text = time.format(layout.as_bytes());
            assert_eq!(parse(layout.as_bytes(), &text).unwrap(), time, "{layout}");
        }
    }
}
