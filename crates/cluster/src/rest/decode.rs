//! From bodies to objects: media types, kinds, unknown fields.

use everflow_json::Value;

use super::options::FieldValidation;
use super::request::Request;
use crate::codec::gotypes::{GoType, types};
use crate::codec::json::{self, Json};
use crate::codec::yaml;
use crate::resource::{Resource, join_version, split_version};
use crate::status::{ApiError, ApiResult};

/// A decoded body.
#[derive(Debug)]
pub struct Decoded {
    /// The object as its kind encodes it.
    pub value: Value,
    /// Warnings about fields.
    pub warnings: Vec<String>,
}

const UNKNOWN_FORMAT: &str =
    "the body of the request was in an unknown format - accepted media types include: ";

/// Reads a body into an ordered tree, whatever its media type. The second part lists duplicate keys of YAML.
pub fn parse_body(
    request: &Request,
    expected: &str,
    custom: bool,
) -> ApiResult<(Json, Vec<String>)> {
    // Where the kind says which fields there are, what stands in others does not matter.
    let read_json = match custom {
        true => json::parse,
        false => json::parse_open,
    };
    let read_yaml = match custom {
        true => yaml::parse,
        false => yaml::parse_open,
    };
    match request.content_type().as_str() {
        "application/json" | "" => match request.body.read(read_json) {
            Ok(Json::Null) => Ok((Json::Object(Vec::new()), Vec::new())),
            Ok(tree @ Json::Object(_)) => Ok((tree, Vec::new())),
            Ok(other) => Err(unrecognized(expected, &request.body, &wrong_top(&other))),
            Err(message) => Err(unrecognized(expected, &request.body, &message)),
        },
        "application/yaml" => read_yaml(&request.body)
            .map_err(|message| unrecognized_yaml(expected, &request.body, &message)),
        "application/vnd.kubernetes.protobuf" if !custom => crate::codec::protobuf::parse(
            &request.body,
        )
        .map(|tree| (tree, Vec::new()))
        .map_err(|problem| {
            ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {expected}): {problem} ({})",
                summarize(&request.body)
            ))
        }),
        _ => {
            let accepted = if custom {
                "application/json, application/yaml"
            } else {
                "application/json, application/yaml, application/vnd.kubernetes.protobuf"
            };
            Err(ApiError::new(
                415,
                "UnsupportedMediaType",
                format!("{UNKNOWN_FORMAT}{accepted}"),
            ))
        }
    }
}

fn wrong_top(found: &Json) -> String {
    let name = match found {
        Json::Array(_) => "array",
        Json::String(_) => "string",
        Json::Number(_) => "number",
        _ => "bool",
    };
    format!(
        "json: cannot unmarshal {name} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )
}

fn unrecognized(expected: &str, body: &[u8], problem: &str) -> Box<ApiError> {
    let kind = if expected.is_empty() {
        String::new()
    } else {
        format!(" (must be of type {expected})")
    };
    ApiError::bad_request(format!(
        "the object provided is unrecognized{kind}: couldn't get version/kind; json parse error: {problem} ({})",
        summarize(body)
    ))
}

fn unrecognized_yaml(expected: &str, body: &[u8], problem: &str) -> Box<ApiError> {
    let kind = if expected.is_empty() {
        String::new()
    } else {
        format!(" (must be of type {expected})")
    };
    ApiError::bad_request(format!(
        "the object provided is unrecognized{kind}: yaml: {} ({})",
        problem.strip_prefix("yaml: ").unwrap_or(problem),
        summarize(body)
    ))
}

/// The start of a body as error messages show it: text when it looks like JSON, else hex.
fn summarize(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let start = &body[..body.len().min(SHOWN)];
    let tail = if body.len() > SHOWN { " ..." } else { "" };
    if body[0] == b'{' {
        return format!("{}{tail}", String::from_utf8_lossy(start));
    }
    let hex: String = start.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}{tail}")
}

/// Decodes a body into an object of the resource.
pub fn decode(resource: &Resource, request: &Request, mode: FieldValidation) -> ApiResult<Decoded> {
    if let Some(value) = decode_fast_path(resource, request) {
        return Ok(Decoded {
            value,
            warnings: Vec::new(),
        });
    }
    let (tree, yaml_duplicates) = parse_body(request, &resource.kind, resource.is_custom())?;
    decode_tree(resource, tree, yaml_duplicates, mode)
}

/// What a tree from the same process is decoded to, where one look at it tells.
fn decode_fast_path(resource: &Resource, request: &Request) -> Option<Value> {
    let (tree, ty) = (request.body.tree()?, resource.go_type.as_ref()?);
    let says = |field: &str, text: &str| tree.get(field).and_then(Value::as_str) == Some(text);
    let is_usual = says("kind", &resource.kind)
        && says("apiVersion", resource.api_version())
        && matches!(request.content_type().as_str(), "application/json" | "");
    is_usual.then(|| types().decode_fast_path(ty, tree))?
}

/// Decodes a tree into an object of the resource.
pub fn decode_tree(
    resource: &Resource,
    mut tree: Json,
    yaml_duplicates: Vec<String>,
    mode: FieldValidation,
) -> ApiResult<Decoded> {
    let api_version = resource.api_version();
    let given_version = tree
        .get("apiVersion")
        .and_then(Json::as_str)
        .unwrap_or_default()
        .to_owned();
    let given_kind = tree
        .get("kind")
        .and_then(Json::as_str)
        .unwrap_or_default()
        .to_owned();
    let (group, version) = split_version(&given_version);
    let kind = if given_kind.is_empty() {
        resource.kind.clone()
    } else {
        given_kind
    };
    let effective = if given_version.is_empty() {
        api_version.to_owned()
    } else {
        given_version.clone()
    };
    let handled = |problem: &str| {
        let shown = if given_version.is_empty() {
            resource.version.as_str()
        } else {
            version
        };
        ApiError::bad_request(format!(
            "{kind} in version \"{shown}\" cannot be handled as a {}: {problem}",
            resource.kind
        ))
    };
    if !resource.is_custom() && (kind != resource.kind || effective != api_version) {
        return Err(if let Some(other) = types().kind(&effective, &kind) {
            // It is read as what it says it is before anything else is tried.
            if let Some(problem) = types().decode(&other, &tree).1.error {
                return Err(handled(&problem));
            }
            let go_group = crate::kinds::go_group(&resource.group);
            handled(&format!(
                "converting ({}.{kind}) to ({go_group}.{}): unknown conversion",
                split_version(&effective).1,
                resource.kind
            ))
        } else {
            let _ = group;
            handled(&format!(
                "no kind \"{kind}\" is registered for version \"{effective}\" in scheme \"pkg/runtime/scheme.go:111\""
            ))
        });
    }
    if effective != api_version && crate::crd::is_version(resource, &effective) {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({effective}) does not match the expected API version ({api_version})"
        )));
    }
    if resource.is_custom() && (kind != resource.kind || effective != api_version) {
        let mut errors = crate::field::Errors::new();
        if kind != resource.kind {
            errors.push(crate::field::FieldError::invalid(
                &crate::field::Path::new("kind"),
                kind.as_str(),
                format!("must be {}", resource.kind),
            ));
        }
        if effective != api_version {
            errors.push(crate::field::FieldError::invalid(
                &crate::field::Path::new("apiVersion"),
                effective.as_str(),
                format!("must be {api_version}"),
            ));
        }
        let name = tree
            .get("metadata")
            .and_then(|metadata| metadata.get("name"))
            .and_then(Json::as_str)
            .unwrap_or_default();
        return Err(ApiError::invalid(
            group_of(&effective, resource),
            &kind,
            name,
            &errors,
        ));
    }
    set_type(&mut tree, &effective, &kind);
    let mut warnings: Vec<String> = yaml_duplicates;
    let value = match &resource.go_type {
        Some(ty) => {
            let (value, findings) = types().decode(ty, &tree);
            if let Some(problem) = findings.error {
                return Err(handled(&problem));
            }
            warnings.extend(findings.strict);
            value
        }
        None => {
            warnings.extend(
                tree.duplicates()
                    .into_iter()
                    .map(|path| format!("duplicate field \"{path}\"")),
            );
            crate::crd::decode(resource, &tree, &mut warnings, &handled)?
        }
    };
    let mut value = value;
    // An empty list asks for a reset; it must not be lost.
    if matches!(tree.get("metadata").and_then(|metadata| metadata.get("managedFields")), Some(Json::Array(list)) if list.is_empty())
    {
        crate::kinds::meta::set(&mut value, "managedFields", Some(Value::Array(Vec::new())));
    }
    match mode {
        FieldValidation::Strict if !warnings.is_empty() => Err(handled(&format!(
            "strict decoding error: {}",
            warnings.join(", ")
        ))),
        FieldValidation::Ignore => Ok(Decoded {
            value,
            warnings: Vec::new(),
        }),
        _ => Ok(Decoded { value, warnings }),
    }
}

/// The group a wrong object names itself with.
fn group_of<'r>(api_version: &'r str, resource: &'r Resource) -> &'r str {
    let (group, _) = split_version(api_version);
    if group.is_empty() {
        &resource.group
    } else {
        group
    }
}

/// Puts the type of an object in front of it.
fn set_type(tree: &mut Json, api_version: &str, kind: &str) {
    if let Json::Object(entries) = tree {
        if !entries.iter().any(|(key, _)| key == "apiVersion") {
            entries.push(("apiVersion".into(), Json::String(api_version.into())));
        }
        if !entries.iter().any(|(key, _)| key == "kind") {
            entries.push(("kind".into(), Json::String(kind.into())));
        }
        for (key, value) in entries.iter_mut() {
            match (key.as_str(), value.as_str()) {
                ("apiVersion", Some("") | None) => *value = Json::String(api_version.into()),
                ("kind", Some("") | None) => *value = Json::String(kind.into()),
                _ => {}
            }
        }
    }
}

/// Runs a plain tree through its kind again, so that it reads as the kind encodes it.
pub fn normalize(resource: &Resource, value: &Value) -> Value {
    match &resource.go_type {
        Some(ty) => types().decode(ty, &Json::from_value(value)).0,
        None => value.clone(),
    }
}

/// Turns a merged tree into an object of its kind; unknown fields are listed, a wrong type is an error.
pub fn convert_tree(resource: &Resource, value: &Value) -> Result<(Value, Vec<String>), String> {
    let Some(ty) = &resource.go_type else {
        return Ok((value.clone(), Vec::new()));
    };
    let mut tree = Json::from_value(value);
    set_type(&mut tree, resource.api_version(), &resource.kind);
    if let Some(problem) = crate::codec::restore::problem(ty, value) {
        return Err(problem);
    }
    let (value, findings) = types().decode(ty, &tree);
    match findings.error {
        Some(problem) => Err(problem),
        None => Ok((value, findings.strict)),
    }
}

/// As [`normalize`]; whole numbers too large for their field lose their upper bits, as in Go's conversion from a tree.
pub fn normalize_wrapping(resource: &Resource, mut value: Value) -> Value {
    match &resource.go_type {
        Some(ty) => {
            crate::codec::convert::convert(ty, &mut value);
            value
        }
        None => {
            everflow_yaml::sigs::normalize_numbers(&mut value);
            // Metadata has a type even where the rest has none: empty maps and lists in it are as good as missing.
            if let (Some(ty), Some(metadata)) = (object_meta_type(), value.get_mut("metadata")) {
                *metadata = types().convert(&ty, &Json::from_value(metadata));
            }
            value
        }
    }
}

/// Decodes only metadata, as for kinds without a Go type.
pub fn object_meta_type() -> Option<GoType> {
    types().struct_named("v1.ObjectMeta")
}

/// The API version of a resource's storage form.
pub fn storage_api_version(resource: &Resource) -> String {
    let group = resource
        .table
        .split_once('/')
        .map_or("", |(group, _)| group);
    join_version(group, &resource.storage_version)
}
