//! Patches, applied objects and the fields that managers own.

use everflow_corpus::hostile::{Reader, texts};
use everflow_json::Value;
use everflow_merge::apply::{
    FieldManager, ResetFields, SingleVersion, Writer, decode, zero_object,
};
use everflow_merge::fieldpath::FieldSet;
use everflow_merge::typed::{Duplicates, TypedValue};
use everflow_merge::{json_patch, merge_patch, strategic};
use everflow_schema::{SchemaView, builtin};

/// All of them.
pub const ALL: &[Reader] = &[
    Reader::new("json-patch", patch, || {
        texts(&[
            r#"[{"a": {"b": [1, 2]}}, [{"op": "add", "path": "/a/b/-", "value": 3}, {"op": "test", "path": "/a/b/1", "value": 2}, {"op": "copy", "from": "/a", "path": "/c"}, {"op": "move", "from": "/a/b", "path": "/a/~1x"}, {"op": "replace", "path": "/c", "value": null}, {"op": "remove", "path": "/c"}]]"#,
        ])
    })
    .tokens(PATCH),
    Reader::new("merge-patch", merge, || texts(&[r#"[{"a": {"b": 1}, "c": [1]}, {"a": {"b": null, "d": {}}, "c": 2}]"#]))
        .tokens(JSON),
    Reader::new("strategic-patch", strategic_patch, || texts(&[POD_PATCH])).tokens(DIRECTIVES),
    Reader::new("managed-fields", managed, || texts(&[MANAGED])).tokens(FIELDS),
    Reader::new("server-side-apply", apply, || texts(&[APPLIED])).tokens(FIELDS).cases(150),
];

const JSON: &[&str] = &["[", "{\"a\":", "null", "{}", "[]", "]", "}", "1e400"];
const PATCH: &[&str] = &[
    "{\"op\": \"copy\", \"from\": \"/a\", \"path\": \"/a/a\"},",
    "{\"op\": \"add\", \"path\": \"/a\", \"value\": {}},",
    "/a",
    "/-",
    "/-1",
    "/0",
    "~0",
    "~1",
    "\"op\": \"move\", ",
    "\"test\"",
    "null",
    "[",
    "{\"a\":",
];
const DIRECTIVES: &[&str] = &[
    "\"$patch\": \"delete\",",
    "\"$patch\": \"replace\",",
    "\"$retainKeys\": [\"name\"],",
    "{\"$patch\": \"merge\"},",
    "\"$setElementOrder/containers\": [{\"name\": \"a\"}],",
    "\"$deleteFromPrimitiveList/finalizers\": [\"a\"],",
    "null",
    "[",
    "{\"a\":",
    "[]",
];
const FIELDS: &[&str] = &[
    "\"f:a\":{},",
    "\"k:{\\\"name\\\":\\\"a\\\"}\":{},",
    "\"v:\\\"x\\\"\":{},",
    "\"i:0\":{},",
    "\".\":{},",
    "{\"f:a\":",
    "null",
    "[",
    "\"k:{\":{},",
    "{\"name\":\"a\"},",
];

const POD_PATCH: &str = r#"[
{"apiVersion": "v1", "kind": "Pod", "metadata": {"finalizers": ["a", "b"]}, "spec": {"containers": [{"name": "a", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]}, {"name": "b"}], "tolerations": [{"key": "x"}]}},
{"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}, "spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "j"}, {"name": "b", "$patch": "delete"}]}}]"#;
const MANAGED: &str = r#"{"metadata": {"managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {".": {}, "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}}}, "f:finalizers": {"v:\"x\"": {}, "i:0": {}}}}}]}}"#;
const APPLIED: &str = r#"[
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u", "managedFields": [{"manager": "other", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}}}}}]}, "spec": {"containers": [{"name": "a"}]}},
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "i", "env": [{"name": "A", "value": "1"}]}]}}]"#;

/// The two documents of an input.
fn pair(bytes: &[u8]) -> Option<(Value, Value)> {
    let both: Value = everflow_json::from_slice(bytes).ok()?;
    Some((both.get(0)?.clone(), both.get(1)?.clone()))
}

fn pod() -> SchemaView<'static> {
    builtin().schema("", "v1", "Pod").unwrap()
}

fn patch(bytes: &[u8]) -> bool {
    pair(bytes).is_some_and(|(document, patch)| json_patch::apply(&document, &patch).is_ok())
}

fn merge(bytes: &[u8]) -> bool {
    let Some((document, patch)) = pair(bytes) else {
        return false;
    };
    let made = merge_patch::create(&document, &patch).unwrap();
    if document.is_object() && patch.is_object() && !has_null(&patch) {
        assert_eq!(merge_patch::apply(&document, &made).unwrap(), patch);
    }
    let _ = merge_patch::create_three_way(&document, &patch, &document);
    merge_patch::apply(&document, &patch).is_ok()
}

/// A merge patch cannot set null.
fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(map) => map.values().any(has_null),
        _ => false,
    }
}

fn strategic_patch(bytes: &[u8]) -> bool {
    let Some((document, patch)) = pair(bytes) else {
        return false;
    };
    let _ = strategic::create(&document, &patch, pod());
    let _ = strategic::create_three_way(&patch, &document, &patch, pod());
    let _ = strategic::has_conflicts(&document, &patch, pod());
    strategic::apply(&document, &patch, pod()).is_ok()
}

fn managed(bytes: &[u8]) -> bool {
    let Ok(object) = everflow_json::from_slice::<Value>(bytes) else {
        return false;
    };
    if let Ok(set) = FieldSet::from_fields_v1(&object) {
        assert_eq!(FieldSet::from_fields_v1(&set.to_fields_v1()).unwrap(), set);
        let _ = (set.to_fields_v1_text(), set.paths());
    }
    decode(&object).is_ok_and(|managers| !managers.is_empty())
}

fn apply(bytes: &[u8]) -> bool {
    let Some((live, applied)) = pair(bytes) else {
        return false;
    };
    let versions = SingleVersion::new("v1", pod());
    let zero = zero_object(pod(), "v1", "Pod");
    let manager = FieldManager {
        versions: &versions,
        api_version: "v1",
        kind: "Pod",
        subresource: "",
        reset: &ResetFields::of_builtin("", "pods", ""),
        zero: &zero,
    };
    let writer = |manager| Writer {
        manager,
        now: "2026-01-01T00:00:00Z",
    };
    let _ = TypedValue::new(live.clone(), pod(), Duplicates::Allow).map(|value| value.field_set());
    let _ = manager.update(&live, applied.clone(), writer("u"));
    let _ = manager.apply(&live, &applied, writer("kubectl"), false);
    manager.apply(&live, &applied, writer("m"), true).is_ok()
}
