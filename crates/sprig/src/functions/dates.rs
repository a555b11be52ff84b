use everflow_gotemplate::GoType::{Any, Float64, Int64, String as Str};
use everflow_gotemplate::{FuncError, FuncResult, Value};

use super::Registry;
use super::math::lenient_int;
use crate::Source;
use crate::number::to_duration;
use crate::objects::{DURATION, DurationObject, TIME, TimeObject, duration_value, time_value};
use crate::time::{Duration, Time, Zone, load_zone};

const HOUR: i64 = 3_600_000_000_000;
const MINUTE: i64 = 60_000_000_000;
const SECOND: i64 = 1_000_000_000;

fn now(source: &mut dyn Source) -> Time {
    let (seconds, nanos) = source.now();
    let mut time = Time::from_unix(seconds, nanos);
    time.monotonic = Some(0);
    time
}

/// A time out of a time or Unix seconds; `None` for anything else.
fn as_time(value: &Value) -> Option<Time> {
    match value {
        Value::Int(seconds) | Value::Int64(seconds) => Some(Time::from_unix(*seconds, 0)),
        other => other
            .as_object::<TimeObject>()
            .map(|object| object.0.clone()),
    }
}

fn given_time(value: &Value) -> Result<&Time, FuncError> {
    let object = value.as_object::<TimeObject>().map(|object| &object.0);
    object.ok_or_else(|| FuncError::new("argument should be a time.Time"))
}

fn date_in_zone(
    source: &mut dyn Source,
    layout: &[u8],
    date: &Value,
    zone: Option<&[u8]>,
) -> FuncResult {
    let time = match date {
        Value::Int32(seconds) => Time::from_unix(i64::from(*seconds), 0),
        other => as_time(other).unwrap_or_else(|| now(source)),
    };
    let zone = zone
        .and_then(|name| std::str::from_utf8(name).ok())
        .and_then(load_zone)
        .unwrap_or_else(Zone::utc);
    Ok(Value::string(time.in_zone(zone).format(layout)))
}

pub(super) fn register(r: &mut Registry<'_>) {
    register_dates(r);
    register_parsing(r);
    register_duration_texts(r);
    register_durations(r);
}

fn register_dates(r: &mut Registry<'_>) {
    r.with_source("now", &[], TIME, |s, _| Ok(time_value(now(s))));
    r.with_source("date", &[Str, Any], Str, |s, a| {
        date_in_zone(s, a.text(0)?.as_bytes(), a.get(1), None)
    });
    for name in ["dateInZone", "date_in_zone"] {
        r.with_source(name, &[Str, Any, Str], Str, |s, a| {
            date_in_zone(
                s,
                a.text(0)?.as_bytes(),
                a.get(1),
                Some(a.text(2)?.as_bytes()),
            )
        });
    }
    r.with_source("htmlDate", &[Any], Str, |s, a| {
        date_in_zone(s, b"2006-01-02", a.get(0), None)
    });
    r.with_source("htmlDateInZone", &[Any, Str], Str, |s, a| {
        date_in_zone(s, b"2006-01-02", a.get(0), Some(a.text(1)?.as_bytes()))
    });
    r.with_source("ago", &[Any], Str, |s, a| {
        let now = now(s);
        let then = as_time(a.get(0)).unwrap_or_else(|| now.clone());
        Ok(Value::string(
            now.since(&then).round(Duration(SECOND)).to_string(),
        ))
    });
    r.add("unixEpoch", &[TIME], Str, |a| {
        Ok(Value::string(given_time(a.get(0))?.unix().to_string()))
    });
    for name in ["dateModify", "date_modify"] {
        r.add(name, &[Str, TIME], TIME, |a| {
            let time = given_time(a.get(1))?;
            Ok(match Duration::parse(a.text(0)?.as_bytes()) {
                Ok(duration) => time_value(time.add(duration)),
                Err(_) => a.get(1).clone(),
            })
        });
    }
    for name in ["mustDateModify", "must_date_modify"] {
        r.add(name, &[Str, TIME], TIME, |a| {
            let duration = Duration::parse(a.text(0)?.as_bytes()).map_err(FuncError::new)?;
            Ok(time_value(given_time(a.get(1))?.add(duration)))
        });
    }
}

fn register_parsing(r: &mut Registry<'_>) {
    r.add("toDate", &[Str, Str], TIME, |a| {
        let parsed = Time::parse(a.text(0)?.as_bytes(), a.text(1)?.as_bytes());
        Ok(time_value(parsed.unwrap_or_else(|_| Time::zero())))
    });
    r.add("mustToDate", &[Str, Str], TIME, |a| {
        let parsed = Time::parse(a.text(0)?.as_bytes(), a.text(1)?.as_bytes());
        parsed.map(time_value).map_err(FuncError::new)
    });
}

fn register_duration_texts(r: &mut Registry<'_>) {
    r.add("duration", &[Any], Str, |a| {
        let seconds = match a.get(0) {
            Value::String(text) => lenient_int(text.as_bytes()),
            Value::Int64(seconds) => *seconds,
            _ => 0,
        };
        Ok(Value::string(
            Duration(seconds.wrapping_mul(SECOND)).to_string(),
        ))
    });
    r.with_source("durationRound", &[Any], Str, |s, a| {
        let duration = match a.get(0) {
            Value::String(text) => Duration::parse(text.as_bytes()).unwrap_or(Duration(0)),
            Value::Int64(nanos) => Duration(*nanos),
            other => match other.as_object::<TimeObject>() {
                Some(time) => now(s).since(&time.0),
                None => Duration(0),
            },
        };
        Ok(Value::string(rough(duration)))
    });
}

/// The largest unit of which there is more than one, and how many.
fn rough(duration: Duration) -> String {
    let nanos = duration.0.unsigned_abs();
    let units = [
        (365 * 24 * HOUR, "y"),
        (30 * 24 * HOUR, "mo"),
        (24 * HOUR, "d"),
        (HOUR, "h"),
        (MINUTE, "m"),
        (SECOND, "s"),
    ];
    for (unit, name) in units {
        let unit = unit.unsigned_abs();
        if nanos > unit {
            return format!("{}{name}", nanos / unit);
        }
    }
    "0s".to_owned()
}

fn register_durations(r: &mut Registry<'_>) {
    r.add("mustToDuration", &[Any], DURATION, |a| {
        to_duration(a.get(0))
            .map(duration_value)
            .map_err(FuncError::new)
    });
    macro_rules! measured {
        ($name:literal, $result:expr, $convert:expr) => {
            r.add($name, &[Any], $result, |a| {
                let convert: fn(Duration) -> Value = $convert;
                Ok(convert(to_duration(a.get(0)).unwrap_or(Duration(0))))
            });
        };
    }
    measured!("durationNanoseconds", Int64, |d| Value::Int64(d.0));
    measured!("durationMicroseconds", Int64, |d| Value::Int64(d.0 / 1000));
    measured!("durationMilliseconds", Int64, |d| Value::Int64(
        d.0 / 1_000_000
    ));
    measured!("durationSeconds", Float64, |d| Value::Float64(
        d.in_units(SECOND)
    ));
    measured!("durationMinutes", Float64, |d| Value::Float64(
        d.in_units(MINUTE)
    ));
    measured!("durationHours", Float64, |d| Value::Float64(
        d.in_units(HOUR)
    ));
    measured!("durationDays", Float64, |d| Value::Float64(
        d.in_units(HOUR) / 24.0
    ));
    measured!("durationWeeks", Float64, |d| Value::Float64(
        d.in_units(HOUR) / 24.0 / 7.0
    ));
    r.add("durationRoundTo", &[Any, Any], DURATION, |a| {
        Ok(adjusted(a.get(0), a.get(1), Duration::round))
    });
    r.add("durationTruncateTo", &[Any, Any], DURATION, |a| {
        Ok(adjusted(a.get(0), a.get(1), Duration::truncate))
    });
}

/// What is no duration counts as zero; what is no multiple changes nothing.
fn adjusted(value: &Value, multiple: &Value, by: fn(Duration, Duration) -> Duration) -> Value {
    let Ok(duration) = to_duration(value) else {
        return Value::object(DurationObject(Duration(0)));
    };
    match to_duration(multiple) {
        Ok(multiple) => duration_value(by(duration, multiple)),
        Err(_) => duration_value(duration),
    }
}
