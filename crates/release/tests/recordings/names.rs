//! Names of releases and the HelmCharts that are made.

use everflow_corpus::Outcome;
use everflow_json::{Value, json};
use everflow_release::helm_chart;
use everflow_release::names::ReleaseTarget;

use crate::corpus::{list, releases, scenarios};
use crate::world::World;

#[test]
fn releases_are_called_and_stored_as_flux_does() {
    let mut outcome = Outcome::default();
    for scenario in scenarios() {
        let mut world = World::new(&scenario.json);
        for (number, step) in list(&scenario.json["steps"]).iter().enumerate() {
            world.advance(step);
            for release in releases(step) {
                let name = release["metadata"]["name"].as_str().unwrap();
                let status = &release["status"];
                let Some(object) = world.release(name, status) else {
                    continue;
                };
                let Some(last) = list(&status["history"]).first() else {
                    continue;
                };
                let target = ReleaseTarget::of(&object);
                let found = json!([target.name, target.namespace, target.storage_namespace]);
                let expected = json!([last["name"], last["namespace"], status["storageNamespace"]]);
                let id = format!("{}/{number}/{name}", scenario.name);
                outcome.record(
                    id,
                    match found == expected {
                        true => Ok(()),
                        false => Err(format!("{found}, not {expected}")),
                    },
                );
            }
        }
    }
    outcome.assert("");
}

#[test]
fn the_helm_chart_is_the_one_that_flux_makes() {
    let mut outcome = Outcome::default();
    for scenario in scenarios() {
        let mut world = World::new(&scenario.json);
        for (number, step) in list(&scenario.json["steps"]).iter().enumerate() {
            world.advance(step);
            let elsewhere = list(&step["then"]["helmCharts_other_namespace"]);
            let charts: Vec<&Value> = list(&step["then"]["flux"])
                .iter()
                .filter(|object| object["kind"] == "HelmChart" && object.get("spec").is_some())
                .chain(elsewhere)
                .collect();
            for chart in charts {
                let labels = &chart["metadata"]["labels"];
                let owner = labels["helm.toolkit.fluxcd.io/name"].as_str();
                // A change of the HelmRelease or by hand may come after what was recorded.
                let applied = list(&step["apply"])
                    .iter()
                    .any(|object| object["metadata"]["name"].as_str() == owner);
                let Some(owner) = owner.filter(|_| applied) else {
                    continue;
                };
                let Some(made) = world
                    .release(owner, &Value::Null)
                    .and_then(|object| helm_chart::helm_chart(&object))
                else {
                    continue;
                };
                let pick = |chart: &Value| {
                    json!([
                        chart["metadata"]["name"],
                        chart["metadata"]["namespace"],
                        chart["metadata"]["labels"],
                        chart["metadata"]["annotations"],
                        chart["spec"],
                    ])
                };
                let id = format!("{}/{number}/{owner}", scenario.name);
                let (found, expected) = (pick(&made), pick(chart));
                outcome.record(
                    id,
                    match found == expected {
                        true => Ok(()),
                        false => Err(format!("{found}, not {expected}")),
                    },
                );
            }
        }
    }
    outcome.assert("");
}
