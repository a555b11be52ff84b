//! What objects wait for, and what becomes of them.

use std::collections::BTreeMap;

use everflow_api::inventory::ObjectId;
use everflow_api::view;
use everflow_apply::inventory::Inventory;
use everflow_json::Value;

use super::{Node, State, is_counted};

/// What may exist although it is not here.
#[derive(Debug, Clone, Copy)]
pub(super) struct MayExist {
    /// Whether it is time to judge that something does not exist.
    pub(super) is_all_known: bool,
    /// Artifacts, made by somebody who is not supported.
    pub(super) artifacts: bool,
    /// What Kustomizations deploy that are skipped.
    pub(super) deployed: bool,
}

/// The reason of Kustomizations whose objects are not healthy.
pub const HEALTH_FAILED: &str = "HealthCheckFailed";

/// The objects that an object names as the reason why its health check failed.
pub(super) fn blamed(node: &Node) -> Vec<String> {
    if node.reason != HEALTH_FAILED {
        return Vec::new();
    }
    let first = node.message.lines().next().unwrap_or_default();
    let Some((_, list)) = first.split_once('[') else {
        return Vec::new();
    };
    let named = list.trim_end_matches(']').split(", ");
    let named = named.map(|one| one.split(" status: ").next().unwrap_or_default());
    named.map(str::to_owned).collect()
}

/// What becomes of an object that waits for these.
pub(super) fn fate(
    names: &[String],
    states: &BTreeMap<String, State>,
    beyond: &MayExist,
) -> Option<State> {
    let fates = names.iter().filter_map(|name| match states.get(name) {
        None if !beyond.is_all_known => None,
        None if beyond.artifacts && name.starts_with("ExternalArtifact/") => Some(State::Skipped),
        None if beyond.deployed && !name.starts_with("GitRepository/") => Some(State::Skipped),
        None | Some(State::Failed | State::Blocked | State::Suspended) => Some(State::Blocked),
        Some(State::Skipped) => Some(State::Skipped),
        _ => None,
    });
    fates.min()
}

/// The objects of Flux's kinds whose health Kustomizations wait for just now.
pub(super) fn health_waits(objects: &[Value]) -> BTreeMap<ObjectId, Vec<String>> {
    let mut waits = BTreeMap::new();
    for object in objects.iter().filter(|o| o["kind"] == "Kustomization") {
        let reconciling = view::condition(object, "Reconciling");
        let stage = reconciling.and_then(|it| it["message"].as_str());
        if !stage.is_some_and(|stage| stage.starts_with("Running health checks")) {
            continue;
        }
        let own = ObjectId::of(object).subject();
        let mut names: Vec<String> = match object["spec"]["wait"] == true {
            true => {
                let inventory = Inventory::read(&object["status"]["inventory"]);
                let entries = inventory.iter().flat_map(|inventory| inventory.entries());
                entries
                    .filter(|entry| is_counted(&entry.id))
                    .map(|entry| entry.id.subject())
                    .collect()
            }
            false => {
                let checks = object["spec"]["healthChecks"].as_array();
                let checks = checks.into_iter().flatten();
                let text = |check: &Value, field: &str| {
                    check[field].as_str().unwrap_or_default().to_owned()
                };
                checks
                    .filter(|check| text(check, "apiVersion").contains("toolkit.fluxcd.io"))
                    .map(|check| {
                        let (kind, namespace) = (text(check, "kind"), text(check, "namespace"));
                        view::joined(&kind, &namespace, &text(check, "name"))
                    })
                    .collect()
            }
        };
        names.retain(|name| *name != own);
        waits.insert(ObjectId::of(object), names);
    }
    waits
}
