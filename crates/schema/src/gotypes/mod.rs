//! The built-in kinds as Go's JSON package sees them: decoding a body into a Go struct and encoding it again
//! drops unknown fields and empty values, adds the zero values that are always written, and spells times and
//! quantities in their canonical form.

mod decode;
mod encoded;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use everflow_json::Value;

use crate::go_json::Json;
use crate::go_text;

use decode::Decoder;
pub use decode::go_number;

const TABLE: &str = include_str!("../../data/gotypes.txt");

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
    /// What each field reads as when it was never set; nothing where it is left out. Made on first use.
    unset: OnceLock<Vec<Option<Value>>>,
}

/// All types.
#[derive(Debug)]
pub struct GoTypes {
    structs: Vec<GoStruct>,
    kinds: BTreeMap<(&'static str, &'static str), usize>,
    /// The first struct of each name that Go prints.
    qualified: BTreeMap<&'static str, usize>,
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
        let structs: Vec<GoStruct> = lines
            .into_iter()
            .map(|(name, words)| Self::read_struct(name, words, &index))
            .collect();
        let mut qualified = BTreeMap::new();
        for (at, known) in structs.iter().enumerate() {
            qualified.entry(known.qualified).or_insert(at);
        }
        let kinds = kinds
            .into_iter()
            .filter_map(|(key, name)| Some((key, *index.get(name)?)))
            .collect();
        GoTypes {
            structs,
            kinds,
            qualified,
        }
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
            unset: OnceLock::new(),
        }
    }

    /// The type of a kind, if the kind is built in.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<GoType> {
        self.kinds
            .get(&(api_version, kind))
            .map(|index| GoType::Struct(*index))
    }

    /// A struct by the name Go prints, such as `v1.ObjectMeta`.
    pub fn struct_named(&self, qualified: &str) -> Option<GoType> {
        self.qualified.get(qualified).copied().map(GoType::Struct)
    }

    /// A struct by its index.
    pub fn get(&self, index: usize) -> &GoStruct {
        &self.structs[index]
    }

    /// Decodes a body as Go would and gives it back as Go would encode it.
    pub fn decode(&self, ty: &GoType, body: &Json) -> (Value, Findings) {
        let mut decoder = Decoder::new(self, false);
        let value = decoder.decode(ty, body);
        (value, decoder.findings)
    }

    /// As [`GoTypes::decode`], for trees that already fit: whole numbers lose the bits that do not fit their field.
    pub fn convert(&self, ty: &GoType, body: &Json) -> Value {
        let mut decoder = Decoder::new(self, true);
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
                let unset = self.unset(*index).iter().zip(&self.structs[*index].fields);
                let set = unset.filter_map(|(value, field)| Some((field.name, value.clone()?)));
                Value::Object(set.collect())
            }
            GoType::String(_) => Value::from(""),
            GoType::Int32 | GoType::Int64 | GoType::Float | GoType::IntOrString => Value::from(0),
            GoType::Bool => Value::Bool(false),
            GoType::Quantity => Value::from("0"),
            GoType::Duration => Value::from("0s"),
        }
    }

    /// What the fields of a struct read as when they were never set.
    fn unset(&self, index: usize) -> &[Option<Value>] {
        let known = &self.structs[index];
        known.unset.get_or_init(|| {
            let zero = |field: &GoField| Some(self.zero(&field.ty));
            let read = |field| zero(field).filter(|value| self.is_written(field, value));
            known.fields.iter().map(read).collect()
        })
    }

    /// Whether a field with this value is written.
    fn is_written(&self, field: &GoField, value: &Value) -> bool {
        let empty = field.omit_empty && is_empty(&field.ty, value);
        let zero = || field.omit_zero && (value.is_null() || *value == self.zero(&field.ty));
        !empty && !zero()
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
                            go_text::json(&Value::from(key.as_str())),
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
            (_, value) => go_text::json(value),
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
                                _ => go_text::json(value),
                            };
                        format!("{}:{text}", go_text::json(&Value::from(key.as_str())))
                    })
                    .collect();
                format!("{{{}}}", entries.join(","))
            }
            _ => go_text::json(after),
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
pub fn is_empty(ty: &GoType, value: &Value) -> bool {
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
