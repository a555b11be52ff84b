//! Values of HelmReleases: what they come to, their digests, and why they cannot be had.

use everflow_corpus::Outcome;
use everflow_json::json;
use everflow_limits::Budget;
use everflow_release::digest;
use everflow_release::values::{compose, merged_config};

use crate::corpus::{list, records, releases, scenarios, steps};
use crate::world::World;

/// Differences that are meant.
const KNOWN: &str = "\
values-from-target-path-comma/0/app: the message of the --set parser quotes a part of the value
";

#[test]
fn values_come_to_what_was_released_and_errors_are_those_of_flux() {
    let mut outcome = Outcome::default();
    for scenario in scenarios() {
        let mut world = World::new(&scenario.json);
        for step in list(&scenario.json["steps"]) {
            world.advance(step);
            let number = list(&scenario.json["steps"])
                .iter()
                .position(|other| other == step)
                .unwrap();
            for release in releases(step) {
                let name = release["metadata"]["name"].as_str().unwrap();
                let status = &release["status"];
                let Some(object) = world.release(name, status) else {
                    continue;
                };
                let asked = list(&step["apply"]).iter().any(|object| {
                    matches!(object["kind"].as_str(), Some("HelmRelease" | "ConfigMap"))
                }) || step["annotate"]["kind"] == "HelmRelease";
                let composed = compose(
                    &world.namespace,
                    &object.spec.values_from,
                    object.spec.values.as_ref(),
                    |kind, name| world.config(kind, name),
                    &Budget::unlimited(),
                );
                let ready = list(&status["conditions"])
                    .iter()
                    .find(|c| c["type"] == "Ready");
                let id = format!("{}/{number}/{name}", scenario.name);
                if let Some(ready) = ready.filter(|ready| ready["reason"] == "ValuesError") {
                    let found = composed.err().map(|error| error.to_string());
                    outcome.record(
                        id,
                        match found.as_deref() == ready["message"].as_str() {
                            true => Ok(()),
                            false => Err(format!("{found:?}, not {}", ready["message"])),
                        },
                    );
                    continue;
                }
                let attempted =
                    status["lastAttemptedGeneration"] == release["metadata"]["generation"];
                if !asked || !attempted || object.spec.suspend {
                    continue;
                }
                let found = composed.map(|values| digest::of_values(&values));
                let expected = &status["lastAttemptedConfigDigest"];
                outcome.record(
                    id,
                    match found {
                        Ok(found) if *expected == found.as_str() => Ok(()),
                        other => Err(format!("{other:?}, not {expected}")),
                    },
                );
            }
        }
    }
    outcome.assert(match outcome.total() {
        0 => "",
        _ => KNOWN,
    });
}

#[test]
fn preserved_values_are_those_of_the_recorded_upgrade() {
    for scenario in scenarios() {
        if scenario.name != "preserve-values" {
            continue;
        }
        let (_, step) = steps(&scenario.json).last().unwrap();
        let configs: Vec<_> = records(step)
            .map(|record| record["release"]["config"].as_object().unwrap().clone())
            .collect();
        let asked = json!({"a": 2}).as_object().unwrap().clone();
        let merged = merged_config(&asked, &configs[0], &Budget::unlimited()).unwrap();
        assert_eq!(merged, configs[1]);
        let (_, first) = steps(&scenario.json).next().unwrap();
        let digest = digest::of_values(
            records(first).next().unwrap()["release"]["config"]
                .as_object()
                .unwrap(),
        );
        assert_eq!(
            releases(first).next().unwrap()["status"]["history"][0]["configDigest"],
            digest.as_str()
        );
    }
}
