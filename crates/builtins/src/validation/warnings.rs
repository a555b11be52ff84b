//! What is allowed, but should not be done.

use everflow_json::Value;

use super::super::at::{At, or_null};
use super::super::names;
use crate::field::go_quote;
use crate::meta;
use everflow_schema::quantity::Quantity;

const NULL_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// Warnings about a Pod.
pub fn pod(object: &Value, _: Option<&Value>) -> Vec<String> {
    let root = At::root(object);
    spec(&root.child("spec"), &root.child("metadata"))
}

/// Warnings about a PodTemplate.
pub fn pod_template(object: &Value, _: Option<&Value>) -> Vec<String> {
    let root = At::root(object);
    template(&root.child("template"))
}

fn template(at: &At<'_, '_>) -> Vec<String> {
    spec(&at.child("spec"), &at.child("metadata"))
}

fn unchanged(new: &Value, old: Option<&Value>) -> bool {
    old.is_some_and(|old| meta::generation(old) == meta::generation(new))
}

fn name_warning(object: &Value, old: Option<&Value>) -> Vec<String> {
    let problems = names::dns_label(meta::text(object, "name"));
    if old.is_some() || problems.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
        problems.join(" ")
    )]
}

/// Warnings about the template of a Deployment.
pub fn deployment(object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = name_warning(object, old);
    warnings.extend(workload(object, old));
    warnings
}

/// Warnings about the template of a workload.
pub fn workload(object: &Value, old: Option<&Value>) -> Vec<String> {
    if unchanged(object, old) {
        return Vec::new();
    }
    let root = At::root(object);
    let spec = root.child("spec");
    template(&spec.child("template"))
}

/// Warnings about a DaemonSet.
pub fn daemon_set(object: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some_and(|old| old.pointer("/spec/template") == object.pointer("/spec/template")) {
        return Vec::new();
    }
    workload(object, None)
}

/// Warnings about a StatefulSet.
pub fn stateful_set(object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = workload(object, old);
    if object
        .pointer("/spec/revisionHistoryLimit")
        .and_then(Value::as_i64)
        .is_some_and(|limit| limit < 0)
    {
        warnings.push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".to_owned());
    }
    warnings
}

/// Warnings about a Job.
pub fn job(object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = deployment(object, old);
    let root = At::root(object);
    if !unchanged(object, old) {
        warnings.extend(indexed(&root.child("spec")));
    }
    warnings
}

/// Warnings about a CronJob.
pub fn cron_job(object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = name_warning(object, old);
    let root = At::root(object);
    let spec = root.child("spec");
    let holder = spec.child("jobTemplate");
    let job = holder.child("spec");
    if !unchanged(object, old) {
        warnings.extend(indexed(&job));
        warnings.extend(template(&job.child("template")));
    }
    if old.is_some() && spec.child("schedule").text().contains("TZ") {
        warnings.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".to_owned());
    }
    warnings
}

fn indexed(spec: &At<'_, '_>) -> Vec<String> {
    let many =
        spec.child("completions").number() > 100_000 && spec.child("parallelism").number() > 10_000;
    if spec.child("completionMode").text() == "Indexed" && many {
        return vec![format!(
            "{}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail",
            spec.path()
        )];
    }
    Vec::new()
}

/// Warnings about a Service.
pub fn service(object: &Value, _: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    let root = At::root(object);
    let spec = root.child("spec");
    let text = |key: &'static str| spec.child(key).text();
    if object
        .pointer("/metadata/annotations")
        .and_then(|map| map.get("service.kubernetes.io/topology-aware-hints"))
        .is_some()
    {
        warnings.push("annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead".to_owned());
    }
    let headless = text("type") == "ClusterIP" && text("clusterIP") == "None";
    let external = !spec.child("externalIPs").is_empty();
    if headless {
        let ignored = [
            (!text("loadBalancerIP").is_empty(), "loadBalancerIP"),
            (external, "externalIPs"),
            (text("sessionAffinity") != "None", "SessionAffinity"),
        ];
        for (_, name) in ignored.iter().filter(|(given, _)| *given) {
            warnings.push(format!("spec.{name} is ignored for headless services"));
        }
    }
    if external && !headless && text("type") != "ExternalName" {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
                .to_owned(),
        );
    }
    if text("type") == "ExternalName" && external {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if text("type") != "ExternalName" && !text("externalName").is_empty() {
        warnings
            .push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text("trafficDistribution") == "PreferClose" {
        warnings.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\""
                .to_owned(),
        );
    }
    warnings
}

/// Warnings about a new Ingress.
pub fn ingress(object: &Value, old: Option<&Value>) -> Vec<String> {
    let annotated = object
        .pointer("/metadata/annotations")
        .and_then(|map| map.get("kubernetes.io/ingress.class"))
        .is_some();
    if annotated && old.is_none() {
        return vec!["annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead".to_owned()];
    }
    Vec::new()
}

/// Volumes that no longer do anything.
const OLD_VOLUMES: [(&str, &str, &str); 9] = [
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "flocker",
        "flocker",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "quobyte",
        "quobyte",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    (
        "cephfs",
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        "rbd",
        "rbd",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
];

const OLD_LABELS: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
    ),
];

fn old_label(key: &str) -> Option<String> {
    let (_, new) = OLD_LABELS.iter().find(|(old, _)| *old == key)?;
    let since = if key.ends_with("/arch") || key.ends_with("/os") {
        "v1.14"
    } else {
        "v1.17"
    };
    Some(format!(
        "deprecated since {since}; use {} instead",
        go_quote(new)
    ))
}

fn spec(at: &At<'_, '_>, metadata: &At<'_, '_>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, entry) in at.child("nodeSelector").entries() {
        if let Some(problem) = old_label(key) {
            warnings.push(format!("{}: {problem}", entry.path()));
        }
    }
    for constraint in at.child("topologySpreadConstraints").items() {
        let (key, selector) = (
            constraint.child("topologyKey"),
            constraint.child("labelSelector"),
        );
        if let Some(problem) = old_label(key.text()) {
            warnings.push(format!("{}: {} is {problem}", key.path(), key.text()));
        }
        if !selector.is_set() {
            warnings.push(format!("{}: {NULL_SELECTOR}", selector.path()));
        }
    }
    annotations(metadata, &mut warnings);
    for volume in at.child("volumes").items() {
        for (key, shown, problem) in OLD_VOLUMES {
            let source = volume.child(key);
            if source.is_set() {
                warnings.push(format!(
                    "{}: {problem}",
                    volume.named(source.value, shown).path()
                ));
            }
        }
    }
    repeated(&at.child("hostAliases"), "ip", &mut warnings);
    let secrets = at.child("imagePullSecrets");
    repeated(&secrets, "name", &mut warnings);
    for secret in secrets
        .items()
        .filter(|secret| secret.child("name").is_empty())
    {
        warnings.push(format!(
            "{}: invalid empty name \"\"",
            secret.child("name").path()
        ));
    }
    for list in ["initContainers", "containers"] {
        at.child(list)
            .items()
            .for_each(|container| container_warnings(&container, &mut warnings));
    }
    ports(at, &mut warnings);
    let grace = at.child("terminationGracePeriodSeconds");
    if grace.number() < 0 {
        warnings.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            grace.path()
        ));
    }
    affinity(&at.child("affinity"), &mut warnings);
    warnings
}

fn annotations(metadata: &At<'_, '_>, warnings: &mut Vec<String>) {
    let annotations = metadata.child("annotations");
    for (key, field) in [
        (
            "scheduler.alpha.kubernetes.io/critical-pod",
            "v1.16+; use the \"priorityClassName\" field instead",
        ),
        (
            "security.alpha.kubernetes.io/sysctls",
            "v1.11+; use the \"sysctls\" field instead",
        ),
        (
            "security.alpha.kubernetes.io/unsafe-sysctls",
            "v1.11+; use the \"sysctls\" field instead",
        ),
    ] {
        let entry = annotations.key(key);
        if entry.is_set() {
            warnings.push(format!("{}: non-functional in {field}", entry.path()));
        }
    }
}

fn repeated(list: &At<'_, '_>, key: &'static str, warnings: &mut Vec<String>) {
    let mut seen: Vec<&str> = Vec::new();
    for item in list.items() {
        let value = super::text(item.value, key);
        if seen.contains(&value) {
            warnings.push(format!(
                "{}: duplicate {key} {}",
                item.child(key).path(),
                go_quote(value)
            ));
        } else {
            seen.push(value);
        }
    }
}

fn container_warnings(container: &At<'_, '_>, warnings: &mut Vec<String>) {
    let resources = container.child("resources");
    for name in ["memory", "ephemeral-storage"] {
        for part in ["limits", "requests"] {
            let map = resources.child(part);
            let entry = map.key(name);
            let fraction = |amount: &Quantity| amount.milli() % 1000 != 0;
            if let Some(amount) = entry.quantity().filter(fraction) {
                warnings.push(format!(
                    "{}: fractional byte value {} is invalid, must be an integer",
                    entry.path(),
                    go_quote(&amount.canonical())
                ));
            }
        }
    }
    let mut seen: Vec<&str> = Vec::new();
    for variable in container.child("env").items() {
        let name = super::text(variable.value, "name");
        if !seen.contains(&name) {
            seen.push(name);
            continue;
        }
        let (value, reference) = (variable.child("value").text(), format!("$({name})"));
        if variable.child("valueFrom").is_set() || value == reference || !value.contains(&reference)
        {
            warnings.push(format!(
                "{}: hides previous definition of {}, which may be dropped when using apply",
                variable.path(),
                go_quote(name)
            ));
        }
    }
}

/// Ports of all containers, init containers first.
fn ports(spec: &At<'_, '_>, warnings: &mut Vec<String>) {
    let mut all: Vec<(String, Value)> = Vec::new();
    for list in ["initContainers", "containers"] {
        for container in spec.child(list).items() {
            for port in container.child("ports").items() {
                all.push((port.path().as_str().to_owned(), port.value.clone()));
            }
        }
    }
    let field = |port: &Value, key: &str| or_null(port.get(key)).clone();
    for (index, (path, port)) in all.iter().enumerate() {
        let same_port = |other: &Value| {
            field(other, "containerPort") == field(port, "containerPort")
                && field(other, "protocol") == field(port, "protocol")
        };
        for (earlier, other) in all[..index].iter().filter(|(_, other)| same_port(other)) {
            let number = |port: &Value| {
                port.get("hostPort")
                    .and_then(Value::as_i64)
                    .unwrap_or_default()
            };
            let (ip, other_ip) = (super::text(port, "hostIP"), super::text(other, "hostIP"));
            let what = if ip == other_ip && number(port) == number(other) {
                "duplicate"
            } else if number(port) == 0 || number(other) == 0 {
                "overlapping"
            } else if number(port) == number(other) && ip.is_empty() != other_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{path}: {what} port definition with {earlier}"));
        }
    }
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (path, port) in &all {
        let name = super::text(port, "name");
        if name.is_empty() {
            continue;
        }
        match seen.iter().find(|(known, _)| *known == name) {
            Some((_, other)) => warnings.push(format!("{path}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}", go_quote(name))),
            None => seen.push((name, path)),
        }
    }
}

fn affinity(at: &At<'_, '_>, warnings: &mut Vec<String>) {
    for key in ["podAffinity", "podAntiAffinity"] {
        let pods = at.child(key);
        for term in pods
            .child("requiredDuringSchedulingIgnoredDuringExecution")
            .items()
        {
            let selector = term.child("labelSelector");
            if !selector.is_set() {
                warnings.push(format!("{}: {NULL_SELECTOR}", selector.path()));
            }
        }
        for weighted in pods
            .child("preferredDuringSchedulingIgnoredDuringExecution")
            .items()
        {
            let term = weighted.child("podAffinityTerm");
            let selector = term.child("labelSelector");
            if !selector.is_set() {
                warnings.push(format!("{}: {NULL_SELECTOR}", selector.path()));
            }
        }
    }
}
