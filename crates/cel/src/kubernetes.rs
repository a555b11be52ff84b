//! Kubernetes' own types: quantities, address ranges, URLs, versions.

use std::cmp::Ordering;
use std::net::IpAddr;

/// A quantity such as `500m` or `1.5Gi`, exact to a billionth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    nanos: i128,
}

const BILLION: i128 = 1_000_000_000;

impl Quantity {
    /// Reads a quantity.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (number.is_empty() && suffix.is_empty()) || number == "." || fraction.contains('.') {
            return None;
        }
        let (multiplier, divisor) = scale(suffix)?;
        let mut digits: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            digits = digits
                .checked_mul(10)?
                .checked_add(i128::from(digit - b'0'))?;
        }
        let decimals = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let scaled = digits.checked_mul(multiplier)?.checked_mul(BILLION)?;
        let divisor = decimals.checked_mul(divisor)?;
        // What is smaller than a billionth is rounded away from zero.
        let nanos = scaled / divisor + i128::from(scaled % divisor != 0);
        Some(Quantity {
            nanos: if negative { -nanos } else { nanos },
        })
    }

    pub(crate) fn from_int(value: i64) -> Self {
        Quantity {
            nanos: i128::from(value) * BILLION,
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Quantity {
            nanos: self.nanos.saturating_add(other.nanos),
        }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Quantity {
            nanos: self.nanos.saturating_sub(other.nanos),
        }
    }

    pub(crate) fn sign(self) -> i64 {
        self.nanos.signum() as i64
    }

    pub(crate) fn as_integer(self) -> Option<i64> {
        match self.nanos % BILLION {
            0 => i64::try_from(self.nanos / BILLION).ok(),
            _ => None,
        }
    }

    pub(crate) fn as_float(self) -> f64 {
        self.nanos as f64 / BILLION as f64
    }
}

/// What a suffix multiplies and divides by.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, BILLION),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (BILLION, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        _ => {
            let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let scale = 10i128.checked_pow(power.unsigned_abs())?;
            match power < 0 {
                true => (1, scale),
                false => (scale, 1),
            }
        }
    })
}

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// An address in it, as written.
    pub address: IpAddr,
    /// How many leading bits are fixed.
    pub prefix: u8,
}

impl Cidr {
    /// Reads `10.0.0.0/8`.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address = parse_ip(address)?;
        if prefix.is_empty() || (prefix.len() > 1 && prefix.starts_with('0')) {
            return None;
        }
        let prefix: u8 = prefix.parse().ok()?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        (prefix <= bits).then_some(Cidr { address, prefix })
    }

    pub(crate) fn masked(self) -> Self {
        Cidr {
            address: mask(self.address, self.prefix),
            ..self
        }
    }

    pub(crate) fn contains_ip(self, ip: IpAddr) -> bool {
        self.address.is_ipv4() == ip.is_ipv4()
            && mask(ip, self.prefix) == mask(self.address, self.prefix)
    }

    pub(crate) fn contains_cidr(self, other: Cidr) -> bool {
        self.prefix <= other.prefix && self.contains_ip(other.address)
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn mask(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let keep = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & keep).into())
        }
        IpAddr::V6(v6) => {
            let keep = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & keep).into())
        }
    }
}

/// An address without a zone and not an IPv4 address in IPv6 clothes.
pub(crate) fn parse_ip(text: &str) -> Option<IpAddr> {
    let ip: IpAddr = text.parse().ok()?;
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => None,
        ip => Some(ip),
    }
}

/// An absolute URL or path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// As written.
    pub text: String,
    pub(crate) scheme: String,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) query: String,
}

impl Url {
    /// Reads an absolute URL or an absolute path.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.chars().any(|c| c.is_ascii_control() || c == ' ') {
            return None;
        }
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            _ if text.starts_with('/') => (String::new(), text),
            _ => return None,
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let query = query.split('#').next().unwrap_or(query);
        let rest = rest.split('#').next().unwrap_or(rest);
        let (host, path) = match rest.strip_prefix("//") {
            Some(after) => {
                let slash = after.find('/').unwrap_or(after.len());
                let authority = &after[..slash];
                let host = authority.rsplit('@').next().unwrap_or(authority);
                (host.to_owned(), after[slash..].to_owned())
            }
            None if rest.starts_with('/') => (String::new(), rest.to_owned()),
            None => return None,
        };
        Some(Url {
            text: text.to_owned(),
            scheme,
            host,
            path,
            query: query.to_owned(),
        })
    }

    pub(crate) fn hostname(&self) -> &str {
        match self.host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or(rest),
            None => self.host.split(':').next().unwrap_or(&self.host),
        }
    }

    pub(crate) fn port(&self) -> &str {
        let after = self.host.rsplit(']').next().unwrap_or(&self.host);
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// A semantic version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub(crate) numbers: [u64; 3],
    pub(crate) prerelease: Vec<String>,
}

impl Version {
    /// Reads a strict semantic version.
    pub fn parse(text: &str) -> Option<Self> {
        let (text, build) = text.split_once('+').unwrap_or((text, "x"));
        let (core, prerelease) = match text.split_once('-') {
            Some((core, prerelease)) => (core, Some(prerelease)),
            None => (text, None),
        };
        let identifier = |part: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        if !build.split('.').all(identifier) {
            return None;
        }
        let mut numbers = [0; 3];
        let mut parts = core.split('.');
        for number in &mut numbers {
            let part = parts.next()?;
            let plain = part == "0" || !part.starts_with('0');
            if !plain || !part.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            *number = part.parse().ok()?;
        }
        if parts.next().is_some() {
            return None;
        }
        let prerelease: Vec<String> = match prerelease {
            None => Vec::new(),
            Some(text) => text.split('.').map(str::to_owned).collect(),
        };
        prerelease
            .iter()
            .all(|part| identifier(part))
            .then_some(Version {
                numbers,
                prerelease,
            })
    }

    /// A version with what people leave out filled in: `v1.2` is `1.2.0`.
    pub(crate) fn normalize(text: &str) -> String {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text
            .splitn(3, '.')
            .map(|part| {
                let trimmed = part.trim_start_matches('0');
                match part.len() > 1 && !trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                    true => format!("0{trimmed}"),
                    false if part.len() > 1 => trimmed.to_owned(),
                    false => part.to_owned(),
                }
            })
            .collect();
        let is_short = parts.len() < 3;
        if is_short && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            // Nothing that reads as a version.
            return text.to_owned();
        }
        while parts.len() < 3 {
            parts.push("0".to_owned());
        }
        parts.join(".")
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => compare_prereleases(&self.prerelease, &other.prerelease),
            }
        })
    }
}

fn compare_prereleases(left: &[String], right: &[String]) -> Ordering {
    for (l, r) in left.iter().zip(right) {
        let order = match (l.parse::<u64>(), r.parse::<u64>()) {
            (Ok(l), Ok(r)) => l.cmp(&r),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => l.cmp(r),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    left.len().cmp(&right.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_compare_by_value() {
        let quantity = |text| Quantity::parse(text).unwrap();
        assert_eq!(quantity("1000m"), quantity("1"));
        assert_eq!(quantity("1Ki"), quantity("1024"));
        assert!(quantity("1.5Gi") > quantity("1500Mi"));
        assert_eq!(quantity("1e3"), quantity("1k"));
        assert!(Quantity::parse("1.2.3").is_none());
        assert!(Quantity::parse("abc").is_none());
    }

    #[test]
    fn ranges_contain() {
        let range = Cidr::parse("10.1.0.0/16").unwrap();
        assert!(range.contains_ip("10.1.2.3".parse().unwrap()));
        assert!(!range.contains_ip("10.2.0.0".parse().unwrap()));
        assert!(range.contains_cidr(Cidr::parse("10.1.3.0/24").unwrap()));
    }

    #[test]
    fn versions_order() {
        let version = |text| Version::parse(text).unwrap();
        assert!(version("1.0.0-alpha.2") < version("1.0.0-alpha.10"));
        assert!(version("1.0.0-rc.1") < version("1.0.0"));
        assert!(Version::parse("1.0").is_none());
        assert_eq!(Version::normalize("v01.2"), "1.2.0");
    }
}
