//! What the real controllers wrote, held against our rules: the order of conditions, their
//! summary, reasons, ids, digests, the counting of history.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use everflow_api::condition::{Condition, sort};
use everflow_api::error::At;
use everflow_api::helm::HelmReleaseSpec;
use everflow_api::inventory::ObjectId;
use everflow_api::names::condition as types;
use everflow_api::wire::Wire;
use everflow_api::{Reason, go_json, view};
use everflow_json::{Value, json};
use sha2::{Digest, Sha256};

/// The scenarios of an area, by file name.
fn scenarios(area: &str) -> Vec<(String, Value)> {
    let Some(directory) = everflow_corpus::find(&format!("flux/{area}")) else {
        return Vec::new();
    };
    let read =
        |path: &Path| everflow_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut found: Vec<(String, Value)> = std::fs::read_dir(directory)
        .unwrap()
        .flatten()
        .map(|file| (file.file_name().into_string().unwrap(), read(&file.path())))
        .collect();
    found.sort_by(|left, right| left.0.cmp(&right.0));
    found
}

/// The states in which Flux objects were seen.
fn states(scenario: &Value) -> Vec<&Value> {
    let steps = scenario["steps"].as_array().into_iter().flatten();
    let facts = std::iter::once(scenario)
        .chain(steps)
        .map(|step| &step["then"]);
    facts
        .filter_map(|facts| facts["flux"].as_array())
        .flatten()
        .collect()
}

fn conditions(object: &Value) -> Vec<Condition> {
    let list = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let read = |condition: &Value| {
        let mut condition = condition.clone();
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z".into();
        Condition::read(&condition, &At::Root).unwrap()
    };
    list.into_iter().flatten().map(read).collect()
}

const AREAS: [&str; 3] = ["sources", "kustomization", "helmrelease"];

#[test]
fn conditions_are_sorted_as_recorded() {
    let mut count = 0;
    for (name, scenario) in AREAS.iter().flat_map(|area| scenarios(area)) {
        for object in states(&scenario) {
            let recorded = conditions(object);
            let mut sorted = recorded.clone();
            sort(&mut sorted);
            assert_eq!(sorted, recorded, "{name}");
            count += usize::from(recorded.len() > 1);
        }
    }
    println!("{count} lists of conditions are in our order");
}

#[test]
fn reasons_are_known() {
    let (mut seen, mut unknown) = (BTreeSet::new(), BTreeSet::new());
    for (name, scenario) in AREAS.iter().flat_map(|area| scenarios(area)) {
        for object in states(&scenario) {
            let is_flux = object["apiVersion"]
                .as_str()
                .is_some_and(|version| version.contains("fluxcd"));
            if !is_flux || name.starts_with("external") {
                continue;
            }
            for condition in conditions(object) {
                match Reason::from_text(&condition.reason) {
                    Some(reason) => seen.insert(reason),
                    None => unknown.insert(format!("{name}: {}", condition.reason)),
                };
            }
        }
    }
    println!("{} reasons seen of {}", seen.len(), Reason::ALL.len());
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// `Ready` of a source is the summary of its other conditions.
#[test]
fn sources_are_ready_as_their_conditions_say() {
    let (mut count, mut others) = (0, Vec::new());
    for (name, scenario) in scenarios("sources") {
        for object in states(&scenario) {
            let conditions = conditions(object);
            let Some(ready) = everflow_api::condition::find(&conditions, types::READY) else {
                continue;
            };
            let Some(mut summed) = everflow_api::source::ready(&conditions) else {
                continue;
            };
            summed.observed_generation = ready.observed_generation;
            summed.last_transition_time = ready.last_transition_time;
            count += 1;
            if summed != *ready {
                others.push(format!(
                    "{name} {}: {summed:?}\n{ready:?}",
                    view::name_of(object)
                ));
            }
        }
    }
    println!("{count} sources");
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
fn ids_of_inventories_come_back() {
    let mut count = 0;
    for (name, scenario) in scenarios("kustomization") {
        for object in states(&scenario) {
            let entries = object.pointer("/status/inventory/entries");
            for entry in entries.and_then(Value::as_array).into_iter().flatten() {
                let id = entry["id"].as_str().unwrap();
                let parsed: ObjectId = id.parse().unwrap();
                assert_eq!(parsed.to_string(), id, "{name}");
                assert!(!parsed.name.is_empty() && !parsed.kind.is_empty());
                count += 1;
            }
        }
    }
    println!("{count} ids");
    assert!("a_b_c".parse::<ObjectId>().is_err());
}

fn digest(text: &str) -> String {
    let hash = Sha256::digest(format!("{text}\n"));
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Digests in the status of releases are of Go's JSON of the spec.
#[test]
fn digests_of_releases_are_those_recorded() {
    let mut count = 0;
    for (name, scenario) in scenarios("helmrelease") {
        let mut specs: BTreeMap<String, HelmReleaseSpec> = BTreeMap::new();
        for step in scenario["steps"].as_array().into_iter().flatten() {
            for object in step["apply"].as_array().into_iter().flatten() {
                if object["kind"] == "HelmRelease" {
                    let spec = HelmReleaseSpec::read(&object["spec"], &At::Root);
                    if let Ok(spec) = spec {
                        specs.insert(view::name_of(object), spec);
                    }
                }
            }
            for object in step["then"]["flux"].as_array().into_iter().flatten() {
                let Some(spec) = specs.get(&view::name_of(object)) else {
                    continue;
                };
                let status = |field: &str| object["status"][field].as_str().map(str::to_owned);
                if let Some(recorded) = status("observedPostRenderersDigest") {
                    assert_eq!(
                        digest(&go_json::print(&spec.post_renderers)),
                        recorded,
                        "{name}"
                    );
                    count += 1;
                }
                if let Some(recorded) = status("observedCommonMetadataDigest") {
                    let metadata = spec.common_metadata.as_ref().unwrap();
                    assert_eq!(digest(&go_json::print(metadata)), recorded, "{name}");
                    count += 1;
                }
            }
        }
    }
    println!("{count} digests");
}

/// Objects look the same through the narrow view as they are.
#[test]
fn views_tell_what_objects_hold() {
    let object = json!({
        "kind": "GitRepository",
        "metadata": {
            "name": "a", "namespace": "b", "generation": 2, "finalizers": ["x", "finalizers.fluxcd.io"],
            "annotations": {"reconcile.fluxcd.io/requestedAt": "now"}, "labels": {"l": "v"},
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"suspend": true},
        "status": {
            "observedGeneration": 2, "lastHandledReconcileAt": "then",
            "artifact": {"revision": "main@sha1:1", "digest": "sha256:2"},
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Stalled", "status": "False"}],
        },
    });
    assert_eq!(view::name_of(&object), "GitRepository/b/a");
    assert_eq!(
        (
            view::generation(&object),
            view::observed_generation(&object)
        ),
        (2, 2)
    );
    assert_eq!(view::requested_at(&object), Some("now"));
    assert_eq!(view::last_handled_reconcile_at(&object), Some("then"));
    assert_eq!(view::label(&object, "l"), Some("v"));
    assert!(view::is_suspended(&object) && view::is_deleted(&object));
    assert!(view::has_finalizer(&object, everflow_api::names::FINALIZER));
    assert!(!view::has_finalizer(&object, "y"));
    assert!(view::is_current(&object) && !view::is_true(&object, types::STALLED));
    assert_eq!(view::artifact_revision(&object), Some("main@sha1:1"));
    assert_eq!(view::artifact_digest(&object), Some("sha256:2"));
    let nothing = json!({});
    assert_eq!(view::name_of(&nothing), "object");
    assert_eq!(view::generation(&nothing), 0);
    assert!(!view::is_suspended(&nothing) && !view::is_deleted(&nothing));
}
