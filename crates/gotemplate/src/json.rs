//! To and from plain JSON trees.

use std::collections::BTreeMap;

use everflow_json::{Map as JsonMap, Number, Value as Json};
use everflow_limits::Exceeded;

use crate::error::FuncError;
use crate::map::Map;
use crate::meter::{CONTAINER_BYTES, ITEM_BYTES, JSON_BYTES, Meter, map_bytes, text_bytes};
use crate::text::GoStr;
use crate::types::GoType;
use crate::value::{MAX_NESTING, Value, Visits};

/// Which Go type whole numbers of a JSON tree become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// `float64`, as everything read from a values file or by `fromJson`.
    Float64,
    /// `int64` for whole numbers, as `--set` makes them.
    Int64,
}

impl Value {
    /// A value from a JSON tree. Fails where it nests deeper than 1,000 levels or there is not enough
    /// memory.
    pub fn from_json(json: &Json, numbers: Numbers, meter: &Meter<'_>) -> Result<Value, FuncError> {
        from_json(json, numbers, 0, meter)
    }

    /// The JSON tree of a value made of nil, booleans, numbers, strings, slices and maps.
    ///
    /// Bytes that are not UTF-8 become U+FFFD, nil slices and maps become null. Fails for
    /// infinities, functions, objects and structures that contain themselves.
    pub fn to_json(&self, meter: &Meter<'_>) -> Result<Json, FuncError> {
        to_json(self, 0, meter, &mut Visits::new(meter))
    }
}

/// The deepest nesting of trees that are read.
const MAX_DEPTH: usize = 1_000;

fn from_json(
    json: &Json,
    numbers: Numbers,
    depth: usize,
    meter: &Meter<'_>,
) -> Result<Value, FuncError> {
    if depth > MAX_DEPTH {
        let what = "a value";
        let limit = MAX_DEPTH as u64;
        return Err(Exceeded::Depth { what, limit }.into());
    }
    Ok(match json {
        Json::Null => Value::Nil,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (numbers, number.as_i64()) {
            (Numbers::Int64, Some(n)) => Value::Int64(n),
            _ => Value::Float64(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(GoStr::from(text.clone())),
        Json::Array(items) => {
            meter.charge(CONTAINER_BYTES + items.len() * ITEM_BYTES)?;
            let mut values = Vec::with_capacity(items.len());
            for item in items {
                values.push(from_json(item, numbers, depth + 1, meter)?);
            }
            Value::list(values)
        }
        Json::Object(entries) => {
            meter.charge(map_bytes(entries.len()))?;
            let mut values = BTreeMap::new();
            for (key, value) in entries {
                let value = from_json(value, numbers, depth + 1, meter)?;
                values.insert(GoStr::from(key.clone()), value);
            }
            Value::Map(Map::typed(GoType::ANY_MAP, values))
        }
    })
}

fn to_json(
    value: &Value,
    depth: usize,
    meter: &Meter<'_>,
    visits: &mut Visits<'_>,
) -> Result<Json, FuncError> {
    visits.add(1, JSON_BYTES)?;
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
        Value::String(text) => {
            let bytes = match text.as_str() {
                // The text is shared.
                Some(_) => 0,
                None => text_bytes(3 * text.len()),
            };
            meter.charge(bytes)?;
            Ok(Json::String(text.to_text()))
        }
        Value::List(list) => {
            let items = meter.items(list)?.iter();
            let items = items.map(|item| to_json(item, depth + 1, meter, visits));
            Ok(Json::Array(items.collect::<Result<_, _>>()?))
        }
        Value::Map(map) => {
            let mut entries = JsonMap::new();
            for (key, value) in map.read().iter() {
                entries.insert(key.to_text(), to_json(value, depth + 1, meter, visits)?);
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
