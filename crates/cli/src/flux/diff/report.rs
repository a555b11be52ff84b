//! The differences of two objects, for people: each path with what becomes of it.

use everflow_json::{Map, Value, json};
use everflow_yaml::emit;

/// What changes from one object to another.
pub fn changes(before: &Value, after: &Value) -> String {
    let mut text = String::new();
    compare("", before, after, &mut text);
    text
}

fn compare(path: &str, before: &Value, after: &Value, out: &mut String) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => maps(path, before, after, out),
        (Value::Array(before), Value::Array(after)) => lists(path, before, after, out),
        (before, after) if before == after => {}
        (before, after) => values(path, before, after, out),
    }
}

fn below(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}

fn maps(path: &str, before: &Map, after: &Map, out: &mut String) {
    let only = |one: &Map, other: &Map| {
        let mut rest = Map::new();
        for (key, value) in one.iter().filter(|(key, _)| !other.contains_key(key)) {
            rest.insert(key.as_str().into(), value.clone());
        }
        rest
    };
    let (gone, new) = (only(before, after), only(after, before));
    let (lost, found) = (gone.len(), new.len());
    entries(
        path,
        "map",
        (lost, &Value::Object(gone)),
        (found, &Value::Object(new)),
        out,
    );
    for (key, value) in before.iter() {
        if let Some(other) = after.get(key) {
            compare(&below(path, key), value, other, out);
        }
    }
}

/// What was taken out of a map or list, and what was put in.
fn entries(path: &str, what: &str, gone: (usize, &Value), new: (usize, &Value), out: &mut String) {
    if gone.0 + new.0 == 0 {
        return;
    }
    let path = if path.is_empty() {
        "(root level)"
    } else {
        path
    };
    out.push_str(path);
    out.push('\n');
    for (sign, verb, (count, value)) in [("-", "removed", gone), ("+", "added", new)] {
        if count == 0 {
            continue;
        }
        let entries = if count == 1 { "entry" } else { "entries" };
        out.push_str(&format!(
            "{sign} {} {what} {entries} {verb}:\n",
            number(count)
        ));
        for line in emit::sigs(value).lines() {
            out.push_str(&format!("  {line}\n"));
        }
    }
    out.push('\n');
}

fn number(count: usize) -> String {
    const WORDS: [&str; 13] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve",
    ];
    WORDS
        .get(count)
        .map_or_else(|| count.to_string(), |word| (*word).to_owned())
}

/// Entries of lists go by their names where all have one, else by what they are.
fn lists(path: &str, before: &[Value], after: &[Value], out: &mut String) {
    let name = |entry: &Value| entry["name"].as_str().map(str::to_owned);
    let are_named = |list: &[Value]| list.iter().all(|entry| name(entry).is_some());
    let is_same: fn(&Value, &Value) -> bool = match are_named(before) && are_named(after) {
        true => |one, other| one["name"] == other["name"],
        false => |one, other| one == other,
    };
    let only = |one: &[Value], other: &[Value]| -> Vec<Value> {
        let is_new = |entry: &&Value| !other.iter().any(|known| is_same(entry, known));
        one.iter().filter(is_new).cloned().collect()
    };
    let (gone, new) = (only(before, after), only(after, before));
    let count = (gone.len(), new.len());
    entries(
        path,
        "list",
        (count.0, &json!(gone)),
        (count.1, &json!(new)),
        out,
    );
    for entry in before {
        if let Some(other) = after.iter().find(|other| is_same(entry, other)) {
            let key = name(entry).unwrap_or_default();
            compare(&below(path, &key), entry, other, out);
        }
    }
    if count == (0, 0) && before != after && before.len() == after.len() {
        let in_order = before
            .iter()
            .zip(after)
            .all(|(one, other)| is_same(one, other));
        if !in_order {
            out.push_str(&format!("{path}\n⇆ order changed\n\n"));
        }
    }
}

fn values(path: &str, before: &Value, after: &Value, out: &mut String) {
    let kinds = (kind(before), kind(after));
    out.push_str(path);
    match kinds.0 == kinds.1 {
        true => out.push_str("\n± value change\n"),
        false => out.push_str(&format!(
            "\n± type change from {} to {}\n",
            kinds.0, kinds.1
        )),
    }
    for (sign, value) in [("-", before), ("+", after)] {
        for line in shown(value).lines() {
            out.push_str(&format!("{sign} {line}\n"));
        }
    }
    out.push('\n');
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.as_str().to_owned(),
        value => emit::sigs(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_before_values() {
        let before = json!({"data": {"a": "1"}, "kind": "ConfigMap"});
        let after = json!({"data": {"a": "2", "b": "new"}, "kind": "ConfigMap"});
        assert_eq!(
            changes(&before, &after),
            "data\n+ one map entry added:\n  b: new\n\ndata.a\n± value change\n- 1\n+ 2\n\n"
        );
    }

    #[test]
    fn entries_of_lists_go_by_name() {
        let before = json!({"c": [{"name": "a", "image": "x:1"}, {"name": "b"}]});
        let after = json!({"c": [{"name": "a", "image": "x:2"}]});
        let text = changes(&before, &after);
        assert!(
            text.starts_with("c\n- one list entry removed:\n  - name: b\n"),
            "{text}"
        );
        assert!(
            text.contains("c.a.image\n± value change\n- x:1\n+ x:2\n"),
            "{text}"
        );
    }

    #[test]
    fn a_changed_type_is_named() {
        let text = changes(&json!({"a": "1"}), &json!({"a": 1}));
        assert!(
            text.starts_with("a\n± type change from string to int\n"),
            "{text}"
        );
    }
}
