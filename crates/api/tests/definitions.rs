//! The definitions say the same as Flux's own: every property, type, bound, default, rule and
//! column, descriptions aside.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use std::collections::BTreeSet;

use common::facts;
use everflow_api::describe::{Record, Rule, Shape};
use everflow_api::{KINDS, crds};
use everflow_json::Value;

/// What the recorded definitions lack because they are of an earlier commit than the release.
const LATER: [&str; 2] = [
    r#"helmreleases.helm.toolkit.fluxcd.io metadata.annotations.kustomize.toolkit.fluxcd.io/substitute: "disabled""#,
    r#"helmreleases.helm.toolkit.fluxcd.io spec.names.categories: ["all","fluxcd","fluxcd-appliers"]"#,
];

fn ours(name: &str) -> Value {
    let found = crds()
        .into_iter()
        .find(|crd| crd["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("there is no definition {name}"))
}

fn compare(theirs: &BTreeSet<String>, ours: &BTreeSet<String>) {
    let missing: Vec<&String> = theirs.difference(ours).collect();
    let added: Vec<&String> = ours
        .difference(theirs)
        .filter(|fact| !LATER.contains(&fact.as_str()))
        .collect();
    assert!(
        missing.is_empty() && added.is_empty(),
        "missing: {missing:#?}\nadded: {added:#?}"
    );
}

#[test]
fn definitions_are_those_of_the_recorded_cluster() {
    let Some(directory) = everflow_corpus::find("apiserver/fixtures/crds") else {
        return;
    };
    let (mut kinds, mut count) = (0, 0);
    for file in std::fs::read_dir(directory).unwrap().flatten() {
        let text = std::fs::read_to_string(file.path()).unwrap();
        let theirs: Value = everflow_json::from_str(&text).unwrap();
        let name = theirs["metadata"]["name"].as_str().unwrap();
        let theirs = facts(&theirs);
        compare(&theirs, &facts(&ours(name)));
        kinds += 1;
        count += theirs.len();
    }
    assert_eq!(kinds, 8);
    println!("{kinds} kinds, {count} facts agree");
}

/// No recordings hold the kinds of notifications; these facts were taken from the definitions in
/// notification-controller 2e46958 (2026-08-07).
#[test]
fn definitions_of_notification_kinds_have_the_facts_of_flux() {
    let lines = include_str!("data/notification-facts.txt").lines();
    let theirs: BTreeSet<String> = lines
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    let ours = ["alerts", "providers", "receivers"]
        .iter()
        .flat_map(|plural| facts(&ours(&format!("{plural}.notification.toolkit.fluxcd.io"))))
        .collect();
    compare(&theirs, &ours);
    println!("3 kinds, {} facts agree", theirs.len());
}

/// Defaults that cannot be read would be left out in silence, fields given twice would hide each
/// other, and a text is missing where it is empty.
#[test]
fn descriptions_are_sound() {
    fn check_shape(shape: &Shape) {
        match shape {
            Shape::List(inner) | Shape::Map(inner) => check_shape(inner),
            Shape::Record(record) => check(record),
            _ => {}
        }
    }
    fn check(record: &Record) {
        let mut names = BTreeSet::new();
        for field in record.fields {
            assert!(names.insert(field.name), "{}.{}", record.name, field.name);
            for rule in field.rules {
                if let Rule::Default(text) = rule {
                    assert!(everflow_json::from_str::<Value>(text).is_ok(), "{text}");
                }
            }
            assert!(field.doc.starts_with(' ') && field.doc.ends_with('.'));
            check_shape(&field.shape);
        }
    }
    for info in KINDS {
        check(info.spec);
        if let Some(status) = info.status {
            check(status);
        }
    }
}

/// The whole of the definitions is small: it is part of the program and of what is installed.
#[test]
fn definitions_are_compact() {
    let size: usize = crds().iter().map(|crd| crd.to_string().len()).sum();
    println!("{} definitions, {size} bytes of JSON", KINDS.len());
    assert!(size < 120_000, "{size}");
}
