//! Values into the fields of helm's structs, with Go's words about what does not fit.

use everflow_json::{Map, Value as Json};
use everflow_yaml::sigs::typed::string_field;

use super::time::GoTime;

/// The fields of an index.
pub(super) const INDEX_FIELDS: [&str; 6] = [
    "serverInfo",
    "apiVersion",
    "generated",
    "entries",
    "publicKeys",
    "annotations",
];

/// What the text was, which decides how strictly it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Unknown fields are ignored, types must fit.
    Json,
    /// Unknown fields are errors; scalars become text in the fields that `sigs.k8s.io/yaml` knows
    /// to be text.
    Yaml,
}

/// A value that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misfit(String);

/// Where a value stands.
#[derive(Debug, Clone)]
pub(super) struct Place {
    owner: &'static str,
    path: String,
}

impl Place {
    pub(super) fn new(owner: &'static str, path: impl Into<String>) -> Self {
        Place {
            owner,
            path: path.into(),
        }
    }
}

impl Misfit {
    /// Text with Go's prefixes.
    pub(super) fn message(&self, source: Source) -> String {
        match source {
            Source::Json => self.0.clone(),
            Source::Yaml => format!("error unmarshaling JSON: while decoding JSON: {}", self.0),
        }
    }

    pub(super) fn unknown(field: &str) -> Self {
        Misfit(format!("json: unknown field {field:?}"))
    }

    pub(super) fn root(value: &Json) -> Self {
        Misfit(format!(
            "json: cannot unmarshal {} into Go value of type repo.IndexFile",
            found(value)
        ))
    }

    pub(super) fn kind(value: &Json, at: &Place, wanted: &str) -> Self {
        Misfit(format!(
            "json: cannot unmarshal {} into Go struct field {}.{} of type {wanted}",
            found(value),
            at.owner,
            at.path
        ))
    }

    pub(super) fn other(text: String) -> Self {
        Misfit(text)
    }
}

fn found(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

/// The field that Go takes a key for: of that name, or of one that differs only in case.
pub(super) fn canonical(key: &str, fields: &[&'static str]) -> Option<&'static str> {
    let exact = fields.iter().find(|field| **field == key);
    exact
        .or_else(|| fields.iter().find(|field| field.eq_ignore_ascii_case(key)))
        .copied()
}

/// A string field; null leaves it as it is.
pub(super) fn string(value: &Json, at: &Place, into: &mut String) -> Result<(), Misfit> {
    match value {
        Json::Null => {}
        Json::String(text) => text.as_str().clone_into(into),
        other => return Err(Misfit::kind(other, at, "string")),
    }
    Ok(())
}

/// A string field that takes any scalar of YAML.
pub(super) fn coerced(
    value: &Json,
    at: &Place,
    source: Source,
    into: &mut String,
) -> Result<(), Misfit> {
    match (value, source) {
        (Json::Bool(_) | Json::Number(_), Source::Yaml) => {
            *into = string_field(value).unwrap_or_default();
            Ok(())
        }
        _ => string(value, at, into),
    }
}

pub(super) fn boolean(value: &Json, at: &Place, into: &mut bool) -> Result<(), Misfit> {
    match value {
        Json::Null => {}
        Json::Bool(flag) => *into = *flag,
        other => return Err(Misfit::kind(other, at, "bool")),
    }
    Ok(())
}

/// The items of a list; none for null.
pub(super) fn list<'v>(
    value: &'v Json,
    at: &Place,
    wanted: &str,
) -> Result<Option<&'v Vec<Json>>, Misfit> {
    match value {
        Json::Null => Ok(None),
        Json::Array(items) => Ok(Some(items)),
        other => Err(Misfit::kind(other, at, wanted)),
    }
}

/// The entries of a map; none for null.
pub(super) fn object<'v>(
    value: &'v Json,
    at: &Place,
    wanted: &str,
) -> Result<Option<&'v Map>, Misfit> {
    match value {
        Json::Null => Ok(None),
        Json::Object(object) => Ok(Some(object)),
        other => Err(Misfit::kind(other, at, wanted)),
    }
}

pub(super) fn strings(value: &Json, at: &Place) -> Result<Option<Vec<String>>, Misfit> {
    coerced_list(value, at, Source::Json)
}

pub(super) fn coerced_list(
    value: &Json,
    at: &Place,
    source: Source,
) -> Result<Option<Vec<String>>, Misfit> {
    let Some(items) = list(value, at, "[]string")? else {
        return Ok(None);
    };
    let mut texts = Vec::with_capacity(items.len());
    for item in items {
        let mut text = String::new();
        coerced(item, at, source, &mut text)?;
        texts.push(text);
    }
    Ok(Some(texts))
}

pub(super) fn coerced_map(
    value: &Json,
    at: &Place,
    source: Source,
) -> Result<Option<Vec<(String, String)>>, Misfit> {
    let Some(object) = object(value, at, "map[string]string")? else {
        return Ok(None);
    };
    let mut texts = Vec::with_capacity(object.len());
    for (key, value) in object {
        let mut text = String::new();
        coerced(value, at, source, &mut text)?;
        texts.push((key.to_string(), text));
    }
    Ok(Some(texts))
}

pub(super) fn time(value: &Json, into: &mut GoTime) -> Result<(), Misfit> {
    match value {
        Json::Null => Ok(()),
        Json::String(text) => {
            *into = GoTime::parse(text).map_err(Misfit::other)?;
            Ok(())
        }
        _ => Err(Misfit::other(
            "Time.UnmarshalJSON: input is not a JSON string".to_owned(),
        )),
    }
}
