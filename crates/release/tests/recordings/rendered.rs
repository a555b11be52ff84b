//! Records made anew from the charts, values and specs of the recordings.

use std::collections::{BTreeMap, BTreeSet};

use std::sync::Arc;

use everflow_api::helm::HelmRelease;
use everflow_api::object::Object;
use everflow_corpus::Outcome;
use everflow_helm::objects::KubeVersion;
use everflow_helm::release::Release;
use everflow_helm::render::{Lookup, Sources};
use everflow_helm::template::ReleaseOptions;
use everflow_helm::values::Warnings;
use everflow_json::{Value, json};
use everflow_limits::Budget;
use everflow_release::record::{NewRecord, first_record, next_record};
use everflow_release::render::{common_metadata_digest, post_renderers_digest, render};
use everflow_release::values::preserve;
use everflow_sprig::FixedSource;
use everflow_time::Timestamp;

use crate::corpus::{list, records, releases, scenarios};
use crate::world::World;

/// A cluster in which everything is there.
struct Everything;

impl Lookup for Everything {
    fn lookup(&mut self, _: &str, _: &str, _: &str, name: &str) -> Result<Value, String> {
        Ok(json!({"metadata": {"name": name}}))
    }
}

fn made(
    world: &World,
    object: &Object<HelmRelease>,
    recorded: &Release,
    before: Option<&Release>,
) -> Result<Release, String> {
    let metadata = &recorded.chart["metadata"];
    let text = |key: &str| metadata[key].as_str().unwrap_or_default();
    let mut chart = world
        .loaded(text("name"), text("version"))
        .ok_or("the chart is not in the recording")?;
    let is_upgrade = recorded.info.description.starts_with("Upgrade")
        || recorded.info.description.starts_with("Preparing upgrade");
    let mut options = ReleaseOptions {
        name: recorded.name.clone(),
        namespace: recorded.namespace.clone(),
        revision: if is_upgrade { recorded.version } else { 1 },
        is_upgrade,
        skip_schema_validation: object
            .spec
            .install
            .as_ref()
            .is_some_and(|install| install.disable_schema_validation),
        ..ReleaseOptions::default()
    };
    options.capabilities.kube_version = KubeVersion::parse("v1.36.1").unwrap();
    options
        .capabilities
        .api_versions
        .push("apps/v1/Deployment".to_owned());
    let keeps = object
        .spec
        .upgrade
        .as_ref()
        .is_some_and(|upgrade| upgrade.preserve_values);
    let mut config = recorded.config.clone();
    if let Some(before) = before.filter(|_| keeps && is_upgrade) {
        let old = json!({"metadata": before.chart["metadata"], "values": chart.values});
        let asked = object
            .spec
            .values
            .as_ref()
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        let preserved = preserve(&asked, &old, &before.config, &Budget::unlimited())
            .map_err(|error| error.to_string())?;
        config = preserved.config;
        chart.values = preserved.chart_values;
    }
    let sources = Sources::new(FixedSource::new(0, 0, 1)).with_lookup(Everything);
    let rendered = render(
        chart,
        &config,
        &options,
        object,
        sources,
        &mut Warnings::default(),
        &Arc::new(Budget::unlimited()),
    )
    .map_err(|error| error.to_string())?;
    let new = NewRecord {
        name: &recorded.name,
        namespace: &recorded.namespace,
        version: recorded.version,
        rendered: &rendered,
        config,
        server_side: recorded.apply_method == "ssa",
        labels: BTreeMap::new(),
        now: Timestamp::default(),
    };
    Ok(match is_upgrade {
        true => next_record(new, &recorded.info.first_deployed),
        false => first_record(new),
    })
}

/// What of a record follows from chart, values and spec.
fn lasting(release: &Release) -> Value {
    let mut json = release.to_json();
    json["info"] = json!({"notes": release.info.notes});
    json["chart"] = json!({"metadata": json["chart"]["metadata"]});
    for hook in json
        .get_mut("hooks")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let hook = hook.as_object_mut().unwrap();
        hook.remove("last_run");
        // A hook that has run has a policy.
        if hook.get("delete_policies") == Some(&json!(["before-hook-creation"])) {
            hook.remove("delete_policies");
        }
    }
    json
}

#[test]
fn records_are_those_that_flux_makes_of_the_same_charts() {
    let mut outcome = Outcome::default();
    for scenario in scenarios() {
        let mut world = World::new(&scenario.json);
        let mut seen: BTreeSet<(String, String, i64, String)> = BTreeSet::new();
        let mut all: BTreeMap<(String, i64), Release> = BTreeMap::new();
        for (number, step) in list(&scenario.json["steps"]).iter().enumerate() {
            world.advance(step);
            for record in records(step) {
                let recorded = Release::from_json(record["release"].clone()).unwrap();
                let is_flux = record["managers"][0][0] == "helm-controller";
                let is_rollback = recorded.info.rollback_revision > 0;
                let key = (recorded.name.clone(), recorded.version);
                let before = all
                    .get(&(recorded.name.clone(), recorded.version - 1))
                    .cloned();
                all.insert(key, recorded.clone());
                let id = (
                    recorded.namespace.clone(),
                    recorded.name.clone(),
                    recorded.version,
                    recorded.manifest.clone(),
                );
                // Rendered with the spec of the step in which it is seen first.
                if !seen.insert(id) || !is_flux || is_rollback {
                    continue;
                }
                let owner = recorded_for(&recorded).unwrap_or_else(|| "app".to_owned());
                let Some(object) = world.release(&owner, &Value::Null) else {
                    continue;
                };
                let id = format!(
                    "{}/{number}/{}.v{}",
                    scenario.name, recorded.name, recorded.version
                );
                let result = made(&world, &object, &recorded, before.as_ref()).and_then(|made| {
                    let (found, expected) = (lasting(&made), lasting(&recorded));
                    match found == expected {
                        true => Ok(()),
                        false => Err(format!("{found}\nnot {expected}")),
                    }
                });
                outcome.record(id, result);
            }
        }
    }
    outcome.assert(match outcome.total() {
        0 => "",
        _ => KNOWN,
    });
}

/// Differences that are meant or belong to the recording.
const KNOWN: &str = "\
chart-template/0/app.v1: source-controller merges spec.valuesFiles into the chart
chart-template-missing/1/app.v1: source-controller merges spec.valuesFiles into the chart
list-kind/0/app.v1: the helm of the recording drops the line end between documents of one file, helm 4.3 keeps it
test-filters/0/app.v1: while its tests run, Flux leaves hooks out of the record that filters do not select
version-forms/0/pre.v1: the chart is not in the recording
";

fn recorded_for(release: &Release) -> Option<String> {
    let mut lines = release.manifest.lines();
    let found = lines.find_map(|line| line.trim().strip_prefix("helm.toolkit.fluxcd.io/name: "))?;
    Some(found.to_owned())
}

#[test]
fn digests_of_post_renderers_and_common_metadata_are_those_of_flux() {
    let mut outcome = Outcome::default();
    for scenario in scenarios() {
        let mut world = World::new(&scenario.json);
        for (number, step) in list(&scenario.json["steps"]).iter().enumerate() {
            world.advance(step);
            for release in releases(step) {
                let name = release["metadata"]["name"].as_str().unwrap();
                let status = &release["status"];
                let Some(object) = world.release(name, &Value::Null) else {
                    continue;
                };
                if status.get("lastAttemptedReleaseAction").is_none() || !step["apply"].is_array() {
                    continue;
                }
                let found = [
                    post_renderers_digest(&object),
                    common_metadata_digest(&object),
                ];
                let expected = [
                    "observedPostRenderersDigest",
                    "observedCommonMetadataDigest",
                ]
                .map(|key| status[key].as_str().unwrap_or_default().to_owned());
                let id = format!("{}/{number}/{name}", scenario.name);
                outcome.record(
                    id,
                    match found == expected {
                        true => Ok(()),
                        false => Err(format!("{found:?}, not {expected:?}")),
                    },
                );
            }
        }
    }
    outcome.assert("");
}

#[test]
fn charts_that_do_not_render_fail_with_the_recorded_message() {
    let mut outcome = Outcome::default();
    let known = "\
duplicate-objects: kustomize does not run where nobody asks for it, so that the same object twice is fine
list-and-multidoc: the same for an object with generateName
";
    for name in [
        "fail-install-template",
        "fail-install-schema",
        "fail-install-yaml",
        "kube-version",
        "post-renderers-error",
        "duplicate-objects",
        "list-and-multidoc",
    ] {
        let Some(scenario) = scenarios()
            .into_iter()
            .find(|scenario| scenario.name == name)
        else {
            return;
        };
        let mut world = World::new(&scenario.json);
        let step = &scenario.json["steps"][0];
        world.advance(step);
        let status = &releases(step).next().unwrap()["status"];
        let released = list(&status["conditions"])
            .iter()
            .find(|c| c["type"] == "Released")
            .unwrap();
        let message = released["message"].as_str().unwrap();
        let expected = message.split_once(" with chart app@1.0.0: ").unwrap().1;
        let object = world.release("app", &Value::Null).unwrap();
        let values = object
            .spec
            .values
            .as_ref()
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        let recorded = Release {
            name: "app".into(),
            namespace: scenario.name.clone(),
            version: 1,
            chart: json!({"metadata": {"name": "app", "version": "1.0.0"}}),
            config: values,
            ..Release::default()
        };
        let found = made(&world, &object, &recorded, None).map(|release| release.manifest);
        outcome.record(
            name,
            match found {
                Err(error) if error.trim() == expected => Ok(()),
                other => Err(format!("{other:?}, not {expected:?}")),
            },
        );
    }
    outcome.assert(known);
}
