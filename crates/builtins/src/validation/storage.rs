//! Persistent volumes, storage classes, CSI drivers, and the sources that volumes of pods share with them.

use everflow_json::Value;

use super::super::at::{At, or_null};
use super::super::{Context, internal, line_diff, meta, names};
use super::{claims, scheduling, volumes};
use crate::field::{Errors, FieldError, go_json};

/// How a volume may be mounted.
pub const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

type Rule = fn(&At<'_, '_>, &mut Errors);

/// The sources of a persistent volume in the order they are looked at: the field, the name it is refused under, the name
/// used inside, and its rule.
const SOURCES: [(&str, &str, &str, Rule); 22] = [
    ("hostPath", "hostPath", "hostPath", host_path),
    (
        "gcePersistentDisk",
        "gcePersistentDisk",
        "persistentDisk",
        gce_disk,
    ),
    (
        "awsElasticBlockStore",
        "awsElasticBlockStore",
        "awsElasticBlockStore",
        aws_disk,
    ),
    ("glusterfs", "glusterfs", "glusterfs", |at, errors| {
        volumes::texts(at, &["endpoints", "path"], errors)
    }),
    ("flocker", "flocker", "flocker", |_, _| ()),
    ("nfs", "nfs", "nfs", nfs),
    ("rbd", "rbd", "rbd", rbd),
    ("quobyte", "quobyte", "quobyte", |_, _| ()),
    ("cephfs", "cephFS", "cephfs", ceph_fs),
    ("iscsi", "iscsi", "iscsi", iscsi),
    ("cinder", "cinder", "cinder", |at, errors| {
        volumes::texts(at, &["volumeID"], errors)
    }),
    ("fc", "fc", "fc", fibre_channel),
    ("flexVolume", "flexVolume", "flexVolume", |at, errors| {
        volumes::texts(at, &["driver"], errors)
    }),
    ("azureFile", "azureFile", "azureFile", |at, errors| {
        volumes::texts(at, &["secretName", "shareName"], errors)
    }),
    (
        "vsphereVolume",
        "vsphereVolume",
        "vsphereVolume",
        |at, errors| volumes::texts(at, &["volumePath"], errors),
    ),
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "photonPersistentDisk",
        |at, errors| volumes::texts(at, &["pdID"], errors),
    ),
    (
        "portworxVolume",
        "portworxVolume",
        "portworxVolume",
        |at, errors| volumes::texts(at, &["volumeID"], errors),
    ),
    ("azureDisk", "azureDisk", "azureDisk", |_, _| ()),
    ("scaleIO", "scaleIO", "scaleIO", |at, errors| {
        volumes::texts(at, &["gateway", "system", "volumeName"], errors)
    }),
    ("local", "local", "local", local),
    ("storageos", "storageos", "storageos", |_, _| ()),
    ("csi", "csi", "csi", csi),
];

/// A directory or file of the node.
pub fn host_path(at: &At<'_, '_>, errors: &mut Errors) {
    let path = at.child("path");
    if !path.needs_text(errors) {
        return;
    }
    path.no_backsteps(errors);
    at.child("type").one_of(
        errors,
        &[
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ],
    );
}

fn partition(at: &At<'_, '_>, errors: &mut Errors) {
    let partition = at.child("partition");
    if !(0..=255).contains(&partition.number()) {
        partition.invalid(errors, "must be between 1 and 255, inclusive");
    }
}

/// A disk of Google's cloud.
pub fn gce_disk(at: &At<'_, '_>, errors: &mut Errors) {
    at.child("pdName").needs_text(errors);
    partition(at, errors);
}

/// A disk of Amazon's cloud.
pub fn aws_disk(at: &At<'_, '_>, errors: &mut Errors) {
    at.child("volumeID").needs_text(errors);
    partition(at, errors);
}

/// A directory of an NFS server.
pub fn nfs(at: &At<'_, '_>, errors: &mut Errors) {
    volumes::texts(at, &["server", "path"], errors);
    if !at.child("path").text().starts_with('/') {
        at.child("path").invalid(errors, "must be an absolute path");
    }
}

/// A disk of an iSCSI target.
pub fn iscsi(at: &At<'_, '_>, errors: &mut Errors) {
    volumes::texts(at, &["targetPortal", "iqn"], errors);
    let name = at.child("iqn");
    if !name.is_empty()
        && !["iqn", "eui", "naa"]
            .iter()
            .any(|prefix| name.text().starts_with(prefix))
    {
        name.invalid(
            errors,
            "must be valid format starting with iqn, eui, or naa",
        );
    }
    at.child("lun").within(0, 255, errors);
}

/// A block device of Ceph.
pub fn rbd(at: &At<'_, '_>, errors: &mut Errors) {
    ceph_fs(at, errors);
    at.child("image").needs_text(errors);
}

/// A file system of Ceph.
pub fn ceph_fs(at: &At<'_, '_>, errors: &mut Errors) {
    if at.child("monitors").is_empty() {
        at.child("monitors").required(errors, "");
    }
}

/// A fibre channel disk.
pub fn fibre_channel(at: &At<'_, '_>, errors: &mut Errors) {
    let (targets, ids, lun) = (at.child("targetWWNs"), at.child("wwids"), at.child("lun"));
    match (targets.is_empty(), ids.is_empty()) {
        (true, true) => targets.required(
            errors,
            "must specify either targetWWNs or wwids, but not both",
        ),
        (false, false) => targets.invalid(
            errors,
            "targetWWNs and wwids can not be specified simultaneously",
        ),
        _ => {}
    }
    if !targets.is_empty() {
        if lun.is_set() {
            lun.within(0, 255, errors);
        } else {
            lun.required(errors, "lun is required if targetWWNs is specified");
        }
    }
}

fn local(at: &At<'_, '_>, errors: &mut Errors) {
    if at.child("path").needs_text(errors) {
        at.child("path").no_backsteps(errors);
    }
}

/// The name of a CSI driver.
pub fn csi_driver_name(at: &At<'_, '_>, errors: &mut Errors) {
    if !at.needs_text(errors) {
        return;
    }
    if at.text().len() > 63 {
        at.too_long(errors, 63);
    }
    for problem in names::dns_subdomain(&at.text().to_lowercase()) {
        at.invalid(errors, problem);
    }
}

fn csi(at: &At<'_, '_>, errors: &mut Errors) {
    csi_driver_name(&at.child("driver"), errors);
    at.child("volumeHandle").needs_text(errors);
    for key in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = at.child(key);
        if secret.is_set() {
            secret.child("name").needed_by(names::dns_subdomain, errors);
            secret
                .child("namespace")
                .needed_by(names::dns_label, errors);
        }
    }
}

/// Checks that access modes are known and fit together.
pub fn access_modes(at: &At<'_, '_>, errors: &mut Errors) {
    let modes = at.texts();
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.push(FieldError::not_supported(&at.path(), *mode, &ACCESS_MODES));
    }
    let others = modes
        .iter()
        .any(|mode| *mode != "ReadWriteOncePod" && ACCESS_MODES.contains(mode));
    if others && modes.contains(&"ReadWriteOncePod") {
        at.forbidden(
            errors,
            "may not use ReadWriteOncePod with other access modes",
        );
    }
}

/// Checks the template of a claim inside a volume.
pub fn claim_template(at: &At<'_, '_>, errors: &mut Errors) {
    let metadata = at.child("metadata");
    let annotations = metadata.child("annotations");
    meta::check_annotations(Some(annotations.value), &annotations.path(), errors);
    metadata.child("labels").labels(errors);
    for (key, _) in metadata
        .entries()
        .filter(|(key, _)| !matches!(*key, "annotations" | "labels"))
    {
        metadata.child(key).forbidden(errors, "cannot be set");
    }
    claims::spec(&at.child("spec"), errors);
}

/// Checks a PersistentVolume.
pub fn volume(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    let modes = spec.child("accessModes");
    if modes.is_empty() {
        modes.required(errors, "");
    }
    access_modes(&modes, errors);
    capacity(&spec.child("capacity"), errors);
    let policy = spec.child("persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        policy.one_of(errors, &["Delete", "Recycle", "Retain"]);
    }
    let affinity = spec.child("nodeAffinity");
    if affinity.is_set() {
        let required = affinity.child("required");
        if required.is_set() {
            scheduling::node_selector(&required, errors);
        } else {
            required.required(errors, "must specify required node constraints");
        }
    }
    source(&spec, affinity.is_set(), errors);
    let path = or_null(spec.value.pointer("/hostPath/path"));
    if path.as_str().is_some_and(is_top) && policy.text() == "Recycle" {
        policy.forbidden(errors, "may not be 'recycle' for a hostPath mount of '/'");
    }
    spec.child("storageClassName")
        .by_if_any(names::dns_subdomain, errors);
    spec.child("volumeMode")
        .one_of(errors, &["Block", "Filesystem"]);
    let class = spec.child("volumeAttributesClassName");
    if class.is_set() {
        if class.is_empty() {
            class.required(errors, "an empty string is disallowed");
        } else {
            class.by(names::dns_subdomain, errors);
        }
        if !spec.child("csi").is_set() {
            spec.child("csi").required(
                errors,
                "has to be specified when using volumeAttributesClassName",
            );
        }
    }
}

/// Whether a path is the root after cleaning.
fn is_top(path: &str) -> bool {
    let mut depth = 0;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = if depth > 0 { depth - 1 } else { 0 },
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

fn capacity(at: &At<'_, '_>, errors: &mut Errors) {
    if at.is_empty() {
        at.required(errors, "");
    }
    if at.len() > 1 || !at.key("storage").is_set() {
        let mut error = FieldError::not_supported(&at.path(), "", &["storage"]);
        error.shown = Some(go_json(at.value));
        errors.push(error);
    }
    for (_, entry) in at.entries() {
        let Some(quantity) = entry.quantity() else {
            continue;
        };
        if quantity.whole() < 0 {
            let shown = i64::try_from(quantity.whole()).unwrap_or(i64::MIN);
            entry.invalid_as(errors, shown, "must be a valid resource quantity");
        }
        if quantity.sign() <= 0 {
            entry.invalid_as(errors, quantity.canonical(), "must be greater than zero");
        }
    }
}

fn source(spec: &At<'_, '_>, has_affinity: bool, errors: &mut Errors) {
    let mut found = false;
    for (key, refused, inside, rule) in SOURCES {
        let value = spec.child(key).value;
        if value.is_null() {
            continue;
        }
        if found && key != "flexVolume" {
            spec.named(value, refused)
                .forbidden(errors, "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        rule(&spec.named(value, inside), errors);
        if key == "local" && !has_affinity {
            spec.child("nodeAffinity")
                .required(errors, "Local volume requires node affinity");
        }
    }
    if !found {
        spec.required(errors, "must specify a volume type");
    }
}

/// Checks a changed PersistentVolume.
pub fn volume_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    // Once as any volume, and once more as a changed one.
    for _ in 0..2 {
        meta::validate(new, false, true, names::dns_subdomain, errors);
        volume(context, new, errors);
    }
    let (after, before) = (or_null(new.get("spec")), or_null(old.get("spec")));
    let root = At::root(new);
    let spec = root.child("spec");
    if sources_of(after) != sources_of(before) {
        let shown = |spec: &Value| internal::pretty("core.PersistentVolumeSource", spec);
        let difference = line_diff::unified(&shown(before), &shown(after));
        spec.named(&Value::Null, "persistentvolumesource")
            .forbidden(
                errors,
                &format!("spec.persistentvolumesource is immutable after creation\n{difference}"),
            );
    }
    root.named(or_null(after.get("volumeMode")), "volumeMode")
        .unchanged(or_null(before.get("volumeMode")), errors);
    let affinity = root.named(or_null(after.get("nodeAffinity")), "nodeAffinity");
    if before
        .get("nodeAffinity")
        .is_some_and(|affinity| !affinity.is_null())
    {
        affinity.unchanged_internal(
            or_null(before.get("nodeAffinity")),
            "*core.VolumeNodeAffinity",
            errors,
        );
    }
    let class = "volumeAttributesClassName";
    if after.get(class).is_none() && before.get(class).is_some() {
        spec.child(class)
            .forbidden(errors, "update from non-nil value to nil is forbidden");
    }
}

fn sources_of(spec: &Value) -> Vec<&Value> {
    SOURCES
        .iter()
        .map(|(key, ..)| or_null(spec.get(key)))
        .collect()
}

/// Checks a StorageClass.
pub fn class(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let provisioner = root.child("provisioner");
    if provisioner.needs_text(errors) {
        let lower = provisioner.text().to_lowercase();
        for problem in names::qualified_name(&lower) {
            provisioner.invalid_as(errors, lower.as_str(), problem);
        }
    }
    let parameters = root.child("parameters");
    if parameters.len() > 512 {
        parameters.too_long(errors, 512);
    } else {
        let size: usize = parameters
            .entries()
            .map(|(key, value)| key.len() + value.text().len())
            .sum();
        if parameters.key("").is_set() {
            parameters.invalid_as(errors, "", "field can not be empty.");
        }
        if size > 256 * 1024 {
            parameters.too_long(errors, 256 * 1024);
        }
    }
    if !root.child("reclaimPolicy").is_empty() {
        root.child("reclaimPolicy")
            .one_of(errors, &["Delete", "Retain"]);
    }
    let mode = root.child("volumeBindingMode");
    if !mode.is_set() {
        mode.required(errors, "");
    }
    mode.one_of(errors, &["Immediate", "WaitForFirstConsumer"]);
    for term in root.child("allowedTopologies").items() {
        let expressions = term.child("matchLabelExpressions");
        let mut seen: Vec<&str> = Vec::new();
        for expression in expressions.items() {
            let (key, values) = (expression.child("key"), expression.child("values"));
            if values.is_empty() {
                values.required(errors, "");
            }
            key.by(names::qualified_name, errors);
            if seen.contains(&key.text()) {
                key.duplicate_text(errors);
            }
            seen.push(key.text());
        }
    }
}

/// What a StorageClass says never changes.
pub fn class_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    meta::validate(new, false, true, names::dns_subdomain, errors);
    class(context, new, errors);
    meta::validate_update(new, old, true, errors);
    let root = At::root(new);
    for key in [
        "parameters",
        "provisioner",
        "reclaimPolicy",
        "volumeBindingMode",
    ] {
        let (part, before) = (root.child(key), or_null(old.get(key)));
        if key == "provisioner" {
            part.text_unchanged(before, errors);
        } else {
            part.unchanged(before, errors);
        }
    }
}

/// Checks a CSIDriver.
pub fn driver(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    for (key, shown) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if !spec.child(key).is_set() {
            spec.named(&Value::Null, shown).required(errors, "");
        }
    }
    spec.child("fsGroupPolicy")
        .one_of(errors, &["File", "None", "ReadWriteOnceWithFSType"]);
    let mut audiences: Vec<&str> = Vec::new();
    for request in spec.child("tokenRequests").items() {
        let (audience, seconds) = (
            request.child("audience"),
            request.child("expirationSeconds"),
        );
        if audiences.contains(&audience.text()) {
            audience.duplicate_text(errors);
            continue;
        }
        audiences.push(audience.text());
        if seconds.int().is_some_and(|seconds| seconds < 600) {
            seconds.invalid(errors, "may not specify a duration less than 10 minutes");
        }
        if seconds.number() > 1 << 32 {
            seconds.invalid(
                errors,
                "may not specify a duration larger than 2^32 seconds",
            );
        }
    }
    let modes = spec.child("volumeLifecycleModes");
    for mode in modes
        .texts()
        .into_iter()
        .filter(|mode| !matches!(*mode, "Persistent" | "Ephemeral"))
    {
        errors.push(FieldError::not_supported(
            &modes.path(),
            mode,
            &["Persistent", "Ephemeral"],
        ));
    }
    let period = spec.child("nodeAllocatableUpdatePeriodSeconds");
    if period.int().is_some_and(|seconds| seconds < 10) {
        period.invalid(errors, "must be greater than or equal to 10 seconds");
    }
    let tokens = spec.child("serviceAccountTokenInSecrets");
    if tokens.is_set() && spec.child("tokenRequests").is_empty() {
        tokens.invalid(
            errors,
            "serviceAccountTokenInSecrets is set but no tokenRequests are specified",
        );
    }
}

/// Checks a changed CSIDriver.
pub fn driver_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    driver(context, new, errors);
    let root = At::root(new);
    let spec = root.child("spec");
    let before = |key: &str| or_null(old.pointer(&format!("/spec/{key}")));
    spec.named(spec.child("attachRequired").value, "attachedRequired")
        .unchanged(before("attachRequired"), errors);
    spec.child("volumeLifecycleModes")
        .unchanged(before("volumeLifecycleModes"), errors);
}
