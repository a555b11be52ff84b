//! The sources, as the real source-controller was recorded with them.

use std::path::{Path, PathBuf};

use everflow_controllers::{ControllerKind, Options};
use everflow_corpus::{Outcome, find};
use everflow_json::Value;

use super::compare::{Comparison, Differences};
use super::facts::{self, Memory};
use super::scenario::Scenario;
use super::world::{RECORDED, World, recorded_options};

/// Plays a scenario in a thread and a time of its own; what differs from the recording.
pub fn play(scenario: &Scenario, options: Options, kinds: &[ControllerKind]) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let differences = runtime.block_on(play_steps(scenario, options, kinds));
    let mut lines = differences.0;
    let count = lines.len();
    lines.truncate(4);
    match count {
        0 => Ok(()),
        _ => Err(format!("{count} differences\n    {}", lines.join("\n    "))),
    }
}

async fn play_steps(
    scenario: &Scenario,
    options: Options,
    kinds: &[ControllerKind],
) -> Differences {
    let mut world = World::start(scenario, options, kinds).await;
    let mut differences = Differences::default();
    let mut memory = Memory::default();
    for object in &scenario.objects {
        world.apply(object).await.unwrap();
    }
    let steps = std::iter::once(None).chain(scenario.steps.iter().map(Some));
    for (index, step) in steps.enumerate() {
        let (at, expected) = match step {
            None => ("then".to_owned(), &scenario.then),
            Some(step) => (format!("steps[{}].then", index - 1), step.get("then")),
        };
        if let Some(step) = step {
            let refused = world.step(step).await;
            let expected = &step.get("result")["message"];
            let message = refused.and_then(|error| Some(error.refusal()?.message.clone()));
            let message = message.map(|text| world.symbolic(&text));
            let found = message.map_or(Value::Null, Value::from);
            if *expected != found {
                differences
                    .0
                    .push(format!("{at}: refused with {found} instead of {expected}"));
            }
        }
        world.settle().await;
        let found = facts::collect(&world, &mut memory).await;
        let mut comparison = Comparison {
            unstable: &scenario.unstable,
            at,
            differences: &mut differences,
        };
        comparison.facts(expected, &found);
        let (orphans, flaws) = world.handle().orphans();
        if !orphans.is_empty() || !flaws.is_empty() {
            differences
                .0
                .push(format!("without a next attempt: {orphans:?} {flaws:?}"));
        }
    }
    world.stop_engine().await;
    differences
}

/// Plays all scenarios of a directory whose names begin so, on two threads.
pub fn play_all(
    directory: &str,
    prefix: &str,
    known: &str,
    play: impl Fn(&Scenario) -> Result<(), String> + Sync,
) {
    play_some(directory, prefix, known, |path| play(&Scenario::load(path)));
}

/// Plays all recordings of a directory.
pub fn play_paths(directory: &str, known: &str, play: impl Fn(&Path) -> Result<(), String> + Sync) {
    play_some(directory, "", known, play);
}

fn play_some(
    directory: &str,
    prefix: &str,
    known: &str,
    play: impl Fn(&Path) -> Result<(), String> + Sync,
) {
    let Some(directory) = find(directory) else {
        return;
    };
    let chosen = std::env::var("EVERFLOW_SCENARIO").ok();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap();
            name.starts_with(prefix) && chosen.as_deref().is_none_or(|chosen| chosen == name)
        })
        .collect();
    paths.sort();
    let (next, results) = (
        std::sync::Mutex::new(paths.into_iter()),
        std::sync::Mutex::new(Vec::new()),
    );
    let work = || {
        loop {
            let Some(path) = next.lock().unwrap().next() else {
                return;
            };
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play(&path)));
            let result = played.unwrap_or_else(|_| Err("it panicked".to_owned()));
            results.lock().unwrap().push((name, result));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let mut outcome = Outcome::default();
    for (name, result) in results.into_inner().unwrap() {
        outcome.record(name, result);
    }
    if chosen.is_none() {
        outcome.assert(known);
    } else {
        println!("{outcome:#?}");
    }
}

#[test]
fn git() {
    let known = include_str!("known_git.txt");
    play_all("flux/sources", "git-", known, |scenario| {
        play(scenario, recorded_options(), RECORDED)
    });
}

#[test]
fn oci() {
    let known = include_str!("known_oci.txt");
    play_all("flux/sources", "oci-", known, |scenario| {
        play(scenario, recorded_options(), RECORDED)
    });
}

#[test]
fn helm() {
    let known = include_str!("known_helm.txt");
    play_all("flux/sources", "helm-", known, |scenario| {
        play(scenario, recorded_options(), RECORDED)
    });
}

#[test]
fn others() {
    let known = include_str!("known_others.txt");
    for (prefix, known) in [("bucket-", ""), ("restart-", known)] {
        play_all("flux/sources", prefix, known, |scenario| {
            play(scenario, recorded_options(), RECORDED)
        });
    }
}
