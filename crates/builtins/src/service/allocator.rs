//! Which addresses and ports Services have.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::sync::Mutex;

use everflow_json::Value;

use super::{addresses, ports};
use crate::Environment;

/// One family of addresses.
pub(super) const IPV4: &str = "IPv4";
/// The other one.
pub(super) const IPV6: &str = "IPv6";

/// Where the IPv6 addresses of Services begin.
const FIRST_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0);

/// Which addresses and ports are taken.
#[derive(Debug)]
pub struct Allocator {
    prefix: [u8; 2],
    /// Whether there are IPv6 addresses too.
    both: bool,
    taken: Mutex<Taken>,
}

/// What is taken.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) addresses: BTreeSet<String>,
    pub(super) ports: BTreeSet<i64>,
}

impl Allocator {
    /// An allocator for `prefix.0.0/16`, and for IPv6 addresses too when both families are asked for.
    pub fn new(prefix: [u8; 2], both: bool) -> Self {
        Allocator {
            prefix,
            both,
            taken: Mutex::new(Taken::default()),
        }
    }

    /// Whether the cluster has addresses of a family.
    pub(super) fn has(&self, family: &str) -> bool {
        family == IPV4 || (family == IPV6 && self.both)
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The range of a family.
    pub(super) fn range(&self, family: &str) -> String {
        let bits = if family == IPV6 { 112 } else { 16 };
        format!("{}/{bits}", self.first(family))
    }

    /// Whether an address is in the range of its family.
    pub(super) fn contains(&self, address: &str) -> bool {
        if let Ok(address) = address.parse::<Ipv6Addr>() {
            return self.both && address.segments()[..7] == FIRST_V6.segments()[..7];
        }
        let parts: Vec<Option<u8>> = address.split('.').map(|part| part.parse().ok()).collect();
        matches!(parts.as_slice(), [Some(a), Some(b), Some(_), Some(_)] if [*a, *b] == self.prefix)
    }

    /// The first address of a family, which nobody gets.
    pub(super) fn first(&self, family: &str) -> String {
        match family {
            IPV6 => FIRST_V6.to_string(),
            _ => format!("{}.{}.0.0", self.prefix[0], self.prefix[1]),
        }
    }

    /// An address that is free.
    pub(super) fn pick_address(&self, family: &str, env: &dyn Environment) -> String {
        let taken = self.lock();
        loop {
            let bits = env.random();
            let (third, fourth) = ((bits >> 8) as u8, bits as u8);
            let address = match family {
                IPV6 => format!("{FIRST_V6}{:x}", u16::from_be_bytes([third, fourth])),
                _ => format!("{}.{}.{third}.{fourth}", self.prefix[0], self.prefix[1]),
            };
            let usable = !matches!((third, fourth), (0, 0) | (255, 255));
            if usable && !taken.addresses.contains(&address) {
                return address;
            }
        }
    }

    /// Notes what an existing Service uses.
    pub fn adopt(&self, service: &Value) {
        let mut taken = self.lock();
        taken.addresses.extend(addresses(service));
        taken.ports.extend(ports(service));
    }

    /// Frees what a Service used.
    pub fn release(&self, service: &Value) {
        let mut taken = self.lock();
        for address in addresses(service) {
            taken.addresses.remove(&address);
        }
        for port in ports(service) {
            taken.ports.remove(&port);
        }
    }
}
