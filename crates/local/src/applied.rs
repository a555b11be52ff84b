//! What a manager asked for of an object that the server filled up: the rendered manifest again,
//! without defaults, addresses and states.

use everflow_api::view;
use everflow_json::{Map, Value, json};

/// The part of a live object that a manager applied, with what names the object.
pub fn applied_by(live: &Value, manager: &str) -> Option<Value> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let by = |operation: &str| {
        entries.iter().find(|entry| {
            entry["manager"] == manager
                && entry["operation"] == operation
                && entry["subresource"].is_null()
        })
    };
    // Releases may be applied on the client's side, and definitions of charts are created.
    let entry = by("Apply").or_else(|| by("Update"))?;
    let mut object = kept(live, &entry["fieldsV1"]);
    // The server keeps them with the other data.
    if let Some(written) = entry["fieldsV1"]["f:stringData"].as_object() {
        let names = written
            .keys()
            .filter_map(|member| member.strip_prefix("f:"));
        object["stringData"] = json!({});
        for name in names {
            object["stringData"][name] = live["data"][name].clone();
        }
    }
    object["apiVersion"] = live["apiVersion"].clone();
    object["kind"] = live["kind"].clone();
    object["metadata"]["name"] = json!(view::name(live));
    if !view::namespace(live).is_empty() {
        object["metadata"]["namespace"] = json!(view::namespace(live));
    }
    Some(object)
}

/// The fields of a value that a set names. A set without members stands for the whole value.
fn kept(value: &Value, fields: &Value) -> Value {
    let Some(members) = fields.as_object().filter(|members| has_members(members)) else {
        return value.clone();
    };
    match value {
        Value::Object(map) => {
            let mut out = Map::new();
            for (member, inner) in members {
                if let Some(name) = member.strip_prefix("f:")
                    && let Some(field) = map.get(name)
                {
                    out.insert(name.into(), kept(field, inner));
                }
            }
            Value::Object(out)
        }
        Value::Array(items) => {
            let chosen = items.iter().enumerate().filter_map(|(index, item)| {
                let inner = members
                    .iter()
                    .find(|(member, _)| names(member, index, item))?
                    .1;
                let mut item_kept = kept(item, inner);
                add_keys(&mut item_kept, item, members);
                Some(item_kept)
            });
            Value::Array(chosen.collect())
        }
        other => other.clone(),
    }
}

fn has_members(members: &Map) -> bool {
    members.keys().any(|member| member != ".")
}

/// Whether a member of a set names an item of a list: by keys, by value or by place.
fn names(member: &str, index: usize, item: &Value) -> bool {
    let parsed = |text: &str| everflow_json::from_str::<Value>(text).ok();
    if let Some(keys) = member.strip_prefix("k:").and_then(parsed) {
        let keys = keys.as_object().cloned().unwrap_or_default();
        return keys.iter().all(|(name, value)| {
            // A key that was left out stands for its default, which the item has by now.
            item.get(name).is_none_or(|field| field == value)
        });
    }
    if let Some(value) = member.strip_prefix("v:").and_then(parsed) {
        return *item == value;
    }
    member
        .strip_prefix("i:")
        .is_some_and(|place| place == index.to_string())
}

/// The keys of an item belong to whoever owns anything of it.
fn add_keys(kept: &mut Value, item: &Value, members: &Map) {
    let key = members.keys().find_map(|member| member.strip_prefix("k:"));
    let Some(keys) = key.and_then(|key| everflow_json::from_str::<Map>(key).ok()) else {
        return;
    };
    if let Some(kept) = kept.as_object_mut() {
        // The protocol of a port is a key that hardly anybody writes down.
        for name in keys.keys().filter(|name| *name == "name") {
            if let Some(value) = item.get(name) {
                kept.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_states_go() {
        let live = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "a", "namespace": "n", "uid": "1", "labels": { "x": "1", "y": "2" },
                "managedFields": [{
                    "manager": "kustomize-controller", "operation": "Apply", "apiVersion": "apps/v1",
                    "fieldsV1": {
                        "f:metadata": { "f:labels": { "f:x": {} } },
                        "f:spec": {
                            "f:selector": {},
                            "f:template": { "f:spec": { "f:containers": {
                                "k:{\"name\":\"app\"}": {
                                    ".": {}, "f:name": {}, "f:image": {},
                                    "f:ports": { "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:containerPort": {} } },
                                },
                            } } },
                        },
                    },
                }],
            },
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": { "app": "a" } },
                "template": { "spec": { "dnsPolicy": "ClusterFirst", "containers": [
                    { "name": "app", "image": "i", "imagePullPolicy": "Always",
                      "ports": [{ "containerPort": 80, "protocol": "TCP" }] },
                    { "name": "injected", "image": "j" },
                ] } },
            },
            "status": { "replicas": 1 },
        });
        assert_eq!(
            applied_by(&live, "kustomize-controller").unwrap(),
            json!({
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": { "name": "a", "namespace": "n", "labels": { "x": "1" } },
                "spec": {
                    "selector": { "matchLabels": { "app": "a" } },
                    "template": { "spec": { "containers": [
                        { "name": "app", "image": "i", "ports": [{ "containerPort": 80 }] },
                    ] } },
                },
            })
        );
        assert_eq!(applied_by(&live, "nobody"), None);
    }

    #[test]
    fn created_fields_and_string_data_count_as_applied() {
        let entry = |operation: &str, fields: Value| json!({"manager": "helm-controller", "operation": operation, "apiVersion": "v1", "fieldsV1": fields});
        let text = json!({"f:stringData": {"f:token": {}}, "f:type": {}});
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"token": "aGk=", "other": "bm8="},
            "metadata": {"name": "a", "managedFields": [entry("Apply", text)]},
        });
        assert_eq!(
            applied_by(&secret, "helm-controller").unwrap(),
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "stringData": {"token": "aGk="},
                "metadata": {"name": "a"},
            })
        );
        let created = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}, "immutable": false,
            "metadata": {"name": "a", "managedFields": [entry("Update", json!({"f:data": {"f:a": {}}}))]},
        });
        assert_eq!(
            applied_by(&created, "helm-controller").unwrap(),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}, "metadata": {"name": "a"}})
        );
    }
}
