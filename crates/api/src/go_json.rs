//! Records as Go's `encoding/json` prints them: fields in the order of their declaration, unknown
//! ones left out. Digests in the status of a release are taken of such texts.

use everflow_json::Value;
use everflow_yaml::gojson::{HtmlEscape, to_string, write_escaped};

use crate::describe::Shape;
use crate::wire::Wire;

/// A value as Go prints it.
///
/// ```
/// use everflow_api::common::{Patch, Selector};
/// use everflow_api::go_json;
///
/// let patches = vec![Patch {
///     patch: "a & b".into(),
///     target: Some(Selector { name: Some("x".into()), kind: Some("y".into()), ..Selector::default() }),
///     ..Patch::default()
/// }];
/// assert_eq!(
///     go_json::print(&patches),
///     r#"[{"patch":"a \u0026 b","target":{"kind":"y","name":"x"}}]"#,
/// );
/// ```
pub fn print<T: Wire>(value: &T) -> String {
    let mut out = String::new();
    match value.write(false) {
        Some(value) => push(&mut out, &T::SHAPE, &value),
        None => out.push_str("null"),
    }
    out
}

fn push(out: &mut String, shape: &Shape, value: &Value) {
    match (shape, value) {
        (Shape::Record(record), Value::Object(map)) => {
            let fields = record
                .fields
                .iter()
                .filter_map(|field| Some((field.name, &field.shape, map.get(field.name)?)));
            push_object(out, fields);
        }
        (Shape::Map(values), Value::Object(map)) => {
            let pairs = map
                .iter()
                .map(|(name, value)| (name.as_str(), *values, value));
            push_object(out, pairs);
        }
        (Shape::List(items), Value::Array(list)) => {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push(out, items, item);
            }
            out.push(']');
        }
        _ => out.push_str(&to_string(value)),
    }
}

fn push_object<'v>(out: &mut String, pairs: impl Iterator<Item = (&'v str, &'v Shape, &'v Value)>) {
    out.push('{');
    for (index, (name, shape, value)) in pairs.enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_escaped(out, name, HtmlEscape::On);
        out.push(':');
        push(out, shape, value);
    }
    out.push('}');
}
