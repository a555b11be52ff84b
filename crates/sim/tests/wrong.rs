//! The simulator's own proof: mistakes that were planted, modelled on real bugs, are all found.
//!
//! `wrong.txt` says which scenario and seed find each of them; those are run every day. The whole search, which shows after
//! how many seeds each is found when nobody knows where to look, is
//! `cargo test -p everflow-sim --test wrong -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::collections::BTreeMap;

use everflow_sim::Mistake;
use everflow_sim::search::{Plans, Ready, search};
use everflow_sim::{Scenario, Settings};

/// Within so many seeds each must be found.
const WITHIN: u64 = 2_000;

fn mistake_named(name: &str) -> Mistake {
    let mut all = Mistake::ALL.iter();
    *all.find(|mistake| format!("{mistake:?}") == name).unwrap()
}

#[test]
fn planted_mistakes_are_found_at_their_recorded_seed() {
    let mut ready: BTreeMap<String, Ready> = BTreeMap::new();
    let mut named = Vec::new();
    let mut missed = Vec::new();
    for line in include_str!("wrong.txt")
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("missing "))
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (mistake, name, seed) = (mistake_named(words[0]), words[1], words[2].parse().unwrap());
        let ready = ready.entry(name.to_owned()).or_insert_with(|| {
            Ready::new(Scenario::find(name).unwrap(), Settings::default()).unwrap()
        });
        let plan = ready.plan(seed);
        let right = ready.run(&plan).unwrap();
        assert_eq!(
            right.findings,
            [],
            "{name}, seed {seed}: the right code is blamed"
        );
        ready.settings.mistake = Some(mistake);
        let outcome = ready.run(&plan).unwrap();
        ready.settings.mistake = None;
        if outcome.findings.is_empty() {
            missed.push(line);
        }
        named.push(mistake);
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
    let unnamed: Vec<String> = Mistake::ALL
        .iter()
        .filter(|mistake| !named.contains(mistake))
        .map(|mistake| format!("{mistake:?}"))
        .collect();
    let missing: Vec<&str> = include_str!("wrong.txt")
        .lines()
        .filter_map(|line| line.strip_prefix("missing "))
        .collect();
    assert_eq!(unnamed, missing, "what nothing is known to find is listed");
}

#[test]
#[ignore = "takes minutes"]
fn planted_mistakes_are_found_within_two_thousand_seeds() {
    let mut ready: Vec<Ready> = Scenario::all()
        .unwrap()
        .into_iter()
        .filter(|scenario| {
            let only = std::env::var("EVERFLOW_SIM_SCENARIO");
            only.is_err() || only.as_ref() == Ok(&scenario.name)
        })
        .map(|scenario| Ready::new(scenario, Settings::default()).unwrap())
        .collect();
    let only = std::env::var("EVERFLOW_SIM_MISTAKE").ok();
    let mut missed = Vec::new();
    for mistake in Mistake::ALL {
        if only
            .as_ref()
            .is_some_and(|only| !only.contains(&format!("{mistake:?}")))
        {
            continue;
        }
        for one in &mut ready {
            one.settings.mistake = Some(*mistake);
        }
        let (tally, bad) = search(&ready, &Plans::Seeds(0..WITHIN), 1, 1, &|_| true).unwrap();
        match bad.first() {
            None => missed.push(mistake),
            Some(bad) => {
                let (name, seed) = (&ready[bad.scenario].scenario.name, bad.seed.unwrap());
                println!(
                    "{mistake:?} {name} {seed} # {} after {} seeds",
                    bad.finding.oracle, tally.runs
                );
            }
        }
    }
    assert!(
        missed.is_empty(),
        "not found within {WITHIN} seeds: {missed:?}"
    );
}

/// Prints what happens: `EVERFLOW_SIM_MISTAKE`, `EVERFLOW_SIM_SCENARIO` and `EVERFLOW_SIM_SEED` say of what.
#[test]
#[ignore = "for looking at one"]
fn prints_one_run() {
    let chosen = |name: &str| std::env::var(format!("EVERFLOW_SIM_{name}")).unwrap();
    let scenario = Scenario::find(&chosen("SCENARIO")).unwrap();
    let mut ready = Ready::new(scenario, Settings::default()).unwrap();
    let plan = ready.plan(chosen("SEED").parse().unwrap());
    ready.settings.mistake = Some(mistake_named(&chosen("MISTAKE")));
    let outcome = ready.run_traced(&plan).unwrap();
    println!(
        "{plan:?}\n{}\n{:#?}",
        outcome.history.join("\n"),
        outcome.findings
    );
}
