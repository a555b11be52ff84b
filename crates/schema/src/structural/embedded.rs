//! Objects inside objects (`x-kubernetes-embedded-resource`).

use everflow_json::{Map, Value};

use super::field_error::{FieldError, NO_FIELD};
use crate::model::{Shape, TypeId, TypeTable};
use crate::names::kind_problem;
use crate::schema::SchemaView;

/// Checks that embedded objects say what they are. Their `metadata` is checked by the caller's
/// rules, which get the path of the `metadata` and the object's.
pub fn check_embedded(
    value: &Value,
    schema: SchemaView<'_>,
    check_metadata: &dyn Fn(&str, &Value) -> Vec<FieldError>,
) -> Vec<FieldError> {
    // Hardly any schema has such objects, and only of those there is something to say.
    if !schema.types.iter().any(|(_, node)| node.embedded_resource) {
        return Vec::new();
    }
    let mut checker = Checker {
        types: schema.types,
        check_metadata,
        errors: Vec::new(),
    };
    checker.node(value, schema.root, "");
    checker.errors
}

/// The first `apiVersion` or `kind` of an embedded object that is not a string. A body with one is
/// refused before anything else is checked.
pub fn embedded_type_error(value: &Value, schema: SchemaView<'_>) -> Option<FieldError> {
    let found = check_embedded(value, schema, &|_, _| Vec::new());
    found.into_iter().find(|error| error.detail == NOT_A_STRING)
}

const NOT_A_STRING: &str = "must be a string";

struct Checker<'s> {
    types: &'s TypeTable,
    check_metadata: &'s dyn Fn(&str, &Value) -> Vec<FieldError>,
    errors: Vec<FieldError>,
}

impl Checker<'_> {
    fn node(&mut self, value: &Value, type_id: TypeId, path: &str) {
        let Some(node) = self.types.get(type_id) else {
            return;
        };
        match value {
            Value::Object(fields) => {
                if node.embedded_resource {
                    self.object(fields, path);
                }
                let Shape::Object(object) = &node.shape else {
                    return;
                };
                for (name, inner) in fields {
                    if let Some(field) = object.field(name) {
                        self.node(inner, field.type_id, &below(path, name));
                    } else if let Some(additional) = object.additional {
                        self.node(inner, additional, &format!("{path}[{name}]"));
                    }
                }
            }
            Value::Array(items) => {
                let Shape::List(list) = &node.shape else {
                    return;
                };
                for (at, item) in items.iter().enumerate() {
                    self.node(item, list.item, &format!("{path}[{at}]"));
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, fields: &Map, path: &str) {
        for name in ["apiVersion", "kind"] {
            if !fields.contains_key(name) {
                self.errors
                    .push(FieldError::required(below(path, name), ""));
            }
        }
        for (name, value) in fields {
            let field = below(path, name);
            match (name.as_str(), value) {
                ("apiVersion" | "kind", Value::String(text)) if text.is_empty() => {
                    self.errors.push(FieldError::invalid(
                        field,
                        value.clone(),
                        "must not be empty",
                    ));
                }
                ("apiVersion", Value::String(text)) if text.matches('/').count() > 1 => {
                    let problem = format!("unexpected GroupVersion string: {text}");
                    self.errors
                        .push(FieldError::invalid(field, value.clone(), problem));
                }
                ("kind", Value::String(text)) => {
                    if let Some(problem) = kind_problem(text) {
                        self.errors
                            .push(FieldError::invalid(field, value.clone(), problem));
                    }
                }
                ("apiVersion", Value::String(_)) => {}
                ("apiVersion" | "kind", _) => {
                    self.errors
                        .push(FieldError::invalid(field, value.clone(), NOT_A_STRING));
                }
                ("metadata", _) => self.errors.extend((self.check_metadata)(&field, value)),
                _ => {}
            }
        }
    }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() || path == NO_FIELD {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
