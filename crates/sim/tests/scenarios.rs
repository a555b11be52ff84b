//! Every scenario under its own faults and under faults by chance.
//!
//! `EVERFLOW_SIM_SEEDS=FROM..TO` and `EVERFLOW_SIM_SCENARIO=NAME` (or a file) choose others than the bounded slice of every day.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

use everflow_sim::search::{Plans, Ready, search};
use everflow_sim::shrink::shrink;
use everflow_sim::{Plan, Scenario, Settings, story};

fn chosen() -> Vec<Scenario> {
    let all = Scenario::all().unwrap();
    match std::env::var("EVERFLOW_SIM_SCENARIO") {
        Ok(file) if file.ends_with(".yaml") => vec![Scenario::find(&file).unwrap()],
        Ok(name) => all
            .into_iter()
            .filter(|scenario| scenario.name == name)
            .collect(),
        Err(_) => all,
    }
}

fn seeds() -> std::ops::Range<u64> {
    let text = std::env::var("EVERFLOW_SIM_SEEDS").unwrap_or_else(|_| "0..54".to_owned());
    let (from, to) = text.split_once("..").unwrap();
    from.parse().unwrap()..to.parse().unwrap()
}

#[test]
fn names_are_file_names() {
    for scenario in Scenario::all().unwrap() {
        assert_eq!(Scenario::find(&scenario.name).unwrap().name, scenario.name);
    }
}

#[test]
fn all_scenarios_converge_under_their_own_faults() {
    let mut failed = Vec::new();
    for scenario in chosen() {
        let name = scenario.name.clone();
        let ready = match Ready::new(scenario, Settings::default()) {
            Ok(ready) => ready,
            Err(error) => {
                failed.push(error.to_string());
                continue;
            }
        };
        let plan = Plan::calm(1);
        let outcome = ready.run(&plan).unwrap();
        if !outcome.findings.is_empty() {
            let outcome = ready.run_traced(&plan).unwrap();
            failed.push(format!(
                "{name}: {}",
                story(&ready.scenario, &plan, &outcome)
            ));
        }
    }
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n\n")
    );
}

#[test]
fn all_scenarios_converge_under_faults_by_chance() {
    let ready: Vec<Ready> = chosen()
        .into_iter()
        .filter_map(|scenario| Ready::new(scenario, Settings::default()).ok())
        .collect();
    converge_by_chance(&ready, seeds());
}

/// Scenarios with HelmReleases have seeds of their own: the slice of every day does not reach them.
#[test]
fn releases_converge_under_faults_by_chance() {
    let ready: Vec<Ready> = Scenario::all()
        .unwrap()
        .into_iter()
        .filter(Scenario::has_releases)
        .filter_map(|scenario| Ready::new(scenario, Settings::default()).ok())
        .collect();
    assert!(ready.len() >= 23, "{}", ready.len());
    converge_by_chance(&ready, 0..46);
}

fn converge_by_chance(ready: &[Ready], seeds: std::ops::Range<u64>) {
    let (tally, bad) = search(ready, &Plans::Seeds(seeds), 1, 1, &|_| true).unwrap();
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
            outcome
                .findings
                .first()
                .is_some_and(|first| first.oracle == bad.finding.oracle)
        });
        let outcome = ready.run_traced(&short).unwrap();
        panic!(
            "seed {:?}: {}\n{short:?}",
            bad.seed,
            story(&ready.scenario, &short, &outcome)
        );
    }
}

/// Plans that once found something: a line with the name of the scenario and the plan.
#[test]
fn recorded_regressions_have_no_findings() {
    for line in include_str!("regressions.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let (name, plan) = line.split_once(' ').unwrap();
        let plan: Plan = everflow_json::from_str(plan).unwrap();
        let ready = Ready::new(Scenario::find(name).unwrap(), Settings::default()).unwrap();
        let outcome = ready.run(&plan).unwrap();
        assert_eq!(outcome.findings, [], "{line}");
    }
}

fn systematically(name: &str, step: usize) {
    systematically_of(name, step, |_| true);
}

/// Runs each plan of a scenario, or one in so many, that has a fault of a class.
fn systematically_of(name: &str, step: usize, is_wanted: fn(&str) -> bool) {
    let ready = Ready::new(Scenario::find(name).unwrap(), Settings::default()).unwrap();
    let mut failed = Vec::new();
    let plans = ready.systematic().into_iter();
    let plans = plans.filter(|plan| plan.faults.iter().any(|fault| is_wanted(fault.class())));
    for plan in plans.step_by(step) {
        let outcome = ready.run(&plan).unwrap();
        if let Some(finding) = outcome.findings.first() {
            let plan = everflow_json::to_string(&plan).unwrap();
            failed.push(format!(
                "{name} {plan}\n    {}: {}",
                finding.oracle, finding.text
            ));
        }
    }
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

#[test]
fn sampled_crashes_and_delays_are_survived() {
    systematically("status-write-fails-once", 17);
}

/// Crashes and delays at some of the effects of each action on a release; all of them are for long searches.
#[test]
fn sampled_crashes_in_release_actions_are_survived() {
    for (name, step) in [
        ("release-installed", 61),
        ("release-upgraded-with-hooks", 97),
        ("release-tested", 89),
        ("release-rolled-back", 211),
        ("release-uninstalled", 73),
        ("release-leader-lost", 397),
    ] {
        systematically(name, step);
    }
}

/// The process dies before and after every write of every action; with two replicas the leader also loses its Lease there.
#[test]
#[ignore = "takes minutes"]
fn every_crash_at_a_write_for_a_release_is_survived() {
    let all = [
        "release-installed",
        "release-upgraded-with-hooks",
        "release-tested",
        "release-uninstalled",
        "release-rolled-back",
        "release-leader-lost",
    ];
    let chosen = std::env::var("EVERFLOW_SIM_SCENARIO").ok();
    for name in all {
        if chosen.as_ref().is_none_or(|chosen| chosen == name) {
            systematically_of(name, 1, |class| {
                matches!(
                    class,
                    "crash before a request" | "crash after a request" | "process stands still"
                )
            });
        }
    }
}

#[test]
#[ignore = "takes minutes"]
fn every_crash_and_every_delay_is_survived() {
    for scenario in chosen() {
        systematically(&scenario.name, 1);
    }
}

/// Prints what happens in `EVERFLOW_SIM_SCENARIO` under its own faults, and with `EVERFLOW_SIM_SEEDS` under those of its first.
#[test]
#[ignore = "for looking at one"]
fn prints_one_run() {
    let settings = Settings {
        trace: true,
        ..Settings::default()
    };
    let scenario = chosen().swap_remove(0);
    let calm = everflow_sim::run(&scenario, &Plan::calm(0), None, &settings).unwrap();
    let Ok(ready) = Ready::new(scenario, Settings::default()) else {
        eprintln!("{}\n{:#?}", calm.history.join("\n"), calm.findings);
        panic!("it does not end as it should without faults");
    };
    let plan = match std::env::var("EVERFLOW_SIM_SEEDS") {
        Ok(_) => ready.plan(seeds().start),
        Err(_) => Plan::calm(1),
    };
    let outcome = ready.run_traced(&plan).unwrap();
    eprintln!("{}\n{:#?}", outcome.history.join("\n"), outcome.findings);
}
