//! The rules of custom resource definitions.

use everflow_json::{Value, json};
use everflow_schema::crd::{Checked, check_definition, check_definition_update};

use crate::Context;
use crate::field::{Errors, FieldError, Path};
use crate::status::ApiResult;

/// The text at a pointer, empty where there is none.
pub fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The versions of a definition.
pub fn versions(definition: &Value) -> &[Value] {
    definition
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The name of a definition is checked together with its group.
pub fn any_name(_: &str) -> Vec<String> {
    Vec::new()
}

/// A new definition remembers in which version it stores objects.
pub fn prepare_definition(_: &Context<'_>, object: &mut Value) -> ApiResult<()> {
    let stored: Vec<Value> = versions(object)
        .iter()
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .and_then(|version| version.get("name").cloned())
        .into_iter()
        .collect();
    if let Some(map) = object.as_object_mut() {
        map.insert("status".into(), json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}));
    }
    Ok(())
}

/// A changed definition keeps its status, but for versions that objects are stored in from now on.
pub fn prepare_definition_update(_: &Context<'_>, new: &mut Value, _old: &Value) -> ApiResult<()> {
    let storage = versions(new)
        .iter()
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .and_then(|version| version.get("name").cloned());
    if let (Some(storage), Some(list)) = (
        storage,
        new.pointer_mut("/status/storedVersions")
            .and_then(Value::as_array_mut),
    ) && !list.contains(&storage)
    {
        list.push(storage);
    }
    Ok(())
}

/// Checks a new definition.
pub fn validate_definition(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    report(check_definition(object), object, None, errors);
}

/// Checks a changed definition.
pub fn validate_definition_update(
    _: &Context<'_>,
    object: &Value,
    old: &Value,
    errors: &mut Errors,
) {
    report(
        check_definition_update(object, old),
        object,
        Some(old),
        errors,
    );
}

/// An error of the schema's checks as one of ours.
pub fn convert_error(error: everflow_schema::structural::FieldError) -> FieldError {
    let field = if error.field == "<nil>" {
        Path::root()
    } else {
        Path::new(&error.field)
    };
    FieldError {
        problem: error.kind,
        field,
        shown: None,
        detail: String::new(),
        verbatim: Some(error.message()),
    }
}

fn report(checked: Checked, object: &Value, old: Option<&Value>, errors: &mut Errors) {
    errors.extend(checked.errors.into_iter().map(convert_error));
    for (path, schema) in &checked.rule_schemas {
        let unchanged = old.is_some_and(|old| has_same_schema(path, object, old));
        let found = everflow_cel::rules::check_definition(schema, path, unchanged);
        errors.extend(found.into_iter().map(convert_error));
    }
}

/// Whether the schema that a path names is that of the same version before the change.
fn has_same_schema(path: &str, object: &Value, old: &Value) -> bool {
    let index = path
        .strip_prefix("spec.versions[")
        .and_then(|rest| rest.split(']').next())
        .and_then(|index| index.parse::<usize>().ok())
        .unwrap_or(0);
    let Some(version) = versions(object).get(index) else {
        return false;
    };
    versions(old)
        .iter()
        .find(|known| known.get("name") == version.get("name"))
        .is_some_and(|known| known.get("schema") == version.get("schema"))
}
