//! Roles and bindings.

use everflow_json::Value;

use super::super::at::{At, or_null, selects};
use super::super::{Context, meta, names};
use crate::field::Errors;

const GROUP: &str = "rbac.authorization.k8s.io";

fn rules(root: &At<'_, '_>, namespaced: bool, errors: &mut Errors) {
    for rule in root.child("rules").items() {
        let verbs = rule.child("verbs");
        if verbs.is_empty() {
            verbs.required(errors, "verbs must contain at least one value");
        }
        let (urls, groups, resources) = (
            rule.child("nonResourceURLs"),
            rule.child("apiGroups"),
            rule.child("resources"),
        );
        if !urls.is_empty() {
            if namespaced {
                urls.invalid(errors, "namespaced rules cannot apply to non-resource URLs");
            }
            if !(groups.is_empty()
                && resources.is_empty()
                && rule.child("resourceNames").is_empty())
            {
                urls.invalid(
                    errors,
                    "rules cannot apply to both regular resources and non-resource URLs",
                );
            }
            continue;
        }
        if groups.is_empty() {
            groups.required(errors, "resource rules must supply at least one api group");
        }
        if resources.is_empty() {
            resources.required(errors, "resource rules must supply at least one resource");
        }
    }
}

/// Checks a Role.
pub fn role(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    rules(&At::root(object), true, errors);
}

/// Checks a ClusterRole.
pub fn cluster_role(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    rules(&root, false, errors);
    let aggregation = root.child("aggregationRule");
    let selectors = aggregation.child("clusterRoleSelectors");
    if aggregation.is_set() && selectors.is_empty() {
        selectors.required(
            errors,
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        );
    }
    for selector in selectors.items() {
        selector.label_selector(errors);
        if selects(selector.value, &Value::Null).is_none() {
            selector.invalid_as(errors, Value::Null, "invalid label selector.");
        }
    }
}

/// Checks a changed Role.
pub fn role_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    meta::validate(new, true, true, names::path_segment, errors);
    role(context, new, errors);
    meta::validate_update(new, old, true, errors);
}

/// Checks a changed ClusterRole.
pub fn cluster_role_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    meta::validate(new, false, true, names::path_segment, errors);
    cluster_role(context, new, errors);
    meta::validate_update(new, old, true, errors);
}

fn binding(object: &Value, namespaced: bool, errors: &mut Errors) {
    let root = At::root(object);
    let role = root.child("roleRef");
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    for (key, known) in [("apiGroup", &[GROUP][..]), ("kind", kinds)] {
        let part = role.child(key);
        if !known.contains(&part.text()) {
            part.unsupported(errors, known);
        }
    }
    role.child("name").needed_by(names::path_segment, errors);
    root.child("subjects")
        .items()
        .for_each(|subject| binding_subject(&subject, namespaced, errors));
}

fn binding_subject(at: &At<'_, '_>, namespaced: bool, errors: &mut Errors) {
    let (name, kind, group) = (at.child("name"), at.child("kind"), at.child("apiGroup"));
    name.needs_text(errors);
    match kind.text() {
        "ServiceAccount" => {
            name.by_if_any(names::dns_subdomain, errors);
            if !group.is_empty() {
                group.unsupported(errors, &[""]);
            }
            if !namespaced {
                at.child("namespace").needs_text(errors);
            }
        }
        "User" | "Group" => {
            if group.text() != GROUP {
                group.unsupported(errors, &[GROUP]);
            }
        }
        _ => kind.unsupported(errors, &["ServiceAccount", "User", "Group"]),
    }
}

/// Checks a RoleBinding.
pub fn role_binding(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    binding(object, true, errors);
}

/// Checks a ClusterRoleBinding.
pub fn cluster_role_binding(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    binding(object, false, errors);
}

fn binding_update(new: &Value, old: &Value, namespaced: bool, errors: &mut Errors) {
    meta::validate(new, namespaced, true, names::path_segment, errors);
    binding(new, namespaced, errors);
    meta::validate_update(new, old, true, errors);
    let root = At::root(new);
    let role = root.child("roleRef");
    if role.value != or_null(old.get("roleRef")) {
        role.invalid_internal(errors, "rbac.RoleRef", "cannot change roleRef");
    }
}

/// Checks a changed RoleBinding.
pub fn role_binding_update(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    binding_update(new, old, true, errors);
}

/// Checks a changed ClusterRoleBinding.
pub fn cluster_role_binding_update(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    binding_update(new, old, false, errors);
}
