//! Small kinds that rule others: disruption budgets, priorities, runtime classes, leases.

use everflow_json::Value;

use super::super::at::{At, or_null};
use super::super::{Context, meta, names};
use super::{resources, scheduling, workloads};
use crate::field::{Errors, FieldError};

/// Checks a PodDisruptionBudget.
pub fn budget(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    let bounds = [spec.child("minAvailable"), spec.child("maxUnavailable")];
    if bounds.iter().all(At::is_set) {
        spec.invalid_internal(
            errors,
            "policy.PodDisruptionBudgetSpec",
            "minAvailable and maxUnavailable cannot be both set",
        );
    }
    for bound in bounds.iter().filter(|bound| bound.is_set()) {
        workloads::count_or_percent(bound, errors);
        workloads::not_above_all(bound, errors);
    }
    spec.child("selector").label_selector(errors);
    spec.child("unhealthyPodEvictionPolicy")
        .one_of(errors, &["AlwaysAllow", "IfHealthyBudget"]);
}

/// Checks a changed PodDisruptionBudget.
pub fn budget_update(context: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    budget(context, new, errors);
}

/// Checks a PriorityClass.
pub fn priority(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let metadata = root.child("metadata");
    let (name, value) = (metadata.child("name"), root.child("value"));
    if name.text().starts_with("system-") {
        if let Some(problem) = system_priority(
            name.text(),
            value.number(),
            root.child("globalDefault").is_true(),
        ) {
            name.forbidden(errors, &format!("priority class names with 'system-' prefix are reserved for system use only. error: {problem}"));
        }
    } else if value.number() > 1_000_000_000 {
        value.forbidden(
            errors,
            "maximum allowed value of a user defined priority is 1000000000",
        );
    }
    let policy = root.child("preemptionPolicy");
    if policy.is_set() {
        policy.needs_one_of(errors, &["PreemptLowerPriority", "Never"]);
    }
}

/// Why a class with a system's name is not the system's own.
fn system_priority(name: &str, value: i64, global: bool) -> Option<String> {
    let known = match name {
        "system-node-critical" => 2_000_001_000,
        "system-cluster-critical" => 2_000_000_000,
        _ => return Some(format!("{name} is not a known system priority class")),
    };
    if value != known {
        return Some(format!("value of {name} PriorityClass must be {known}"));
    }
    global.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

/// What a PriorityClass is worth never changes.
pub fn priority_update(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let value = root.child("value");
    if value.number() != old.get("value").and_then(Value::as_i64).unwrap_or_default() {
        value.forbidden(errors, "may not be changed in an update.");
    }
    root.child("preemptionPolicy")
        .unchanged(or_null(old.get("preemptionPolicy")), errors);
}

/// Checks a RuntimeClass.
pub fn runtime(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    root.child("handler").needed_by(names::dns_label, errors);
    let overhead = root.child("overhead");
    if overhead.is_set() {
        resources::limits_only(&overhead, &overhead.child("podFixed"), errors);
    }
    let placement = root.child("scheduling");
    placement.child("nodeSelector").labels(errors);
    let tolerations = placement.child("tolerations");
    scheduling::tolerations(&tolerations, errors);
    let mut seen: Vec<[&str; 4]> = Vec::new();
    for toleration in tolerations.items() {
        let key =
            ["key", "operator", "value", "effect"].map(|part| super::text(toleration.value, part));
        if seen.contains(&key) {
            let mut error = FieldError::duplicate(&toleration.path(), "");
            error.shown = Some(super::super::internal::text(
                "core.Toleration",
                toleration.value,
            ));
            errors.push(error);
        }
        seen.push(key);
    }
}

/// The handler of a RuntimeClass never changes.
pub fn runtime_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    meta::validate(new, false, true, names::dns_subdomain, errors);
    runtime(context, new, errors);
    meta::validate_update(new, old, true, errors);
    At::root(new)
        .child("handler")
        .text_unchanged(or_null(old.get("handler")), errors);
}

/// Checks a Lease.
pub fn lease(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    let (duration, strategy, preferred) = (
        spec.child("leaseDurationSeconds"),
        spec.child("strategy"),
        spec.child("preferredHolder"),
    );
    if duration.int().is_some_and(|seconds| seconds <= 0) {
        duration.invalid(errors, "must be greater than 0");
    }
    spec.child("leaseTransitions").not_negative(errors);
    if strategy.is_set() && strategy.text() != "OldestEmulationVersion" {
        strategy_name(&strategy, errors);
    }
    if !preferred.is_empty() && strategy.is_empty() {
        preferred.forbidden(errors, "may only be specified if `strategy` is defined");
    }
}

fn strategy_name(at: &At<'_, '_>, errors: &mut Errors) {
    let parts: Vec<&str> = at.text().split('/').collect();
    match parts.as_slice() {
        [_] => at.unsupported(errors, &["OldestEmulationVersion"]),
        [_, _] => at.by(names::qualified_name, errors),
        _ => at.invalid(errors, "must be a fully qualified name"),
    }
}

/// Checks a changed Lease.
pub fn lease_update(context: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    lease(context, new, errors);
}
