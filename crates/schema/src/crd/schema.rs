//! All checks of one `openAPIV3Schema`.

use everflow_json::{Value, json};

use super::{keywords, node, schema_defaults, structure};
use crate::structural::FieldError;

/// Checks a schema. The second part says whether its rules in CEL are worth compiling.
pub(super) fn check(schema: &Value, path: &str, has_status: bool) -> (Vec<FieldError>, bool) {
    let mut errors = Vec::new();
    if has_status {
        root_with_status(schema, path, &mut errors);
    }
    if node::is_true(schema, "nullable") {
        errors.push(FieldError::forbidden(
            format!("{path}.nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let unsupported = structure::unsupported(schema);
    let mut structural = Vec::new();
    if unsupported.is_none() {
        structural = structure::check(schema, path);
        if structural.is_empty() {
            schema_defaults::check(schema, path, &mut structural);
        }
    }
    let is_structural = unsupported.is_none() && structural.is_empty();
    errors.extend(structural);
    let before = errors.len();
    keywords::check(schema, path, &keywords::Place::root(), &mut errors);
    let compiles = is_structural && errors.len() == before;
    if let Some(problem) = unsupported.filter(|_| errors.is_empty()) {
        errors.push(FieldError::invalid(path, json!(""), problem));
    }
    (errors, compiles)
}

/// The part for the status must not depend on the rest of the object.
fn root_with_status(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    const ALLOWED: [(&str, &str); 22] = [
        ("description", "Description"),
        ("type", "Type"),
        ("format", "Format"),
        ("title", "Title"),
        ("maximum", "Maximum"),
        ("exclusiveMaximum", "ExclusiveMaximum"),
        ("minimum", "Minimum"),
        ("exclusiveMinimum", "ExclusiveMinimum"),
        ("maxLength", "MaxLength"),
        ("minLength", "MinLength"),
        ("pattern", "Pattern"),
        ("maxItems", "MaxItems"),
        ("minItems", "MinItems"),
        ("uniqueItems", "UniqueItems"),
        ("multipleOf", "MultipleOf"),
        ("required", "Required"),
        ("items", "Items"),
        ("properties", "Properties"),
        ("externalDocs", "ExternalDocs"),
        ("example", "Example"),
        (
            "x-kubernetes-preserve-unknown-fields",
            "XPreserveUnknownFields",
        ),
        ("x-kubernetes-validations", "XValidations"),
    ];
    let kind = node::text(schema, "type");
    if !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(
            format!("{path}.type"),
            json!(kind),
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
        ));
        return;
    }
    let empty = |value: &Value| matches!(value, Value::Null | Value::Bool(false));
    let keys = schema
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !empty(value));
    let is_allowed = |key: &str| ALLOWED.iter().any(|(allowed, _)| *allowed == key);
    if keys
        .map(|(key, _)| key.as_str())
        .any(|key| !is_allowed(key))
    {
        let names: Vec<&str> = ALLOWED.iter().map(|(_, name)| *name).collect();
        errors.push(FieldError::invalid(
            path,
            schema.clone(),
            format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                names.join(" ")
            ),
        ));
    }
}
