//! Values as the real server's internal types print them: messages show JSON with Go's field names, every field
//! written, in the order of the Go source.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use everflow_json::{Map, Text, Value};

use crate::field::go_json;
use everflow_schema::gotypes::{GoType, types};

const TABLE: &str = include_str!("../data/internals.txt");

/// The fields of the internal structs, by the name of the struct.
fn table() -> &'static BTreeMap<&'static str, Vec<&'static str>> {
    static STRUCTS: OnceLock<BTreeMap<&'static str, Vec<&'static str>>> = OnceLock::new();
    STRUCTS.get_or_init(|| {
        TABLE
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ');
                Some((words.next()?, words.collect()))
            })
            .collect()
    })
}

/// JSON whose objects keep their order.
enum Tree {
    Text(String),
    List(Vec<Tree>),
    Fields(Vec<(Text, Tree)>),
}

/// A value of an internal type on one line.
pub fn text(ty: &str, value: &Value) -> String {
    let mut out = String::new();
    tree(ty, value).write(&mut out, None);
    out
}

/// A value of an internal type over several lines, indented by one space per level.
pub fn pretty(ty: &str, value: &Value) -> String {
    let mut out = String::new();
    tree(ty, value).write(&mut out, Some(0));
    out
}

impl Tree {
    fn write(&self, out: &mut String, depth: Option<usize>) {
        match self {
            Tree::Text(text) => out.push_str(text),
            Tree::List(items) => {
                let lines = items.iter().map(|item| (None, item));
                Self::write_all(out, depth, ['[', ']'], lines);
            }
            Tree::Fields(fields) => {
                let lines = fields.iter().map(|(name, item)| (Some(name), item));
                Self::write_all(out, depth, ['{', '}'], lines);
            }
        }
    }

    fn write_all<'t>(
        out: &mut String,
        depth: Option<usize>,
        [open, close]: [char; 2],
        lines: impl ExactSizeIterator<Item = (Option<&'t Text>, &'t Tree)>,
    ) {
        out.push(open);
        let (below, empty) = (depth.map(|depth| depth + 1), lines.len() == 0);
        for (index, (name, item)) in lines.enumerate() {
            if index > 0 {
                out.push(',');
            }
            new_line(out, below);
            if let Some(name) = name {
                out.push_str(&go_json(&Value::from(name.as_str())));
                out.push_str(if depth.is_some() { ": " } else { ":" });
            }
            item.write(out, below);
        }
        if !empty {
            new_line(out, depth);
        }
        out.push(close);
    }
}

fn new_line(out: &mut String, depth: Option<usize>) {
    if let Some(depth) = depth {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth));
    }
}

fn tree(ty: &str, value: &Value) -> Tree {
    let null = || Tree::Text("null".to_owned());
    if let Some(inner) = ty.strip_prefix('*') {
        return if value.is_null() {
            null()
        } else {
            tree(inner, value)
        };
    }
    if let Some(inner) = ty.strip_prefix("[]") {
        return match value {
            Value::Array(items) => Tree::List(items.iter().map(|item| tree(inner, item)).collect()),
            _ => null(),
        };
    }
    if let Some(inner) = ty.strip_prefix("map:") {
        return match value {
            Value::Object(map) => Tree::Fields(
                map.iter()
                    .map(|(key, item)| (key.clone(), tree(inner, item)))
                    .collect(),
            ),
            _ => null(),
        };
    }
    let zero = match ty {
        "string" => "\"\"",
        "bool" => "false",
        "int32" | "int64" | "float64" | "IntOrString" => "0",
        "Quantity" => "\"0\"",
        "any" | "Time" => "null",
        _ if ty.starts_with("v1.") => return versioned(ty, value),
        _ => return structure(ty, value),
    };
    Tree::Text(if value.is_null() {
        zero.to_owned()
    } else {
        go_json(value)
    })
}

/// Types of the public packages print as they do on the wire, in Go's order.
fn versioned(ty: &str, value: &Value) -> Tree {
    types()
        .struct_named(ty)
        .map_or_else(|| plain(value), |known| ordered(&known, value))
}

fn ordered(ty: &GoType, value: &Value) -> Tree {
    match (ty, value) {
        (GoType::Pointer(inner), value) => ordered(inner, value),
        (GoType::Slice(inner), Value::Array(items)) => {
            Tree::List(items.iter().map(|item| ordered(inner, item)).collect())
        }
        (GoType::Map(inner), Value::Object(map)) => Tree::Fields(
            map.iter()
                .map(|(key, item)| (key.clone(), ordered(inner, item)))
                .collect(),
        ),
        (GoType::Struct(index), Value::Object(map)) => Tree::Fields(
            types()
                .get(*index)
                .fields
                .iter()
                .filter_map(|field| {
                    Some((
                        Text::new_static(field.name),
                        ordered(&field.ty, map.get(field.name)?),
                    ))
                })
                .collect(),
        ),
        (_, value) => plain(value),
    }
}

fn plain(value: &Value) -> Tree {
    match value {
        Value::Array(items) => Tree::List(items.iter().map(plain).collect()),
        Value::Object(map) => Tree::Fields(
            map.iter()
                .map(|(key, item)| (key.clone(), plain(item)))
                .collect(),
        ),
        other => Tree::Text(go_json(other)),
    }
}

fn structure(ty: &str, value: &Value) -> Tree {
    let moved;
    let value = if ty == "core.PodSpec" {
        moved = with_host_fields(value);
        &moved
    } else {
        value
    };
    let mut fields = Vec::new();
    collect(ty, value, &mut fields);
    Tree::Fields(fields)
}

fn collect(ty: &str, value: &Value, fields: &mut Vec<(Text, Tree)>) {
    for word in table().get(ty).map_or(&[][..], Vec::as_slice) {
        if let Some(embedded) = word.strip_prefix('+') {
            if embedded == "v1.ObjectMeta" {
                metadata(value.get("metadata").unwrap_or(&Value::Null), fields);
            } else {
                collect(embedded, value, fields);
            }
            continue;
        }
        let Some((names, inner)) = word.split_once('=') else {
            continue;
        };
        let (name, spelled) = names.split_once(':').unwrap_or((names, names));
        let found = value.as_object().and_then(|map| {
            map.iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(spelled))
        });
        let item = found.map_or(&Value::Null, |(_, item)| item);
        fields.push((name.into(), tree(inner, item)));
    }
}

/// Embedded metadata keeps the names of the wire and leaves out what is empty.
fn metadata(value: &Value, fields: &mut Vec<(Text, Tree)>) {
    let types = types();
    let Some(GoType::Struct(index)) = types.struct_named("v1.ObjectMeta") else {
        return;
    };
    for field in &types.get(index).fields {
        match value.get(field.name) {
            None | Some(Value::Null) => {}
            Some(item) => fields.push((field.name.into(), ordered(&field.ty, item))),
        }
    }
}

/// What the wire says of the host beside the security context, the internal type says inside it.
fn with_host_fields(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let Some(map) = spec.as_object_mut() else {
        return spec;
    };
    let mut moved = Map::new();
    for key in [
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "shareProcessNamespace",
        "hostUsers",
    ] {
        if let Some(value) = map.remove(key) {
            moved.insert(key.into(), value);
        }
    }
    if let Some(Value::Object(context)) = map.get_mut("securityContext") {
        context.extend(moved);
    } else if !moved.is_empty() {
        map.insert("securityContext".into(), Value::Object(moved));
    }
    spec
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    #[test]
    fn ports_print_every_field() {
        let port = json!({"protocol": "TCP", "port": 80});
        assert_eq!(
            super::text("core.ServicePort", &port),
            r#"{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}"#
        );
    }

    #[test]
    fn pretty_text_is_indented_by_one_space() {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        let text = super::pretty("core.PersistentVolumeClaimSpec", &spec);
        assert!(text.starts_with("{\n \"AccessModes\": [\n  \"ReadWriteOnce\"\n ],\n \"Selector\": null,\n \"Resources\": {\n  \"Limits\": null,\n  \"Requests\": {\n   \"storage\": \"1Gi\"\n  }\n },"), "{text}");
    }

    #[test]
    fn host_fields_belong_to_the_security_context() {
        let spec = json!({"hostNetwork": true, "securityContext": {"runAsUser": 1}});
        let text = super::text("core.PodSpec", &spec);
        assert!(
            text.contains(r#""SecurityContext":{"HostNetwork":true,"HostPID":false"#),
            "{text}"
        );
    }
}
