//! What CONTRIBUTING says of adding a kind is true of the kinds that there are: one table names them, and whatever knows
//! kinds knows these.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use everflow_api::KINDS;
use everflow_controllers::{ControllerKind, resources};
use everflow_dispatch::resources as notifications;
use everflow_runtime::client::Resource;

/// Every collection of Flux's that the engine is about.
const COLLECTIONS: [Resource; 11] = [
    resources::GIT_REPOSITORIES,
    resources::OCI_REPOSITORIES,
    resources::BUCKETS,
    resources::HELM_REPOSITORIES,
    resources::HELM_CHARTS,
    resources::EXTERNAL_ARTIFACTS,
    resources::KUSTOMIZATIONS,
    resources::HELM_RELEASES,
    resources::RECEIVERS,
    notifications::ALERTS,
    notifications::PROVIDERS,
];

fn text_of(path: &str) -> String {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// The numbered steps of "Adding a kind".
fn steps() -> Vec<String> {
    let text = text_of("CONTRIBUTING.md");
    let (_, section) = text.split_once("\n## Adding a kind\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let (_, steps) = section.split_once("\n1. ").unwrap();
    let numbered = |line: &str| {
        line.split_once(". ")
            .is_some_and(|(n, _)| n.parse::<u8>().is_ok())
    };
    let mut all = vec![String::new()];
    for line in steps.lines() {
        if numbered(line) {
            all.push(String::new());
        }
        let last = all.last_mut().unwrap();
        last.push_str(line);
        last.push(' ');
    }
    all
}

#[test]
fn every_kind_of_the_table_has_its_collection() {
    let collections = COLLECTIONS;
    for info in KINDS {
        let found = collections.iter().find(|known| known.kind == info.kind);
        let found = found.unwrap_or_else(|| panic!("{} has no collection", info.kind));
        assert_eq!(
            (&*found.group, &*found.version, &*found.plural),
            (info.group, info.version, info.plural)
        );
    }
    assert_eq!(COLLECTIONS.len(), KINDS.len());
}

#[test]
fn every_controller_reconciles_a_kind_of_the_table() {
    for kind in ControllerKind::ALL {
        assert!(COLLECTIONS.contains(&kind.resource()), "{kind}");
    }
}

#[test]
fn every_kind_of_the_table_has_its_columns_among_the_verbs() {
    let verbs = text_of("crates/cli/src/flux/kinds.rs");
    for info in KINDS {
        assert!(
            verbs.contains(&format!("\"{}\"", info.kind)),
            "{}",
            info.kind
        );
    }
}

/// Each step names places by a file and a word that stands in it; both are still there.
#[test]
fn the_worked_example_names_what_there_is() {
    let steps = steps();
    assert_eq!(steps.len(), 7, "{steps:#?}");
    let mut places = 0;
    for step in &steps {
        let mut text = String::new();
        for quoted in step.split('`').skip(1).step_by(2) {
            if let Some(path) = quoted.strip_prefix("crates/") {
                let path = format!("crates/{path}");
                let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
                assert!(root.join(&path).exists(), "{path}");
                if path.ends_with(".rs") {
                    text.push_str(&text_of(&path));
                }
            } else if quoted
                .chars()
                .all(|c| c.is_alphanumeric() || "_!".contains(c))
                && quoted != "Widget"
            {
                assert!(
                    text.contains(quoted),
                    "{quoted} is in no file named before it: {step}"
                );
                places += 1;
            }
        }
    }
    assert!(places >= 8, "{places}");
}
