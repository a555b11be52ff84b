//! Parts of moments and spans.

use super::{Outcome, failed, int};
use crate::time::parse_offset;
use crate::value::Value;

pub(super) fn call(name: &str, args: &[Value]) -> Option<Outcome> {
    match args {
        [Value::Duration(duration)] => {
            let nanos = duration.0;
            match name {
                "getHours" => int(nanos / 3_600_000_000_000),
                "getMinutes" => int(nanos / 60_000_000_000),
                "getSeconds" => int(nanos / 1_000_000_000),
                "getMilliseconds" => int(nanos / 1_000_000),
                _ => None,
            }
        }
        [Value::Timestamp(timestamp), zone @ ..] => {
            let offset = match zone {
                [] => 0,
                [Value::String(zone)] => match parse_offset(zone) {
                    Some(offset) => offset,
                    None if name.starts_with("get") => {
                        return failed(format!("unknown time zone {zone}"));
                    }
                    None => return None,
                },
                _ => return None,
            };
            let calendar = timestamp.calendar(offset);
            match name {
                "getFullYear" => int(calendar.year),
                "getMonth" => int(calendar.month - 1),
                "getDate" => int(calendar.day),
                "getDayOfMonth" => int(calendar.day - 1),
                "getDayOfWeek" => int(calendar.weekday),
                "getDayOfYear" => int(calendar.day_of_year),
                "getHours" => int(calendar.hour),
                "getMinutes" => int(calendar.minute),
                "getSeconds" => int(calendar.second),
                "getMilliseconds" => int(i64::from(timestamp.nanos) / 1_000_000),
                _ => None,
            }
        }
        _ => None,
    }
}
