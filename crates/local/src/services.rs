//! The addresses that Services of a repository ask for.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use everflow_json::Value;

use crate::entry::Reached;
use crate::tree::Contents;

/// The range of addresses (the first two numbers of each) that most Services with an address of
/// their own ask for: that of the cluster they are made for. None when no Service asks.
pub fn range(contents: &Contents, reached: Option<&Reached>) -> Option<[u8; 2]> {
    let mut asked: BTreeMap<[u8; 2], usize> = BTreeMap::new();
    for object in services(contents, reached) {
        let address = object["spec"]["clusterIP"].as_str().unwrap_or_default();
        if let Ok(address) = address.parse::<Ipv4Addr>() {
            let [one, two, ..] = address.octets();
            *asked.entry([one, two]).or_default() += 1;
        }
    }
    let most = asked.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(range, _)| range)
}

/// Whether a Service asks for an IPv6 address: the cluster it is made for has both families.
pub fn want_both_families(contents: &Contents, reached: Option<&Reached>) -> bool {
    services(contents, reached).any(|service| {
        let families = service["spec"]["ipFamilies"].as_array();
        let mut families = families.into_iter().flatten();
        families.any(|family| family == "IPv6")
            || service["spec"]["ipFamilyPolicy"] == "RequireDualStack"
    })
}

/// The Services of the files that are reached.
fn services<'c>(
    contents: &'c Contents,
    reached: Option<&'c Reached>,
) -> impl Iterator<Item = &'c Value> {
    let found = contents.objects.iter();
    found
        .filter(move |found| reached.is_none_or(|reached| reached.has(&found.path)))
        .map(|found| &found.object)
        .filter(|object| object["kind"] == "Service" && object["apiVersion"] == "v1")
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

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

    #[test]
    fn services_say_whether_their_cluster_has_both_families() {
        let of = |spec: everflow_json::Value| {
            let mut service = service("None");
            service.object["spec"] = spec;
            let contents = Contents {
                objects: vec![service],
                ..Contents::default()
            };
            want_both_families(&contents, None)
        };
        assert!(of(json!({"ipFamilies": ["IPv6"]})));
        assert!(of(json!({"ipFamilyPolicy": "RequireDualStack"})));
        assert!(!of(
            json!({"ipFamilies": ["IPv4"], "ipFamilyPolicy": "PreferDualStack"})
        ));
    }
}
