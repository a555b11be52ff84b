//! Whether the defaults in a schema fit it.

use everflow_json::Value;

use super::node;
use crate::schema::Schema;
use crate::structural::{FieldError, Prune, Validator, check_embedded, prune};

/// Checks all defaults of a structural schema.
pub(super) fn check(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    visit(schema, path, false, true, errors);
}

fn visit(
    schema: &Value,
    path: &str,
    inside_metadata: bool,
    is_root: bool,
    errors: &mut Vec<FieldError>,
) {
    let embedded = is_root || node::is_true(schema, "x-kubernetes-embedded-resource");
    if let Some(default) = node::present(schema, "default") {
        check_one(
            schema,
            default,
            &format!("{path}.default"),
            inside_metadata,
            errors,
        );
    }
    if let Some(items) = node::items(schema, path) {
        visit(
            items.schema,
            &items.path,
            inside_metadata && !embedded,
            false,
            errors,
        );
    }
    for (name, property) in node::properties(schema, path) {
        let metadata = (inside_metadata && !embedded)
            || (embedded && ["apiVersion", "kind", "metadata"].contains(&name));
        visit(property.schema, &property.path, metadata, false, errors);
    }
}

fn check_one(
    schema: &Value,
    default: &Value,
    path: &str,
    inside_metadata: bool,
    errors: &mut Vec<FieldError>,
) {
    let Ok(parsed) = Schema::from_structural(schema) else {
        return;
    };
    let embedded = node::is_true(schema, "x-kubernetes-embedded-resource");
    if !inside_metadata {
        let mut pruned = default.clone();
        prune(
            &mut pruned,
            parsed.view(),
            Prune {
                resource_root: embedded,
            },
        );
        if &pruned != default {
            errors.push(FieldError::invalid(
                path,
                default.clone(),
                "must not have unknown fields",
            ));
        }
        let found = check_embedded(default, parsed.view(), &|_, _| Vec::new());
        if !found.is_empty() {
            errors.extend(found.into_iter().map(|error| below(path, error)));
            return;
        }
    }
    errors.extend(
        Validator::new(parsed)
            .validate(default)
            .into_iter()
            .map(|error| below(path, error)),
    );
}

/// Puts the path of the default before that of an error inside it.
fn below(path: &str, mut error: FieldError) -> FieldError {
    error.field = match error.field.as_str() {
        "<nil>" => path.to_owned(),
        field if field.starts_with('[') => format!("{path}{field}"),
        field => format!("{path}.{field}"),
    };
    error
}
