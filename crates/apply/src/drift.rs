//! Whether a live object differs from what applying would make of it.

use std::cell::Cell;

use everflow_api::common::IgnoreRule;
use everflow_json::{Map, Value, json};
use everflow_schema::selectors::LabelSelector;
use regex::{Regex, RegexBuilder};

use crate::ObjectId;
use crate::error::ApplyError;

/// Whether they differ in labels, annotations or anything beside metadata and status.
pub fn differs(live: &Value, wanted: &Value, ignore: &Ignore) -> bool {
    let paths = ignore.paths(wanted);
    if paths.is_empty() {
        return differ(live, wanted);
    }
    let (mut live, mut wanted) = (live.clone(), wanted.clone());
    for path in &paths {
        remove(&mut live, path);
        remove(&mut wanted, path);
    }
    differ(&live, &wanted)
}

fn differ(live: &Value, wanted: &Value) -> bool {
    let empty = Map::new();
    let entries = |object: &Value, place: &str| {
        let entries = object["metadata"][place].as_object();
        entries.unwrap_or(&empty).clone()
    };
    for place in ["labels", "annotations"] {
        if entries(live, place) != entries(wanted, place) {
            return true;
        }
    }
    let rest = |object: &Value| {
        let mut rest = object.as_object().cloned().unwrap_or_default();
        rest.remove("metadata");
        rest.remove("status");
        rest
    };
    rest(live) != rest(wanted)
}

/// The rules of `spec.ignore`.
#[derive(Debug, Clone, Default)]
pub struct Ignore {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    paths: Vec<String>,
    whole: bool,
    target: Target,
}

#[derive(Debug, Clone, Default)]
struct Target {
    group: Option<Regex>,
    version: Option<Regex>,
    kind: Option<Regex>,
    name: Option<Regex>,
    namespace: Option<Regex>,
    labels: LabelSelector,
    annotations: LabelSelector,
}

/// What the expressions of all rules may take, in bytes, and what one is counted as: the least of these that it fits
/// into.
const EXPRESSIONS: usize = 4 << 20;
const SIZES: [usize; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];

/// Compiles an expression in what is `left` for those of all rules.
fn compiled(text: &str, left: &Cell<usize>) -> Result<Regex, String> {
    let whole = format!("^(?:{text})$");
    for bytes in SIZES {
        let Some(rest) = left.get().checked_sub(bytes) else {
            break;
        };
        let built = RegexBuilder::new(&whole)
            .size_limit(bytes)
            .dfa_size_limit(bytes)
            .build();
        match built {
            Ok(regex) => {
                left.set(rest);
                return Ok(regex);
            }
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Err(format!(
        "{text:?}: the expressions of all rules may take {} MiB together: use fewer or simpler ones",
        EXPRESSIONS >> 20
    ))
}

impl Ignore {
    /// Reads the rules; an empty path stands for the whole object.
    ///
    /// # Errors
    /// As [`Ignore::read`].
    pub fn read_with_whole(rules: &[IgnoreRule]) -> Result<Self, ApplyError> {
        let mut rules = rules.to_vec();
        let mut whole = Vec::with_capacity(rules.len());
        for rule in &mut rules {
            whole.push(rule.paths.iter().any(String::is_empty));
            rule.paths.retain(|path| !path.is_empty());
        }
        let mut read = Ignore::read(&rules)?;
        for (rule, whole) in read.rules.iter_mut().zip(whole) {
            rule.whole = whole;
        }
        Ok(read)
    }

    /// Whether an object is left to others as a whole.
    pub fn covers(&self, object: &Value) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.whole && rule.target.matches(object))
    }

    /// Reads the rules.
    ///
    /// # Errors
    /// Names the rule with an expression, selector or path that cannot be read.
    pub fn read(rules: &[IgnoreRule]) -> Result<Self, ApplyError> {
        let mut read = Vec::with_capacity(rules.len());
        let left = Cell::new(EXPRESSIONS);
        for (at, rule) in rules.iter().enumerate() {
            let wrong = |why: String| ApplyError::Ignore { at, why };
            if let Some(path) = rule.paths.iter().find(|path| !path.starts_with('/')) {
                return Err(wrong(format!("path {path:?} does not begin with /")));
            }
            let target = match &rule.target {
                None => Target::default(),
                Some(target) => {
                    let expression = |text: &Option<String>| match text.as_deref() {
                        None | Some("") => Ok(None),
                        Some(text) => compiled(text, &left).map(Some).map_err(wrong),
                    };
                    let selector = |text: &Option<String>| {
                        LabelSelector::parse(text.as_deref().unwrap_or_default())
                            .map_err(|error| wrong(error.to_string()))
                    };
                    Target {
                        group: expression(&target.group)?,
                        version: expression(&target.version)?,
                        kind: expression(&target.kind)?,
                        name: expression(&target.name)?,
                        namespace: expression(&target.namespace)?,
                        labels: selector(&target.label_selector)?,
                        annotations: selector(&target.annotation_selector)?,
                    }
                }
            };
            read.push(Rule {
                paths: rule.paths.clone(),
                whole: false,
                target,
            });
        }
        Ok(Ignore { rules: read })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The paths of an object that are left to others.
    pub fn paths(&self, object: &Value) -> Vec<&str> {
        let matching = self.rules.iter().filter(|rule| rule.target.matches(object));
        matching
            .flat_map(|rule| rule.paths.iter().map(String::as_str))
            .collect()
    }

    /// What is applied instead of `desired`: fields that are left to others and differ are taken
    /// out where another has applied them, else they keep their live value.
    pub fn yielding(&self, desired: &Value, live: &Value, wanted: &Value, manager: &str) -> Value {
        let mut desired = desired.clone();
        for path in self.paths(wanted) {
            let (is, would_be) = (live.pointer(path), wanted.pointer(path));
            if is == would_be {
                continue;
            }
            match is {
                Some(is) if !applied_by_another(live, path, manager) => {
                    if let Some(value) = desired.pointer_mut(path) {
                        *value = is.clone();
                    }
                }
                _ => remove(&mut desired, path),
            }
        }
        desired
    }
}

impl Target {
    fn matches(&self, object: &Value) -> bool {
        let id = ObjectId::of(object);
        let version = crate::object::version(object);
        let fits = |expression: &Option<Regex>, text: &str| {
            expression
                .as_ref()
                .is_none_or(|expression| expression.is_match(text))
        };
        let annotations = json!({"metadata": {"labels": object["metadata"]["annotations"]}});
        fits(&self.group, &id.group)
            && fits(&self.version, version)
            && fits(&self.kind, &id.kind)
            && fits(&self.name, &id.name)
            && fits(&self.namespace, &id.namespace)
            && self.labels.matches(object)
            && self.annotations.matches(&annotations)
    }
}

/// Removes what a pointer points to.
pub fn remove(object: &mut Value, path: &str) {
    let Some((parent, last)) = path.rsplit_once('/') else {
        return;
    };
    let last = last.replace("~1", "/").replace("~0", "~");
    match object.pointer_mut(parent) {
        Some(Value::Object(map)) => {
            map.remove(&last);
        }
        Some(Value::Array(items)) => {
            if let Ok(at) = last.parse::<usize>()
                && at < items.len()
            {
                items.remove(at);
            }
        }
        _ => {}
    }
}

/// Whether someone else than `manager` has applied the field.
fn applied_by_another(live: &Value, path: &str, manager: &str) -> bool {
    let entries = live.pointer("/metadata/managedFields");
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    let mut applied = entries.filter(|entry| {
        entry["operation"] == "Apply"
            && entry["manager"] != manager
            && entry["subresource"].as_str().unwrap_or_default().is_empty()
    });
    applied.any(|entry| has_field(&entry["fieldsV1"], live, path))
}

fn has_field(fields: &Value, live: &Value, path: &str) -> bool {
    let (mut fields, mut live) = (Some(fields), Some(live));
    for step in path.trim_start_matches('/').split('/') {
        let step = step.replace("~1", "/").replace("~0", "~");
        let Some(here) = fields else {
            return false;
        };
        let item = step
            .parse::<usize>()
            .ok()
            .and_then(|at| live?.as_array()?.get(at));
        fields = match item {
            Some(item) => keyed(here, item),
            None => here.get(format!("f:{step}")),
        };
        live = match item {
            Some(item) => Some(item),
            None => live.and_then(|live| live.get(&step)),
        };
    }
    fields.is_some()
}

/// The fields of a list's item.
fn keyed<'f>(fields: &'f Value, item: &Value) -> Option<&'f Value> {
    let fits = |key: &str| {
        let Some(key) = key.strip_prefix("k:") else {
            return false;
        };
        let key: Value = everflow_json::from_str(key).unwrap_or_default();
        key.as_object().is_some_and(|key| {
            key.iter()
                .all(|(name, value)| item.get(name) == Some(value))
        })
    };
    let mut fields = fields.as_object()?.iter();
    fields.find(|(key, _)| fits(key)).map(|(_, below)| below)
}

#[cfg(test)]
mod expression_tests {
    use super::*;

    #[test]
    fn expressions_of_all_rules_have_a_bound_together() {
        let left = Cell::new(EXPRESSIONS);
        for _ in 0..300 {
            assert!(compiled("web-.*", &left).is_ok());
        }
        let large: Vec<_> = (0..300)
            .map(|number| compiled(&format!("(a{{1,90}}){{1,9}}{number}"), &left))
            .collect();
        let error = large.into_iter().find_map(Result::err).unwrap();
        assert!(error.contains("4 MiB together"), "{error}");
        let huge = compiled("((a{1,100}){1,100}){1,100}", &Cell::new(EXPRESSIONS));
        assert!(huge.unwrap_err().contains("4 MiB together"));
        assert!(compiled("(", &Cell::new(EXPRESSIONS)).is_err());
    }
}
