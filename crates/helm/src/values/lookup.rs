//! Dotted paths into values.

use everflow_gotemplate::{Map, Value};

/// Why there is nothing at a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// No map there.
    #[error("{0:?} is not a table")]
    NoTable(String),
    /// No value there.
    #[error("{0:?} is not a value")]
    NoValue(String),
    /// The empty path.
    #[error("YAML path cannot be empty")]
    Empty,
}

/// The map at a dotted path.
pub fn table(values: &Map, path: &str) -> Result<Map, LookupError> {
    let mut current = values.clone();
    for part in path.split('.') {
        current = child(&current, part)?;
    }
    Ok(current)
}

fn child(values: &Map, key: &str) -> Result<Map, LookupError> {
    match values.get(key) {
        Some(Value::Map(map)) => Ok(map),
        _ => Err(LookupError::NoTable(key.to_owned())),
    }
}

/// The value at a dotted path; a map does not count as a value.
pub fn path_value(values: &Map, path: &str) -> Result<Value, LookupError> {
    if path.is_empty() {
        return Err(LookupError::Empty);
    }
    let (parents, key) = match path.rsplit_once('.') {
        Some((parents, key)) => (Some(parents), key),
        None => (None, path),
    };
    let holder = match parents {
        Some(parents) => {
            table(values, parents).map_err(|_| LookupError::NoValue(key.to_owned()))?
        }
        None => values.clone(),
    };
    match holder.get(key) {
        Some(Value::Map(_)) | None => Err(LookupError::NoValue(key.to_owned())),
        Some(value) => Ok(value),
    }
}
