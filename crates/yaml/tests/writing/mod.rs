//! What the conformance tests of the writers share: the corpus and the tally of a run.
#![allow(clippy::expect_used, clippy::print_stdout)]

use everflow_json::Value;
use std::collections::BTreeMap;

/// The cases of one corpus file, or `None` with a line saying so when it is not on this machine.
pub fn cases(file: &str) -> Option<Vec<Value>> {
    let text = std::fs::read_to_string(everflow_corpus::find(&format!("yaml/{file}"))?).ok()?;
    let cases = text
        .lines()
        .map(|line| everflow_json::from_str(line).expect("a case is one JSON object"))
        .collect();
    Some(cases)
}

/// Whether an answer is (one of) the recorded one(s).
pub fn agrees(recorded: &Value, answer: &Result<String, String>) -> bool {
    if let Some(choices) = recorded.get("one_of").and_then(Value::as_array) {
        return choices.iter().any(|choice| agrees(choice, answer));
    }
    let text = |field: &str| recorded.get(field).and_then(Value::as_str);
    match answer {
        Ok(answer) => text("text").or(text("json")) == Some(answer),
        Err(error) => text("error") == Some(error),
    }
}

/// The outcome of a run over a corpus file.
#[derive(Default)]
pub struct Tally {
    checked: usize,
    failures: BTreeMap<String, String>,
}

impl Tally {
    /// Compares one answer; `name` is the case's id with the field's name.
    pub fn check(&mut self, name: String, recorded: &Value, answer: &Result<String, String>) {
        self.checked += 1;
        if !agrees(recorded, answer) {
            let failure = format!("want {recorded}\n     got {answer:?}");
            self.failures.insert(name, failure);
        }
    }

    /// Fails if an unlisted case failed or a listed one passed. `known` holds lines of
    /// `name: reason`.
    pub fn finish(self, file: &str, known: &str) {
        let known: BTreeMap<&str, &str> = known
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .filter_map(|line| line.split_once(": "))
            .collect();
        println!(
            "{file}: {} answers, {} mismatches, {} known",
            self.checked,
            self.failures.len(),
            known.len()
        );
        let unexpected: Vec<_> = self
            .failures
            .iter()
            .filter(|(name, _)| !known.contains_key(name.as_str()))
            .collect();
        for (name, failure) in unexpected.iter().take(40) {
            println!("{name}: {failure}");
        }
        let repaired: Vec<_> = known
            .keys()
            .filter(|name| !self.failures.contains_key(**name))
            .collect();
        assert!(unexpected.is_empty(), "{} new mismatches", unexpected.len());
        assert!(repaired.is_empty(), "listed but passing: {repaired:?}");
    }
}
