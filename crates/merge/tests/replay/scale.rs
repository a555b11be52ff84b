//! Writes through the scale subresource.

use everflow_json::{Value, json};
use everflow_merge::MergeError;
use everflow_merge::apply::{
    FieldManager, ReplicasPaths, ResetFields, SingleVersion, Writer, entries_for_scale,
    entries_from_scale, zero_object,
};
use everflow_merge::fieldpath::FieldPath;
use everflow_merge::{json_patch, merge_patch};
use everflow_schema::builtin;

/// A write through scale.
pub struct ScaleWrite<'a> {
    pub content_type: &'a str,
    pub body: &'a Value,
    pub manager: &'a str,
    pub force: bool,
    pub now: &'a str,
}

/// The object after the write; none for writes that cannot be followed here.
pub fn write(parent: &Value, write: &ScaleWrite<'_>) -> Option<Result<Value, MergeError>> {
    let api_version = parent["apiVersion"].as_str()?;
    let mut paths = ReplicasPaths::new();
    paths.insert(
        api_version.to_owned(),
        Some(FieldPath::of_fields(&["spec", "replicas"])),
    );
    let none = Vec::new();
    let entries = parent["metadata"]["managedFields"]
        .as_array()
        .unwrap_or(&none);
    let metadata = &parent["metadata"];
    let live = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"],
            "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
            "managedFields": entries_for_scale(entries, &paths).ok()?},
        "spec": {"replicas": parent["spec"]["replicas"]},
        "status": {"replicas": 0}});
    let mut live = live;
    if live["spec"]["replicas"] == 0 {
        live["spec"] = json!({});
    }
    let schema = builtin().schema("autoscaling", "v1", "Scale")?;
    let zero = zero_object(schema, "autoscaling/v1", "Scale");
    let versions = SingleVersion::new("autoscaling/v1", schema);
    let fields = FieldManager {
        versions: &versions,
        api_version: "autoscaling/v1",
        kind: "Scale",
        subresource: "scale",
        reset: &ResetFields::Nothing,
        zero: &zero,
    };
    let writer = Writer {
        manager: write.manager,
        now: write.now,
    };
    let patched =
        match write.content_type {
            "application/apply-patch+yaml" => fields.apply(&live, write.body, writer, write.force),
            "application/json" => {
                let mut new = write.body.clone();
                // The struct leaves zero replicas out.
                if new["spec"]["replicas"] == 0 {
                    new["spec"] = json!({});
                }
                fields.update(&live, new, writer)
            }
            "application/merge-patch+json" => merge_patch::apply(&live, write.body)
                .and_then(|new| fields.update(&live, new, writer)),
            "application/json-patch+json" => json_patch::apply(&live, write.body)
                .and_then(|new| fields.update(&live, new, writer)),
            _ => return None,
        };
    Some(patched.and_then(|scale| {
        let after = scale["metadata"]["managedFields"]
            .as_array()
            .unwrap_or(&none);
        let mut parent = parent.clone();
        parent["metadata"]["managedFields"] =
            Value::Array(entries_from_scale(entries, after, api_version, &paths)?);
        let replicas = scale["spec"].get("replicas").cloned();
        parent["spec"]["replicas"] = replicas.unwrap_or_else(|| json!(0));
        Ok(parent)
    }))
}
