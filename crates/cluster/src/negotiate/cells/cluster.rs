//! Cells of nodes, events, quotas, bindings and other kinds around workloads.

use everflow_json::Value;

use super::row::Row;
use crate::negotiate::table::{age, human_duration};

pub(super) fn node(row: &Row<'_>) -> Vec<Value> {
    let ready = row
        .list("/status/conditions")
        .iter()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some("Ready"));
    let mut status = match ready {
        Some(condition) if condition.get("status").and_then(Value::as_str) == Some("True") => {
            "Ready".to_owned()
        }
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if row.flag("/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<String> = Vec::new();
    for (key, value) in row
        .object
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => roles.push(role.to_owned()),
            _ if key == "kubernetes.io/role" => {
                roles.push(value.as_str().unwrap_or_default().to_owned())
            }
            _ => {}
        }
    }
    roles.sort();
    roles.dedup();
    let roles = if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.join(",")
    };
    let address = |kind: &str| {
        row.list("/status/addresses")
            .iter()
            .find(|entry| entry.get("type").and_then(Value::as_str) == Some(kind))
            .and_then(|entry| entry.get("address"))
            .and_then(Value::as_str)
            .unwrap_or("<none>")
            .to_owned()
    };
    let kernel = match (
        row.text_or("/status/nodeInfo/kernelVersion", "<unknown>"),
        row.str("/status/nodeInfo/architecture"),
    ) {
        (kernel, "") => kernel,
        (kernel, architecture) => {
            format!("{} ({architecture})", kernel.as_str().unwrap_or_default()).into()
        }
    };
    vec![
        row.name(),
        status.into(),
        roles.into(),
        row.age(),
        row.text("/status/nodeInfo/kubeletVersion"),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        row.text_or("/status/nodeInfo/osImage", "<unknown>"),
        kernel,
        row.text_or("/status/nodeInfo/containerRuntimeVersion", "<unknown>"),
    ]
}

pub(super) fn event(row: &Row<'_>) -> Vec<Value> {
    let since = |pointer: &str| match row.str(pointer) {
        "" => None,
        text => Some(age(text, row.now)),
    };
    let unknown = || "<unknown>".to_owned();
    let first = since("/firstTimestamp")
        .or_else(|| since("/eventTime"))
        .unwrap_or_else(unknown);
    let mut last = since("/lastTimestamp").unwrap_or_else(|| first.clone());
    let mut count = row.number("/count");
    if row.object.get("series").is_some() {
        last = since("/series/lastObservedTime").unwrap_or_else(unknown);
        count = row.number("/series/count");
    } else if count == 0 {
        count = 1;
    }
    let kind = row.str("/involvedObject/kind").to_lowercase();
    let target = match row.str("/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let (mut component, mut instance) = (row.str("/source/component"), row.str("/source/host"));
    if component.is_empty() {
        component = row.str("/reportingComponent");
        instance = row.str("/reportingInstance");
    }
    let source = if instance.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {instance}")
    };
    vec![
        last.into(),
        row.text("/type"),
        row.text("/reason"),
        target.into(),
        row.text("/involvedObject/fieldPath"),
        source.into(),
        row.str("/message").trim().into(),
        first.into(),
        count.into(),
        row.name(),
    ]
}

pub(super) fn quota(row: &Row<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in row
        .object
        .pointer("/status/hard")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let used = row
            .object
            .pointer("/status/used")
            .and_then(|used| used.get(name))
            .and_then(Value::as_str)
            .unwrap_or("0");
        let text = format!("{name}: {used}/{}", hard.as_str().unwrap_or_default());
        if name.starts_with("limits") {
            limits.push(text)
        } else {
            requests.push(text)
        }
    }
    vec![
        row.name(),
        requests.join(", ").into(),
        limits.join(", ").into(),
        row.age(),
    ]
}

pub(super) fn binding(row: &Row<'_>) -> Vec<Value> {
    let role = format!("{}/{}", row.str("/roleRef/kind"), row.str("/roleRef/name"));
    let of = |kind: &str| -> Value {
        let names: Vec<String> = row
            .list("/subjects")
            .iter()
            .filter(|subject| subject.get("kind").and_then(Value::as_str) == Some(kind))
            .map(|subject| {
                let text = |key: &str| subject.get(key).and_then(Value::as_str).unwrap_or_default();
                if kind == "ServiceAccount" {
                    format!("{}/{}", text("namespace"), text("name"))
                } else {
                    text("name").to_owned()
                }
            })
            .collect();
        names.join(", ").into()
    };
    vec![
        row.name(),
        role.into(),
        row.age(),
        of("User"),
        of("Group"),
        of("ServiceAccount"),
    ]
}

pub(super) fn api_service(row: &Row<'_>) -> Vec<Value> {
    let text = |pointer: &str| {
        row.object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let service = match row.object.pointer("/spec/service") {
        Some(Value::Object(_)) => format!(
            "{}/{}",
            text("/spec/service/namespace"),
            text("/spec/service/name")
        ),
        _ => "Local".to_owned(),
    };
    let available = row
        .object
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some("Available"));
    let field = |key: &str| {
        available
            .and_then(|condition| condition.get(key))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let shown = match field("status") {
        "" => "Unknown".to_owned(),
        "True" => "True".to_owned(),
        status => format!("{status} ({})", field("reason")),
    };
    vec![row.name(), service.into(), shown.into(), row.age()]
}

pub(super) fn signing_request(row: &Row<'_>) -> Vec<Value> {
    let has = |kind: &str| {
        row.list("/status/conditions")
            .iter()
            .any(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
    };
    let mut status = match () {
        () if has("Denied") => "Denied".to_owned(),
        () if has("Approved") => "Approved".to_owned(),
        () => "Pending".to_owned(),
    };
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !row.str("/status/certificate").is_empty() {
        status.push_str(",Issued");
    }
    let duration = row
        .object
        .pointer("/spec/expirationSeconds")
        .and_then(Value::as_i64)
        .map_or("<none>".to_owned(), human_duration);
    vec![
        row.name(),
        row.age(),
        row.text_or("/spec/signerName", "<none>"),
        row.text("/spec/username"),
        duration.into(),
        status.into(),
    ]
}
