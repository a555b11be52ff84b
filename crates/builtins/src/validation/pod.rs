//! Pods and pod templates.

use everflow_json::Value;

use super::super::at::{At, or_null};
use super::super::{Context, internal, line_diff, meta, names};
use super::container::{self, Pod};
use super::{resources, scheduling, security, volumes};
use crate::field::{Errors, FieldError, Path};
use crate::net;

const MOST: i64 = i32::MAX as i64;

/// What pods and templates do not share.
#[derive(Clone, Copy)]
struct Mode<'n> {
    is_pod: bool,
    name: Option<&'n str>,
}

/// Checks a new pod.
pub fn create(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    metadata_and_spec(&root, errors);
    let spec = root.child("spec");
    if !spec.child("ephemeralContainers").is_empty() {
        spec.child("ephemeralContainers")
            .forbidden(errors, "cannot be set on create");
    }
    if !spec.child("nodeName").is_empty() && !spec.child("schedulingGates").is_empty() {
        spec.child("nodeName").forbidden(
            errors,
            "cannot be set until all schedulingGates have been cleared",
        );
    }
}

/// The metadata is checked by the caller.
fn metadata_and_spec(root: &At<'_, '_>, errors: &mut Errors) {
    annotations(
        &root.child("metadata").child("annotations"),
        &root.child("spec"),
        errors,
    );
    let spec = root.child("spec");
    spec_of(
        &spec,
        Mode {
            is_pod: true,
            name: Some(meta::text(root.value, "name")),
        },
        errors,
    );
    if spec.child("serviceAccountName").is_empty() {
        for volume in spec.child("volumes").items() {
            for source in volume.child("projected").child("sources").items() {
                let token = source.child("serviceAccountToken");
                if token.is_set() {
                    token.forbidden(
                        errors,
                        "must not be specified when serviceAccountName is not set",
                    );
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        spec.child(list)
            .items()
            .for_each(|container| container::trimmed_image(&container, errors));
    }
}

fn annotations(at: &At<'_, '_>, spec: &At<'_, '_>, errors: &mut Errors) {
    let mirror = at.key("kubernetes.io/config.mirror");
    if mirror.is_set() && spec.child("nodeName").is_empty() {
        mirror.invalid(
            errors,
            "must set spec.nodeName if mirror pod annotation is set",
        );
    }
    let cost = at.key("controller.kubernetes.io/pod-deletion-cost");
    let odd =
        cost.text().starts_with('+') || (cost.text().len() > 1 && cost.text().starts_with('0'));
    if cost.is_set() && (odd || cost.text().parse::<i32>().is_err()) {
        cost.invalid(errors, "must be a 32bit integer");
    }
}

/// Checks the metadata of a pod template.
pub fn template_metadata(at: &At<'_, '_>, errors: &mut Errors) {
    let metadata = at.child("metadata");
    at.named(metadata.child("labels").value, "labels")
        .labels(errors);
    let shown = at.named(metadata.child("annotations").value, "annotations");
    meta::check_annotations(Some(shown.value), &shown.path(), errors);
    annotations(&shown, &at.child("spec"), errors);
}

/// Checks a pod template.
pub fn template(at: &At<'_, '_>, errors: &mut Errors) {
    let spec = at.child("spec");
    template_metadata(at, errors);
    spec_of(
        &spec,
        Mode {
            is_pod: false,
            name: None,
        },
        errors,
    );
    if !spec.child("ephemeralContainers").is_empty() {
        spec.child("ephemeralContainers")
            .forbidden(errors, "ephemeral containers not allowed in pod template");
    }
}

/// Checks a PodTemplate.
pub fn pod_template(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    template(&At::root(object).child("template"), errors);
}

/// Checks a changed PodTemplate.
pub fn pod_template_update(context: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    pod_template(context, new, errors);
}

fn spec_of(spec: &At<'_, '_>, mode: Mode<'_>, errors: &mut Errors) {
    let grace = spec.child("terminationGracePeriodSeconds");
    if !grace.is_set() {
        grace.required(errors, "");
    }
    let good = volumes::volumes(&spec.child("volumes"), mode.name, mode.is_pod, errors);
    let claims = resource_claims(&spec.child("resourceClaims"), errors);
    let pod = Pod {
        volumes: good,
        claims,
        grace: grace.int(),
        restart: spec.child("restartPolicy").text(),
        host_users: spec.child("hostUsers").value != &Value::Bool(false),
        os: spec.value.pointer("/os/name").and_then(Value::as_str),
    };
    let containers = spec.child("containers");
    container::containers(&containers, &pod, errors);
    container::init_containers(&spec.child("initContainers"), &containers, &pod, errors);
    container::ephemeral_containers(&spec.child("ephemeralContainers"), spec, &pod, errors);
    let whole = spec.child("resources");
    if whole.is_set() {
        resources::pod(&whole, &pod.claims, errors);
    }
    host_network(spec, mode.is_pod, errors);
    spec.child("restartPolicy")
        .needs_one_of(errors, &["Always", "OnFailure", "Never"]);
    spec.child("dnsPolicy").needs_one_of(
        errors,
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    spec.child("nodeSelector").labels(errors);
    security::pod(&spec.child("securityContext"), spec, errors);
    scheduling::affinity(&spec.child("affinity"), errors);
    dns(spec, errors);
    for gate in spec.child("readinessGates").items() {
        gate.child("conditionType")
            .by(names::qualified_name, errors);
    }
    scheduling_gates(&spec.child("schedulingGates"), errors);
    scheduling::spread(&spec.child("topologySpreadConstraints"), errors);
    host_users(spec, &pod, errors);
    host_name(spec, errors);
    tail(spec, errors);
}

/// The last fields of a pod, each with a rule of its own.
fn tail(spec: &At<'_, '_>, errors: &mut Errors) {
    spec.child("serviceAccountName")
        .by_if_any(names::dns_subdomain, errors);
    spec.child("nodeName")
        .by_if_any(names::dns_subdomain, errors);
    let deadline = spec.child("activeDeadlineSeconds");
    if deadline.is_set() {
        deadline.within(1, MOST, errors);
    }
    spec.child("hostname").by_if_any(names::dns_label, errors);
    spec.child("subdomain").by_if_any(names::dns_label, errors);
    scheduling::tolerations(&spec.child("tolerations"), errors);
    for alias in spec.child("hostAliases").items() {
        net::address(&alias.child("ip"), &[], errors);
        alias
            .child("hostnames")
            .items()
            .for_each(|name| name.by(names::dns_subdomain, errors));
    }
    spec.child("priorityClassName")
        .by_if_any(names::dns_subdomain, errors);
    let class = spec.child("runtimeClassName");
    if class.is_set() {
        class.by(names::dns_subdomain, errors);
    }
    let preemption = spec.child("preemptionPolicy");
    if preemption.is_set() {
        preemption.needs_one_of(errors, &["PreemptLowerPriority", "Never"]);
    }
    let overhead = spec.child("overhead");
    if overhead.is_set() {
        resources::limits_only(&overhead, &overhead, errors);
    }
    let os = spec.child("os");
    if os.is_set()
        && os.child("name").needs_text(errors)
        && !matches!(os.child("name").text(), "linux" | "windows")
    {
        errors.push(FieldError::not_supported(
            &os.path(),
            os.child("name").text(),
            &["linux", "windows"],
        ));
    }
}

fn resource_claims<'v>(at: &At<'_, 'v>, errors: &mut Errors) -> Vec<&'v str> {
    let mut seen: Vec<&str> = Vec::new();
    for claim in at.items() {
        let name = claim.child("name");
        if name.needs_text(errors) {
            if seen.contains(&name.text()) {
                name.duplicate_text(errors);
            } else {
                name.by(names::dns_label, errors);
            }
        }
        seen.push(name.text());
        let (direct, template) = (
            claim.child("resourceClaimName"),
            claim.child("resourceClaimTemplateName"),
        );
        let problem = match (direct.is_set(), template.is_set()) {
            (true, true) => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            (false, false) => {
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            }
            _ => "",
        };
        if !problem.is_empty() {
            claim.invalid_internal(errors, "core.PodResourceClaim", problem);
        }
        for name in [&direct, &template] {
            if name.is_set() {
                name.by(names::dns_subdomain, errors);
            }
        }
    }
    at.items()
        .map(|claim| claim.child("name").text())
        .filter(|name| !name.is_empty())
        .collect()
}

fn host_network(spec: &At<'_, '_>, is_pod: bool, errors: &mut Errors) {
    if !spec.child("hostNetwork").is_true() {
        return;
    }
    for container in spec.child("containers").items() {
        for port in container.child("ports").items() {
            let (host, own) = (port.child("hostPort"), port.child("containerPort"));
            if (is_pod || host.number() != 0) && host.number() != own.number() {
                host.invalid_as(
                    errors,
                    host.number(),
                    "must match `containerPort` when `hostNetwork` is true",
                );
            }
        }
    }
}

fn dns(spec: &At<'_, '_>, errors: &mut Errors) {
    let config = spec.child("dnsConfig");
    let servers = config.child("nameservers");
    if spec.child("dnsPolicy").text() == "None" {
        if !config.is_set() {
            config.required(errors, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if servers.is_empty() {
            servers.required(
                errors,
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            );
            return;
        }
    }
    if servers.len() > 3 {
        servers.invalid(errors, "must not have more than 3 nameservers");
    }
    for server in servers.items() {
        net::address(&server, &[], errors);
    }
    let searches = config.child("searches");
    if searches.len() > 32 {
        searches.invalid(errors, "must not have more than 32 search paths");
    }
    if searches.texts().join(" ").len() > 2048 {
        searches.invalid(
            errors,
            "must not have more than 2048 characters (including spaces) in the search list",
        );
    }
    for search in searches.items().filter(|search| search.text() != ".") {
        let name = search.text().strip_suffix('.').unwrap_or(search.text());
        for problem in names::dns_subdomain_with_underscore(name) {
            search.invalid_as(errors, name, problem);
        }
    }
    for option in config.child("options").items() {
        if option.child("name").is_empty() {
            option.required(errors, "must not be empty");
        }
    }
}

fn scheduling_gates(at: &At<'_, '_>, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for gate in at.items() {
        let name = gate.child("name").text();
        for problem in names::qualified_name(name) {
            gate.invalid_as(errors, name, problem);
        }
        if seen.contains(&name) {
            errors.push(FieldError::duplicate(&gate.path(), name));
        }
        seen.push(name);
    }
}

fn host_users(spec: &At<'_, '_>, pod: &Pod<'_>, errors: &mut Errors) {
    if pod.host_users {
        return;
    }
    for (key, shown) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if spec.child(key).is_true() {
            spec.named(&Value::Null, shown)
                .forbidden(errors, "when `hostUsers` is false");
        }
    }
}

fn host_name(spec: &At<'_, '_>, errors: &mut Errors) {
    let name = spec.child("hostnameOverride");
    if !name.is_set() {
        return;
    }
    if spec.child("setHostnameAsFQDN").is_true() {
        name.forbidden(
            errors,
            "may not be specified when setHostnameAsFQDN is true",
        );
    }
    if spec.child("hostNetwork").is_true() {
        name.forbidden(errors, "may not be specified when hostNetwork is true");
    }
    if name.text().len() > 64 {
        name.too_long(errors, 64);
    }
    name.by(names::dns_subdomain, errors);
}

/// Checks a changed pod: little of it may change.
pub fn update(_: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    meta::validate(new, true, true, names::dns_subdomain, errors);
    let root = At::root(new);
    metadata_and_spec(&root, errors);
    let spec = root.child("spec");
    annotations(&root.child("metadata").child("annotations"), &spec, errors);
    let before = or_null(old.get("spec"));
    for list in ["containers", "initContainers"] {
        let containers = spec.child(list);
        if containers.len()
            != before
                .get(list)
                .and_then(Value::as_array)
                .map_or(0, Vec::len)
        {
            containers.forbidden(errors, "pod updates may not add or remove containers");
            return;
        }
        for container in containers.items() {
            container.child("image").needs_text(errors);
            container::trimmed_image(&container, errors);
        }
    }
    if !deadline_update(&spec, before, errors) {
        return;
    }
    tolerations_update(&spec.child("tolerations"), before, errors);
    gates_update(&spec.child("schedulingGates"), before, errors);
    if spec.value == before {
        return;
    }
    let munged = with_allowed_changes(spec.value, before);
    if munged != *before {
        let difference = line_diff::unified(
            &internal::pretty("core.PodSpec", before),
            &internal::pretty("core.PodSpec", &munged),
        );
        spec.forbidden(errors, &format!("pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n{difference}"));
    }
}

fn deadline_update(spec: &At<'_, '_>, before: &Value, errors: &mut Errors) -> bool {
    let deadline = spec.child("activeDeadlineSeconds");
    let earlier = before.get("activeDeadlineSeconds").and_then(Value::as_i64);
    match (deadline.int(), earlier) {
        (Some(now), _) if !(0..=MOST).contains(&now) => deadline.within(0, MOST, errors),
        (Some(now), Some(earlier)) if earlier < now => {
            deadline.invalid(errors, "must be less than or equal to previous value");
        }
        (None, Some(_)) => {
            deadline.invalid_or_null(
                errors,
                "must not update from a positive integer to nil value",
            );
            return true;
        }
        _ => return true,
    }
    false
}

fn tolerations_update(at: &At<'_, '_>, before: &Value, errors: &mut Errors) {
    let plain = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(map) = toleration.as_object_mut() {
            map.remove("tolerationSeconds");
        }
        toleration
    };
    let now: Vec<Value> = at
        .items()
        .map(|toleration| plain(toleration.value))
        .collect();
    let earlier = before.get("tolerations").and_then(Value::as_array);
    if earlier
        .into_iter()
        .flatten()
        .any(|toleration| !now.contains(&plain(toleration)))
    {
        at.forbidden(
            errors,
            "existing toleration can not be modified except its tolerationSeconds",
        );
        return;
    }
    scheduling::tolerations(at, errors);
}

fn gates_update(at: &At<'_, '_>, before: &Value, errors: &mut Errors) {
    let earlier = before
        .get("schedulingGates")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    for gate in at.items().filter(|gate| !earlier.contains(gate.value)) {
        let name = gate.child("name");
        name.forbidden(
            errors,
            &format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.text()
            ),
        );
    }
}

/// The new spec with everything that may change set back.
fn with_allowed_changes(new: &Value, old: &Value) -> Value {
    let mut munged = new.clone();
    for list in ["containers", "initContainers"] {
        let images = old
            .get(list)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let containers = munged
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten();
        for (container, before) in containers.zip(images) {
            set_back(container, &before, "image");
        }
    }
    for key in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        set_back(&mut munged, old, key);
    }
    let was_negative = old
        .get("terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|s| s < 0);
    if was_negative
        && munged
            .get("terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
            == Some(1)
    {
        set_back(&mut munged, old, "terminationGracePeriodSeconds");
    }
    munged
}

/// Makes a field what it was.
pub fn set_back(new: &mut Value, old: &Value, key: &str) {
    if let Some(map) = new.as_object_mut() {
        match old.get(key) {
            Some(value) => drop(map.insert(key.into(), value.clone())),
            None => drop(map.remove(key)),
        }
    }
}

/// Checks the ephemeral containers that a subresource changed.
pub fn ephemeral_update(new: &Value, old: &Value, errors: &mut Errors) {
    let before = old
        .pointer("/spec/ephemeralContainers")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let after = new
        .pointer("/spec/ephemeralContainers")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let path = Path::new("spec").child("ephemeralContainers");
    for earlier in before.iter().filter(|earlier| !after.contains(earlier)) {
        let name = super::text(earlier, "name");
        let problem = if after.iter().any(|now| super::text(now, "name") == name) {
            "updated"
        } else {
            "removed"
        };
        let name = crate::field::go_quote(name);
        errors.push(FieldError::forbidden(
            &path,
            format!("existing ephemeral containers {name} may not be {problem}\n"),
        ));
    }
}
