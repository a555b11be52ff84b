//! Addresses and networks in fields.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::at::At;
use crate::field::Errors;

/// An address as older servers read it: leading zeros are ignored.
pub fn sloppy(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        let (front, last) = text.rsplit_once(':')?;
        if last.contains('.') {
            let [a, b, c, d] = sloppy4(last)?.octets();
            let tail = format!(
                "{:x}:{:x}",
                u16::from_be_bytes([a, b]),
                u16::from_be_bytes([c, d])
            );
            return format!("{front}:{tail}")
                .parse::<Ipv6Addr>()
                .ok()
                .map(IpAddr::V6);
        }
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    sloppy4(text).map(IpAddr::V4)
}

fn sloppy4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *octet = part
            .trim_start_matches('0')
            .parse()
            .or_else(|_| {
                if part.bytes().all(|b| b == b'0') {
                    Ok(0)
                } else {
                    Err(())
                }
            })
            .ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

fn is_mapped(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// A network: its address as given, and the length of its prefix.
pub fn network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = text.split_once('/')?;
    let address = sloppy(address)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length: u32 = digits.then(|| length.parse().ok()).flatten()?;
    (length <= most).then_some((address, length))
}

/// The address with everything behind the prefix cleared.
pub fn masked(address: IpAddr, length: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

/// A field with an address; those it already had are not judged again.
pub fn address(at: &At<'_, '_>, kept: &[&str], errors: &mut Errors) -> bool {
    let text = at.text();
    if kept.contains(&text) {
        return true;
    }
    let Some(found) = sloppy(text) else {
        at.invalid(
            errors,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        );
        return false;
    };
    if text.parse::<IpAddr>().is_err() {
        at.invalid(errors, "must not have leading 0s");
        return false;
    }
    if is_mapped(&found) {
        at.invalid(errors, "must not be an IPv4-mapped IPv6 address");
        return false;
    }
    true
}

/// A field with a network; those it already had are not judged again.
pub fn cidr(at: &At<'_, '_>, kept: &[&str], errors: &mut Errors) {
    let text = at.text();
    if kept.contains(&text) {
        return;
    }
    let Some((found, length)) = network(text) else {
        at.invalid(
            errors,
            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        );
        return;
    };
    let (front, back) = text.split_once('/').unwrap_or_default();
    if front.parse::<IpAddr>().is_err() || (back.len() > 1 && back.starts_with('0')) {
        at.invalid(errors, "must not have leading 0s in IP or prefix length");
    } else if is_mapped(&found) {
        at.invalid(errors, "must not have an IPv4-mapped IPv6 address");
    } else if masked(found, length) != found {
        at.invalid(errors, "must not have bits set beyond the prefix length");
    }
}

/// A field with the address of something that can be reached from outside.
pub fn endpoint(at: &At<'_, '_>, errors: &mut Errors) {
    let text = at.text();
    let Some(address) = sloppy(text) else {
        at.invalid(errors, "must be a valid IP address");
        return;
    };
    if address.is_unspecified() {
        at.invalid(errors, format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        at.invalid(
            errors,
            "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        );
    }
    let (unicast, multicast) = match address {
        IpAddr::V4(address) => (
            address.is_link_local(),
            matches!(address.octets(), [224, 0, 0, _]),
        ),
        IpAddr::V6(address) => {
            let first = address.segments()[0];
            (first & 0xffc0 == 0xfe80, first & 0xff0f == 0xff02)
        }
    };
    if unicast {
        at.invalid(
            errors,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        );
    }
    if multicast {
        at.invalid(
            errors,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        );
    }
}
