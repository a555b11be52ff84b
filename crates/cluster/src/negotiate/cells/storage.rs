//! Cells of volumes, claims and their classes.

use everflow_json::Value;

use super::row::Row;
use crate::kinds::meta;

pub(super) fn access_modes(list: &[Value]) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    known
        .iter()
        .filter(|(mode, _)| list.iter().any(|given| given.as_str() == Some(mode)))
        .map(|(_, short)| *short)
        .collect::<Vec<_>>()
        .join(",")
}

pub(super) fn volume(row: &Row<'_>) -> Vec<Value> {
    let claim = match (
        row.str("/spec/claimRef/namespace"),
        row.str("/spec/claimRef/name"),
    ) {
        ("", "") => String::new(),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    let phase = if meta::is_terminating(row.object) {
        "Terminating"
    } else {
        row.str("/status/phase")
    };
    vec![
        row.name(),
        row.text("/spec/capacity/storage"),
        access_modes(row.list("/spec/accessModes")).into(),
        row.text("/spec/persistentVolumeReclaimPolicy"),
        phase.into(),
        claim.into(),
        row.text("/spec/storageClassName"),
        row.text_or("/spec/volumeAttributesClassName", "<unset>"),
        row.text("/status/reason"),
        row.age(),
        row.text_or("/spec/volumeMode", "<unset>"),
    ]
}

pub(super) fn claim(row: &Row<'_>) -> Vec<Value> {
    let phase = if meta::is_terminating(row.object) {
        "Terminating"
    } else {
        row.str("/status/phase")
    };
    let volume = row.str("/spec/volumeName");
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        (
            row.str("/status/capacity/storage").to_owned(),
            access_modes(row.list("/status/accessModes")),
        )
    };
    vec![
        row.name(),
        phase.into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        row.text("/spec/storageClassName"),
        row.text_or("/spec/volumeAttributesClassName", "<unset>"),
        row.age(),
        row.text_or("/spec/volumeMode", "<unset>"),
    ]
}

pub(super) fn storage_class(row: &Row<'_>) -> Vec<Value> {
    let annotations = row.object.pointer("/metadata/annotations");
    let default = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ]
    .iter()
    .any(|key| {
        annotations
            .and_then(|map| map.get(*key))
            .and_then(Value::as_str)
            == Some("true")
    });
    let name = meta::text(row.object, "name");
    let name = if default {
        format!("{name} (default)")
    } else {
        name.to_owned()
    };
    vec![
        name.into(),
        row.text("/provisioner"),
        row.text_or("/reclaimPolicy", "Delete"),
        row.text_or("/volumeBindingMode", "Immediate"),
        row.flag("/allowVolumeExpansion").into(),
        row.age(),
    ]
}

pub(super) fn csi_driver(row: &Row<'_>) -> Vec<Value> {
    let modes: Vec<&str> = row
        .list("/spec/volumeLifecycleModes")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let tokens: Vec<&str> = row
        .list("/spec/tokenRequests")
        .iter()
        .filter_map(|request| request.get("audience").and_then(Value::as_str))
        .collect();
    let tokens = if tokens.is_empty() {
        "<unset>".to_owned()
    } else {
        tokens.join(",")
    };
    vec![
        row.name(),
        row.object
            .pointer("/spec/attachRequired")
            .and_then(Value::as_bool)
            .unwrap_or(true)
            .into(),
        row.flag("/spec/podInfoOnMount").into(),
        row.flag("/spec/storageCapacity").into(),
        tokens.into(),
        row.flag("/spec/requiresRepublish").into(),
        if modes.is_empty() {
            "<none>".into()
        } else {
            modes.join(",").into()
        },
        row.age(),
    ]
}
