//! `FieldsV1`: the JSON form of field sets in `metadata.managedFields`.

use std::fmt::Write as _;

use everflow_json::{Map, Number, Text, Value};
use smol_str::SmolStr;

use super::element::PathElement;
use super::set::{FieldSet, FieldSetBuilder};
use crate::MergeError;

impl FieldSet {
    /// Reads a `fieldsV1` object. Elements of unknown types are left out, as a newer server may
    /// have written them.
    ///
    /// # Errors
    /// [`MergeError::FieldsV1`] when an element cannot be read.
    pub fn from_fields_v1(fields: &Value) -> Result<Self, MergeError> {
        match fields {
            Value::Null => Ok(Self::new()),
            Value::Object(map) => Ok(read(map, crate::MAX_DEPTH)?.0),
            _ => Err(invalid("an object is needed".to_owned())),
        }
    }

    /// The `fieldsV1` object. Its keys sort as text; see [`FieldSet::to_fields_v1_text`] for the
    /// order in which the API server writes them.
    #[must_use]
    pub fn to_fields_v1(&self) -> Value {
        self.written(false, &mut String::new())
    }

    /// As [`FieldSet::to_fields_v1`] below a member or not, with a place to put keys together.
    fn written(&self, member: bool, key: &mut String) -> Value {
        let has_dot = member && !self.nodes.is_empty();
        let mut entries = Vec::with_capacity(self.nodes.len() + usize::from(has_dot));
        if has_dot {
            entries.push((Text::new("."), Value::Object(Map::new())));
        }
        for node in &self.nodes {
            let name = match &node.element {
                PathElement::Field(name) => {
                    key.clear();
                    key.push_str("f:");
                    key.push_str(name);
                    Text::new(key.as_str())
                }
                other => element_text(other).into(),
            };
            entries.push((name, node.children.written(node.member, key)));
        }
        Value::Object(entries.into_iter().collect())
    }

    /// Whether a value is known to be what [`FieldSet::to_fields_v1`] gives. False means unknown: numbers in keys are
    /// in another order as text.
    pub(crate) fn is_written_in(&self, fields: &Value, member: bool) -> bool {
        let Value::Object(map) = fields else {
            return false;
        };
        let has_dot = member && !self.nodes.is_empty();
        if map.len() != self.nodes.len() + usize::from(has_dot) {
            return false;
        }
        let mut entries = map.iter();
        if has_dot {
            match entries.next() {
                Some((key, Value::Object(empty))) if key == "." && empty.is_empty() => {}
                _ => return false,
            }
        }
        self.nodes.iter().zip(entries).all(|(node, (key, inner))| {
            let same_key = match &node.element {
                PathElement::Field(name) => key.strip_prefix("f:") == Some(name.as_str()),
                other => *key == *element_text(other),
            };
            same_key && node.children.is_written_in(inner, node.member)
        })
    }

    /// The `fieldsV1` JSON text, byte for byte as the API server stores it: within one level
    /// fields come first, then keyed items by key, then values.
    #[must_use]
    pub fn to_fields_v1_text(&self) -> String {
        let mut out = String::new();
        self.write_text(false, &mut out);
        out
    }

    fn write_text(&self, member: bool, out: &mut String) {
        out.push('{');
        let mut first = true;
        if member && !self.nodes.is_empty() {
            out.push_str("\".\":{}");
            first = false;
        }
        for node in &self.nodes {
            if !first {
                out.push(',');
            }
            first = false;
            write_json_string(&element_text(&node.element), false, out);
            out.push(':');
            node.children.write_text(node.member, out);
        }
        out.push('}');
    }
}

fn invalid(reason: String) -> MergeError {
    MergeError::FieldsV1 { reason }
}

/// Reads one level: the set, and whether the path up to here is a member.
fn read(map: &Map, levels: usize) -> Result<(FieldSet, bool), MergeError> {
    if levels == 0 {
        return Err(MergeError::TooDeep {
            limit: crate::MAX_DEPTH,
        });
    }
    let mut nodes = FieldSetBuilder::with_capacity(map.len());
    let mut member = false;
    for (key, inner) in map {
        if key == "." {
            member = true;
            continue;
        }
        let Some(element) = parse_element(key)? else {
            continue;
        };
        let (children, child_is_member) = match inner {
            Value::Object(inner) => read(inner, levels - 1)?,
            Value::Null => (FieldSet::new(), true),
            _ => return Err(invalid(format!("the value of {key:?} is not an object"))),
        };
        // Names are in order here, before all else, and what is empty is a member.
        match element {
            PathElement::Field(_) => nodes.push_next(element, child_is_member, children),
            _ => nodes.push(element, child_is_member, children),
        }
    }
    // Text order and element order differ for numbers in keys.
    let set = nodes.finish();
    member |= set.is_empty();
    Ok((set, member))
}

/// Reads one key of `fieldsV1`; none for a type of element that is not known.
fn parse_element(text: &str) -> Result<Option<PathElement>, MergeError> {
    let bytes = text.as_bytes();
    if bytes.len() < 2 {
        return Err(invalid(format!("key must be 2 characters long: {text:?}")));
    }
    if bytes[1] != b':' {
        return Err(invalid(format!("missing colon: {text}")));
    }
    let content = &text[2..];
    Ok(Some(match bytes[0] {
        b'f' => PathElement::Field(SmolStr::new(content)),
        b'v' => PathElement::value(parse_json(content)?),
        b'k' => match parse_json(content)? {
            Value::Object(fields) => PathElement::key(
                fields
                    .into_iter()
                    .map(|(name, value)| (SmolStr::new(name), value))
                    .collect(),
            ),
            _ => return Err(invalid(format!("not a key of an item: {text}"))),
        },
        b'i' => PathElement::Index(
            content
                .parse()
                .map_err(|_| invalid(format!("not an index: {text}")))?,
        ),
        _ => return Ok(None),
    }))
}

fn parse_json(text: &str) -> Result<Value, MergeError> {
    everflow_json::from_str(text).map_err(|error| invalid(format!("{error} in {text:?}")))
}

/// One element as a key of `fieldsV1`.
fn element_text(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => {
            let mut out = String::with_capacity(2 + name.len());
            out.push_str("f:");
            out.push_str(name);
            out
        }
        PathElement::Key(fields) => {
            let mut out = String::from("k:{");
            for (index, (name, value)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json_string(name, false, &mut out);
                out.push(':');
                write_json(value, &mut out);
            }
            out.push('}');
            out
        }
        PathElement::Value(value) => {
            let mut out = String::from("v:");
            write_json(value, &mut out);
            out
        }
        PathElement::Index(index) => format!("i:{index}"),
    }
}

/// JSON as the server's library writes values: HTML characters escaped, floats without needless
/// digits.
fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => {
            let _ = write!(out, "{b}");
        }
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) => write_json_string(text, true, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json_string(key, true, out);
                out.push(':');
                write_json(item, out);
            }
            out.push('}');
        }
    }
}

fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => {
            let magnitude = float.abs();
            if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
                let text = format!("{float:e}");
                match text.split_once("e-") {
                    Some((mantissa, exponent)) if exponent.len() == 1 => {
                        format!("{mantissa}e-0{exponent}")
                    }
                    Some(_) => text,
                    None => text.replace('e', "e+"),
                }
            } else {
                format!("{float}")
            }
        }
        _ => number.to_string(),
    }
}

fn write_json_string(text: &str, escape_html: bool, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if escape_html => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    #[test]
    fn round_trip_in_the_servers_order() {
        let text = concat!(
            r#"{"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{".":{},"f:image":{},"f:ports":{"#,
            r#""k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}},"#,
            r#""k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{".":{}}}}},"#,
            r#""f:finalizers":{".":{},"v:\"a\\u003cb\"":{},"v:1":{}},"f:list":{"i:0":{}}}}"#
        );
        let value: Value = everflow_json::from_str(text).unwrap();
        let set = FieldSet::from_fields_v1(&value).unwrap();
        let expected = text
            .replace(
                r#""k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{".":{}}"#,
                r#""k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{}"#,
            )
            .replace(
                r#""v:\"a\\u003cb\"":{},"v:1":{}"#,
                r#""v:1":{},"v:\"a\\u003cb\"":{}"#,
            );
        assert_eq!(set.to_fields_v1_text(), expected);
        let again: Value = everflow_json::from_str(&set.to_fields_v1_text()).unwrap();
        assert_eq!(set.to_fields_v1(), again);
        assert_eq!(FieldSet::from_fields_v1(&again).unwrap(), set);
    }

    #[test]
    fn unknown_elements_are_skipped_and_garbage_is_refused() {
        let set = FieldSet::from_fields_v1(&json!({"f:a": {"x:new": {}}, "q:zz": {}})).unwrap();
        assert_eq!(set, FieldSet::of_field_paths(&[&["a"]]));
        for bad in [
            json!({"f": {}}),
            json!({"fa": {}}),
            json!({"v:{": {}}),
            json!({"k:1": {}}),
            json!([]),
        ] {
            assert!(FieldSet::from_fields_v1(&bad).is_err(), "{bad}");
        }
    }
}
