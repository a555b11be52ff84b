//! Limit ranges and quotas.

use std::collections::BTreeSet;

use everflow_json::{Value, json};

use super::super::at::{At, or_null};
use super::super::{Context, internal, meta, names};
use super::resources;
use crate::field::{Errors, FieldError};
use everflow_schema::quantity::Quantity;

/// Checks a LimitRange.
pub fn range(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    let limits = spec.child("limits");
    let mut seen: Vec<&str> = Vec::new();
    for limit in limits.items() {
        let kind = limit.child("type");
        let before = errors.len();
        kind.by(names::qualified_name, errors);
        let known = matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim");
        if errors.len() == before && !kind.text().contains('/') && !known {
            kind.invalid(errors, "must be a standard limit type or fully qualified");
        }
        if seen.contains(&kind.text()) {
            kind.duplicate_text(errors);
        }
        seen.push(kind.text());
        range_item(&limit, kind.text(), errors);
    }
}

/// Checks a changed LimitRange.
pub fn range_update(context: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    meta::validate(new, true, true, names::dns_subdomain, errors);
    range(context, new, errors);
}

fn range_item(at: &At<'_, '_>, kind: &str, errors: &mut Errors) {
    let name = |name: &str, at: &At<'_, '_>, errors: &mut Errors| {
        if matches!(kind, "Pod" | "Container") {
            resources::container_name(name, at, errors);
        } else {
            resources::name(name, at, errors);
        }
    };
    let mut keys = BTreeSet::new();
    for part in [
        "max",
        "min",
        "default",
        "defaultRequest",
        "maxLimitRequestRatio",
    ] {
        let map = at.child(part);
        if part == "maxLimitRequestRatio" && kind == "PersistentVolumeClaim" {
            let has = |part: &'static str| at.child(part).key("storage").is_set();
            if !has("min") && !has("max") {
                at.child("limits").required(
                    errors,
                    "either minimum or maximum storage value is required, but neither was provided",
                );
            }
        }
        if kind == "Pod" && part.starts_with("default") {
            if !map.is_empty() {
                map.forbidden(errors, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (key, entry) in map.entries() {
            name(key, &entry, errors);
            keys.insert(key);
        }
    }
    for key in keys {
        range_bounds(at, kind, key, errors);
    }
}

fn range_bounds<'v>(at: &At<'_, 'v>, kind: &str, key: &'v str, errors: &mut Errors) {
    let get = |part: &'static str| -> Option<Quantity> {
        let hidden = kind == "Pod" && part.starts_with("default");
        at.child(part).key(key).quantity().filter(|_| !hidden)
    };
    let (least, most) = (get("min"), get("max"));
    let (default, request, ratio) = (
        get("default"),
        get("defaultRequest"),
        get("maxLimitRequestRatio"),
    );
    let mut ordered = |low: Option<Quantity>,
                       high: Option<Quantity>,
                       part: &'static str,
                       shown: Option<Quantity>,
                       words: [&str; 2]| {
        if let (Some(low), Some(high), Some(shown)) = (low, high, shown)
            && low.compare(&high).is_gt()
        {
            let detail = format!(
                "{} {} is greater than {} {}",
                words[0],
                low.canonical(),
                words[1],
                high.canonical()
            );
            at.child(part)
                .key(key)
                .invalid_as(errors, shown.canonical(), detail);
        }
    };
    ordered(least, most, "min", least, ["min value", "max value"]);
    ordered(
        least,
        request,
        "defaultRequest",
        request,
        ["min value", "default request value"],
    );
    ordered(
        request,
        most,
        "defaultRequest",
        request,
        ["default request value", "max value"],
    );
    ordered(
        request,
        default,
        "defaultRequest",
        request,
        ["default request value", "default limit value"],
    );
    ordered(
        least,
        default,
        "default",
        least,
        ["min value", "default value"],
    );
    ordered(
        default,
        most,
        "default",
        most,
        ["default value", "max value"],
    );
    if let Some(ratio) = ratio {
        let part = at.child("maxLimitRequestRatio");
        let here = part.key(key);
        if ratio.milli() < 1000 {
            here.invalid_as(
                errors,
                ratio.canonical(),
                format!("ratio {} is less than 1", ratio.canonical()),
            );
        }
        if let (Some(least), Some(most)) = (least, most) {
            let limit = most.milli() as f64 / least.milli() as f64;
            if ratio.milli() as f64 / 1000.0 > limit {
                let detail = format!(
                    "ratio {} is greater than max/min = {limit:.6}",
                    ratio.canonical()
                );
                here.invalid_as(errors, ratio.canonical(), detail);
            }
        }
    }
    if let (Some(default), Some(request)) = (default, request)
        && !resources::may_overcommit(key)
        && !default.compare(&request).is_eq()
    {
        let detail = format!(
            "default value {} must equal to defaultRequest value {} in {key}",
            default.canonical(),
            request.canonical()
        );
        at.child("defaultRequest")
            .key(key)
            .invalid_as(errors, request.canonical(), detail);
    }
}

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];

fn scope_fits(scope: &str, resource: &str) -> bool {
    let compute = [
        "cpu",
        "memory",
        "limits.cpu",
        "limits.memory",
        "requests.cpu",
        "requests.memory",
    ];
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => resource == "pods" || compute.contains(&resource),
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
        }
        _ => true,
    }
}

fn amounts(at: &At<'_, '_>, errors: &mut Errors) {
    for (name, entry) in at.entries() {
        resources::quota_name(name, &entry, errors);
        resources::amount(name, &entry, errors);
    }
}

/// Checks a ResourceQuota.
pub fn quota(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    let (hard, scopes) = (spec.child("hard"), spec.child("scopes"));
    amounts(&hard, errors);
    let misfits = |scope: &str| {
        hard.entries()
            .filter(|(name, _)| resources::is_quota(name) && !scope_fits(scope, name))
            .count()
    };
    let conflicts = |given: &[&str]| {
        let both = |pair: [&str; 2]| pair.iter().all(|scope| given.contains(scope));
        [
            ["BestEffort", "NotBestEffort"],
            ["Terminating", "NotTerminating"],
        ]
        .into_iter()
        .filter(|pair| both(*pair))
        .count()
    };
    for scope in scopes.texts() {
        if !SCOPES.contains(&scope) {
            scopes.invalid(errors, "unsupported scope");
        }
        (0..misfits(scope))
            .for_each(|_| scopes.invalid(errors, "unsupported scope applied to resource"));
    }
    (0..conflicts(&scopes.texts())).for_each(|_| scopes.invalid(errors, "conflicting scopes"));
    let selector = spec.child("scopeSelector");
    let expressions = selector.child("matchExpressions");
    let mut given = Vec::new();
    for expression in expressions.items() {
        let scope = super::text(expression.value, "scopeName");
        let field = |key: &'static str| expressions.named(or_null(expression.value.get(key)), key);
        if !SCOPES.contains(&scope) {
            field("scopeName").invalid(errors, "unsupported scope");
        }
        for _ in 0..misfits(scope) {
            let shown = internal::text("core.ScopeSelector", selector.value);
            errors.push(FieldError::invalid_shown(
                &expressions.path(),
                shown,
                "unsupported scope applied to resource",
            ));
        }
        let (operator, values) = (field("operator"), field("values"));
        if !matches!(scope, "PriorityClass" | "VolumeAttributesClass")
            && SCOPES.contains(&scope)
            && operator.text() != "Exists"
        {
            operator.invalid(errors, "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity");
        }
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => {
                values.required(errors, "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector");
            }
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                values.invalid(errors, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector");
            }
            "Exists" | "DoesNotExist" => {}
            _ => operator.invalid(errors, "not a valid selector operator"),
        }
        given.push(scope);
    }
    for _ in 0..conflicts(&given) {
        expressions.invalid_as(errors, scopes.value.clone(), "conflicting scopes");
    }
}

/// Checks a changed ResourceQuota.
pub fn quota_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    quota(context, new, errors);
    let set = |object: &Value| -> BTreeSet<String> {
        let list = object
            .pointer("/spec/scopes")
            .cloned()
            .unwrap_or_else(|| json!([]));
        list.as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    if set(new) != set(old) {
        let root = At::root(new);
        root.child("spec")
            .child("scopes")
            .invalid_or_null(errors, "field is immutable");
    }
}

/// Checks a changed status of a ResourceQuota.
pub fn quota_status(_: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let status = root.child("status");
    amounts(&status.child("hard"), errors);
    amounts(&status.child("used"), errors);
}
