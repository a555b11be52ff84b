//! Environment variables of containers and what they refer to.

use super::super::at::At;
use super::super::names;
use crate::field::Errors;

const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The fields of a pod that a volume may show.
pub const VOLUME_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// The fields of a pod that can be referred to at all.
const ALL_FIELDS: [&str; 15] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "spec.host",
];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Checks the variables of a container and where they come from.
pub fn variables(container: &At<'_, '_>, errors: &mut Errors) {
    for variable in container.child("env").items() {
        variable.child("name").needed_by(names::variable, errors);
        let from = variable.child("valueFrom");
        if from.is_set() {
            value_from(&from, !variable.child("value").is_empty(), errors);
        }
    }
    let sources = container.child("envFrom");
    for source in sources.items() {
        source.child("prefix").by_if_any(names::variable, errors);
        let mut count = 0;
        for key in ["configMapRef", "secretRef"] {
            let reference = source.child(key);
            if reference.is_set() {
                count += 1;
                reference
                    .child("name")
                    .needed_by(|name| names::as_prefix(names::dns_subdomain, name), errors);
            }
        }
        match count {
            0 => sources.invalid_as(
                errors,
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            ),
            1 => {}
            _ => sources.invalid_as(
                errors,
                "",
                "may not have more than one field specified at a time",
            ),
        }
    }
}

fn value_from(at: &At<'_, '_>, has_value: bool, errors: &mut Errors) {
    let mut count = 0;
    for key in [
        "fieldRef",
        "resourceFieldRef",
        "configMapKeyRef",
        "secretKeyRef",
        "fileKeyRef",
    ] {
        let reference = at.child(key);
        if !reference.is_set() {
            continue;
        }
        count += 1;
        match key {
            "fieldRef" => field_selector(&reference, &ENV_FIELDS, errors),
            "resourceFieldRef" => resource_selector(&reference, false, errors),
            "fileKeyRef" => file_key(&reference, errors),
            _ => {
                reference.child("name").by(names::dns_subdomain, errors);
                reference.child("key").needed_by(names::config_key, errors);
            }
        }
    }
    let problem = match count {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    at.invalid_as(errors, "", problem);
}

fn file_key(at: &At<'_, '_>, errors: &mut Errors) {
    at.child("key").needed_by(names::variable, errors);
    at.child("volumeName").needed_by(names::dns_label, errors);
    let path = at.child("path");
    if path.needs_text(errors) {
        path.no_backsteps(errors);
    }
}

/// `metadata.labels['x']` as the field and its subscript.
fn subscripted(path: &str) -> Option<(&str, &str)> {
    let (front, rest) = path.strip_suffix("']")?.split_once("['")?;
    (!front.is_empty()).then_some((front, rest))
}

/// A reference to a field of the pod.
pub fn field_selector(at: &At<'_, '_>, known: &[&str], errors: &mut Errors) {
    let (version, path) = (at.child("apiVersion"), at.child("fieldPath"));
    if !version.needs_text(errors) || !path.needs_text(errors) {
        return;
    }
    if version.text() != "v1" {
        let problem = format!(
            "error converting fieldPath: unsupported pod version: {}",
            version.text()
        );
        path.invalid(errors, problem);
        return;
    }
    if let Some((front, subscript)) = subscripted(path.text()) {
        match front {
            "metadata.annotations" | "metadata.labels" => {
                let key = if front.ends_with("annotations") {
                    subscript.to_lowercase()
                } else {
                    subscript.to_owned()
                };
                for problem in names::qualified_name(&key) {
                    at.invalid_as(errors, key.as_str(), problem);
                }
            }
            _ => {
                let problem = format!(
                    "error converting fieldPath: field label does not support subscript: {}",
                    path.text()
                );
                path.invalid(errors, problem);
            }
        }
        return;
    }
    if !ALL_FIELDS.contains(&path.text()) {
        path.invalid(
            errors,
            format!(
                "error converting fieldPath: field label not supported: {}",
                path.text()
            ),
        );
        return;
    }
    let shown = if path.text() == "spec.host" {
        "spec.nodeName"
    } else {
        path.text()
    };
    if !known.contains(&shown) {
        path.unsupported(errors, known);
    }
}

/// A reference to a resource of a container.
pub fn resource_selector(at: &At<'_, '_>, volume: bool, errors: &mut Errors) {
    let resource = at.child("resource");
    let huge = ["requests.hugepages-", "limits.hugepages-"]
        .iter()
        .any(|prefix| resource.text().starts_with(prefix));
    if volume && at.child("containerName").is_empty() {
        at.child("containerName").required(errors, "");
    } else if resource.needs_text(errors) && !huge && !RESOURCES.contains(&resource.text()) {
        resource.unsupported(errors, &RESOURCES);
    }
    let divisor = at.child("divisor");
    let Some(quantity) = divisor.quantity().filter(|quantity| !quantity.is_zero()) else {
        return;
    };
    let text = quantity.canonical();
    const BYTES: [&str; 13] = [
        "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
    ];
    let (allowed, what): (&[&str], &str) = match resource.text() {
        "limits.cpu" | "requests.cpu" => (&["1m", "1"], "cpu"),
        "limits.memory" | "requests.memory" => (&BYTES, "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => {
            (&BYTES, "local ephemeral storage")
        }
        _ if huge => (&BYTES, "hugepages"),
        _ => return,
    };
    if !allowed.contains(&text.as_str()) {
        let list = if what == "cpu" {
            "1m and 1".to_owned()
        } else {
            BYTES.join(", ")
        };
        let detail = format!("only divisor's values {list} are supported with the {what} resource");
        divisor.invalid_as(errors, resource.text(), detail);
    }
}
