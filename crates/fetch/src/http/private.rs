//! Addresses of this machine and of private networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use everflow_connect::same_host;
use everflow_env::Env;

use crate::{Error, Url};

/// Whether an address is one of this machine, of a private network, or of no single host.
fn is_private_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => {
            address.is_loopback()
                || address.is_unicast_link_local()
                || address.is_unique_local()
                || address.is_unspecified()
                || inner_v4(address).is_some_and(is_private_v4)
        }
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_broadcast()
        || address.octets()[0] == 0
        || (address.is_multicast() && address.octets()[..3] == [224, 0, 0])
}

/// The address of version 4 that one of version 6 stands for: mapped, compatible, or behind NAT64 or
/// 6to4, whose gateways would lead to it.
fn inner_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match parts {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => Some(join(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(join(high, low)),
        [0x2002, high, low, ..] => Some(join(high, low)),
        _ => None,
    }
}

/// The address that a host's text is for the machine's resolver, which reads more than others write:
/// one number for the whole address, parts left out, octal and hexadecimal digits.
fn literal(host: &str) -> Option<IpAddr> {
    let host = host.strip_suffix('.').unwrap_or(host);
    // What follows a percent sign names an interface.
    let plain = host.split('%').next().unwrap_or_default();
    if let Ok(address) = plain.parse() {
        return Some(address);
    }
    let parts: Vec<u64> = host.split('.').map(number).collect::<Option<_>>()?;
    let (last, first) = parts.split_last()?;
    if first.len() > 3 || first.iter().any(|part| *part > 255) {
        return None;
    }
    let rest = 32 - 8 * first.len() as u32;
    if *last >= 1 << rest {
        return None;
    }
    let high = first.iter().fold(0, |sum, part| sum << 8 | part);
    let whole = u32::try_from(high << rest | last).ok()?;
    Some(IpAddr::V4(Ipv4Addr::from(whole)))
}

fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// Whether a host's text is a private address, or the name of this machine.
pub(crate) fn is_private(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || literal(host).is_some_and(is_private_address)
}

/// Fails when a server, or who speaks for it, names an address inside our own network. The host that was
/// asked may name itself. What a name stands for is looked up, and is the address that is then dialled:
/// names inside the network are fine only for servers that are inside as well.
pub(crate) async fn check_address(
    env: &Env,
    asked: &Url,
    next: &Url,
) -> Result<Option<IpAddr>, Error> {
    let itself = same_host(&asked.host, &next.host);
    let refused = || {
        Error::Protocol(format!(
            "refusing to be sent by {:?} to the private address {:?}",
            asked.host, next.host
        ))
    };
    if itself {
        return Ok(None);
    }
    if is_private(&next.host) {
        return Err(refused());
    }
    if literal(&next.host).is_some() {
        return Ok(None);
    }
    // When a name cannot be looked up, dialling it fails too, in words of its own.
    let found = env.dialer.lookup(&next.host, next.port_or_default()).await;
    let Some(address) = found.unwrap_or_default().first().copied() else {
        return Ok(None);
    };
    if is_private_address(address) && !is_inside(env, asked).await {
        return Err(refused());
    }
    Ok(Some(address))
}

async fn is_inside(env: &Env, url: &Url) -> bool {
    if is_private(&url.host) {
        return true;
    }
    let found = env.dialer.lookup(&url.host, url.port_or_default()).await;
    found.is_ok_and(|all| !all.is_empty() && all.into_iter().all(is_private_address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_known_however_they_are_written() {
        for host in [
            "127.0.0.1",
            "127.0.0.1.",
            "127.1",
            "127.0.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "017700000001",
            "10.1",
            "192.168.1",
            "172.16.0.9",
            "169.254.169.254",
            "0xa9fea9fe",
            "0",
            "0.0.0.0",
            "0.1.2.3",
            "224.0.0.1",
            "255.255.255.255",
            "localhost",
            "LOCALHOST.",
            "x.localhost",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "::ffff:7f00:1",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:a00:1::",
            "fe80::1%eth0",
            "fd00::1",
        ] {
            assert!(is_private(host), "{host}");
        }
        for host in [
            "8.8.8.8",
            "134744072",
            "8.8",
            "2001:4860::8888",
            "::ffff:8.8.8.8",
            "example.com",
            "127.0.0.1.example.com",
            "1.2.3.4.5",
            "256.0.0.1",
            "4294967296",
            "127.0.0.0x",
            "0x",
            "",
            ".",
            "-1",
            "localhost.example",
        ] {
            assert!(!is_private(host), "{host}");
        }
    }
}
