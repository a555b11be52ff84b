//! The formats of strings, by the rules that Kubernetes uses.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::model::JsonType;
use crate::time;

/// The format that counts for the declared types; unknown ones are ignored.
pub(super) fn usable<'f>(format: Option<&'f str>, types: &[JsonType]) -> Option<&'f str> {
    let format = format?;
    let counts = match types {
        [JsonType::Integer] => matches!(format, "int32" | "int64"),
        [JsonType::Number] => matches!(format, "float" | "double"),
        [JsonType::String] | [] | [_, _, ..] => is_known_format(format),
        _ => false,
    };
    counts.then_some(format)
}

/// Whether strings can be checked against a format; dashes in its name do not count.
pub fn is_known_format(format: &str) -> bool {
    check_of(format).is_some()
}

/// Whether a string has a format; any string has an unknown one.
pub fn matches_format(format: &str, text: &str) -> bool {
    check_of(format).is_none_or(|check| check(text))
}

fn check_of(format: &str) -> Option<fn(&str) -> bool> {
    Some(match format.replace('-', "").as_str() {
        "bsonobjectid" => {
            |text| text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
        "uri" => is_request_uri,
        "email" => is_email,
        "hostname" => is_hostname,
        "ipv4" => |text| text.contains('.') && is_ip(text),
        "ipv6" => |text| text.contains(':') && is_ip(text),
        "cidr" => is_cidr,
        "mac" => is_mac,
        "uuid" => |text| UUID.is_match(text),
        "uuid3" => |text| UUID3.is_match(text),
        "uuid4" => |text| UUID4.is_match(text),
        "uuid5" => |text| UUID5.is_match(text),
        "isbn" => |text| is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => |text| text.len() == 11 && SSN.is_match(text),
        "hexcolor" => |text| HEX_COLOR.is_match(text),
        "rgbcolor" => |text| RGB_COLOR.is_match(text),
        "byte" => is_base64,
        "password" => |_| true,
        "date" => is_date,
        "duration" => is_duration,
        "datetime" => is_date_time,
        "k8sshortname" => |text| text.len() <= 63 && SHORT_NAME.is_match(text),
        "k8slongname" => |text| text.len() <= 253 && LONG_NAME.is_match(text),
        _ => return None,
    })
}

/// A pattern of ours. None of them is wrong, which a test proves.
struct Fixed(Option<Regex>);

impl Fixed {
    fn new(pattern: &str) -> Self {
        Self(Regex::new(pattern).ok())
    }

    fn is_match(&self, text: &str) -> bool {
        self.0
            .as_ref()
            .is_some_and(|pattern| pattern.is_match(text))
    }

    fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        self.0.as_ref()?.captures(text)
    }

    fn all_captures<'t>(&self, text: &'t str) -> Vec<Captures<'t>> {
        self.0
            .iter()
            .flat_map(|pattern| pattern.captures_iter(text))
            .collect()
    }
}

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => {
        $(static $name: LazyLock<Fixed> = LazyLock::new(|| Fixed::new($pattern));)*

        #[cfg(test)]
        fn all_patterns() -> Vec<&'static Fixed> {
            vec![$(&$name),*]
        }
    };
}

patterns! {
    UUID = "(?i-u)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID3 = "(?i-u)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID4 = "(?i-u)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    UUID5 = "(?i-u)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    SSN = "^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$";
    HEX_COLOR = "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    RGB_COLOR = r"^rgb\([ \t]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[ \t]*,[ \t]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[ \t]*,[ \t]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[ \t]*\)$";
    CREDIT_CARD = "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$";
    SHORT_NAME = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
    LONG_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
    HOSTNAME = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    CLOCK = "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    AMOUNT = "([0-9]+)[ \t\n\r]*([A-Za-zµ]+)";
}

fn is_hostname(text: &str) -> bool {
    HOSTNAME.is_match(text) && text.len() <= 255 && text.split('.').all(|label| label.len() <= 63)
}

/// Leading zeros in the parts of an IPv4 address are tolerated.
fn is_ip(text: &str) -> bool {
    is_ipv4(text) || text.parse::<Ipv6Addr>().is_ok()
}

fn is_ipv4(text: &str) -> bool {
    without_leading_zeros(text).parse::<Ipv4Addr>().is_ok()
}

fn without_leading_zeros(text: &str) -> String {
    let trim = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };
    text.split('.').map(trim).collect::<Vec<_>>().join(".")
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let limit = if is_ipv4(address) {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    digits && length.parse::<u32>().is_ok_and(|length| length <= limit)
}

/// 6, 8 or 20 bytes with colons or dashes, or in groups of two bytes with dots.
fn is_mac(text: &str) -> bool {
    let groups = |separator: char, width: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len())
            && parts.iter().all(|part| {
                part.len() == width && part.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
    };
    groups(':', 2, &[6, 8, 20]) || groups('-', 2, &[6, 8, 20]) || groups('.', 4, &[3, 4, 10])
}

fn digits_without_spaces(text: &str) -> Vec<u8> {
    text.bytes()
        .filter(|byte| !byte.is_ascii_whitespace() && *byte != b'-')
        .collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = digits_without_spaces(text);
    if digits.len() != 10 {
        return false;
    }
    let value = |at: usize, byte: u8| match byte {
        b'0'..=b'9' => Some(u32::from(byte - b'0')),
        b'X' if at == 9 => Some(10),
        _ => None,
    };
    let sum: Option<u32> = digits
        .iter()
        .enumerate()
        .map(|(at, byte)| Some((at as u32 + 1) * value(at, *byte)?))
        .sum();
    sum.is_some_and(|sum| sum % 11 == 0)
}

fn is_isbn13(text: &str) -> bool {
    let digits = digits_without_spaces(text);
    if digits.len() != 13 {
        return false;
    }
    let sum: Option<u32> = digits
        .iter()
        .enumerate()
        .map(|(at, byte)| {
            byte.is_ascii_digit()
                .then(|| u32::from(byte - b'0') * if at % 2 == 0 { 1 } else { 3 })
        })
        .sum();
    sum.is_some_and(|sum| sum % 10 == 0)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let weighted = |(at, byte): (usize, u8)| match (at % 2, u32::from(byte - b'0')) {
        (0, digit) => digit,
        (_, digit) => digit * 2 / 10 + digit * 2 % 10,
    };
    CREDIT_CARD.is_match(&digits)
        && digits.bytes().rev().enumerate().map(weighted).sum::<u32>() % 10 == 0
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    let alphabet = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    !text.is_empty() && text.len().is_multiple_of(4) && padding <= 2 && body.bytes().all(alphabet)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && time::parse(&format!("{text}T00:00:00Z")).is_some()
}

fn is_date_time(text: &str) -> bool {
    is_usual_date_time(text) || is_any_date_time(text)
}

/// Whether a text is a time as servers write it: in whole seconds, UTC, of these centuries, and on a day that every
/// month has. False means unknown: run the full check.
fn is_usual_date_time(text: &str) -> bool {
    const SHAPE: &[u8; 20] = b"0000-00-00T00:00:00Z";
    let Ok(bytes) = <&[u8; 20]>::try_from(text.as_bytes()) else {
        return false;
    };
    let is_shaped = |(byte, shape): (&u8, &u8)| match shape {
        b'0' => byte.is_ascii_digit(),
        _ => byte == shape,
    };
    let pair = |at: usize| (bytes[at], bytes[at + 1]);
    bytes.iter().zip(SHAPE).all(is_shaped)
        && matches!(bytes[0], b'1' | b'2')
        && (pair(5) > (b'0', b'0') && pair(5) <= (b'1', b'2'))
        && (pair(8) > (b'0', b'0') && pair(8) <= (b'2', b'8'))
        && (pair(11) <= (b'2', b'3') && pair(14) <= (b'5', b'9') && pair(17) <= (b'5', b'9'))
}

fn is_any_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(clock)) = (parts.next(), parts.next()) else {
        return false;
    };
    let Some(found) = CLOCK.captures(clock) else {
        return false;
    };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

/// Go's durations, or amounts with spelled-out units somewhere in the text.
fn is_duration(text: &str) -> bool {
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    if is_go_duration(text) {
        return true;
    }
    let mut found = false;
    for amount in AMOUNT.all_captures(text) {
        if amount[1].parse::<i64>().is_err() {
            return false;
        }
        let unit = amount[2].to_lowercase();
        found |= UNITS.iter().any(|names| {
            names.contains(&unit.as_str())
                || names
                    .last()
                    .is_some_and(|longest| unit.starts_with(longest))
        });
    }
    found
}

fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || *byte == b'.')
            .count();
        let (amount, after) = rest.split_at(number);
        if amount.matches('.').count() > 1 || !amount.bytes().any(|byte| byte.is_ascii_digit()) {
            return false;
        }
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let unit = after
            .find(|character: char| character.is_ascii_digit() || character == '.')
            .unwrap_or(after.len());
        if !units.contains(&&after[..unit]) {
            return false;
        }
        rest = &after[unit..];
    }
    true
}

/// What Go's `url.ParseRequestURI` takes.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(text) else {
        return false;
    };
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    let path = match rest.strip_prefix("//") {
        Some(after) if !scheme.is_empty() || !rest.starts_with("///") => {
            let end = after.find('/').unwrap_or(after.len());
            if !is_authority(&after[..end]) {
                return false;
            }
            &after[end..]
        }
        _ => rest,
    };
    has_valid_escapes(path)
}

/// Splits off the scheme; nothing when the text begins with a colon or has a bad scheme.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' => return Some(("", text)),
            b':' => return (at > 0).then(|| (&text[..at], &text[at + 1..])),
            _ => return Some(("", text)),
        }
    }
    Some(("", text))
}

fn is_authority(authority: &str) -> bool {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (user, host),
        None => ("", authority),
    };
    let user_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(user_byte) || !has_valid_escapes(user) {
        return false;
    }
    let is_port = |port: &str| {
        port.is_empty()
            || port
                .strip_prefix(':')
                .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if let Some(inside) = host.strip_prefix('[') {
        return inside
            .rsplit_once(']')
            .is_some_and(|(_, port)| is_port(port));
    }
    let (name, port) = match host.find(':') {
        Some(at) => host.split_at(host.rfind(':').unwrap_or(at)),
        None => (host, ""),
    };
    let host_byte = |byte: u8| {
        byte.is_ascii_alphanumeric() || byte >= 0x80 || b"-._~!$&'()*+,;=:[]<>\"%".contains(&byte)
    };
    is_port(port) && name.bytes().all(host_byte) && has_valid_escapes(name)
}

fn has_valid_escapes(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|after| after.len() >= 2 && after.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()))
}

/// An address with or without a display name.
fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let address = match (text.find('<'), text.strip_suffix('>')) {
        (Some(at), Some(inside)) => &inside[at + 1..],
        _ => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let atom = |byte: u8| {
        byte.is_ascii_alphanumeric() || byte >= 0x80 || b"!#$%&'*+-/=?^_`{|}~".contains(&byte)
    };
    let dot_atom = |text: &str| {
        text.split('.')
            .all(|part| !part.is_empty() && part.bytes().all(atom))
    };
    let quoted = |text: &str| text.len() > 2 && text.starts_with('"') && text.ends_with('"');
    let literal = |text: &str| {
        text.strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .is_some_and(is_ip)
    };
    (dot_atom(local) || quoted(local)) && (dot_atom(domain) || literal(domain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_patterns_compile() {
        assert!(all_patterns().iter().all(|pattern| pattern.0.is_some()));
    }

    #[test]
    fn usual_times_are_times() {
        let mut found = 0;
        let years = [
            "0000", "0999", "1000", "1970", "2024", "2999", "3000", "20x4",
        ];
        for year in years {
            for two in 0..100 {
                let texts = [
                    format!("{year}-{two:02}-10T10:10:10Z"),
                    format!("{year}-02-{two:02}T10:10:10Z"),
                    format!("{year}-12-10T{two:02}:10:10Z"),
                    format!("{year}-12-10T10:{two:02}:10Z"),
                    format!("{year}-12-10T10:10:{two:02}Z"),
                    format!("{year}-12-10t10:10:{two:02}z"),
                    format!("{year}-12-10T10:10:{two:02}.5Z"),
                    format!("{year}-12-10T10:10.{two:02}Z"),
                ];
                for text in texts {
                    let is_usual = is_usual_date_time(&text);
                    assert!(!is_usual || is_any_date_time(&text), "{text}");
                    found += usize::from(is_usual);
                }
            }
        }
        assert_eq!(found, 4 * (12 + 28 + 24 + 60 + 60));
    }

    #[test]
    fn formats_accept_and_refuse() {
        let cases = [
            (
                "uri",
                vec![
                    "http://a",
                    "https://u:p@a:80/b?c%zz",
                    "/a",
                    "*",
                    "mailto:x",
                    "a:b",
                ],
                vec![
                    "",
                    "::",
                    "a",
                    "http://a b",
                    "http://a:x",
                    "http://[::1",
                    "/%zz",
                ],
            ),
            (
                "email",
                vec!["a@b", "A <a@b.c>", "\"a b\"@c", "a.b@[1.2.3.4]"],
                vec!["x", "a@", "@b", "a..b@c", "a b@c"],
            ),
            (
                "hostname",
                vec!["a", "a.example", "xn--a.com"],
                vec!["a_b!", "", "a..b"],
            ),
            (
                "ipv4",
                vec!["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"],
                vec!["1.2.3", "::1", "1.2.3.256"],
            ),
            (
                "ipv6",
                vec!["::1", "::ffff:1.2.3.4"],
                vec!["1.2.3.4", ":::", "g::"],
            ),
            (
                "cidr",
                vec!["1.2.3.0/24", "::/0"],
                vec!["1.2.3.4", "1.2.3.4/33", "::/129", "1.2.3.4/"],
            ),
            (
                "mac",
                vec!["01:23:45:67:89:ab", "0123.4567.89ab"],
                vec!["01:23", "01:23:45:67:89:zz"],
            ),
            (
                "uuid",
                vec![
                    "123e4567-e89b-12d3-a456-426614174000",
                    "123E4567E89B12D3A456426614174000",
                ],
                vec!["x"],
            ),
            (
                "uuid4",
                vec!["123e4567-e89b-42d3-a456-426614174000"],
                vec!["123e4567-e89b-12d3-a456-426614174000"],
            ),
            ("isbn10", vec!["0321751043"], vec!["0321751044", ""]),
            ("isbn13", vec!["978-0321751041"], vec!["978-0321751042"]),
            (
                "creditcard",
                vec!["4111 1111 1111 1111"],
                vec!["4111111111111112", "1"],
            ),
            ("ssn", vec!["111-11-1111"], vec!["111111111"]),
            ("hexcolor", vec!["#fff", "FFFFFF"], vec!["#ff"]),
            ("rgbcolor", vec!["rgb(1,20,255)"], vec!["rgb(1,2,256)"]),
            ("byte", vec!["YQ==", "YWJj"], vec!["", "@@", "YQ=", "YQ"]),
            (
                "date",
                vec!["2020-02-29"],
                vec!["2020-13-01", "2021-02-29", "2020-1-1"],
            ),
            (
                "duration",
                vec!["1h", "0", "-1.5h30m", "22 ns", "3 days"],
                vec!["1x", "", "h"],
            ),
            (
                "date-time",
                vec!["2020-01-01T00:00:00Z", "2020-01-01t00:00:00.5+01:00"],
                vec!["x", "2020-01-01", "2020-01-01T24:00:00Z"],
            ),
            ("k8s-short-name", vec!["a-b"], vec!["A", "-a", "a.b"]),
            ("k8s-long-name", vec!["a.b-c"], vec!["a..b"]),
            (
                "bsonobjectid",
                vec!["507f1f77bcf86cd799439011"],
                vec!["507f"],
            ),
            ("password", vec!["", "x"], vec![]),
        ];
        for (format, good, bad) in cases {
            assert!(is_known_format(format), "{format}");
            for text in good {
                assert!(matches_format(format, text), "{format} {text:?}");
            }
            for text in bad {
                assert!(!matches_format(format, text), "{format} {text:?}");
            }
        }
        assert!(!is_known_format("int32") && matches_format("unheard-of", "x"));
    }
}
