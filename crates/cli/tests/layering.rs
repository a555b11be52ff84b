//! The crates form layers; an arrow that points up fails here.
//!
//! The order is the order of our own crates under `[workspace.dependencies]` in the root
//! `Cargo.toml`: a crate may use only crates that stand before it.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use everflow_json::Value;

fn workspace_root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn layer_order() -> Vec<String> {
    let manifest = std::fs::read_to_string(workspace_root().join("Cargo.toml")).unwrap();
    manifest
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .filter(|(name, rest)| name.starts_with("everflow-") && rest.contains("path = "))
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn workspace_packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(workspace_root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = everflow_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

#[test]
fn dependencies_point_down_only() {
    let ranks: BTreeMap<String, usize> = layer_order()
        .into_iter()
        .enumerate()
        .map(|(rank, name)| (name, rank))
        .collect();
    let mut wrong = Vec::new();
    for package in workspace_packages() {
        let name = package["name"].as_str().unwrap();
        // The program stands above all.
        let rank = match name {
            "everflow" => usize::MAX,
            _ => match ranks.get(name) {
                Some(rank) => *rank,
                None => {
                    wrong.push(format!("{name} has no place in the layer order"));
                    continue;
                }
            },
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            // Tests may look up: a test of `merge` may drive `cluster`.
            if dependency["kind"] == "dev" || !used.starts_with("everflow") {
                continue;
            }
            if ranks.get(used).is_none_or(|lower| *lower >= rank) {
                wrong.push(format!("{name} must not use {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// All crates of ours that a crate is built with, tests left out.
fn dependencies_of(packages: &[Value], name: &str) -> BTreeSet<String> {
    let uses = |name: &str| {
        let package = packages.iter().find(|package| package["name"] == name);
        let used = package.unwrap()["dependencies"].as_array().unwrap().iter();
        used.filter(|dependency| dependency["kind"] != "dev")
            .map(|dependency| dependency["name"].as_str().unwrap().to_owned())
            .filter(|used| used.starts_with("everflow"))
            .collect::<Vec<_>>()
    };
    let mut all = BTreeSet::new();
    let mut open = uses(name);
    while let Some(next) = open.pop() {
        if all.insert(next.clone()) {
            open.extend(uses(&next));
        }
    }
    all
}

/// The crates in their order, each with those that it is built with; what another of them brings anyway is left out.
fn crate_graph() -> String {
    let packages = workspace_packages();
    let short = |name: &str| name.trim_start_matches("everflow-").to_owned();
    let names = layer_order().into_iter().chain(["everflow".to_owned()]);
    let lines = names.map(|name| {
        let all = dependencies_of(&packages, &name);
        let brought = all.iter().flat_map(|used| dependencies_of(&packages, used));
        let brought: BTreeSet<String> = brought.collect();
        let direct: Vec<String> = all.difference(&brought).map(|used| short(used)).collect();
        let name = match name.as_str() {
            "everflow" => "cli".to_owned(),
            name => short(name),
        };
        format!("{name:<12} {}", direct.join(", "))
            .trim_end()
            .to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// `EVERFLOW_UPDATE=1` writes the graph instead of comparing it.
#[test]
fn the_crate_graph_in_the_architecture_is_that_of_the_manifests() {
    const BEGIN: &str = "<!-- The crate graph, made by crates/cli/tests/layering.rs -->\n```text\n";
    let path = workspace_root().join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (shown, after) = rest.split_once("\n```\n").unwrap();
    let graph = crate_graph();
    if std::env::var_os("EVERFLOW_UPDATE").is_some() {
        let text = format!("{before}{BEGIN}{graph}\n```\n{after}");
        std::fs::write(path, text).unwrap();
        return;
    }
    assert_eq!(shown, graph, "EVERFLOW_UPDATE=1 writes it anew");
}

#[test]
fn runtime_and_apply_do_not_depend_on_the_embedded_server() {
    let packages = workspace_packages();
    for name in ["everflow-runtime", "everflow-apply", "everflow-controllers"] {
        let used = dependencies_of(&packages, name);
        for server in ["everflow-cluster", "everflow-embedded"] {
            assert!(!used.contains(server), "{name} must not depend on {server}");
        }
    }
}

#[test]
fn every_crate_forbids_unsafe_code_and_takes_the_workspace_lints() {
    for entry in std::fs::read_dir(workspace_root().join("crates")).unwrap() {
        let directory = entry.unwrap().path();
        let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "{} does not take the workspace lints",
            directory.display()
        );
        let root = ["src/lib.rs", "src/main.rs"]
            .iter()
            .map(|file| directory.join(file))
            .find(|file| file.exists())
            .unwrap();
        let text = std::fs::read_to_string(&root).unwrap();
        assert!(
            text.contains("#![forbid(unsafe_code)]"),
            "{} does not forbid unsafe code",
            root.display()
        );
    }
}

/// The source files of a crate, without those that are only for tests.
fn sources(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != "testing" {
            sources(&path, found);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && name != "conformance.rs" {
            found.push(path);
        }
    }
}

/// Time, chance and order come from `env` alone in what the simulator runs.
#[test]
fn the_simulator_can_steer_the_controllers() {
    let words = [
        "HashMap",
        "HashSet",
        "Instant::now",
        "SystemTime::now",
        "tokio::time::",
        "thread::spawn",
        "spawn_blocking",
        "thread_rng",
        "getrandom",
    ];
    let mut wrong = Vec::new();
    for name in [
        "connect",
        "serve",
        "fetch",
        "git",
        "runtime",
        "dispatch",
        "apply",
        "controllers",
    ] {
        let mut files = Vec::new();
        sources(
            &workspace_root().join("crates").join(name).join("src"),
            &mut files,
        );
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let shown = file.display().to_string();
            for word in words.iter().filter(|word| text.contains(**word)) {
                wrong.push(format!("{shown}: {word}"));
            }
            let selects = text.matches("select! {").count();
            if selects != text.matches("biased;").count() {
                wrong.push(format!("{shown}: select! that draws lots"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The bodies of planted mistakes are in `sim`; elsewhere there are marks, which compile to nothing without the feature.
#[test]
fn planted_mistakes_have_no_body_outside_the_simulator() {
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(workspace_root().join("crates")).unwrap() {
        let directory = entry.unwrap().path();
        if directory.ends_with("sim") || directory.ends_with("env") {
            continue;
        }
        let mut files = Vec::new();
        sources(&directory.join("src"), &mut files);
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for word in ["feature = \"wrong\"", "Mistake::"] {
                if text.contains(word) {
                    wrong.push(format!("{}: {word}", file.display()));
                }
            }
        }
    }
    for package in workspace_packages() {
        let name = package["name"].as_str().unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            let features = dependency["features"].as_array().unwrap();
            let switched_on = features.iter().any(|feature| feature == "wrong");
            if switched_on && (name != "everflow-sim" || dependency["kind"] != "dev") {
                wrong.push(format!("{name} switches mistakes on"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Files that the documents name are there.
#[test]
fn files_named_in_the_documents_exist() {
    let mut missing = Vec::new();
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/dependencies.md"] {
        let text = std::fs::read_to_string(workspace_root().join(document)).unwrap();
        let quoted = text.split('`').skip(1).step_by(2);
        for path in quoted.filter(|quoted| quoted.starts_with("crates/")) {
            let path = path.split_whitespace().next().unwrap();
            if !workspace_root().join(path).exists() {
                missing.push(format!("{document}: {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
