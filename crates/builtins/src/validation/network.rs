//! Ingresses, their classes, and network policies.

use everflow_json::Value;

use super::super::at::{At, or_null};
use super::super::{Context, meta, names, net};
use super::batch::domain_prefixed_path;
use super::service::balancer_status;
use crate::field::{Errors, FieldError, go_json};

/// Checks a new Ingress.
pub fn ingress(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    ingress_spec(&root.child("spec"), errors);
    let class = object
        .pointer("/spec/ingressClassName")
        .and_then(Value::as_str);
    let annotation = object
        .pointer("/metadata/annotations")
        .and_then(|map| map.get("kubernetes.io/ingress.class"));
    if let (Some(class), Some(Value::String(annotation))) = (class, annotation)
        && annotation != class
    {
        let annotations = root.child("annotations");
        let here = annotations.child("kubernetes.io/ingress.class");
        here.invalid_as(
            errors,
            annotation.as_str(),
            "must match `ingressClassName` when both are specified",
        );
    }
}

/// Checks a changed Ingress.
pub fn ingress_update(_: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    meta::validate(new, true, true, names::dns_subdomain, errors);
    ingress_spec(&At::root(new).child("spec"), errors);
}

/// Checks a changed status of an Ingress.
pub fn ingress_status(_: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    balancer_status(
        &At::root(new).child("status").child("loadBalancer"),
        false,
        errors,
    );
}

fn ingress_spec(spec: &At<'_, '_>, errors: &mut Errors) {
    let (rules, default) = (spec.child("rules"), spec.child("defaultBackend"));
    if rules.is_empty() && !default.is_set() {
        let shown = go_json(rules.value);
        errors.push(FieldError::invalid_shown(
            &spec.path(),
            shown,
            "either `defaultBackend` or `rules` must be specified",
        ));
    }
    if default.is_set() {
        backend(&default, errors);
    }
    for rule in rules.items() {
        let host = rule.child("host");
        if !host.is_empty() {
            if net::sloppy(host.text()).is_some() {
                host.invalid(errors, "must be a DNS name, not an IP address");
            }
            host_name(&host, errors);
        }
        let http = rule.child("http");
        let paths = http.child("paths");
        if http.is_set() && paths.is_empty() {
            paths.required(errors, "");
        }
        paths.items().for_each(|path| http_path(&path, errors));
    }
    for tls in spec.child("tls").items() {
        tls.child("hosts")
            .items()
            .for_each(|host| host_name(&host, errors));
        tls.child("secretName")
            .by_if_any(names::dns_subdomain, errors);
    }
    let class = spec.child("ingressClassName");
    if class.is_set() {
        class.by(names::dns_subdomain, errors);
    }
}

fn host_name(at: &At<'_, '_>, errors: &mut Errors) {
    let rule = if at.text().contains('*') {
        names::wildcard_subdomain
    } else {
        names::dns_subdomain
    };
    at.by(rule, errors);
}

fn http_path(at: &At<'_, '_>, errors: &mut Errors) {
    let (kind, path) = (at.child("pathType"), at.child("path"));
    let absolute = "must be an absolute path";
    if !kind.is_set() {
        kind.required(errors, "pathType must be specified");
        return;
    }
    match kind.text() {
        "Exact" | "Prefix" => {
            if !path.text().starts_with('/') {
                path.invalid(errors, absolute);
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.text().contains(sequence) {
                    path.invalid(errors, format!("must not contain '{sequence}'"));
                }
            }
            for suffix in ["/..", "/."] {
                if path.text().ends_with(suffix) {
                    path.invalid(errors, format!("cannot end with '{suffix}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !path.text().starts_with('/') {
                path.invalid(errors, absolute);
            }
        }
        _ => kind.unsupported(errors, &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    backend(&at.child("backend"), errors);
}

fn backend(at: &At<'_, '_>, errors: &mut Errors) {
    let (resource, service) = (at.child("resource"), at.child("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => at.invalid_as(errors, "", "cannot set both resource and service backends"),
        (false, false) => at.invalid_as(errors, "", "resource or service backend is required"),
        (true, false) => {
            let group = resource.child("apiGroup");
            if group.is_set() {
                group.by(names::dns_subdomain, errors);
            }
            resource
                .child("kind")
                .needed_by(names::path_segment, errors);
            resource
                .child("name")
                .needed_by(names::path_segment, errors);
        }
        (false, true) => {
            service.child("name").needed_by(names::dns_label, errors);
            let port = service.child("port");
            let (name, number) = (port.child("name"), port.child("number"));
            match (!name.is_empty(), number.number() != 0) {
                (true, true) => {
                    at.invalid_as(errors, "", "cannot set both port name & port number")
                }
                (true, false) => name.by(names::port_name, errors),
                (false, true) => number.port(errors),
                (false, false) => at.required(errors, "port name or number is required"),
            }
        }
    }
}

/// Checks an IngressClass.
pub fn class(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    let controller = spec.child("controller");
    if controller.text().len() > 250 {
        controller.too_long(errors, 250);
    }
    domain_prefixed_path(&controller, errors);
    let parameters = spec.child("parameters");
    if !parameters.is_set() {
        return;
    }
    let (group, namespace, scope) = (
        parameters.child("apiGroup"),
        parameters.child("namespace"),
        parameters.child("scope"),
    );
    if group.is_set() {
        group.by(names::dns_subdomain, errors);
    }
    parameters
        .child("kind")
        .needed_by(names::path_segment, errors);
    parameters
        .child("name")
        .needed_by(names::path_segment, errors);
    match scope.text() {
        "Namespace" if !namespace.is_set() => {
            namespace.required(errors, "`parameters.scope` is set to 'Namespace'")
        }
        "Namespace" => namespace.by(names::dns_label, errors),
        "Cluster" if namespace.is_set() => {
            namespace.forbidden(errors, "`parameters.scope` is set to 'Cluster'")
        }
        "Cluster" => {}
        _ if !scope.is_set() => scope.required(errors, ""),
        _ => scope.unsupported(errors, &["Cluster", "Namespace"]),
    }
}

/// Checks a changed IngressClass.
pub fn class_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    root.child("spec")
        .child("controller")
        .text_unchanged(or_null(old.pointer("/spec/controller")), errors);
    meta::validate(new, false, true, names::dns_subdomain, errors);
    class(context, new, errors);
}

/// Checks a NetworkPolicy.
pub fn policy(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    policy_spec(&At::root(object).child("spec"), &[], errors);
}

/// Checks a changed NetworkPolicy.
pub fn policy_update(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    let mut kept: Vec<&str> = Vec::new();
    let old = At::root(old);
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        let rules = old.child("spec").value.get(list).and_then(Value::as_array);
        let blocks = rules
            .into_iter()
            .flatten()
            .filter_map(|rule| rule.get(peers)?.as_array())
            .flatten();
        for block in blocks.filter_map(|peer| peer.get("ipBlock")) {
            kept.push(super::text(block, "cidr"));
            kept.extend(
                block
                    .get("except")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str),
            );
        }
    }
    policy_spec(&At::root(new).child("spec"), &kept, errors);
}

fn policy_spec(spec: &At<'_, '_>, kept: &[&str], errors: &mut Errors) {
    spec.child("podSelector").label_selector(errors);
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.child(list).items() {
            rule.child("ports")
                .items()
                .for_each(|port| policy_port(&port, errors));
            rule.child(peers)
                .items()
                .for_each(|peer| policy_peer(&peer, kept, errors));
        }
    }
    let types = spec.child("policyTypes");
    if types.len() > 2 {
        types.invalid(errors, "may not specify more than two policyTypes");
        return;
    }
    types
        .items()
        .for_each(|kind| kind.one_of(errors, &["Ingress", "Egress"]));
}

fn policy_port(at: &At<'_, '_>, errors: &mut Errors) {
    at.child("protocol").one_of(errors, &["TCP", "UDP", "SCTP"]);
    let (port, end) = (at.child("port"), at.child("endPort"));
    match port.value {
        Value::Null => {
            if end.is_set() {
                end.invalid(errors, "may not be specified when `port` is not specified");
            }
        }
        Value::String(_) => {
            if end.is_set() {
                end.invalid(errors, "may not be specified when `port` is non-numeric");
            }
            port.by(names::port_name, errors);
        }
        _ => {
            port.port(errors);
            if end.is_set() {
                if end.number() < port.number() {
                    end.invalid_as(
                        errors,
                        port.number(),
                        "must be greater than or equal to `port`",
                    );
                }
                end.port(errors);
            }
        }
    }
}

fn policy_peer(at: &At<'_, '_>, kept: &[&str], errors: &mut Errors) {
    let (pods, namespaces, block) = (
        at.child("podSelector"),
        at.child("namespaceSelector"),
        at.child("ipBlock"),
    );
    pods.label_selector(errors);
    namespaces.label_selector(errors);
    if block.is_set() {
        ip_block(&block, kept, errors);
    }
    let count = [&pods, &namespaces, &block]
        .iter()
        .filter(|part| part.is_set())
        .count();
    if count == 0 {
        at.required(errors, "must specify a peer");
    } else if count > 1 && block.is_set() {
        at.forbidden(errors, "may not specify both ipBlock and another peer");
    }
}

fn ip_block(at: &At<'_, '_>, kept: &[&str], errors: &mut Errors) {
    let cidr = at.child("cidr");
    if !cidr.needs_text(errors) {
        return;
    }
    net::cidr(&cidr, kept, errors);
    let Some((address, length)) = net::network(cidr.text()) else {
        return;
    };
    for except in at.child("except").items() {
        net::cidr(&except, kept, errors);
        let Some((inner, inner_length)) = net::network(except.text()) else {
            continue;
        };
        let inside = address.is_ipv4() == inner.is_ipv4()
            && net::masked(inner, length) == net::masked(address, length);
        if !inside || length >= inner_length {
            except.invalid(errors, "must be a strict subset of `cidr`");
        }
    }
}
