//! The rules that schemas themselves must keep, draft by draft.
//!
//! They are written here in JSON Schema's own terms, so that the report about a broken schema has
//! the shape that helm's has.

use everflow_gotemplate::Meter;
use everflow_json::{Value, json};

use super::document::{Document, Draft, SchemaError};
use super::validate::validate_as;

pub(super) fn check(document: &Document, meter: &Meter<'_>) -> Result<(), SchemaError> {
    let (rules, location) = match document.draft {
        Draft::Four => (flat(Draft::Four), "http://json-schema.org/draft-04/schema#"),
        Draft::Six => (flat(Draft::Six), "http://json-schema.org/draft-06/schema#"),
        Draft::Seven => (
            flat(Draft::Seven),
            "http://json-schema.org/draft-07/schema#",
        ),
        Draft::Of2019 => (
            layered(Draft::Of2019),
            "https://json-schema.org/draft/2019-09/schema#",
        ),
        Draft::Of2020 => (
            layered(Draft::Of2020),
            "https://json-schema.org/draft/2020-12/schema#",
        ),
    };
    // The layered rules refer to themselves in the manner of 2019-09 and later.
    let draft = document.draft.max(Draft::Seven);
    let rules = Document::trusted(rules, draft);
    match validate_as(&rules, &document.root, location, meter)? {
        None => Ok(()),
        Some(violation) => Err(SchemaError::Invalid(violation.text(meter)?)),
    }
}

fn schema() -> Value {
    json!({"$ref": "#"})
}

fn schemas_by_name() -> Value {
    json!({"type": "object", "additionalProperties": schema()})
}

fn schema_list() -> Value {
    json!({"type": "array", "minItems": 1, "items": schema()})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn string_list() -> Value {
    json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true})
}

fn types() -> Value {
    let names =
        json!({"enum": ["array", "boolean", "integer", "null", "number", "object", "string"]});
    json!({"anyOf": [
        names,
        {"type": "array", "items": names, "minItems": 1, "uniqueItems": true}
    ]})
}

fn values() -> Value {
    let mut rules = json!({
        "multipleOf": {"type": "number", "exclusiveMinimum": 0},
        "maximum": {"type": "number"},
        "minimum": {"type": "number"},
        "exclusiveMaximum": {"type": "number"},
        "exclusiveMinimum": {"type": "number"},
        "maxLength": count(),
        "minLength": count(),
        "pattern": {"type": "string"},
        "maxItems": count(),
        "minItems": count(),
        "uniqueItems": {"type": "boolean"},
        "maxProperties": count(),
        "minProperties": count(),
        "required": string_list(),
        "enum": {"type": "array"},
        "type": types()
    });
    rules["const"] = Value::Bool(true);
    rules
}

fn applicators(draft: Draft) -> Value {
    let mut rules = json!({
        "properties": schemas_by_name(),
        "patternProperties": schemas_by_name(),
        "additionalProperties": schema(),
        "propertyNames": schema(),
        "contains": schema(),
        "if": schema(),
        "then": schema(),
        "else": schema(),
        "not": schema(),
        "allOf": schema_list(),
        "anyOf": schema_list(),
        "oneOf": schema_list(),
        "dependentSchemas": schemas_by_name()
    });
    rules["items"] = match draft {
        Draft::Of2020 => schema(),
        _ => json!({"anyOf": [schema(), schema_list()]}),
    };
    match draft {
        Draft::Of2020 => rules["prefixItems"] = schema_list(),
        _ => rules["additionalItems"] = schema(),
    }
    rules
}

/// Drafts up to 7: one flat set of rules.
fn flat(draft: Draft) -> Value {
    let mut properties = values();
    merge(&mut properties, applicators(draft));
    merge(
        &mut properties,
        json!({
            "$id": {"type": "string"},
            "$schema": {"type": "string"},
            "$ref": {"type": "string"},
            "$comment": {"type": "string"},
            "title": {"type": "string"},
            "description": {"type": "string"},
            "definitions": schemas_by_name(),
            "dependencies": {
                "type": "object",
                "additionalProperties": {"anyOf": [schema(), string_list()]}
            },
            "format": {"type": "string"}
        }),
    );
    let mut types = json!(["object", "boolean"]);
    if draft == Draft::Four {
        types = json!("object");
        properties["exclusiveMinimum"] = json!({"type": "boolean"});
        properties["exclusiveMaximum"] = json!({"type": "boolean"});
        properties["additionalProperties"] = json!({"anyOf": [{"type": "boolean"}, schema()]});
        properties["additionalItems"] = json!({"anyOf": [{"type": "boolean"}, schema()]});
    }
    json!({"type": types, "properties": properties})
}

/// Drafts from 2019-09: rules in layers, each of which reports on its own.
fn layered(draft: Draft) -> Value {
    let kinds = json!(["object", "boolean"]);
    let mut validation = values();
    merge(
        &mut validation,
        json!({
            "maxContains": count(),
            "minContains": count(),
            "dependentRequired": {"type": "object", "additionalProperties": string_list()}
        }),
    );
    let layer = |properties: Value| json!({"type": kinds, "properties": properties});
    json!({
        "allOf": [
            layer(json!({
                "$id": {"type": "string"},
                "$schema": {"type": "string"},
                "$ref": {"type": "string"},
                "$anchor": {"type": "string"},
                "$comment": {"type": "string"},
                "$defs": schemas_by_name()
            })),
            layer(applicators(draft)),
            layer(json!({
                "unevaluatedItems": schema(),
                "unevaluatedProperties": schema()
            })),
            layer(validation),
            layer(json!({
                "title": {"type": "string"},
                "description": {"type": "string"},
                "deprecated": {"type": "boolean"},
                "readOnly": {"type": "boolean"},
                "writeOnly": {"type": "boolean"},
                "examples": {"type": "array"}
            })),
            layer(json!({"format": {"type": "string"}}))
        ],
        "type": kinds,
        "properties": {
            "definitions": schemas_by_name(),
            "dependencies": {
                "type": "object",
                "additionalProperties": {"anyOf": [schema(), string_list()]}
            }
        }
    })
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
