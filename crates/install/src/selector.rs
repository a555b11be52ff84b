//! Label selectors, as kubectl reads them and as objects have them.

use everflow_json::{Map, Value, json};

use crate::error::Error;

/// Which pods are meant.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelSelector(Value);

impl LabelSelector {
    /// A selector as it stands in objects.
    pub fn of(value: Value) -> Self {
        LabelSelector(value)
    }

    /// As it stands in objects.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// Reads what kubectl reads: `a=b,c!=d,e in (f,g),h,!i`.
    ///
    /// # Errors
    /// Names the part that cannot be read.
    pub fn parse(option: &'static str, text: &str) -> Result<Self, Error> {
        let mut labels = Map::new();
        let mut expressions = Vec::new();
        for part in parts(text) {
            match requirement(part) {
                Some(Requirement::Equal(key, value)) => {
                    labels.insert(key.into(), json!(value));
                }
                Some(Requirement::Expression(expression)) => expressions.push(expression),
                None => {
                    let why = format!(
                        "{part:?} is not a label selector: write it as app=spire-server or \
                         tier in (identity,dns)"
                    );
                    return Err(Error::option(option, why));
                }
            }
        }
        if labels.is_empty() && expressions.is_empty() {
            return Err(Error::option(option, "an empty selector selects all pods"));
        }
        let mut selector = json!({});
        if !labels.is_empty() {
            selector["matchLabels"] = Value::Object(labels);
        }
        if !expressions.is_empty() {
            selector["matchExpressions"] = json!(expressions);
        }
        Ok(LabelSelector(selector))
    }
}

enum Requirement<'t> {
    Equal(&'t str, &'t str),
    Expression(Value),
}

/// The requirements: commas in brackets do not part them.
fn parts(text: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (place, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(&text[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    found.push(&text[start..]);
    let trimmed = found.into_iter().map(str::trim);
    trimmed.filter(|part| !part.is_empty()).collect()
}

fn requirement(part: &str) -> Option<Requirement<'_>> {
    let listed = |word: &str, operator: &str| {
        let (key, rest) = part.split_once(word)?;
        let values = rest.trim().strip_prefix('(')?.strip_suffix(')')?;
        let values: Vec<&str> = values.split(',').map(str::trim).collect();
        let expression = json!({"key": key.trim(), "operator": operator, "values": values});
        (is_key(key.trim()) && values.iter().all(|value| is_value(value))).then_some(expression)
    };
    if part.contains('(') {
        let found = listed(" notin ", "NotIn").or_else(|| listed(" in ", "In"));
        return found.map(Requirement::Expression);
    }
    if let Some((key, value)) = part.split_once("!=") {
        let (key, value) = (key.trim(), value.trim());
        let expression = json!({"key": key, "operator": "NotIn", "values": [value]});
        return (is_key(key) && is_value(value)).then_some(Requirement::Expression(expression));
    }
    if let Some((key, value)) = part.split_once('=') {
        let (key, value) = (key.trim(), value.trim_start_matches('=').trim());
        return (is_key(key) && is_value(value)).then_some(Requirement::Equal(key, value));
    }
    let (key, operator) = match part.strip_prefix('!') {
        Some(key) => (key.trim(), "DoesNotExist"),
        None => (part, "Exists"),
    };
    let expression = json!({"key": key, "operator": operator});
    is_key(key).then_some(Requirement::Expression(expression))
}

fn is_key(key: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    !key.is_empty() && key.chars().all(fits)
}

fn is_value(value: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    value.len() <= 63 && value.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_read_as_kubectl_reads_them() {
        let read = LabelSelector::parse("--x", "app=a, tier in (b, c),!d,e!=f,g").unwrap();
        let wanted = json!({
            "matchLabels": {"app": "a"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "c"]},
                {"key": "d", "operator": "DoesNotExist"},
                {"key": "e", "operator": "NotIn", "values": ["f"]},
                {"key": "g", "operator": "Exists"},
            ],
        });
        assert_eq!(read.value(), &wanted);
    }

    #[test]
    fn invalid_selectors_are_refused() {
        for text in ["", "a b", "a in b", "a=(", "=b"] {
            let error = LabelSelector::parse("--x", text).unwrap_err();
            assert_eq!(error.reason(), "InvalidOption", "{text}");
        }
    }
}
