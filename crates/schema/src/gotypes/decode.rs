//! Decoding as Go's JSON package does it, with its words for what does not fit.

use everflow_json::{Map, Text, Value};

use super::{Findings, GoType, GoTypes};
use crate::go_json::{DEPTH_LIMIT, Json, Unrepresentable, too_large};
use crate::go_text;
use crate::quantity::Quantity;
use crate::time;

/// The most strict-decoding errors that are kept.
const STRICT_LIMIT: usize = 100;

/// Reads a document as a Go type.
pub(super) struct Decoder<'t, 'j> {
    types: &'t GoTypes,
    pub(super) findings: Findings,
    fields: Vec<&'static str>,
    holder: &'static str,
    /// Where in the document it is: written down only when there is something to say.
    path: Vec<Step<'j>>,
    wrap: bool,
}

/// A step down in a document.
#[derive(Clone, Copy)]
enum Step<'j> {
    Key(&'j str),
    Item(usize),
}

fn json_name(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) | Json::Unrepresentable(Unrepresentable::Number(_)) => "number",
        Json::String(_) => "string",
        Json::Array(_) | Json::Unrepresentable(Unrepresentable::Array) => "array",
        Json::Object(_) | Json::Unrepresentable(Unrepresentable::Object) => "object",
    }
}

impl<'t, 'j> Decoder<'t, 'j> {
    /// For one document; `wrap` lets numbers lose their upper bits.
    pub(super) fn new(types: &'t GoTypes, wrap: bool) -> Self {
        Decoder {
            types,
            findings: Findings::default(),
            fields: Vec::new(),
            holder: "",
            path: Vec::new(),
            wrap,
        }
    }

    fn fail(&mut self, message: impl FnOnce() -> String) {
        if self.findings.error.is_none() {
            self.findings.error = Some(message());
        }
    }

    fn mismatch(&mut self, what: &str, ty: &GoType) -> Value {
        let spelled = self.types.spell(ty);
        let place = if self.holder.is_empty() {
            "Go value".to_owned()
        } else {
            format!("Go struct field {}.{}", self.holder, self.fields.join("."))
        };
        self.fail(|| format!("json: cannot unmarshal {what} into {place} of type {spelled}"));
        self.types.zero(ty)
    }

    fn strict(&mut self, kind: &str, key: &str) {
        if self.findings.strict.len() < STRICT_LIMIT {
            let mut whole = String::new();
            for step in self.path.iter().copied().chain([Step::Key(key)]) {
                match step {
                    Step::Item(at) => whole.push_str(&format!("[{at}]")),
                    Step::Key(key) => {
                        if !whole.is_empty() && !key.starts_with('[') {
                            whole.push('.');
                        }
                        whole.push_str(key);
                    }
                }
            }
            let message = format!("{kind} field \"{whole}\"");
            if !self.findings.strict.contains(&message) {
                self.findings.strict.push(message);
            }
        }
    }

    fn below<T>(&mut self, step: Step<'j>, work: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step);
        let result = work(self);
        self.path.pop();
        result
    }

    pub(super) fn decode(&mut self, ty: &GoType, body: &'j Json) -> Value {
        if let (Json::Null, false) = (body, matches!(ty, GoType::Any)) {
            return self.types.zero(ty);
        }
        if let (Json::Unrepresentable(beyond), false) = (body, matches!(ty, GoType::Pointer(_))) {
            return self.decode_beyond(ty, beyond);
        }
        match ty {
            GoType::Pointer(inner) => self.decode(inner, body),
            GoType::Slice(inner) => match body {
                Json::Array(items) => Value::Array(
                    items
                        .iter()
                        .enumerate()
                        .map(|(at, item)| {
                            self.below(Step::Item(at), |this| this.decode(inner, item))
                        })
                        .collect(),
                ),
                other => self.mismatch(json_name(other), ty),
            },
            GoType::Map(inner) => self.decode_map(ty, inner, body),
            GoType::Struct(index) => self.decode_struct(*index, ty, body),
            GoType::Any => body.to_value(),
            GoType::SchemaOrBool | GoType::SchemaOrArray | GoType::SchemaOrStrings => {
                self.decode_schema(body)
            }
            _ => self.decode_scalar(ty, body),
        }
    }

    /// What is out of reach fits nowhere, but does not fit for different reasons.
    fn decode_beyond(&mut self, ty: &GoType, beyond: &Unrepresentable) -> Value {
        let free = matches!(
            ty,
            GoType::Any
                | GoType::SchemaOrBool
                | GoType::SchemaOrArray
                | GoType::SchemaOrStrings
                | GoType::Slice(_)
                | GoType::Map(_)
                | GoType::Struct(_)
        );
        match beyond {
            Unrepresentable::Number(text) => match ty {
                GoType::Int32 | GoType::Int64 | GoType::Float => {
                    return self.mismatch(&format!("number {text}"), ty);
                }
                GoType::Quantity => return self.quantity(text),
                GoType::Any => self.fail(|| too_large(text)),
                _ => return self.mismatch("number", ty),
            },
            _ if free => {
                self.fail(|| format!("values that nest deeper than {DEPTH_LIMIT} levels"));
            }
            other => return self.decode_scalar(ty, &Json::Unrepresentable(other.clone())),
        }
        self.types.zero(ty)
    }

    fn decode_map(&mut self, ty: &GoType, inner: &GoType, body: &'j Json) -> Value {
        let Json::Object(entries) = body else {
            return self.mismatch(json_name(body), ty);
        };
        let mut map = Map::new();
        for (key, item) in entries {
            if map.contains_key(key) {
                self.strict("duplicate", key);
            }
            let value = self.below(Step::Key(key), |this| this.decode(inner, item));
            map.insert(key.clone(), value);
        }
        Value::Object(map)
    }

    fn decode_struct(&mut self, index: usize, ty: &GoType, body: &'j Json) -> Value {
        let Json::Object(entries) = body else {
            return self.mismatch(json_name(body), ty);
        };
        let types = self.types;
        let definition = types.get(index);
        let mut seen: Vec<Option<Value>> = Vec::new();
        seen.resize_with(definition.fields.len(), || None);
        for (key, item) in entries {
            let Some(at) = definition.fields.iter().position(|field| field.name == key) else {
                self.strict("unknown", key);
                continue;
            };
            let field = &definition.fields[at];
            if seen[at].is_some() {
                self.strict("duplicate", key);
            }
            let outer = std::mem::replace(&mut self.holder, definition.name);
            self.fields.push(field.name);
            let value = self.below(Step::Key(key), |this| this.decode(&field.ty, item));
            self.fields.pop();
            self.holder = outer;
            seen[at] = Some(value);
        }
        let mut map = Map::with_capacity(entries.len());
        let unset = types.unset(index);
        for ((field, unset), given) in definition.fields.iter().zip(unset).zip(seen) {
            let value = match given {
                Some(value) => Some(value).filter(|value| types.is_written(field, value)),
                None => unset.clone(),
            };
            if let Some(value) = value {
                map.insert(Text::new(field.name), value);
            }
        }
        Value::Object(map)
    }

    fn decode_schema(&mut self, body: &'j Json) -> Value {
        let schema = self.types.qualified.get("v1.JSONSchemaProps").copied();
        match (body, schema) {
            (Json::Object(_), Some(index)) => {
                self.decode_struct(index, &GoType::Struct(index), body)
            }
            (Json::Array(items), Some(index)) => Value::Array(
                items
                    .iter()
                    .map(|item| {
                        if matches!(item, Json::Object(_)) {
                            self.decode_struct(index, &GoType::Struct(index), item)
                        } else {
                            item.to_value()
                        }
                    })
                    .collect(),
            ),
            _ => body.to_value(),
        }
    }

    fn decode_scalar(&mut self, ty: &GoType, body: &Json) -> Value {
        match (ty, body) {
            (GoType::String(_), Json::String(text)) => Value::String(text.clone()),
            (GoType::Bool, Json::Bool(flag)) => Value::from(*flag),
            (GoType::Int32 | GoType::Int64, Json::Number(number)) => match number.as_i64() {
                Some(whole) if *ty == GoType::Int64 || i32::try_from(whole).is_ok() => {
                    Value::from(whole)
                }
                Some(whole) if self.wrap => Value::from(whole as i32),
                _ => self.mismatch(&format!("number {}", go_number(number)), ty),
            },
            (GoType::Float, Json::Number(number)) => Value::Number(number.clone()),
            (GoType::Bytes, Json::String(text)) => self.decode_bytes(text),
            (GoType::Quantity, Json::String(text)) => self.quantity(text.trim()),
            (GoType::Quantity, Json::Number(number)) => self.quantity(&go_number(number)),
            (GoType::IntOrString, Json::String(text)) => Value::String(text.clone()),
            (GoType::IntOrString, Json::Number(number)) => match number
                .as_i64()
                .filter(|whole| i32::try_from(*whole).is_ok())
            {
                Some(whole) => Value::from(whole),
                None => {
                    let text = go_number(number);
                    self.fail(|| {
                        format!("json: cannot unmarshal number {text} into Go value of type int32")
                    });
                    Value::from(0)
                }
            },
            (GoType::IntOrString, other) => {
                let name = json_name(other);
                self.fail(|| format!("json: cannot unmarshal {name} into Go value of type int32"));
                Value::from(0)
            }
            (GoType::Duration, Json::String(text)) => Value::String(text.clone()),
            (GoType::Time, Json::String(text)) => self.time(text, false),
            (GoType::MicroTime, Json::String(text)) => self.time(text, true),
            (GoType::Time | GoType::MicroTime | GoType::Duration, other) => {
                let name = json_name(other);
                self.fail(|| format!("json: cannot unmarshal {name} into Go value of type string"));
                Value::Null
            }
            (_, other) => self.mismatch(json_name(other), ty),
        }
    }

    fn decode_bytes(&mut self, text: &str) -> Value {
        use base64::Engine as _;
        // Go's decoder skips line ends.
        let compact: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
        match base64::engine::general_purpose::STANDARD.decode(compact.as_bytes()) {
            Ok(bytes) => Value::from(base64::engine::general_purpose::STANDARD.encode(bytes)),
            Err(_) => {
                let at = base64_error_offset(&compact);
                self.fail(|| format!("illegal base64 data at input byte {at}"));
                Value::Null
            }
        }
    }

    fn quantity(&mut self, text: &str) -> Value {
        match Quantity::parse(text) {
            Ok(quantity) => Value::from(quantity.canonical()),
            Err(message) => {
                self.fail(|| message.to_owned());
                Value::from("0")
            }
        }
    }

    fn time(&mut self, text: &str, micro: bool) -> Value {
        match parse_go_time(text, micro) {
            Ok((seconds, nanos)) => Value::from(time::format(seconds, nanos, micro)),
            Err(message) => {
                self.fail(|| message);
                Value::Null
            }
        }
    }
}

/// Where Go's base64 decoder gives up.
fn base64_error_offset(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut in_group = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/' {
            in_group = (in_group + 1) % 4;
            at += 1;
            continue;
        }
        if byte != b'=' || in_group < 2 {
            return at;
        }
        if in_group == 2 && bytes.get(at + 1) != Some(&b'=') {
            return if at + 1 >= bytes.len() {
                bytes.len()
            } else {
                at
            };
        }
        let end = if in_group == 2 { at + 2 } else { at + 1 };
        return end.min(bytes.len());
    }
    bytes.len() - in_group
}

/// A number as Go prints it.
pub fn go_number(number: &everflow_json::Number) -> String {
    if let Some(whole) = number.as_i64() {
        return whole.to_string();
    }
    let wide = number.as_f64().unwrap_or(0.0);
    if wide.fract() == 0.0 && wide.abs() < 1e21 {
        format!("{wide:.0}")
    } else {
        number.to_string()
    }
}

/// Reads a time with Go's layouts, in seconds and nanoseconds; the error is Go's text.
fn parse_go_time(text: &str, micro: bool) -> Result<(i64, i64), String> {
    let layout = if micro {
        "2006-01-02T15:04:05.000000Z07:00"
    } else {
        "2006-01-02T15:04:05Z07:00"
    };
    let problem = |rest: &str, element: &str| {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            go_text::quote(text),
            go_text::quote(layout),
            go_text::quote(rest),
            go_text::quote(element)
        )
    };
    let mut rest = text;
    for (element, digits) in [
        ("2006", 4),
        ("-", 0),
        ("01", 2),
        ("-", 0),
        ("02", 2),
        ("T", 0),
        ("15", 2),
        (":", 0),
        ("04", 2),
        (":", 0),
        ("05", 2),
    ] {
        if digits == 0 {
            rest = rest
                .strip_prefix(element)
                .ok_or_else(|| problem(rest, element))?;
        } else if rest.len() >= digits && rest.as_bytes()[..digits].iter().all(u8::is_ascii_digit) {
            let value: u32 = rest[..digits].parse().unwrap_or(0);
            let range = match element {
                "01" if !(1..=12).contains(&value) => Some("month"),
                "15" if value > 23 => Some("hour"),
                "04" if value > 59 => Some("minute"),
                "05" if value > 59 => Some("second"),
                _ => None,
            };
            if let Some(name) = range {
                return Err(format!(
                    "parsing time {}: {name} out of range",
                    go_text::quote(text)
                ));
            }
            rest = &rest[digits..];
        } else {
            return Err(problem(rest, element));
        }
    }
    if micro {
        let six = rest.strip_prefix('.').filter(|after| {
            after.len() >= 6 && after.as_bytes()[..6].iter().all(u8::is_ascii_digit)
        });
        rest = &six.ok_or_else(|| problem(rest, ".000000"))?[6..];
    } else if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            rest = &fraction[digits..];
        }
    }
    time::parse(text).ok_or_else(|| {
        let zone = rest.as_bytes();
        let zoned =
            zone == b"Z" || (zone.len() == 6 && matches!(zone[0], b'+' | b'-') && zone[3] == b':');
        if zoned {
            let name = zone_problem(zone).unwrap_or("day");
            format!("parsing time {}: {name} out of range", go_text::quote(text))
        } else {
            problem(rest, "Z07:00")
        }
    })
}

/// The part of an offset such as `+25:00` that is out of Go's range.
fn zone_problem(zone: &[u8]) -> Option<&'static str> {
    let number = |at: usize| {
        let digits = std::str::from_utf8(zone.get(at..at + 2)?).ok()?;
        digits.parse::<u8>().ok()
    };
    match (number(1)?, number(4)?) {
        (25.., _) => Some("time zone offset hour"),
        (_, 61..) => Some("time zone offset minute"),
        _ => None,
    }
}
