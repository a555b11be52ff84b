//! How one object stands, by its status.

use std::collections::{BTreeMap, BTreeSet};

use everflow_api::inventory::ObjectId;
use everflow_api::view;
use everflow_apply::health::{Health, assess};
use everflow_apply::inventory::Inventory;
use everflow_json::Value;
use everflow_time::Timestamp;

use super::{NOT_SUPPORTED, Node, SKIPPED, State};

pub(super) fn node(object: &Value) -> Node {
    let ready = view::condition(object, "Ready");
    let text = |name: &str| {
        ready
            .and_then(|ready| ready[name].as_str())
            .unwrap_or_default()
            .trim_end()
            .to_owned()
    };
    let waits_for = waits_for(object);
    // A directory that is not there will not come by waiting for the source.
    let is_lost = text("message").starts_with("kustomization path not found");
    let depends = !waits_for.is_empty() && !is_lost;
    let state = state(object, &text("reason"), depends);
    let revision = view::artifact_revision(object)
        .or_else(|| object.pointer("/status/lastAppliedRevision")?.as_str())
        .or_else(|| released(object))
        .unwrap_or_default()
        .to_owned();
    Node {
        id: ObjectId::of(object),
        state,
        reason: text("reason"),
        message: text("message"),
        revision,
        waits_for: match state {
            State::Waiting => waits_for,
            _ => Vec::new(),
        },
        children: Vec::new(),
    }
}

fn state(object: &Value, reason: &str, depends: bool) -> State {
    if view::is_suspended(object) {
        return State::Suspended;
    }
    match reason {
        SKIPPED => return State::Skipped,
        NOT_SUPPORTED => return State::Unsupported,
        _ => {}
    }
    let kind = object["kind"].as_str().unwrap_or_default();
    let oci_repository = kind == "HelmRepository" && object["spec"]["type"] == "oci";
    let unconditional = matches!(kind, "Alert" | "Provider") || oci_repository;
    let ready = view::condition(object, "Ready").and_then(|ready| ready["status"].as_str());
    match ready {
        None if unconditional => State::Ready,
        Some("True") if view::is_current(object) => State::Ready,
        Some("False") if !tells_of_newest(object) => State::Progressing,
        Some("False") => match reason {
            "DependencyNotReady" => State::Waiting,
            // Their charts are told of by the sources; what is wrong with a chart itself is theirs.
            "SourceNotReady" if depends => State::Waiting,
            "ArtifactFailed" if kind == "HelmRelease" && !lacks_source(object) => State::Failed,
            "ArtifactFailed" | "SourceUnavailable" | "NoSourceArtifact" if depends => {
                State::Waiting
            }
            _ => State::Failed,
        },
        _ => State::Progressing,
    }
}

/// The revision of its source that a HelmChart was made from.
pub(super) fn made_from(chart: &Value) -> Option<&str> {
    chart
        .pointer("/status/observedSourceArtifactRevision")?
        .as_str()
}

/// Whether an object has tried a revision of its source. A HelmRelease knows charts that move by their digest.
pub(super) fn has_tried(object: &Value, newest: &str, tried: &str) -> bool {
    let digest = object.pointer("/status/lastAttemptedRevisionDigest");
    match digest
        .and_then(Value::as_str)
        .filter(|digest| !digest.is_empty())
    {
        Some(digest) => newest.ends_with(digest),
        None => newest == tried,
    }
}

/// The version of the chart that a HelmRelease has tried last.
fn released(object: &Value) -> Option<&str> {
    object.pointer("/status/lastAttemptedRevision")?.as_str()
}

/// Whether a HelmRelease says that its source is not there.
fn lacks_source(object: &Value) -> bool {
    let ready = view::condition(object, "Ready");
    let message = ready.and_then(|ready| ready["message"].as_str());
    message.is_some_and(|message| {
        message.starts_with("could not get Source object")
            || message.starts_with("Source is not ready")
    })
}

/// Whether the Ready condition tells of the newest spec; Flux moves `status.observedGeneration` only
/// on success.
fn tells_of_newest(object: &Value) -> bool {
    let ready = view::condition(object, "Ready");
    let observed = ready.and_then(|ready| ready["observedGeneration"].as_i64());
    observed.is_none_or(|observed| observed == view::generation(object))
}

/// What an object that is not ready may wait for.
pub(super) fn waits_for(object: &Value) -> Vec<String> {
    let own = view::namespace(object);
    let mut names = Vec::new();
    let mut add = |kind: &str, reference: &Value| {
        if let Some(name) = reference["name"].as_str() {
            let namespace = reference["namespace"].as_str().unwrap_or(own);
            names.push(view::joined(kind, namespace, name));
        }
    };
    let kind = object["kind"].as_str().unwrap_or_default();
    for dependency in object["spec"]["dependsOn"].as_array().into_iter().flatten() {
        add(kind, dependency);
    }
    for field in ["sourceRef", "chartRef"] {
        let source = &object["spec"][field];
        add(source["kind"].as_str().unwrap_or_default(), source);
    }
    // The HelmChart that was made for a HelmRelease.
    let made = object.pointer("/status/helmChart").and_then(Value::as_str);
    names.extend(made.map(|made| format!("HelmChart/{made}")));
    names
}

pub(super) fn children(
    object: &Value,
    deployed: &BTreeMap<ObjectId, Value>,
    now: Timestamp,
) -> Vec<Node> {
    let Ok(inventory) = Inventory::read(&object["status"]["inventory"]) else {
        return Vec::new();
    };
    let mut seen = BTreeSet::new();
    let mut nodes = Vec::new();
    for entry in inventory.entries() {
        if seen.insert(entry.id.clone()) {
            nodes.push(child(&entry.id, deployed.get(&entry.id), now));
        }
    }
    nodes
}

fn child(id: &ObjectId, live: Option<&Value>, now: Timestamp) -> Node {
    let (state, reason, message) = match live {
        None => (State::Failed, "NotFound".to_owned(), "not found".to_owned()),
        Some(live) if id.group.ends_with("toolkit.fluxcd.io") => {
            let node = node(live);
            (node.state, node.reason, node.message)
        }
        Some(live) => {
            let assessment = assess(live, now);
            let state = match assessment.health {
                Health::Current => State::Ready,
                Health::InProgress | Health::Terminating | Health::Unknown => State::Progressing,
                Health::Failed | Health::NotFound => State::Failed,
            };
            (state, assessment.reason, assessment.message)
        }
    };
    Node {
        id: id.clone(),
        state,
        reason,
        message,
        revision: String::new(),
        waits_for: Vec::new(),
        children: Vec::new(),
    }
}
