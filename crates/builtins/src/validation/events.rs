//! Events. They are stored as those of the core group, and checked under the names of the group that was asked.

use everflow_json::Value;

use super::super::at::{At, or_null};
use super::super::{Context, meta, names};
use crate::field::Errors;

fn shared(root: &At<'_, '_>, core: bool, errors: &mut Errors) {
    let involved = root.child("involvedObject");
    let namespace = involved.child("namespace");
    let own = meta::text(root.value, "namespace");
    let mismatch = "does not match event.namespace";
    let is_old = !root.child("eventTime").is_set();
    if is_old {
        let fits = if namespace.is_empty() {
            matches!(own, "" | "default")
        } else {
            own == namespace.text()
        };
        if !fits {
            namespace.invalid(errors, mismatch);
        }
    } else {
        if namespace.is_empty() && !matches!(own, "default" | "kube-system") {
            namespace.invalid(errors, mismatch);
        }
        let controller = root.child("reportingComponent");
        let controller = root.named(
            controller.value,
            if core {
                "reportingComponent"
            } else {
                "reportingController"
            },
        );
        controller.needs_text(errors);
        controller.by(names::qualified_name, errors);
        for (key, most) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
            let part = root.child(key);
            part.needs_text(errors);
            if part.text().len() > most {
                part.invalid_as(errors, "", format!("can have at most {most} characters"));
            }
        }
        if root.child("message").text().len() > 1024 {
            root.child("message")
                .invalid_as(errors, "", "can have at most 1024 characters");
        }
    }
    let shown = Value::from(own);
    At::root(&shown)
        .named(&shown, "namespace")
        .by(names::dns_subdomain, errors);
}

/// Checks an event of the core group.
pub fn core(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    shared(&At::root(object), true, errors);
}

/// Checks a changed event of the core group.
pub fn core_update(_: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    shared(&At::root(new), true, errors);
}

/// Checks an event of its own group.
pub fn event(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    shared(&root, false, errors);
    meta::validate(object, true, true, names::dns_subdomain, errors);
    series(&root, errors);
    if !root.child("eventTime").is_set() {
        root.child("eventTime").required(errors, "");
    }
    let kind = root.child("type");
    if !matches!(kind.text(), "Normal" | "Warning") {
        kind.invalid_as(errors, "", format!("has invalid value: {}", kind.text()));
    }
    for key in ["firstTimestamp", "lastTimestamp"] {
        if root.child(key).is_set() {
            root.child(key).invalid_as(errors, "", "needs to be unset");
        }
    }
    if root.child("count").number() != 0 {
        root.child("count")
            .invalid_as(errors, "", "needs to be unset");
    }
    let source = root.child("source");
    if !source.child("component").is_empty() || !source.child("host").is_empty() {
        source.invalid_as(errors, "", "needs to be unset");
    }
}

fn series(root: &At<'_, '_>, errors: &mut Errors) {
    let series = root.child("series");
    if !series.is_set() {
        return;
    }
    if series.child("count").number() < 2 {
        root.named(&Value::Null, "series.count")
            .invalid_as(errors, "", "should be at least 2");
    }
    if !series.child("lastObservedTime").is_set() {
        root.named(&Value::Null, "series.lastObservedTime")
            .required(errors, "");
    }
}

/// Checks a changed event of its own group: only its series moves.
pub fn event_update(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    let root = At::root(new);
    shared(&root, false, errors);
    meta::validate_update(new, old, true, errors);
    if new.get("series") != old.get("series") {
        series(&root, errors);
    }
    let before = |key: &str| or_null(old.get(key));
    root.child("involvedObject").unchanged_internal(
        before("involvedObject"),
        "core.ObjectReference",
        errors,
    );
    for key in ["reason", "message"] {
        root.child(key).text_unchanged(before(key), errors);
    }
    root.child("source")
        .unchanged_internal(before("source"), "core.EventSource", errors);
    for key in [
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
        "eventTime",
        "action",
    ] {
        let part = root.child(key);
        match key {
            "firstTimestamp" | "lastTimestamp" | "eventTime" => part.unchanged(before(key), errors),
            "count" if part.value != before(key) => {
                part.invalid_as(errors, part.number(), "field is immutable")
            }
            "count" => {}
            _ => part.text_unchanged(before(key), errors),
        }
    }
    root.child("related")
        .unchanged_internal(before("related"), "*core.ObjectReference", errors);
    let controller = root.child("reportingComponent");
    root.named(controller.value, "reportingController")
        .text_unchanged(before("reportingComponent"), errors);
    root.child("reportingInstance")
        .text_unchanged(before("reportingInstance"), errors);
}
