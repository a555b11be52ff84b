//! Checks of the common built-in kinds.

use serde_json::{Map, Value};

use super::{Context, meta, names};
use crate::field::{Errors, FieldError, Path, go_json};

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn immutable(new: Option<&Value>, old: Option<&Value>, path: &Path, errors: &mut Errors) {
    if new != old {
        errors.push(FieldError::invalid_shown(
            path,
            new.map_or("null".to_owned(), |value| {
                if value.is_string() {
                    crate::field::go_quote(value.as_str().unwrap_or_default())
                } else {
                    go_json(value)
                }
            }),
            "field is immutable",
        ));
    }
}

/// A name that must be there once.
fn unique_name<'v>(item: &'v Value, path: &Path, seen: &mut Vec<&'v str>, errors: &mut Errors) {
    let name = text(item, "name");
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
        return;
    }
    for problem in names::dns_label(name) {
        errors.push(FieldError::invalid(&path.child("name"), name, problem));
    }
    if seen.contains(&name) {
        errors.push(FieldError::duplicate(&path.child("name"), name));
    }
    seen.push(name);
}

/// The order in which the sources of a volume are looked at.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "storageos",
    "portworxVolume",
    "scaleIO",
    "projected",
    "csi",
    "ephemeral",
    "photonPersistentDisk",
    "image",
];

fn volumes(spec: &Value, path: &Path, errors: &mut Errors) {
    let mut seen = Vec::new();
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let here = path.child("volumes").index(index);
        let given: Vec<&&str> = SOURCES
            .iter()
            .filter(|source| volume.get(**source).is_some())
            .collect();
        for extra in given.iter().skip(1) {
            errors.push(FieldError::forbidden(
                &here.child(extra),
                "may not specify more than 1 volume type",
            ));
        }
        unique_name(volume, &here, &mut seen, errors);
    }
}

fn port_in_range(value: Option<&Value>, path: &Path, errors: &mut Errors) {
    match value {
        Some(Value::Number(number)) => {
            let port = number.as_i64().unwrap_or_default();
            if !(1..=65535).contains(&port) {
                errors.push(FieldError::invalid(
                    path,
                    port,
                    "must be between 1 and 65535, inclusive",
                ));
            }
        }
        Some(Value::String(name)) => {
            for problem in names::port_name(name) {
                errors.push(FieldError::invalid(path, name.as_str(), problem));
            }
        }
        _ => errors.push(FieldError::invalid(
            path,
            0,
            "must be between 1 and 65535, inclusive",
        )),
    }
}

fn ports(container: &Value, path: &Path, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for (index, port) in list(container, "ports").iter().enumerate() {
        let here = path.child("ports").index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            for problem in names::port_name(name) {
                errors.push(FieldError::invalid(&here.child("name"), name, problem));
            }
            if seen.contains(&name) {
                errors.push(FieldError::duplicate(&here.child("name"), name));
            }
            seen.push(name);
        }
        match port
            .get("containerPort")
            .and_then(Value::as_i64)
            .unwrap_or_default()
        {
            0 => errors.push(FieldError::required(&here.child("containerPort"), "")),
            _ => port_in_range(
                port.get("containerPort"),
                &here.child("containerPort"),
                errors,
            ),
        }
        match text(port, "protocol") {
            "" => errors.push(FieldError::required(&here.child("protocol"), "")),
            "TCP" | "UDP" | "SCTP" => {}
            other => errors.push(FieldError::not_supported(
                &here.child("protocol"),
                other,
                &["SCTP", "TCP", "UDP"],
            )),
        }
    }
}

fn environment(container: &Value, path: &Path, errors: &mut Errors) {
    for (index, variable) in list(container, "env").iter().enumerate() {
        let here = path.child("env").index(index);
        if text(variable, "name").is_empty() {
            errors.push(FieldError::required(&here.child("name"), ""));
        }
        if let Some(source) = variable.get("valueFrom") {
            if source.as_object().is_some_and(Map::is_empty) {
                errors.push(FieldError::invalid(&here.child("valueFrom"), "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef`, or `fileKeyRef`"));
            } else if !text(variable, "value").is_empty() {
                errors.push(FieldError::invalid(
                    &here.child("valueFrom"),
                    "",
                    "may not be specified when `value` is not empty",
                ));
            }
        }
    }
    for source in list(container, "envFrom") {
        if source.get("configMapRef").is_none() && source.get("secretRef").is_none() {
            errors.push(FieldError::invalid(
                &path.child("envFrom"),
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            ));
        }
    }
}

fn mounts(container: &Value, volumes: &[&str], path: &Path, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let here = path.child("volumeMounts").index(index);
        let (name, place) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(&here.child("name"), ""));
        }
        if !volumes.contains(&name) {
            errors.push(FieldError::not_found(&here.child("name"), name));
        }
        if place.is_empty() {
            errors.push(FieldError::required(&here.child("mountPath"), ""));
        } else if seen.contains(&place) {
            errors.push(FieldError::invalid(
                &here.child("mountPath"),
                place,
                "must be unique",
            ));
        }
        seen.push(place);
    }
}

fn containers(spec: &Value, key: &str, path: &Path, errors: &mut Errors) {
    let all_volumes: Vec<&str> = list(spec, "volumes")
        .iter()
        .map(|volume| text(volume, "name"))
        .collect();
    let mut seen = Vec::new();
    for (index, container) in list(spec, key).iter().enumerate() {
        let here = path.child(key).index(index);
        unique_name(container, &here, &mut seen, errors);
        let image = text(container, "image");
        if image.is_empty() {
            errors.push(FieldError::required(&here.child("image"), ""));
        } else if image.trim() != image {
            errors.push(FieldError::invalid(
                &here.child("image"),
                image,
                "must not have leading or trailing whitespace",
            ));
        }
        for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
            for handler in ["httpGet", "tcpSocket"] {
                if let Some(action) = container.get(probe).and_then(|probe| probe.get(handler)) {
                    port_in_range(
                        action.get("port"),
                        &here.child(probe).child(handler).child("port"),
                        errors,
                    );
                }
            }
        }
        ports(container, &here, errors);
        environment(container, &here, errors);
        mounts(container, &all_volumes, &here, errors);
    }
}

/// Checks the spec of a pod or of a pod template.
pub fn pod_spec(spec: &Value, path: &Path, errors: &mut Errors) {
    volumes(spec, path, errors);
    if list(spec, "containers").is_empty() {
        errors.push(FieldError::required(&path.child("containers"), ""));
    }
    containers(spec, "containers", path, errors);
    containers(spec, "initContainers", path, errors);
    let mut sysctls: Vec<&str> = Vec::new();
    for (index, sysctl) in spec
        .pointer("/securityContext/sysctls")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
    {
        let here = path
            .child("securityContext")
            .child("sysctls")
            .index(index)
            .child("name");
        match text(sysctl, "name") {
            "" => errors.push(FieldError::required(&here, "")),
            name if sysctls.contains(&name) => errors.push(FieldError::duplicate(&here, name)),
            name => sysctls.push(name),
        }
    }
    for (index, gate) in list(spec, "readinessGates").iter().enumerate() {
        for problem in names::qualified_name(text(gate, "conditionType")) {
            errors.push(FieldError::invalid(
                &path
                    .child("readinessGates")
                    .index(index)
                    .child("conditionType"),
                text(gate, "conditionType"),
                problem,
            ));
        }
    }
    for (index, toleration) in list(spec, "tolerations").iter().enumerate() {
        if text(toleration, "key").is_empty() && text(toleration, "operator") != "Exists" {
            let here = path.child("tolerations").index(index).child("operator");
            errors.push(FieldError::invalid(&here, text(toleration, "operator"), "operator must be Exists when `key` is empty, which means \"match all values and all keys\""));
        }
    }
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        if text(alias, "ip").parse::<std::net::IpAddr>().is_err() {
            errors.push(FieldError::invalid(
                &path.child("hostAliases").index(index).child("ip"),
                text(alias, "ip"),
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ));
        }
    }
}

fn template(object: &Value, errors: &mut Errors) {
    let path = Path::new("spec").child("template").child("spec");
    if let Some(spec) = object.pointer("/spec/template/spec") {
        pod_spec(spec, &path, errors);
    }
}

/// A selector that is there and selects the template's own pods.
fn selector(object: &Value, errors: &mut Errors) {
    let selector = object.pointer("/spec/selector");
    let labels = object.pointer("/spec/template/metadata/labels");
    if selector.is_none_or(Value::is_null) {
        errors.push(FieldError::required(
            &Path::new("spec").child("selector"),
            "",
        ));
    }
    let wanted = selector
        .and_then(|selector| selector.get("matchLabels"))
        .and_then(Value::as_object);
    let fits = selector.is_some_and(|selector| !selector.is_null())
        && wanted.is_none_or(|wanted| {
            wanted
                .iter()
                .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
        });
    if !fits {
        let shown = labels.map_or("null".to_owned(), go_json);
        errors.push(FieldError::invalid_shown(
            &Path::new("spec")
                .child("template")
                .child("metadata")
                .child("labels"),
            shown,
            "`selector` does not match template `labels`",
        ));
    }
}

/// Checks a Deployment, ReplicaSet, DaemonSet or StatefulSet.
pub fn workload(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let spec = Path::new("spec");
    if let Some(replicas) = object
        .pointer("/spec/replicas")
        .and_then(Value::as_i64)
        .filter(|replicas| *replicas < 0)
    {
        errors.push(FieldError::invalid(
            &spec.child("replicas"),
            replicas,
            "must be greater than or equal to 0",
        ));
    }
    selector(object, errors);
    template(object, errors);
    if object
        .pointer("/spec/strategy/type")
        .and_then(Value::as_str)
        == Some("Recreate")
        && object.pointer("/spec/strategy/rollingUpdate").is_some()
    {
        errors.push(FieldError::forbidden(
            &spec.child("strategy").child("rollingUpdate"),
            "may not be specified when strategy `type` is 'Recreate'",
        ));
    }
}

/// Checks a changed Deployment, ReplicaSet or DaemonSet.
pub fn workload_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    workload(context, new, errors);
    immutable(
        new.pointer("/spec/selector")
            .filter(|value| !value.is_null()),
        old.pointer("/spec/selector")
            .filter(|value| !value.is_null()),
        &Path::new("spec").child("selector"),
        errors,
    );
}

/// Checks a pod.
pub fn pod(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    if let Some(spec) = object.get("spec") {
        pod_spec(spec, &Path::new("spec"), errors);
    }
}

/// A pod keeps its containers.
pub fn pod_update(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    let count = |object: &Value| {
        object
            .pointer("/spec/containers")
            .and_then(Value::as_array)
            .map_or(0, Vec::len)
    };
    if count(new) != count(old) {
        errors.push(FieldError::forbidden(
            &Path::new("spec").child("containers"),
            "pod updates may not add or remove containers",
        ));
    }
}

/// The data of a revision never changes.
pub fn revision_update(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    if new.get("data") != old.get("data") {
        errors.push(FieldError::invalid_shown(
            &Path::new("data"),
            new.get("data").map_or("null".to_owned(), go_json),
            "field is immutable",
        ));
    }
}

/// What a storage class says never changes.
pub fn storage_class_update(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    if new.get("parameters") != old.get("parameters") {
        immutable(
            new.get("parameters"),
            old.get("parameters"),
            &Path::new("parameters"),
            errors,
        );
    }
    for key in ["provisioner", "reclaimPolicy", "volumeBindingMode"] {
        immutable(new.get(key), old.get(key), &Path::new(key), errors);
    }
}

/// The keys of a ConfigMap.
pub fn config_map(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    for part in ["data", "binaryData"] {
        for key in object
            .get(part)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(key, _)| key)
        {
            for problem in names::config_key(key) {
                errors.push(FieldError::invalid(
                    &Path::new(part).key(key),
                    key.as_str(),
                    problem,
                ));
            }
        }
    }
}

/// What an immutable object keeps, and the metadata checks that its kind repeats.
pub fn config_map_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    frozen(new, old, &["data", "binaryData"], errors);
    for _ in 0..2 {
        meta::validate(new, true, true, names::dns_subdomain, errors);
    }
    config_map(context, new, errors);
}

fn frozen(new: &Value, old: &Value, parts: &[&str], errors: &mut Errors) {
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return;
    }
    if new.get("immutable") != Some(&Value::Bool(true)) {
        errors.push(FieldError::forbidden(
            &Path::new("immutable"),
            "field is immutable when `immutable` is set",
        ));
    }
    for part in parts {
        if new.get(part) != old.get(part) {
            errors.push(FieldError::forbidden(
                &Path::new(part),
                "field is immutable when `immutable` is set",
            ));
        }
    }
}

/// The keys of a Secret, and what its type needs.
pub fn secret(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let data = object.get("data").and_then(Value::as_object);
    for (key, _) in data.into_iter().flatten() {
        for problem in names::config_key(key) {
            errors.push(FieldError::invalid(
                &Path::new("data").key(key),
                key.as_str(),
                problem,
            ));
        }
    }
    if text(object, "type") == "kubernetes.io/tls" {
        for key in ["tls.crt", "tls.key"] {
            if data.is_none_or(|data| !data.contains_key(key)) {
                errors.push(FieldError::required(&Path::new("data").key(key), ""));
            }
        }
    }
}

/// A Secret keeps its type.
pub fn secret_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    immutable(new.get("type"), old.get("type"), &Path::new("type"), errors);
    frozen(new, old, &["data"], errors);
    secret(context, new, errors);
}

/// The rules of a Role or ClusterRole.
pub fn role(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    for (index, rule) in list(object, "rules").iter().enumerate() {
        let path = Path::new("rules").index(index);
        if list(rule, "verbs").is_empty() {
            errors.push(FieldError::required(
                &path.child("verbs"),
                "verbs must contain at least one value",
            ));
        }
        if !list(rule, "nonResourceURLs").is_empty() {
            continue;
        }
        if list(rule, "apiGroups").is_empty() {
            errors.push(FieldError::required(
                &path.child("apiGroups"),
                "resource rules must supply at least one api group",
            ));
        }
        if list(rule, "resources").is_empty() {
            errors.push(FieldError::required(
                &path.child("resources"),
                "resource rules must supply at least one resource",
            ));
        }
    }
}

/// A changed Role or ClusterRole.
pub fn role_update(context: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    role(context, new, errors);
}

/// The subjects of a binding.
pub fn binding(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    for (index, subject) in list(object, "subjects").iter().enumerate() {
        let path = Path::new("subjects").index(index);
        if text(subject, "name").is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        }
        if !matches!(text(subject, "kind"), "ServiceAccount" | "User" | "Group") {
            errors.push(FieldError::not_supported(
                &path.child("kind"),
                text(subject, "kind"),
                &["ServiceAccount", "User", "Group"],
            ));
        }
    }
}

/// A changed binding.
pub fn binding_update(context: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    binding(context, new, errors);
    if new.get("roleRef") != old.get("roleRef") {
        let shown = new.get("roleRef").map_or("null".to_owned(), |role| {
            format!(
                "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
                go_json(&Value::from(text(role, "apiGroup"))),
                go_json(&Value::from(text(role, "kind"))),
                go_json(&Value::from(text(role, "name")))
            )
        });
        errors.push(FieldError::invalid_shown(
            &Path::new("roleRef"),
            shown,
            "cannot change roleRef",
        ));
    }
}

/// The bounds of an autoscaler.
pub fn autoscaler(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let path = Path::new("spec").child("maxReplicas");
    let maximum = object
        .pointer("/spec/maxReplicas")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    if maximum < 1 {
        errors.push(FieldError::required(
            &path,
            "must be set and greater than 0",
        ));
    }
    if let Some(minimum) = object.pointer("/spec/minReplicas").and_then(Value::as_i64)
        && maximum < minimum
    {
        errors.push(FieldError::invalid(
            &path,
            maximum,
            "must be greater than or equal to `minReplicas`",
        ));
    }
}

/// A changed autoscaler.
pub fn autoscaler_update(context: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    autoscaler(context, new, errors);
}

/// Warnings about a Service.
pub fn service_warnings(object: &Value, _: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec = object.get("spec").unwrap_or(&Value::Null);
    if !list(spec, "externalIPs").is_empty() {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
                .to_owned(),
        );
    }
    if !text(spec, "externalName").is_empty() && text(spec, "type") != "ExternalName" {
        warnings
            .push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    warnings
}

/// Warnings about a new Ingress.
pub fn ingress_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let annotated = object
        .pointer("/metadata/annotations")
        .and_then(|map| map.get("kubernetes.io/ingress.class"))
        .is_some();
    if annotated && old.is_none() {
        vec!["annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead".to_owned()]
    } else {
        Vec::new()
    }
}

/// Warnings about the pod template of a workload.
pub fn template_warnings(object: &Value, _: Option<&Value>) -> Vec<String> {
    object
        .pointer("/spec/template/spec")
        .map_or_else(Vec::new, |spec| pod_warnings(spec, "spec.template.spec"))
}

fn pod_warnings(spec: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        if constraint.get("labelSelector").is_none() {
            warnings.push(format!("{path}.topologySpreadConstraints[{index}].labelSelector: a null labelSelector results in matching no pod"));
        }
    }
    let mut addresses: Vec<&str> = Vec::new();
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let ip = text(alias, "ip");
        if addresses.contains(&ip) {
            warnings.push(format!(
                "{path}.hostAliases[{index}].ip: duplicate ip {}",
                crate::field::go_quote(ip)
            ));
        }
        addresses.push(ip);
    }
    for (index, secret) in list(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            warnings.push(format!(
                "{path}.imagePullSecrets[{index}].name: invalid empty name \"\""
            ));
        }
    }
    for (at, container) in list(spec, "containers").iter().enumerate() {
        let variables = list(container, "env");
        for (index, variable) in variables.iter().enumerate() {
            let name = text(variable, "name");
            if variables[..index]
                .iter()
                .any(|earlier| text(earlier, "name") == name)
            {
                warnings.push(format!("{path}.containers[{at}].env[{index}]: hides previous definition of {}, which may be dropped when using apply", crate::field::go_quote(name)));
            }
        }
    }
    warnings
}
