//! One seed, one history.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use everflow_sim::search::Ready;
use everflow_sim::{Scenario, Settings};

/// Runs a scenario twice under the plan of each seed, and compares what happened line by line.
fn same_twice(scenario: Scenario, seeds: std::ops::Range<u64>) {
    let settings = Settings {
        trace: true,
        no_quiet: true,
        ..Settings::default()
    };
    let name = scenario.name.clone();
    let ready = Ready::new(scenario, settings).unwrap();
    for seed in seeds {
        let plan = ready.plan(seed);
        let (one, two) = (ready.run(&plan).unwrap(), ready.run(&plan).unwrap());
        assert!(one.history.len() > 50);
        for (number, (one, two)) in one.history.iter().zip(&two.history).enumerate() {
            assert_eq!(one, two, "{name}, seed {seed}, line {number}");
        }
        assert_eq!(one.history.len(), two.history.len(), "{name}, seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    same_twice(Scenario::find("basic").unwrap(), 0..20);
}

#[test]
fn same_seed_gives_the_same_history_in_all_scenarios() {
    for (number, scenario) in (0..).zip(Scenario::all().unwrap()) {
        // Scenarios that take long have one seed.
        let takes_long = scenario.sharing.is_some() || scenario.name == "provider-down-for-an-hour";
        let seeds = if takes_long { 1 } else { 2 };
        same_twice(scenario, number..number + seeds);
    }
}
