//! Kustomizations, as the real kustomize-controller was recorded with them.

use std::collections::BTreeMap;
use std::time::Duration;

use everflow_apply::inventory::{Entry, Inventory};
use everflow_controllers::Options;
use everflow_json::{Value, json};
use everflow_runtime::client::{At, WriteOptions};

use super::compare::{Comparison, Differences};
use super::facts::{self, Memory};
use super::scenario::Scenario;
use super::sources::play_all;
use super::workloads;
use super::world::{RECORDED, World, recorded_options};

fn options(scenario: &Scenario) -> Options {
    let mut options = recorded_options();
    // Flux finds drift at the interval only; that we find it at once has a test of its own.
    options.kustomize.watch_applied = false;
    if scenario.name.starts_with("gate-") {
        let gates = "ExternalArtifact=true,StrictPostBuildSubstitutions=false,\
                     AdditiveCELDependencyCheck=true,CancelHealthCheckOnNewRevision=true";
        options.gates.parse(gates).unwrap();
    }
    options
}

fn play(scenario: &Scenario) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let mut lines = runtime.block_on(play_steps(scenario)).0;
    let count = lines.len();
    lines.truncate(6);
    match count {
        0 => Ok(()),
        _ => Err(format!("{count} differences\n    {}", lines.join("\n    "))),
    }
}

async fn play_steps(scenario: &Scenario) -> Differences {
    let mut world = World::start(scenario, options(scenario), RECORDED).await;
    tokio::spawn(workloads::run(world.client.clone(), world.env.clone()));
    let mut differences = Differences::default();
    let mut memory = Memory::default();
    let mut ever: BTreeMap<String, Entry> = BTreeMap::new();
    before(&world, scenario).await;
    for object in &scenario.objects {
        world.apply(object).await.unwrap();
    }
    let steps = std::iter::once(None).chain(scenario.steps.iter().map(Some));
    for (index, step) in steps.enumerate() {
        let (at, expected) = match step {
            None => ("then".to_owned(), &scenario.then),
            Some(step) => (format!("steps[{}].then", index - 1), step.get("then")),
        };
        if let Some(step) = step {
            let refused = world.step(step).await;
            let expected = &step.get("result")["message"];
            let message = refused.and_then(|error| Some(error.refusal()?.message.clone()));
            let message = message.map(|text| world.symbolic(&text));
            let found = message.map_or(Value::Null, Value::from);
            if *expected != found {
                differences
                    .0
                    .push(format!("{at}: refused with {found} instead of {expected}"));
            }
        }
        settle(&world, expected["unsettled"] == true).await;
        let mut found = facts::collect(&world, &mut memory).await;
        found["applied"] = applied(&world, scenario, &found, &mut ever).await;
        let mut comparison = Comparison {
            unstable: &scenario.unstable,
            at: at.clone(),
            differences: &mut differences,
        };
        comparison.facts(expected, &found);
        compare_applied(&mut comparison, expected, &found);
        let (orphans, flaws) = world.handle().orphans();
        if !orphans.is_empty() || !flaws.is_empty() {
            differences
                .0
                .push(format!("without a next attempt: {orphans:?} {flaws:?}"));
        }
    }
    world.stop_engine().await;
    differences
}

/// Objects that were there before the recording began, and that it does not tell of.
async fn before(world: &World, scenario: &Scenario) {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "flux-system"}});
    world.apply(&namespace).await.unwrap();
    let (manager, annotations) = match scenario.name.as_str() {
        "adopt-other-manager" => ("terraform", json!({})),
        "adopt-kubectl-client" => (
            "kubectl-client-side-apply",
            json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"}),
        ),
        _ => return,
    };
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "one", "annotations": annotations},
        "data": {"a": "0", "old": "1"},
    });
    let maps = world.resource("v1", "ConfigMap").await;
    let by = WriteOptions::by(manager);
    world
        .client
        .create(&maps, &scenario.namespace, &map, &by)
        .await
        .unwrap();
}

/// Waits until nothing is under way; in the middle of a wait where the recording was.
async fn settle(world: &World, in_the_middle: bool) {
    if in_the_middle {
        world.sleep(Duration::from_secs(3)).await;
        return;
    }
    for _ in 0..40 {
        world.settle().await;
        let under_way = world.flux_objects().await.iter().any(|object| {
            let conditions = object["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            object["kind"] == "Kustomization"
                && object["spec"]["suspend"] != true
                && conditions.any(|one| one["type"] == "Ready" && one["status"] == "Unknown")
        });
        if !under_way {
            return;
        }
    }
}

/// Every object that ever was in an inventory, and those that are to be observed.
async fn applied(
    world: &World,
    scenario: &Scenario,
    facts: &Value,
    ever: &mut BTreeMap<String, Entry>,
) -> Value {
    for object in facts["flux"].as_array().unwrap() {
        let inventory = Inventory::read(&object["status"]["inventory"]).unwrap();
        for entry in inventory.entries() {
            ever.insert(format!("{} {}", entry.id, entry.version), entry.clone());
        }
    }
    for reference in &scenario.observe {
        let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
        let entry = Entry::of(&json!({
            "apiVersion": text("apiVersion"), "kind": text("kind"),
            "metadata": {"name": text("name"), "namespace": text("namespace")},
        }));
        ever.insert(format!("{} {}", entry.id, entry.version), entry);
    }
    let mut all = Vec::new();
    for entry in ever.values() {
        let (api_version, kind) = (entry.api_version(), &entry.id.kind);
        let at = At::new(&entry.id.namespace, &entry.id.name);
        let live = match world.client.resource(&api_version, kind).await {
            Ok(resource) => world.client.get(&resource, at).await.ok(),
            Err(_) => None,
        };
        all.push(live.unwrap_or_else(|| {
            json!({"apiVersion": api_version, "kind": kind, "absent": 404,
                "metadata": {"name": entry.id.name, "namespace": entry.id.namespace}})
        }));
    }
    everflow_json::from_str(&world.symbolic(&Value::from(all).to_string())).unwrap()
}

fn compare_applied(comparison: &mut Comparison<'_>, expected: &Value, found: &Value) {
    let key = |object: &Value| {
        let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or("");
        format!(
            "{} {}/{}/{}",
            text("/apiVersion"),
            text("/kind"),
            text("/metadata/namespace"),
            text("/metadata/name")
        )
    };
    let found = found["applied"].as_array().unwrap();
    for (index, wanted) in expected["applied"].as_array().unwrap().iter().enumerate() {
        let path = format!("{}.applied[{index}]", comparison.at);
        let name = key(wanted);
        let Some(have) = found.iter().find(|have| key(have) == name) else {
            if !wanted["absent"].is_null() {
                continue;
            }
            comparison.value(&path, wanted, &Value::Null);
            continue;
        };
        if !wanted["absent"].is_null() || !have["absent"].is_null() {
            let gone = |object: &Value| Value::from(!object["absent"].is_null());
            comparison.value(&format!("{path}.absent"), &gone(wanted), &gone(have));
            continue;
        }
        let definition = wanted["kind"] == "CustomResourceDefinition";
        comparison.value(&path, &plain(wanted, definition), &plain(have, definition));
    }
}

/// Without what the controllers of the real cluster add, and what a Flux object says of itself.
fn plain(object: &Value, definition: bool) -> Value {
    let mut object = object.clone();
    let map = object.as_object_mut().unwrap();
    map.remove("status");
    if definition {
        map.remove("spec");
    }
    let metadata = map["metadata"].as_object_mut().unwrap();
    metadata.remove("generation");
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove("deployment.kubernetes.io/revision");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    if let Some(entries) = metadata
        .get_mut("managedFields")
        .and_then(Value::as_array_mut)
    {
        entries.retain(|entry| entry["subresource"] != "status");
        for entry in entries.iter_mut() {
            entry["time"] = "$TIME".into();
        }
        entries.sort_by_key(Value::to_string);
    }
    // The unique id of a Job stands in its labels.
    for at in [
        "/spec/selector/matchLabels",
        "/spec/template/metadata/labels",
    ] {
        let labels = object.pointer_mut(at).and_then(Value::as_object_mut);
        if let Some(labels) = labels {
            labels.retain(|key, _| !key.ends_with("controller-uid"));
        }
    }
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        if metadata.contains_key(field) {
            metadata.insert(field.into(), "".into());
        }
    }
    object
}

#[test]
fn kustomizations() {
    let known = include_str!("known_kustomizations.txt");
    play_all("flux/kustomization", "", known, play);
}
