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
        let read = read_json(a.text(0)?.as_bytes(), b'{', "map[string]interface {}");
        Ok(read.map_or_else(error_map, |value| match value {
            Value::Nil => Value::Map(Map::nil(GoType::ANY_MAP)),
            map => map,
        }))
    });
    r.add("fromJsonArray", &[Str], GoType::ANY_SLICE, |a| {
        let read = read_json(a.text(0)?.as_bytes(), b'[', "[]interface {}");
        Ok(match read {
            Ok(Value::Nil) => Value::List(List::nil(GoType::ANY_SLICE)),
            Ok(list) => list,
            Err(error) => Value::list(vec![Value::string(error)]),
        })
    });
    r.add("mustFromJson", &[Str], Any, |a| {
        json::parse(a.text(0)?.as_bytes()).map_err(FuncError::new)
    });
}

/// Reads JSON that must start with a given bracket, or be null, to fit a Go type.
fn read_json(text: &[u8], bracket: u8, wanted: &str) -> Result<Value, String> {
    let read = json::parse(text);
    let first = text
        .iter()
        .copied()
        .find(|b| !b" \t\r\n".contains(b))
        .unwrap_or_default();
    // What does not fit is told before numbers that are too large.
    let well_formed = match &read {
        Ok(_) => true,
        Err(error) => error.starts_with("json: cannot unmarshal number"),
    };
    if first == bracket || first == b'n' || !well_formed {
        return read;
    }
    let found = match first {
        b't' | b'f' => "bool",
        b'"' => "string",
        b'[' => "array",
        b'{' => "object",
        _ => "number",
    };
    Err(format!(
        "json: cannot unmarshal {found} into Go value of type {wanted}"
    ))
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
