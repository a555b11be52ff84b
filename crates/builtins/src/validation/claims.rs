//! Persistent volume claims.

use everflow_json::Value;

use super::super::at::{At, or_null};
use super::super::{Context, internal, line_diff, meta, names};
use super::{pod, storage};
use crate::field::Errors;
use everflow_schema::quantity::Quantity;

/// Checks a claim.
pub fn claim(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    spec(&At::root(object).child("spec"), errors);
}

/// Checks the spec of a claim, wherever it stands.
pub fn spec(at: &At<'_, '_>, errors: &mut Errors) {
    let modes = at.child("accessModes");
    if modes.is_empty() {
        modes.required(errors, "at least 1 access mode is required");
    }
    at.child("selector").label_selector(errors);
    storage::access_modes(&modes, errors);
    let resources = at.child("resources");
    let shown = at.named(or_null(resources.value.get("requests")), "resources");
    let size = shown.key("storage");
    match size.quantity() {
        None => size.required(errors, ""),
        Some(quantity) if quantity.sign() <= 0 => {
            size.invalid_as(errors, quantity.canonical(), "must be greater than zero");
        }
        Some(_) => {}
    }
    at.child("storageClassName")
        .by_if_any(names::dns_subdomain, errors);
    at.child("volumeMode")
        .one_of(errors, &["Block", "Filesystem"]);
    let (direct, any) = (at.child("dataSource"), at.child("dataSourceRef"));
    for source in [&direct, &any] {
        if source.is_set() {
            data_source(source, errors);
        }
    }
    let namespace = any.child("namespace");
    if any.is_set() {
        namespace.by_if_any(names::dns_label, errors);
    }
    if direct.is_set() && !namespace.is_empty() {
        at.invalid_as(
            errors,
            everflow_json::json!({}),
            "may not be specified when dataSourceRef.namespace is specified",
        );
    } else if direct.is_set() && any.is_set() {
        let same = ["apiGroup", "kind", "name"]
            .iter()
            .all(|key| direct.value.get(key) == any.value.get(key));
        if !same {
            at.invalid_as(errors, everflow_json::json!({}), "must match dataSourceRef");
        }
    }
    at.child("volumeAttributesClassName")
        .by_if_any(names::dns_subdomain, errors);
}

fn data_source(at: &At<'_, '_>, errors: &mut Errors) {
    at.child("name").needs_text(errors);
    at.child("kind").needs_text(errors);
    let group = at.child("apiGroup");
    if group.is_empty() && at.child("kind").text() != "PersistentVolumeClaim" {
        at.invalid_as(
            errors,
            at.child("kind").text(),
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        );
    }
    group.by_if_any(names::dns_subdomain, errors);
}

const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Checks a changed claim: a bound one may grow, and a class may be filled in.
pub fn claim_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    meta::validate(new, true, true, names::dns_subdomain, errors);
    let root = At::root(new);
    let at = root.child("spec");
    spec(&at, errors);
    let (mut after, mut before) = (at.value.clone(), or_null(old.get("spec")).clone());
    if before.get("volumeName").is_none_or(|name| name == "") {
        pod::set_back(&mut before, &after.clone(), "volumeName");
    }
    let annotation = |object: &Value| {
        object
            .pointer("/metadata/annotations")
            .and_then(|map| map.get(OLD_CLASS))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (was, is) = (annotation(old), annotation(new));
    if was != is {
        let metadata = root.child("metadata");
        let annotations = metadata.child("annotations");
        annotations
            .child(OLD_CLASS)
            .invalid_as(errors, is, "field is immutable");
    }
    if before.get("storageClassName").is_none()
        && (was.is_empty() || after.get("storageClassName").and_then(Value::as_str) == Some(&was))
    {
        pod::set_back(&mut after, &before, "storageClassName");
    }
    // No amount counts as zero.
    let amount = |value: Option<&Value>| {
        let text = value.and_then(Value::as_str).unwrap_or("0");
        Quantity::parse(text).unwrap_or_default()
    };
    let size = |spec: &Value| amount(spec.pointer("/resources/requests/storage"));
    let (new_size, old_size) = (size(&after), size(&before));
    if new.pointer("/status/phase").and_then(Value::as_str) == Some("Bound") {
        let earlier = before.pointer("/resources/requests/storage").cloned();
        if let (Some(requests), Some(earlier)) = (after.pointer_mut("/resources/requests"), earlier)
        {
            requests["storage"] = earlier;
        }
        pod::set_back(&mut after, &before, "volumeAttributesClassName");
    }
    if after != before {
        // A list that was emptied shows as such.
        let sent = context
            .sent
            .and_then(|sent| sent.pointer("/spec/accessModes"));
        if sent == Some(&Value::Array(Vec::new())) {
            after["accessModes"] = Value::Array(Vec::new());
        }
        let shown = |spec: &Value| internal::pretty("core.PersistentVolumeClaimSpec", spec);
        let difference = line_diff::unified(&shown(&before), &shown(&after));
        at.forbidden(errors, &format!("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{difference}"));
    }
    let capacity = amount(old.pointer("/status/capacity/storage"));
    if new_size.compare(&old_size).is_lt() && new_size.compare(&capacity).is_le() {
        let resources = at.child("resources");
        let requests = resources.child("requests");
        requests
            .child("storage")
            .forbidden(errors, "field can not be less than status.capacity");
    }
    root.named(at.child("volumeMode").value, "volumeMode")
        .unchanged(or_null(old.pointer("/spec/volumeMode")), errors);
}
