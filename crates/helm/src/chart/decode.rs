//! YAML into the fields of a Go struct, as sigs.k8s.io/yaml and encoding/json do it: keys match
//! without regard to case, scalars become strings where a string is wanted, and the first value
//! that does not fit is the error.

use everflow_gotemplate::gofmt::{self, FloatSize};
use everflow_json::{Map, Value};

/// Collects the first value that does not fit its field.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    error: Option<String>,
}

/// The fields of one object, found without regard to case.
pub(crate) struct Fields<'v> {
    path: String,
    object: &'v Map,
}

impl Decoder {
    /// The first error, in encoding/json's words.
    pub(crate) fn finish(self) -> Result<(), String> {
        match self.error {
            None => Ok(()),
            Some(error) => Err(format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {error}"
            )),
        }
    }

    fn fail(&mut self, value: &Value, path: &str, wanted: &str) {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let target = match path.contains('.') {
            true => format!("Go struct field {path} of type {wanted}"),
            false => format!("Go value of type {wanted}"),
        };
        self.error.get_or_insert(format!("{found} into {target}"));
    }

    pub(crate) fn string(&mut self, fields: &Fields<'_>, name: &str) -> String {
        match fields.get(name) {
            Some((path, value)) => self.text(value, &path).unwrap_or_default(),
            None => String::new(),
        }
    }

    pub(crate) fn boolean(&mut self, fields: &Fields<'_>, name: &str) -> bool {
        match fields.get(name) {
            Some((_, Value::Bool(flag))) => *flag,
            None | Some((_, Value::Null)) => false,
            Some((path, other)) => {
                self.fail(other, &path, "bool");
                false
            }
        }
    }

    pub(crate) fn strings(&mut self, fields: &Fields<'_>, name: &str) -> Vec<String> {
        let Some((path, items)) = self.list(fields, name, "[]string") else {
            return Vec::new();
        };
        items
            .iter()
            .map(|item| self.text(item, &path).unwrap_or_default())
            .collect()
    }

    pub(crate) fn string_map(&mut self, fields: &Fields<'_>, name: &str) -> Vec<(String, String)> {
        match fields.get(name) {
            Some((path, Value::Object(object))) => object
                .iter()
                .map(|(key, value)| (key.to_string(), self.text(value, &path).unwrap_or_default()))
                .collect(),
            None | Some((_, Value::Null)) => Vec::new(),
            Some((path, other)) => {
                self.fail(other, &path, "map[string]string");
                Vec::new()
            }
        }
    }

    /// The items of a list with their path.
    pub(crate) fn list<'v>(
        &mut self,
        fields: &Fields<'v>,
        name: &str,
        type_name: &str,
    ) -> Option<(String, &'v Vec<Value>)> {
        match fields.get(name)? {
            (path, Value::Array(items)) => Some((path, items)),
            (_, Value::Null) => None,
            (path, other) => {
                self.fail(other, &path, type_name);
                None
            }
        }
    }

    /// As [`Decoder::object`], for a struct that has no name: errors about what is inside it name no
    /// type, only the way to it.
    pub(crate) fn nameless_object<'v>(
        &mut self,
        fields: &Fields<'v>,
        name: &str,
        type_name: &str,
    ) -> Option<Fields<'v>> {
        let (path, value) = fields.get(name)?;
        let mut inner = self.object(value, &path, type_name)?;
        inner.path = path[path.find('.').unwrap_or(0)..].to_owned();
        Some(inner)
    }

    /// An object: the whole document, or one in a list or field. Null gives nothing, like a nil
    /// pointer. `path` is what errors call it, `type_name` its full Go type.
    pub(crate) fn object<'v>(
        &mut self,
        value: &'v Value,
        path: &str,
        type_name: &str,
    ) -> Option<Fields<'v>> {
        match value {
            Value::Object(object) => Some(Fields {
                path: path.to_owned(),
                object,
            }),
            Value::Null => None,
            other => {
                self.fail(other, path, type_name);
                None
            }
        }
    }

    fn text(&mut self, value: &Value, path: &str) -> Option<String> {
        match value {
            Value::String(text) => Some(text.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            Value::Number(number) => Some(match number.as_f64() {
                // sigs.k8s.io/yaml prints floats with the precision of a float32.
                Some(float) if number.is_f64() => {
                    gofmt::format_float(float, b'g', None, FloatSize::F32)
                }
                _ => number.to_string(),
            }),
            Value::Null => None,
            other => {
                self.fail(other, path, "string");
                None
            }
        }
    }
}

impl<'v> Fields<'v> {
    /// A field with its path: the exact key, or else one that differs only in case.
    pub(crate) fn get(&self, name: &str) -> Option<(String, &'v Value)> {
        let value = self.object.get(name).or_else(|| {
            self.object
                .iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
        })?;
        Some((format!("{}.{name}", self.path), value))
    }
}
