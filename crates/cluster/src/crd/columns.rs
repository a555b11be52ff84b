//! Printer columns of custom kinds: headers, and cells by JSON path.

use everflow_json::{Value, json};

use crate::kinds::meta;
use crate::negotiate::table::age;
use crate::time::Timestamp;

const NAME_TEXT: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const CREATED_TEXT: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The columns of a kind that names none.
pub fn fallback() -> Vec<Value> {
    vec![
        json!({"name": "Age", "type": "date", "description": CREATED_TEXT, "jsonPath": ".metadata.creationTimestamp"}),
    ]
}

fn text<'c>(column: &'c Value, key: &str) -> &'c str {
    column.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The column definitions, the name first.
pub fn headers(columns: &[Value]) -> Value {
    let mut list = vec![
        json!({"name": "Name", "type": "string", "format": "name", "description": NAME_TEXT, "priority": 0}),
    ];
    for column in columns {
        let described = text(column, "description");
        let description = if described.is_empty() {
            format!(
                "Custom resource definition column (in JSONPath format): {}",
                text(column, "jsonPath")
            )
        } else {
            described.to_owned()
        };
        let priority = column.get("priority").cloned().unwrap_or(Value::from(0));
        list.push(json!({"name": text(column, "name"), "type": text(column, "type"), "format": text(column, "format"), "description": description, "priority": priority}));
    }
    Value::Array(list)
}

/// The cells of one object.
pub fn cells(columns: &[Value], object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![Value::from(meta::text(object, "name"))];
    cells.extend(columns.iter().map(|column| cell(column, object, now)));
    cells
}

fn cell(column: &Value, object: &Value, now: Timestamp) -> Value {
    let mut found = Vec::new();
    find(object, &steps(text(column, "jsonPath")), &mut found);
    let Some(first) = found.first() else {
        return Value::Null;
    };
    match (text(column, "type"), first) {
        (_, Value::Null) => Value::Null,
        ("integer", Value::Number(number)) => number.as_i64().map_or_else(
            || {
                number
                    .as_f64()
                    .map_or(Value::Null, |wide| Value::from(wide as i64))
            },
            Value::from,
        ),
        ("number", Value::Number(number)) => Value::Number(number.clone()),
        ("boolean", Value::Bool(flag)) => Value::from(*flag),
        ("string", first) => go_print(first).into(),
        ("date", Value::String(time)) => {
            if Timestamp::parse(time).is_none() {
                return Value::from("<invalid>");
            }
            age(time, now).into()
        }
        _ => Value::Null,
    }
}

/// A value as Go's printer shows it.
fn go_print(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Array(_) | Value::Object(_) => crate::field::go_json(value),
        other => other.to_string(),
    }
}

enum Step {
    Field(String),
    Index(i64),
    All,
    Match { path: String, value: String },
}

fn steps(path: &str) -> Vec<Step> {
    let mut list = Vec::new();
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}');
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after);
            list.push(bracket(&after[..end]));
            rest = after.get(end + 1..).unwrap_or_default();
        } else {
            let after = rest.strip_prefix('.').unwrap_or(rest);
            let mut name = String::new();
            let mut chars = after.char_indices();
            let mut end = after.len();
            while let Some((at, c)) = chars.next() {
                match c {
                    '.' | '[' => {
                        end = at;
                        break;
                    }
                    '\\' => name.extend(chars.next().map(|(_, c)| c)),
                    c => name.push(c),
                }
            }
            if name == "*" {
                list.push(Step::All);
            } else if !name.is_empty() {
                list.push(Step::Field(name));
            }
            rest = &after[end..];
        }
    }
    list
}

fn closing(text: &str) -> usize {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, ']') => return at,
            _ => {}
        }
    }
    text.len()
}

fn bracket(inner: &str) -> Step {
    if inner == "*" {
        return Step::All;
    }
    if let Ok(index) = inner.parse() {
        return Step::Index(index);
    }
    if let Some(filter) = inner
        .strip_prefix("?(")
        .and_then(|text| text.strip_suffix(')'))
        && let Some((left, right)) = filter.split_once("==")
    {
        let path = left.trim().trim_start_matches("@.").to_owned();
        return Step::Match {
            path,
            value: right.trim().trim_matches(['\'', '"']).to_owned(),
        };
    }
    Step::Field(inner.trim_matches(['\'', '"']).to_owned())
}

fn find<'v>(value: &'v Value, steps: &[Step], found: &mut Vec<&'v Value>) {
    let Some((first, rest)) = steps.split_first() else {
        found.push(value);
        return;
    };
    match first {
        Step::Field(name) => {
            if let Some(next) = value.get(name) {
                find(next, rest, found);
            }
        }
        Step::Index(index) => {
            let Some(items) = value.as_array() else {
                return;
            };
            let at = if *index < 0 {
                items.len() as i64 + index
            } else {
                *index
            };
            if let Some(next) = usize::try_from(at).ok().and_then(|at| items.get(at)) {
                find(next, rest, found);
            }
        }
        Step::All => match value {
            Value::Array(items) => items.iter().for_each(|item| find(item, rest, found)),
            Value::Object(map) => map.values().for_each(|item| find(item, rest, found)),
            _ => {}
        },
        Step::Match {
            path,
            value: wanted,
        } => {
            for item in value.as_array().into_iter().flatten() {
                let actual = path
                    .split('.')
                    .try_fold(item, |current, key| current.get(key));
                if actual.is_some_and(|actual| go_print(actual) == *wanted) {
                    find(item, rest, found);
                }
            }
        }
    }
}
