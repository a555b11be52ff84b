//! The addresses that Services of a repository ask for.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::entry::Reached;
use crate::tree::Contents;

/// The range of addresses (the first two numbers of each) that most Services with an address of
/// their own ask for: that of the cluster they are made for. None when no Service asks.
pub fn range(contents: &Contents, reached: Option<&Reached>) -> Option<[u8; 2]> {
    let mut asked: BTreeMap<[u8; 2], usize> = BTreeMap::new();
    for found in &contents.objects {
        let object = &found.object;
        if object["kind"] != "Service" || object["apiVersion"] != "v1" {
            continue;
        }
        if reached.is_some_and(|reached| !reached.has(&found.path)) {
            continue;
        }
        let address = object["spec"]["clusterIP"].as_str().unwrap_or_default();
        if let Ok(address) = address.parse::<Ipv4Addr>() {
            let [one, two, ..] = address.octets();
            *asked.entry([one, two]).or_default() += 1;
        }
    }
    let most = asked.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(range, _)| range)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tree::Found;

    fn service(address: &str) -> Found {
        Found {
            path: "a.yaml".into(),
            object: json!({
                "apiVersion": "v1", "kind": "Service", "metadata": { "name": "dns" },
                "spec": { "clusterIP": address },
            }),
        }
    }

    #[test]
    fn services_say_which_addresses_their_cluster_has() {
        let of = |addresses: &[&str]| {
            let objects = addresses.iter().map(|address| service(address)).collect();
            let contents = Contents {
                objects,
                ..Contents::default()
            };
            range(&contents, None)
        };
        assert_eq!(of(&["172.31.0.9", "None", "${DNS}"]), Some([172, 31]));
        assert_eq!(of(&["10.43.0.1", "10.96.0.1", "10.43.0.2"]), Some([10, 43]));
        assert_eq!(of(&["None", "2001:db8::1"]), None);
    }
}
