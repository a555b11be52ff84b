//! Conversion between the served versions of kinds that have more than one.

use everflow_json::{Map, Value, json};

use super::sent_data;
use crate::Collection;

/// Names of an event's parts: in `events.k8s.io/v1`, and in the core group's `v1`.
const EVENT_NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

fn is_event(collection: Collection<'_>) -> bool {
    collection.group == "events.k8s.io" && collection.plural == "events"
}

fn is_old_autoscaler(collection: Collection<'_>) -> bool {
    collection.group == "autoscaling"
        && collection.version == "v1"
        && collection.plural == "horizontalpodautoscalers"
}

/// Turns an object of the request's version into the storage version.
pub fn to_storage(collection: Collection<'_>, value: Value) -> Value {
    if is_event(collection) {
        return rename_event(value, "v1", |(new, old)| (*new, *old));
    }
    if is_old_autoscaler(collection) {
        return autoscaler_to_v2(value);
    }
    value
}

/// Turns a stored object into the request's version.
pub fn from_storage(collection: Collection<'_>, value: Value) -> Value {
    if is_event(collection) {
        return rename_event(value, "events.k8s.io/v1", |(new, old)| (*old, *new));
    }
    if is_old_autoscaler(collection) {
        return autoscaler_to_v1(value);
    }
    let mut value = value;
    if sent_data::applies(collection) {
        sent_data::hide(&mut value);
    }
    value
}

fn rename_event(
    value: Value,
    api_version: &str,
    names: impl Fn(&(&'static str, &'static str)) -> (&'static str, &'static str),
) -> Value {
    let Value::Object(mut map) = value else {
        return value;
    };
    if map.get("apiVersion").and_then(Value::as_str) == Some(api_version) {
        return Value::Object(map);
    }
    map.insert("apiVersion".into(), api_version.into());
    for pair in &EVENT_NAMES {
        let (from, to) = names(pair);
        if let Some(part) = map.remove(from) {
            map.insert(to.into(), part);
        }
    }
    // What each version always or never writes when it is empty.
    let old = api_version == "v1";
    if old {
        map.entry("involvedObject").or_insert_with(|| json!({}));
        map.entry("source").or_insert_with(|| json!({}));
        for key in ["firstTimestamp", "lastTimestamp", "eventTime"] {
            map.entry(key).or_insert(Value::Null);
        }
        map.entry("reportingComponent").or_insert_with(|| "".into());
        map.entry("reportingInstance").or_insert_with(|| "".into());
    } else {
        map.entry("regarding").or_insert_with(|| json!({}));
        map.entry("deprecatedSource").or_insert_with(|| json!({}));
        for key in ["reportingController", "reportingInstance"] {
            if map.get(key).and_then(Value::as_str) == Some("") {
                map.remove(key);
            }
        }
        for key in [
            "deprecatedFirstTimestamp",
            "deprecatedLastTimestamp",
            "eventTime",
        ] {
            map.entry(key).or_insert(Value::Null);
        }
    }
    Value::Object(map)
}

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";

fn autoscaler_to_v2(value: Value) -> Value {
    let Value::Object(mut map) = value else {
        return value;
    };
    if map.get("apiVersion").and_then(Value::as_str) == Some("autoscaling/v2") {
        return Value::Object(map);
    }
    map.insert("apiVersion".into(), "autoscaling/v2".into());
    if let Some(spec) = map.get_mut("spec").and_then(Value::as_object_mut) {
        let mut metrics: Vec<Value> = Vec::new();
        if let Some(percent) = spec.remove("targetCPUUtilizationPercentage") {
            metrics.push(cpu_metric(percent));
        }
        if !metrics.is_empty() {
            spec.insert("metrics".into(), Value::Array(metrics));
        }
    }
    if let Some(status) = map.get_mut("status").and_then(Value::as_object_mut) {
        let current = status.remove("currentCPUUtilizationPercentage");
        if let Some(percent) = current {
            status.insert("currentMetrics".into(), json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}}]));
        }
        if status.get("currentReplicas").and_then(Value::as_i64) == Some(0) {
            status.remove("currentReplicas");
        }
        status.entry("desiredReplicas").or_insert(Value::from(0));
        status.entry("currentMetrics").or_insert(Value::Null);
    }
    Value::Object(map)
}

fn cpu_metric(percent: Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

fn autoscaler_to_v1(value: Value) -> Value {
    let Value::Object(mut map) = value else {
        return value;
    };
    if map.get("apiVersion").and_then(Value::as_str) == Some("autoscaling/v1") {
        return Value::Object(map);
    }
    map.insert("apiVersion".into(), "autoscaling/v1".into());
    let mut others: Vec<Value> = Vec::new();
    if let Some(spec) = map.get_mut("spec").and_then(Value::as_object_mut) {
        for metric in spec
            .remove("metrics")
            .and_then(|list| list.as_array().cloned())
            .unwrap_or_default()
        {
            let percent = metric
                .pointer("/resource/target/averageUtilization")
                .cloned();
            match (
                metric.pointer("/resource/name").and_then(Value::as_str),
                percent,
            ) {
                (Some("cpu"), Some(percent)) => {
                    drop(spec.insert("targetCPUUtilizationPercentage".into(), percent))
                }
                _ => others.push(metric),
            }
        }
        spec.remove("behavior");
    }
    if !others.is_empty()
        && let Some(metadata) = metadata_of(&mut map)
        && let Some(annotations) = metadata
            .entry("annotations")
            .or_insert_with(|| json!({}))
            .as_object_mut()
    {
        annotations.insert(METRICS.into(), Value::Array(others).to_string().into());
    }
    if let Some(status) = map.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("currentMetrics");
        status.remove("conditions");
        status.entry("currentReplicas").or_insert(Value::from(0));
        status.entry("desiredReplicas").or_insert(Value::from(0));
    }
    Value::Object(map)
}

/// The metadata of a map that is an object.
pub fn metadata_of(map: &mut Map) -> Option<&mut Map> {
    map.entry("metadata")
        .or_insert_with(|| json!({}))
        .as_object_mut()
}
