//! What of an object changed, as paths that mean the same in another object: items of lists go by their names,
//! arguments by their flags.

use std::collections::BTreeMap;

use everflow_json::{Value, json};

use super::flags::parts;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// A field of an object.
    Field(String),
    /// The item of a list with this value in a field.
    Item(&'static str, String),
    /// An item that is one thing, by what tells it from others.
    Element(String),
    /// An argument, by the name of its flag.
    Flag(String),
}

pub(super) type Path = Vec<Step>;

/// All values of an object by their paths.
pub(super) fn flat(object: &Value) -> BTreeMap<Path, Value> {
    let mut out = BTreeMap::new();
    walk(&mut Vec::new(), object, &mut out);
    out
}

fn walk(path: &mut Path, value: &Value, out: &mut BTreeMap<Path, Value>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map.iter() {
                path.push(Step::Field(key.to_string()));
                walk(path, value, out);
                path.pop();
            }
        }
        // A list of texts means what it means in its order, but for the flags of a controller.
        Value::Array(items)
            if items.iter().any(Value::is_object) || is_arguments(path) && !items.is_empty() =>
        {
            let field = match path.last() {
                Some(Step::Field(name)) => name.clone(),
                _ => String::new(),
            };
            for item in items {
                let step = step(&field, item);
                let is_whole = !matches!(step, Step::Item(..));
                path.push(step);
                match is_whole {
                    true => {
                        out.insert(path.clone(), leaf(&field, item));
                    }
                    false => walk(path, item, out),
                }
                path.pop();
            }
        }
        value => {
            out.insert(path.clone(), value.clone());
        }
    }
}

/// Whether a path is that of a controller's arguments.
fn is_arguments(path: &[Step]) -> bool {
    let manager = Step::Item("name", crate::CONTAINER.to_owned());
    matches!(path, [.., container, Step::Field(name)] if name == "args" && *container == manager)
}

/// What an item of a list is known by.
fn step(field: &str, item: &Value) -> Step {
    if field == "args"
        && let Some(text) = item.as_str()
    {
        return Step::Flag(parts(text).0.to_owned());
    }
    let key = match field {
        "containers" | "initContainers" | "volumes" | "env" | "ports" | "imagePullSecrets" => {
            "name"
        }
        "volumeMounts" => "mountPath",
        _ => return Step::Element(element(field, item)),
    };
    match item[key].as_str() {
        Some(name) => Step::Item(key, name.to_owned()),
        None => Step::Element(element(field, item)),
    }
}

/// The API server takes one spread constraint of a kind.
pub(super) fn element(field: &str, item: &Value) -> String {
    let text = |name: &str| item[name].as_str().unwrap_or_default();
    match field {
        "topologySpreadConstraints" => {
            format!("{} {}", text("topologyKey"), text("whenUnsatisfiable"))
        }
        _ => item.to_string(),
    }
}

/// The value of an argument; null for one that has none.
fn leaf(field: &str, item: &Value) -> Value {
    match (field, item.as_str()) {
        ("args", Some(text)) => parts(text).1.map_or(Value::Null, |value| json!(value)),
        _ => item.clone(),
    }
}

/// Puts a value at a path.
pub(super) fn set(object: &mut Value, path: &[Step], value: Value) {
    let Some((step, rest)) = path.split_first() else {
        *object = value;
        return;
    };
    match step {
        Step::Field(name) => {
            if !object.is_object() {
                *object = json!({});
            }
            // What a list is known by depends on its name.
            if let [Step::Element(id)] = rest {
                return put(&mut object[name.as_str()], name, id, value);
            }
            set(&mut object[name.as_str()], rest, value);
        }
        Step::Item(key, name) => {
            if !object.is_array() {
                *object = json!([]);
            }
            let Some(items) = object.as_array_mut() else {
                return;
            };
            let place = items.iter().position(|item| item[*key] == name.as_str());
            let place = place.unwrap_or_else(|| {
                items.push(json!({*key: name}));
                items.len() - 1
            });
            set(&mut items[place], rest, value);
        }
        Step::Element(_) | Step::Flag(_) => {}
    }
}

fn put(list: &mut Value, field: &str, id: &str, value: Value) {
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(items) = list.as_array_mut() else {
        return;
    };
    // What it is known by may be another since it was carried over.
    let own = element(field, &value);
    let is_it = |item: &&mut Value| {
        let there = element(field, item);
        there == own || there == id
    };
    match items.iter_mut().find(is_it) {
        Some(item) => *item = value,
        None => items.push(value),
    }
}

/// Takes away what is at a path, and what is empty then.
pub(super) fn remove(object: &mut Value, path: &[Step]) {
    let Some((step, rest)) = path.split_first() else {
        return;
    };
    match step {
        Step::Field(name) => {
            let Some(map) = object.as_object_mut() else {
                return;
            };
            let Some(below) = map.get_mut(name) else {
                return;
            };
            match rest {
                [] => {
                    map.remove(name);
                    return;
                }
                [Step::Element(id)] => {
                    if let Some(items) = below.as_array_mut() {
                        items.retain(|item| element(name, item) != *id);
                    }
                }
                rest => remove(below, rest),
            }
            let is_empty = match &*below {
                Value::Object(map) => map.is_empty(),
                Value::Array(items) => items.is_empty(),
                _ => false,
            };
            if is_empty {
                map.remove(name);
            }
        }
        Step::Item(key, name) => {
            let Some(items) = object.as_array_mut() else {
                return;
            };
            for item in items.iter_mut().filter(|item| item[*key] == name.as_str()) {
                match rest {
                    [] => {}
                    [Step::Field(field)] if field == key => {
                        *item = Value::Null;
                    }
                    rest => remove(item, rest),
                }
            }
            items.retain(|item| !item.is_null());
        }
        Step::Element(_) | Step::Flag(_) => {}
    }
}

/// A path as people write it.
pub(super) fn shown(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Field(name) if text.is_empty() => text.push_str(name),
            Step::Field(name) => {
                text.push('.');
                text.push_str(name);
            }
            Step::Item(_, name) => text.push_str(&format!("[{name}]")),
            Step::Element(_) => text.push_str("[]"),
            Step::Flag(name) => text.push_str(&format!("[--{name}]")),
        }
    }
    text
}
