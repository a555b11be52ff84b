//! The rules of server-side apply, one by one.

#![allow(clippy::unwrap_used)]

use everflow_json::{Value, json};
use everflow_merge::MergeError;
use everflow_merge::apply::{
    FieldManager, LAST_APPLIED, ResetFields, SameContent, SingleVersion, Writer, decode,
    zero_object,
};
use everflow_schema::{Schema, builtin};

const NOW: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-01T00:01:00Z";

fn by(manager: &str) -> Writer<'_> {
    Writer { manager, now: NOW }
}

/// Works on a built-in kind of the core group or of `apps/v1`.
fn with_kind<T>(api_version: &str, kind: &str, work: impl FnOnce(&FieldManager<'_>) -> T) -> T {
    let (group, version) = everflow_schema::split_api_version(api_version);
    let schema = builtin().schema(group, version, kind).unwrap();
    let zero = zero_object(schema, api_version, kind);
    let versions = SingleVersion::new(api_version, schema);
    let reset = ResetFields::Exclude(everflow_merge::fieldpath::FieldSet::of_field_paths(&[&[
        "status",
    ]]));
    work(&FieldManager {
        versions: &versions,
        api_version,
        kind,
        subresource: "",
        reset: &reset,
        zero: &zero,
    })
}

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "n"}, "data": data})
}

/// Applies in turn; each object then is as if the server had stored it.
fn applied(fields: &FieldManager<'_>, writes: &[(&str, Value, bool)]) -> Result<Value, MergeError> {
    let mut live = fields.zero.clone();
    for (manager, document, force) in writes {
        live = fields.apply(&live, document, by(manager), *force)?;
        live["metadata"]["uid"] = json!("u");
    }
    Ok(live)
}

fn owners(object: &Value) -> Vec<(String, String)> {
    decode(object)
        .unwrap()
        .into_iter()
        .map(|owner| (owner.name, owner.set.to_fields_v1_text()))
        .collect()
}

#[test]
fn equal_values_are_shared_and_dropping_a_share_removes_nothing() {
    with_kind("v1", "ConfigMap", |fields| {
        let both = applied(
            fields,
            &[
                ("one", config_map(json!({"a": "1"})), false),
                ("two", config_map(json!({"a": "1"})), false),
            ],
        )
        .unwrap();
        assert_eq!(decode(&both).unwrap()[0].time.as_deref(), Some(NOW));
        assert_eq!(
            decode(&both).unwrap()[1].time,
            None,
            "a share alone has no time"
        );
        let left = fields
            .apply(&both, &config_map(json!({})), by("one"), false)
            .unwrap();
        assert_eq!(left["data"], json!({"a": "1"}));
        assert_eq!(
            owners(&left),
            [
                ("one".to_owned(), r#"{"f:data":{}}"#.to_owned()),
                ("two".to_owned(), r#"{"f:data":{"f:a":{}}}"#.to_owned()),
            ]
        );
    });
}

#[test]
fn field_without_other_owners_is_removed_with_its_owner() {
    with_kind("v1", "ConfigMap", |fields| {
        let object = applied(
            fields,
            &[
                ("one", config_map(json!({"a": "1", "b": "2"})), false),
                ("one", config_map(json!({"b": "2"})), false),
            ],
        )
        .unwrap();
        assert_eq!(object["data"], json!({"b": "2"}));
    });
}

#[test]
fn conflicts_name_the_owners_and_force_takes_over() {
    with_kind("v1", "ConfigMap", |fields| {
        let first = config_map(json!({"a": "1", "b": "1"}));
        let other = config_map(json!({"a": "2", "b": "2"}));
        let error = applied(
            fields,
            &[("one", first.clone(), false), ("two", other.clone(), false)],
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\n- .data.b"
        );
        let MergeError::Conflict(conflicts) = error else {
            panic!("{error}")
        };
        assert_eq!(conflicts.causes()[0].message, "conflict with \"one\"");
        assert_eq!(conflicts.causes()[0].field, ".data.a");
        let forced = applied(fields, &[("one", first, false), ("two", other, true)]).unwrap();
        assert_eq!(forced["data"], json!({"a": "2", "b": "2"}));
        assert_eq!(owners(&forced).len(), 1);
    });
}

#[test]
fn updates_own_what_they_change_and_say_so_in_conflicts() {
    with_kind("v1", "ConfigMap", |fields| {
        let mut live = fields
            .update(fields.zero, config_map(json!({"a": "1"})), by("creator"))
            .unwrap();
        live["metadata"]["uid"] = json!("u");
        assert_eq!(
            owners(&live),
            [(
                "creator".to_owned(),
                r#"{"f:data":{".":{},"f:a":{}}}"#.to_owned()
            )]
        );
        let error = fields
            .apply(&live, &config_map(json!({"a": "2"})), by("one"), false)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"Apply failed with 1 conflict: conflict with "creator" using v1: .data.a"#
        );
        // An equal value takes no ownership, and a no-op changes no time.
        let mut same = live.clone();
        same["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        let again = fields
            .update(
                &live,
                same,
                Writer {
                    manager: "other",
                    now: LATER,
                },
            )
            .unwrap();
        assert_eq!(again, live);
    });
}

#[test]
fn fields_from_before_the_first_apply_have_an_owner() {
    with_kind("v1", "ConfigMap", |fields| {
        let mut live = config_map(json!({"a": "1"}));
        live["metadata"]["uid"] = json!("u");
        let object = fields
            .apply(&live, &config_map(json!({"b": "2"})), by("one"), false)
            .unwrap();
        let names: Vec<String> = owners(&object).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["before-first-apply", "one"]);
        // Without owners an update stays untracked.
        let updated = fields
            .update(&live, config_map(json!({"c": "3"})), by("one"))
            .unwrap();
        assert!(updated["metadata"].get("managedFields").is_none());
    });
}

#[test]
fn an_empty_list_of_owners_resets_and_an_absent_one_does_not() {
    with_kind("v1", "ConfigMap", |fields| {
        let live = applied(fields, &[("one", config_map(json!({"a": "1"})), false)]).unwrap();
        let mut absent = live.clone();
        absent["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        assert_eq!(
            owners(&fields.update(&live, absent, by("two")).unwrap()).len(),
            1
        );
        for entries in [json!([]), json!([{}])] {
            let mut reset = live.clone();
            reset["metadata"]["managedFields"] = entries;
            let object = fields.update(&live, reset, by("two")).unwrap();
            assert!(object["metadata"].get("managedFields").is_none());
        }
    });
}

#[test]
fn kubectl_takes_over_from_client_side_apply() {
    with_kind("v1", "ConfigMap", |fields| {
        let mut created = config_map(json!({"a": "1"}));
        let last = created.to_string();
        created["metadata"]["annotations"] = json!({LAST_APPLIED: last});
        let mut live = fields
            .update(fields.zero, created, by("kubectl-client-side-apply"))
            .unwrap();
        live["metadata"]["uid"] = json!("u");
        let next = config_map(json!({"a": "2"}));
        assert!(matches!(
            fields.apply(&live, &next, by("other"), false),
            Err(MergeError::Conflict(_))
        ));
        let object = fields.apply(&live, &next, by("kubectl"), false).unwrap();
        assert_eq!(object["data"], json!({"a": "2"}));
        assert_eq!(
            object["metadata"]["annotations"][LAST_APPLIED],
            json!(format!("{next}\n"))
        );
    });
}

#[test]
fn the_oldest_updaters_become_one() {
    with_kind("v1", "ConfigMap", |fields| {
        let mut live = fields
            .update(fields.zero, config_map(json!({"k": "0"})), by("m00"))
            .unwrap();
        live["metadata"]["uid"] = json!("u");
        for number in 1..12 {
            let now = format!("2026-01-01T00:00:{number:02}Z");
            let mut new = live.clone();
            new["data"][format!("k{number}")] = json!("v");
            live = fields
                .update(
                    &live,
                    new,
                    Writer {
                        manager: &format!("m{number:02}"),
                        now: &now,
                    },
                )
                .unwrap();
        }
        let owners = owners(&live);
        assert_eq!(owners.len(), 10);
        let ancient = owners
            .iter()
            .find(|(name, _)| name == "ancient-changes")
            .unwrap();
        assert_eq!(
            ancient.1,
            r#"{"f:data":{".":{},"f:k":{},"f:k1":{},"f:k2":{}}}"#
        );
    });
}

fn deployment(containers: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"},
        "spec": {"template": {"spec": {"containers": containers}}}})
}

fn container_names(object: &Value) -> Vec<&str> {
    let containers = object
        .pointer("/spec/template/spec/containers")
        .and_then(Value::as_array);
    containers
        .into_iter()
        .flatten()
        .filter_map(|container| container["name"].as_str())
        .collect()
}

#[test]
fn lists_take_the_order_of_the_applier() {
    let named = |names: &[&str]| -> Value {
        deployment(
            names
                .iter()
                .map(|name| json!({"name": name, "image": "r"}))
                .collect(),
        )
    };
    with_kind("apps/v1", "Deployment", |fields| {
        let object = applied(
            fields,
            &[
                ("one", named(&["a", "b"]), false),
                ("two", named(&["b", "c"]), false),
            ],
        )
        .unwrap();
        assert_eq!(container_names(&object), ["a", "b", "c"]);
        let object = fields
            .apply(&object, &named(&["c", "a"]), by("one"), false)
            .unwrap();
        assert_eq!(container_names(&object), ["b", "c", "a"]);
    });
}

#[test]
fn absent_key_fields_count_with_their_defaults() {
    let ports = |ports: Value| deployment(json!([{"name": "app", "ports": ports}]));
    with_kind("apps/v1", "Deployment", |fields| {
        let object = applied(
            fields,
            &[("one", ports(json!([{"containerPort": 80}])), false)],
        )
        .unwrap();
        assert!(
            owners(&object)[0]
                .1
                .contains(r#"k:{\"containerPort\":80,\"protocol\":\"TCP\"}"#)
        );
        let twice = ports(json!([{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]));
        let error = applied(fields, &[("one", twice, false)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "failed to create typed patch object (/x; apps/v1, Kind=Deployment): .spec.template.spec.containers[name=\"app\"].ports: duplicate entries for key [containerPort=80,protocol=\"TCP\"]"
        );
    });
}

#[test]
fn documents_that_do_not_fit_are_refused() {
    with_kind("v1", "ConfigMap", |fields| {
        let refusal = |document: Value| {
            applied(fields, &[("one", document, false)])
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refusal(config_map(json!({"a": 1}))),
            "failed to create typed patch object (n/x; /v1, Kind=ConfigMap): .data.a: expected string, got &value.valueUnstructured{Value:1}"
        );
        let mut unknown = config_map(json!({}));
        unknown["bogus"] = json!(1);
        assert!(refusal(unknown).ends_with(".bogus: field not declared in schema"));
        assert_eq!(
            refusal(json!({"apiVersion": "v1", "kind": "Secret"})),
            "invalid object type: /v1, Kind=Secret"
        );
        let mut entries = config_map(json!({}));
        entries["metadata"]["managedFields"] = json!([]);
        assert_eq!(refusal(entries), "metadata.managedFields must be nil");
    });
}

#[test]
fn versions_with_different_fields() {
    let schema = |fields: Value| {
        Schema::for_custom_resource(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": fields}}}))
        .unwrap()
    };
    let text = json!({"type": "string"});
    let (first, second) = (
        schema(json!({"old": text})),
        schema(json!({"old": text, "new": text})),
    );
    let versions = SameContent::new(vec![("x.io/v1", first.view()), ("x.io/v2", second.view())]);
    let manager = |api_version: &'static str| {
        (
            api_version,
            json!({"apiVersion": api_version, "kind": "Widget"}),
        )
    };
    let apply = |api_version: &'static str, live: Option<&Value>, spec: Value| {
        let (api_version, zero) = manager(api_version);
        let fields = FieldManager {
            versions: &versions,
            api_version,
            kind: "Widget",
            subresource: "",
            reset: &ResetFields::Nothing,
            zero: &zero,
        };
        let document = json!({"apiVersion": api_version, "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
        let mut live = live.unwrap_or(&zero).clone();
        live["apiVersion"] = json!(api_version);
        fields.apply(&live, &document, by("one"), false)
    };
    let live = apply("x.io/v1", None, json!({"old": "1"})).unwrap();
    let moved = apply("x.io/v2", Some(&live), json!({"old": "2"})).unwrap();
    assert_eq!(decode(&moved).unwrap()[0].api_version, "x.io/v2");
    let error = apply("x.io/v2", Some(&live), json!({"new": "1"})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to prune fields: failed to convert merged object to last applied version: .spec.new: field not declared in schema"
    );
}
