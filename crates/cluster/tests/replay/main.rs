//! Replays the recorded scenarios of a real kube-apiserver in process.
//!
//! `SCENARIO=crud/configmap cargo test -p everflow-cluster --test replay -- --nocapture` runs some of them and prints
//! what differs.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod compare;
mod run;

use std::collections::BTreeMap;

use everflow_corpus::Outcome;

#[test]
fn recorded_scenarios_replay_in_process() {
    let Some(root) = everflow_corpus::find("apiserver") else {
        return;
    };
    let only = std::env::var("SCENARIO").ok();
    let mut outcome = Outcome::default();
    let mut by_area: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for file in run::scenario_files(&root) {
        let id = run::id_of(&root, &file);
        if only
            .as_deref()
            .is_some_and(|prefix| !id.starts_with(prefix))
        {
            continue;
        }
        let result = run::replay(&root, &file);
        let area = id.split('/').next().unwrap_or_default().to_owned();
        let counts = by_area.entry(area).or_default();
        counts.1 += 1;
        match &result {
            Ok(()) => counts.0 += 1,
            Err(why) if only.is_some() || std::env::var("VERBOSE").is_ok() => {
                println!("{id}: {why}")
            }
            Err(_) => {}
        }
        outcome.record(id, result);
    }
    for (area, (agree, all)) in &by_area {
        println!("{area:16} {agree:4} of {all}");
    }
    let (agree, all) = by_area
        .values()
        .fold((0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1));
    println!("{:16} {agree:4} of {all}", "all");
    if only.is_none() {
        outcome.assert(include_str!("known-differences.txt"));
    }
}
