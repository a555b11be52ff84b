//! Services.

use everflow_json::{Value, json};

use super::super::at::{At, or_null};
use super::super::{Context, internal, names, net};
use crate::field::{Errors, FieldError};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ONLY_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";

fn is_headless(spec: &Value) -> bool {
    spec.get("clusterIPs") == Some(&json!(["None"]))
}

fn addresses(spec: &Value) -> Vec<&str> {
    spec.get("clusterIPs")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Whether a service of this type can be reached from outside.
pub fn is_external(spec: &Value) -> bool {
    match super::text(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => spec
            .get("externalIPs")
            .and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty()),
        _ => false,
    }
}

fn needs_health_check(spec: &Value) -> bool {
    super::text(spec, "type") == "LoadBalancer"
        && super::text(spec, "externalTrafficPolicy") == "Local"
}

/// Checks a new Service.
pub fn create(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    service(object, None, errors);
}

/// Checks a changed Service.
pub fn update(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let spec = root.child("spec");
    let before = or_null(old.get("spec"));
    addresses_update(&spec, before, errors);
    families_update(&spec, before, errors);
    let balancer = |spec: &Value| super::text(spec, "type") == "LoadBalancer";
    let class = spec.child("loadBalancerClass");
    if balancer(spec.value)
        && balancer(before)
        && class.value != or_null(before.get("loadBalancerClass"))
    {
        class.invalid_or_null(errors, "may not change once set");
    }
    balancer_class(&spec, errors);
    let port = spec.child("healthCheckNodePort");
    if needs_health_check(before)
        && needs_health_check(spec.value)
        && port.number()
            != before
                .get("healthCheckNodePort")
                .and_then(Value::as_i64)
                .unwrap_or_default()
    {
        port.forbidden(errors, "field is immutable");
    }
    service(new, Some(old), errors);
}

fn addresses_update(spec: &At<'_, '_>, before: &Value, errors: &mut Errors) {
    let unbound = |spec: &Value| super::text(spec, "type") == "ExternalName";
    if unbound(spec.value) || unbound(before) || (is_headless(before) && is_headless(spec.value)) {
        return;
    }
    let list = spec.child("clusterIPs");
    let (now, earlier) = (addresses(spec.value), addresses(before));
    let changed = |index: usize, errors: &mut Errors| {
        let shown = list.value.clone();
        list.index(index)
            .invalid_as(errors, shown, "may not change once set");
    };
    if now.len() == earlier.len() {
        for index in (0..now.len()).filter(|index| now[*index] != earlier[*index]) {
            changed(index, errors);
        }
        return;
    }
    if now.is_empty() {
        list.index(0).invalid_as(
            errors,
            list.value.clone(),
            "primary clusterIP can not be unset",
        );
    } else if !earlier.is_empty() && now[0] != earlier[0] {
        changed(0, errors);
    }
    let policy = spec.child("ipFamilyPolicy");
    if now.len() < earlier.len() && now.len() == 1 && policy.text() != "SingleStack" {
        policy.invalid_or_null(
            errors,
            "must be set to 'SingleStack' when releasing the secondary clusterIP",
        );
    }
}

fn families_update(spec: &At<'_, '_>, before: &Value, errors: &mut Errors) {
    let unbound = |spec: &Value| super::text(spec, "type") == "ExternalName" || is_headless(spec);
    if unbound(spec.value) || unbound(before) {
        return;
    }
    let families = spec.child("ipFamilies");
    let earlier = or_null(before.get("ipFamilies"))
        .as_array()
        .cloned()
        .unwrap_or_default();
    let now = families.value.as_array().cloned().unwrap_or_default();
    if now.len() == earlier.len() {
        for _ in now
            .iter()
            .zip(&earlier)
            .filter(|(now, earlier)| now != earlier)
        {
            families
                .index(0)
                .invalid_as(errors, families.value.clone(), "may not change once set");
        }
    }
}

fn balancer_class(spec: &At<'_, '_>, errors: &mut Errors) {
    let class = spec.child("loadBalancerClass");
    if !class.is_set() {
        return;
    }
    if spec.child("type").text() == "LoadBalancer" {
        class.by(names::qualified_name, errors);
    } else {
        class.forbidden(errors, ONLY_BALANCER);
    }
}

fn service(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    let kind = spec.child("type");
    let headless = is_headless(spec.value);
    let ports = spec.child("ports");
    if ports.is_empty() && !headless && kind.text() != "ExternalName" {
        ports.required(errors, "");
    }
    of_type(&spec, headless, errors);
    let mut seen: Vec<&str> = Vec::new();
    for port in ports.items() {
        service_port(&port, ports.len() > 1, &mut seen, errors);
    }
    spec.child("selector").labels(errors);
    affinity(&spec, errors);
    cluster_addresses(&spec, old, errors);
    let kept = |key: &str| -> Vec<&str> {
        let list = old
            .and_then(|old| old.pointer(&format!("/spec/{key}")))
            .and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    };
    for address in spec.child("externalIPs").items() {
        if net::address(&address, &kept("externalIPs"), errors) {
            net::endpoint(&address, errors);
        }
    }
    kind.needs_one_of(errors, &TYPES);
    node_ports(&spec, errors);
    source_ranges(&root, old, errors);
    let allocate = spec.child("allocateLoadBalancerNodePorts");
    if allocate.is_set() && kind.text() != "LoadBalancer" {
        allocate.forbidden(errors, ONLY_BALANCER);
    }
    if !allocate.is_set() && kind.text() == "LoadBalancer" {
        root.child("allocateLoadBalancerNodePorts")
            .required(errors, "");
    }
    balancer_class(&spec, errors);
    traffic(&spec, errors);
}

fn of_type(spec: &At<'_, '_>, headless: bool, errors: &mut Errors) {
    let addresses = spec.child("clusterIPs");
    match spec.child("type").text() {
        kind @ ("LoadBalancer" | "NodePort") if headless => {
            addresses.index(0).invalid(
                errors,
                format!("may not be set to 'None' for {kind} services"),
            );
        }
        "ExternalName" => {
            for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let part = spec.child(key);
                if !part.is_empty() {
                    part.forbidden(errors, "may not be set for ExternalName services");
                }
            }
            let name = spec.child("externalName");
            let domain = name.text().strip_suffix('.').unwrap_or(name.text());
            if domain.is_empty() {
                name.required(errors, "");
            } else {
                for problem in names::dns_subdomain(domain) {
                    name.invalid_as(errors, domain, problem);
                }
            }
        }
        _ => {}
    }
}

fn service_port<'v>(
    at: &At<'_, 'v>,
    needs_name: bool,
    seen: &mut Vec<&'v str>,
    errors: &mut Errors,
) {
    let name = at.child("name");
    if name.is_empty() {
        if needs_name {
            name.required(errors, "");
        }
    } else {
        name.by(names::dns_label, errors);
        if seen.contains(&name.text()) {
            name.duplicate_text(errors);
        } else {
            seen.push(name.text());
        }
    }
    at.child("port").port(errors);
    at.child("protocol").needs_one_of(errors, &PROTOCOLS);
    at.child("targetPort").port_or_name(errors);
    let protocol = at.child("appProtocol");
    if protocol.is_set() {
        protocol.by(names::qualified_name, errors);
    }
}

fn affinity(spec: &At<'_, '_>, errors: &mut Errors) {
    let (kind, config) = (
        spec.child("sessionAffinity"),
        spec.child("sessionAffinityConfig"),
    );
    kind.needs_one_of(errors, &["ClientIP", "None"]);
    if kind.text() == "None" && config.is_set() {
        config.forbidden(errors, "must not be set when session affinity is None");
    }
    if kind.text() != "ClientIP" {
        return;
    }
    let client = config.child("clientIP");
    let seconds = client.child("timeoutSeconds");
    for part in [&config, &client, &seconds] {
        if !part.is_set() {
            part.required(errors, "when session affinity type is ClientIP");
            return;
        }
    }
    if !(1..=86400).contains(&seconds.number()) {
        seconds.invalid(errors, "must be greater than 0 and less than 86400");
    }
}

/// Checks the addresses of a Service and their families.
pub fn cluster_addresses(spec: &At<'_, '_>, old: Option<&Value>, errors: &mut Errors) {
    if spec.child("type").text() == "ExternalName" {
        return;
    }
    let (first, list) = (spec.child("clusterIP"), spec.child("clusterIPs"));
    if first.is_empty() {
        if !list.is_empty() {
            list.invalid(errors, "must be empty when `clusterIP` is not specified");
        }
    } else if list.is_empty() {
        list.required(errors, "");
    } else if list.index(0).text() != first.text() {
        list.invalid(errors, "first value must match `clusterIP`");
    }
    let mut seen: Vec<&str> = Vec::new();
    for family in spec.child("ipFamilies").items() {
        family.one_of(errors, &["IPv4", "IPv6"]);
        if seen.contains(&family.text()) {
            family.duplicate_text(errors);
        }
        seen.push(family.text());
    }
    spec.child("ipFamilyPolicy").one_of(
        errors,
        &["PreferDualStack", "RequireDualStack", "SingleStack"],
    );
    let before = old
        .and_then(|old| old.get("spec"))
        .map(addresses)
        .unwrap_or_default();
    let mut invalid = false;
    for (index, address) in list.items().enumerate() {
        if index == 0 && address.text() == "None" {
            if list.len() > 1 {
                invalid = true;
                list.invalid(errors, "'None' must be the first and only value");
            }
            continue;
        }
        invalid |= !net::address(&address, &before, errors);
    }
    if list.len() > 2 {
        list.invalid(errors, "may only hold up to 2 values");
    }
    if invalid || is_headless(spec.value) {
        return;
    }
    let is_v6 = |address: &str| address.contains(':');
    let all = list.texts();
    if all.len() > 1
        && !(all.iter().any(|address| is_v6(address)) && all.iter().any(|address| !is_v6(address)))
    {
        list.invalid(errors, "may specify no more than one IP for each IP family");
    }
    for (index, (address, family)) in list
        .items()
        .zip(spec.child("ipFamilies").texts())
        .enumerate()
    {
        if (family == "IPv6") != is_v6(address.text()) && matches!(family, "IPv4" | "IPv6") {
            address.invalid(
                errors,
                format!("expected an {family} value as indicated by `ipFamilies[{index}]`"),
            );
        }
    }
}

fn node_ports(spec: &At<'_, '_>, errors: &mut Errors) {
    let ports = spec.child("ports");
    for port in ports
        .items()
        .filter(|_| spec.child("type").text() == "ClusterIP")
    {
        let node = port.child("nodePort");
        if node.number() != 0 {
            node.forbidden(errors, "may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut seen: Vec<(&str, i64)> = Vec::new();
    for port in ports.items() {
        let node = port.child("nodePort");
        let key = (port.child("protocol").text(), node.number());
        if key.1 != 0 {
            if seen.contains(&key) {
                node.duplicate(errors);
            }
            seen.push(key);
        }
    }
    let mut seen: Vec<(&str, i64)> = Vec::new();
    for port in ports.items() {
        let key = (port.child("protocol").text(), port.child("port").number());
        if seen.contains(&key) {
            let shown = internal::text(
                "core.ServicePort",
                &json!({"protocol": key.0, "port": key.1}),
            );
            let mut error = FieldError::duplicate(&port.path(), "");
            error.shown = Some(shown);
            errors.push(error);
        }
        seen.push(key);
    }
}

fn source_ranges(root: &At<'_, '_>, old: Option<&Value>, errors: &mut Errors) {
    let spec = root.child("spec");
    let is_balancer = spec.child("type").text() == "LoadBalancer";
    let list = spec.child("loadBalancerSourceRanges");
    if !list.is_empty() {
        let shown = spec.named(list.value, "LoadBalancerSourceRanges");
        if !is_balancer {
            shown.forbidden(errors, ONLY_BALANCER);
        }
        let kept = old
            .and_then(|old| old.pointer("/spec/loadBalancerSourceRanges"))
            .and_then(Value::as_array);
        let kept: Vec<&str> = kept
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::trim)
            .collect();
        for range in shown.items() {
            let trimmed = Value::from(range.text().trim());
            net::cidr(&range.with(&trimmed), &kept, errors);
        }
        return;
    }
    let metadata = root.child("metadata");
    let annotations = metadata.child("annotations");
    let given = annotations.key(SOURCE_RANGES);
    if !given.is_set() {
        return;
    }
    if !is_balancer {
        given.forbidden(errors, ONLY_BALANCER);
    }
    let before = old
        .and_then(|old| old.pointer("/metadata/annotations"))
        .and_then(|map| map.get(SOURCE_RANGES));
    if before == Some(given.value) || given.text().trim().is_empty() {
        return;
    }
    for range in given.text().split(',') {
        let trimmed = Value::from(range.trim());
        net::cidr(&given.with(&trimmed), &[], errors);
    }
}

fn traffic(spec: &At<'_, '_>, errors: &mut Errors) {
    let (external, health) = (
        spec.child("externalTrafficPolicy"),
        spec.child("healthCheckNodePort"),
    );
    if is_external(spec.value) {
        external.needs_one_of(errors, &["Cluster", "Local"]);
    } else if !external.is_empty() {
        external.invalid(errors, "may only be set for externally-accessible services");
    }
    if !needs_health_check(spec.value) {
        if health.number() != 0 {
            health.invalid(errors, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'");
        }
    } else if health.number() == 0 {
        health.required(errors, "");
    } else {
        health.port(errors);
    }
    let internal = spec.child("internalTrafficPolicy");
    if !internal.is_set()
        && matches!(
            spec.child("type").text(),
            "NodePort" | "LoadBalancer" | "ClusterIP"
        )
    {
        internal.required(errors, "");
    }
    internal.one_of(errors, &["Cluster", "Local"]);
    spec.child("trafficDistribution")
        .one_of(errors, &["PreferClose", "PreferSameZone", "PreferSameNode"]);
}

/// Checks the status of a Service or Ingress: where it can be reached.
pub fn balancer_status(at: &At<'_, '_>, with_mode: bool, errors: &mut Errors) {
    for entry in at.child("ingress").items() {
        let (address, mode, name) = (
            entry.child("ip"),
            entry.child("ipMode"),
            entry.child("hostname"),
        );
        if !address.is_empty() {
            net::address(&address, &[], errors);
        }
        if with_mode {
            if !mode.is_set() {
                if !address.is_empty() {
                    mode.required(errors, "must be specified when `ip` is set");
                }
            } else if address.is_empty() {
                mode.forbidden(errors, "may not be specified when `ip` is not set");
            } else {
                mode.one_of(errors, &["Proxy", "VIP"]);
            }
        }
        if !name.is_empty() {
            name.by(names::dns_subdomain, errors);
            if net::sloppy(name.text()).is_some() {
                name.invalid(errors, "must be a DNS name, not an IP address");
            }
        }
    }
}

/// Checks a changed status of a Service.
pub fn status_update(_: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let status = root.child("status");
    let balancer = status.child("loadBalancer");
    let entries = balancer.child("ingress");
    if new.pointer("/spec/type").and_then(Value::as_str) != Some("LoadBalancer")
        && !entries.is_empty()
    {
        entries.forbidden(
            errors,
            "may only be used when `spec.type` is 'LoadBalancer'",
        );
        return;
    }
    balancer_status(&balancer, true, errors);
}
