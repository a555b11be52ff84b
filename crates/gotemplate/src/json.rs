//! To and from plain JSON trees.

use everflow_json::{Map as JsonMap, Number, Value as Json};

use crate::error::FuncError;
use crate::list::List;
use crate::map::Map;
use crate::value::{MAX_COPIED, MAX_NESTING, Value, spend};

/// Which Go type whole numbers of a JSON tree become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// `float64`, as everything read from a values file or by `fromJson`.
    Float64,
    /// `int64` for whole numbers, as `--set` makes them.
    Int64,
}

impl Value {
    /// A value from a JSON tree.
    pub fn from_json(json: &Json, numbers: Numbers) -> Value {
        match json {
            Json::Null => Value::Nil,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match (numbers, number.as_i64()) {
                (Numbers::Int64, Some(n)) => Value::Int64(n),
                _ => Value::Float64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::string(text.as_str()),
            Json::Array(items) => items
                .iter()
                .map(|item| Value::from_json(item, numbers))
                .collect::<List>()
                .into(),
            Json::Object(entries) => entries
                .iter()
                .map(|(key, value)| (key.as_str(), Value::from_json(value, numbers)))
                .collect::<Map>()
                .into(),
        }
    }

    /// The JSON tree of a value made of nil, booleans, numbers, strings, slices and maps.
    ///
    /// Bytes that are not UTF-8 become U+FFFD, nil slices and maps become null. Fails for
    /// infinities, functions, objects and structures that contain themselves.
    pub fn to_json(&self) -> Result<Json, FuncError> {
        let mut budget = MAX_COPIED;
        to_json(self, 0, &mut budget)
    }
}

fn to_json(value: &Value, depth: usize, budget: &mut usize) -> Result<Json, FuncError> {
    spend(budget, 1)?;
    // Go speaks of a cycle here; what nests as deep without one is refused as well.
    if depth > MAX_NESTING && matches!(value, Value::Map(_) | Value::List(_)) {
        let kind = value.type_name();
        return Err(FuncError::new(format!(
            "json: unsupported value: encountered a cycle via {kind}"
        )));
    }
    if value.is_nil() {
        return Ok(Json::Null);
    }
    match value {
        Value::Bool(value) => Ok(Json::Bool(*value)),
        Value::String(text) => Ok(Json::String(text.to_str_lossy().into())),
        Value::List(list) => {
            let items = list
                .items()
                .iter()
                .map(|item| to_json(item, depth + 1, budget));
            Ok(Json::Array(items.collect::<Result<_, _>>()?))
        }
        Value::Map(map) => {
            let mut entries = JsonMap::new();
            for (key, value) in map.read().iter() {
                entries.insert(
                    key.to_str_lossy().into(),
                    to_json(value, depth + 1, budget)?,
                );
            }
            Ok(Json::Object(entries))
        }
        other => number_to_json(other),
    }
}

fn number_to_json(value: &Value) -> Result<Json, FuncError> {
    if let Some(n) = value.as_int() {
        return Ok(Json::Number(n.into()));
    }
    if let Some(n) = value.as_uint() {
        return Ok(Json::Number(n.into()));
    }
    let number = value.as_float().and_then(Number::from_f64);
    number
        .map(Json::Number)
        .ok_or_else(|| FuncError::new(format!("json: unsupported type: {}", value.type_name())))
}
