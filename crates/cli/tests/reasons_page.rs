//! `docs/reasons.md` has a line for every reason in the code, and for no other.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../../docs/reasons.md");

/// What API servers say of single fields: Kubernetes' own words, which stand behind a reason.
const KUBERNETES: [&str; 2] = ["FieldValue", "InternalError"];

/// Reasons that are written where they arise.
const OTHERS: [&str; 8] = [
    "FinalizerFailed",
    "FinalizerNotRemoved",
    "NotSupportedYet",
    "Quarantined",
    "SecretUnread",
    "SkippedOffline",
    "StatusWriteFailed",
    "TokenNotFound",
];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
}

/// The body of a function that begins with these words, up to the brace that ends it.
fn bodies<'a>(text: &'a str, head: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for rest in text.split(head).skip(1) {
        let mut depth = 0_usize;
        for (at, letter) in rest.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 1 => {
                    found.push(&rest[..at]);
                    break;
                }
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    found
}

/// The texts in quotation marks that look like a reason.
fn quoted(body: &str) -> impl Iterator<Item = String> {
    let is_reason = |text: &&str| {
        text.starts_with(|c: char| c.is_ascii_uppercase())
            && text.chars().all(|c| c.is_ascii_alphanumeric())
    };
    let texts = body.split('"').skip(1).step_by(2).filter(is_reason);
    texts.map(str::to_owned).collect::<Vec<_>>().into_iter()
}

fn reasons_in_the_code() -> BTreeSet<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(crates).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut files);
    }
    let heads = ["reason", "code"].map(|name| {
        ["&self", "self"].map(|receiver| format!("pub fn {name}({receiver}) -> &'static str "))
    });
    let mut found: BTreeSet<String> = OTHERS.iter().map(|other| (*other).to_owned()).collect();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for head in heads.iter().flatten() {
            found.extend(bodies(&text, head).into_iter().flat_map(quoted));
        }
    }
    found.extend(
        everflow_api::Reason::ALL
            .iter()
            .map(|reason| reason.as_str().to_owned()),
    );
    found.retain(|reason| !KUBERNETES.iter().any(|word| reason.starts_with(word)));
    found
}

/// The first cells of the tables.
fn reasons_in_the_page() -> Vec<String> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.split(" | ").next().unwrap());
    cells
        .flat_map(|cell| cell.split('`').step_by(2))
        .filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric()) && !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_reason_in_the_code_has_a_line_in_the_page() {
    let code = reasons_in_the_code();
    assert!(code.len() > 200, "{}", code.len());
    let listed = reasons_in_the_page();
    let page: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(
        page.len(),
        listed.len(),
        "a reason stands twice in docs/reasons.md"
    );
    let missing: Vec<&String> = code.difference(&page).collect();
    let gone: Vec<&String> = page.difference(&code).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "docs/reasons.md lacks {missing:?} and has {gone:?}, which are not in the code"
    );
}

/// A reason that says that something failed says what to do about it.
#[test]
fn failures_have_a_remedy() {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `"));
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        assert!(cells.len() >= 2, "{row}");
        let is_failure = ["Failed", "Error", "Invalid", "Err`"]
            .iter()
            .any(|word| cells[0].contains(word));
        let remedy = cells.get(2).map(|cell| cell.trim()).unwrap_or_default();
        assert!(!is_failure || !remedy.is_empty(), "{row}");
    }
}

/// The reasons that are written where they arise are still written there.
#[test]
fn other_reasons_are_in_the_code() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for name in ["controllers", "dispatch", "local", "runtime"] {
        sources(&crates.join(name).join("src"), &mut files);
    }
    let texts: Vec<String> = files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    for other in OTHERS {
        let quoted = format!("\"{other}\"");
        assert!(texts.iter().any(|text| text.contains(&quoted)), "{other}");
    }
}
