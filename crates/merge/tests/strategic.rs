//! The rules of strategic merge patch, one by one.

#![allow(clippy::unwrap_used)]

use everflow_json::{Value, json};
use everflow_merge::{MergeError, strategic};
use everflow_schema::{SchemaView, builtin};

fn deployment_schema() -> SchemaView<'static> {
    builtin().schema("apps", "v1", "Deployment").unwrap()
}

fn deployment(spec: Value) -> Value {
    json!({"spec": {"template": {"spec": spec}}})
}

fn patched(spec: Value, patch: Value) -> Result<Value, MergeError> {
    let object = strategic::apply(&deployment(spec), &deployment(patch), deployment_schema())?;
    Ok(object["spec"]["template"]["spec"].clone())
}

#[test]
fn lists_merge_by_key_and_new_items_come_first() {
    let spec = json!({"containers": [{"name": "app", "image": "a", "tty": true}]});
    let patch =
        json!({"containers": [{"name": "side", "image": "s"}, {"name": "app", "image": "b"}]});
    assert_eq!(
        patched(spec, patch).unwrap(),
        json!({"containers": [{"name": "side", "image": "s"}, {"name": "app", "image": "b", "tty": true}]})
    );
}

#[test]
fn directives_delete_replace_order_and_retain() {
    let spec = || json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]});
    assert_eq!(
        patched(
            spec(),
            json!({"containers": [{"name": "b", "$patch": "delete"}]})
        )
        .unwrap(),
        json!({"containers": [{"name": "a"}, {"name": "c"}]})
    );
    assert_eq!(
        patched(
            spec(),
            json!({"containers": [{"$patch": "replace"}, {"name": "z"}]})
        )
        .unwrap(),
        json!({"containers": [{"name": "z"}]})
    );
    let order =
        json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]});
    assert_eq!(
        patched(spec(), order).unwrap(),
        json!({"containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]})
    );
    let object =
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    assert_eq!(
        strategic::apply(&object, &patch, deployment_schema()).unwrap(),
        json!({"spec": {"strategy": {"type": "Recreate"}}})
    );
    let object = json!({"metadata": {"finalizers": ["a", "b"]}});
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}});
    assert_eq!(
        strategic::apply(&object, &patch, deployment_schema()).unwrap(),
        json!({"metadata": {"finalizers": ["b"]}})
    );
}

#[test]
fn patches_that_do_not_apply_say_why() {
    let refusal = |patch: Value| {
        patched(json!({"containers": [{"name": "a"}]}), patch)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refusal(json!({"containers": [{"image": "r"}]})),
        "map: map[image:r] does not contain declared merge key: name"
    );
    assert_eq!(
        refusal(json!({"containers": [{"name": "a", "$patch": "foo"}]})),
        "unknown patch type: foo in map: map[$patch:foo name:a]"
    );
    let error = strategic::apply(
        &json!({}),
        &json!({"$retainKeys": "x"}),
        deployment_schema(),
    );
    assert_eq!(
        error.unwrap_err(),
        MergeError::StrategicFormat {
            message: "invalid patch format of retainKeys"
        }
    );
}

#[test]
fn three_way_keeps_what_others_added() {
    let original = deployment(json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}));
    let modified = deployment(json!({"containers": [{"name": "a", "image": "2"}]}));
    let current = deployment(
        json!({"containers": [{"name": "a", "image": "1", "tty": true}, {"name": "b"}, {"name": "injected"}]}),
    );
    let schema = deployment_schema();
    let patch = strategic::create_three_way(&original, &modified, &current, schema).unwrap();
    let reached = strategic::apply(&current, &patch, schema).unwrap();
    assert_eq!(
        reached,
        deployment(
            json!({"containers": [{"name": "a", "image": "2", "tty": true}, {"name": "injected"}]})
        )
    );
    assert!(
        strategic::has_conflicts(
            &json!({"spec": {"replicas": 1}}),
            &json!({"spec": {"replicas": 2}}),
            schema
        )
        .unwrap()
    );
}
