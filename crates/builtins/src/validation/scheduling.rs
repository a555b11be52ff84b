//! Where pods may run: affinity, tolerations, spreading.

use everflow_json::Value;

use super::super::at::At;
use super::super::names;
use crate::field::{Errors, FieldError};

/// Checks the affinity of a pod.
pub fn affinity(at: &At<'_, '_>, errors: &mut Errors) {
    let node = at.child("nodeAffinity");
    let required = node.child(REQUIRED);
    if required.is_set() {
        node_selector(&required, errors);
    }
    for term in node.child(PREFERRED).items() {
        weight(&term.child("weight"), errors);
        node_term(&term.child("preference"), false, errors);
    }
    for key in ["podAffinity", "podAntiAffinity"] {
        let pods = at.child(key);
        pods.child(REQUIRED)
            .items()
            .for_each(|term| pod_term(&term, errors));
        for weighted in pods.child(PREFERRED).items() {
            weight(&weighted.child("weight"), errors);
            pod_term(&weighted.child("podAffinityTerm"), errors);
        }
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn weight(at: &At<'_, '_>, errors: &mut Errors) {
    if !(1..=100).contains(&at.number()) {
        at.invalid_as(errors, at.number(), "must be in the range 1-100");
    }
}

/// Checks what selects nodes.
pub fn node_selector(at: &At<'_, '_>, errors: &mut Errors) {
    let terms = at.child("nodeSelectorTerms");
    if terms.is_empty() {
        terms.required(errors, "must have at least one node selector term");
    }
    terms
        .items()
        .for_each(|term| node_term(&term, true, errors));
}

fn node_term(at: &At<'_, '_>, check_values: bool, errors: &mut Errors) {
    for requirement in at.child("matchExpressions").items() {
        let (operator, values) = (requirement.child("operator"), requirement.child("values"));
        match operator.text() {
            _ if requirement.is_membership(errors) => {}
            "Gt" | "Lt" if values.len() != 1 => {
                values.required(
                    errors,
                    "must be specified single value when `operator` is 'Lt' or 'Gt'",
                );
            }
            "Gt" | "Lt" => {}
            _ => operator.invalid(errors, "not a valid selector operator"),
        }
        requirement.child("key").by(names::qualified_name, errors);
        if check_values {
            values
                .items()
                .for_each(|value| value.by(names::label_value, errors));
        }
    }
    for requirement in at.child("matchFields").items() {
        let (operator, values, key) = (
            requirement.child("operator"),
            requirement.child("values"),
            requirement.child("key"),
        );
        match operator.text() {
            "In" | "NotIn" if values.len() != 1 => values.required(
                errors,
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            ),
            "In" | "NotIn" => {}
            _ => operator.invalid(errors, "not a valid selector operator"),
        }
        if key.text() == "metadata.name" {
            values
                .items()
                .for_each(|value| value.by(names::dns_subdomain, errors));
        } else {
            key.invalid(errors, "not a valid field selector key");
        }
    }
}

fn pod_term(at: &At<'_, '_>, errors: &mut Errors) {
    let selector = at.child("labelSelector");
    selector.label_selector(errors);
    at.child("namespaceSelector").label_selector(errors);
    for namespace in at.child("namespaces").texts() {
        for problem in names::dns_label(namespace) {
            errors.push(FieldError::invalid(
                &at.child("namespace").path(),
                namespace,
                problem,
            ));
        }
    }
    label_keys(at, &selector, errors);
    let key = at.child("topologyKey");
    if key.is_empty() {
        key.required(errors, "can not be empty");
    }
    key.by(names::qualified_name, errors);
}

/// Keys whose values are taken from the pod itself.
fn label_keys(at: &At<'_, '_>, selector: &At<'_, '_>, errors: &mut Errors) {
    let (matching, differing) = (at.child("matchLabelKeys"), at.child("mismatchLabelKeys"));
    for keys in [&matching, &differing] {
        if keys.is_empty() {
            continue;
        }
        if !selector.is_set() {
            keys.forbidden(
                errors,
                "must not be specified when labelSelector is not set",
            );
            continue;
        }
        keys.items()
            .for_each(|key| key.by(names::qualified_name, errors));
    }
    let mut known: Vec<&str> = selector
        .child("matchLabels")
        .entries()
        .map(|(key, _)| key)
        .collect();
    for expression in selector.child("matchExpressions").items() {
        let key = expression.child("key").text();
        let position = matching.texts().iter().rposition(|listed| *listed == key);
        if let Some(position) = position.filter(|_| known.contains(&key)) {
            let here = at.index(position);
            here.invalid_as(
                errors,
                key,
                "exists in both matchLabelKeys and labelSelector",
            );
        }
        known.push(key);
    }
    let other = differing.texts();
    for key in matching.items().filter(|key| other.contains(&key.text())) {
        key.invalid(
            errors,
            "exists in both matchLabelKeys and mismatchLabelKeys",
        );
    }
}

/// Checks what a pod tolerates.
pub fn tolerations(at: &At<'_, '_>, errors: &mut Errors) {
    for toleration in at.items() {
        let field = |name: &'static str| {
            toleration.named(super::super::at::or_null(toleration.value.get(name)), name)
        };
        let (key, operator, value, effect) = (
            field("key"),
            field("operator"),
            field("value"),
            field("effect"),
        );
        key.by_if_any(names::qualified_name, errors);
        if key.is_empty() && operator.text() != "Exists" {
            operator.invalid(errors, "operator must be Exists when `key` is empty, which means \"match all values and all keys\"");
        }
        if toleration.child("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            effect.invalid(
                errors,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator.text() {
            "" | "Equal" => {
                let problems = names::label_value(value.text());
                if !problems.is_empty() {
                    operator.invalid_as(errors, value.text(), problems.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                operator.invalid_as(
                    errors,
                    value.text(),
                    "value must be empty when `operator` is 'Exists'",
                );
            }
            "Exists" => {}
            "Lt" | "Gt" => operator.unsupported(errors, &["Equal", "Exists", "Lt", "Gt"]),
            _ => operator.unsupported(errors, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            taint_effect(&effect, errors);
        }
    }
}

/// What a taint does.
pub fn taint_effect(at: &At<'_, '_>, errors: &mut Errors) {
    at.needs_one_of(errors, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
}

/// Checks how pods are spread.
pub fn spread(at: &At<'_, '_>, errors: &mut Errors) {
    for (index, constraint) in at.items().enumerate() {
        let (skew, key, action) = (
            constraint.child("maxSkew"),
            constraint.child("topologyKey"),
            constraint.child("whenUnsatisfiable"),
        );
        if skew.number() <= 0 {
            skew.invalid_as(errors, skew.number(), "must be greater than zero");
        }
        if key.is_empty() {
            key.required(errors, "can not be empty");
        }
        if !matches!(action.text(), "DoNotSchedule" | "ScheduleAnyway") {
            action.unsupported(errors, &["DoNotSchedule", "ScheduleAnyway"]);
        }
        let same = |other: &Value| {
            super::text(other, "topologyKey") == key.text()
                && super::text(other, "whenUnsatisfiable") == action.text()
        };
        if at
            .value
            .as_array()
            .is_some_and(|all| all[index + 1..].iter().any(same))
        {
            let shown = format!("{{{}, {}}}", key.text(), action.text());
            let here = constraint.child("{topologyKey, whenUnsatisfiable}");
            errors.push(FieldError::duplicate(&here.path(), shown));
        }
        let domains = constraint.child("minDomains");
        if domains.is_set() {
            if domains.number() <= 0 {
                domains.invalid(errors, "must be greater than zero");
            }
            if action.text() != "DoNotSchedule" {
                let detail = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                    action.text()
                );
                domains.invalid(errors, detail);
            }
        }
        constraint
            .child("nodeAffinityPolicy")
            .one_of(errors, &["Honor", "Ignore"]);
        constraint
            .child("nodeTaintsPolicy")
            .one_of(errors, &["Honor", "Ignore"]);
        let selector = constraint.child("labelSelector");
        label_keys(&constraint, &selector, errors);
        selector.label_selector(errors);
    }
}
