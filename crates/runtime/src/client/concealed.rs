//! Texts that are not repeated from a server's errors.

use std::collections::BTreeSet;
use std::fmt;

use everflow_json::Value;

/// Shorter texts are not looked for: they would be found in words that have nothing to do with them.
const SHORTEST: usize = 6;
/// What stands in their place.
const SHOWN: &str = "(a value of a Secret)";

/// Values of Secrets that went into what is sent to a server, whose errors would repeat them.
#[derive(Default, Clone, PartialEq, Eq)]
pub struct Concealed(BTreeSet<String>);

impl fmt::Debug for Concealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Concealed({} texts)", self.0.len())
    }
}

impl Concealed {
    /// Adds a text. Errors print texts of several lines in ways of their own, so each line counts.
    pub fn add(&mut self, text: &str) {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| line.len() >= SHORTEST);
        self.0.extend(lines.map(str::to_owned));
    }

    /// Adds all texts of a tree that are no keys.
    pub fn add_texts_of(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add(text),
            Value::Array(items) => items.iter().for_each(|item| self.add_texts_of(item)),
            Value::Object(map) => map.iter().for_each(|(_, value)| self.add_texts_of(value)),
            _ => {}
        }
    }

    /// A message without them.
    pub fn hide(&self, message: &str) -> String {
        let mut found: Vec<&String> = self
            .0
            .iter()
            .filter(|text| message.contains(*text))
            .collect();
        // One may be part of another.
        found.sort_by_key(|text| std::cmp::Reverse(text.len()));
        let hide = |message: String, text: &String| message.replace(text.as_str(), SHOWN);
        found.into_iter().fold(message.to_owned(), hide)
    }

    /// A tree without them.
    pub(super) fn hide_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => *value = self.hide(text).into(),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in(item)),
            Value::Object(map) => map.iter_mut().for_each(|(_, value)| self.hide_in(value)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn values_of_secrets_are_not_repeated() {
        let mut concealed = Concealed::default();
        concealed.add("hunter2\n  second line\nab\n");
        concealed.add_texts_of(&json!({"password": ["hunter22"], "port": 8080, "on": "true"}));
        let message =
            "Invalid value: \"hunter22\": \"hunter2\\n  second line\" is not true, password 8080";
        assert_eq!(
            concealed.hide(message),
            "Invalid value: \"(a value of a Secret)\": \"(a value of a Secret)\\n  (a value of a Secret)\" is \
             not true, password 8080"
        );
        let mut details = json!({"causes": [{"message": "hunter2", "field": "spec.password"}]});
        concealed.hide_in(&mut details);
        assert_eq!(
            details,
            json!({"causes": [{"message": "(a value of a Secret)", "field": "spec.password"}]})
        );
        assert_eq!(format!("{concealed:?}"), "Concealed(3 texts)");
    }
}
