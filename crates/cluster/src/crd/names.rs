//! Names of definitions: accepted, or refused because another definition has them.

use everflow_builtins::definition::text;
use everflow_json::{Value, json};
use everflow_schema::crd::approval_condition;

use super::definition::TABLE;
use crate::kinds::meta;
use crate::server_core::ApiServer;

fn condition<'d>(definition: &'d Value, kind: &str) -> Option<&'d Value> {
    definition
        .pointer("/status/conditions")
        .and_then(Value::as_array)?
        .iter()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
}

pub(super) fn is_established(definition: &Value) -> bool {
    condition(definition, "Established")
        .and_then(|condition| condition.get("status"))
        .and_then(Value::as_str)
        == Some("True")
}

/// Names that another definition of the group already has: the reason and what to say about it.
pub(super) fn name_conflicts(
    server: &ApiServer,
    definition: &Value,
) -> Vec<(&'static str, String)> {
    let group = text(definition, "/spec/group");
    let own = meta::text(definition, "name");
    let mut taken: Vec<String> = Vec::new();
    let mut kinds: Vec<String> = Vec::new();
    for other in server.store().list(TABLE, "", None, 0).items {
        if meta::text(&other.value, "name") == own || text(&other.value, "/spec/group") != group {
            continue;
        }
        let names = other.value.pointer("/status/acceptedNames");
        for key in ["plural", "singular"] {
            taken.extend(
                names
                    .and_then(|names| names.get(key))
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
        }
        taken.extend(
            names
                .and_then(|names| names.get("shortNames"))
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned),
        );
        for key in ["kind", "listKind"] {
            kinds.extend(
                names
                    .and_then(|names| names.get(key))
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
        }
    }
    taken.retain(|name| !name.is_empty());
    let accepted = |key: &str| text(definition, &format!("/status/acceptedNames/{key}"));
    let mut conflicts = Vec::new();
    let single = |key: &str, reason: &'static str, pool: &[String]| {
        let wanted = text(definition, &format!("/spec/names/{key}"));
        let taken = wanted != accepted(key) && pool.iter().any(|name| name == wanted);
        taken.then(|| (reason, in_use(wanted)))
    };
    conflicts.extend(single("plural", "PluralConflict", &taken));
    conflicts.extend(single("singular", "SingularConflict", &taken));
    conflicts.extend(short_names(definition, &taken));
    conflicts.extend(single("kind", "KindConflict", &kinds));
    conflicts.extend(single("listKind", "ListKindConflict", &kinds));
    conflicts
}

fn in_use(name: &str) -> String {
    format!("{} is already in use", crate::field::go_quote(name))
}

fn short_names(definition: &Value, taken: &[String]) -> Option<(&'static str, String)> {
    let list = |pointer: &str| {
        definition
            .pointer(pointer)
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice)
    };
    let own = list("/status/acceptedNames/shortNames");
    let problems: Vec<String> = list("/spec/names/shortNames")
        .iter()
        .filter(|name| !own.contains(name))
        .filter_map(Value::as_str)
        .filter(|name| taken.iter().any(|other| other == name))
        .map(in_use)
        .collect();
    (!problems.is_empty()).then(|| ("ShortNamesConflict", crate::field::aggregate(problems)))
}

pub(super) fn set_names(
    server: &ApiServer,
    definition: &mut Value,
    conflicts: &[(&'static str, String)],
) {
    let wanted = definition
        .pointer("/spec/names")
        .cloned()
        .unwrap_or_else(super::empty);
    let mut accepted = definition
        .pointer("/status/acceptedNames")
        .cloned()
        .unwrap_or_else(super::empty);
    let refused = |reason: &str| conflicts.iter().any(|(known, _)| *known == reason);
    if let (Some(accepted), Some(wanted)) = (accepted.as_object_mut(), wanted.as_object()) {
        for (key, reason) in [
            ("plural", "PluralConflict"),
            ("singular", "SingularConflict"),
            ("kind", "KindConflict"),
            ("listKind", "ListKindConflict"),
            ("shortNames", "ShortNamesConflict"),
            ("categories", ""),
        ] {
            if refused(reason) {
                continue;
            }
            match wanted.get(key) {
                Some(value) => drop(accepted.insert(key.into(), value.clone())),
                None => drop(accepted.remove(key)),
            }
        }
    }
    let now = server.env().now().rfc3339();
    // Of several conflicts the last one is told.
    let names = match conflicts.last() {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, message)) => ("False", *reason, message.clone()),
    };
    let established = condition(definition, "Established").cloned();
    let mut list: Vec<Value> = definition
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    if let Some((status, reason, message)) = approval_condition(definition) {
        let kind = "KubernetesAPIApprovalPolicyConformant";
        put_condition(&mut list, kind, status, reason, &message, &now);
    }
    put_condition(&mut list, "NamesAccepted", names.0, names.1, &names.2, &now);
    match established {
        Some(known) if known.get("status").and_then(Value::as_str) == Some("True") => {}
        _ if names.0 == "True" => put_condition(
            &mut list,
            "Established",
            "True",
            "InitialNamesAccepted",
            "the initial names have been accepted",
            &now,
        ),
        _ => put_condition(
            &mut list,
            "Established",
            "False",
            "NotAccepted",
            "not all names are accepted",
            &now,
        ),
    }
    if let Some(status) = definition.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("acceptedNames".into(), accepted);
        status.insert("conditions".into(), Value::Array(list));
    }
}

pub(super) fn put_condition(
    list: &mut Vec<Value>,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let fresh = json!({"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message});
    match list
        .iter_mut()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
    {
        Some(known) => {
            let since = known.get("lastTransitionTime").cloned();
            let moved = known.get("status") != fresh.get("status");
            *known = fresh;
            if !moved && let (Some(since), Some(map)) = (since, known.as_object_mut()) {
                map.insert("lastTransitionTime".into(), since);
            }
        }
        None => list.push(fresh),
    }
}

/// The server owns the status it writes.
pub(super) fn track_status(server: &ApiServer, live: &Value, updated: &mut Value) {
    use everflow_merge::apply::{FieldManager, ResetFields, SingleVersion, Writer};
    let api_version = "apiextensions.k8s.io/v1";
    let kind = "CustomResourceDefinition";
    let Some(schema) = everflow_schema::builtin().schema("apiextensions.k8s.io", "v1", kind) else {
        return;
    };
    let versions = SingleVersion::new(api_version, schema);
    let reset = ResetFields::of_builtin(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "status",
    );
    let zero = json!({"apiVersion": api_version, "kind": kind});
    let manager = FieldManager {
        versions: &versions,
        api_version,
        kind,
        subresource: "status",
        reset: &reset,
        zero: &zero,
    };
    let now = server.env().now().rfc3339();
    let taken = std::mem::take(updated);
    *updated = manager.update_or_forget(
        live,
        taken,
        Writer {
            manager: "kube-apiserver",
            now: &now,
        },
    );
}
