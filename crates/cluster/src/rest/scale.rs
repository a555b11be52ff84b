//! The scale subresource: replicas of any kind that has them, seen as one small object.

use everflow_json::{Value, json};
use everflow_merge::apply::{
    FieldManager, ReplicasPaths, ResetFields, SingleVersion, Writer, entries_for_scale,
    entries_from_scale,
};
use everflow_merge::fieldpath::FieldPath;

use super::Call;
use super::options::{WriteOptions, manager_name, write_options};
use super::request::Answer;
use crate::crd::ScalePaths;
use crate::field::{FieldError, Path};
use crate::kinds::meta;
use crate::resource::Resource;
use crate::status::{ApiError, ApiResult};

const API_VERSION: &str = "autoscaling/v1";

/// Where the resource keeps its replicas.
fn paths(resource: &Resource) -> ScalePaths {
    match resource
        .custom
        .as_ref()
        .and_then(|custom| custom.scale.clone())
    {
        Some(paths) => paths,
        None => ScalePaths {
            spec: "/spec/replicas".into(),
            status: "/status/replicas".into(),
            selector: None,
        },
    }
}

fn selector(resource: &Resource, parent: &Value, paths: &ScalePaths) -> String {
    if let Some(pointer) = &paths.selector {
        return parent
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
    }
    if resource.is_custom() {
        return String::new();
    }
    let chosen = parent.pointer("/spec/selector");
    let labels = if resource.plural == "replicationcontrollers" {
        chosen
    } else {
        chosen.and_then(|selector| selector.get("matchLabels"))
    };
    let mut parts: Vec<String> = labels
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for expression in chosen
        .and_then(|selector| selector.get("matchExpressions"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        parts.push(crate::tree::requirement(expression));
    }
    parts.sort();
    parts.join(",")
}

/// The scale of an object, without who manages it.
fn scale_of(resource: &Resource, parent: &Value) -> Value {
    let paths = paths(resource);
    let mut metadata = everflow_json::Map::new();
    for key in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = meta::metadata(parent).and_then(|map| map.get(key)) {
            metadata.insert(key.into(), value.clone());
        }
    }
    let mut spec = everflow_json::Map::new();
    if let Some(replicas) = parent
        .pointer(&paths.spec)
        .filter(|replicas| replicas.as_i64() != Some(0))
    {
        spec.insert("replicas".into(), replicas.clone());
    }
    let mut status = everflow_json::Map::new();
    status.insert(
        "replicas".into(),
        parent
            .pointer(&paths.status)
            .cloned()
            .unwrap_or(Value::from(0)),
    );
    let selector = selector(resource, parent, &paths);
    if !selector.is_empty() {
        status.insert("selector".into(), selector.into());
    }
    json!({"kind": "Scale", "apiVersion": API_VERSION, "metadata": metadata, "spec": spec, "status": status})
}

/// Answers a request for a scale subresource.
pub fn run(call: &Call<'_>) -> ApiResult<Answer> {
    match call.target.verb {
        "get" => {
            let current = call.current().ok_or_else(|| call.missing())?;
            let parent = super::read::read_value(call, &current);
            check_replicas(call, &parent)?;
            call.answer(200, &scale_of(&call.resource, &parent))
        }
        "update" | "patch" => write(call),
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// The scale of a custom resource cannot be applied: its kind is not of the resource's group.
fn no_apply(call: &Call<'_>) -> Box<ApiError> {
    let body = crate::codec::yaml::parse(&call.request.body)
        .map(|(tree, _)| tree.to_value())
        .unwrap_or_default();
    ApiError::internal_plain(format!(
        "failed to convert new object ({}/{}; {API_VERSION}, Kind=Scale) to proper version: request to convert CR to an invalid group/version: {API_VERSION}",
        meta::text(&body, "namespace"),
        meta::text(&body, "name"),
    ))
}

/// A custom resource without replicas has no scale to show.
fn check_replicas(call: &Call<'_>, parent: &Value) -> ApiResult<()> {
    let pointer = paths(&call.resource).spec;
    if !call.resource.is_custom() || parent.pointer(&pointer).is_some() {
        return Ok(());
    }
    let why = format!(
        "the spec replicas field \"{}\" does not exist",
        pointer.replace('/', ".")
    );
    let message = format!("Internal error occurred: {why}");
    Err(ApiError::new(500, "InternalError", message)
        .with_details(json!({"causes": [{"message": why}]})))
}

fn write(call: &Call<'_>) -> ApiResult<Answer> {
    let media = call.request.content_type();
    let apply = call.target.verb == "patch" && media == "application/apply-patch+yaml";
    let kind = if call.target.verb == "patch" {
        "PatchOptions"
    } else {
        "UpdateOptions"
    };
    let options = write_options(call.request, kind, apply)?;
    let manager = manager_name(call.request, &options);
    let _guard = call.server.write_lock();
    let current = call.current().ok_or_else(|| call.missing())?;
    if apply && call.resource.is_custom() {
        return Err(no_apply(call));
    }
    let mut parent = super::read::read_value(call, &current);
    let entries = parent
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let replicas_paths = replicas_paths(call);
    let mut live = scale_of(&call.resource, &parent);
    let shown = entries_for_scale(&entries, &replicas_paths).unwrap_or_default();
    if !shown.is_empty() {
        meta::set(&mut live, "managedFields", Some(Value::Array(shown)));
    }
    let scale = changed(call, &live, &options, &manager, apply)?;
    check(call, &scale)?;
    let given = meta::text(&scale, "resourceVersion").to_owned();
    let after = scale
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let owned = entries_from_scale(
        &entries,
        &after,
        call.resource.api_version(),
        &replicas_paths,
    )
    .unwrap_or(entries);
    set_pointer(
        &mut parent,
        &paths(&call.resource).spec,
        scale
            .pointer("/spec/replicas")
            .cloned()
            .unwrap_or(Value::from(0)),
    );
    meta::set(
        &mut parent,
        "managedFields",
        (!owned.is_empty()).then_some(Value::Array(owned)),
    );
    if !given.is_empty() {
        meta::set(&mut parent, "resourceVersion", Some(given.into()));
    }
    let updated = super::write::replace(call, &current, parent, &options, |_, _, _| Ok(()))?;
    call.answer(200, &scale_of(&call.resource, updated.value()))
}

fn replicas_paths(call: &Call<'_>) -> ReplicasPaths {
    let own = paths(&call.resource).spec;
    let parts: Vec<&str> = own.trim_start_matches('/').split('/').collect();
    let mut all = ReplicasPaths::new();
    let versions: Vec<String> = call
        .registry
        .all()
        .filter(|other| other.table == call.resource.table)
        .map(|other| other.api_version().to_owned())
        .collect();
    for version in versions {
        all.insert(version, Some(FieldPath::of_fields(&parts)));
    }
    all
}

/// The scale after the request, with who manages it.
fn changed(
    call: &Call<'_>,
    live: &Value,
    options: &WriteOptions,
    manager: &str,
    apply: bool,
) -> ApiResult<Value> {
    let Some(schema) = everflow_schema::builtin().schema("autoscaling", "v1", "Scale") else {
        return Err(ApiError::internal_plain("no schema for Scale"));
    };
    let versions = SingleVersion::new(API_VERSION, schema);
    let reset = ResetFields::Nothing;
    let zero = json!({"apiVersion": API_VERSION, "kind": "Scale", "metadata": {}, "spec": {}, "status": {"replicas": 0}});
    let fields = FieldManager {
        versions: &versions,
        api_version: API_VERSION,
        kind: "Scale",
        subresource: "scale",
        reset: &reset,
        zero: &zero,
    };
    let now = call.server.env().now().rfc3339();
    let writer = Writer { manager, now: &now };
    let resource = scale_resource(call)?;
    if apply {
        let (tree, _) = crate::codec::yaml::parse(&call.request.body)
            .map_err(|why| ApiError::bad_request(format!("error decoding YAML: {why}")))?;
        let merged = fields
            .apply(live, &tree.to_value(), writer, options.force)
            .map_err(super::managed::merge_error)?;
        return Ok(super::decode::normalize_wrapping(&resource, merged));
    }
    let new = if call.target.verb == "update" {
        super::decode::decode(&resource, call.request, options.field_validation)?.value
    } else {
        let scoped = Call {
            server: call.server,
            request: call.request,
            target: call.target,
            user: call.user,
            resource: resource.clone(),
            registry: call.registry.clone(),
            warnings: Default::default(),
            sent_data: Default::default(),
        };
        super::patch::patched_by_media(&scoped, live, options)?
    };
    super::write::check_name(call, &new)?;
    Ok(fields.update_or_forget(live, new, writer))
}

/// Scale as a resource, for decoding.
fn scale_resource(call: &Call<'_>) -> ApiResult<std::sync::Arc<Resource>> {
    let mut resource = (*call.resource).clone();
    resource.move_to("autoscaling", "v1");
    resource.kind = "Scale".into();
    resource.custom = None;
    resource.go_type = crate::codec::gotypes::types().kind(API_VERSION, "Scale");
    Ok(std::sync::Arc::new(resource))
}

fn check(call: &Call<'_>, scale: &Value) -> ApiResult<()> {
    let replicas = scale
        .pointer("/spec/replicas")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    if replicas < 0 {
        let errors = vec![FieldError::invalid(
            &Path::new("spec").child("replicas"),
            replicas,
            "must be greater than or equal to 0",
        )];
        return Err(ApiError::invalid(
            "autoscaling",
            "Scale",
            &call.target.name,
            &errors,
        ));
    }
    Ok(())
}

fn set_pointer(object: &mut Value, pointer: &str, value: Value) {
    let mut current = object;
    for part in pointer.trim_start_matches('/').split('/') {
        if !current.is_object() {
            *current = json!({});
        }
        current = &mut current[part];
    }
    *current = value;
}
