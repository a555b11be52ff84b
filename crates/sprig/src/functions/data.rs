use everflow_gotemplate::GoType::{Any, String as Str};
use everflow_gotemplate::{FuncError, GoType, List, Map, Value};

use super::Registry;
use crate::formats::json::{self, Style};
use crate::formats::yaml::{error_map, from_yaml, from_yaml_array, to_yaml, to_yaml_pretty};
use crate::formats::{toml_read, toml_write};

const PLAIN: Style = Style {
    escape_html: true,
    pretty: false,
};
const PRETTY: Style = Style {
    escape_html: true,
    pretty: true,
};
const RAW: Style = Style {
    escape_html: false,
    pretty: false,
};

pub(super) fn register(r: &mut Registry<'_>) {
    register_json(r);
    register_yaml(r);
    register_toml(r);
}

/// A text, or nothing if it could not be made.
fn or_empty(text: Result<String, String>) -> Value {
    Value::string(text.unwrap_or_default())
}

fn register_json(r: &mut Registry<'_>) {
    r.add("toJson", &[Any], Str, |a| {
        Ok(or_empty(json::to_string(a.get(0), PLAIN)))
    });
    r.add("toPrettyJson", &[Any], Str, |a| {
        Ok(or_empty(json::to_string(a.get(0), PRETTY)))
    });
    for (name, style) in [
        ("mustToJson", PLAIN),
        ("mustToPrettyJson", PRETTY),
        ("toRawJson", RAW),
        ("mustToRawJson", RAW),
    ] {
        let signature = everflow_gotemplate::Signature::new(&[Any], Str);
        r.functions.add(name, signature, move |_, args| {
            json::to_string(args.get(0), style)
                .map(Value::string)
                .map_err(FuncError::new)
        });
    }
    r.add("fromJson", &[Str], GoType::ANY_MAP, |a| {
        let read = json::parse(a.text(0)?.as_bytes()).and_then(|value| match value {
            Value::Nil => Ok(Value::Map(Map::nil(GoType::ANY_MAP))),
            map @ Value::Map(_) => Ok(map),
            other => Err(mismatch(&other, "map[string]interface {}")),
        });
        Ok(read.unwrap_or_else(error_map))
    });
    r.add("fromJsonArray", &[Str], GoType::ANY_SLICE, |a| {
        let read = json::parse(a.text(0)?.as_bytes()).and_then(|value| match value {
            Value::Nil => Ok(Value::List(List::nil(GoType::ANY_SLICE))),
            list @ Value::List(_) => Ok(list),
            other => Err(mismatch(&other, "[]interface {}")),
        });
        Ok(read.unwrap_or_else(|error| Value::list(vec![Value::string(error)])))
    });
    r.add("mustFromJson", &[Str], Any, |a| {
        json::parse(a.text(0)?.as_bytes()).map_err(FuncError::new)
    });
}

/// The complaint that JSON of one kind does not fit a Go type.
fn mismatch(value: &Value, wanted: &str) -> String {
    let found = match value {
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) => "object",
        _ => "number",
    };
    format!("json: cannot unmarshal {found} into Go value of type {wanted}")
}

fn register_yaml(r: &mut Registry<'_>) {
    r.add("toYaml", &[Any], Str, |a| Ok(or_empty(to_yaml(a.get(0)))));
    r.add("mustToYaml", &[Any], Str, |a| {
        to_yaml(a.get(0)).map(Value::string).map_err(FuncError::new)
    });
    r.add("toYamlPretty", &[Any], Str, |a| {
        Ok(or_empty(to_yaml_pretty(a.get(0))))
    });
    r.add("fromYaml", &[Str], GoType::ANY_MAP, |a| {
        Ok(from_yaml(a.text(0)?.as_bytes()))
    });
    r.add("fromYamlArray", &[Str], GoType::ANY_SLICE, |a| {
        Ok(from_yaml_array(a.text(0)?.as_bytes()))
    });
}

fn register_toml(r: &mut Registry<'_>) {
    r.add("toToml", &[Any], Str, |a| {
        match toml_write::to_toml(a.get(0)) {
            Ok(text) => Ok(Value::string(text)),
            // Some complaints are told in place of the text, panics are not.
            Err(error) if error.starts_with("reflect: ") => Err(FuncError::new(error)),
            Err(error) => Ok(Value::string(error)),
        }
    });
    r.add("mustToToml", &[Any], Str, |a| {
        toml_write::to_toml(a.get(0))
            .map(Value::string)
            .map_err(FuncError::new)
    });
    r.add("fromToml", &[Str], GoType::ANY_MAP, |a| {
        Ok(toml_read::parse(a.text(0)?.as_bytes()).unwrap_or_else(error_map))
    });
}
