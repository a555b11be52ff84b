//! RFC 3339 times as Kubernetes writes them, from and to seconds since 1970 in UTC.

use everflow_time::{Timestamp, days_in_month, unix_seconds};

/// Writes a time in whole seconds, or with six decimals.
pub(crate) fn format(seconds: i64, nanos: i64, micro: bool) -> String {
    let moment = Timestamp {
        seconds,
        nanos: u32::try_from(nanos).unwrap_or(0),
    };
    match micro {
        true => moment.rfc3339_micro(),
        false => moment.rfc3339(),
    }
}

/// Reads an RFC 3339 time: seconds and nanoseconds.
pub(crate) fn parse(text: &str) -> Option<(i64, i64)> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| digits.parse().ok())?
    };
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if separators
        .iter()
        .any(|(at, wanted)| bytes.get(*at) != Some(wanted))
    {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let in_range = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !in_range {
        return None;
    }
    let rest = text.get(19..)?;
    let (nanos, zone) = match rest.strip_prefix('.') {
        None => (0, rest),
        Some(rest) => {
            let length = rest.bytes().take_while(u8::is_ascii_digit).count();
            let digits = rest.get(..length).filter(|digits| !digits.is_empty())?;
            let nine: String = digits.chars().chain("000000000".chars()).take(9).collect();
            (nine.parse().ok()?, rest.get(length..)?)
        }
    };
    let seconds = unix_seconds((year, month, day), (hour, minute, second));
    Some((seconds - offset(zone)?, nanos))
}

fn offset(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let two = |text: &str| {
        (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| text.parse::<i64>().ok())?
    };
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    // As Go does: some write offsets of 24 hours or 60 minutes.
    (hours <= 24 && minutes <= 60).then_some(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_back_as_written() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2024-02-29T23:59:59Z",
            "0001-01-01T00:00:00Z",
            "9999-12-31T00:00:00Z",
        ] {
            let (seconds, nanos) = parse(text).unwrap();
            assert_eq!(format(seconds, nanos, false), text);
        }
        assert_eq!(
            parse("2020-01-01T01:00:00.5+01:00"),
            Some((1_577_836_800, 500_000_000))
        );
        assert_eq!(
            format(1_577_836_800, 123_456_789, true),
            "2020-01-01T00:00:00.123456Z"
        );
    }

    #[test]
    fn invalid_time_is_refused() {
        for text in [
            "",
            "2020-02-30T00:00:00Z",
            "2020-01-01",
            "2020-01-01T00:00:00",
            "2020-01-01T00:00:00.Z",
            "2020-01-01T00:00:00+1:00",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
