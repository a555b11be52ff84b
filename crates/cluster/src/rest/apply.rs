//! Server-side apply and strategic merge patch.

use everflow_json::Value;

use super::Call;
use super::managed;
use super::options::{FieldValidation, WriteOptions};
use super::request::Answer;
use super::write::{check_name, check_namespace, default, insert, replace};
use crate::codec::json::Json;
use crate::kinds::{meta, sent_data};
use crate::status::{ApiError, ApiResult};

/// Answers an apply.
pub fn apply(call: &Call<'_>, options: &WriteOptions) -> ApiResult<Answer> {
    let (applied, duplicates) = read_document(call)?;
    match options.field_validation {
        FieldValidation::Strict if !duplicates.is_empty() => {
            return Err(ApiError::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
                duplicates.join("\n  ")
            )));
        }
        FieldValidation::Warn => duplicates.into_iter().for_each(|text| call.warn(text)),
        _ => {}
    }
    let manager = options.field_manager.clone().unwrap_or_default();
    let _guard = call.server.write_lock();
    let current = call.current();
    if meta::metadata(&applied)
        .is_some_and(|map| map.get("managedFields").is_some_and(|list| !list.is_null()))
    {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let live = current
        .as_ref()
        .map(|current| super::read::read_shared(call, current));
    let merged = managed::apply(call, live.as_deref(), &applied, &manager, options.force)?;
    if let (Some(current), Some(live)) = (&current, &live)
        && sent_data::applies(&call.resource)
        && same_but_managers(live, &merged)
    {
        // An apply that changes nothing goes on with the object as it is stored.
        call.sent_data
            .replace(Some(sent_data::form(&current.value)));
    }
    let problem = call
        .resource
        .go_type
        .as_ref()
        .and_then(|ty| crate::codec::restore::problem(ty, &merged));
    if let Some(problem) = problem {
        let resource = &call.resource;
        let version = if resource.group.is_empty() {
            format!("/{}", resource.version)
        } else {
            resource.api_version().to_owned()
        };
        let kind = format!("{version}, Kind={}", resource.kind);
        let name = format!(
            "{}/{}",
            meta::text(&applied, "namespace"),
            meta::text(&merged, "name")
        );
        return Err(ApiError::internal_plain(format!(
            "failed to convert new object ({name}; {kind}) to proper version: unable to convert unstructured object to {kind}: {problem}"
        )));
    }
    // A message may have to show this list as empty, not as missing.
    let empty_modes = call.resource.plural == "persistentvolumeclaims"
        && merged
            .pointer("/spec/accessModes")
            .and_then(Value::as_array)
            .is_some_and(Vec::is_empty);
    let mut object = super::decode::normalize_wrapping(&call.resource, merged);
    if empty_modes && let Some(spec) = crate::kinds::prepare::part(&mut object, "spec") {
        spec.insert("accessModes".into(), Value::Array(Vec::new()));
    }
    check_name(call, &object)?;
    default(call, &mut object);
    match current {
        Some(current) => {
            check_namespace(call, &mut object)?;
            let updated = replace(call, &current, object, options, |_, _, _| Ok(()))?;
            call.answer_outcome(200, &updated)
        }
        None if !call.target.subresource.is_empty() => Err(call.missing()),
        None => {
            let mut wanted = crate::auth::Attributes::of_request(call.request, Some(call.target));
            wanted.verb = "create".into();
            if let crate::auth::Decision::Denied(why) =
                crate::auth::decide(call.server, call.user, &wanted)
            {
                return Err(crate::auth::refusal(call.user, &wanted, &why));
            }
            let created = insert(call, object, options, |_, _| Ok(()))?;
            call.answer_outcome(201, &created)
        }
    }
}

fn same_but_managers(live: &Value, merged: &Value) -> bool {
    let (mut live, mut merged) = (live.clone(), merged.clone());
    meta::set(&mut live, "managedFields", None);
    meta::set(&mut merged, "managedFields", None);
    live == merged
}

fn read_document(call: &Call<'_>) -> ApiResult<(Value, Vec<String>)> {
    if let Some(tree @ Value::Object(_)) = call.request.body.tree() {
        return Ok((tree.clone(), Vec::new()));
    }
    let mut duplicates = Vec::new();
    let read = call.request.body.read(|text| {
        let (tree, found) = crate::codec::yaml::parse(text)?;
        duplicates = found;
        Ok(tree)
    });
    let tree = read.map_err(|why: String| {
        ApiError::bad_request(format!(
            "error decoding YAML: {}{why}",
            if why.starts_with("yaml:") || why.starts_with("unsupported map key") {
                "error converting YAML to JSON: "
            } else {
                ""
            }
        ))
    })?;
    match tree {
        Json::Null => Ok((crate::crd::empty(), duplicates)),
        Json::Object(_) => Ok((tree.into_value(), duplicates)),
        other => {
            let name = other.kind();
            Err(ApiError::bad_request(format!(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {name} into Go value of type map[string]interface {{}}"
            )))
        }
    }
}

/// The result of a strategic merge patch.
pub fn strategic(call: &Call<'_>, live: &Value, options: &WriteOptions) -> ApiResult<Value> {
    use everflow_merge::MergeError;
    let resource = &call.resource;
    let patch = crate::codec::json::parse(&call.request.body).map_err(ApiError::bad_request)?;
    if !matches!(patch, Json::Object(_)) {
        return Err(ApiError::bad_request(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            patch.kind()
        )));
    }
    let Some(schema) =
        everflow_schema::builtin().schema(&resource.group, &resource.version, &resource.kind)
    else {
        return Err(ApiError::internal_plain("no schema for the kind"));
    };
    let duplicates: Vec<String> = patch
        .duplicates()
        .into_iter()
        .map(|path| format!("duplicate field \"{path}\""))
        .collect();
    let merged =
        everflow_merge::strategic::apply(live, &patch.to_value(), schema).map_err(|error| {
            match error {
                MergeError::Strategic { message } => ApiError::internal_plain(message),
                MergeError::StrategicListOfLists => ApiError::new(
                    422,
                    "Invalid",
                    "the server rejected our request due to an error in our request",
                )
                .with_details(everflow_json::json!({})),
                other => ApiError::bad_request(other.to_string()),
            }
        })?;
    let (value, warnings) = super::decode::convert_tree(resource, &merged).map_err(|why| {
        let errors = vec![crate::field::FieldError::invalid(
            &crate::field::Path::new("patch"),
            go_map(&patch.to_value()),
            why,
        )];
        ApiError::invalid("", "", "", &errors)
    })?;
    let all: Vec<String> = duplicates.into_iter().chain(warnings).collect();
    match options.field_validation {
        FieldValidation::Warn => all.into_iter().for_each(|text| call.warn(text)),
        FieldValidation::Strict if !all.is_empty() => {
            let why = format!("strict decoding error: {}", all.join(", "));
            let errors = vec![crate::field::FieldError::invalid(
                &crate::field::Path::new("patch"),
                go_map(&patch.to_value()),
                why,
            )];
            return Err(ApiError::invalid("", "", "", &errors));
        }
        _ => {}
    }
    Ok(value)
}

/// A tree as Go prints a map: `map[a:1 b:[x y]]`.
fn go_map(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(go_map).collect::<Vec<_>>().join(" ")
        ),
        Value::Object(map) => format!(
            "map[{}]",
            map.iter()
                .map(|(key, value)| format!("{key}:{}", go_map(value)))
                .collect::<Vec<_>>()
                .join(" ")
        ),
        other => other.to_string(),
    }
}

/// A document as Go prints it inside a message.
pub fn go_text(call: &Call<'_>, live: &Value, document: &Value) -> String {
    match &call.resource.go_type {
        Some(ty) => crate::codec::gotypes::types().patched_text(ty, live, document),
        None => crate::field::go_json(document),
    }
}

/// The part of a decoding failure that names the problem.
pub fn inner_problem(message: &str) -> String {
    message
        .split_once(" cannot be handled as a ")
        .and_then(|(_, rest)| rest.split_once(": "))
        .map_or(message, |(_, problem)| problem)
        .to_owned()
}
