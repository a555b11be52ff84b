//! Replicas that share the work, several ways to the API servers, rescue: scenarios with seeds of their own, which the
//! slice of every day does not reach.
//!
//! `EVERFLOW_SIM_SEEDS=FROM..TO` and `EVERFLOW_SIM_SCENARIO=NAME,NAME` (or files) choose others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

use everflow_sim::search::{Plans, Ready, search};
use everflow_sim::shrink::shrink;
use everflow_sim::{Plan, Scenario, Settings, story};

fn chosen() -> Vec<Scenario> {
    if let Ok(names) = std::env::var("EVERFLOW_SIM_SCENARIO") {
        let named = names.split(',').map(Scenario::find);
        return named.map(Result::unwrap).collect();
    }
    let all = Scenario::all().unwrap().into_iter();
    all.filter(|scenario| scenario.sharing.is_some()).collect()
}

fn seeds() -> std::ops::Range<u64> {
    let text = std::env::var("EVERFLOW_SIM_SEEDS").unwrap_or_else(|_| "0..13".to_owned());
    let (from, to) = text.split_once("..").unwrap();
    from.parse().unwrap()..to.parse().unwrap()
}

#[test]
fn replicas_converge_under_faults_by_chance() {
    let ready: Vec<Ready> = chosen()
        .into_iter()
        .map(|scenario| Ready::new(scenario, Settings::default()).unwrap())
        .collect();
    let (tally, bad) = search(&ready, &Plans::Seeds(seeds()), 1, 1, &|_| true).unwrap();
    eprintln!(
        "{} runs, {} attempts, {} states",
        tally.runs,
        tally.attempts,
        tally.states.len()
    );
    if let Some(bad) = bad.first() {
        let ready = &ready[bad.scenario];
        let short = shrink(&bad.plan, |plan| {
            let outcome = ready.run(plan).unwrap();
            let first = outcome.findings.first();
            first.is_some_and(|first| first.oracle == bad.finding.oracle)
        });
        let outcome = ready.run_traced(&short).unwrap();
        panic!(
            "seed {:?}: {}\n{}",
            bad.seed,
            story(&ready.scenario, &short, &outcome),
            everflow_json::to_string(&short).unwrap()
        );
    }
}

/// Each scenario under its own faults, as the test of all scenarios runs them.
#[test]
#[ignore = "for these alone"]
fn replicas_converge_under_their_own_faults() {
    let mut failed = Vec::new();
    for scenario in chosen() {
        let name = scenario.name.clone();
        let ready = match Ready::new(scenario, Settings::default()) {
            Ok(ready) => ready,
            Err(error) => {
                failed.push(format!("{name}: {error}"));
                continue;
            }
        };
        let plan = Plan::calm(1);
        let outcome = ready.run(&plan).unwrap();
        if outcome.findings.is_empty() {
            eprintln!("{name}: well after {:?}", outcome.stats.healed_after);
            continue;
        }
        let outcome = ready.run_traced(&plan).unwrap();
        failed.push(format!(
            "{name}: {}",
            story(&ready.scenario, &plan, &outcome)
        ));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// Prints what happens in `EVERFLOW_SIM_SCENARIO` under its own faults, and with `EVERFLOW_SIM_SEEDS` under those of its first.
#[test]
#[ignore = "for looking at one"]
fn prints_one_run() {
    let ready = Ready::new(chosen().swap_remove(0), Settings::default()).unwrap();
    let plan = match std::env::var("EVERFLOW_SIM_SEEDS") {
        Ok(_) => ready.plan(seeds().start),
        Err(_) => Plan::calm(1),
    };
    let outcome = ready.run_traced(&plan).unwrap();
    eprintln!("{}\n{:#?}", outcome.history.join("\n"), outcome.findings);
}
