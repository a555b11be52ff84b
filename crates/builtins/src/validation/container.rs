//! Containers of pods.

use everflow_json::Value;

use super::super::at::At;
use super::super::names;
use super::{env, resources, security};
use crate::field::{Errors, FieldError};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];

/// What the checks of a container need to know of its pod.
pub struct Pod<'v> {
    /// The volumes that are right.
    pub volumes: Vec<&'v Value>,
    /// The names of its resource claims.
    pub claims: Vec<&'v str>,
    /// How long it may take to stop.
    pub grace: Option<i64>,
    /// When it starts again.
    pub restart: &'v str,
    /// Whether it shares the users of its node.
    pub host_users: bool,
    /// The operating system it says it needs.
    pub os: Option<&'v str>,
}

impl Pod<'_> {
    fn volume(&self, name: &str) -> Option<&Value> {
        self.volumes
            .iter()
            .find(|volume| volume.get("name").and_then(Value::as_str) == Some(name))
            .copied()
    }
}

/// Checks the containers of a pod.
pub fn containers(at: &At<'_, '_>, pod: &Pod<'_>, errors: &mut Errors) {
    if at.is_empty() {
        at.required(errors, "");
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for container in at.items() {
        common(&container, pod, errors);
        let name = container.child("name");
        if seen.contains(&name.text()) {
            name.duplicate_text(errors);
        }
        seen.push(name.text());
        lifecycle(&container, pod, errors);
        probes(&container, pod, errors);
        restart_policy(&container, errors);
    }
    host_ports(at, at.items(), errors);
}

/// Checks the containers that run before the others.
pub fn init_containers(at: &At<'_, '_>, others: &At<'_, '_>, pod: &Pod<'_>, errors: &mut Errors) {
    let mut seen: Vec<&str> = others
        .items()
        .map(|other| other.child("name").text())
        .collect();
    for (index, container) in at.items().enumerate() {
        common(&container, pod, errors);
        let policy = container.child("restartPolicy");
        restart_policy(&container, errors);
        let name = container.child("name");
        if seen.contains(&name.text()) {
            name.duplicate_text(errors);
        } else if !name.is_empty() {
            seen.push(name.text());
        }
        // Reported at the first item, wherever the container stands.
        host_ports(at, std::iter::once(At::index(at, index)), errors);
        if policy.text() == "Always" {
            lifecycle(&container, pod, errors);
            probes(&container, pod, errors);
        } else {
            for key in [
                "lifecycle",
                "livenessProbe",
                "readinessProbe",
                "startupProbe",
            ] {
                let part = container.child(key);
                if part.is_set() {
                    part.forbidden(
                        errors,
                        "may not be set for init containers without restartPolicy=Always",
                    );
                }
            }
            for resize in container.child("resizePolicy").items() {
                let policy = resize.child("restartPolicy");
                if policy.text() == "RestartContainer" {
                    policy.invalid(
                        errors,
                        "must not be set to 'RestartContainer' for non-sidecar initContainers",
                    );
                }
            }
        }
    }
}

/// Checks the containers that were added to a running pod.
pub fn ephemeral_containers(
    at: &At<'_, '_>,
    spec: &At<'_, '_>,
    pod: &Pod<'_>,
    errors: &mut Errors,
) {
    let names = |key| -> Vec<&str> {
        spec.value
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|c| super::text(c, "name"))
            .collect()
    };
    let others = [names("containers"), names("initContainers")].concat();
    let mut seen = others.clone();
    for container in at.items() {
        common(&container, pod, errors);
        trimmed_image(&container, errors);
        let name = container.child("name");
        if seen.contains(&name.text()) {
            name.duplicate_text(errors);
        }
        seen.push(name.text());
        let target = container.child("targetContainerName");
        if !target.is_empty() && !others.contains(&target.text()) {
            target.not_found(errors);
        }
        for key in [
            "ports",
            "resources",
            "resizePolicy",
            "restartPolicy",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
        ] {
            let part = container.child(key);
            if part.is_set() && part.value != &everflow_json::json!({}) {
                part.forbidden(errors, "cannot be set for an Ephemeral Container");
            }
        }
        for mount in container.child("volumeMounts").items() {
            for key in ["subPath", "subPathExpr"] {
                let part = mount.child(key);
                if !part.is_empty() {
                    part.forbidden(errors, "cannot be set for an Ephemeral Container");
                }
            }
        }
    }
}

/// Pods themselves take no image with spaces around it; templates do.
pub fn trimmed_image(container: &At<'_, '_>, errors: &mut Errors) {
    let image = container.child("image");
    if image.text().trim() != image.text() {
        image.invalid(errors, "must not have leading or trailing whitespace");
    }
}

fn common(at: &At<'_, '_>, pod: &Pod<'_>, errors: &mut Errors) {
    at.child("name").needed_by(names::dns_label, errors);
    at.child("image").needs_text(errors);
    at.child("terminationMessagePolicy")
        .needs_one_of(errors, &["File", "FallbackToLogsOnError"]);
    ports(&at.child("ports"), errors);
    env::variables(at, errors);
    mounts(at, pod, errors);
    devices(at, pod, errors);
    at.child("imagePullPolicy")
        .needs_one_of(errors, &PULL_POLICIES);
    resources::container(&at.child("resources"), &pod.claims, errors);
    resize_policy(&at.child("resizePolicy"), pod, errors);
    security::container(&at.child("securityContext"), pod.host_users, errors);
}

fn ports(at: &At<'_, '_>, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for port in at.items() {
        let name = port.child("name");
        if !name.is_empty() {
            let before = errors.len();
            name.by(names::port_name, errors);
            if errors.len() == before {
                if seen.contains(&name.text()) {
                    name.duplicate_text(errors);
                }
                seen.push(name.text());
            }
        }
        let number = port.child("containerPort");
        if number.number() == 0 {
            number.required(errors, "");
        } else {
            number.port(errors);
        }
        let host = port.child("hostPort");
        if host.number() != 0 {
            host.port(errors);
        }
        port.child("protocol").needs_one_of(errors, &PROTOCOLS);
    }
}

/// No two ports share a port of the node.
fn host_ports<'c, 'v: 'c>(
    at: &'c At<'c, 'v>,
    containers: impl Iterator<Item = At<'c, 'v>>,
    errors: &mut Errors,
) {
    let mut seen: Vec<String> = Vec::new();
    for (index, container) in containers.enumerate() {
        let shown = At::index(at, index);
        let list = shown.named(container.child("ports").value, "ports");
        for port in list.items() {
            let host = port.child("hostPort");
            if host.number() == 0 {
                continue;
            }
            let key = format!(
                "{}/{}/{}",
                port.child("protocol").text(),
                port.child("hostIP").text(),
                host.number()
            );
            if seen.contains(&key) {
                errors.push(FieldError::duplicate(&host.path(), key.as_str()));
            } else {
                seen.push(key);
            }
        }
    }
}

fn mounts(container: &At<'_, '_>, pod: &Pod<'_>, errors: &mut Errors) {
    let all = container.child("volumeMounts");
    let devices = container.child("volumeDevices");
    let mut seen: Vec<&str> = Vec::new();
    for mount in all.items() {
        let (name, place) = (mount.child("name"), mount.child("mountPath"));
        name.needs_text(errors);
        if pod.volume(name.text()).is_none() {
            name.not_found(errors);
        }
        place.needs_text(errors);
        if seen.contains(&place.text()) {
            place.invalid(errors, "must be unique");
        }
        seen.push(place.text());
        if devices
            .items()
            .any(|device| device.child("name").text() == name.text())
        {
            name.invalid(errors, "must not already exist in volumeDevices");
        }
        if devices
            .items()
            .any(|device| device.child("devicePath").text() == place.text())
        {
            place.invalid(errors, "must not already exist as a path in volumeDevices");
        }
        // Parts of a mount are reported at the list.
        let field = |key: &'static str| all.named(mount.child(key).value, key);
        let (sub, expression) = (field("subPath"), field("subPathExpr"));
        if !sub.is_empty() {
            sub.descending_path(errors);
        }
        if !expression.is_empty() {
            if !sub.is_empty() {
                mount
                    .child("subPathExpr")
                    .invalid(errors, "subPathExpr and subPath are mutually exclusive");
            }
            expression.descending_path(errors);
        }
        let propagation = field("mountPropagation");
        propagation.one_of(errors, &["Bidirectional", "HostToContainer", "None"]);
        let context = container.child("securityContext");
        if propagation.text() == "Bidirectional" && !context.child("privileged").is_true() {
            propagation.forbidden(
                errors,
                "Bidirectional mount propagation is available only to privileged containers",
            );
        }
        let recursive = field("recursiveReadOnly");
        if matches!(recursive.text(), "Enabled" | "IfPossible") {
            if !mount.child("readOnly").is_true() {
                recursive.forbidden(errors, "may only be specified when readOnly is true");
            }
            if !matches!(propagation.text(), "" | "None") {
                recursive.forbidden(
                    errors,
                    "may only be specified when mountPropagation is None or not specified",
                );
            }
        } else if recursive.is_set() && recursive.text() != "Disabled" {
            recursive.unsupported(errors, &["Disabled", "Enabled", "IfPossible"]);
        }
    }
}

fn devices(container: &At<'_, '_>, pod: &Pod<'_>, errors: &mut Errors) {
    let all = container.child("volumeDevices");
    let mounts = container.child("volumeMounts");
    let (mut seen_names, mut seen_paths): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for device in all.items() {
        let (name, place) = (device.child("name"), device.child("devicePath"));
        name.needs_text(errors);
        if seen_names.contains(&name.text()) {
            name.invalid(errors, "must be unique");
        }
        match pod.volume(name.text()) {
            None => name.not_found(errors),
            Some(volume) if volume.get("persistentVolumeClaim").or(volume.get("ephemeral")).is_none() => name.invalid(
                errors,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            ),
            Some(_) => {}
        }
        place.needs_text(errors);
        if seen_paths.contains(&place.text()) {
            place.invalid(errors, "must be unique");
        }
        if place.text().split('/').any(|part| part == "..") {
            place.invalid(errors, "can not contain backsteps ('..')");
        } else {
            seen_paths.push(place.text());
        }
        if mounts
            .items()
            .any(|mount| mount.child("name").text() == name.text())
        {
            name.invalid(errors, "must not already exist in volumeMounts");
        }
        if mounts
            .items()
            .any(|mount| mount.child("mountPath").text() == place.text())
        {
            place.invalid(errors, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            seen_names.push(name.text());
        }
    }
}

fn resize_policy(at: &At<'_, '_>, pod: &Pod<'_>, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for policy in at.items() {
        let (resource, restart) = (policy.child("resourceName"), policy.child("restartPolicy"));
        if seen.contains(&resource.text()) {
            errors.push(FieldError::duplicate(&policy.path(), resource.text()));
        }
        seen.push(resource.text());
        // Reported at the list, not at the item.
        let shown = |value, known: &[&str], errors: &mut Errors| {
            at.with(value).needs_one_of(errors, known);
        };
        shown(resource.value, &["cpu", "memory"], errors);
        shown(restart.value, &["NotRequired", "RestartContainer"], errors);
        if pod.restart == "Never" && restart.text() != "NotRequired" {
            at.invalid_as(
                errors,
                restart.text(),
                "must be 'NotRequired' when pod `restartPolicy` is 'Never'",
            );
        }
    }
}

fn restart_policy(container: &At<'_, '_>, errors: &mut Errors) {
    let (policy, rules) = (
        container.child("restartPolicy"),
        container.child("restartPolicyRules"),
    );
    if !policy.is_set() {
        if rules.is_empty() {
            return;
        }
        policy.required(
            errors,
            "must specify restartPolicy when restart rules are used",
        );
    }
    policy.one_of(errors, &["Always", "Never", "OnFailure"]);
    if rules.len() > 20 {
        rules.too_many(errors, 20);
    }
    for rule in rules.items() {
        let action = rule.child("action");
        if !matches!(action.text(), "Restart" | "RestartAllContainers") {
            action.unsupported(errors, &["Restart", "RestartAllContainers"]);
        }
        let codes = rule.child("exitCodes");
        if !codes.is_set() {
            codes.required(errors, "must be specified");
            continue;
        }
        let operator = codes.child("operator");
        if !matches!(operator.text(), "In" | "NotIn") {
            operator.unsupported(errors, &["In", "NotIn"]);
        }
        if codes.child("values").len() > 255 {
            codes.child("values").too_many(errors, 255);
        }
    }
}

fn probes(container: &At<'_, '_>, pod: &Pod<'_>, errors: &mut Errors) {
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.child(key);
        if !probe.is_set() {
            continue;
        }
        handler(
            &probe,
            &["exec", "httpGet", "tcpSocket", "grpc"],
            pod,
            errors,
        );
        for number in [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ] {
            probe.child(number).not_negative(errors);
        }
        let grace = probe.child("terminationGracePeriodSeconds");
        if grace.int().is_some_and(|seconds| seconds <= 0) {
            grace.invalid(errors, "must be greater than 0");
        }
        if key == "readinessProbe" {
            if grace.is_set() {
                grace.invalid(errors, "must not be set for readinessProbes");
            }
        } else if probe.child("successThreshold").number() != 1 {
            let threshold = probe.child("successThreshold");
            threshold.invalid_as(errors, threshold.number(), "must be 1");
        }
    }
}

fn lifecycle(container: &At<'_, '_>, pod: &Pod<'_>, errors: &mut Errors) {
    let lifecycle = container.child("lifecycle");
    for key in ["postStart", "preStop"] {
        let hook = lifecycle.child(key);
        if hook.is_set() {
            handler(
                &hook,
                &["exec", "httpGet", "tcpSocket", "sleep"],
                pod,
                errors,
            );
        }
    }
    let signal = lifecycle.child("stopSignal");
    if signal.is_set() && pod.os.is_none() {
        signal.forbidden(
            errors,
            "may not be set for containers with empty `spec.os.name`",
        );
    }
}

fn handler(at: &At<'_, '_>, kinds: &[&'static str], pod: &Pod<'_>, errors: &mut Errors) {
    let mut found = false;
    for kind in kinds {
        let action = at.child(kind);
        if !action.is_set() {
            continue;
        }
        if found {
            action.forbidden(errors, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match *kind {
            "exec" if action.child("command").is_empty() => {
                action.child("command").required(errors, "")
            }
            "exec" => {}
            "httpGet" => http_get(&action, errors),
            "sleep" => sleep(&action, pod, errors),
            _ => action.child("port").port_or_name(errors),
        }
    }
    if !found {
        at.required(errors, "must specify a handler type");
    }
}

fn http_get(at: &At<'_, '_>, errors: &mut Errors) {
    at.child("path").needs_text(errors);
    at.child("port").port_or_name(errors);
    let scheme = at.child("scheme");
    if !matches!(scheme.text(), "HTTP" | "HTTPS") {
        scheme.unsupported(errors, &["HTTP", "HTTPS"]);
    }
    let headers = at.child("httpHeaders");
    for header in headers.items() {
        for problem in names::http_header(header.child("name").text()) {
            headers.invalid_as(errors, header.child("name").text(), problem);
        }
    }
}

fn sleep(at: &At<'_, '_>, pod: &Pod<'_>, errors: &mut Errors) {
    let seconds = at.child("seconds").number();
    if let Some(grace) = pod.grace.filter(|grace| seconds < 0 || seconds > *grace) {
        let detail =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        at.invalid_as(errors, seconds, detail);
    }
}
