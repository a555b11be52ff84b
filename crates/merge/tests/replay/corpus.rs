//! Reads the recorded scenarios.

use std::path::{Path, PathBuf};

use everflow_json::Value;

/// The directory of the recorded API server, when it is there.
pub fn directory() -> Option<PathBuf> {
    everflow_corpus::find("apiserver")
}

/// A recorded scenario.
pub struct Scenario {
    pub id: String,
    pub strict_time: bool,
    pub setup: Vec<Value>,
    pub steps: Vec<Value>,
}

/// All scenarios of an area, sorted by name, with their variables made concrete.
pub fn scenarios(root: &Path, area: &str) -> Vec<Scenario> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(root.join("scenarios").join(area))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.iter().map(|file| load(root, area, file)).collect()
}

fn load(root: &Path, area: &str, file: &Path) -> Scenario {
    let text = std::fs::read_to_string(file).unwrap();
    let mut whole: Value = everflow_json::from_str(&text).unwrap();
    concrete(&mut whole);
    let list = |key: &str| {
        whole
            .get(key)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let mut setup = list("setup");
    for request in &mut setup {
        if let Some(name) = request.get("body_file").and_then(Value::as_str) {
            let body = std::fs::read_to_string(root.join(name)).unwrap();
            request["body"] = everflow_json::from_str(&body).unwrap();
        }
    }
    Scenario {
        id: format!("{area}/{}", file.file_stem().unwrap().to_string_lossy()),
        strict_time: whole
            .get("strict_time")
            .is_some_and(|strict| strict != &Value::Bool(false)),
        setup,
        steps: list("steps"),
    }
}

/// Gives variables values of the right kind: times in the order of their numbers, ports as
/// integers. The others are fine as they stand.
fn concrete(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(number) = variable(text, "$nodeport") {
                *value = Value::from(30_000 + number);
            } else if text.contains("$time") {
                *text = with_times(text).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(concrete),
        Value::Object(map) => map.values_mut().for_each(concrete),
        _ => {}
    }
}

fn variable(text: &str, prefix: &str) -> Option<u32> {
    text.strip_prefix(prefix)?.parse().ok()
}

fn with_times(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("$time") {
        out.push_str(&rest[..at]);
        let digits: String = rest[at + 5..]
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        let number: u32 = digits.parse().unwrap_or(0);
        out.push_str(&format!(
            "2026-01-01T00:{:02}:{:02}Z",
            number / 60,
            number % 60
        ));
        rest = &rest[at + 5 + digits.len()..];
    }
    out.push_str(rest);
    out
}
