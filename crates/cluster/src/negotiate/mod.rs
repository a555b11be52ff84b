//! The form of an answer: JSON, YAML, tables, metadata only.

mod cells;
pub mod table;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::kinds::meta;
use crate::rest::Call;
use crate::rest::read::{list_text, read_value};
use crate::rest::request::{Answer, Request};
use crate::status::{ApiError, ApiResult};
use crate::store::Stored;

/// A form of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// The object itself.
    Json,
    /// The object itself as YAML.
    Yaml,
    /// A table, with the version of `meta.k8s.io` asked for.
    Table(&'static str),
    /// The metadata of one object.
    Partial(&'static str),
    /// The metadata of a list of objects.
    PartialList(&'static str),
}

impl Form {
    /// The media type of a stream of this form.
    pub fn stream_media_type(&self) -> &'static str {
        "application/json"
    }
}

/// One entry of an Accept header.
#[derive(Debug)]
struct Accepted {
    media: String,
    params: Vec<(String, String)>,
}

fn parse_accept(request: &Request) -> Vec<Accepted> {
    let header = request.all_headers("accept").join(",");
    let mut entries: Vec<(f64, Accepted)> = header
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| {
            let mut pieces = part.split(';').map(str::trim);
            let media = pieces.next().unwrap_or_default().to_ascii_lowercase();
            let params: Vec<(String, String)> = pieces
                .filter_map(|piece| piece.split_once('='))
                .map(|(key, value)| (key.to_ascii_lowercase(), value.trim_matches('"').to_owned()))
                .collect();
            let weight = params
                .iter()
                .find(|(key, _)| key == "q")
                .and_then(|(_, value)| value.parse().ok())
                .unwrap_or(1.0);
            (weight, Accepted { media, params })
        })
        .collect();
    entries.sort_by(|left, right| right.0.total_cmp(&left.0));
    entries.into_iter().map(|(_, entry)| entry).collect()
}

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const ACCEPTED_STREAM: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// No media type of the client is served at all.
fn no_representation(accepted: &str) -> Box<ApiError> {
    ApiError::new(
        406,
        "NotAcceptable",
        format!("406: Not Acceptable\n\nAvailable representations: {accepted}"),
    )
    .with_details(json!({}))
}

fn not_acceptable(accepted: &str) -> Box<ApiError> {
    ApiError::new(
        406,
        "NotAcceptable",
        format!("only the following media types are accepted: {accepted}"),
    )
}

/// Chooses the form of an answer. `is_list` decides which metadata-only form fits; `transforms` whether any may be chosen.
fn choose(call: &Call<'_>, is_list: bool, transforms: bool, accepted: &str) -> ApiResult<Form> {
    let entries = parse_accept(call.request);
    if entries.is_empty() {
        return Ok(Form::Json);
    }
    let served = |media: &str| {
        matches!(
            media,
            "application/json"
                | "*/*"
                | "application/*"
                | "application/yaml"
                | "application/vnd.kubernetes.protobuf"
        )
    };
    if !entries.iter().any(|entry| served(&entry.media)) {
        return Err(no_representation(accepted));
    }
    for entry in &entries {
        let param = |name: &str| {
            entry
                .params
                .iter()
                .find(|(key, _)| key == name)
                .map_or("", |(_, value)| value.as_str())
        };
        let yaml = match entry.media.as_str() {
            "application/json" | "*/*" | "application/*" => false,
            "application/yaml" => true,
            _ => continue,
        };
        let version = match param("v") {
            "v1" => "v1",
            "v1beta1" => "v1beta1",
            _ => "",
        };
        let shaped = match param("as") {
            "" => Some(if yaml { Form::Yaml } else { Form::Json }),
            _ if !transforms || param("g") != "meta.k8s.io" || version.is_empty() || yaml => None,
            "Table" => Some(Form::Table(version)),
            "PartialObjectMetadata" if !is_list => Some(Form::Partial(version)),
            "PartialObjectMetadataList" if is_list => Some(Form::PartialList(version)),
            _ => None,
        };
        let go_kind = format!(
            "*{}.{}",
            crate::kinds::go_group(&call.resource.group),
            call.resource.kind
        );
        match param("as") {
            "PartialObjectMetadata" if is_list && shaped.is_none() => {
                return Err(ApiError::new(
                    406,
                    "NotAcceptable",
                    format!(
                        "you requested PartialObjectMetadata, but the requested object is a list ({go_kind}List)"
                    ),
                ));
            }
            "PartialObjectMetadataList" if !is_list && shaped.is_none() => {
                return Err(ApiError::new(
                    406,
                    "NotAcceptable",
                    format!(
                        "you requested PartialObjectMetadataList, but the requested object is not a list ({go_kind})"
                    ),
                ));
            }
            _ => {}
        }
        if let Some(form) = shaped {
            return Ok(form);
        }
    }
    Err(not_acceptable(accepted))
}

/// Whether the client takes plain JSON of the object itself.
pub fn wants_plain_json(call: &Call<'_>) -> bool {
    matches!(choose(call, false, true, ACCEPTED), Ok(Form::Json))
}

/// Whether the client takes a list of the objects themselves.
pub fn wants_plain_list(call: &Call<'_>) -> bool {
    matches!(
        choose(call, true, true, ACCEPTED),
        Ok(Form::Json | Form::Yaml)
    )
}

/// The form of a watch's events.
pub fn stream_form(call: &Call<'_>) -> ApiResult<Form> {
    let form = choose(call, false, true, ACCEPTED_STREAM)?;
    Ok(if form == Form::Yaml { Form::Json } else { form })
}

fn respond(form: &Form, status: u16, value: &Value) -> Answer {
    if *form == Form::Yaml {
        return Answer::new(status, "application/yaml", crate::codec::yaml::print(value));
    }
    Answer::json(status, value)
}

/// An answer that is never shaped as a table, such as a Status.
pub fn plain(call: &Call<'_>, status: u16, value: &Value) -> ApiResult<Answer> {
    match choose(call, false, true, ACCEPTED)? {
        Form::Yaml => Ok(respond(&Form::Yaml, status, value)),
        _ => Ok(Answer::json(status, value)),
    }
}

/// An answer with one object.
pub fn object(call: &Call<'_>, status: u16, value: &Value) -> ApiResult<Answer> {
    let form = choose(call, false, true, ACCEPTED)?;
    Ok(match form {
        Form::Table(version) => Answer::json(status, &table::of_object(call, value, version)?),
        Form::Partial(version) => Answer::json(status, &partial(value, version)),
        other => respond(&other, status, value),
    })
}

/// An answer with a list.
pub fn list(call: &Call<'_>, metadata: Value, items: &[Arc<Stored>]) -> ApiResult<Answer> {
    Ok(match choose(call, true, true, ACCEPTED)? {
        Form::Table(version) => Answer::json(200, &table::of_list(call, metadata, items, version)?),
        Form::PartialList(version) => {
            let items: Vec<Value> = items
                .iter()
                .map(|item| partial(&read_value(call, item), version))
                .collect();
            // An empty list of metadata was never made.
            let items = if items.is_empty() {
                Value::Null
            } else {
                Value::Array(items)
            };
            let api_version = format!("meta.k8s.io/{version}");
            Answer::json(
                200,
                &json!({"kind": "PartialObjectMetadataList", "apiVersion": api_version, "metadata": metadata, "items": items}),
            )
        }
        Form::Yaml => {
            let text = list_text(call, &metadata, items);
            let value: Value = serde_json::from_slice(&text).unwrap_or_default();
            respond(&Form::Yaml, 200, &value)
        }
        _ => Answer::new(200, "application/json", list_text(call, &metadata, items)),
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

/// The object of a watch event in the form asked for.
pub fn shape_event(call: &Call<'_>, form: &Form, object: Value, first: bool) -> Value {
    match form {
        Form::Table(version) => table::of_event(call, &object, version, first).unwrap_or(object),
        Form::Partial(version) | Form::PartialList(version) => partial(&object, version),
        _ => object,
    }
}
