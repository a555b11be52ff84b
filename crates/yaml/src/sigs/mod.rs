//! `sigs.k8s.io/yaml`: what kubectl, helm, Flux and the API server read.

mod tree;
pub mod typed;

pub use tree::{load, load_with};

use crate::decode::{Decoder, plain_document};
use crate::error::Error;
use crate::load::{Limits, Loader};
use crate::node::Dialect;
use crate::read::Input;
use everflow_json::Value as Json;

/// `YAMLToJSON`: the first document, merge keys applied, keys made strings, and of duplicate keys
/// the last one.
///
/// Floating-point numbers stay what they are; Go's JSON text writes `1.0` as `1`, so a Kubernetes
/// client that reads it sees an integer: see [`normalize_numbers`].
pub fn yaml_to_json(input: &[u8]) -> Result<Json, Error> {
    to_json(input, false, Limits::DEFAULT)
}

/// `YAMLToJSONStrict`: duplicate keys are errors.
pub fn yaml_to_json_strict(input: &[u8]) -> Result<Json, Error> {
    to_json(input, true, Limits::DEFAULT)
}

/// As [`yaml_to_json`] or [`yaml_to_json_strict`], with other limits.
pub fn to_json(input: &[u8], strict: bool, limits: Limits) -> Result<Json, Error> {
    limits.check_size(input)?;
    let text = Input::new(input);
    if let Some(json) = plain_document(&text, Dialect::Sigs, strict, limits)? {
        return Ok(json);
    }
    let root = Loader::new(Dialect::Sigs).limits(limits).load(input)?;
    Decoder::new(Dialect::Sigs, strict, limits)
        .decode(&root)?
        .into_sigs_json()
}

/// The first document if it can be read into plain JSON in one go.
pub(crate) fn plain_json(input: &[u8], limits: Limits) -> Result<Option<Json>, Error> {
    limits.check_size(input)?;
    plain_document(&Input::new(input), Dialect::Sigs, false, limits)
}

/// What `k8s.io/apimachinery` makes of the numbers of JSON text that Go wrote: an integer wherever
/// the text looks like one and fits 64 bits with a sign, else a floating-point number.
pub fn normalize_numbers(json: &mut Json) {
    let mut stack = vec![json];
    while let Some(value) = stack.pop() {
        match value {
            Json::Number(number) => {
                if let Some(float) = number.as_f64()
                    && !number.is_i64()
                    && let Some(normal) = normal_number(float, number.is_u64())
                {
                    *number = normal;
                }
            }
            Json::Array(items) => stack.extend(items),
            Json::Object(object) => stack.extend(object.values_mut()),
            _ => {}
        }
    }
}

/// What Go's JSON decoder calls a value.
pub(crate) fn json_kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

fn normal_number(value: f64, unsigned: bool) -> Option<everflow_json::Number> {
    // From 1e21 on Go writes an exponent; below that the text is exact only up to 17 digits, and
    // what follows them are zeros.
    const EXACT: f64 = 9_223_372_036_854_775_808.0;
    if !unsigned && value.fract() == 0.0 && value.abs() < EXACT {
        // `-0` reads as the integer 0.
        let text = format!("{value:e}");
        return integer_of(&text).map(Into::into);
    }
    everflow_json::Number::from_f64(value)
}

/// The integer that Go's text for a whole number stands for: its shortest digits, then zeros.
fn integer_of(scientific: &str) -> Option<i64> {
    let (mantissa, exponent) = scientific.split_once('e')?;
    let exponent: usize = exponent.parse().ok()?;
    let negative = mantissa.starts_with('-');
    let mut digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    while digits.len() < exponent + 1 {
        digits.push('0');
    }
    let value: i64 = digits.parse().ok()?;
    Some(if negative { -value } else { value })
}
