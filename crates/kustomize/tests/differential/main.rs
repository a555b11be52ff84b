//! Random trees of kustomizations, built by the real kustomize and by ours.
//!
//! Runs only when `EVERFLOW_REAL` is set: it needs the real program (`real/peers.sh build kustomize`)
//! and takes minutes. `RUNS` and `SEED` choose how many trees and which; a tree that differs is kept
//! in a directory that the message names.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod objects;
mod odd;
mod overlays;
mod random;
mod rare;

use std::path::Path;
use std::process::Command;

use everflow_kustomize::{MemoryView, Options, Plugins, build};
use everflow_limits::Budget;
use overlays::Files;

#[test]
fn random_overlays_build_alike() {
    let Some(program) = everflow_corpus::real::program("kustomize") else {
        return;
    };
    let number = |name: &str, default: u64| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (runs, seed) = (number("RUNS", 2000), number("SEED", 1));
    let mut counts = Counts::default();
    for seed in seed..seed + runs {
        let files = overlays::tree(seed);
        compare(&program, seed, &files, &mut counts);
    }
    println!(
        "{} trees alike, {} of them errors ({} for the same reason), {} crash the real one, {} differ",
        counts.alike, counts.errors, counts.same_cause, counts.crashed, counts.different
    );
    assert_eq!(counts.different, 0);
}

#[derive(Default)]
struct Counts {
    alike: usize,
    errors: usize,
    same_cause: usize,
    /// A panic of the real program is no answer to compare with.
    crashed: usize,
    different: usize,
}

/// The message of the real program without warnings, and with paths as in a tree in memory.
fn cause(text: &str, root: &Path) -> String {
    let is_cause =
        |line: &&str| !line.starts_with("# Warning") && !line.contains(" vars that were ");
    let lines: Vec<&str> = text.lines().filter(is_cause).collect();
    let text = lines.join("\n").replace(&*root.to_string_lossy(), "");
    text.strip_prefix("Error: ").unwrap_or(&text).to_owned()
}

/// The last part of a message is what went wrong; what stands before says where.
fn last_part(text: &str) -> String {
    let text = text.trim_end().replace(['"', '\\'], "");
    // The objects that are in conflict come with notes of kustomize for itself.
    let text = text.split(" [{").next().unwrap_or_default();
    let part = text.rsplit(": ").next().unwrap_or_default();
    part.to_owned()
}

fn compare(program: &Path, seed: u64, files: &Files, counts: &mut Counts) {
    let root =
        std::env::temp_dir().join(format!("everflow-kustomize-{}-{seed}", std::process::id()));
    for (path, text) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let output = Command::new(program)
        .args(["build", "top"])
        .current_dir(&root)
        .output()
        .unwrap();
    let real = if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    if matches!(&real, Err(text) if text.lines().any(|line| line.starts_with("panic: "))) {
        counts.crashed += 1;
        std::fs::remove_dir_all(&root).unwrap();
        return;
    }
    let view: MemoryView = files
        .iter()
        .map(|(path, text)| (path, text.as_bytes()))
        .collect();
    let ours = build(
        &view,
        "/top",
        &Options::default(),
        Plugins::default(),
        &Budget::unlimited(),
    )
    .and_then(|output| output.to_yaml())
    .map_err(|error| error.to_string());
    let alike = match (&real, &ours) {
        (Ok(real), Ok(ours)) => real == ours,
        (Err(real), Err(ours)) => {
            counts.errors += 1;
            let real = cause(real, &root);
            if last_part(&real) == last_part(ours) {
                counts.same_cause += 1;
            } else {
                println!("seed {seed} fails for another reason\n  real {real}\n  ours {ours}");
            }
            if std::env::var_os("SHOW_ERRORS").is_some() {
                println!("seed {seed} fails\n  real {real}\n  ours {ours}");
            }
            true
        }
        _ => false,
    };
    if alike {
        counts.alike += 1;
        std::fs::remove_dir_all(&root).unwrap();
        return;
    }
    counts.different += 1;
    let write = |name: &str, result: &Result<String, String>| {
        let text = match result {
            Ok(text) => text.clone(),
            Err(text) => format!("ERROR {text}\n"),
        };
        std::fs::write(root.join(name), text).unwrap();
    };
    write("real.out", &real);
    write("ours.out", &ours);
    println!("seed {seed} differs: {}", root.display());
}
