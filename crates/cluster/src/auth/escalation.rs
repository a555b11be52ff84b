//! Nobody grants rights they do not hold.
//!
//! Who writes a role must hold all its rules, who binds one all rules of the role bound, unless they may `escalate` or
//! `bind` explicitly.

use std::collections::BTreeMap;

use everflow_json::Value;

use super::rbac::{GROUP, role_rules, rules_for};
use super::{Attributes, Decision, decide, text};
use crate::field::go_quote;
use crate::kinds::meta;
use crate::rest::Call;
use crate::status::{ApiError, ApiResult};

/// One verb on one resource (of one name) or one path: what is left when a rule is taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Grain {
    group: Option<String>,
    resource: Option<String>,
    name: Option<String>,
    path: Option<String>,
    verb: String,
}

fn list<'v>(rule: &'v Value, key: &str) -> Vec<&'v str> {
    rule.get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn grains(rule: &Value) -> Vec<Grain> {
    let mut all = Vec::new();
    let verbs = list(rule, "verbs");
    let names = list(rule, "resourceNames");
    for group in list(rule, "apiGroups") {
        for resource in list(rule, "resources") {
            for verb in &verbs {
                let grain = |name: Option<&str>| Grain {
                    group: Some(group.to_owned()),
                    resource: Some(resource.to_owned()),
                    name: name.map(str::to_owned),
                    path: None,
                    verb: (*verb).to_owned(),
                };
                if names.is_empty() {
                    all.push(grain(None));
                } else {
                    all.extend(names.iter().map(|name| grain(Some(name))));
                }
            }
        }
    }
    for path in list(rule, "nonResourceURLs") {
        all.extend(verbs.iter().map(|verb| Grain {
            path: Some(path.to_owned()),
            verb: (*verb).to_owned(),
            ..Grain::default()
        }));
    }
    all
}

fn covers(rule: &Value, grain: &Grain) -> bool {
    let holds = |key: &str, wanted: &str| {
        list(rule, key)
            .iter()
            .any(|known| *known == "*" || *known == wanted)
    };
    if !holds("verbs", &grain.verb) {
        return false;
    }
    if let Some(path) = &grain.path {
        return list(rule, "nonResourceURLs").iter().any(|known| {
            known == path || known.ends_with('*') && path.starts_with(known.trim_end_matches('*'))
        });
    }
    let (Some(group), Some(resource)) = (&grain.group, &grain.resource) else {
        return false;
    };
    let any_of = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
    let resource_held = holds("resources", resource)
        || any_of.is_some_and(|any| list(rule, "resources").contains(&any.as_str()));
    let names = list(rule, "resourceNames");
    let name_held = names.is_empty()
        || grain
            .name
            .as_ref()
            .is_some_and(|name| names.contains(&name.as_str()));
    holds("apiGroups", group) && resource_held && name_held
}

fn quoted(items: &[String]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| go_quote(item)).collect();
    format!("[{}]", quoted.join(" "))
}

/// The rights that are missing, those of one resource together, in order.
fn describe(missing: &[Grain]) -> Vec<String> {
    let mut by_resource: BTreeMap<(String, String, Option<String>), Vec<String>> = BTreeMap::new();
    let mut lines: Vec<String> = Vec::new();
    for grain in missing {
        match (&grain.group, &grain.resource, &grain.path) {
            (Some(group), Some(resource), _) => by_resource
                .entry((group.clone(), resource.clone(), grain.name.clone()))
                .or_default()
                .push(grain.verb.clone()),
            (_, _, Some(path)) => lines.push(format!(
                "{{NonResourceURLs:[{}], Verbs:[{}]}}",
                go_quote(path),
                go_quote(&grain.verb)
            )),
            _ => {}
        }
    }
    for ((group, resource, name), verbs) in by_resource {
        let name = name.map_or(String::new(), |name| {
            format!(", ResourceNames:[{}]", go_quote(&name))
        });
        lines.push(format!(
            "{{APIGroups:[{}], Resources:[{}]{name}, Verbs:{}}}",
            go_quote(&group),
            go_quote(&resource),
            quoted(&verbs)
        ));
    }
    lines.sort();
    lines.dedup();
    lines
}

/// Refuses rules that the caller does not hold.
fn confirm(call: &Call<'_>, rules: &[Value]) -> Result<(), String> {
    let held = rules_for(call.server, call.user, &call.target.namespace);
    let missing: Vec<Grain> = rules
        .iter()
        .flat_map(grains)
        .filter(|grain| !held.iter().any(|rule| covers(rule, grain)))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        go_quote(&call.user.name),
        quoted(&call.user.groups),
        describe(&missing).join("\n")
    ))
}

fn may(call: &Call<'_>, verb: &str, resource: &str, name: &str) -> bool {
    let wanted = Attributes {
        verb: verb.into(),
        group: GROUP.into(),
        resource: resource.into(),
        namespace: call.target.namespace.to_string(),
        name: name.into(),
        ..Attributes::default()
    };
    matches!(
        decide(call.server, call.user, &wanted),
        Decision::Allowed(_)
    )
}

fn aggregates(role: &Value) -> bool {
    role.pointer("/aggregationRule/clusterRoleSelectors")
        .and_then(Value::as_array)
        .is_some_and(|selectors| !selectors.is_empty())
}

/// Only what garbage collection needs differs.
fn same_but_for_collection(new: &Value, old: &Value) -> bool {
    let plain = |object: &Value| {
        let mut plain = object.clone();
        for key in [
            "ownerReferences",
            "finalizers",
            "managedFields",
            "resourceVersion",
        ] {
            meta::set(&mut plain, key, None);
        }
        plain
    };
    plain(new) == plain(old)
}

/// Refuses a role or binding that grants more than its writer holds.
pub fn check(call: &Call<'_>, new: &Value, old: Option<&Value>) -> ApiResult<()> {
    if call.resource.group != GROUP
        || !call.server.options().authorization
        || call.user.in_group("system:masters")
    {
        return Ok(());
    }
    if old.is_some_and(|old| same_but_for_collection(new, old)) {
        return Ok(());
    }
    let refuse = |why: String| {
        Err(ApiError::forbidden(
            &call.resource.group_resource(),
            meta::text(new, "name"),
            &why,
        ))
    };
    match call.resource.plural.as_str() {
        plural @ ("roles" | "clusterroles") => {
            if may(call, "escalate", plural, &call.target.name) {
                return Ok(());
            }
            let rules = new
                .get("rules")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            if let Err(why) = confirm(call, &rules) {
                return refuse(why);
            }
            if aggregates(new) || old.is_some_and(aggregates) {
                let all = [
                    everflow_json::json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
                    everflow_json::json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
                ];
                if confirm(call, &all).is_err() {
                    return refuse(
                        "must have cluster-admin privileges to use the aggregationRule".into(),
                    );
                }
            }
            Ok(())
        }
        "rolebindings" | "clusterrolebindings" => {
            let (kind, name) = (text(new, "/roleRef/kind"), text(new, "/roleRef/name"));
            let plural = match kind {
                "ClusterRole" => "clusterroles",
                "Role" => "roles",
                // Validation says what is wrong with it.
                _ => return Ok(()),
            };
            if may(call, "bind", plural, name) {
                return Ok(());
            }
            let Some(rules) = role_rules(call.server, kind, &call.target.namespace, name) else {
                return Err(ApiError::not_found(&call.resource.group_resource(), name));
            };
            match confirm(call, &rules) {
                Ok(()) => Ok(()),
                Err(why) => refuse(why),
            }
        }
        _ => Ok(()),
    }
}
