//! Endpoints and endpoint slices.

use everflow_json::Value;

use super::super::at::{At, or_null};
use super::super::{Context, meta, names, net};
use crate::field::{Errors, FieldError};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Checks Endpoints.
pub fn endpoints(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    for subset in root.child("subsets").items() {
        let (ready, waiting, ports) = (
            subset.child("addresses"),
            subset.child("notReadyAddresses"),
            subset.child("ports"),
        );
        if ready.is_empty() && waiting.is_empty() {
            subset.required(errors, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in [&ready, &waiting] {
            list.items()
                .for_each(|address| endpoint_address(&address, errors));
        }
        for port in ports.items() {
            let name = port.child("name");
            if name.is_empty() {
                if ports.len() > 1 {
                    name.required(errors, "");
                }
            } else {
                name.by(names::dns_label, errors);
            }
            port.child("port").port(errors);
            port.child("protocol").needs_one_of(errors, &PROTOCOLS);
            app_protocol(&port, errors);
        }
    }
}

fn app_protocol(port: &At<'_, '_>, errors: &mut Errors) {
    let protocol = port.child("appProtocol");
    if protocol.is_set() {
        protocol.by(names::qualified_name, errors);
    }
}

fn endpoint_address(at: &At<'_, '_>, errors: &mut Errors) {
    let address = at.child("ip");
    net::address(&address, &[], errors);
    at.child("hostname").by_if_any(names::dns_label, errors);
    let node = at.child("nodeName");
    if node.is_set() {
        node.by(names::dns_subdomain, errors);
    }
    net::endpoint(&address, errors);
}

/// Checks changed Endpoints; what they already had is not judged again.
pub fn endpoints_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    meta::validate(new, true, true, names::dns_subdomain, errors);
    if new.get("subsets") != old.get("subsets") {
        endpoints(context, new, errors);
    }
}

/// Checks an EndpointSlice.
pub fn slice(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    slice_parts(object, true, errors);
}

fn slice_parts(object: &Value, with_endpoints: bool, errors: &mut Errors) {
    let root = At::root(object);
    let kind = root.child("addressType");
    kind.needs_one_of(errors, &["FQDN", "IPv4", "IPv6"]);
    let ports = root.child("ports");
    if ports.len() > 20000 {
        ports.too_many(errors, 20000);
    } else {
        let mut seen: Vec<&str> = Vec::new();
        for port in ports.items() {
            let name = port.child("name");
            name.by_if_any(names::dns_label, errors);
            if seen.contains(&name.text()) {
                name.duplicate_text(errors);
            } else {
                seen.push(name.text());
            }
            if !port.child("protocol").is_set() {
                port.child("protocol").required(errors, "");
            }
            port.child("protocol").one_of(errors, &PROTOCOLS);
            app_protocol(&port, errors);
        }
    }
    if with_endpoints {
        slice_endpoints(&root.child("endpoints"), kind.text(), errors);
    }
}

fn slice_endpoints(at: &At<'_, '_>, kind: &str, errors: &mut Errors) {
    if at.len() > 1000 {
        at.too_many(errors, 1000);
        return;
    }
    for endpoint in at.items() {
        let addresses = endpoint.child("addresses");
        if addresses.is_empty() {
            addresses.required(errors, "must contain at least 1 address");
        } else if addresses.len() > 100 {
            addresses.too_many(errors, 100);
        }
        for address in addresses.items() {
            slice_address(&addresses, &address, kind, errors);
        }
        let node = endpoint.child("nodeName");
        if node.is_set() {
            node.by(names::dns_subdomain, errors);
        }
        let topology = endpoint.child("deprecatedTopology");
        if topology.len() > 16 {
            topology.too_many(errors, 16);
        }
        topology.labels(errors);
        let host = endpoint.child("hostname");
        if host.is_set() {
            host.by(names::dns_label, errors);
        }
        hints(&endpoint.child("hints"), errors);
    }
}

fn slice_address(list: &At<'_, '_>, at: &At<'_, '_>, kind: &str, errors: &mut Errors) {
    let shown = |problem: &str, errors: &mut Errors| {
        errors.push(FieldError::invalid(&list.path(), at.text(), problem));
    };
    match kind {
        "IPv4" | "IPv6" => {
            if !net::address(at, &[], errors) {
                return;
            }
            if (kind == "IPv6") != at.text().contains(':') {
                shown(&format!("must be an {kind} address"), errors);
            }
            net::endpoint(at, errors);
        }
        "FQDN" => domain(at, errors),
        _ => {}
    }
}

/// A domain of at least two parts.
fn domain(at: &At<'_, '_>, errors: &mut Errors) {
    if !at.needs_text(errors) {
        return;
    }
    let name = at.text().strip_suffix('.').unwrap_or(at.text());
    let problems = names::dns_subdomain(name);
    if !problems.is_empty() {
        at.invalid_as(errors, name, problems.join(","));
    } else if !name.contains('.') {
        at.invalid_as(
            errors,
            name,
            "should be a domain with at least two segments separated by dots",
        );
    } else if let Some((label, problems)) = name
        .split('.')
        .map(|label| (label, names::dns_label(label)))
        .find(|(_, problems)| !problems.is_empty())
    {
        at.invalid_as(errors, label, problems.join(","));
    }
}

fn hints(at: &At<'_, '_>, errors: &mut Errors) {
    type Rule = fn(&str) -> Vec<String>;
    let zones: (&'static str, Rule) = ("forZones", names::label_value);
    let nodes: (&'static str, Rule) = ("forNodes", names::dns_subdomain);
    for (key, rule) in [zones, nodes] {
        let list = at.child(key);
        if list.len() > 8 {
            list.too_many(errors, 8);
            return;
        }
        let mut seen: Vec<&str> = Vec::new();
        for hint in list.items() {
            let name = hint.child("name");
            if seen.contains(&name.text()) {
                name.duplicate_text(errors);
            } else {
                seen.push(name.text());
            }
            name.by(rule, errors);
        }
    }
}

/// Checks a changed EndpointSlice.
pub fn slice_update(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    meta::validate(new, true, true, names::dns_subdomain, errors);
    slice_parts(new, new.get("endpoints") != old.get("endpoints"), errors);
    At::root(new)
        .child("addressType")
        .text_unchanged(or_null(old.get("addressType")), errors);
}
