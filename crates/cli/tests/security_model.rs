//! The security model names the tests that hold what it promises: each exists.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const MODEL: &str = include_str!("../../../docs/security.md");

/// The names of the functions in the Rust files below a directory.
fn functions(directory: &Path, found: &mut BTreeSet<String>) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let names = text.split("fn ").skip(1);
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            found.extend(names.map(|rest| rest.chars().take_while(|c| is_part(*c)).collect()));
        }
    }
}

/// Crate and test, as in `fetch: packs_that_lie_are_refused`.
fn named() -> Vec<(&'static str, &'static str)> {
    let rows = MODEL.lines().filter(|line| line.starts_with('|'));
    rows.flat_map(|row| row.split('`').skip(1).step_by(2))
        .filter_map(|code| code.split_once(": "))
        .collect()
}

#[test]
fn tests_named_in_the_security_model_exist() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut known = BTreeMap::new();
    let named = named();
    assert!(named.len() > 90);
    for (name, test) in named {
        let functions = known.entry(name).or_insert_with(|| {
            let directory = if name == "everflow" { "cli" } else { name };
            let mut found = BTreeSet::new();
            functions(&root.join(directory), &mut found);
            found
        });
        assert!(functions.contains(test), "{name} has no test {test}");
    }
}

#[test]
fn every_attack_that_was_tried_has_a_row() {
    let numbers = |letter: &str, last: u32| {
        let rows = (1..=last).map(|number| format!("{letter}{number}"));
        rows.collect::<Vec<_>>()
    };
    let letters = [
        ("A", 19),
        ("B", 6),
        ("K", 4),
        ("H", 2),
        ("G", 3),
        ("O", 1),
        ("C", 1),
        ("S", 1),
        ("T", 3),
        ("E", 3),
        ("R", 2),
        ("U", 1),
        ("V", 8),
    ];
    for row in letters
        .iter()
        .flat_map(|(letter, last)| numbers(letter, *last))
    {
        let line = MODEL
            .lines()
            .find(|line| line.starts_with(&format!("| {row} |")));
        let line = line.unwrap_or_else(|| panic!("no row {row}"));
        assert!(
            line.contains("`") && line.contains(": "),
            "{row} names no test"
        );
    }
}
