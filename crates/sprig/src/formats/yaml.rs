//! Helm's `toYaml`, `toYamlPretty`, `fromYaml` and `fromYamlArray`.

use everflow_gotemplate::{
    FuncError, FuncResult, GoStr, GoType, Held, JSON_BYTES, Map, Meter, Numbers, Value,
};
use everflow_json::{Map as JsonMap, Number, Text, Value as Json};
use everflow_yaml::{emit, gojson, sigs};

use super::json::is_exported;
use crate::cost;
use crate::encoding::base64_encode;
use crate::objects::{DurationObject, TimeObject, VersionObject};
use crate::support::{MAX_NESTING, fail, or_told};
use crate::text::runes::to_valid;

/// What a value looks like to the YAML printers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    /// By way of JSON: nil slices are null, byte slices are base64, durations are numbers.
    Json,
    /// As the YAML library sees Go values: nil slices are empty, durations are texts.
    Go,
}

/// Builds a plain tree. What a tree cannot hold is written as a mark and put in later.
struct Builder<'m> {
    view: View,
    marks: Vec<String>,
    meter: &'m Meter<'m>,
    held: Held<'m>,
}

/// The YAML of a value as Kubernetes tools write it, without the last newline.
pub(crate) fn to_yaml(value: &Value, meter: &Meter<'_>) -> Result<String, FuncError> {
    let mut builder = Builder::new(View::Json, meter);
    let tree = builder
        .tree(value, 0)
        .map_err(|error| told(error, "error marshaling into JSON: "))?;
    let _held = meter.hold(cost::of_printing(&tree))?;
    let mut text = emit::sigs_checked(&tree)
        .map_err(|error| format!("error converting JSON to YAML: {error}"))?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// The YAML of a value with indented lists, without the last newline.
pub(crate) fn to_yaml_pretty(value: &Value, meter: &Meter<'_>) -> Result<String, FuncError> {
    let mut builder = Builder::new(View::Go, meter);
    if let Value::Object(object) = value
        && object.basic().is_none()
        && value.as_object::<TimeObject>().is_none()
        && value.as_object::<VersionObject>().is_none()
        && !object.fields().is_empty()
    {
        // The fields of a struct keep their order, which a plain tree would sort.
        let mut lines = Vec::new();
        for (name, field) in object
            .fields()
            .into_iter()
            .filter(|(name, _)| is_exported(name))
        {
            let entry = (name.to_lowercase(), builder.tree(&field, 1)?);
            let tree = Json::Object(JsonMap::from_iter([entry]));
            builder.held.add(cost::of_printing(&tree))?;
            lines.push(emit::to_yaml_pretty(&tree));
        }
        return Ok(builder.put_in(lines.join("\n")));
    }
    let tree = builder.tree(value, 0)?;
    let _held = meter.hold(cost::of_printing(&tree))?;
    Ok(builder.put_in(emit::to_yaml_pretty(&tree)))
}

/// An error with what was being done before it, unless something was used up.
fn told(error: FuncError, before: &str) -> FuncError {
    match error.exceeded() {
        Some(_) => error,
        None => format!("{before}{error}").into(),
    }
}

/// How a mark begins; its number and an underscore follow.
const MARK: &str = "everflow_plain_scalar_";

impl<'m> Builder<'m> {
    fn new(view: View, meter: &'m Meter<'_>) -> Self {
        Builder {
            view,
            marks: Vec::new(),
            meter,
            held: meter.nothing(),
        }
    }

    fn tree(&mut self, value: &Value, depth: usize) -> Result<Json, FuncError> {
        self.meter.steps(1)?;
        // A list or map that grows has room for as much again.
        self.held.add(2 * JSON_BYTES)?;
        if depth > MAX_NESTING {
            let name = value.type_name();
            return fail(format!(
                "json: unsupported value: encountered a cycle via {name}"
            ));
        }
        Ok(match value {
            Value::Object(_) => return self.object(value, depth),
            Value::Nil | Value::NilPointer(_) => Json::Null,
            Value::List(list) if self.view == View::Json && list.is_nil() => Json::Null,
            Value::Map(map) if self.view == View::Json && map.is_nil() => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::String(text) => Json::String(self.text(text)?),
            Value::List(list)
                if self.view == View::Json && list.go_type().element() == Some(GoType::Uint8) =>
            {
                self.held.add(3 * list.len())?;
                Json::String(base64_encode(&value.as_byte_slice().unwrap_or_default()).into())
            }
            Value::List(list) => {
                let items = self.meter.items(list)?.iter();
                let items = items.map(|item| self.tree(item, depth + 1));
                Json::Array(items.collect::<Result<_, _>>()?)
            }
            Value::Map(map) => {
                let mut entries = JsonMap::new();
                for (key, value) in map.read().iter() {
                    entries.insert(self.text(key)?, self.tree(value, depth + 1)?);
                }
                Json::Object(entries)
            }
            other => return self.number(other),
        })
    }

    /// A text that is shared if it can be; every stray byte becomes a replacement character.
    fn text(&mut self, text: &GoStr) -> Result<Text, FuncError> {
        if let Some(text) = text.as_shared() {
            return Ok(text.clone());
        }
        self.held.add(6 * text.len())?;
        Ok(to_valid(text.as_bytes()).into())
    }

    fn number(&mut self, value: &Value) -> Result<Json, FuncError> {
        if let Some(int) = value.as_int() {
            return Ok(Json::Number(int.into()));
        }
        if let Some(uint) = value.as_uint() {
            return Ok(Json::Number(uint.into()));
        }
        let float = match value {
            Value::Float64(number) => *number,
            // The shortest text that reads as the narrow number, not its exact wide value.
            Value::Float32(number) => number.to_string().parse().unwrap_or(f64::from(*number)),
            _ => return fail(format!("json: unsupported type: {}", value.type_name())),
        };
        match Number::from_f64(float) {
            Some(number) => Ok(Json::Number(number)),
            None if self.view == View::Go => {
                let text = if float.is_nan() {
                    ".nan"
                } else if float > 0.0 {
                    ".inf"
                } else {
                    "-.inf"
                };
                Ok(self.mark(text.to_owned()))
            }
            None => fail(format!(
                "json: unsupported value: {}",
                gojson::format_shortest(float)
            )),
        }
    }

    fn object(&mut self, value: &Value, depth: usize) -> Result<Json, FuncError> {
        let Value::Object(object) = value else {
            return Ok(Json::Null);
        };
        if let Some(time) = value.as_object::<TimeObject>() {
            let text = time.0.format(b"2006-01-02T15:04:05.999999999Z07:00");
            let text = String::from_utf8_lossy(&text).into_owned();
            return Ok(match self.view {
                View::Json => Json::String(text.into()),
                View::Go => self.mark(text),
            });
        }
        if let Some(version) = value.as_object::<VersionObject>() {
            return Ok(Json::String(version.version.to_string().into()));
        }
        if let Some(duration) = value.as_object::<DurationObject>()
            && self.view == View::Go
        {
            return Ok(Json::String(duration.0.to_string().into()));
        }
        if let Some(basic) = object.basic() {
            return self.tree(&basic, depth + 1);
        }
        let mut entries = JsonMap::new();
        for (name, field) in object
            .fields()
            .into_iter()
            .filter(|(name, _)| is_exported(name))
        {
            let name = if self.view == View::Go {
                name.to_lowercase()
            } else {
                name.to_owned()
            };
            entries.insert(name.into(), self.tree(&field, depth + 1)?);
        }
        Ok(Json::Object(entries))
    }

    /// A word that stands for plain text which no tree can hold.
    fn mark(&mut self, text: String) -> Json {
        self.marks.push(text);
        Json::String(format!("{MARK}{}_", self.marks.len() - 1).into())
    }

    fn put_in(&self, text: String) -> String {
        if self.marks.is_empty() {
            return text;
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(at) = rest.find(MARK) {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let number = from[MARK.len()..].split_once('_');
            let plain = number.and_then(|(number, after)| {
                let index: usize = number.parse().ok()?;
                Some((self.marks.get(index)?, after))
            });
            let (put, after) = match plain {
                Some((plain, after)) => (plain.as_str(), after),
                None => (MARK, &from[MARK.len()..]),
            };
            out.push_str(put);
            rest = after;
        }
        out.push_str(rest);
        out
    }
}

/// Reads a YAML map; a complaint becomes its `Error` entry.
pub(crate) fn from_yaml(text: &[u8], meter: &Meter<'_>) -> FuncResult {
    let read = read(text, meter).and_then(|json| match json {
        Json::Null => Ok(Value::Map(Map::new())),
        Json::Object(_) => Value::from_json(&json, Numbers::Float64, meter),
        other => fail(decoding_error(&other, "map[string]interface {}")),
    });
    or_told(read, error_map)
}

/// Reads a YAML list; a complaint becomes its only item.
pub(crate) fn from_yaml_array(text: &[u8], meter: &Meter<'_>) -> FuncResult {
    let read = read(text, meter).and_then(|json| match json {
        Json::Null => Ok(Value::list(Vec::new())),
        Json::Array(_) => Value::from_json(&json, Numbers::Float64, meter),
        other => fail(decoding_error(&other, "[]interface {}")),
    });
    or_told(read, |error| Value::list(vec![Value::string(error)]))
}

fn read(text: &[u8], meter: &Meter<'_>) -> Result<Json, FuncError> {
    let _held = meter.hold(cost::of_yaml(text))?;
    sigs::yaml_to_json(text)
        .map_err(|error| format!("error converting YAML to JSON: {error}").into())
}

fn decoding_error(json: &Json, wanted: &str) -> String {
    let found = match json {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    format!(
        "error unmarshaling JSON: while decoding JSON: \
         json: cannot unmarshal {found} into Go value of type {wanted}"
    )
}

/// A map that holds nothing but a complaint.
pub(crate) fn error_map(error: String) -> Value {
    Value::map([("Error", Value::string(error))])
}

#[cfg(test)]
mod tests {
    use everflow_gotemplate::Limits;
    use everflow_limits::Budget;
    use everflow_semver::Version;

    use super::*;

    #[test]
    fn versions_print_as_text_in_both_forms() {
        let version = Value::object(VersionObject {
            version: Version::parse("3.7").unwrap(),
            pointer: true,
        });
        let budget = Budget::unlimited();
        let meter = Meter::new(&Limits::default(), &budget);
        assert_eq!(to_yaml_pretty(&version, &meter).unwrap(), "3.7.0");
    }

    #[test]
    fn numbers_that_json_has_no_word_for_are_written_in_yaml() {
        let budget = Budget::unlimited();
        let meter = Meter::new(&Limits::default(), &budget);
        let values = [f64::NAN, 1.5, f64::INFINITY].map(Value::Float64);
        let text = Value::string("everflow_plain_scalar_7_ everflow_plain_scalar_");
        let list = Value::list([values.as_slice(), &[text]].concat());
        assert_eq!(
            to_yaml_pretty(&list, &meter).unwrap(),
            "- .nan\n- 1.5\n- .inf\n- everflow_plain_scalar_7_ everflow_plain_scalar_"
        );
    }
}
