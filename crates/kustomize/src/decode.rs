//! Reading configuration the way Go's `encoding/json` fills structs: keys match without regard to
//! case, `null` leaves a field at its zero value, and a wrong type is an error that names the field.

use std::collections::{BTreeMap, BTreeSet};

use everflow_json::{Map, Value};

use crate::error::{Error, Result};
use crate::fieldspec::check_path;

/// How forgiving a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Unknown fields are errors.
    pub strict: bool,
    /// Numbers and booleans are accepted where text is asked for.
    pub coerce: bool,
}

/// What kustomization files are read with.
pub const KUSTOMIZATION: Mode = Mode {
    strict: true,
    coerce: false,
};
/// What kustomization files are read with whose unknown fields do not matter.
pub const LENIENT: Mode = Mode {
    strict: false,
    coerce: false,
};
/// What plugin configurations are read with.
pub const PLUGIN: Mode = Mode {
    strict: false,
    coerce: true,
};
/// What transformer configurations are read with.
pub const STRICT_PLUGIN: Mode = Mode {
    strict: true,
    coerce: true,
};

/// An object whose fields are taken one by one.
pub struct Fields<'a> {
    map: Option<&'a Map>,
    path: String,
    mode: Mode,
    taken: BTreeSet<&'a str>,
}

impl<'a> Fields<'a> {
    /// Starts to read an object; `path` names it in errors.
    pub fn new(value: &'a Value, path: impl Into<String>, mode: Mode) -> Result<Self> {
        let path = path.into();
        let map = match value {
            Value::Null => None,
            Value::Object(map) => Some(map),
            other => {
                return Err(Error::Configuration(if path.contains('.') {
                    mismatch(other, &path, "object")
                } else {
                    format!(
                        "json: cannot unmarshal {} into Go value of type types.{path}",
                        kind_of(other)
                    )
                }));
            }
        };
        Ok(Fields {
            map,
            path,
            mode,
            taken: BTreeSet::new(),
        })
    }

    /// The value of a field, unless it is missing or null.
    pub fn take(&mut self, name: &str) -> Option<&'a Value> {
        let map = self.map?;
        let (key, value) = map
            .get_key_value(name)
            .or_else(|| map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)))?;
        self.taken.insert(key.as_str());
        (!value.is_null()).then_some(value)
    }

    /// Marks every spelling of a field as known without reading it.
    pub fn has(&mut self, name: &str) -> bool {
        self.take(name).is_some()
    }

    /// The path of a field, for errors.
    pub fn path_of(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }

    /// The mode this object is read with.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// A text field; empty when missing.
    pub fn text(&mut self, name: &str) -> Result<String> {
        match self.take(name) {
            Some(value) => text_of(value, self.mode, || self.path_of(name)),
            None => Ok(String::new()),
        }
    }

    /// A field path, which must not have too many parts; empty when missing.
    pub fn path(&mut self, name: &str, delimiter: char) -> Result<String> {
        let path = self.text(name)?;
        self.check_path(name, &path, delimiter)?;
        Ok(path)
    }

    /// A list of field paths; empty when missing.
    pub fn paths(&mut self, name: &str, delimiter: char) -> Result<Vec<String>> {
        let paths = self.texts(name)?;
        for path in &paths {
            self.check_path(name, path, delimiter)?;
        }
        Ok(paths)
    }

    fn check_path(&self, name: &str, path: &str, delimiter: char) -> Result<()> {
        let checked = check_path(path, delimiter);
        checked.map_err(|error| error.above_field(&self.path_of(name)))
    }

    /// A text field that may be missing.
    pub fn optional_text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            Some(value) => text_of(value, self.mode, || self.path_of(name)).map(Some),
            None => Ok(None),
        }
    }

    /// A boolean field; false when missing.
    pub fn flag(&mut self, name: &str) -> Result<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.wrong(other, name, "bool")),
        }
    }

    /// An integer field; 0 when missing.
    pub fn integer(&mut self, name: &str) -> Result<i64> {
        match self.take(name) {
            None => Ok(0),
            Some(Value::Number(number)) => number.as_i64().ok_or_else(|| {
                Error::Configuration(format!(
                    "json: cannot unmarshal number {number} into Go struct field {} of type int64",
                    self.path_of(name)
                ))
            }),
            Some(other) => Err(self.wrong(other, name, "int64")),
        }
    }

    /// A list of texts; empty when missing.
    pub fn texts(&mut self, name: &str) -> Result<Vec<String>> {
        let mode = self.mode;
        self.list(name, |value, path| {
            if value.is_null() {
                return Ok(String::new());
            }
            text_of(value, mode, || path)
        })
    }

    /// A list; empty when missing.
    pub fn list<T>(
        &mut self,
        name: &str,
        mut item: impl FnMut(&'a Value, String) -> Result<T>,
    ) -> Result<Vec<T>> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => {
                let path = self.path_of(name);
                values
                    .iter()
                    .map(|value| item(value, path.clone()))
                    .collect()
            }
            Some(other) => Err(self.wrong(other, name, "[]string")),
        }
    }

    /// A map of texts; empty when missing.
    pub fn text_map(&mut self, name: &str) -> Result<BTreeMap<String, String>> {
        match self.take(name) {
            None => Ok(BTreeMap::new()),
            Some(Value::Object(map)) => map
                .iter()
                .map(|(key, value)| {
                    let text = match value {
                        Value::Null => String::new(),
                        value => text_of(value, self.mode, || self.path_of(name))?,
                    };
                    Ok((key.to_string(), text))
                })
                .collect(),
            Some(other) => Err(self.wrong(other, name, "map[string]string")),
        }
    }

    /// An object field, read by `read`; `None` when missing.
    pub fn object<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Fields<'a>) -> Result<T>,
    ) -> Result<Option<T>> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => read(Fields::new(value, self.path_of(name), self.mode)?).map(Some),
        }
    }

    /// A list of objects, each read by `read`.
    pub fn objects<T>(
        &mut self,
        name: &str,
        mut read: impl FnMut(&mut Fields<'a>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mode = self.mode;
        self.list(name, |value, path| {
            let mut fields = Fields::new(value, path, mode)?;
            let item = read(&mut fields)?;
            fields.finish()?;
            Ok(item)
        })
    }

    /// Ends the reading: in strict mode nothing may be left over.
    pub fn finish(self) -> Result<()> {
        let (true, Some(map)) = (self.mode.strict, self.map) else {
            return Ok(());
        };
        match map.keys().find(|key| !self.taken.contains(key.as_str())) {
            None => Ok(()),
            Some(key) => Err(Error::Configuration(format!("json: unknown field {key:?}"))),
        }
    }

    fn wrong(&self, value: &Value, name: &str, wanted: &str) -> Error {
        Error::Configuration(mismatch(value, &self.path_of(name), wanted))
    }
}

fn text_of(value: &Value, mode: Mode, path: impl FnOnce() -> String) -> Result<String> {
    match value {
        Value::String(text) => Ok(text.to_string()),
        Value::Bool(flag) if mode.coerce => Ok(flag.to_string()),
        Value::Number(number) if mode.coerce => Ok(number.to_string()),
        other => Err(Error::Configuration(mismatch(other, &path(), "string"))),
    }
}

fn mismatch(value: &Value, path: &str, wanted: &str) -> String {
    format!(
        "json: cannot unmarshal {} into Go struct field {path} of type {wanted}",
        kind_of(value)
    )
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    #[test]
    fn keys_match_in_any_case_and_the_rest_is_unknown() {
        let value = json!({"NAMEPREFIX": "a-", "count": 3, "extra": 1});
        let mut fields = Fields::new(&value, "Kustomization", KUSTOMIZATION).unwrap();
        assert_eq!(fields.text("namePrefix").unwrap(), "a-");
        assert_eq!(fields.integer("count").unwrap(), 3);
        assert_eq!(
            fields.finish().unwrap_err().to_string(),
            "json: unknown field \"extra\""
        );
    }

    #[test]
    fn a_wrong_type_names_the_field() {
        let value = json!({"namePrefix": 5});
        let mut fields = Fields::new(&value, "Kustomization", KUSTOMIZATION).unwrap();
        assert_eq!(
            fields.text("namePrefix").unwrap_err().to_string(),
            "json: cannot unmarshal number into Go struct field Kustomization.namePrefix of type string"
        );
        let mut fields = Fields::new(&value, "Plugin", PLUGIN).unwrap();
        assert_eq!(fields.text("namePrefix").unwrap(), "5");
    }
}
