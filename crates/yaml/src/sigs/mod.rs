//! `sigs.k8s.io/yaml`: what kubectl, helm, Flux and the API server read.

pub mod typed;

use crate::decode::Decoder;
use crate::error::{Error, Limit};
use crate::load::{Limits, Loader};
use crate::node::{Dialect, Position, ScalarKind, Style};
use crate::read::{EventKind, Input, Parser, resolve_plain};
use serde_json::{Map, Value as Json};

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
    if let Some(json) = plain_document(&text, strict, limits)? {
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
    plain_document(&Input::new(input), false, limits)
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

fn normal_number(value: f64, unsigned: bool) -> Option<serde_json::Number> {
    // From 1e21 on Go writes an exponent; below that the text is exact only up to 17 digits, and
    // what follows them are zeros.
    const EXACT: f64 = 9_223_372_036_854_775_808.0;
    if !unsigned && value.fract() == 0.0 && value.abs() < EXACT {
        // `-0` reads as the integer 0.
        let text = format!("{value:e}");
        return integer_of(&text).map(Into::into);
    }
    serde_json::Number::from_f64(value)
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

/// A collection that is not complete yet.
enum Open {
    Array(Vec<Json>),
    Object(Map<String, Json>, Option<String>),
}

/// The first document if it has none of what needs care: aliases, tags, merge keys, keys that are
/// not strings, infinities and (if they are errors) duplicate keys. None if it has.
fn plain_document(input: &Input<'_>, strict: bool, limits: Limits) -> Result<Option<Json>, Error> {
    let mut parser = Parser::new(input, Dialect::Sigs, false);
    parser.next()?;
    if matches!(parser.next()?.kind, EventKind::StreamEnd) {
        return Ok(Some(Json::Null));
    }
    let mut open: Vec<Open> = Vec::with_capacity(16);
    loop {
        let event = parser.next()?;
        let done = match event.kind {
            EventKind::Scalar {
                text,
                style,
                properties,
            } => {
                if properties.is_some_and(|properties| properties.tag.is_some()) {
                    return Ok(None);
                }
                let kind = match style {
                    Style::Plain => resolve_plain(Dialect::Sigs, &text),
                    _ => ScalarKind::String,
                };
                if let Some(Open::Object(_, key @ None)) = open.last_mut() {
                    if kind != ScalarKind::String {
                        return Ok(None);
                    }
                    *key = Some(text.into_owned());
                    continue;
                }
                match kind {
                    ScalarKind::Null => Json::Null,
                    ScalarKind::Bool(value) => Json::Bool(value),
                    ScalarKind::Int(value) => Json::Number(value.into()),
                    ScalarKind::Uint(value) => Json::Number(value.into()),
                    ScalarKind::Float(value) => match serde_json::Number::from_f64(value) {
                        Some(number) => Json::Number(number),
                        None => return Ok(None),
                    },
                    _ => Json::String(text.into_owned()),
                }
            }
            EventKind::SequenceStart { properties, .. } => {
                if properties.is_some_and(|properties| properties.tag.is_some())
                    || matches!(open.last(), Some(Open::Object(_, None)))
                {
                    return Ok(None);
                }
                check_nesting(open.len(), limits, event.start.position())?;
                open.push(Open::Array(Vec::new()));
                continue;
            }
            EventKind::MappingStart { properties, .. } => {
                if properties.is_some_and(|properties| properties.tag.is_some())
                    || matches!(open.last(), Some(Open::Object(_, None)))
                {
                    return Ok(None);
                }
                check_nesting(open.len(), limits, event.start.position())?;
                open.push(Open::Object(Map::new(), None));
                continue;
            }
            EventKind::SequenceEnd | EventKind::MappingEnd => match open.pop() {
                Some(Open::Array(items)) => Json::Array(items),
                Some(Open::Object(object, _)) => Json::Object(object),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        match open.last_mut() {
            Some(Open::Array(items)) => items.push(done),
            Some(Open::Object(object, key)) => {
                let Some(key) = key.take() else {
                    return Ok(None);
                };
                if object.insert(key, done).is_some() && strict {
                    return Ok(None);
                }
            }
            None => {
                // The end of the document may hold an error yet.
                parser.next()?;
                return Ok(Some(done));
            }
        }
    }
}

fn check_nesting(depth: usize, limits: Limits, position: Position) -> Result<(), Error> {
    if depth < limits.nesting {
        return Ok(());
    }
    Err(Error::Limit {
        limit: Limit::Nesting(limits.nesting),
        position,
    })
}
