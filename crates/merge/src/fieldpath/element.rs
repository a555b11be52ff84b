//! One step of a path, and whole paths.

use std::cmp::Ordering;
use std::fmt;

use everflow_json::Value;
use smol_str::SmolStr;

use super::value_order::compare_values;
use crate::go_text;

/// One step from a container to something in it.
#[derive(Debug, Clone)]
pub enum PathElement {
    /// A field of a struct or an entry of a map.
    Field(SmolStr),
    /// The item of an associative list with these key fields, sorted by name.
    Key(Box<[(SmolStr, Value)]>),
    /// The item of a set that has this value.
    Value(Box<Value>),
    /// The item of a list at this position.
    Index(i64),
}

impl PathElement {
    /// The element for a field or map entry.
    #[must_use]
    pub fn field(name: &str) -> Self {
        Self::Field(SmolStr::new(name))
    }

    /// The element for an item of an associative list; sorts the key fields by name.
    #[must_use]
    pub fn key(mut fields: Vec<(SmolStr, Value)>) -> Self {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Key(fields.into_boxed_slice())
    }

    /// The element for an item of a set.
    #[must_use]
    pub fn value(value: Value) -> Self {
        Self::Value(Box::new(value))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.as_str().cmp(b.as_str()),
            (Self::Key(a), Self::Key(b)) => a
                .iter()
                .zip(b)
                .map(|((na, va), (nb, vb))| {
                    na.as_str()
                        .cmp(nb.as_str())
                        .then_with(|| compare_values(va, vb))
                })
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len())),
            (Self::Value(a), Self::Value(b)) => compare_values(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// The text that conflicts and validation errors show: `.spec`, `[name="app"]`, `[="a"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{name}={}", value_text(value))?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", value_text(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => go_text::number_as_float(n),
        Value::String(s) => go_text::quote(s),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(value_text).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(map) => map
            .iter()
            .map(|(key, item)| format!("{key}={}", value_text(item)))
            .collect(),
    }
}

/// A path from the root of an object to a field or item.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(pub Vec<PathElement>);

impl FieldPath {
    /// The path of plain field names, such as `["metadata", "labels"]`.
    #[must_use]
    pub fn of_fields(names: &[&str]) -> Self {
        Self(names.iter().map(|name| PathElement::field(name)).collect())
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| write!(f, "{element}"))
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn paths_read_as_in_conflicts() {
        let path = FieldPath(vec![
            PathElement::field("spec"),
            PathElement::field("containers"),
            PathElement::key(vec![("name".into(), json!("app"))]),
            PathElement::field("ports"),
            PathElement::key(vec![
                ("protocol".into(), json!("TCP")),
                ("containerPort".into(), json!(80)),
            ]),
        ]);
        assert_eq!(
            path.to_string(),
            r#".spec.containers[name="app"].ports[containerPort=80,protocol="TCP"]"#
        );
        assert_eq!(PathElement::value(json!("a")).to_string(), r#"[="a"]"#);
        assert_eq!(PathElement::Index(3).to_string(), "[3]");
    }

    #[test]
    fn numbers_compare_by_value() {
        let int = PathElement::key(vec![("port".into(), json!(80))]);
        let float = PathElement::key(vec![("port".into(), json!(80.0))]);
        let larger = PathElement::key(vec![("port".into(), json!(443))]);
        assert_eq!(int, float);
        assert!(int < larger);
        assert!(PathElement::field("z") < int);
        assert!(larger < PathElement::value(json!("a")));
    }
}
