//! Patches of all kinds.

use everflow_json::Value;

use super::Call;
use super::decode::{Decoded, decode_tree};
use super::managed;
use super::options::{FieldValidation, WriteOptions, manager_name, write_options};
use super::request::Answer;
use super::write::{check_name, check_namespace, default, replace};
use crate::codec::json::{self, Json};
use crate::field::{FieldError, Path};
use crate::kinds::sent_data;
use crate::status::{ApiError, ApiResult};

/// How many operations a JSON patch may have.
const OPERATIONS_LIMIT: usize = 10_000;

/// The kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Json,
    Merge,
    Strategic,
    Apply,
}

fn kind(call: &Call<'_>) -> ApiResult<Kind> {
    match call.request.content_type().as_str() {
        "application/json-patch+json" => Ok(Kind::Json),
        "application/merge-patch+json" => Ok(Kind::Merge),
        "application/strategic-merge-patch+json" if !call.resource.is_custom() => {
            Ok(Kind::Strategic)
        }
        "application/apply-patch+yaml" => Ok(Kind::Apply),
        "application/strategic-merge-patch+json" => Err(ApiError::new(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )),
        _ => Err(
            ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
                .with_details(everflow_json::json!({})),
        ),
    }
}

/// Answers a PATCH.
pub fn patch(call: &Call<'_>) -> ApiResult<Answer> {
    let kind = kind(call)?;
    let options = write_options(call.request, "PatchOptions", kind == Kind::Apply)?;
    if kind == Kind::Apply {
        return super::apply::apply(call, &options);
    }
    let manager = manager_name(call.request, &options);
    let _guard = call.server.write_lock();
    let Some(current) = call.current() else {
        return Err(call.missing());
    };
    let live = super::read::read_shared(call, &current);
    let mut object = patched(call, kind, &live, &options)?;
    if kind != Kind::Strategic
        && sent_data::applies(&call.resource)
        && object.get("data") == live.get("data")
    {
        // The patched document holds the data as the server writes it.
        let written = sent_data::compact(&sent_data::form(&current.value));
        call.sent_data.replace(Some(written));
    }
    check_name(call, &object)?;
    default(call, &mut object);
    super::write::dedup_owners(call, &mut object);
    check_namespace(call, &mut object)?;
    let subresource = call.target.subresource.clone();
    let updated = replace(call, &current, object, &options, |call, old, object| {
        managed::track_update(call, Some(old), object, &manager, &subresource)
    })?;
    call.answer_outcome(200, &updated)
}

/// The document after the request's patch, whatever its kind.
pub(super) fn patched_by_media(
    call: &Call<'_>,
    live: &Value,
    options: &WriteOptions,
) -> ApiResult<Value> {
    patched(call, kind(call)?, live, options)
}

fn patched(call: &Call<'_>, kind: Kind, live: &Value, options: &WriteOptions) -> ApiResult<Value> {
    match kind {
        Kind::Json => {
            // What is nothing but operations needs no other form.
            if let Some(patch) = call.request.body.tree().filter(|tree| is_plain_patch(tree)) {
                let result = operated(live, patch)?;
                return finish(call, live, result, Vec::new(), options);
            }
            let patch = read_patch(call)?;
            let mut findings = Vec::new();
            check_operations(&patch, &mut findings)?;
            if let Json::Array(operations) = &patch
                && operations.len() > OPERATIONS_LIMIT
            {
                return Err(ApiError::too_large(format!(
                    "Request entity too large: The allowed maximum operations in a JSON patch is {OPERATIONS_LIMIT}, got {}",
                    operations.len()
                )));
            }
            let result = operated(live, &patch.into_value())?;
            finish(call, live, result, findings, options)
        }
        Kind::Merge => {
            let patch = read_patch(call)?;
            let findings = patch
                .duplicates()
                .into_iter()
                .map(|path| format!("duplicate field \"{path}\""))
                .collect();
            if !matches!(patch, Json::Object(_)) {
                return Err(ApiError::bad_request(format!(
                    "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                    patch.kind()
                )));
            }
            let result = everflow_merge::merge_patch::apply(live, &patch.into_value())
                .map_err(|error| ApiError::bad_request(error.to_string()))?;
            finish(call, live, result, findings, options)
        }
        Kind::Strategic | Kind::Apply => super::apply::strategic(call, live, options),
    }
}

fn read_patch(call: &Call<'_>) -> ApiResult<Json> {
    let read = call.request.body.read(json::parse);
    read.map_err(|why| ApiError::bad_request(format!("error decoding patch: {why}")))
}

/// The document after the operations of a JSON patch.
fn operated(live: &Value, patch: &Value) -> ApiResult<Value> {
    everflow_merge::json_patch::apply(live, patch).map_err(|_| {
        ApiError::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
        .with_details(everflow_json::json!({}))
    })
}

/// The members of an operation.
fn is_member(key: &str) -> bool {
    matches!(key, "op" | "path" | "from" | "value")
}

/// Whether there is nothing to say about the operations of a JSON patch before they are tried.
fn is_plain_patch(patch: &Value) -> bool {
    patch.as_array().is_some_and(|operations| {
        let mut maps = operations.iter().map(Value::as_object);
        operations.len() <= OPERATIONS_LIMIT
            && maps.all(|map| map.is_some_and(|map| map.keys().all(|key| is_member(key))))
    })
}

/// The real server reads the operations into structs: unknown members are findings, wrong shapes errors.
fn check_operations(patch: &Json, findings: &mut Vec<String>) -> ApiResult<()> {
    let Json::Array(operations) = patch else {
        return Err(ApiError::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            patch.kind()
        )));
    };
    for (index, operation) in operations.iter().enumerate() {
        let Json::Object(entries) = operation else {
            continue;
        };
        for (at, (key, _)) in entries.iter().enumerate() {
            if !is_member(key) {
                findings.push(format!("json patch unknown field \"[{index}].{key}\""));
            } else if entries[..at].iter().any(|(earlier, _)| earlier == key) {
                findings.push(format!("json patch duplicate field \"[{index}].{key}\""));
            }
        }
    }
    Ok(())
}

/// Reads the patched document as its kind.
pub fn finish(
    call: &Call<'_>,
    live: &Value,
    document: Value,
    findings: Vec<String>,
    options: &WriteOptions,
) -> ApiResult<Value> {
    let refused = |why: String| {
        let errors = vec![FieldError::invalid(
            &Path::new("patch"),
            super::apply::go_text(call, live, &document),
            why,
        )];
        ApiError::invalid("", "", "", &errors)
    };
    // Most documents are as their kind reads them already.
    let decoded = match crate::crd::is_surely_decoded(&call.resource, &document) {
        true => None,
        false => Some(
            decode_tree(
                &call.resource,
                Json::from_value(&document),
                Vec::new(),
                FieldValidation::Warn,
            )
            .map_err(|error| refused(super::apply::inner_problem(&error.message)))?,
        ),
    };
    let (value, warnings) = match decoded {
        Some(Decoded { value, warnings }) => (Some(value), warnings),
        None => (None, Vec::new()),
    };
    let all: Vec<String> = findings.into_iter().chain(warnings).collect();
    match options.field_validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => all.into_iter().for_each(|text| call.warn(text)),
        FieldValidation::Strict if all.is_empty() => {}
        FieldValidation::Strict => {
            return Err(refused(format!(
                "strict decoding error: {}",
                all.join(", ")
            )));
        }
    }
    Ok(value.unwrap_or(document))
}
