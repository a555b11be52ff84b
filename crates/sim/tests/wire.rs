//! Objects as trees and as text: the same history.
//!
//! Trees are handed over in long searches only; all other tests run on text, as against a real API server.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use everflow_sim::search::Ready;
use everflow_sim::{Outcome, Scenario, Settings};

/// So many seeds of each scenario.
const SEEDS: u64 = 4;

/// The same; scenarios that take long have one.
fn seeds(scenario: &Scenario) -> u64 {
    match scenario.sharing.is_some() || scenario.name == "provider-down-for-an-hour" {
        true => 1,
        false => SEEDS,
    }
}

fn settings(trees: bool) -> Settings {
    Settings {
        trace: true,
        no_quiet: true,
        trees,
        ..Settings::default()
    }
}

fn same(place: &str, text: &Outcome, trees: &Outcome) {
    for (number, (one, two)) in text.history.iter().zip(&trees.history).enumerate() {
        assert_eq!(one, two, "{place}, line {number}");
    }
    assert_eq!(text.history.len(), trees.history.len(), "{place}");
    assert_eq!(text.findings, trees.findings, "{place}");
    assert_eq!(text.stats, trees.stats, "{place}");
}

#[test]
fn text_and_trees_give_the_same_history() {
    let scenarios = Scenario::all().unwrap();
    let count = scenarios.len() as u64;
    let mut runs = 0;
    for (at, scenario) in (0..).zip(scenarios) {
        let (name, rounds) = (scenario.name.clone(), seeds(&scenario));
        let text = Ready::new(scenario.clone(), settings(false)).unwrap();
        let trees = Ready::new(scenario, settings(true)).unwrap();
        assert_eq!(text.calm.stats, trees.calm.stats, "{name}");
        for round in 0..rounds {
            let seed = round * count + at;
            let plan = text.plan(seed);
            let place = format!("{name}, seed {seed}");
            same(
                &place,
                &text.run(&plan).unwrap(),
                &trees.run(&plan).unwrap(),
            );
            runs += 1;
        }
    }
    assert!(runs >= 200, "{runs}");
}
