//! Every recorded `fieldsV1` is read and written back byte for byte.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "replay/corpus.rs"]
#[allow(dead_code)]
mod corpus;

use std::collections::BTreeSet;

use everflow_json::Value;
use everflow_merge::fieldpath::FieldSet;

/// The JSON objects behind `"fieldsV1":` in a text, as they stand there.
fn recorded(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("\"fieldsV1\":{") {
        rest = &rest[at + "\"fieldsV1\":".len()..];
        let (mut depth, mut in_string, mut escaped) = (0, false, false);
        for (position, byte) in rest.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                b'{' if !in_string => depth += 1,
                b'}' if !in_string => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                found.push(&rest[..=position]);
                break;
            }
        }
    }
    found
}

#[test]
fn recorded_sets_survive_a_round_trip() {
    let Some(root) = corpus::directory() else {
        return;
    };
    let mut sets: BTreeSet<String> = BTreeSet::new();
    for area in [
        "ssa",
        "ssa-cr",
        "ssa-kinds",
        "patch",
        "flux",
        "crud",
        "crd",
        "gc",
    ] {
        for entry in std::fs::read_dir(root.join("scenarios").join(area)).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            // Requests may hold sets in any order; the server's are in answers.
            for line in text
                .lines()
                .filter(|line| line.trim_start().starts_with("\"response\""))
            {
                sets.extend(recorded(line).into_iter().map(str::to_owned));
            }
        }
    }
    let mut wrong = Vec::new();
    for text in &sets {
        let value: Value = everflow_json::from_str(text).unwrap();
        let set = FieldSet::from_fields_v1(&value).unwrap();
        let written = set.to_fields_v1_text();
        if written != *text || set.to_fields_v1() != value {
            wrong.push(format!("{text}\n  {written}"));
        }
    }
    println!("{} different sets", sets.len());
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        sets.len(),
        wrong.join("\n")
    );
    assert!(sets.len() > 900, "only {} sets found", sets.len());
}
