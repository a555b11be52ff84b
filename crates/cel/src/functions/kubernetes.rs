//! Kubernetes' own functions.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use super::{Outcome, boolean, failed, int, text};
use crate::error::EvalError;
use crate::formats;
use crate::kubernetes::{Cidr, Quantity, Url, Version, parse_ip};
use crate::value::{Key, Value};

pub(super) fn call(name: &str, args: &[Value], method: bool) -> Option<Outcome> {
    quantity(name, args)
        .or_else(|| address(name, args))
        .or_else(|| range(name, args))
        .or_else(|| url(name, args))
        .or_else(|| version(name, args, method))
        .or_else(|| format(name, args))
}

fn quantity(name: &str, args: &[Value]) -> Option<Outcome> {
    let other = |value: &Value| match value {
        Value::Quantity(quantity) => Some(*quantity),
        Value::Int(value) => Some(Quantity::from_int(*value)),
        _ => None,
    };
    match (name, args) {
        ("quantity", [Value::String(value)]) => match Quantity::parse(value) {
            Some(quantity) => Some(Ok(Value::Quantity(quantity))),
            None => failed(
                "quantities must match the regular expression \
                 '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
        },
        ("isQuantity", [Value::String(value)]) => boolean(Quantity::parse(value).is_some()),
        ("sign", [Value::Quantity(value)]) => int(value.sign()),
        ("isInteger", [Value::Quantity(value)]) => boolean(value.as_integer().is_some()),
        ("asInteger", [Value::Quantity(value)]) => match value.as_integer() {
            Some(value) => int(value),
            None => failed("cannot convert value to integer"),
        },
        ("asApproximateFloat", [Value::Quantity(value)]) => {
            Some(Ok(Value::Double(value.as_float())))
        }
        ("add", [Value::Quantity(left), right]) => {
            Some(Ok(Value::Quantity(left.plus(other(right)?))))
        }
        ("sub", [Value::Quantity(left), right]) => {
            Some(Ok(Value::Quantity(left.minus(other(right)?))))
        }
        ("isGreaterThan", [Value::Quantity(left), Value::Quantity(right)]) => boolean(left > right),
        ("isLessThan", [Value::Quantity(left), Value::Quantity(right)]) => boolean(left < right),
        ("compareTo", [Value::Quantity(left), Value::Quantity(right)]) => {
            int(left.cmp(right) as i64)
        }
        _ => None,
    }
}

fn address(name: &str, args: &[Value]) -> Option<Outcome> {
    match (name, args) {
        ("ip", [Value::String(value)]) => match parse_ip(value) {
            Some(ip) => Some(Ok(Value::Ip(ip))),
            None => failed(format!(
                "IP Address {value:?} parse error during conversion from string: {}",
                ip_problem(value)
            )),
        },
        ("isIP", [Value::String(value)]) => boolean(parse_ip(value).is_some()),
        ("ip.isCanonical", [Value::String(value)]) => match parse_ip(value) {
            Some(ip) => boolean(ip.to_string() == **value),
            None => failed(format!(
                "IP Address {value:?} parse error during conversion from string: {}",
                ip_problem(value)
            )),
        },
        ("family", [Value::Ip(ip)]) => int(if ip.is_ipv4() { 4 } else { 6 }),
        ("isUnspecified", [Value::Ip(ip)]) => boolean(ip.is_unspecified()),
        ("isLoopback", [Value::Ip(ip)]) => boolean(ip.is_loopback()),
        ("isLinkLocalMulticast", [Value::Ip(ip)]) => boolean(match ip {
            IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
            IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
        }),
        ("isLinkLocalUnicast", [Value::Ip(ip)]) => boolean(match ip {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        }),
        ("isGlobalUnicast", [Value::Ip(ip)]) => boolean(is_global_unicast(*ip)),
        _ => None,
    }
}

/// Why a text is no address, in the words of Go.
fn ip_problem(text: &str) -> String {
    let (why, rest) = match text.find(['.', ':', '%']).map(|at| &text[at..=at]) {
        Some(".") => v4_problem(text),
        Some("%") => ("missing IPv6 address", ""),
        _ => ("unable to parse IP", ""),
    };
    match rest {
        "" => format!("ParseAddr({text:?}): {why}"),
        rest => format!("ParseAddr({text:?}): {why} (at {rest:?})"),
    }
}

fn v4_problem(text: &str) -> (&'static str, &str) {
    let bytes = text.as_bytes();
    let (mut value, mut digits, mut fields) = (0u32, 0, 0);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' if digits == 1 && value == 0 => {
                return ("IPv4 field has octet with leading zero", "");
            }
            b'0'..=b'9' => {
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return ("IPv4 field has value >255", "");
                }
            }
            b'.' if at == 0 || at + 1 == bytes.len() || bytes[at - 1] == b'.' => {
                return ("IPv4 field must have at least one digit", &text[at..]);
            }
            b'.' if fields == 3 => return ("IPv4 address too long", ""),
            b'.' => (value, digits, fields) = (0, 0, fields + 1),
            _ => return ("unexpected character", text.get(at..).unwrap_or_default()),
        }
    }
    ("IPv4 address too short", "")
}

fn cidr_problem(text: &str) -> String {
    const WORDS: &str = "network address parse error during conversion from string";
    let why = match text.rsplit_once('/') {
        None => format!("netip.ParsePrefix({text:?}): no '/'"),
        Some((address, bits)) => match parse_ip(address) {
            None => format!("netip.ParsePrefix({text:?}): {}", ip_problem(address)),
            Some(_) if bits.parse::<u8>().is_err() => {
                format!("netip.ParsePrefix({text:?}): bad bits after slash: {bits:?}")
            }
            Some(_) => format!("netip.ParsePrefix({text:?}): prefix length out of range"),
        },
    };
    format!("{WORDS}: {WORDS}: {why}")
}

/// Go's notion: everything that is not one of the special ranges.
fn is_global_unicast(ip: IpAddr) -> bool {
    let special = match ip {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !special && !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast()
}

fn range(name: &str, args: &[Value]) -> Option<Outcome> {
    match (name, args) {
        ("cidr", [Value::String(value)]) => match Cidr::parse(value) {
            Some(cidr) => Some(Ok(Value::Cidr(cidr))),
            None => failed(cidr_problem(value)),
        },
        ("isCIDR", [Value::String(value)]) => boolean(Cidr::parse(value).is_some()),
        ("containsIP", [Value::Cidr(cidr), Value::Ip(ip)]) => boolean(cidr.contains_ip(*ip)),
        ("containsIP", [Value::Cidr(cidr), Value::String(ip)]) => match parse_ip(ip) {
            Some(ip) => boolean(cidr.contains_ip(ip)),
            None => Some(Err(EvalError::NoSuchOverload)),
        },
        ("containsCIDR", [Value::Cidr(cidr), Value::Cidr(other)]) => {
            boolean(cidr.contains_cidr(*other))
        }
        ("containsCIDR", [Value::Cidr(cidr), Value::String(other)]) => match Cidr::parse(other) {
            Some(other) => boolean(cidr.contains_cidr(other)),
            None => failed(cidr_problem(other)),
        },
        ("ip", [Value::Cidr(cidr)]) => Some(Ok(Value::Ip(cidr.address))),
        ("masked", [Value::Cidr(cidr)]) => Some(Ok(Value::Cidr(cidr.masked()))),
        ("prefixLength", [Value::Cidr(cidr)]) => int(i64::from(cidr.prefix)),
        _ => None,
    }
}

fn url(name: &str, args: &[Value]) -> Option<Outcome> {
    match (name, args) {
        ("url", [Value::String(value)]) => match Url::parse(value) {
            Some(url) => Some(Ok(Value::Url(Rc::new(url)))),
            None => failed(format!(
                "URL parse error during conversion from string: parse {value:?}: {}",
                match value.is_empty() {
                    true => "empty url",
                    false => "invalid URI for request",
                }
            )),
        },
        ("isURL", [Value::String(value)]) => boolean(Url::parse(value).is_some()),
        ("getScheme", [Value::Url(url)]) => text(&url.scheme),
        ("getHost", [Value::Url(url)]) => text(&url.host),
        ("getHostname", [Value::Url(url)]) => text(url.hostname()),
        ("getPort", [Value::Url(url)]) => text(url.port()),
        ("getEscapedPath", [Value::Url(url)]) => text(&url.path),
        ("getQuery", [Value::Url(url)]) => Some(Ok(query(&url.query))),
        _ => None,
    }
}

fn query(text: &str) -> Value {
    let mut values: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        values
            .entry(Key::String(unescaped(key).into()))
            .or_default()
            .push(Value::string(unescaped(value)));
    }
    Value::Map(Rc::new(
        values
            .into_iter()
            .map(|(key, values)| (key, Value::list(values)))
            .collect(),
    ))
}

fn unescaped(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let escape = text
            .get(index + 1..index + 3)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[index], escape) {
            (b'%', Some(byte)) => {
                out.push(byte);
                index += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        index += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Why a text is no version, in the words of the library that reads them.
fn version_problem(text: &str) -> String {
    if text.is_empty() {
        return "Version string empty".to_owned();
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, rest] = parts.as_slice() else {
        return "No Major.Minor.Patch elements found".to_owned();
    };
    let patch = rest.split(['-', '+']).next().unwrap_or(rest);
    for (name, part) in [("major", major), ("minor", minor), ("patch", &patch)] {
        let shown = {
            let mut letters = name.chars();
            let first = letters.next().map(|c| c.to_ascii_uppercase());
            first.into_iter().chain(letters).collect::<String>()
        };
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return format!("Invalid character(s) found in {name} number {part:?}");
        }
        if part.len() > 1 && part.starts_with('0') {
            return format!("{shown} number must not contain leading zeroes {part:?}");
        }
    }
    format!("Invalid character(s) found in prerelease {rest:?}")
}

fn version(name: &str, args: &[Value], method: bool) -> Option<Outcome> {
    let parsed = |text: &str| match Version::parse(text) {
        Some(version) => Some(Ok(Value::Semver(Rc::new(version)))),
        None => failed(version_problem(text)),
    };
    match (name, args) {
        ("semver", [Value::String(value)]) if !method => parsed(value),
        ("semver", [Value::String(value), Value::Bool(normalize)]) if !method => match normalize {
            true => parsed(&Version::normalize(value)),
            false => parsed(value),
        },
        ("isSemver", [Value::String(value)]) => boolean(Version::parse(value).is_some()),
        ("isSemver", [Value::String(value), Value::Bool(true)]) => {
            boolean(Version::parse(&Version::normalize(value)).is_some())
        }
        ("isSemver", [Value::String(value), Value::Bool(false)]) => {
            boolean(Version::parse(value).is_some())
        }
        ("major", [Value::Semver(version)]) => int(version.numbers[0] as i64),
        ("minor", [Value::Semver(version)]) => int(version.numbers[1] as i64),
        ("patch", [Value::Semver(version)]) => int(version.numbers[2] as i64),
        ("isGreaterThan", [Value::Semver(left), Value::Semver(right)]) => boolean(left > right),
        ("isLessThan", [Value::Semver(left), Value::Semver(right)]) => boolean(left < right),
        ("compareTo", [Value::Semver(left), Value::Semver(right)]) => int(left.cmp(right) as i64),
        _ => None,
    }
}

fn format(name: &str, args: &[Value]) -> Option<Outcome> {
    match (name, args) {
        ("format.named", [Value::String(value)]) => Some(Ok(match formats::named(value) {
            Some(format) => Value::Optional(Some(Rc::new(Value::Format(format)))),
            None => Value::Optional(None),
        })),
        ("validate", [Value::Format(format), Value::String(value)]) => {
            let problems = formats::problems(format, value);
            Some(Ok(Value::Optional(match problems.is_empty() {
                true => None,
                false => Some(Rc::new(Value::list(
                    problems.iter().map(Value::string).collect(),
                ))),
            })))
        }
        _ => {
            let format = formats::named(name.strip_prefix("format.")?)?;
            args.is_empty().then_some(Ok(Value::Format(format)))
        }
    }
}
