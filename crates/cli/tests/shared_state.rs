//! Tenants share nothing that could tell them apart: every cache is listed in `shared_state.txt` with what it is
//! found by, and what strangers share names the test that keeps them apart.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const TABLE: &str = include_str!("shared_state.txt");
/// The crates that work for tenants.
const CRATES: [&str; 12] = [
    "apply",
    "build",
    "controllers",
    "cosign",
    "embedded",
    "envsubst",
    "fetch",
    "git",
    "helm",
    "kustomize",
    "runtime",
    "sops",
];
const SCOPES: [&str; 5] = [
    "one object",
    "one attempt",
    "one client",
    "the program",
    "strangers",
];

fn crates() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
}

/// The lines that keep something, by file; tests aside.
fn places() -> BTreeMap<String, usize> {
    let mut places = BTreeMap::new();
    for name in CRATES {
        let mut files = Vec::new();
        sources(&crates().join(name).join("src"), &mut files);
        for file in files {
            let shown = file.strip_prefix(crates()).unwrap().to_str().unwrap();
            if shown.contains("/testing/") || shown.contains("tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let keeps = |line: &&str| {
                let line = line.trim();
                !line.starts_with("//")
                    && (line.contains("Mutex<") || line.contains("RwLock<"))
                    && !line.starts_with("use ")
            };
            let count = code.lines().filter(keeps).count();
            if count > 0 {
                places.insert(shown.to_owned(), count);
            }
        }
    }
    places
}

fn rows() -> Vec<[&'static str; 5]> {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let cells = rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        <[&str; 5]>::try_from(cells).unwrap_or_else(|_| panic!("five cells: {row}"))
    });
    cells.collect()
}

#[test]
fn every_cache_is_listed_with_its_key() {
    let listed: BTreeMap<String, usize> = rows()
        .iter()
        .map(|[file, count, ..]| ((*file).to_owned(), count.parse().unwrap()))
        .collect();
    assert_eq!(places(), listed, "shared_state.txt must list these files");
    for [file, _, scope, key, test] in rows() {
        assert!(SCOPES.contains(&scope), "{file}: {scope}");
        if scope == "strangers" {
            assert!(!key.is_empty() && !test.is_empty(), "{file}");
        }
    }
}

#[test]
fn tests_of_cache_isolation_exist() {
    let mut files = Vec::new();
    sources(crates(), &mut files);
    let texts: Vec<String> = files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    for [file, _, _, _, test] in rows() {
        let wanted = format!("fn {test}()");
        assert!(
            test.is_empty() || texts.iter().any(|text| text.contains(&wanted)),
            "{file}: there is no test {test}"
        );
    }
}
