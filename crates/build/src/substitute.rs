//! Variables in built objects.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use everflow_envsubst::Cause;
use everflow_json::Value;
use everflow_limits::{Budget, Exceeded};
use everflow_yaml::{cost, sigs};

use crate::placeholder;

/// The label or annotation that keeps variables out of an object.
const OPT_OUT: &str = "kustomize.toolkit.fluxcd.io/substitute";
/// What names of variables must look like, as messages print it.
const NAME_PATTERN: &str = "^[_[:alpha:]][_[:alpha:][:digit:]]*$";

/// Adds variables of a ConfigMap, of a Secret or of the Kustomization itself; they win over those
/// that are there. Line breaks in values are dropped, as Flux drops them.
pub fn add_variables<'a>(
    variables: &mut BTreeMap<String, String>,
    more: impl IntoIterator<Item = (&'a String, &'a String)>,
) {
    for (name, value) in more {
        variables.insert(name.clone(), value.replace('\n', ""));
    }
}

/// Variables and how to treat missing ones.
pub struct Variables<'a> {
    pub values: &'a BTreeMap<String, String>,
    pub strict: bool,
    /// Whether a variable without value and default gets a placeholder.
    pub placeholders: bool,
    /// Why there are none.
    pub missing: Option<&'a str>,
    pub budget: &'a Budget,
}

/// Why variables cannot be put in.
pub enum Fault {
    Problem {
        text: String,
        /// The variable without a value.
        variable: Option<String>,
    },
    /// It would cost more than it may.
    Exceeded(Exceeded),
}

impl From<Exceeded> for Fault {
    fn from(exceeded: Exceeded) -> Self {
        Fault::Exceeded(exceeded)
    }
}

/// Whether an object wants no variables.
pub fn opts_out(object: &Value) -> bool {
    ["labels", "annotations"]
        .iter()
        .any(|field| object["metadata"][field][OPT_OUT] == "disabled")
}

impl Variables<'_> {
    /// Puts the variables into the YAML of an object. The new object is not charged yet.
    pub fn apply(&self, yaml: &str) -> Result<Value, Fault> {
        self.budget.check()?;
        let fault = |text: String| Fault::Problem {
            text,
            variable: None,
        };
        if let Some(text) = self.missing {
            return Err(fault(text.to_owned()));
        }
        if let Some(name) = self.values.keys().find(|name| !is_name(name)) {
            return Err(fault(format!(
                "envsubst error: '{name}' var name is invalid, must match '{NAME_PATTERN}'"
            )));
        }
        let text = self.substituted(yaml)?;
        let _text = self.budget.hold(text.len())?;
        let (_held, limits) = cost::reading(self.budget, text.as_bytes())?;
        let json = sigs::to_json(text.as_bytes(), false, limits)
            .map_err(|error| fault(format!("envsubst error: YAMLToJSON: {error}")))?;
        match json {
            Value::Object(_) => Ok(json),
            _ => Err(fault(
                "UnmarshalJSON: the object is none any more after substitution".to_owned(),
            )),
        }
    }
}

impl Variables<'_> {
    fn substituted(&self, yaml: &str) -> Result<String, Fault> {
        let mut made_up: BTreeSet<String> = BTreeSet::new();
        loop {
            let known = |name: &str| match self.values.get(name) {
                _ if made_up.contains(name) => Some(placeholder::of_variable(name).into()),
                Some(value) => Some(Cow::from(value)),
                None if self.strict => None,
                None => Some(Cow::default()),
            };
            let fault = match everflow_envsubst::substitute(yaml, &known, self.budget) {
                Ok(text) => return Ok(text),
                Err(fault) => fault,
            };
            if let Cause::Exceeded(exceeded) = fault.cause {
                return Err(exceeded.into());
            }
            let text = format!("envsubst error: variable substitution failed: {fault}");
            let variable = match fault.cause {
                Cause::NotSet(name) => Some(name),
                _ => None,
            };
            match &variable {
                // Each round has one more.
                Some(name) if self.placeholders && made_up.insert(name.clone()) => {}
                _ => return Err(Fault::Problem { text, variable }),
            }
        }
    }
}

/// Whether a variable can have this name.
pub fn is_name(name: &str) -> bool {
    let is_first = |c: char| c == '_' || c.is_ascii_alphabetic();
    name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variables() {
        for name in ["a", "_", "A1_b"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "1a", "a-b", "a.b", "ä", "a b"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
