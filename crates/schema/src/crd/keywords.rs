//! Which keywords a schema may use, and together with which.

use everflow_json::{Value, json};

use super::node;
use crate::structural::FieldError;

/// What holds at a place of the schema.
#[derive(Clone, Default)]
pub(super) struct Place {
    is_root: bool,
    inside_metadata: bool,
    /// Why defaults are not allowed here.
    no_defaults: Option<String>,
}

impl Place {
    /// The place of a whole schema.
    pub(super) fn root() -> Self {
        Self {
            is_root: true,
            ..Self::default()
        }
    }

    fn below(&self) -> Self {
        Self {
            is_root: false,
            ..self.clone()
        }
    }
}

/// Checks one node and all below it.
pub(super) fn check(schema: &Value, path: &str, place: &Place, errors: &mut Vec<FieldError>) {
    support(schema, path, place, errors);
    if node::is_true(schema, "uniqueItems") {
        errors.push(FieldError::forbidden(
            format!("{path}.uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
    children(schema, path, place, errors);
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        errors.push(FieldError::invalid(
            format!("{path}.x-kubernetes-preserve-unknown-fields"),
            json!(false),
            "must be true or undefined",
        ));
    }
    map_type(schema, path, errors);
    list_type(schema, path, errors);
    list_map(schema, path, errors);
    map_keys(schema, path, errors);
    for (at, rule) in node::list(schema, "x-kubernetes-validations")
        .iter()
        .enumerate()
    {
        cel_rule(
            schema,
            rule,
            &format!("{path}.x-kubernetes-validations[{at}]"),
            errors,
        );
    }
}

/// Keywords that are not supported at all, or not here.
fn support(schema: &Value, path: &str, place: &Place, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let kind = node::text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(
            format!("{path}.type"),
            json!(kind),
            &TYPES,
        ));
    }
    if let Some(reason) = place
        .no_defaults
        .as_ref()
        .filter(|_| node::present(schema, "default").is_some())
    {
        errors.push(FieldError::forbidden(
            format!("{path}.default"),
            format!("must not be set {reason}"),
        ));
    }
    if !node::text(schema, "id").is_empty() {
        errors.push(FieldError::forbidden(
            format!("{path}.id"),
            "id is not supported",
        ));
    }
    for key in [
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        if node::present(schema, key).is_some() {
            errors.push(FieldError::forbidden(
                format!("{path}.{key}"),
                format!("{key} is not supported"),
            ));
        }
    }
    if kind == "null" {
        errors.push(FieldError::forbidden(
            format!("{path}.type"),
            "type cannot be set to null, use nullable as an alternative",
        ));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        errors.push(FieldError::forbidden(
            format!("{path}.items"),
            "items must be a schema object and not an array",
        ));
    }
    if place.inside_metadata && node::is_true(schema, "x-kubernetes-embedded-resource") {
        errors.push(FieldError::forbidden(
            format!("{path}.x-kubernetes-embedded-resource"),
            "must not be used inside of resource meta",
        ));
    }
}

fn children(schema: &Value, path: &str, place: &Place, errors: &mut Vec<FieldError>) {
    if let Some(additional) = node::present(schema, "additionalProperties")
        && node::fields(schema, "properties").is_some()
        && additional != &Value::Bool(true)
    {
        errors.push(FieldError::forbidden(
            format!("{path}.additionalProperties"),
            "additionalProperties and properties are mutual exclusive",
        ));
    }
    if let Some(additional) = node::additional(schema, path) {
        let mut below = place.below();
        if place.inside_metadata {
            below.no_defaults =
                Some("inside additionalProperties applying to object metadata".to_owned());
        }
        check(additional.schema, &additional.path, &below, errors);
    }
    let is_object = place.is_root || node::is_true(schema, "x-kubernetes-embedded-resource");
    for (name, property) in node::properties(schema, path) {
        let mut below = place.below();
        if is_object && ["apiVersion", "kind", "metadata"].contains(&name) {
            below.inside_metadata = true;
            if place.is_root {
                below.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        check(property.schema, &property.path, &below, errors);
    }
    for key in ["not", "allOf", "oneOf", "anyOf"] {
        for one in node::nested(schema, path, key) {
            check(one.schema, &one.path, &place.below(), errors);
        }
    }
    if let Some(items) = node::items(schema, path) {
        check(items.schema, &items.path, &place.below(), errors);
    }
}

/// The type that another keyword asks for.
fn required_type(
    schema: &Value,
    path: &str,
    wanted: &str,
    problem: &str,
    errors: &mut Vec<FieldError>,
) {
    let field = format!("{path}.type");
    match node::text(schema, "type") {
        kind if kind == wanted => {}
        "" => errors.push(FieldError::required(field, problem)),
        kind => errors.push(FieldError::invalid(field, json!(kind), problem)),
    }
}

fn map_type(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(map_type) = schema.get("x-kubernetes-map-type").and_then(Value::as_str) else {
        return;
    };
    required_type(
        schema,
        path,
        "object",
        "must be object if x-kubernetes-map-type is specified",
        errors,
    );
    let known = ["atomic", "granular"];
    if !known.contains(&map_type) {
        let field = format!("{path}.x-kubernetes-map-type");
        errors.push(FieldError::not_supported(field, json!(map_type), &known));
    }
}

fn list_type(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(list_type) = schema.get("x-kubernetes-list-type").and_then(Value::as_str) else {
        return;
    };
    let problem = "must be array if x-kubernetes-list-type is specified";
    required_type(schema, path, "array", problem, errors);
    if let Some(items) = node::items(schema, path)
        .filter(|_| list_type == "set" && node::text(schema, "type") == "array")
        .map(|items| items.schema)
    {
        let declared = |key: &str| items.get(key).and_then(Value::as_str);
        let problem = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let shown = items
            .get("x-kubernetes-list-type")
            .cloned()
            .unwrap_or(Value::Null);
        let wrong = match node::text(items, "type") {
            "array" if declared("x-kubernetes-list-type").is_some_and(|kind| kind != "atomic") => {
                "list"
            }
            "object" if declared("x-kubernetes-map-type") != Some("atomic") => "map",
            _ => "",
        };
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(
                format!("{path}.items.x-kubernetes-{wrong}-type"),
                shown,
                problem,
            ));
        }
    }
    let known = ["atomic", "set", "map"];
    if !known.contains(&list_type) {
        let field = format!("{path}.x-kubernetes-list-type");
        errors.push(FieldError::not_supported(field, json!(list_type), &known));
    }
}

fn list_map(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    let keys = node::list(schema, "x-kubernetes-list-map-keys");
    if !keys.is_empty() && list_type != Some("map") {
        let field = format!("{path}.x-kubernetes-list-type");
        let problem = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => FieldError::required(field, problem),
            Some(other) => FieldError::invalid(field, json!(other), problem),
        });
    }
    if list_type != Some("map") {
        return;
    }
    let field = format!("{path}.x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(FieldError::required(
            &*field,
            "must not be empty if x-kubernetes-list-type is map",
        ));
    }
    let Some(items) = node::items(schema, path) else {
        errors.push(FieldError::required(
            format!("{path}.items"),
            "must have a schema if x-kubernetes-list-type is map",
        ));
        return;
    };
    let kind = node::text(items.schema, "type");
    if kind != "object" {
        errors.push(FieldError::invalid(
            format!("{}.type", items.path),
            json!(kind),
            "must be object if parent array's x-kubernetes-list-type is map",
        ));
        return;
    }
    for (at, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        match node::property(items.schema, name).map(|property| node::text(property, "type")) {
            Some("array" | "object") => errors.push(FieldError::invalid(
                format!("{}.properties[{name}].type", items.path),
                json!(kind),
                "must be a scalar type if parent array's x-kubernetes-list-type is map",
            )),
            Some(_) => {}
            None => errors.push(FieldError::invalid(
                &*field,
                json!(keys),
                "entries must all be names of item properties",
            )),
        }
        if keys[..at].contains(key) {
            errors.push(FieldError::invalid(
                &*field,
                json!(keys),
                "must not contain duplicate entries",
            ));
        }
    }
}

/// Items of sets and maps are not null, and the keys of maps are always there.
fn map_keys(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let list_type = node::text(schema, "x-kubernetes-list-type");
    let Some(items) = node::items(schema, path).filter(|_| ["set", "map"].contains(&list_type))
    else {
        return;
    };
    if node::is_true(items.schema, "nullable") {
        errors.push(FieldError::forbidden(
            format!("{}.nullable", items.path),
            format!("cannot be nullable when x-kubernetes-list-type is {list_type}"),
        ));
    }
    if list_type != "map" {
        return;
    }
    for key in node::list(schema, "x-kubernetes-list-map-keys") {
        let name = key.as_str().unwrap_or_default();
        let Some(property) = node::property(items.schema, name) else {
            continue;
        };
        let field = format!("{}.properties[{name}]", items.path);
        let is_required = node::list(items.schema, "required").contains(key);
        if !is_required && node::present(property, "default").is_none() {
            errors.push(FieldError::required(
                format!("{field}.default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ));
        }
        if node::is_true(property, "nullable") {
            errors.push(FieldError::forbidden(
                format!("{field}.nullable"),
                "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            ));
        }
    }
}

fn cel_rule(schema: &Value, rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let has_line_break = |text: &str| text.contains(['\n', '\r']);
    let (rule_text, message) = (node::text(rule, "rule"), node::text(rule, "message"));
    let field = |name: &str| format!("{path}.{name}");
    if rule_text.trim().is_empty() {
        errors.push(FieldError::required(field("rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(
            field("message"),
            json!(message),
            "must be non-empty if specified",
        ));
    } else if has_line_break(message.trim()) {
        errors.push(FieldError::invalid(
            field("message"),
            json!(message),
            "must not contain line breaks",
        ));
    } else if has_line_break(rule_text.trim()) && message.trim().is_empty() {
        errors.push(FieldError::required(
            field("message"),
            "message must be specified if rule contains line breaks",
        ));
    }
    let expression = node::text(rule, "messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        errors.push(FieldError::required(
            field("messageExpression"),
            "messageExpression must be non-empty if specified",
        ));
    }
    const REASONS: [&str; 4] = [
        "FieldValueDuplicate",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueRequired",
    ];
    if let Some(reason) = rule
        .get("reason")
        .and_then(Value::as_str)
        .filter(|reason| !REASONS.contains(reason))
    {
        errors.push(FieldError::not_supported(
            field("reason"),
            json!(reason),
            &REASONS,
        ));
    }
    let field_path = node::text(rule, "fieldPath");
    if !field_path.is_empty() && field_path.trim().is_empty() {
        errors.push(FieldError::invalid(
            field("fieldPath"),
            json!(field_path),
            "must be non-empty if specified",
        ));
    }
    if has_line_break(field_path) {
        errors.push(FieldError::invalid(
            field("fieldPath"),
            json!(field_path),
            "must not contain line breaks",
        ));
    }
    if !field_path.is_empty() && super::field_path::follow(schema, field_path, true).is_err() {
        errors.push(FieldError::invalid(
            field("fieldPath"),
            json!(field_path),
            "must be a valid path",
        ));
    }
}
