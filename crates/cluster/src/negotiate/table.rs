//! Tables: columns and cells for `kubectl get`.

use std::sync::Arc;

use everflow_json::{Map, Value, json};

use super::partial;
use crate::field::{FieldError, Path};
use crate::kinds::meta;
use crate::rest::Call;
use crate::rest::read::read_shared;
use crate::status::{ApiError, ApiResult};
use crate::store::Stored;
use crate::time::Timestamp;

enum Include {
    Metadata,
    Nothing,
    Object,
}

fn include(call: &Call<'_>) -> ApiResult<Include> {
    match call.request.param("includeObject").unwrap_or_default() {
        "" | "Metadata" => Ok(Include::Metadata),
        "None" => Ok(Include::Nothing),
        "Object" => Ok(Include::Object),
        other => {
            let errors = vec![FieldError::invalid(
                &Path::new("includeObject"),
                other,
                "must be 'Metadata', 'Object', 'None', or empty",
            )];
            if call.resource.is_custom() {
                return Err(ApiError::bad_request(format!(
                    "Unable to convert to Table as requested: {}",
                    errors[0]
                )));
            }
            Err(ApiError::invalid(
                "meta.k8s.io",
                "TableOptions",
                "",
                &errors,
            ))
        }
    }
}

/// The columns of a resource and whether they are the ones of kinds nobody prints specially.
fn columns(call: &Call<'_>) -> (Value, bool) {
    if let Some(columns) = crate::crd::table_columns(&call.resource) {
        return (columns, false);
    }
    let resource = &call.resource;
    let known =
        everflow_schema::builtin().resource(&resource.group, &resource.version, &resource.plural);
    let columns = known.map_or(&[] as &[everflow_schema::Column], |known| {
        known.columns.as_slice()
    });
    let plain = columns.iter().any(|column| column.name == "Created At");
    let list = columns.iter().map(|column| json!({"name": column.name, "type": column.cell_type, "format": column.format, "description": column.description, "priority": column.priority}));
    (Value::Array(list.collect()), plain)
}

fn row(call: &Call<'_>, object: &Value, version: &str, include: &Include) -> Value {
    let now = call.server.env().now();
    let resource = &call.resource;
    let stored = crate::kinds::convert::to_storage(resource, object.clone());
    let plain = || {
        vec![
            meta::text(object, "name").into(),
            meta::text(object, "creationTimestamp").into(),
        ]
    };
    let cells = crate::crd::table_cells(resource, object, now)
        .or_else(|| super::cells::of(&resource.group, &resource.plural, &stored, now))
        .unwrap_or_else(plain);
    let shown = match include {
        Include::Nothing => None,
        Include::Metadata => Some(partial(object, version)),
        Include::Object => Some(object.clone()),
    };
    let mut row = json!({"cells": cells, "object": shown});
    if resource.group.is_empty()
        && resource.plural == "pods"
        && let Some(conditions) = pod_conditions(object)
    {
        row["conditions"] = conditions;
    }
    row
}

/// Pods that have ended are marked.
fn pod_conditions(pod: &Value) -> Option<Value> {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str)?;
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": phase, "message": message}]))
}

fn table(metadata: Value, columns: Value, rows: impl Into<Value>, version: &str) -> Value {
    let rows: Value = rows.into();
    json!({"kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata, "columnDefinitions": columns, "rows": rows})
}

/// The table of one object.
pub fn of_object(call: &Call<'_>, object: &Value, version: &str) -> ApiResult<Value> {
    let include = include(call)?;
    let mut metadata = Map::new();
    if let Some(revision) = meta::metadata(object).and_then(|map| map.get("resourceVersion")) {
        metadata.insert("resourceVersion".into(), revision.clone());
    }
    Ok(table(
        Value::Object(metadata),
        columns(call).0,
        Value::Array(vec![row(call, object, version, &include)]),
        version,
    ))
}

/// The table of a list.
pub fn of_list(
    call: &Call<'_>,
    metadata: Value,
    items: &[Arc<Stored>],
    version: &str,
) -> ApiResult<Value> {
    let include = include(call)?;
    let rows: Vec<Value> = items
        .iter()
        .map(|item| row(call, &read_shared(call, item), version, &include))
        .collect();
    let (columns, plain) = columns(call);
    // The plain printer makes no list of rows before it has one.
    let rows = if plain && rows.is_empty() {
        Value::Null
    } else {
        Value::Array(rows)
    };
    Ok(table(metadata, columns, rows, version))
}

/// The table of a watch event; only the first one has columns.
pub fn of_event(call: &Call<'_>, object: &Value, version: &str, first: bool) -> ApiResult<Value> {
    let mut whole = of_object(call, object, version)?;
    if !first {
        whole["columnDefinitions"] = Value::Null;
    }
    Ok(whole)
}

/// How long ago something happened, as kubectl prints it.
pub fn age(since: &str, now: Timestamp) -> String {
    let Some(then) = Timestamp::parse(since) else {
        return "<unknown>".to_owned();
    };
    human_duration(now.seconds() - then.seconds())
}

/// A duration in the two largest units.
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        s if s < -1 => "<invalid>".to_owned(),
        s if s < 0 => "0s".to_owned(),
        s if s < 120 => format!("{s}s"),
        s if minutes < 10 => match s % 60 {
            0 => format!("{minutes}m"),
            rest => format!("{minutes}m{rest}s"),
        },
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => match minutes % 60 {
            0 => format!("{hours}h"),
            rest => format!("{hours}h{rest}m"),
        },
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => match hours % 24 {
            0 => format!("{days}d"),
            rest => format!("{days}d{rest}h"),
        },
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => match days % 365 {
            0 => format!("{}y", days / 365),
            rest => format!("{}y{rest}d", days / 365),
        },
        _ => format!("{}y", days / 365),
    }
}
