//! Licenses, sources and duplicates of all dependencies are those that `deny.toml` allows: without cargo-deny, which
//! need not be installed, and without the network. Advisories are left to `cargo deny check advisories`.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use everflow_json::Value;

const RULES: &str = include_str!("../../../deny.toml");
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The texts of a list in `deny.toml`.
fn list(name: &str) -> Vec<&'static str> {
    let begin = format!("\n{name} = [\n");
    let (_, rest) = RULES.split_once(&begin).unwrap();
    let (list, _) = rest.split_once("\n]").unwrap();
    let lines = list.lines().map(str::trim);
    let texts = lines.filter(|line| !line.starts_with('#'));
    texts.map(|line| line.trim_matches([',', '"'])).collect()
}

fn output(command: &str, arguments: &[&str]) -> String {
    let output = Command::new(command)
        .args(arguments)
        .current_dir(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// What the workspace is built from on this machine.
fn packages() -> Vec<Value> {
    let versions = output("rustc", &["-vV"]);
    let host = versions
        .lines()
        .find_map(|line| line.strip_prefix("host: "));
    let arguments = ["metadata", "--format-version=1", "--locked", "--offline"];
    let platform = ["--filter-platform", host.unwrap()];
    let metadata = output(env!("CARGO"), &[&arguments[..], &platform].concat());
    let metadata: Value = everflow_json::from_str(&metadata).unwrap();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let used: BTreeSet<&str> = nodes
        .iter()
        .map(|node| node["id"].as_str().unwrap())
        .collect();
    let all = metadata["packages"].as_array().unwrap().iter();
    let foreign = all.filter(|package| {
        used.contains(package["id"].as_str().unwrap()) && !package["source"].is_null()
    });
    foreign.cloned().collect()
}

/// Whether an expression of licenses holds with those that are allowed.
fn holds(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    any(&mut words, allowed)
}

type Words<'w, 'e> = &'w mut std::iter::Peekable<std::str::SplitWhitespace<'e>>;

fn any(words: Words<'_, '_>, allowed: &[&str]) -> bool {
    let mut holds = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        holds |= all(words, allowed);
    }
    holds
}

fn all(words: Words<'_, '_>, allowed: &[&str]) -> bool {
    let mut holds = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        holds &= one(words, allowed);
    }
    holds
}

fn one(words: Words<'_, '_>, allowed: &[&str]) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let holds = any(words, allowed);
        assert_eq!(words.next(), Some(")"));
        return holds;
    }
    let mut license = words.next().unwrap().to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        license = format!("{license} WITH {}", words.next().unwrap());
    }
    allowed.contains(&&*license)
}

#[test]
fn expressions_of_licenses_are_read() {
    let allowed = ["MIT", "ISC"];
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("MIT WITH x", false),
    ] {
        assert_eq!(holds(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn dependencies_have_licenses_that_are_allowed() {
    let allowed = list("allow");
    let packages = packages();
    assert!(packages.len() > 100);
    let mut unused: BTreeSet<&str> = allowed.iter().copied().collect();
    for package in &packages {
        let (name, license) = (&package["name"], package["license"].as_str());
        let license = license.unwrap_or_else(|| panic!("{name} names no license"));
        assert!(holds(license, &allowed), "{name}: {license}");
        unused.retain(|allowed| !license.contains(allowed));
    }
    assert!(unused.is_empty(), "needed by nothing: {unused:?}");
}

#[test]
fn dependencies_come_from_the_registry() {
    for package in packages() {
        assert_eq!(
            package["source"].as_str(),
            Some(REGISTRY),
            "{}",
            package["name"]
        );
    }
}

#[test]
fn crates_are_there_once_unless_listed() {
    let mut versions = BTreeMap::<String, Vec<String>>::new();
    for package in packages() {
        let text = |field: &str| package[field].as_str().unwrap().to_owned();
        versions
            .entry(text("name"))
            .or_default()
            .push(text("version"));
    }
    let mut skipped: BTreeSet<&str> = list("skip").into_iter().collect();
    let mut wrong = Vec::new();
    for (name, versions) in &versions {
        let mut count = versions.len();
        skipped.retain(|entry| {
            let (crate_name, version) = entry.split_once('@').unwrap();
            let listed = |found: &&String| found.starts_with(&format!("{version}."));
            let found = crate_name == name && versions.iter().any(|found| listed(&found));
            count -= usize::from(found);
            !found
        });
        if count > 1 {
            wrong.push(format!("{name} {versions:?}"));
        }
    }
    assert!(wrong.is_empty(), "more than once: {wrong:#?}");
    assert!(skipped.is_empty(), "listed for nothing: {skipped:?}");
}
