//! The built-in kinds as Go's JSON package sees them: decoding a body into a Go struct and encoding it again
//! drops unknown fields and empty values, adds the zero values that are always written, and spells times and
//! quantities in their canonical form.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::json::Json;
use super::quantity::Quantity;
use crate::time::Timestamp;

const TABLE: &str = include_str!("../../data/gotypes.txt");

/// The most strict-decoding errors that are kept.
const STRICT_LIMIT: usize = 100;

/// A Go type as far as JSON is concerned.
#[derive(Clone, Debug, PartialEq)]
pub enum GoType {
    /// A pointer.
    Pointer(Box<GoType>),
    /// A slice.
    Slice(Box<GoType>),
    /// A map with string keys.
    Map(Box<GoType>),
    /// A struct, by its index in the table.
    Struct(usize),
    /// A byte slice, base64 in JSON.
    Bytes,
    /// A string, with the name of its Go type.
    String(&'static str),
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A boolean.
    Bool,
    /// A floating point number.
    Float,
    /// A resource quantity.
    Quantity,
    /// A number or a string.
    IntOrString,
    /// A time to the second.
    Time,
    /// A time to the microsecond.
    MicroTime,
    /// A duration in Go's spelling.
    Duration,
    /// Any JSON value, kept as it is.
    Any,
    /// A schema or a boolean.
    SchemaOrBool,
    /// A schema or a list of schemas.
    SchemaOrArray,
    /// A schema or a list of strings.
    SchemaOrStrings,
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub struct GoField {
    /// The JSON name.
    pub name: &'static str,
    /// The type.
    pub ty: GoType,
    /// Left out when empty.
    pub omit_empty: bool,
    /// Left out when zero.
    pub omit_zero: bool,
}

/// A struct.
#[derive(Clone, Debug)]
pub struct GoStruct {
    /// The name with its package, such as `apps.v1.DeploymentSpec`.
    pub full: &'static str,
    /// The short name, such as `DeploymentSpec`.
    pub name: &'static str,
    /// The qualified name Go prints, such as `v1.DeploymentSpec`.
    pub qualified: &'static str,
    /// The fields in Go's order.
    pub fields: Vec<GoField>,
}

/// All types.
#[derive(Debug)]
pub struct GoTypes {
    structs: Vec<GoStruct>,
    kinds: BTreeMap<(&'static str, &'static str), usize>,
}

/// What decoding found besides the value.
#[derive(Debug, Default)]
pub struct Findings {
    /// The first type error, in Go's words.
    pub error: Option<String>,
    /// Unknown and duplicate fields in document order, such as `unknown field "spec.x"`.
    pub strict: Vec<String>,
}

/// The table, read on first use.
pub fn types() -> &'static GoTypes {
    static TYPES: OnceLock<GoTypes> = OnceLock::new();
    TYPES.get_or_init(GoTypes::load)
}

impl GoTypes {
    fn load() -> GoTypes {
        let mut index: BTreeMap<&'static str, usize> = BTreeMap::new();
        let mut lines = Vec::new();
        let mut kinds = Vec::new();
        for line in TABLE.lines() {
            let mut words = line.split(' ');
            let Some(first) = words.next() else { continue };
            if first == "kind" {
                if let (Some(version), Some(kind), Some(name)) =
                    (words.next(), words.next(), words.next())
                {
                    kinds.push(((version, kind), name));
                }
                continue;
            }
            index.insert(first, lines.len());
            lines.push((first, words));
        }
        let structs = lines
            .into_iter()
            .map(|(name, words)| Self::read_struct(name, words, &index))
            .collect();
        let kinds = kinds
            .into_iter()
            .filter_map(|(key, name)| Some((key, *index.get(name)?)))
            .collect();
        GoTypes { structs, kinds }
    }

    fn read_struct(
        full: &'static str,
        words: std::str::Split<'static, char>,
        index: &BTreeMap<&'static str, usize>,
    ) -> GoStruct {
        let name = full.rsplit('.').next().unwrap_or(full);
        let before = full.len() - name.len();
        let qualified_start = full[..before.saturating_sub(1)]
            .rfind('.')
            .map_or(0, |dot| dot + 1);
        let fields = words
            .filter_map(|word| {
                let (field, rest) = word.split_once('=')?;
                let spelled = rest.trim_end_matches(['?', '0']);
                let flags = &rest[spelled.len()..];
                // Only the option marks follow a type, and no type name ends in a zero.
                Some(GoField {
                    name: field,
                    ty: read_type(spelled, index),
                    omit_empty: flags.contains('?'),
                    omit_zero: flags.contains('0'),
                })
            })
            .collect();
        GoStruct {
            full,
            name,
            qualified: &full[qualified_start..],
            fields,
        }
    }

    /// The type of a kind, if the kind is built in.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<GoType> {
        self.kinds
            .iter()
            .find(|((version, name), _)| *version == api_version && *name == kind)
            .map(|(_, index)| GoType::Struct(*index))
    }

    /// A struct by the name Go prints, such as `v1.ObjectMeta`.
    pub fn struct_named(&self, qualified: &str) -> Option<GoType> {
        self.structs
            .iter()
            .position(|known| known.qualified == qualified)
            .map(GoType::Struct)
    }

    /// A struct by its index.
    pub fn get(&self, index: usize) -> &GoStruct {
        &self.structs[index]
    }

    /// Decodes a body as Go would and gives it back as Go would encode it.
    pub fn decode(&self, ty: &GoType, body: &Json) -> (Value, Findings) {
        let mut decoder = Decoder {
            types: self,
            findings: Findings::default(),
            fields: Vec::new(),
            holder: "",
            path: String::new(),
            wrap: false,
        };
        let value = decoder.decode(ty, body);
        (value, decoder.findings)
    }

    /// As [`GoTypes::decode`], for trees that already fit: whole numbers lose the bits that do not fit their field.
    pub fn convert(&self, ty: &GoType, body: &Json) -> Value {
        let mut decoder = Decoder {
            types: self,
            findings: Findings::default(),
            fields: Vec::new(),
            holder: "",
            path: String::new(),
            wrap: true,
        };
        decoder.decode(ty, body)
    }

    /// What storing does to an object: there are no empty lists and maps afterwards, only missing ones.
    pub fn settle(&self, ty: &GoType, value: &mut Value) {
        match (ty, value) {
            (GoType::Pointer(inner), value) => self.settle(inner, value),
            (GoType::Slice(inner), Value::Array(items)) => {
                items.iter_mut().for_each(|item| self.settle(inner, item))
            }
            (GoType::Map(inner), Value::Object(map)) => {
                map.values_mut().for_each(|item| self.settle(inner, item))
            }
            (GoType::Struct(index), Value::Object(map)) => {
                let fields = &self.structs[*index].fields;
                for (key, value) in map.iter_mut() {
                    let Some(field) = fields.iter().find(|field| field.name == key) else {
                        continue;
                    };
                    if matches!(field.ty, GoType::Slice(_) | GoType::Map(_))
                        && is_empty(&field.ty, value)
                    {
                        *value = Value::Null;
                    } else {
                        self.settle(&field.ty, value);
                    }
                }
            }
            _ => {}
        }
    }

    /// The value as Go encodes it when it was never set.
    pub fn zero(&self, ty: &GoType) -> Value {
        match ty {
            GoType::Pointer(_)
            | GoType::Slice(_)
            | GoType::Map(_)
            | GoType::Bytes
            | GoType::Time
            | GoType::MicroTime
            | GoType::Any => Value::Null,
            GoType::SchemaOrBool | GoType::SchemaOrArray | GoType::SchemaOrStrings => Value::Null,
            GoType::Struct(index) => {
                let mut map = Map::new();
                for field in &self.structs[*index].fields {
                    self.put(&mut map, field, self.zero(&field.ty));
                }
                Value::Object(map)
            }
            GoType::String(_) => Value::String(String::new()),
            GoType::Int32 | GoType::Int64 | GoType::Float | GoType::IntOrString => Value::from(0),
            GoType::Bool => Value::Bool(false),
            GoType::Quantity => Value::from("0"),
            GoType::Duration => Value::from("0s"),
        }
    }

    fn put(&self, map: &mut Map<String, Value>, field: &GoField, value: Value) {
        if field.omit_empty && is_empty(&field.ty, &value) {
            return;
        }
        if field.omit_zero && (value.is_null() || value == self.zero(&field.ty)) {
            return;
        }
        map.insert(field.name.to_owned(), value);
    }

    /// The value as JSON text with its fields in Go's order.
    pub fn ordered_text(&self, ty: &GoType, value: &Value) -> String {
        match (ty, value) {
            (GoType::Pointer(inner), value) => self.ordered_text(inner, value),
            (GoType::Slice(inner), Value::Array(items)) => format!(
                "[{}]",
                items
                    .iter()
                    .map(|item| self.ordered_text(inner, item))
                    .collect::<Vec<_>>()
                    .join(",")
            ),
            (GoType::Map(inner), Value::Object(map)) => {
                let entries: Vec<String> = map
                    .iter()
                    .map(|(key, item)| {
                        format!(
                            "{}:{}",
                            crate::field::go_json(&Value::from(key.as_str())),
                            self.ordered_text(inner, item)
                        )
                    })
                    .collect();
                format!("{{{}}}", entries.join(","))
            }
            (GoType::Struct(index), Value::Object(map)) => {
                let fields = self.structs[*index].fields.iter();
                let entries: Vec<String> = fields
                    .filter_map(|field| {
                        Some(format!(
                            "\"{}\":{}",
                            field.name,
                            self.ordered_text(&field.ty, map.get(field.name)?)
                        ))
                    })
                    .collect();
                format!("{{{}}}", entries.join(","))
            }
            (_, value) => crate::field::go_json(value),
        }
    }

    /// The text of a patched document: what the patch touched has sorted keys, the rest Go's order. The document itself
    /// always counts as touched.
    pub fn patched_text(&self, ty: &GoType, before: &Value, after: &Value) -> String {
        self.patched_part(ty, before, after, true)
    }

    fn patched_part(&self, ty: &GoType, before: &Value, after: &Value, touched: bool) -> String {
        if before == after && !touched {
            return self.ordered_text(ty, after);
        }
        match (ty, before, after) {
            (GoType::Pointer(inner), _, _) => self.patched_part(inner, before, after, touched),
            (GoType::Struct(index), Value::Object(old), Value::Object(new)) => {
                let fields = &self.structs[*index].fields;
                let entries: Vec<String> = new
                    .iter()
                    .map(|(key, value)| {
                        let text =
                            match (fields.iter().find(|field| field.name == key), old.get(key)) {
                                (Some(field), Some(old)) => {
                                    self.patched_part(&field.ty, old, value, false)
                                }
                                _ => crate::field::go_json(value),
                            };
                        format!(
                            "{}:{text}",
                            crate::field::go_json(&Value::from(key.as_str()))
                        )
                    })
                    .collect();
                format!("{{{}}}", entries.join(","))
            }
            _ => crate::field::go_json(after),
        }
    }

    /// How Go prints a type in an error.
    pub fn spell(&self, ty: &GoType) -> String {
        match ty {
            GoType::Pointer(inner) => format!("*{}", self.spell(inner)),
            GoType::Slice(inner) => format!("[]{}", self.spell(inner)),
            GoType::Map(inner) => format!("map[string]{}", self.spell(inner)),
            GoType::Struct(index) => self.structs[*index].qualified.to_owned(),
            GoType::Bytes => "[]uint8".to_owned(),
            GoType::String(name) => (*name).to_owned(),
            GoType::Int32 => "int32".to_owned(),
            GoType::Int64 => "int64".to_owned(),
            GoType::Bool => "bool".to_owned(),
            GoType::Float => "float64".to_owned(),
            GoType::Quantity => "resource.Quantity".to_owned(),
            GoType::IntOrString => "intstr.IntOrString".to_owned(),
            GoType::Time => "v1.Time".to_owned(),
            GoType::MicroTime => "v1.MicroTime".to_owned(),
            GoType::Duration => "v1.Duration".to_owned(),
            GoType::Any => "interface {}".to_owned(),
            GoType::SchemaOrBool => "v1.JSONSchemaPropsOrBool".to_owned(),
            GoType::SchemaOrArray => "v1.JSONSchemaPropsOrArray".to_owned(),
            GoType::SchemaOrStrings => "v1.JSONSchemaPropsOrStringArray".to_owned(),
        }
    }
}

/// Whether a value is what `omitempty` leaves out.
pub(super) fn is_empty(ty: &GoType, value: &Value) -> bool {
    match (ty, value) {
        // Structs are never empty, whatever they print.
        (GoType::Time | GoType::MicroTime | GoType::Any, Value::Null) => false,
        (_, Value::Null) => true,
        (
            GoType::Pointer(_)
            | GoType::Struct(_)
            | GoType::Any
            | GoType::Quantity
            | GoType::IntOrString
            | GoType::Duration,
            _,
        ) => false,
        (_, Value::Bool(flag)) => !flag,
        (_, Value::Number(number)) => number.as_f64() == Some(0.0),
        (_, Value::String(text)) => text.is_empty(),
        (_, Value::Array(items)) => items.is_empty(),
        (_, Value::Object(map)) => map.is_empty(),
    }
}

fn read_type(spelled: &'static str, index: &BTreeMap<&'static str, usize>) -> GoType {
    if let Some(inner) = spelled.strip_prefix('*') {
        return GoType::Pointer(Box::new(read_type(inner, index)));
    }
    if let Some(inner) = spelled.strip_prefix("[]") {
        return GoType::Slice(Box::new(read_type(inner, index)));
    }
    if let Some(inner) = spelled.strip_prefix("map:") {
        return GoType::Map(Box::new(read_type(inner, index)));
    }
    if let Some(name) = spelled.strip_prefix('&') {
        return index
            .get(name)
            .map_or(GoType::Any, |at| GoType::Struct(*at));
    }
    let (base, name) = spelled.split_once(':').unwrap_or((spelled, spelled));
    match base {
        "string" => GoType::String(name),
        "bool" => GoType::Bool,
        "int32" | "uint32" | "int" | "uint16" => GoType::Int32,
        "int64" => GoType::Int64,
        "float64" => GoType::Float,
        "bytes" => GoType::Bytes,
        "Quantity" => GoType::Quantity,
        "IntOrString" => GoType::IntOrString,
        "Time" => GoType::Time,
        "MicroTime" => GoType::MicroTime,
        "Duration" => GoType::Duration,
        "JSONSchemaPropsOrBool" => GoType::SchemaOrBool,
        "JSONSchemaPropsOrArray" => GoType::SchemaOrArray,
        "JSONSchemaPropsOrStringArray" => GoType::SchemaOrStrings,
        _ => GoType::Any,
    }
}

struct Decoder<'t> {
    types: &'t GoTypes,
    findings: Findings,
    fields: Vec<&'static str>,
    holder: &'static str,
    path: String,
    wrap: bool,
}

fn json_name(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

impl Decoder<'_> {
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
            let whole = if self.path.is_empty() {
                key.to_owned()
            } else {
                format!("{}.{key}", self.path)
            };
            let message = format!("{kind} field \"{whole}\"");
            if !self.findings.strict.contains(&message) {
                self.findings.strict.push(message);
            }
        }
    }

    fn below<T>(&mut self, segment: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        if !self.path.is_empty() && !segment.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(segment);
        let result = work(self);
        self.path.truncate(length);
        result
    }

    fn decode(&mut self, ty: &GoType, body: &Json) -> Value {
        if let (Json::Null, false) = (body, matches!(ty, GoType::Any)) {
            return self.types.zero(ty);
        }
        match ty {
            GoType::Pointer(inner) => self.decode(inner, body),
            GoType::Slice(inner) => match body {
                Json::Array(items) => Value::Array(
                    items
                        .iter()
                        .enumerate()
                        .map(|(at, item)| {
                            self.below(&format!("[{at}]"), |this| this.decode(inner, item))
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

    fn decode_map(&mut self, ty: &GoType, inner: &GoType, body: &Json) -> Value {
        let Json::Object(entries) = body else {
            return self.mismatch(json_name(body), ty);
        };
        let mut map = Map::new();
        for (key, item) in entries {
            if map.contains_key(key) {
                self.strict("duplicate", key);
            }
            let value = self.below(key, |this| this.decode(inner, item));
            map.insert(key.clone(), value);
        }
        Value::Object(map)
    }

    fn decode_struct(&mut self, index: usize, ty: &GoType, body: &Json) -> Value {
        let Json::Object(entries) = body else {
            return self.mismatch(json_name(body), ty);
        };
        let types = self.types;
        let definition = types.get(index);
        let mut seen: Vec<(&GoField, Value)> = Vec::with_capacity(entries.len());
        for (key, item) in entries {
            let Some(field) = definition.fields.iter().find(|field| field.name == key) else {
                self.strict("unknown", key);
                continue;
            };
            if seen.iter().any(|(earlier, _)| earlier.name == field.name) {
                self.strict("duplicate", key);
            }
            let outer = std::mem::replace(&mut self.holder, definition.name);
            self.fields.push(field.name);
            let value = self.below(key, |this| this.decode(&field.ty, item));
            self.fields.pop();
            self.holder = outer;
            seen.retain(|(earlier, _)| earlier.name != field.name);
            seen.push((field, value));
        }
        let mut map = Map::new();
        for field in &definition.fields {
            let value = match seen.iter().position(|(given, _)| given.name == field.name) {
                Some(at) => seen.swap_remove(at).1,
                None => types.zero(&field.ty),
            };
            types.put(&mut map, field, value);
        }
        Value::Object(map)
    }

    fn decode_schema(&mut self, body: &Json) -> Value {
        let schema = self.types.kinds.keys().next().and_then(|_| {
            self.types
                .structs
                .iter()
                .position(|s| s.qualified == "v1.JSONSchemaProps")
        });
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
            (GoType::String(_), Json::String(text)) => Value::from(text.as_str()),
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
            (GoType::IntOrString, Json::String(text)) => Value::from(text.as_str()),
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
            (GoType::Duration, Json::String(text)) => Value::from(text.as_str()),
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
            Ok(time) if micro => Value::from(time.rfc3339_micro()),
            Ok(time) => Value::from(time.rfc3339()),
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
pub fn go_number(number: &serde_json::Number) -> String {
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

/// Reads a time with Go's layouts; the error is Go's text.
fn parse_go_time(text: &str, micro: bool) -> Result<Timestamp, String> {
    let layout = if micro {
        "2006-01-02T15:04:05.000000Z07:00"
    } else {
        "2006-01-02T15:04:05Z07:00"
    };
    let problem = |rest: &str, element: &str| {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quoted(text),
            quoted(layout),
            quoted(rest),
            quoted(element)
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
                    quoted(text)
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
    Timestamp::parse(text).ok_or_else(|| {
        let zone = rest.as_bytes();
        let zoned =
            zone == b"Z" || (zone.len() == 6 && matches!(zone[0], b'+' | b'-') && zone[3] == b':');
        if zoned {
            format!("parsing time {}: day out of range", quoted(text))
        } else {
            problem(rest, "Z07:00")
        }
    })
}

fn quoted(text: &str) -> String {
    crate::field::go_quote(text)
}
