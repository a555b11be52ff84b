//! The committed facts against those recorded from a real API server.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use std::collections::BTreeSet;

use everflow_json::{Map, Value, json};
use everflow_schema::openapi::{self, documents};
use everflow_schema::{
    Field, ListKind, MapType, Registry, Resource, ScalarKind, Shape, Subresource, TypeId, builtin,
};

/// Kinds on the wire that no OpenAPI document publishes.
const UNPUBLISHED: [&str; 2] = ["PartialObjectMetadata", "PartialObjectMetadataList"];

/// The document gives this string a list type, which has no meaning; the model has no place for it.
const LIST_TYPE_ON_STRING: (&str, &str) = (
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceSpec",
    "caBundle",
);

fn drop_meaningless(facts: &mut Value) {
    let field = &mut facts["fields"][LIST_TYPE_ON_STRING.1];
    assert_eq!(field["list-type"], "atomic");
    *field = field["t"].clone();
}

#[test]
fn the_data_is_whole() {
    assert_eq!(
        everflow_schema::data::load().unwrap().kubernetes_version,
        "1.36.1"
    );
    assert!(openapi::load().is_ok());
    let pod = documents().description("io.k8s.api.core.v1.Pod").unwrap();
    assert!(pod.fields["spec"].starts_with("Specification of the desired behavior of the pod"));
}

#[test]
fn the_data_stays_small() {
    let size = |name: &str| {
        let path = format!("{}/data/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::metadata(path).unwrap().len()
    };
    assert!(size("builtin.bin") + size("openapi.bin") < 1_500_000);
}

#[test]
fn every_published_type_and_field_is_known() {
    let Some(corpus) = everflow_corpus::find("apiserver") else {
        return;
    };
    let text = std::fs::read_to_string(corpus.join("openapi/types.json")).unwrap();
    let recorded: Map = everflow_json::from_str(&text).unwrap();
    let registry = builtin();
    for (name, expected) in &recorded {
        let id = registry
            .type_named(name)
            .unwrap_or_else(|| panic!("{name} is unknown"));
        let mut expected = expected.clone();
        if name == LIST_TYPE_ON_STRING.0 {
            drop_meaningless(&mut expected);
        }
        assert_eq!(
            type_facts(registry, name, id, &expected),
            expected,
            "{name}"
        );
    }
    let known: BTreeSet<&str> = registry
        .types()
        .iter()
        .filter_map(|(_, node)| node.name.as_deref())
        .collect();
    let extra: Vec<&str> = known
        .into_iter()
        .filter(|name| !recorded.contains_key(name))
        .collect();
    let unpublished = |name: &str| {
        UNPUBLISHED
            .iter()
            .any(|last| name.ends_with(&format!(".{last}")))
    };
    assert!(extra.iter().all(|name| unpublished(name)), "{extra:?}");
    eprintln!("{} types are equal", recorded.len());
}

/// A type as the corpus writes it down.
fn type_facts(registry: &Registry, name: &str, id: TypeId, expected: &Value) -> Value {
    let node = &registry.types()[id];
    let mut facts = Map::new();
    let kinds: Vec<String> = registry
        .kinds()
        .iter()
        .filter(|kind| kind.type_id == id)
        .map(|kind| match kind.group.as_str() {
            "" => format!("{} {}", kind.version, kind.kind),
            group => format!("{group}/{} {}", kind.version, kind.kind),
        })
        .collect();
    match kinds.as_slice() {
        [] => {}
        [one] => drop(facts.insert("gvk".into(), json!([one]))),
        [first, rest @ ..] => drop(facts.insert("gvk".into(), json!([first, {"and": rest.len()}]))),
    }
    let definition = documents().definition(name).unwrap_or_default();
    if let Some(unions) = definition.get("x-kubernetes-unions").cloned() {
        facts.insert("x-kubernetes-unions".into(), unions);
    }
    match &node.shape {
        Shape::Object(object) if !object.fields.is_empty() => {
            if !object.required.is_empty() {
                facts.insert("required".into(), json!(object.required));
            }
            if object.map_type_declared {
                facts.insert(
                    "x-kubernetes-map-type".into(),
                    json!(map_type_text(object.map_type)),
                );
            }
            let fields = object.fields.iter().map(|field| {
                (
                    field.name.to_string(),
                    field_facts(registry, field, &expected["fields"][field.name.as_str()]),
                )
            });
            facts.insert("fields".into(), Value::Object(fields.collect()));
        }
        _ => drop(facts.insert("scalar".into(), json!(shape_text(registry, id)))),
    }
    Value::Object(facts)
}

fn field_facts(registry: &Registry, field: &Field, expected: &Value) -> Value {
    let text = type_text(registry, field.type_id);
    let mut facts = Map::new();
    if let Some(patch) = &field.patch {
        if patch.merge || patch.replace || patch.retain_keys {
            facts.insert("patch-strategy".into(), json!(patch.strategy_text()));
        }
        if let Some(key) = &patch.merge_key {
            facts.insert("patch-merge-key".into(), json!(key));
        }
    }
    let node = &registry.types()[field.type_id];
    if let Some(list) = node.as_list().filter(|list| list.kind_declared) {
        let kind = match &list.kind {
            ListKind::Atomic => "atomic",
            ListKind::Set => "set",
            ListKind::Map { keys } => {
                facts.insert("list-map-keys".into(), json!(keys));
                "map"
            }
        };
        facts.insert("list-type".into(), json!(kind));
    }
    let map_type = field.map_type.or_else(|| {
        let object = node
            .as_object()
            .filter(|object| node.name.is_none() && object.map_type_declared)?;
        Some(object.map_type)
    });
    if let Some(map_type) = map_type {
        facts.insert("map-type".into(), json!(map_type_text(map_type)));
    }
    // Version 2 of the document, which the corpus holds, leaves out defaults that are zero values.
    let zero = [json!(""), json!(0), json!(false), json!({}), Value::Null];
    if let Some(default) = field
        .default
        .as_ref()
        .filter(|default| !zero.contains(default))
    {
        facts.insert("default".into(), default.clone());
    }
    if facts.is_empty() && expected.is_string() {
        return json!(text);
    }
    facts.insert("t".into(), json!(text));
    Value::Object(facts)
}

fn map_type_text(map_type: MapType) -> &'static str {
    match map_type {
        MapType::Granular => "granular",
        MapType::Atomic => "atomic",
    }
}

fn type_text(registry: &Registry, id: TypeId) -> String {
    match &registry.types()[id].name {
        Some(name) => name.to_string(),
        None => shape_text(registry, id),
    }
}

fn shape_text(registry: &Registry, id: TypeId) -> String {
    match &registry.types()[id].shape {
        Shape::Any => "any".to_owned(),
        Shape::Quantity => "string".to_owned(),
        Shape::IntOrString => "string:int-or-string".to_owned(),
        Shape::Time | Shape::MicroTime => "string:date-time".to_owned(),
        Shape::List(list) => format!("[]{}", type_text(registry, list.item)),
        Shape::Object(object) => match object.additional {
            Some(values) => format!("map:{}", type_text(registry, values)),
            None => "object".to_owned(),
        },
        Shape::Scalar { scalar, format } => {
            let name = match scalar {
                ScalarKind::String => "string",
                ScalarKind::Integer => "integer",
                ScalarKind::Number => "number",
                ScalarKind::Boolean => "boolean",
            };
            format
                .as_ref()
                .map_or_else(|| name.to_owned(), |format| format!("{name}:{format}"))
        }
    }
}

#[test]
fn every_merge_rule_is_known() {
    let Some(corpus) = everflow_corpus::find("apiserver") else {
        return;
    };
    let registry = builtin();
    let rules = common::json_lines(&corpus.join("openapi/merge-rules.jsonl"));
    for rule in &rules {
        if rule["type"] == LIST_TYPE_ON_STRING.0 && rule["field"] == LIST_TYPE_ON_STRING.1 {
            continue;
        }
        let mut expected = rule.clone();
        let object = expected.as_object_mut().unwrap();
        let name = object.remove("type").unwrap();
        let field = object.remove("field").unwrap();
        let unruled = object.remove("note").is_some();
        let id = registry.type_named(name.as_str().unwrap()).unwrap();
        let found = registry.types().field(id, field.as_str().unwrap()).unwrap();
        assert_eq!(
            field_facts(registry, found, &Value::Null),
            expected,
            "{rule}"
        );
        if unruled {
            let list = registry.types()[found.type_id].as_list().unwrap();
            assert_eq!(list.kind, ListKind::Atomic, "{rule}");
        }
    }
    eprintln!("{} merge rules are equal", rules.len());
}

#[test]
fn every_served_resource_is_known() {
    let Some(corpus) = everflow_corpus::find("apiserver") else {
        return;
    };
    let recorded: BTreeSet<String> = common::json_lines(&corpus.join("openapi/resources.jsonl"))
        .iter()
        .map(Value::to_string)
        .collect();
    let known: BTreeSet<String> = builtin()
        .resources()
        .iter()
        .flat_map(resource_facts)
        .collect();
    assert_eq!(known, recorded);
    eprintln!("{} resources and subresources are equal", known.len());
}

fn resource_facts(resource: &Resource) -> Vec<String> {
    let group_version = match resource.group.as_str() {
        "" => resource.version.to_string(),
        group => format!("{group}/{}", resource.version),
    };
    let mut facts = json!({
        "gv": group_version, "name": resource.plural, "singularName": resource.singular,
        "namespaced": resource.namespaced, "kind": resource.kind, "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        facts["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        facts["categories"] = json!(resource.categories);
    }
    let nested = |sub: &Subresource| {
        let mut facts = json!({
            "gv": group_version, "name": format!("{}/{}", resource.plural, sub.name), "singularName": "",
            "namespaced": resource.namespaced, "kind": sub.kind, "verbs": sub.verbs,
        });
        if !sub.version.is_empty() {
            facts["group"] = json!(sub.group);
            facts["version"] = json!(sub.version);
        }
        facts.to_string()
    };
    std::iter::once(facts.to_string())
        .chain(resource.subresources.iter().map(nested))
        .collect()
}

#[test]
fn resources_have_storage_versions_and_columns() {
    let registry = builtin();
    let deployments = registry.resource("apps", "v1", "deployments").unwrap();
    assert_eq!(deployments.storage_api_version.as_deref(), Some("apps/v1"));
    let names: Vec<&str> = deployments
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "Name",
            "Ready",
            "Up-to-date",
            "Available",
            "Age",
            "Containers",
            "Images",
            "Selector"
        ]
    );
    let autoscalers = registry
        .resource("autoscaling", "v1", "horizontalpodautoscalers")
        .unwrap();
    assert_eq!(
        autoscalers.storage_api_version.as_deref(),
        Some("autoscaling/v2")
    );
    for resource in registry.resources() {
        let stored = resource.verbs.iter().any(|verb| verb == "watch");
        assert_eq!(
            stored,
            resource.storage_api_version.is_some(),
            "{}",
            resource.plural
        );
        let listed = resource.verbs.iter().any(|verb| verb == "list");
        assert_eq!(listed, !resource.columns.is_empty(), "{}", resource.plural);
    }
}

#[test]
fn every_published_document_is_there() {
    let Some(corpus) = everflow_corpus::find("apiserver") else {
        return;
    };
    let read = |name: &str| -> Value {
        everflow_json::from_slice(&std::fs::read(corpus.join("openapi").join(name)).unwrap())
            .unwrap()
    };
    let third = read("v3-index.json");
    let recorded: Vec<&str> = third["paths"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path.as_str().unwrap())
        .collect();
    let mut known: Vec<&str> = documents().v3_paths().collect();
    known.sort_unstable();
    let mut wanted = recorded.clone();
    wanted.sort_unstable();
    assert_eq!(known, wanted);
    for path in known {
        assert_eq!(documents().v3(path).unwrap()["openapi"], "3.0.0", "{path}");
    }
    let (second, index) = (documents().v2().unwrap(), read("v2-index.json"));
    assert_eq!(second["info"], index["info"]);
    let names: Vec<&everflow_json::Text> =
        second["definitions"].as_object().unwrap().keys().collect();
    assert_eq!(json!(names), index["definitions"]);
    assert_eq!(
        second["paths"].as_object().unwrap().len() as u64,
        index["path_count"].as_u64().unwrap()
    );
}
