//! Whether a schema is structural: every field has one type, declared outside of alternatives.

use everflow_json::{Value, json};

use super::node::{self, Child};
use crate::structural::{FieldError, Pattern};

/// Finds what keeps a schema from being structural; sorted, as Kubernetes sorts it.
pub(super) fn check(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(schema, Level::Root, path, &mut errors);
    completeness(schema, schema, path, path, &mut errors);
    errors.sort_by_key(ToString::to_string);
    errors
}

/// The first keyword that no structural schema can have. Whether the rest is structural cannot be
/// said then.
pub(super) fn unsupported(schema: &Value) -> Option<String> {
    const KEYWORDS: [&str; 7] = [
        "id",
        "$schema",
        "$ref",
        "patternProperties",
        "dependencies",
        "additionalItems",
        "definitions",
    ];
    if let Some(key) = KEYWORDS
        .into_iter()
        .find(|key| schema.get(key).is_some_and(|value| !is_zero(value)))
    {
        return Some(format!(
            "OpenAPIV3Schema '{}' is not supported",
            if key == "$schema" { "schema" } else { key }
        ));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let problem =
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
        return Some(problem.to_owned());
    }
    let properties = node::properties(schema, "")
        .into_iter()
        .map(|(_, property)| property);
    let nested = ["not", "allOf", "anyOf", "oneOf"]
        .into_iter()
        .flat_map(|key| node::nested(schema, "", key));
    let mut all = properties
        .chain(nested)
        .chain(node::items(schema, ""))
        .chain(node::additional(schema, ""));
    all.find_map(|child| unsupported(child.schema))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

fn invariants(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let kind = node::text(schema, "type");
    let items = node::items(schema, path);
    if kind == "array" && items.is_none() {
        errors.push(FieldError::required(
            format!("{path}.items"),
            "must be specified",
        ));
    }
    if let Some(items) = items {
        invariants(items.schema, Level::Item, &items.path, errors);
    }
    for (_, property) in node::properties(schema, path) {
        invariants(property.schema, Level::Field, &property.path, errors);
    }
    if node::present(schema, "additionalProperties").is_some() && level == Level::Root {
        errors.push(FieldError::forbidden(
            format!("{path}.additionalProperties"),
            "must not be used at the root",
        ));
    }
    if let Some(additional) = node::additional(schema, path) {
        invariants(additional.schema, Level::Field, &additional.path, errors);
    }
    extensions(schema, path, errors);
    let skip_any_of = is_int_or_string(schema);
    let skip_first_all_of = node::list(schema, "allOf")
        .first()
        .is_some_and(is_int_or_string);
    alternatives(schema, skip_any_of, skip_first_all_of, path, errors);
    types(schema, kind, level, path, errors);
    resource_fields(schema, level, path, errors);
}

fn extensions(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if !node::is_true(schema, "x-kubernetes-int-or-string") {
        return;
    }
    for key in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ] {
        if node::is_true(schema, key) {
            let problem = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(
                format!("{path}.{key}"),
                json!(true),
                problem,
            ));
        }
    }
}

fn types(schema: &Value, kind: &str, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let embedded = node::is_true(schema, "x-kubernetes-embedded-resource");
    let field = format!("{path}.type");
    let free = node::is_true(schema, "x-kubernetes-int-or-string")
        || node::is_true(schema, "x-kubernetes-preserve-unknown-fields");
    if embedded && kind != "object" {
        let problem = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match kind {
            "" => FieldError::required(field, problem),
            kind => FieldError::invalid(field, json!(kind), problem),
        });
    } else if kind.is_empty() && !free {
        let problem = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(field, problem));
    }
    if embedded && node::present(schema, "additionalProperties").is_some() {
        errors.push(FieldError::forbidden(
            format!("{path}.additionalProperties"),
            "must not be used if x-kubernetes-embedded-resource is set",
        ));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(
            format!("{path}.type"),
            json!(kind),
            "must be object at the root",
        ));
    }
}

/// `apiVersion`, `kind` and `metadata` of whole objects.
fn resource_fields(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let embedded = node::is_true(schema, "x-kubernetes-embedded-resource");
    let is_object = level == Level::Root || embedded;
    for name in ["kind", "apiVersion"] {
        let Some(property) = node::property(schema, name).filter(|_| is_object) else {
            continue;
        };
        let kind = node::text(property, "type");
        if kind != "string" {
            let field = format!("{path}.properties[{name}].type");
            errors.push(FieldError::invalid(field, json!(kind), "must be string"));
        }
    }
    if let Some(metadata) = node::property(schema, "metadata") {
        let field = format!("{path}.properties[metadata]");
        let kind = node::text(metadata, "type");
        if is_object && kind != "object" {
            errors.push(FieldError::invalid(
                format!("{field}.type"),
                json!(kind),
                "must be object",
            ));
        }
        if level == Level::Root && !is_plain_metadata(metadata) {
            errors.push(FieldError::forbidden(
                field,
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            ));
        }
    }
    let preserves = node::is_true(schema, "x-kubernetes-preserve-unknown-fields");
    if embedded && !preserves && node::fields(schema, "properties").is_none() {
        errors.push(FieldError::required(
            format!("{path}.properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ));
    }
}

/// Metadata may restrict `name` and `generateName` and say nothing else.
fn is_plain_metadata(metadata: &Value) -> bool {
    let Some(keys) = metadata.as_object() else {
        return true;
    };
    keys.iter().all(|(key, value)| match key.as_str() {
        "type" | "default" => true,
        "properties" => value.as_object().is_none_or(|names| {
            names
                .keys()
                .all(|name| name == "name" || name == "generateName")
        }),
        _ => is_zero(value),
    })
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(_) => false,
    }
}

fn is_int_or_string(schema: &Value) -> bool {
    schema.get("anyOf") == Some(&json!([{"type": "integer"}, {"type": "string"}]))
}

fn alternatives(
    schema: &Value,
    skip_any_of: bool,
    skip_first_all_of: bool,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    if !skip_any_of {
        for one in node::nested(schema, path, "anyOf") {
            alternative(&one, false, errors);
        }
    }
    for (at, one) in node::nested(schema, path, "allOf").iter().enumerate() {
        alternative(one, skip_first_all_of && at == 0, errors);
    }
    for one in node::nested(schema, path, "oneOf")
        .iter()
        .chain(&node::nested(schema, path, "not"))
    {
        alternative(one, false, errors);
    }
    let pattern = node::text(schema, "pattern");
    if !pattern.is_empty()
        && let Err(error) = Pattern::new(pattern)
    {
        let problem = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(
            format!("{path}.pattern"),
            json!(pattern),
            problem,
        ));
    }
}

/// Below `allOf`, `anyOf`, `oneOf` and `not` only values may be restricted.
fn alternative(one: &Child<'_>, skip_any_of: bool, errors: &mut Vec<FieldError>) {
    const FORBIDDEN: [(&str, &str); 11] = [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        (
            "x-kubernetes-preserve-unknown-fields",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-embedded-resource",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-int-or-string",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-list-map-keys",
            "must be empty to be structural",
        ),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ];
    const UNDEFINED: [&str; 2] = ["x-kubernetes-list-type", "x-kubernetes-map-type"];
    let Child { path, schema } = one;
    alternatives(schema, skip_any_of, false, path, errors);
    if let Some(items) = node::items(schema, path) {
        alternative(&items, false, errors);
    }
    for (_, property) in node::properties(schema, path) {
        alternative(&property, false, errors);
    }
    for (key, problem) in FORBIDDEN {
        if schema.get(key).is_some_and(|value| !is_zero(value)) {
            errors.push(FieldError::forbidden(format!("{path}.{key}"), problem));
        }
    }
    for key in UNDEFINED
        .into_iter()
        .filter(|key| node::present(schema, key).is_some())
    {
        errors.push(FieldError::forbidden(
            format!("{path}.{key}"),
            "must be undefined to be structural",
        ));
    }
    if node::property(schema, "metadata").is_some() {
        errors.push(FieldError::forbidden(
            format!("{path}.properties[metadata]"),
            "must not be specified in a nested context",
        ));
    }
}

/// Every field that an alternative restricts must be declared outside of it.
fn completeness(
    values: &Value,
    declared: &Value,
    declared_path: &str,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    for key in ["not", "allOf", "anyOf", "oneOf"] {
        for one in node::nested(values, path, key) {
            nested_completeness(&one, Some(declared), declared_path, errors);
        }
    }
}

fn nested_completeness(
    one: &Child<'_>,
    declared: Option<&Value>,
    declared_path: &str,
    errors: &mut Vec<FieldError>,
) {
    let Child { path, schema } = one;
    let Some(declared) = declared else {
        errors.push(FieldError::required(
            declared_path,
            format!("because it is defined in {path}"),
        ));
        return;
    };
    completeness(schema, declared, declared_path, path, errors);
    if let Some(items) = node::items(schema, path) {
        let below = node::items(declared, declared_path);
        nested_completeness(
            &items,
            below.map(|below| below.schema),
            &format!("{declared_path}.items"),
            errors,
        );
    }
    for (name, property) in node::properties(schema, path) {
        let below = node::property(declared, name);
        nested_completeness(
            &property,
            below,
            &format!("{declared_path}.properties[{name}]"),
            errors,
        );
    }
}
