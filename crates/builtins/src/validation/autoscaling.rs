//! Autoscalers, in the version they are stored in.

use everflow_json::Value;

use super::super::at::{At, or_null};
use super::super::{Context, names};
use super::resources;
use crate::field::Errors;

const SOURCES: [&str; 5] = [
    "ContainerResource",
    "External",
    "Object",
    "Pods",
    "Resource",
];
const NOT_GIVEN: &str = "must populate information for the given metric source";

/// Checks a new autoscaler.
pub fn create(context: &Context<'_>, object: &Value, errors: &mut Errors) {
    autoscaler(context, object, None, errors);
}

/// Checks a changed autoscaler.
pub fn update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    autoscaler(context, new, Some(old), errors);
}

/// Checks a changed status.
pub fn status_update(_: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    let root = At::root(new);
    let status = root.child("status");
    status.child("currentReplicas").not_negative(errors);
    status.child("desiredReplicas").not_negative(errors);
}

fn autoscaler(context: &Context<'_>, object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    let (least, most) = (spec.child("minReplicas"), spec.child("maxReplicas"));
    let smallest = match context.env.has_feature("HPAScaleToZero") {
        true => 0,
        false => 1,
    };
    if least.int().is_some_and(|least| least < smallest) {
        let detail = format!("must be greater than or equal to {smallest}");
        least.invalid(errors, &detail);
    }
    if most.number() == 0 {
        most.required(errors, "must be set and greater than 0");
    } else if most.number() < 0 {
        most.invalid(errors, "must be greater than or equal to 1");
    }
    if least.int().is_some_and(|least| most.number() < least) {
        most.invalid_as(
            errors,
            most.number(),
            "must be greater than or equal to `minReplicas`",
        );
    }
    let target = spec.child("scaleTargetRef");
    let same = old
        .map(|old| or_null(old.pointer("/spec/scaleTargetRef")))
        .is_some_and(|before| {
            before.get("apiVersion") == target.value.get("apiVersion")
                && before.get("kind") == target.value.get("kind")
        });
    let core = target.child("kind").text() == "ReplicationController";
    reference(&target, !same, core, errors);
    metrics(&spec.child("metrics"), least.int(), errors);
    let behavior = spec.child("behavior");
    for key in ["scaleUp", "scaleDown"] {
        let rules = behavior.child(key);
        if rules.is_set() {
            scaling_rules(&rules, errors);
        }
    }
}

fn reference(at: &At<'_, '_>, check_version: bool, may_be_core: bool, errors: &mut Errors) {
    at.child("kind").needed_by(names::path_segment, errors);
    at.child("name").needed_by(names::path_segment, errors);
    let version = at.child("apiVersion");
    if !check_version {
        return;
    }
    if version.text().matches('/').count() > 1 {
        version.invalid(
            errors,
            format!("unexpected GroupVersion string: {}", version.text()),
        );
    } else if !may_be_core && !version.text().contains('/') {
        version.invalid(errors, "apiVersion must specify API group");
    }
}

fn metrics(at: &At<'_, '_>, least: Option<i64>, errors: &mut Errors) {
    let mut others = false;
    for metric in at.items() {
        metric_spec(&metric, errors);
        others |= matches!(metric.child("type").text(), "Object" | "External");
    }
    if least == Some(0) && !others {
        at.forbidden(errors, "must specify at least one Object or External metric to support scaling to zero replicas");
    }
}

fn metric_spec(at: &At<'_, '_>, errors: &mut Errors) {
    let kind = at.child("type");
    if kind.is_empty() {
        kind.required(errors, "must specify a metric source type");
    }
    if !SOURCES.contains(&kind.text()) {
        kind.unsupported(errors, &SOURCES);
    }
    let mut given = Vec::new();
    for key in [
        "object",
        "external",
        "pods",
        "resource",
        "containerResource",
    ] {
        let source = at.child(key);
        if !source.is_set() {
            continue;
        }
        given.push(key);
        if given.len() == 1 {
            metric_source(key, &source, errors);
        }
    }
    let expected = match kind.text() {
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "External" => "external",
        "ContainerResource" => "containerResource",
        _ => {
            kind.unsupported(errors, &SOURCES);
            ""
        }
    };
    if !expected.is_empty() && !at.child(expected).is_set() {
        at.child(expected).required(errors, NOT_GIVEN);
    }
    if given.len() != 1 {
        for key in given.into_iter().filter(|key| *key != expected) {
            at.child(key)
                .forbidden(errors, "must populate the given metric source only");
        }
    }
}

fn metric_source(key: &str, at: &At<'_, '_>, errors: &mut Errors) {
    let target = at.child("target");
    let (value, average, utilization) = (
        target.child("value"),
        target.child("averageValue"),
        target.child("averageUtilization"),
    );
    match key {
        "object" => {
            reference(&at.child("describedObject"), true, true, errors);
            identifier(&at.child("metric"), errors);
        }
        "external" | "pods" => identifier(&at.child("metric"), errors),
        _ => {
            let (name, container) = (at.child("name"), at.child("container"));
            if name.is_empty() {
                name.required(errors, "must specify a resource name");
            } else if key == "containerResource" {
                resources::container_name(name.text(), &name, errors);
            }
            if key == "containerResource" {
                if container.is_empty() {
                    container.required(errors, "must specify a container");
                } else {
                    container.by(names::dns_label, errors);
                }
            }
        }
    }
    metric_target(&target, errors);
    let neither = !value.is_set() && !average.is_set();
    match key {
        "object" if neither => {
            average.required(errors, "must set either a target value or averageValue")
        }
        "external" if neither => average.required(
            errors,
            "must set either a target value for metric or a per-pod target",
        ),
        "external" if value.is_set() && average.is_set() => {
            value.forbidden(
                errors,
                "may not set both a target value for metric and a per-pod target",
            );
        }
        "pods" if !average.is_set() => {
            average.required(errors, "must specify a positive target averageValue")
        }
        "resource" | "containerResource" if !utilization.is_set() && !average.is_set() => {
            utilization.required(
                errors,
                "must set either a target raw value or a target utilization",
            );
        }
        "resource" | "containerResource" if utilization.is_set() && average.is_set() => {
            average.forbidden(
                errors,
                "may not set both a target raw value and a target utilization",
            );
        }
        _ => {}
    }
}

fn identifier(at: &At<'_, '_>, errors: &mut Errors) {
    let name = at.child("name");
    if name.is_empty() {
        name.required(errors, "must specify a metric name");
    } else {
        name.by(names::path_segment, errors);
    }
}

fn metric_target(at: &At<'_, '_>, errors: &mut Errors) {
    let kind = at.child("type");
    if kind.is_empty() {
        kind.required(errors, "must specify a metric target type");
    }
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        kind.invalid(errors, "must be either Utilization, Value, or AverageValue");
    }
    for key in ["value", "averageValue"] {
        let amount = at.child(key);
        if amount.quantity().is_some_and(|amount| amount.sign() < 1) {
            amount.invalid(errors, "must be positive");
        }
    }
    let utilization = at.child("averageUtilization");
    if utilization.int().is_some_and(|percent| percent < 1) {
        utilization.invalid(errors, "must be greater than 0");
    }
}

fn scaling_rules(at: &At<'_, '_>, errors: &mut Errors) {
    let window = at.child("stabilizationWindowSeconds");
    if window.number() < 0 {
        window.invalid(errors, "must be greater than or equal to zero");
    }
    if window.number() > 3600 {
        window.invalid(errors, "must be less than or equal to 3600");
    }
    at.child("selectPolicy")
        .one_of(errors, &["Disabled", "Max", "Min"]);
    let policies = at.child("policies");
    if policies.is_empty() {
        policies.required(errors, "must specify at least one Policy");
    }
    for policy in policies.items() {
        let (kind, value, period) = (
            policy.child("type"),
            policy.child("value"),
            policy.child("periodSeconds"),
        );
        if !matches!(kind.text(), "Pods" | "Percent") {
            kind.unsupported(errors, &["Percent", "Pods"]);
        }
        for number in [&value, &period] {
            if number.number() <= 0 {
                number.invalid_as(errors, number.number(), "must be greater than zero");
            }
        }
        if period.number() > 1800 {
            period.invalid(errors, "must be less than or equal to 1800");
        }
    }
    let tolerance = at.child("tolerance");
    if let Some(amount) = tolerance.quantity().filter(|amount| amount.sign() < 0) {
        tolerance.invalid_as(
            errors,
            amount.canonical(),
            "must be greater than or equal to 0",
        );
    }
}
