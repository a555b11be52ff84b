//! Compares an answer with a recorded one: variables are bound on first sight, some lists are sets.

use std::collections::BTreeMap;

use everflow_json::Value;

/// The variables of a scenario.
#[derive(Clone, Default)]
pub struct Bindings {
    values: BTreeMap<String, String>,
    pub strict_time: bool,
}

/// The letters and digits after a dollar sign that make a variable's name.
pub fn variable_at(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('$')?;
    let letters = rest.bytes().take_while(u8::is_ascii_lowercase).count();
    let digits = rest[letters..]
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count();
    let known = [
        "uid",
        "rv",
        "listrv",
        "bookmarkrv",
        "time",
        "name",
        "continue",
        "clusterip",
        "nodeport",
        "token",
        "age",
        "rand",
    ];
    (digits > 0 && known.contains(&&rest[..letters])).then(|| &text[..1 + letters + digits])
}

impl Bindings {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Puts known variables into a text.
    pub fn fill(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            match variable_at(rest) {
                Some(name) => {
                    let value = self.get(name).unwrap_or(name);
                    rest = &rest[name.len()..];
                    // A node port stands for a number.
                    if name.starts_with("$nodeport")
                        && filled.ends_with('"')
                        && rest.starts_with('"')
                    {
                        filled.pop();
                        rest = &rest[1..];
                    }
                    filled.push_str(value);
                }
                None => {
                    filled.push('$');
                    rest = &rest[1..];
                }
            }
        }
        filled + rest
    }

    fn is_loose(&self, name: &str) -> bool {
        name.starts_with("$age")
            || name.starts_with("$rand")
            || (name.starts_with("$time") && !self.strict_time)
    }

    fn bind(&mut self, name: &str, value: &str) -> Result<(), String> {
        if self.is_loose(name) {
            self.values
                .entry(name.to_owned())
                .or_insert_with(|| value.to_owned());
            return Ok(());
        }
        match self.values.get(name) {
            Some(known) if known == value => Ok(()),
            Some(known) => Err(format!("{name} is {known} but found {value}")),
            None => {
                if self.strict_time
                    && name.starts_with("$time")
                    && self
                        .values
                        .iter()
                        .any(|(other, known)| other.starts_with("$time") && known == value)
                {
                    return Err(format!("{name} has the time of another variable: {value}"));
                }
                self.values.insert(name.to_owned(), value.to_owned());
                Ok(())
            }
        }
    }

    /// Matches a text with variables in it.
    pub fn text(&mut self, expected: &str, actual: &str) -> Result<(), String> {
        let mismatch = || format!("expected {expected:?}, found {actual:?}");
        let Some(at) = first_variable(expected) else {
            return if expected == actual {
                Ok(())
            } else {
                Err(mismatch())
            };
        };
        let rest = actual.strip_prefix(&expected[..at]).ok_or_else(mismatch)?;
        let name = variable_at(&expected[at..]).ok_or_else(mismatch)?;
        let after = &expected[at + name.len()..];
        if let (Some(known), false) = (self.get(name).map(str::to_owned), self.is_loose(name)) {
            let rest = rest
                .strip_prefix(known.as_str())
                .ok_or_else(|| format!("{} ({name} is {known})", mismatch()))?;
            return self.text(after, rest).map_err(|_| mismatch());
        }
        if after.is_empty() {
            return self.bind(name, rest);
        }
        // The literal that follows tells where the variable ends.
        let literal = first_variable(after).map_or(after, |end| &after[..end]);
        let mut from = 0;
        while let Some(found) = rest[from..].find(literal) {
            let end = from + found;
            let mut attempt = self.clone();
            if attempt.bind(name, &rest[..end]).is_ok() && attempt.text(after, &rest[end..]).is_ok()
            {
                *self = attempt;
                return Ok(());
            }
            from = end + 1;
            if from > rest.len() || !rest.is_char_boundary(from) {
                break;
            }
        }
        Err(mismatch())
    }

    /// Compares two trees.
    pub fn value(&mut self, expected: &Value, actual: &Value, path: &str) -> Result<(), String> {
        match (expected, actual) {
            (Value::String(pattern), Value::Number(number))
                if pattern.starts_with("$nodeport")
                    || pattern.starts_with("$age")
                    || pattern.starts_with("$rand") =>
            {
                self.bind(pattern, &number.to_string())
            }
            (Value::String(pattern), _) if pattern.starts_with("$age") => Ok(()),
            (Value::String(pattern), Value::String(text)) => self
                .text(pattern, text)
                .map_err(|why| format!("{path}: {why}")),
            (Value::Object(expected), Value::Object(actual)) => {
                let mut expected_keys: BTreeMap<String, &Value> = expected
                    .iter()
                    .map(|(key, value)| (self.fill(key), value))
                    .collect();
                for (key, value) in actual {
                    match expected_keys.remove(key.as_str()) {
                        Some(wanted) => self.value(wanted, value, &format!("{path}.{key}"))?,
                        None => {
                            return Err(format!("{path}.{key}: not expected: {}", short(value)));
                        }
                    }
                }
                match expected_keys.pop_first() {
                    Some((key, value)) => {
                        Err(format!("{path}.{key}: missing, expected {}", short(value)))
                    }
                    None => Ok(()),
                }
            }
            (Value::Array(expected), Value::Array(actual)) => {
                if is_set(path, expected) {
                    return self.set(expected, actual, path);
                }
                for (index, (wanted, found)) in expected.iter().zip(actual).enumerate() {
                    self.value(wanted, found, &format!("{path}[{index}]"))?;
                }
                if expected.len() == actual.len() {
                    Ok(())
                } else {
                    Err(format!(
                        "{path}: expected {} items, found {}: {}",
                        expected.len(),
                        actual.len(),
                        short(&Value::Array(actual.clone()))
                    ))
                }
            }
            _ if expected == actual => Ok(()),
            _ => Err(format!(
                "{path}: expected {}, found {}",
                short(expected),
                short(actual)
            )),
        }
    }

    fn set(&mut self, expected: &[Value], actual: &[Value], path: &str) -> Result<(), String> {
        let mut open: Vec<&Value> = actual.iter().collect();
        for wanted in expected {
            let mut last = format!("{path}: nothing like {}", short(wanted));
            let mut matched = None;
            for (index, found) in open.iter().enumerate() {
                let mut attempt = self.clone();
                match attempt.value(wanted, found, path) {
                    Ok(()) => {
                        matched = Some((index, attempt));
                        break;
                    }
                    Err(why) if same_entry(wanted, found) || open.len() == 1 => last = why,
                    Err(_) => {}
                }
            }
            match matched {
                Some((index, attempt)) => {
                    open.remove(index);
                    *self = attempt;
                }
                None => return Err(last),
            }
        }
        match open.first() {
            Some(extra) => Err(format!("{path}: not expected: {}", short(extra))),
            None => Ok(()),
        }
    }
}

fn same_entry(left: &Value, right: &Value) -> bool {
    ["manager", "operation", "subresource"]
        .iter()
        .all(|key| left.get(key) == right.get(key))
}

fn first_variable(text: &str) -> Option<usize> {
    text.char_indices()
        .find(|(at, c)| *c == '$' && variable_at(&text[*at..]).is_some())
        .map(|(at, _)| at)
}

fn is_set(path: &str, expected: &[Value]) -> bool {
    path.ends_with(".managedFields")
        || path.ends_with(".resourceRules")
        || path.ends_with(".nonResourceRules")
        || (path.ends_with(".causes")
            && expected.iter().all(|cause| {
                cause.get("reason").and_then(Value::as_str) == Some("FieldManagerConflict")
            }))
}

pub fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= 300 {
        return text;
    }
    let cut = (0..=300)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or_default();
    format!("{}...", &text[..cut])
}
