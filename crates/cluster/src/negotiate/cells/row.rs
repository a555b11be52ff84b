//! What the cells of many kinds share.

use everflow_json::Value;

use crate::kinds::meta;
use crate::negotiate::table::age;
use crate::time::Timestamp;

pub(super) struct Row<'o> {
    pub(super) object: &'o Value,
    pub(super) now: Timestamp,
}

impl Row<'_> {
    pub(super) fn name(&self) -> Value {
        meta::text(self.object, "name").into()
    }

    pub(super) fn str(&self, pointer: &str) -> &str {
        self.object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    pub(super) fn text(&self, pointer: &str) -> Value {
        self.str(pointer).into()
    }

    pub(super) fn text_or(&self, pointer: &str, missing: &str) -> Value {
        let found = self.str(pointer);
        if found.is_empty() {
            missing.into()
        } else {
            found.into()
        }
    }

    pub(super) fn number(&self, pointer: &str) -> i64 {
        self.object
            .pointer(pointer)
            .and_then(Value::as_i64)
            .unwrap_or_default()
    }

    pub(super) fn flag(&self, pointer: &str) -> bool {
        self.object
            .pointer(pointer)
            .and_then(Value::as_bool)
            .unwrap_or_default()
    }

    pub(super) fn count(&self, pointer: &str) -> usize {
        match self.object.pointer(pointer) {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(map)) => map.len(),
            _ => 0,
        }
    }

    pub(super) fn list(&self, pointer: &str) -> &[Value] {
        self.object
            .pointer(pointer)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    pub(super) fn age(&self) -> Value {
        age(meta::text(self.object, "creationTimestamp"), self.now).into()
    }

    pub(super) fn or_not_available(&self, pointer: &str) -> Value {
        match self.object.pointer(pointer) {
            Some(Value::String(text)) => text.as_str().into(),
            Some(Value::Number(number)) => number.to_string().into(),
            _ => "N/A".into(),
        }
    }

    pub(super) fn replicas(&self, selector: String) -> Vec<Value> {
        let (names, images) = containers(self.object.pointer("/spec/template/spec"));
        vec![
            self.name(),
            self.number("/spec/replicas").into(),
            self.number("/status/replicas").into(),
            self.number("/status/readyReplicas").into(),
            self.age(),
            names,
            images,
            selector.into(),
        ]
    }
}

pub(super) fn containers(spec: Option<&Value>) -> (Value, Value) {
    let list = spec
        .and_then(|spec| spec.get("containers"))
        .and_then(Value::as_array)
        .map_or(&[] as &[Value], Vec::as_slice);
    let join = |key: &str| {
        list.iter()
            .map(|container| {
                container
                    .get(key)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            })
            .collect::<Vec<_>>()
            .join(",")
    };
    (join("name").into(), join("image").into())
}

pub(super) fn labels(map: Option<&Value>) -> String {
    let pairs: Vec<String> = map
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() {
        "<none>".to_owned()
    } else {
        pairs.join(",")
    }
}

pub(super) fn selector(selector: Option<&Value>) -> String {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (key, value) in selector
        .and_then(|all| all.get("matchLabels"))
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        pairs.push((
            key.to_string(),
            format!("{key}={}", value.as_str().unwrap_or_default()),
        ));
    }
    for expression in selector
        .and_then(|all| all.get("matchExpressions"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let key = expression
            .get("key")
            .and_then(Value::as_str)
            .unwrap_or_default();
        pairs.push((key.to_owned(), crate::tree::requirement(expression)));
    }
    pairs.sort_by(|left, right| left.0.cmp(&right.0));
    if pairs.is_empty() {
        "<none>".to_owned()
    } else {
        pairs
            .into_iter()
            .map(|(_, text)| text)
            .collect::<Vec<_>>()
            .join(",")
    }
}

pub(super) fn controller(object: &Value) -> String {
    let owners = object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let owner = owners
        .into_iter()
        .flatten()
        .find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
    owner.map_or("<none>".to_owned(), |owner| {
        let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default();
        let (group, _) = crate::resource::split_version(text("apiVersion"));
        let kind = text("kind").to_lowercase();
        let kind = if group.is_empty() {
            kind
        } else {
            format!("{kind}.{group}")
        };
        format!("{kind}/{}", text("name"))
    })
}

pub(super) fn shortened(list: &[String], most: usize, empty: &str) -> String {
    if list.is_empty() {
        return empty.to_owned();
    }
    let shown = list
        .iter()
        .take(most)
        .cloned()
        .collect::<Vec<_>>()
        .join(",");
    if list.len() > most {
        format!("{shown} + {} more...", list.len() - most)
    } else {
        shown
    }
}

pub(super) fn show(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
