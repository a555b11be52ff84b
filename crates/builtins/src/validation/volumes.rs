//! Volumes of pods.

use everflow_json::Value;

use super::super::at::At;
use super::super::names;
use super::{env, storage};
use crate::field::Errors;

/// The sources of a volume in the order they are looked at: the field, the name a second source is refused under, and
/// its rule.
type Rule = fn(&At<'_, '_>, &mut Errors);
const SOURCES: [(&str, &str, Rule); 29] = [
    ("emptyDir", "emptyDir", empty_dir),
    ("hostPath", "hostPath", storage::host_path),
    ("gitRepo", "gitRepo", git_repository),
    ("gcePersistentDisk", "gcePersistentDisk", storage::gce_disk),
    (
        "awsElasticBlockStore",
        "awsElasticBlockStore",
        storage::aws_disk,
    ),
    ("secret", "secret", |at, errors| {
        keyed(at, "secretName", errors)
    }),
    ("nfs", "nfs", storage::nfs),
    ("iscsi", "iscsi", storage::iscsi),
    ("glusterfs", "glusterfs", |at, errors| {
        texts(at, &["endpoints", "path"], errors)
    }),
    ("flocker", "flocker", anything),
    (
        "persistentVolumeClaim",
        "persistentVolumeClaim",
        |at, errors| texts(at, &["claimName"], errors),
    ),
    ("rbd", "rbd", storage::rbd),
    ("cinder", "cinder", |at, errors| {
        texts(at, &["volumeID"], errors)
    }),
    ("cephfs", "cephFS", storage::ceph_fs),
    ("quobyte", "quobyte", anything),
    ("downwardAPI", "downwarAPI", downward),
    ("fc", "fc", storage::fibre_channel),
    ("flexVolume", "flexVolume", |at, errors| {
        texts(at, &["driver"], errors)
    }),
    ("configMap", "configMap", |at, errors| {
        keyed(at, "name", errors)
    }),
    ("azureFile", "azureFile", |at, errors| {
        texts(at, &["secretName", "shareName"], errors)
    }),
    ("vsphereVolume", "vsphereVolume", |at, errors| {
        texts(at, &["volumePath"], errors)
    }),
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        |at, errors| texts(at, &["pdID"], errors),
    ),
    ("portworxVolume", "portworxVolume", |at, errors| {
        texts(at, &["volumeID"], errors)
    }),
    ("azureDisk", "azureDisk", anything),
    ("storageos", "storageos", anything),
    ("projected", "projected", projected),
    ("scaleIO", "scaleIO", |at, errors| {
        texts(at, &["gateway", "system", "volumeName"], errors)
    }),
    ("csi", "csi", csi),
    ("ephemeral", "ephemeral", ephemeral),
];

/// Fields that may not be empty.
pub fn texts(at: &At<'_, '_>, keys: &'static [&'static str], errors: &mut Errors) {
    for key in keys {
        at.child(key).needs_text(errors);
    }
}

fn anything(_: &At<'_, '_>, _: &mut Errors) {}

/// Checks the volumes of a pod called `pod`; gives back those that are right.
pub fn volumes<'v>(
    at: &At<'_, 'v>,
    pod: Option<&str>,
    is_pod: bool,
    errors: &mut Errors,
) -> Vec<&'v Value> {
    let mut good: Vec<&Value> = Vec::new();
    for volume in at.items() {
        let before = errors.len();
        let name = volume.child("name");
        source(&volume, pod, is_pod, errors);
        name.needed_by(names::dns_label, errors);
        if good
            .iter()
            .any(|known| known.get("name") == Some(name.value))
        {
            name.duplicate(errors);
        }
        if errors.len() == before {
            good.push(volume.value);
        }
        let claim = volume.child("persistentVolumeClaim");
        let claim = claim.child("claimName");
        let made = pod.filter(|pod| !pod.is_empty()).is_some_and(|pod| {
            at.items().any(|other| {
                other.child("ephemeral").is_set()
                    && claim.text() == format!("{pod}-{}", other.child("name").text())
            })
        });
        if made {
            claim.invalid(
                errors,
                "must not reference a PVC that gets created for an ephemeral volume",
            );
        }
    }
    good
}

fn source(volume: &At<'_, '_>, pod: Option<&str>, is_pod: bool, errors: &mut Errors) {
    let mut found = false;
    for (key, refused, rule) in SOURCES {
        let at = volume.child(key);
        if !at.is_set() {
            continue;
        }
        if found {
            volume
                .named(at.value, refused)
                .forbidden(errors, "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        // The real server names this one differently inside.
        let inside = if key == "gcePersistentDisk" {
            "persistentDisk"
        } else {
            key
        };
        rule(&volume.named(at.value, inside), errors);
        let name = volume.child("name");
        if key == "ephemeral"
            && let Some(pod) = pod.filter(|pod| !pod.is_empty() && !name.is_empty())
        {
            let claim = format!("{pod}-{}", name.text());
            for problem in names::dns_subdomain(&claim) {
                name.invalid(
                    errors,
                    format!("PVC name {}: {problem}", crate::field::go_quote(&claim)),
                );
            }
        }
    }
    let image = volume.child("image");
    if image.is_set() {
        if found {
            image.forbidden(errors, "may not specify more than 1 volume type");
        } else {
            found = true;
            if is_pod {
                image.child("reference").needs_text(errors);
            }
            image
                .child("pullPolicy")
                .needs_one_of(errors, &["Always", "IfNotPresent", "Never"]);
        }
    }
    if !found {
        volume.required(errors, "must specify a volume type");
    }
}

fn empty_dir(at: &At<'_, '_>, errors: &mut Errors) {
    let limit = at.child("sizeLimit");
    if limit.quantity().is_some_and(|limit| limit.sign() < 0) {
        limit.forbidden(errors, "SizeLimit field must be a valid resource quantity");
    }
}

fn git_repository(at: &At<'_, '_>, errors: &mut Errors) {
    at.child("repository").needs_text(errors);
    at.child("directory").descending_path(errors);
}

/// A volume from a Secret or ConfigMap.
fn keyed(at: &At<'_, '_>, name: &'static str, errors: &mut Errors) {
    at.child(name).needs_text(errors);
    at.child("defaultMode").file_mode(errors);
    at.child("items")
        .items()
        .for_each(|item| key_to_path(&item, errors));
}

fn key_to_path(at: &At<'_, '_>, errors: &mut Errors) {
    at.child("key").needs_text(errors);
    let path = at.child("path");
    path.needs_text(errors);
    path.unreserved_path(errors);
    at.child("mode").file_mode(errors);
}

fn downward(at: &At<'_, '_>, errors: &mut Errors) {
    at.child("defaultMode").file_mode(errors);
    for file in at.child("items").items() {
        downward_file(at, &file, errors);
    }
}

/// Files of the downward API are reported at the volume, not at the file.
fn downward_file(at: &At<'_, '_>, file: &At<'_, '_>, errors: &mut Errors) {
    let field = |name: &'static str| at.named(file.child(name).value, name);
    let path = field("path");
    path.needs_text(errors);
    path.unreserved_path(errors);
    let (field_ref, resource_ref) = (field("fieldRef"), field("resourceFieldRef"));
    if field_ref.is_set() {
        env::field_selector(&field_ref, &env::VOLUME_FIELDS, errors);
        if resource_ref.is_set() {
            at.invalid_as(
                errors,
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            );
        }
    } else if resource_ref.is_set() {
        env::resource_selector(&resource_ref, true, errors);
    } else {
        at.required(errors, "one of fieldRef and resourceFieldRef is required");
    }
    field("mode").file_mode(errors);
}

fn projected(at: &At<'_, '_>, errors: &mut Errors) {
    at.child("defaultMode").file_mode(errors);
    let mut paths: Vec<String> = Vec::new();
    let mut twice = |path: &str, shown: &str, errors: &mut Errors| {
        if path.is_empty() {
            return;
        }
        if paths.iter().any(|known| known == path) {
            at.invalid_as(errors, shown, "conflicting duplicate paths");
        } else {
            paths.push(path.to_owned());
        }
    };
    let sources = at.child("sources");
    for source in sources.items() {
        for kind in ["secret", "configMap"] {
            let part = source.child(kind);
            if !part.is_set() {
                continue;
            }
            part.child("name").needs_text(errors);
            for item in part.child("items").items() {
                key_to_path(&item, errors);
                twice(item.child("path").text(), part.child("name").text(), errors);
            }
        }
        let part = source.child("downwardAPI");
        for file in part.child("items").items() {
            downward_file(&part, &file, errors);
            twice(file.child("path").text(), file.child("path").text(), errors);
        }
        let token = source.child("serviceAccountToken");
        if token.is_set() {
            service_account_token(at, &token, errors);
        }
        let known = [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ];
        if known
            .iter()
            .filter(|kind| source.child(kind).is_set())
            .count()
            > 1
        {
            source.forbidden(errors, "may not specify more than 1 volume type per source");
        }
    }
}

fn service_account_token(at: &At<'_, '_>, token: &At<'_, '_>, errors: &mut Errors) {
    let seconds = token.child("expirationSeconds");
    if seconds.number() < 600 {
        seconds.invalid_as(
            errors,
            seconds.number(),
            "may not specify a duration less than 10 minutes",
        );
    }
    if seconds.number() > 1 << 32 {
        seconds.invalid(
            errors,
            "may not specify a duration larger than 2^32 seconds",
        );
    }
    let path = at.named(token.child("path").value, "path");
    if path.needs_text(errors) {
        path.unreserved_path(errors);
    }
}

fn csi(at: &At<'_, '_>, errors: &mut Errors) {
    storage::csi_driver_name(&at.child("driver"), errors);
    let secret = at.child("nodePublishSecretRef");
    let name = secret.child("name");
    if secret.is_set() && name.needs_text(errors) {
        at.named(name.value, "name")
            .by(names::dns_subdomain, errors);
    }
}

fn ephemeral(at: &At<'_, '_>, errors: &mut Errors) {
    let template = at.child("volumeClaimTemplate");
    if !template.is_set() {
        template.required(errors, "");
        return;
    }
    storage::claim_template(&template, errors);
}
