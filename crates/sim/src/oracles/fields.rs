//! What users and others wrote stays.

use everflow_api::names::annotation::REQUESTED_AT;
use everflow_json::Value;

use super::{Commit, Finding};

/// Annotations, labels and keys with this prefix are a user's.
const USERS: &str = "user.example";
/// Conditions of types with this prefix are somebody else's.
const FOREIGN: &str = "Example";

/// Labels or annotations without what asks for an attempt, as webhooks do.
fn unasked<'o>(object: &'o Value, field: &str) -> Vec<(&'o str, &'o Value)> {
    let all = object.pointer(field).and_then(Value::as_object);
    let all = all.into_iter().flatten();
    all.map(|(key, value)| (key.as_str(), value))
        .filter(|(key, _)| *key != REQUESTED_AT)
        .collect()
}

pub(super) fn commit(commit: &Commit<'_>) -> Option<Finding> {
    let (old, new) = (commit.old?, commit.new?);
    let lost = |what: &str| {
        let text = format!("{} changes {what} of {}", commit.who, commit.name());
        Some(commit.finding("no lost update", text))
    };
    for field in ["/metadata/annotations", "/metadata/labels", "/data"] {
        let users = old
            .pointer(field)
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        for (key, value) in users.filter(|(key, _)| key.starts_with(USERS)) {
            if new.pointer(field).and_then(|all| all.get(key)) != Some(value) {
                return lost(&format!("{field}/{key}"));
            }
        }
    }
    // What a Kustomization applies is its own to change, from the first time on: one that was applied by hand before
    // may be in its own repository. So is the HelmChart of a HelmRelease.
    let owned = [old, new].iter().any(|object| {
        let labels = object.pointer("/metadata/labels");
        let has = |name: &str| labels.is_some_and(|labels| labels.get(name).is_some());
        has("kustomize.toolkit.fluxcd.io/name") || has("helm.toolkit.fluxcd.io/name")
    });
    if !commit.is_flux() || owned {
        return None;
    }
    if old.get("spec") != new.get("spec") {
        return lost("the spec");
    }
    for field in ["/metadata/annotations", "/metadata/labels"] {
        if unasked(old, field) != unasked(new, field) {
            return lost(field);
        }
    }
    let foreign = |object: &Value| -> Vec<Value> {
        let all = object
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        let all = all.into_iter().flatten();
        all.filter(|one| {
            one["type"]
                .as_str()
                .is_some_and(|kind| kind.starts_with(FOREIGN))
        })
        .cloned()
        .collect()
    };
    if foreign(old) != foreign(new) {
        return lost("conditions of others");
    }
    None
}
