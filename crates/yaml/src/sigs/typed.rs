//! Decoding into Go's typed variables: `yaml.Unmarshal(input, &v)` where the type of `v` decides.
//!
//! The one surprise is text: where a `string` is wanted, `sigs.k8s.io/yaml` takes numbers and
//! booleans too and writes them its own way, so `yes` gives `"true"` and `0777` gives `"511"`.

use super::{json_kind, normalize_numbers};
use crate::decode::{Decoder, GoMap, GoValue, format_float_g32, go_quote};
use crate::error::Error;
use crate::gojson;
use crate::load::{Limits, Loader};
use crate::node::Dialect;
use everflow_json::{Map, Number, Value as Json};

/// A Go type to decode into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `any`, numbers as `float64`.
    Any,
    /// `any` as `k8s.io/apimachinery` fills it: integers stay integers.
    KubernetesAny,
    /// `string`
    String,
    /// `bool`
    Bool,
    /// `int32`
    Int32,
    /// `int64`
    Int64,
    /// `float64`
    Float64,
    /// `[]T`
    Slice(Box<Target>),
    /// `map[string]T`
    Map(Box<Target>),
    /// A struct.
    Struct(StructTarget),
}

/// A Go struct to decode into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StructTarget {
    /// Its name in errors; empty for an anonymous one.
    pub name: String,
    /// The JSON names of its fields with their types.
    pub fields: Vec<(String, Target)>,
}

impl Target {
    /// The type as Go writes it.
    pub fn go_type(&self) -> String {
        match self {
            Target::Any | Target::KubernetesAny => "interface {}".to_owned(),
            Target::String => "string".to_owned(),
            Target::Bool => "bool".to_owned(),
            Target::Int32 => "int32".to_owned(),
            Target::Int64 => "int64".to_owned(),
            Target::Float64 => "float64".to_owned(),
            Target::Slice(item) => format!("[]{}", item.go_type()),
            Target::Map(item) => format!("map[string]{}", item.go_type()),
            Target::Struct(fields) => fields.name.clone(),
        }
    }

    /// What a variable of the type holds before anything is decoded.
    pub fn zero(&self) -> Json {
        match self {
            Target::Any | Target::KubernetesAny | Target::Slice(_) | Target::Map(_) => Json::Null,
            Target::String => Json::from(""),
            Target::Bool => Json::Bool(false),
            Target::Int32 | Target::Int64 => Json::Number(0.into()),
            Target::Float64 => Number::from_f64(0.0).map_or(Json::Null, Json::Number),
            Target::Struct(go_struct) => Json::Object(
                go_struct
                    .fields
                    .iter()
                    .map(|(name, field)| (name.clone(), field.zero()))
                    .collect(),
            ),
        }
    }
}

impl StructTarget {
    /// The field for a key: of that name, or of one that differs only in case.
    fn field(&self, key: &str) -> Option<&(String, Target)> {
        let exact = self.fields.iter().find(|(name, _)| name == key);
        exact.or_else(|| {
            self.fields
                .iter()
                .find(|(name, _)| name.to_lowercase() == key.to_lowercase())
        })
    }
}

/// `yaml.Unmarshal`: the first document as the type holds it.
pub fn unmarshal(input: &[u8], target: &Target) -> Result<Json, Error> {
    unmarshal_with(input, target, false)
}

/// `yaml.UnmarshalStrict`: duplicate keys and fields that a struct does not have are errors.
pub fn unmarshal_strict(input: &[u8], target: &Target) -> Result<Json, Error> {
    unmarshal_with(input, target, true)
}

fn unmarshal_with(input: &[u8], target: &Target, strict: bool) -> Result<Json, Error> {
    let limits = Limits::DEFAULT;
    let convert = || {
        let root = Loader::new(Dialect::Sigs).load(input)?;
        let value = Decoder::new(Dialect::Sigs, strict, limits).decode(&root)?;
        text_where_wanted(value, target).into_sigs_json()
    };
    let json =
        convert().map_err(|e| Error::refused(format!("error converting YAML to JSON: {e}")))?;
    decode(json, target, strict).map_err(|error| {
        Error::refused(format!(
            "error unmarshaling JSON: while decoding JSON: {error}"
        ))
    })
}

/// Numbers and booleans become text where the type wants a string.
fn text_where_wanted(value: GoValue, target: &Target) -> GoValue {
    match (value, target) {
        (GoValue::Bool(value), Target::String) => GoValue::Str(value.to_string().into()),
        (GoValue::Int(value), Target::String) => GoValue::Str(value.to_string().into()),
        (GoValue::Uint(value), Target::String) => GoValue::Str(value.to_string().into()),
        (GoValue::Float(value), Target::String) => GoValue::Str(format_float_g32(value).into()),
        (GoValue::Seq(items), Target::Slice(item)) => GoValue::Seq(
            items
                .into_iter()
                .map(|value| text_where_wanted(value, item))
                .collect(),
        ),
        (GoValue::Map(map), Target::Map(_) | Target::Struct(_)) => GoValue::Map(GoMap {
            general: map.general,
            entries: map
                .entries
                .into_iter()
                .map(|(key, value)| {
                    let wanted = match target {
                        Target::Map(item) => Some(&**item),
                        Target::Struct(fields) => key
                            .sigs_name()
                            .and_then(|name| fields.field(&name))
                            .map(|(_, field)| field),
                        _ => None,
                    };
                    let value = match wanted {
                        Some(wanted) => text_where_wanted(value, wanted),
                        None => value,
                    };
                    (key, value)
                })
                .collect(),
        }),
        (value, _) => value,
    }
}

/// `json.Unmarshal` into a type.
pub fn decode(json: Json, target: &Target, strict: bool) -> Result<Json, Error> {
    let mut decoder = TypedDecoder {
        strict,
        owner: None,
        path: Vec::new(),
    };
    decoder.value(json, target)
}

/// The text of a string field, as `yaml.Unmarshal` fills it: numbers and booleans become text, null
/// nothing, and collections are no text.
pub fn string_field(json: &Json) -> Option<String> {
    Some(match json {
        Json::Null => String::new(),
        Json::Bool(value) => value.to_string(),
        Json::String(text) => text.to_string(),
        Json::Number(number) if number.is_f64() => {
            format_float_g32(number.as_f64().unwrap_or_default())
        }
        Json::Number(number) => number.to_string(),
        Json::Array(_) | Json::Object(_) => return None,
    })
}

struct TypedDecoder<'t> {
    strict: bool,
    owner: Option<&'t str>,
    path: Vec<String>,
}

impl<'t> TypedDecoder<'t> {
    fn value(&mut self, json: Json, target: &'t Target) -> Result<Json, Error> {
        match (json, target) {
            (Json::Null, target) => Ok(target.zero()),
            (mut json, Target::Any) => {
                gojson::numbers_as_f64(&mut json);
                Ok(json)
            }
            (mut json, Target::KubernetesAny) => {
                normalize_numbers(&mut json);
                Ok(json)
            }
            (json @ Json::String(_), Target::String) | (json @ Json::Bool(_), Target::Bool) => {
                Ok(json)
            }
            (Json::Number(number), Target::Int64 | Target::Int32) => self.integer(number, target),
            (Json::Number(number), Target::Float64) => Ok(number
                .as_f64()
                .and_then(Number::from_f64)
                .map_or(Json::Null, Json::Number)),
            (Json::Array(items), Target::Slice(item)) => items
                .into_iter()
                .map(|value| self.value(value, item))
                .collect(),
            (Json::Object(object), Target::Map(item)) => {
                let mut out = Map::new();
                for (key, value) in object {
                    out.insert(key, self.value(value, item)?);
                }
                Ok(Json::Object(out))
            }
            (Json::Object(object), Target::Struct(go_struct)) => self.fields(object, go_struct),
            (json, target) => Err(self.misfit(json_kind(&json), target)),
        }
    }

    fn integer(&self, number: Number, target: &Target) -> Result<Json, Error> {
        let text = gojson::to_string(&Json::Number(number));
        let value = text
            .parse::<i64>()
            .ok()
            .filter(|&value| *target == Target::Int64 || i32::try_from(value).is_ok());
        match value {
            Some(value) => Ok(Json::Number(value.into())),
            None => Err(self.misfit(&format!("number {text}"), target)),
        }
    }

    fn fields(&mut self, object: Map, go_struct: &'t StructTarget) -> Result<Json, Error> {
        let zero = Target::Struct(go_struct.clone()).zero();
        let Json::Object(mut out) = zero else {
            return Ok(zero);
        };
        for (key, value) in object {
            let Some((name, field)) = go_struct.field(&key) else {
                if self.strict {
                    return Err(Error::Json {
                        problem: format!("unknown field {}", go_quote(&key)),
                    });
                }
                continue;
            };
            let owner = self.owner.replace(&go_struct.name);
            self.path.push(name.clone());
            let decoded = self.value(value, field)?;
            self.path.pop();
            self.owner = owner;
            out.insert(name.clone().into(), decoded);
        }
        Ok(Json::Object(out))
    }

    fn misfit(&self, found: &str, target: &Target) -> Error {
        let place = match self.owner {
            Some(owner) => format!("Go struct field {owner}.{}", self.path.join(".")),
            None => "Go value".to_owned(),
        };
        Error::Json {
            problem: format!(
                "cannot unmarshal {found} into {place} of type {}",
                target.go_type()
            ),
        }
    }
}
