//! The form of an answer: JSON, YAML, protobuf, tables, metadata only.

mod cells;
mod form;
pub mod table;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use everflow_json::{Map, Value, json};
use smol_str::SmolStr;

use form::{ACCEPTED, ACCEPTED_STREAM, choose};
pub use form::{Form, Media, Shape, no_representation, status_media};

use crate::kinds::meta;
use crate::rest::Call;
use crate::rest::read::{list_text, read_shared};
use crate::rest::request::{Answer, Body, Request};
use crate::status::{ApiError, ApiResult};
use crate::store::Stored;

/// The media type of Kubernetes' protobuf.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Whether the client takes plain JSON of the object itself.
pub fn wants_plain_json(call: &Call<'_>) -> bool {
    choose(call, false, ACCEPTED).is_ok_and(|form| form.is_plain_json())
}

/// Whether the client takes a list of the objects themselves.
pub fn wants_plain_list(call: &Call<'_>) -> bool {
    choose(call, true, ACCEPTED).is_ok_and(|form| form.shape == Shape::Whole)
}

/// The form of a watch's events.
pub fn stream_form(call: &Call<'_>) -> ApiResult<Form> {
    let mut form = choose(call, false, ACCEPTED_STREAM)?;
    if form.media == Media::Yaml {
        form.media = Media::Json;
    }
    Ok(form)
}

fn respond(form: Form, status: u16, value: &Value) -> Answer {
    match form.media {
        Media::Json => Answer::json(status, value),
        Media::Yaml => Answer::new(status, "application/yaml", crate::codec::yaml::print(value)),
        Media::Protobuf => match everflow_schema::protobuf::encode(value) {
            Ok(bytes) => Answer::new(status, PROTOBUF, bytes),
            Err(_) if form.json_too => Answer::json(status, value),
            Err(error) => Answer::failure(&ApiError::internal_plain(error.to_string())),
        },
    }
}

/// A failure in the form the client takes.
pub fn failure(request: &Request, error: &ApiError) -> Answer {
    let form = Form {
        media: status_media(request),
        ..Form::JSON
    };
    if form.media == Media::Json {
        return Answer::failure(error);
    }
    let mut answer = respond(form, error.code, &error.to_value());
    answer.headers.extend(
        error
            .headers
            .iter()
            .map(|(name, value)| (SmolStr::new_static(name), value.into())),
    );
    answer
}

/// An answer with a document that is no object, such as a list of resources.
pub fn document(request: &Request, answer: Answer, only_json: bool) -> ApiResult<Answer> {
    let plain = answer.status == 200 && answer.header("content-type") == Some("application/json");
    if !plain || status_media(request) == Media::Json {
        return Ok(answer);
    }
    if only_json {
        return if form::takes_json(request) {
            Ok(answer)
        } else {
            Err(no_representation("application/json"))
        };
    }
    let Body::Full(text) = &answer.body else {
        return Ok(answer);
    };
    let form = Form {
        media: status_media(request),
        ..Form::JSON
    };
    Ok(match everflow_json::from_slice(text) {
        Ok(value) => respond(form, answer.status, &value),
        Err(_) => answer,
    })
}

/// An answer that is never shaped as a table, such as a Status.
pub fn plain(call: &Call<'_>, status: u16, value: &Value) -> ApiResult<Answer> {
    let form = choose(call, false, ACCEPTED)?;
    Ok(respond(form, status, value))
}

/// An answer with one object.
pub fn object(call: &Call<'_>, status: u16, value: &Value) -> ApiResult<Answer> {
    let form = choose(call, false, ACCEPTED)?;
    Ok(match form.shape {
        Shape::Table(version) => respond(form, status, &table::of_object(call, value, version)?),
        Shape::Partial(version) => respond(form, status, &partial(value, version)),
        _ => respond(form, status, value),
    })
}

/// An answer with a list.
pub fn list(call: &Call<'_>, metadata: Value, items: &[Arc<Stored>]) -> ApiResult<Answer> {
    let form = choose(call, true, ACCEPTED)?;
    Ok(match form.shape {
        Shape::Table(version) => {
            respond(form, 200, &table::of_list(call, metadata, items, version)?)
        }
        Shape::Partial(version) | Shape::PartialList(version) => {
            let items: Vec<Value> = items
                .iter()
                .map(|item| partial(&read_shared(call, item), version))
                .collect();
            // An empty list of metadata was never made.
            let items = if items.is_empty() {
                Value::Null
            } else {
                Value::Array(items)
            };
            let api_version = format!("meta.k8s.io/{version}");
            let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": api_version, "metadata": metadata, "items": items});
            respond(form, 200, &list)
        }
        Shape::Whole if form.media == Media::Json => {
            Answer::new(200, "application/json", list_text(call, &metadata, items))
        }
        Shape::Whole => {
            let text = list_text(call, &metadata, items);
            respond(
                form,
                200,
                &everflow_json::from_slice(&text).unwrap_or_default(),
            )
        }
    })
}

/// An object with nothing but its metadata.
pub fn partial(object: &Value, version: &str) -> Value {
    let mut metadata = meta::metadata(object).cloned().unwrap_or_else(Map::new);
    // The annotation is part of the versioned DaemonSet only.
    if object.get("kind").and_then(Value::as_str) == Some("DaemonSet")
        && let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
    {
        annotations.remove("deprecated.daemonset.template.generation");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    json!({"kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata})
}

/// The JSON text of [`partial`].
pub fn partial_text(object: &Value, version: &str) -> Bytes {
    let is_special = object.get("kind").and_then(Value::as_str) == Some("DaemonSet");
    let metadata = match object.get("metadata") {
        Some(metadata @ Value::Object(_)) if !is_special => metadata,
        _ => {
            return everflow_json::to_vec(&partial(object, version))
                .unwrap_or_default()
                .into();
        }
    };
    // Without a copy of the metadata.
    let mut text = Vec::with_capacity(1024);
    text.extend_from_slice(b"{\"apiVersion\":\"meta.k8s.io/");
    text.extend_from_slice(version.as_bytes());
    text.extend_from_slice(b"\",\"kind\":\"PartialObjectMetadata\",\"metadata\":");
    // Writing to memory does not fail.
    let _ = everflow_json::to_writer(&mut text, metadata);
    text.push(b'}');
    text.into_boxed_slice().into()
}

/// The object of a watch event in the form asked for.
pub fn shape_event<'o>(
    call: &Call<'_>,
    form: &Form,
    object: Cow<'o, Value>,
    first: bool,
) -> Cow<'o, Value> {
    match form.shape {
        Shape::Table(version) => match table::of_event(call, &object, version, first) {
            Ok(table) => Cow::Owned(table),
            Err(_) => object,
        },
        Shape::Partial(version) | Shape::PartialList(version) => {
            Cow::Owned(partial(&object, version))
        }
        Shape::Whole => object,
    }
}
