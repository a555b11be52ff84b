//! The recorded scenarios.

use everflow_json::Value;

/// A scenario: its name, its text and what it says.
pub struct Scenario {
    pub name: String,
    pub text: String,
    pub json: Value,
}

/// All scenarios by name; none when there are no recordings here.
pub fn scenarios() -> Vec<Scenario> {
    let Some(directory) = everflow_corpus::find("flux/helmrelease") else {
        return Vec::new();
    };
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let scenario = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        Scenario {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            json: everflow_json::from_str(&text).unwrap(),
            text,
        }
    };
    files.into_iter().map(scenario).collect()
}

/// The steps with facts, by number.
pub fn steps(scenario: &Value) -> impl Iterator<Item = (usize, &Value)> {
    let steps = scenario["steps"].as_array().into_iter().flatten();
    steps
        .enumerate()
        .filter(|(_, step)| step.get("then").is_some())
}

/// The HelmReleases after a step.
pub fn releases(step: &Value) -> impl Iterator<Item = &Value> {
    let objects = step["then"]["flux"].as_array().into_iter().flatten();
    objects.filter(|object| object["kind"] == "HelmRelease")
}

/// The records after a step that can be read.
pub fn records(step: &Value) -> impl Iterator<Item = &Value> {
    let secrets = step["then"]["releaseSecrets"]
        .as_array()
        .into_iter()
        .flatten();
    secrets.filter(|secret| secret["release"]["info"].is_object())
}

/// Items of a list, none when it is something else.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
