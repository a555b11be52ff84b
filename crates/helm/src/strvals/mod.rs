//! The little language of `--set` and its relatives: `name=value,list[0].key=value,…`.
//!
//! What a line makes stays charged to the budget: a few characters make long lists.
//!
//! One walker reads keys; what differs between the flags is how a value is read and
//! whether a backslash escapes.

mod scanner;
mod walker;

use everflow_json::{Map, Value};
use everflow_limits::{Budget, Exceeded};
use everflow_sprig::cost;
use everflow_yaml::gojson;

use crate::values::merge_json;
use walker::Walker;

/// The highest list index that a key may name.
pub const MAX_INDEX: i64 = 65_536;
/// How deep a dotted name may nest.
pub const MAX_NESTED_NAME_LEVEL: usize = 30;

/// How many lists a name may have inside each other.
pub const MAX_NESTED_LISTS: usize = 100;

/// Why a line of values cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// It is wrong, in helm's words.
    #[error("{0}")]
    Wrong(String),
    /// The values need more than there is.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

/// Reads the content of a file for `--set-file`.
pub type ReadFile<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// How the value after `=` is read.
pub(crate) enum Flavour<'a> {
    /// `--set`: numbers, booleans and null get their types.
    Typed,
    /// `--set-string`: every value is a string.
    Text,
    /// `--set-file`: the value is the content of the file it names.
    File(&'a ReadFile<'a>),
    /// `--set-json`: the value is JSON.
    Json,
    /// `--set-literal`: everything after `=` is the value, commas and backslashes included.
    Literal,
}

/// Applies one `--set` argument to `values`.
pub fn set(line: &str, values: &mut Map, budget: &Budget) -> Result<(), SetError> {
    apply(line, values, Flavour::Typed, budget)
}

/// Applies one `--set-string` argument to `values`.
pub fn set_string(line: &str, values: &mut Map, budget: &Budget) -> Result<(), SetError> {
    apply(line, values, Flavour::Text, budget)
}

/// Applies one `--set-file` argument to `values`; `read` gives a file's content or the reason why
/// it cannot be read.
pub fn set_file(
    line: &str,
    values: &mut Map,
    read: &ReadFile<'_>,
    budget: &Budget,
) -> Result<(), SetError> {
    apply(line, values, Flavour::File(read), budget)
}

/// Applies one `--set-json` argument of the form `key=json,…` to `values`.
pub fn set_json(line: &str, values: &mut Map, budget: &Budget) -> Result<(), SetError> {
    apply(line, values, Flavour::Json, budget)
}

/// Applies one `--set-json` argument: a whole JSON object, or `key=json,…`.
pub fn set_json_argument(line: &str, values: &mut Map, budget: &Budget) -> Result<(), SetError> {
    let trimmed = line.trim();
    if !trimmed.starts_with('{') {
        return set_json(line, values, budget);
    }
    budget.charge(cost::of_json(trimmed.as_bytes()))?;
    match gojson::parse(trimmed.as_bytes(), gojson::Numbers::Floats) {
        Ok(Value::Object(over)) => {
            merge_json(values, over);
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(error) => Err(SetError::Wrong(error.to_string())),
    }
}

/// Applies one `--set-literal` argument to `values`.
pub fn set_literal(line: &str, values: &mut Map, budget: &Budget) -> Result<(), SetError> {
    apply(line, values, Flavour::Literal, budget)
}

fn apply(
    line: &str,
    values: &mut Map,
    flavour: Flavour<'_>,
    budget: &Budget,
) -> Result<(), SetError> {
    // What texts and trees take; long lists come on top of it.
    budget.charge(cost::of_json(line.as_bytes()))?;
    Walker::new(line, flavour, budget).run(values)
}
