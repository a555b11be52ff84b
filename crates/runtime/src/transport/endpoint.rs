//! Addresses of API servers: from URLs, from a list that was remembered, and from the cluster's own
//! EndpointSlice.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use everflow_json::Value;

use super::ways::MOST_WAYS;

/// The longest list that is read.
const LONGEST_LIST: usize = 16 << 10;

/// Where an API server can be asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Whether it speaks TLS.
    pub tls: bool,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What stands before every path, without a slash at its end.
    pub prefix: String,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        let (open, close) = match self.host.contains(':') {
            true => ("[", "]"),
            false => ("", ""),
        };
        let Endpoint {
            host, port, prefix, ..
        } = self;
        write!(f, "{scheme}://{open}{host}{close}:{port}{prefix}")
    }
}

impl Endpoint {
    /// Reads a URL; without a scheme it is https.
    pub fn parse(text: &str) -> Option<Self> {
        let text = match text.contains("://") {
            true => text.to_owned(),
            false => format!("https://{text}"),
        };
        let uri: http::Uri = text.parse().ok()?;
        let tls = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let host = uri.host()?.trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Some(Endpoint {
            tls,
            host,
            port,
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// A server's own address.
    fn direct(address: SocketAddr) -> Self {
        Endpoint {
            tls: true,
            host: address.ip().to_string(),
            port: address.port(),
            prefix: String::new(),
        }
    }

    fn socket(&self) -> Option<SocketAddr> {
        let address: IpAddr = self.host.parse().ok()?;
        Some(SocketAddr::new(address, self.port))
    }
}

/// The addresses in the EndpointSlice `default/kubernetes`, in order.
pub fn of_slice(slice: &Value) -> Vec<Endpoint> {
    let entries = |field: &str| slice[field].as_array().map(Vec::as_slice).unwrap_or(&[]);
    let ports = entries("ports");
    let port = ports
        .iter()
        .find(|port| port["name"] == "https")
        .or_else(|| ports.first())
        .and_then(|port| u16::try_from(port["port"].as_u64()?).ok());
    let Some(port) = port else {
        return Vec::new();
    };
    let ready = entries("endpoints")
        .iter()
        .filter(|endpoint| endpoint["conditions"]["ready"] != false);
    let addresses =
        ready.flat_map(|endpoint| endpoint["addresses"].as_array().into_iter().flatten());
    let parsed = addresses.filter_map(|address| address.as_str()?.parse::<IpAddr>().ok());
    sorted(parsed.map(|address| SocketAddr::new(address, port)))
}

/// Reads a list that was remembered: an address with its port on each line. What is no address is
/// left out: anybody may have written it, and names would be looked up.
pub fn of_text(text: &str) -> Vec<Endpoint> {
    if text.len() > LONGEST_LIST {
        return Vec::new();
    }
    let parsed = text.lines().filter_map(|line| line.trim().parse().ok());
    sorted(parsed)
}

/// The list as it is remembered.
pub fn to_text(endpoints: &[Endpoint]) -> String {
    let sockets = endpoints.iter().filter_map(Endpoint::socket);
    sockets.map(|socket| format!("{socket}\n")).collect()
}

fn sorted(addresses: impl Iterator<Item = SocketAddr>) -> Vec<Endpoint> {
    let usable = addresses.filter(|address| {
        let ip = address.ip();
        address.port() != 0 && !ip.is_unspecified() && !ip.is_multicast()
    });
    let mut all: Vec<SocketAddr> = usable.collect();
    all.sort();
    all.dedup();
    all.truncate(MOST_WAYS);
    all.into_iter().map(Endpoint::direct).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    #[test]
    fn urls_are_read_and_written() {
        for (text, expected) in [
            ("https://[fd00::1]:6443/k8s/", "https://[fd00::1]:6443/k8s"),
            ("10.0.0.1:6443", "https://10.0.0.1:6443"),
            ("http://localhost", "http://localhost:80"),
        ] {
            assert_eq!(Endpoint::parse(text).unwrap().to_string(), expected);
        }
        for text in ["ftp://a", "", "https://", "a b"] {
            assert_eq!(Endpoint::parse(text), None, "{text}");
        }
    }

    #[test]
    fn slices_give_the_addresses_of_ready_servers() {
        let slice = json!({
            "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 6443}],
            "endpoints": [
                {"addresses": ["172.18.0.4"]},
                {"addresses": ["172.18.0.3"], "conditions": {"ready": true}},
                {"addresses": ["172.18.0.9"], "conditions": {"ready": false}},
                {"addresses": ["0.0.0.0", "evil.example", "172.18.0.4"]},
            ],
        });
        let found = of_slice(&slice);
        assert_eq!(to_text(&found), "172.18.0.3:6443\n172.18.0.4:6443\n");
        assert_eq!(of_text(&to_text(&found)), found);
        for slice in [json!({}), json!({"ports": [{"port": 70_000}]}), json!([1])] {
            assert_eq!(of_slice(&slice), []);
        }
    }

    #[test]
    fn a_list_that_somebody_forged_is_bounded() {
        let text =
            "example.com:6443\n[::1]:6443\n224.0.0.1:1\n10.0.0.1:0\n10.0.0.1\n\n10.0.0.2:1\n";
        let shown: Vec<String> = of_text(text).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["https://10.0.0.2:1", "https://[::1]:6443"]);
        assert_eq!(of_text(&"10.0.0.1:1\n".repeat(10_000)), []);
        let many: String = (1..500).map(|port| format!("10.0.0.1:{port}\n")).collect();
        assert_eq!(of_text(&many).len(), MOST_WAYS);
    }
}
