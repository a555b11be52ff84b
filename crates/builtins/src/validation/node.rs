//! Nodes and namespaces.

use everflow_json::Value;

use super::super::at::{At, or_null};
use super::super::{Context, internal, meta, names, net};
use super::{resources, scheduling};
use crate::field::{Errors, FieldError};

/// Checks a Node.
pub fn node(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    taints(&root, errors);
    amounts(&root, errors);
    let ranges = spec.child("podCIDRs");
    for range in ranges.items() {
        net::cidr(&range, &[], errors);
    }
    if ranges.len() > 1 {
        let unreadable = ranges
            .items()
            .enumerate()
            .find(|(_, range)| net::network(range.text()).is_none());
        if let Some((index, range)) = unreadable {
            let problem = format!(
                "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR address: {})",
                range.text()
            );
            errors.push(FieldError::internal(&ranges.path(), problem));
        }
    }
    let v6 = |range: &&str| range.contains(':');
    let all = ranges.texts();
    let both_families = all.iter().any(v6) && !all.iter().all(v6);
    if all.len() > 1 && (all.len() > 2 || !both_families) {
        ranges.invalid(
            errors,
            "may specify no more than one CIDR for each IP family",
        );
    }
}

/// Taints are reported below the metadata.
fn taints(root: &At<'_, '_>, errors: &mut Errors) {
    let metadata = root.child("metadata");
    let list = metadata.named(or_null(root.value.pointer("/spec/taints")), "taints");
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for taint in list.items() {
        let (key, value, effect) = (
            taint.child("key"),
            taint.child("value"),
            taint.child("effect"),
        );
        key.by(names::qualified_name, errors);
        let problems = names::label_value(value.text());
        if !problems.is_empty() {
            value.invalid(errors, problems.join(";"));
        }
        scheduling::taint_effect(&effect, errors);
        let pair = (
            super::text(taint.value, "key"),
            super::text(taint.value, "effect"),
        );
        if seen.contains(&pair) {
            let mut error = FieldError::duplicate(&taint.path(), "");
            error.shown = Some(internal::text("core.Taint", taint.value));
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
            continue;
        }
        seen.push(pair);
    }
}

fn amounts(root: &At<'_, '_>, errors: &mut Errors) {
    let status = root.child("status");
    for part in ["capacity", "allocatable"] {
        let map = status.child(part);
        for (name, entry) in map.entries() {
            resources::amount(name, &map.named(entry.value, name), errors);
        }
    }
}

/// Checks a changed Node.
pub fn node_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    meta::validate(new, false, true, names::dns_subdomain, errors);
    node(context, new, errors);
    meta::validate_update(new, old, true, errors);
    node_status(context, new, old, errors);
}

/// Checks a changed status of a Node.
pub fn node_status(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let (spec, status) = (root.child("spec"), root.child("status"));
    amounts(&root, errors);
    let mut seen: Vec<&Value> = Vec::new();
    for address in status.child("addresses").items() {
        if seen.contains(&address.value) {
            let mut error = FieldError::duplicate(&address.path(), "");
            error.shown = Some(internal::text("core.NodeAddress", address.value));
            errors.push(error);
        }
        seen.push(or_null(Some(address.value)));
    }
    let kept = |key: &str| format!("node updates may not change {key} except from \"\" to valid");
    let before = or_null(old.pointer("/spec/podCIDRs"));
    if before.as_array().is_some_and(|list| !list.is_empty())
        && spec.child("podCIDRs").value != before
    {
        spec.child("podCIDRs").forbidden(errors, &kept("podCIDR"));
    }
    let before = old
        .pointer("/spec/providerID")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !before.is_empty() && spec.child("providerID").text() != before {
        spec.child("providerID")
            .forbidden(errors, &kept("providerID"));
    }
    taints(&root, errors);
    let before = old
        .pointer("/spec/externalID")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if spec.child("externalID").text() != before {
        spec.child("externalID")
            .forbidden(errors, "may not be updated");
    }
}

/// Checks a new Namespace.
pub fn namespace(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    let finalizers = spec.child("finalizers");
    for name in finalizers.texts() {
        finalizer(&finalizers, name, errors);
    }
}

/// Checks a changed Namespace.
pub fn namespace_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    meta::validate(new, false, true, names::dns_label, errors);
    namespace(context, new, errors);
    meta::validate_update(new, old, true, errors);
}

fn finalizer(at: &At<'_, '_>, name: &str, errors: &mut Errors) {
    for problem in names::qualified_name(name) {
        at.invalid_as(errors, name, problem);
    }
    if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
        at.invalid_as(
            errors,
            name,
            "name is neither a standard finalizer name nor is it fully qualified",
        );
    }
}

/// Checks the finalizers that the subresource of a Namespace was given.
pub fn namespace_finalize(new: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let spec = root.child("spec");
    for name in spec.child("finalizers").items() {
        finalizer(&name, name.text(), errors);
    }
}

/// Checks a changed status of a Namespace.
pub fn namespace_status(_: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let status = root.child("status");
    let phase = status.named(status.child("phase").value, "Phase");
    let terminating = meta::is_terminating(new);
    match (terminating, phase.text()) {
        (false, "Active") | (true, "Terminating") => {}
        (false, _) => phase.invalid(
            errors,
            "may only be 'Active' if `deletionTimestamp` is empty",
        ),
        (true, _) => phase.invalid(
            errors,
            "may only be 'Terminating' if `deletionTimestamp` is not empty",
        ),
    }
}
