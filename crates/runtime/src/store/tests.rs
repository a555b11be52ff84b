use super::*;
use everflow_env::SimulatedClock;
use everflow_json::json;

fn toy(name: &str, uid: &str, version: u64) -> Value {
    json!({
        "kind": "Toy",
        "metadata": {
            "name": name, "namespace": "n", "uid": uid,
            "resourceVersion": version.to_string(), "generation": 3,
            "managedFields": [{"manager": "m"}],
        },
        "spec": {"size": version},
    })
}

fn store() -> Store {
    Store::new(Arc::new(SimulatedClock::new()), Keep::default())
}

fn sizes(store: &Store) -> Vec<(String, u64)> {
    let all = store.list(None);
    all.iter()
        .map(|stored| (stored.name.to_string(), stored.revision))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn older_version_never_replaces_newer() {
    let store = store();
    assert_eq!((store.age(), store.is_synced()), (None, false));
    store.learn(&toy("early", "u0", 5));
    assert!(store.is_empty(), "before the first list nothing is known");
    store.replace(&[toy("a", "u1", 10), toy("b", "u2", 11)], 12, false);
    assert_eq!(store.set(&toy("a", "u1", 9)), Verdict::Old);
    assert_eq!(store.set(&toy("a", "u1", 10)), Verdict::Old);
    assert_eq!(store.set(&toy("a", "u1", 13)), Verdict::Accepted);
    store.learn(&toy("a", "u1", 12));
    assert_eq!(sizes(&store), [("a".into(), 13), ("b".into(), 11)]);
    // Our own write runs ahead of the watch; the watch then tells the same.
    store.learn(&toy("b", "u2", 14));
    assert_eq!(store.set(&toy("b", "u2", 14)), Verdict::Old);
    assert_eq!(store.gone(&toy("b", "u2", 15)), Verdict::Accepted);
    // A late answer of ours does not bring it back.
    store.learn(&toy("b", "u2", 14));
    assert_eq!(store.set(&toy("b", "u2", 12)), Verdict::OutOfOrder);
    assert_eq!(sizes(&store), [("a".into(), 13)]);
    // A list from before our write does not undo it.
    store.learn(&toy("c", "u3", 20));
    store.replace(&[toy("a", "u1", 13)], 18, false);
    assert_eq!(sizes(&store), [("a".into(), 13), ("c".into(), 20)]);
    // Recreated under the same name: the end of the first is not the end of the second.
    store.learn(&toy("a", "u9", 25));
    assert_eq!(store.gone(&toy("a", "u1", 24)), Verdict::Old);
    assert_eq!(store.get("n", "a").unwrap().uid, "u9");
    // A server restored from a backup.
    store.replace(&[toy("a", "u1", 3)], 4, true);
    assert_eq!(
        (sizes(&store), store.revision()),
        (vec![("a".into(), 3)], 4)
    );
}

/// A server restored from a backup whose revisions have come past the old ones before anybody looked.
#[tokio::test(start_paused = true)]
async fn list_is_authoritative_up_to_its_revision() {
    let store = store();
    store.replace(&[toy("a", "u1", 10), toy("b", "u2", 11)], 12, false);
    store.learn(&toy("b", "u2", 30));
    store.replace(&[toy("a", "u1", 4), toy("b", "u2", 9)], 20, false);
    assert_eq!(sizes(&store), [("a".into(), 4), ("b".into(), 30)]);
    assert_eq!(store.revision(), 20);
}

#[tokio::test(start_paused = true)]
async fn unreadable_object_does_not_affect_others() {
    let store = store();
    let mut broken = toy("x", "u", 1);
    broken["metadata"]["uid"] = json!(7);
    store.replace(&[broken, toy("a", "u1", 2)], 3, false);
    assert_eq!(sizes(&store), [("a".into(), 2)]);
    assert_eq!(store.unreadable().len(), 1);
    assert_eq!(store.set(&toy("x", "u", 4)), Verdict::Accepted);
    assert!(store.unreadable().is_empty());
    // An event that cannot be read is a reason to read everything, once.
    let mut broken = toy("a", "u1", 5);
    broken["metadata"]["resourceVersion"] = Value::Null;
    assert_eq!(store.set(&broken.clone()), Verdict::OutOfOrder);
    assert_eq!(store.set(&broken.clone()), Verdict::Old);
}

#[tokio::test(start_paused = true)]
async fn subscribers_receive_all_changes_in_order() {
    let store = store();
    store.replace(&[toy("a", "u1", 2)], 3, false);
    let mut changes = store.subscribe();
    store.set(&toy("a", "u1", 4));
    store.gone(&toy("a", "u1", 5));
    let mut told = Vec::new();
    while let Ok(change) = changes.try_recv() {
        let version = |stored: Option<Arc<CachedObject>>| stored.map(|stored| stored.revision);
        told.push((version(change.old), version(change.new)));
    }
    assert_eq!(told, [(None, Some(2)), (Some(2), Some(4)), (Some(4), None)]);
}

#[test]
fn store_drops_fields_that_are_not_requested() {
    let kept = |keep| CachedObject::read(&toy("a", "u", 1), keep).unwrap().value();
    assert_eq!(kept(Keep::WithoutManagedFields)["spec"]["size"], 1);
    assert_eq!(
        kept(Keep::WithoutManagedFields)["metadata"]["generation"],
        3
    );
    assert!(
        kept(Keep::WithoutManagedFields)["metadata"]
            .get("managedFields")
            .is_none()
    );
    assert!(kept(Keep::Metadata).get("spec").is_none());
    let shown = format!(
        "{:?}",
        CachedObject::read(&toy("a", "u", 1), Keep::default()).unwrap()
    );
    assert_eq!(shown, "n/a@1");
}

#[test]
fn pod_templates_of_workloads_are_not_kept() {
    let mut object = toy("a", "u1", 10);
    object["spec"] = json!({"replicas": 2, "template": {"spec": {}}, "volumeClaimTemplates": []});
    object["status"] = json!({"replicas": 1});
    let stored = CachedObject::read(&object, Keep::WithoutTemplates).unwrap();
    assert_eq!(stored.value()["spec"], json!({"replicas": 2}));
    assert_eq!(stored.status(), json!({"replicas": 1}));
    assert_eq!(stored.value()["metadata"].get("managedFields"), None);
    let whole = CachedObject::read(&object, Keep::default()).unwrap();
    assert_eq!(whole.value()["spec"], object["spec"]);
    assert_eq!(whole.status(), json!({"replicas": 1}));
    let none = CachedObject::read(&toy("a", "u1", 10), Keep::default()).unwrap();
    assert_eq!(none.status(), Value::Null);
}

#[test]
fn objects_are_equal_when_what_is_kept_of_them_is() {
    let mut object = toy("a", "u1", 10);
    object["spec"] = json!({"replicas": 2, "template": {"spec": {}}});
    object["status"] = json!({"replicas": 1});
    let mut other = object.clone();
    other["status"]["replicas"] = 2.into();
    for keep in [
        Keep::WithoutManagedFields,
        Keep::WithoutTemplates,
        Keep::Metadata,
    ] {
        let read = |object: &Value| CachedObject::read(object, keep).unwrap();
        let (one, two) = (read(&object), read(&other));
        let tells_status = keep != Keep::Metadata;
        assert!(one == read(&object) && one.has_status_of(&read(&object)));
        assert_eq!(one != two, tells_status);
        assert_eq!(!one.has_status_of(&two), tells_status);
        assert_eq!(one.value()["metadata"]["name"], "a");
    }
}
