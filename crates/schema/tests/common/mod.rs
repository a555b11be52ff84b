//! Finds the shared corpus.

#![allow(clippy::unwrap_used, clippy::print_stderr, dead_code)]

use std::path::PathBuf;

/// The directory of a corpus, or nothing after saying in one line what is skipped.
pub fn corpus(name: &str) -> Option<PathBuf> {
    let found = match std::env::var_os("EVERFLOW_CORPUS") {
        Some(root) => Some(PathBuf::from(root)),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .map(|above| above.join("shared/corpus"))
            .find(|path| path.is_dir()),
    };
    let path = found
        .map(|root| root.join(name))
        .filter(|path| path.is_dir());
    if path.is_none() {
        eprintln!("skipped: the corpus {name} is not here (set EVERFLOW_CORPUS to its parent)");
    }
    path
}

/// The lines of a JSON-lines file.
pub fn json_lines(path: &std::path::Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
