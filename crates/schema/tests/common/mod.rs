//! Reads recordings.

#![allow(clippy::unwrap_used)]

/// The lines of a JSON-lines file.
pub fn json_lines(path: &std::path::Path) -> Vec<everflow_json::Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| everflow_json::from_str(line).unwrap())
        .collect()
}
