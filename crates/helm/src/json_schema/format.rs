//! The `format` keyword, which drafts before 2019-09 enforce.

use std::net::{Ipv4Addr, Ipv6Addr};

use everflow_json::Value;
use regex::Regex;

/// Checks a string against a known format; other values and unknown formats pass.
pub(super) fn check(name: &str, value: &Value) -> Result<(), String> {
    let Value::String(text) = value else {
        return Ok(());
    };
    let valid = match name {
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "hostname" => is_hostname(text),
        "email" => is_email(text),
        "date" => is_date(text),
        "time" => is_time(text),
        "date-time" => text
            .split_once(['T', 't'])
            .is_some_and(|(date, time)| is_date(date) && is_time(time)),
        "uri" => has_scheme(text),
        "uri-reference" => !text.contains([' ', '\\']),
        "uuid" => matches_pattern(
            text,
            "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
        ),
        "regex" => {
            return Regex::new(text)
                .map(drop)
                .map_err(|error| error.to_string());
        }
        "json-pointer" => text.is_empty() || text.starts_with('/'),
        "duration" => matches_pattern(
            text,
            "^P([0-9]+W|([0-9]+Y)?([0-9]+M)?([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+S)?)?)$",
        ),
        _ => true,
    };
    match valid {
        true => Ok(()),
        false => Err(format!("not a valid {name}")),
    }
}

fn matches_pattern(text: &str, pattern: &str) -> bool {
    Regex::new(pattern).is_ok_and(|regex| regex.is_match(text))
}

fn is_hostname(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    text.len() <= 253
        && text.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-')
        })
}

fn is_email(text: &str) -> bool {
    text.rsplit_once('@').is_some_and(|(local, domain)| {
        !local.is_empty() && local.len() <= 64 && !local.contains(' ') && is_hostname(domain)
    })
}

fn has_scheme(text: &str) -> bool {
    matches_pattern(text, r"^[A-Za-z][A-Za-z0-9+.-]*:[^\s\\]*$")
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else {
        return false;
    };
    if [year.len(), month.len(), day.len()] != [4, 2, 2] {
        return false;
    }
    let (Ok(year), Ok(month), Ok(day)) = (
        year.parse::<u32>(),
        month.parse::<u32>(),
        day.parse::<u32>(),
    ) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_time(text: &str) -> bool {
    matches_pattern(
        text,
        r"^([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$",
    )
}
