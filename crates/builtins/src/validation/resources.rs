//! Names and amounts of resources.

use std::cmp::Ordering;

use super::super::at::At;
use super::super::names;
use crate::field::{Errors, FieldError};
use everflow_schema::quantity::Quantity;

const CONTAINER: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const QUOTA: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
const WHOLE: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Whether the name is one of huge pages.
pub fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_quota_huge_page(name: &str) -> bool {
    is_huge_page(name) || name.starts_with("requests.hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether a container may request less of it than its limit.
pub fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Whether a quota may name it.
pub fn is_quota(name: &str) -> bool {
    QUOTA.contains(&name) || is_quota_huge_page(name)
}

/// A name that is known or qualified.
pub fn name(name: &str, at: &At<'_, '_>, errors: &mut Errors) -> bool {
    let problems = names::qualified_name(name);
    let bad = !problems.is_empty();
    for problem in problems {
        at.invalid_as(errors, name, problem);
    }
    if bad {
        return false;
    }
    let known = QUOTA.contains(&name) || name == "storage" || is_quota_huge_page(name);
    if !name.contains('/') && !known {
        at.invalid_as(
            errors,
            name,
            "must be a standard resource type or fully qualified",
        );
        return false;
    }
    true
}

/// A name that a container may use.
pub fn container_name(text: &str, at: &At<'_, '_>, errors: &mut Errors) {
    name(text, at, errors);
    if !text.contains('/') {
        if !CONTAINER.contains(&text) && !is_huge_page(text) {
            at.invalid_as(errors, text, "must be a standard resource for containers");
        }
    } else if !is_native(text) && !is_extended(text) {
        at.invalid_as(
            errors,
            text,
            "doesn't follow extended resource name standard",
        );
    }
}

/// A name that a quota may use.
pub fn quota_name(text: &str, at: &At<'_, '_>, errors: &mut Errors) {
    name(text, at, errors);
    if !text.contains('/') && !is_quota(text) {
        at.invalid_as(errors, text, "must be a standard resource for quota");
    }
}

fn pod_name(text: &str, at: &At<'_, '_>, errors: &mut Errors) {
    if name(text, at, errors) && !matches!(text, "cpu" | "memory") && !is_huge_page(text) {
        errors.push(FieldError::not_supported(
            &at.path(),
            text,
            &["cpu", "hugepages-", "memory"],
        ));
    }
}

/// An amount that is not negative, and whole where parts make no sense.
pub fn amount(name: &str, at: &At<'_, '_>, errors: &mut Errors) {
    let Some(quantity) = at.quantity() else {
        return;
    };
    if quantity.sign() < 0 {
        at.invalid_as(
            errors,
            quantity.canonical(),
            "must be greater than or equal to 0",
        );
    }
    if (WHOLE.contains(&name) || is_extended(name)) && quantity.milli() % 1000 != 0 {
        at.invalid(errors, "must be an integer");
    }
}

fn huge_page_amount(name: &str, at: &At<'_, '_>, errors: &mut Errors) {
    let Some(quantity) = at.quantity().filter(|_| is_huge_page(name)) else {
        return;
    };
    let size = Quantity::parse(&name["hugepages-".len()..]);
    let divisible = size.is_ok_and(|size| {
        size.sign() > 0 && size.milli() % 1000 == 0 && quantity.whole() % size.whole() == 0
    });
    if !divisible {
        let text = quantity.canonical();
        let detail = format!("{text} is not positive integer multiple of {name}");
        at.invalid_as(errors, text, detail);
    }
}

/// What a container asks for.
pub fn container(at: &At<'_, '_>, claims: &[&str], errors: &mut Errors) {
    requirements(at, container_name, claims, errors);
}

/// What a pod asks for as a whole.
pub fn pod(at: &At<'_, '_>, claims: &[&str], errors: &mut Errors) {
    requirements(at, pod_name, claims, errors);
}

/// Limits alone, such as the overhead of a pod.
pub fn limits_only(at: &At<'_, '_>, limits: &At<'_, '_>, errors: &mut Errors) {
    let shown = at.named(limits.value, "limits");
    for (name, entry) in shown.entries() {
        container_name(name, &entry, errors);
        amount(name, &entry, errors);
        huge_page_amount(name, &entry, errors);
    }
}

fn requirements(
    at: &At<'_, '_>,
    rule: fn(&str, &At<'_, '_>, &mut Errors),
    claims: &[&str],
    errors: &mut Errors,
) {
    let (limits, requests) = (at.child("limits"), at.child("requests"));
    let (mut huge, mut computes) = (false, false);
    for (name, entry) in limits.entries() {
        rule(name, &entry, errors);
        amount(name, &entry, errors);
        huge_page_amount(name, &entry, errors);
        huge |= is_huge_page(name);
        computes |= matches!(name, "cpu" | "memory");
    }
    for (name, entry) in requests.entries() {
        rule(name, &entry, errors);
        amount(name, &entry, errors);
        compare(name, &entry, &limits, &requests, errors);
        huge_page_amount(name, &entry, errors);
        huge |= is_huge_page(name);
        computes |= matches!(name, "cpu" | "memory");
    }
    if huge && !computes {
        at.forbidden(errors, "HugePages require cpu or memory");
    }
    claim_names(&at.child("claims"), claims, errors);
}

fn compare(
    name: &str,
    request: &At<'_, '_>,
    limits: &At<'_, '_>,
    requests: &At<'_, '_>,
    errors: &mut Errors,
) {
    let limit = limits
        .value
        .get(name)
        .and_then(everflow_json::Value::as_str)
        .and_then(|text| Quantity::parse(text).ok());
    let Some(limit) = limit else {
        if !may_overcommit(name) {
            limits.required(errors, "Limit must be set for non overcommitable resources");
        }
        return;
    };
    let Some(request) = request.quantity() else {
        return;
    };
    let order = request.compare(&limit);
    let word = match order {
        Ordering::Equal => return,
        _ if !may_overcommit(name) => "equal to",
        Ordering::Greater => "less than or equal to",
        Ordering::Less => return,
    };
    let detail = format!("must be {word} {name} limit of {}", limit.canonical());
    requests.invalid_as(errors, request.canonical(), detail);
}

fn claim_names(at: &At<'_, '_>, known: &[&str], errors: &mut Errors) {
    let mut seen: Vec<String> = Vec::new();
    for claim in at.items() {
        let (name, request) = (claim.child("name").text(), claim.child("request"));
        if name.is_empty() {
            claim.required(errors, "");
            continue;
        }
        let key = if request.text().is_empty() {
            name.to_owned()
        } else {
            format!("{name}/{}", request.text())
        };
        if seen.iter().any(|earlier| earlier == name) {
            errors.push(FieldError::duplicate(&claim.path(), name));
        } else {
            request.by_if_any(names::dns_label, errors);
            let part_of = |earlier: &String| {
                earlier
                    .split_once('/')
                    .is_some_and(|(front, _)| front == name)
            };
            if seen.contains(&key) {
                errors.push(FieldError::duplicate(&claim.path(), key.as_str()));
            } else if request.text().is_empty() && seen.iter().any(part_of) {
                errors.push(FieldError::duplicate(&claim.path(), name));
            }
            seen.push(key);
        }
        if !known.contains(&name) {
            let mut error = FieldError::not_found(&claim.path(), name);
            error.detail = "must be one of the names in pod.spec.resourceClaims".to_owned();
            if known.is_empty() {
                error.detail.push_str(" which is empty");
            } else {
                let mut sorted = known.to_vec();
                sorted.sort_unstable();
                error.detail.push_str(&format!(": {}", sorted.join(", ")));
            }
            errors.push(error);
        }
    }
}
