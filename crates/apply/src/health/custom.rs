//! Health by expressions that the user gives.

use everflow_api::common::CustomHealthCheck;
use everflow_cel::{EvalError, Program, Value as Cel, Variables};
use everflow_json::Value;
use everflow_time::Timestamp;
use regex::Regex;
use thiserror::Error;

use super::{Assessment, Health, assess};
use crate::object::GroupKind;

/// Expressions that make no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CheckError {
    /// One cannot be read.
    #[error(
        "failed to create custom status evaluator for healthchecks[{at}]: failed to parse the expression {which}: failed to parse the CEL expression '{text}': {why}"
    )]
    Expression {
        /// Which check.
        at: usize,
        /// `InProgress`, `Failed` or `Current`.
        which: &'static str,
        /// The expression.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// Two are for the same kind.
    #[error("duplicate custom status evaluator for healthchecks[{at}]: {kind}")]
    Duplicate {
        /// Which check.
        at: usize,
        /// The kind.
        kind: String,
    },
}

impl CheckError {
    /// Which check it is about.
    pub fn at(&self) -> usize {
        match self {
            CheckError::Expression { at, .. } | CheckError::Duplicate { at, .. } => *at,
        }
    }
}

/// The expressions for some kinds; all others go by kstatus.
#[derive(Debug, Clone, Default)]
pub struct CustomChecks {
    checks: Vec<Check>,
}

#[derive(Debug, Clone)]
struct Check {
    /// The kind is empty for a whole group.
    kind: GroupKind,
    in_progress: Option<Program>,
    failed: Option<Program>,
    current: Program,
}

impl CustomChecks {
    /// Reads expressions.
    ///
    /// # Errors
    /// Names the expression that cannot be read.
    pub fn read(checks: &[CustomHealthCheck]) -> Result<Self, CheckError> {
        let mut read: Vec<Check> = Vec::with_capacity(checks.len());
        for (at, check) in checks.iter().enumerate() {
            let compile = |which, text: &str| {
                Program::compile(text).map_err(|error| CheckError::Expression {
                    at,
                    which,
                    text: text.to_owned(),
                    why: error.to_string(),
                })
            };
            let optional = |which, text: &Option<String>| {
                let text = text.as_deref().filter(|text| !text.is_empty());
                text.map(|text| compile(which, text)).transpose()
            };
            let kind = GroupKind::new(
                &check.api_version,
                check.kind.as_deref().unwrap_or_default(),
            );
            if read.iter().any(|known| known.kind == kind) {
                let kind = format!("{}/{}", kind.group, kind.kind);
                return Err(CheckError::Duplicate { at, kind });
            }
            read.push(Check {
                kind,
                in_progress: optional("InProgress", &check.in_progress)?,
                failed: optional("Failed", &check.failed)?,
                current: compile("Current", &check.current)?,
            });
        }
        Ok(CustomChecks { checks: read })
    }

    /// Only the checks of groups that are wanted.
    #[must_use]
    pub fn of_groups(mut self, wanted: impl Fn(&str) -> bool) -> Self {
        self.checks.retain(|check| wanted(&check.kind.group));
        self
    }

    /// Whether there are expressions for a kind.
    pub fn has(&self, group: &str, kind: &str) -> bool {
        self.checks.iter().any(|check| {
            let whole = check.kind.kind.is_empty();
            check.kind.group == group && (whole || check.kind.kind == kind)
        })
    }

    /// Assesses a live object by its expressions, or by kstatus where there are none.
    pub fn assess(&self, object: &Value, now: Timestamp) -> Assessment {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let kind = GroupKind::new(text("apiVersion"), text("kind"));
        let exact = self.checks.iter().find(|check| check.kind == kind);
        let whole = || {
            let mut groups = self.checks.iter();
            groups.find(|check| check.kind.kind.is_empty() && check.kind.group == kind.group)
        };
        match exact.or_else(whole) {
            Some(check) => check.assess(object),
            None => assess(object, now),
        }
    }
}

impl Check {
    fn assess(&self, object: &Value) -> Assessment {
        let generation = object["metadata"]["generation"].as_i64();
        let observed = object["status"]["observedGeneration"].as_i64();
        if let (Some(generation), Some(observed)) = (generation, observed)
            && generation != observed
        {
            return Assessment::in_progress("LatestGenerationNotObserved", "");
        }
        let fields = object.as_object().into_iter().flatten();
        let variables = fields.fold(Variables::new(), |variables, (name, value)| {
            variables.with(name.as_str(), Cel::from_json(value))
        });
        let holds = |program: &Program| match program.evaluate(&variables) {
            Ok(Cel::Bool(holds)) => Ok(holds),
            Ok(_) => Err("the result is no boolean".to_owned()),
            Err(EvalError::NoSuchVariable(name)) => Err(format!(
                "no such attribute(s): {}",
                whole_path(program.text(), &name)
            )),
            Err(error) => Err(error.to_string()),
        };
        let steps = [
            (self.in_progress.as_ref(), Health::InProgress),
            (self.failed.as_ref(), Health::Failed),
            (Some(&self.current), Health::Current),
        ];
        for (program, health) in steps {
            let Some(program) = program else {
                continue;
            };
            let (health, message) = match holds(program) {
                Ok(false) => continue,
                Ok(true) => (health, String::new()),
                Err(why) => {
                    let text = program.text();
                    let message = format!("failed to evaluate the CEL expression '{text}': {why}");
                    (Health::Unknown, message)
                }
            };
            return Assessment {
                health,
                reason: String::new(),
                message,
            };
        }
        Assessment::in_progress("", "")
    }
}

/// What an expression reads below a variable that is not there, as cel-go names it.
fn whole_path(text: &str, variable: &str) -> String {
    let path = format!(r"\b{}(?:\.[A-Za-z_]\w*)*", regex::escape(variable));
    let found = Regex::new(&path).ok();
    let found = found.and_then(|path| path.find(text).map(|found| found.as_str().to_owned()));
    found.unwrap_or_else(|| variable.to_owned())
}
