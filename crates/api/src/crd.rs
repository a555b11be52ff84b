//! The definitions of the kinds for the API server, made from their descriptions.

use everflow_json::{Map, Value, json};

use crate::describe::{Column, Field, KindInfo, Record, Rule, Shape};
use crate::helm::HelmRelease;
use crate::kustomization::Kustomization;
use crate::names::annotation;
use crate::notification::{Alert, Provider, Receiver};
use crate::object::Kind;
use crate::source::{
    Bucket, ExternalArtifact, GitRepository, HelmChart, HelmRepository, OCIRepository,
};

/// All kinds, by group and name.
pub const KINDS: &[&KindInfo] = &[
    HelmRelease::INFO,
    Kustomization::INFO,
    Alert::INFO,
    Provider::INFO,
    Receiver::INFO,
    Bucket::INFO,
    ExternalArtifact::INFO,
    GitRepository::INFO,
    HelmChart::INFO,
    HelmRepository::INFO,
    OCIRepository::INFO,
];

pub(crate) const SOURCES: [&str; 3] = ["all", "fluxcd", "fluxcd-sources"];
pub(crate) const APPLIERS: [&str; 3] = ["all", "fluxcd", "fluxcd-appliers"];
pub(crate) const NOTIFICATIONS: [&str; 3] = ["all", "fluxcd", "fluxcd-notifications"];

pub(crate) const AGE: Column = Column {
    name: "Age",
    kind: "date",
    path: ".metadata.creationTimestamp",
};
pub(crate) const READY: Column =
    column("Ready", r#".status.conditions[?(@.type=="Ready")].status"#);
pub(crate) const MESSAGE: Column = column(
    "Status",
    r#".status.conditions[?(@.type=="Ready")].message"#,
);

/// A column of texts.
pub(crate) const fn column(name: &'static str, path: &'static str) -> Column {
    Column {
        name,
        kind: "string",
        path,
    }
}

/// The kind of this name, in the group when one is given.
pub fn kind(group: Option<&str>, kind: &str) -> Option<&'static KindInfo> {
    let same =
        |info: &&&KindInfo| info.kind == kind && group.is_none_or(|group| group == info.group);
    KINDS.iter().find(same).copied()
}

/// What to write instead of a version of one of Flux's kinds that Flux once had and no longer
/// serves.
pub fn served_instead(api_version: &str, name: &str) -> Option<String> {
    let (group, version) = api_version.split_once('/')?;
    let info = kind(Some(group), name)?;
    (info.version != version).then(|| format!("{group}/{}", info.version))
}

/// The CustomResourceDefinitions of all kinds, as Flux has them in effect.
pub fn crds() -> Vec<Value> {
    KINDS.iter().map(|info| definition(info)).collect()
}

/// The CustomResourceDefinition of a kind.
pub fn definition(info: &KindInfo) -> Value {
    let mut names = json!({
        "kind": info.kind,
        "listKind": format!("{}List", info.kind),
        "plural": info.plural,
        "singular": info.singular,
        "categories": info.categories,
    });
    if !info.short_names.is_empty() {
        names["shortNames"] = json!(info.short_names);
    }
    let columns: Vec<Value> = info
        .columns
        .iter()
        .map(|column| json!({"name": column.name, "type": column.kind, "jsonPath": column.path}))
        .collect();
    let subresources = match info.status {
        Some(_) => json!({"status": {}}),
        None => json!({}),
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{}", info.plural, info.group),
            "annotations": {annotation::SUBSTITUTE: annotation::DISABLED},
        },
        "spec": {
            "group": info.group,
            "names": names,
            "scope": "Namespaced",
            "versions": [{
                "name": info.version,
                "served": true,
                "storage": true,
                "subresources": subresources,
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": object_schema(info)},
            }],
        },
    })
}

fn object_schema(info: &KindInfo) -> Value {
    let mut properties = json!({
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": record_schema(info.spec),
    });
    if let Some(status) = info.status {
        let mut schema = record_schema(status);
        if info.status_default {
            schema.insert("default".into(), json!({"observedGeneration": -1}));
        }
        properties["status"] = Value::Object(schema);
    }
    json!({"description": info.doc.trim(), "type": "object", "properties": properties})
}

fn record_schema(record: &Record) -> Map {
    let mut schema = Map::new();
    schema.insert("type".into(), json!("object"));
    schema.insert("description".into(), json!(record.doc.trim()));
    let mut required: Vec<&str> = Vec::new();
    let mut properties = Map::new();
    for field in record.fields {
        properties.insert(field.name.into(), Value::Object(field_schema(field)));
        if field.required {
            required.push(field.name);
        }
    }
    if !properties.is_empty() {
        schema.insert("properties".into(), Value::Object(properties));
    }
    if !required.is_empty() {
        required.sort_unstable();
        schema.insert("required".into(), json!(required));
    }
    apply(record.rules, &mut schema);
    schema
}

fn field_schema(field: &Field) -> Map {
    let mut schema = shape_schema(&field.shape);
    schema.insert("description".into(), json!(field.doc.trim()));
    apply(field.rules, &mut schema);
    schema
}

fn shape_schema(shape: &Shape) -> Map {
    let mut schema = Map::new();
    let kind = match shape {
        Shape::Any => {
            schema.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true));
            return schema;
        }
        Shape::Record(record) => return record_schema(record),
        Shape::Text => "string",
        Shape::Flag => "boolean",
        Shape::Number => "integer",
        Shape::Opaque => "object",
        Shape::Moment => {
            schema.insert("format".into(), json!("date-time"));
            "string"
        }
        Shape::Choice(texts) => {
            schema.insert("enum".into(), json!(texts));
            "string"
        }
        Shape::List(items) => {
            schema.insert("items".into(), Value::Object(shape_schema(items)));
            "array"
        }
        Shape::Map(values) => {
            let values = Value::Object(shape_schema(values));
            schema.insert("additionalProperties".into(), values);
            "object"
        }
    };
    schema.insert("type".into(), json!(kind));
    schema
}

fn apply(rules: &[Rule], schema: &mut Map) {
    let mut checks: Vec<Value> = Vec::new();
    for rule in rules {
        let (name, value) = match rule {
            Rule::Required => continue,
            Rule::Check { rule, message } => {
                checks.push(json!({"rule": rule, "message": message}));
                continue;
            }
            Rule::ListMap(keys) => {
                schema.insert("x-kubernetes-list-type".into(), json!("map"));
                ("x-kubernetes-list-map-keys", json!(keys))
            }
            Rule::Pattern(pattern) => ("pattern", json!(pattern)),
            Rule::MinLength(length) => ("minLength", json!(length)),
            Rule::MaxLength(length) => ("maxLength", json!(length)),
            Rule::Minimum(number) => ("minimum", json!(number)),
            Rule::MinItems(count) => ("minItems", json!(count)),
            Rule::Format(format) => ("format", json!(format)),
            // Defaults are constants of this crate; a test reads all of them.
            Rule::Default(text) => ("default", everflow_json::from_str(text).unwrap_or_default()),
        };
        schema.insert(name.into(), value);
    }
    if !checks.is_empty() {
        schema.insert("x-kubernetes-validations".into(), Value::Array(checks));
    }
}
