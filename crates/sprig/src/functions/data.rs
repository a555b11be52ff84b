use everflow_gotemplate::GoType::{Any, String as Str};
use everflow_gotemplate::{FuncError, FuncResult, GoType, List, Map, Meter, Value};

use super::Registry;
use crate::formats::json::{self, Style};
use crate::formats::yaml::{error_map, from_yaml, from_yaml_array, to_yaml, to_yaml_pretty};
use crate::formats::{toml_read, toml_write};
use crate::support::{fail, or_told};

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
fn or_empty(text: Result<String, FuncError>) -> FuncResult {
    or_told(text.map(Value::string), |_| Value::string(""))
}

fn register_json(r: &mut Registry<'_>) {
    r.metered("toJson", &[Any], Str, |m, a| {
        or_empty(json::to_string(a.get(0), PLAIN, m))
    });
    r.metered("toPrettyJson", &[Any], Str, |m, a| {
        or_empty(json::to_string(a.get(0), PRETTY, m))
    });
    for (name, style) in [
        ("mustToJson", PLAIN),
        ("mustToPrettyJson", PRETTY),
        ("toRawJson", RAW),
        ("mustToRawJson", RAW),
    ] {
        let signature = everflow_gotemplate::Signature::new(&[Any], Str);
        r.functions.add(name, signature, move |context, args| {
            json::to_string(args.get(0), style, context.meter()).map(Value::string)
        });
    }
    r.metered("fromJson", &[Str], GoType::ANY_MAP, |m, a| {
        let read = read_json(a.text(0)?.as_bytes(), b'{', "map[string]interface {}", m);
        or_told(
            read.map(|value| match value {
                Value::Nil => Value::Map(Map::nil(GoType::ANY_MAP)),
                map => map,
            }),
            error_map,
        )
    });
    r.metered("fromJsonArray", &[Str], GoType::ANY_SLICE, |m, a| {
        let read = read_json(a.text(0)?.as_bytes(), b'[', "[]interface {}", m);
        or_told(
            read.map(|value| match value {
                Value::Nil => Value::List(List::nil(GoType::ANY_SLICE)),
                list => list,
            }),
            |error| Value::list(vec![Value::string(error)]),
        )
    });
    r.metered("mustFromJson", &[Str], Any, |m, a| {
        json::parse(a.text(0)?.as_bytes(), m)
    });
}

/// Reads JSON that must start with a given bracket, or be null, to fit a Go type.
fn read_json(text: &[u8], bracket: u8, wanted: &str, meter: &Meter<'_>) -> FuncResult {
    let read = json::parse(text, meter);
    let first = text
        .iter()
        .copied()
        .find(|b| !b" \t\r\n".contains(b))
        .unwrap_or_default();
    // What does not fit is told before numbers that are too large.
    let well_formed = match &read {
        Ok(_) => true,
        Err(error) => error.prefix().starts_with("json: cannot unmarshal number"),
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
    fail(format!(
        "json: cannot unmarshal {found} into Go value of type {wanted}"
    ))
}

fn register_yaml(r: &mut Registry<'_>) {
    r.metered("toYaml", &[Any], Str, |m, a| or_empty(to_yaml(a.get(0), m)));
    r.metered("mustToYaml", &[Any], Str, |m, a| {
        to_yaml(a.get(0), m).map(Value::string)
    });
    r.metered("toYamlPretty", &[Any], Str, |m, a| {
        or_empty(to_yaml_pretty(a.get(0), m))
    });
    r.metered("fromYaml", &[Str], GoType::ANY_MAP, |m, a| {
        from_yaml(a.text(0)?.as_bytes(), m)
    });
    r.metered("fromYamlArray", &[Str], GoType::ANY_SLICE, |m, a| {
        from_yaml_array(a.text(0)?.as_bytes(), m)
    });
}

fn register_toml(r: &mut Registry<'_>) {
    r.metered("toToml", &[Any], Str, |m, a| {
        match toml_write::to_toml(a.get(0), m) {
            // Some complaints are told in place of the text, panics are not.
            Err(error) if error.prefix().starts_with("reflect: ") => Err(error),
            text => or_told(text.map(Value::string), Value::string),
        }
    });
    r.metered("mustToToml", &[Any], Str, |m, a| {
        toml_write::to_toml(a.get(0), m).map(Value::string)
    });
    r.metered("fromToml", &[Str], GoType::ANY_MAP, |m, a| {
        or_told(toml_read::parse(a.text(0)?.as_bytes(), m), error_map)
    });
}
