//! Replays the recorded scenarios of a real kube-apiserver, in process and over HTTPS.
//!
//! `SCENARIO=crud/configmap cargo test -p everflow-cluster --test replay -- --nocapture` runs some of them and prints
//! what differs.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod compare;
mod https;
mod run;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use everflow_cluster::Authority;
use everflow_corpus::Outcome;
use https::{Https, Net};

#[test]
fn recorded_scenarios_replay_in_process() {
    replay_all(None);
}

#[test]
fn recorded_scenarios_replay_over_https() {
    let authority = Authority::generate(&["127.0.0.1".to_owned()]).unwrap();
    replay_all(Some(&authority));
}

/// Replays all scenarios on a few threads, over HTTPS when there is an authority.
fn replay_all(authority: Option<&Authority>) {
    let Some(root) = everflow_corpus::find("apiserver") else {
        return;
    };
    let only = std::env::var("SCENARIO").ok();
    let files: Vec<_> = run::scenario_files(&root)
        .into_iter()
        .map(|file| (run::id_of(&root, &file), file))
        .filter(|(id, _)| only.as_deref().is_none_or(|prefix| id.starts_with(prefix)))
        .collect();
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let net = authority.map(Net::new);
                while let Some((id, file)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = match &net {
                        None => run::replay(&root, file),
                        Some(net) => run::replay_through(&root, file, &|server| {
                            Box::new(Https::open(net, server))
                        }),
                    };
                    results.lock().unwrap().insert(id.clone(), result);
                }
            });
        }
    });
    report(results.into_inner().unwrap(), only.is_some());
}

/// Prints the counts by area and holds the rest against the list of known differences.
fn report(results: BTreeMap<String, Result<(), String>>, some_only: bool) {
    let mut outcome = Outcome::default();
    let mut by_area: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (id, result) in results {
        let area = id.split('/').next().unwrap_or_default().to_owned();
        let counts = by_area.entry(area).or_default();
        counts.1 += 1;
        match &result {
            Ok(()) => counts.0 += 1,
            Err(why) if some_only || std::env::var("VERBOSE").is_ok() => println!("{id}: {why}"),
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
    if !some_only {
        outcome.assert(include_str!("known-differences.txt"));
    }
}
