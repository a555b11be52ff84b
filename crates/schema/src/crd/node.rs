//! Reading raw schemas.

use everflow_json::{Map, Value};

/// The kinds of schemas below one node, with the path to each.
pub(super) struct Child<'s> {
    pub(super) path: String,
    pub(super) schema: &'s Value,
}

/// The text under a key; empty when there is none.
pub(super) fn text<'s>(schema: &'s Value, key: &str) -> &'s str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a key holds true.
pub(super) fn is_true(schema: &Value, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

/// The value under a key unless it is null.
pub(super) fn present<'s>(schema: &'s Value, key: &str) -> Option<&'s Value> {
    schema.get(key).filter(|value| !value.is_null())
}

/// The items of a list under a key.
pub(super) fn list<'s>(schema: &'s Value, key: &str) -> &'s [Value] {
    schema
        .get(key)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The fields of the object under a key.
pub(super) fn fields<'s>(schema: &'s Value, key: &str) -> Option<&'s Map> {
    schema
        .get(key)
        .and_then(Value::as_object)
        .filter(|fields| !fields.is_empty())
}

/// The properties of a schema.
pub(super) fn properties<'s>(schema: &'s Value, path: &str) -> Vec<(&'s str, Child<'s>)> {
    let known = fields(schema, "properties").into_iter().flatten();
    known
        .map(|(name, schema)| {
            (
                name.as_str(),
                Child {
                    path: format!("{path}.properties[{name}]"),
                    schema,
                },
            )
        })
        .collect()
}

/// The schema of a property.
pub(super) fn property<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    fields(schema, "properties")?.get(name)
}

/// `items` when it is one schema.
pub(super) fn items<'s>(schema: &'s Value, path: &str) -> Option<Child<'s>> {
    let schema = schema.get("items").filter(|items| items.is_object())?;
    Some(Child {
        path: format!("{path}.items"),
        schema,
    })
}

/// `additionalProperties` when it is a schema.
pub(super) fn additional<'s>(schema: &'s Value, path: &str) -> Option<Child<'s>> {
    let schema = schema
        .get("additionalProperties")
        .filter(|additional| additional.is_object())?;
    Some(Child {
        path: format!("{path}.additionalProperties"),
        schema,
    })
}

/// `not`, `allOf`, `anyOf` or `oneOf`.
pub(super) fn nested<'s>(schema: &'s Value, path: &str, key: &str) -> Vec<Child<'s>> {
    match schema.get(key) {
        Some(Value::Array(list)) => list
            .iter()
            .enumerate()
            .map(|(at, schema)| Child {
                path: format!("{path}.{key}[{at}]"),
                schema,
            })
            .collect(),
        Some(one @ Value::Object(_)) => vec![Child {
            path: format!("{path}.{key}"),
            schema: one,
        }],
        _ => Vec::new(),
    }
}
