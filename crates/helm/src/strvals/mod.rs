//! The little language of `--set` and its relatives: `name=value,list[0].key=value,…`.
//!
//! One walker reads keys; what differs between the flags is how a value is read and
//! whether a backslash escapes.

mod scanner;
mod walker;

use everflow_json::{Map, Value};
use everflow_yaml::gojson;

use crate::values::merge_json;
use walker::Walker;

/// The highest list index that a key may name.
pub const MAX_INDEX: i64 = 65_536;
/// How deep a dotted name may nest.
pub const MAX_NESTED_NAME_LEVEL: usize = 30;

/// Why a line of values cannot be read, in helm's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SetError(pub String);

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
pub fn set(line: &str, values: &mut Map) -> Result<(), SetError> {
    apply(line, values, Flavour::Typed)
}

/// Applies one `--set-string` argument to `values`.
pub fn set_string(line: &str, values: &mut Map) -> Result<(), SetError> {
    apply(line, values, Flavour::Text)
}

/// Applies one `--set-file` argument to `values`; `read` gives a file's content or the reason why
/// it cannot be read.
pub fn set_file(line: &str, values: &mut Map, read: &ReadFile<'_>) -> Result<(), SetError> {
    apply(line, values, Flavour::File(read))
}

/// Applies one `--set-json` argument of the form `key=json,…` to `values`.
pub fn set_json(line: &str, values: &mut Map) -> Result<(), SetError> {
    apply(line, values, Flavour::Json)
}

/// Applies one `--set-json` argument: a whole JSON object, or `key=json,…`.
pub fn set_json_argument(line: &str, values: &mut Map) -> Result<(), SetError> {
    let trimmed = line.trim();
    if !trimmed.starts_with('{') {
        return set_json(line, values);
    }
    match gojson::parse(trimmed.as_bytes(), gojson::Numbers::Floats) {
        Ok(Value::Object(over)) => {
            merge_json(values, over);
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(error) => Err(SetError(error.to_string())),
    }
}

/// Applies one `--set-literal` argument to `values`.
pub fn set_literal(line: &str, values: &mut Map) -> Result<(), SetError> {
    apply(line, values, Flavour::Literal)
}

fn apply(line: &str, values: &mut Map, flavour: Flavour<'_>) -> Result<(), SetError> {
    Walker::new(line, flavour).run(values).map_err(SetError)
}
