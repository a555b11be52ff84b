//! Properties that hold for all documents: nothing panics, apply is idempotent, ownership fits the
//! object, and independent appliers may come in any order.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use everflow_merge::apply::{FieldManager, ResetFields, SingleVersion, Writer, decode};
use everflow_merge::typed::{Duplicates, TypedValue};
use everflow_merge::{MergeError, json_patch, merge_patch, strategic};
use everflow_schema::{Schema, SchemaView, builtin};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value, json};

/// Runs a property on a fixed number of cases, the same ones every time.
fn check<S: Strategy>(
    cases: u32,
    strategy: S,
    property: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng)
        .run(&strategy, property)
        .unwrap();
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("a".to_owned()),
        Just("b".to_owned()),
        Just("name".to_owned()),
        Just("spec".to_owned()),
        Just("metadata".to_owned()),
        Just("$patch".to_owned()),
        Just("$retainKeys".to_owned()),
        Just("$setElementOrder/containers".to_owned()),
        Just("$setElementOrder".to_owned()),
        Just("$deleteFromPrimitiveList/finalizers".to_owned()),
        Just("containers".to_owned()),
        Just("finalizers".to_owned()),
        Just("template".to_owned()),
        Just("ports".to_owned()),
        "[a-z~/0-9-]{0,3}",
    ]
}

/// Any JSON, with a liking for what patches look at.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..3).prop_map(Value::from),
        Just(json!(1.5)),
        Just(json!("delete")),
        Just(json!("replace")),
        "[a-z<\"]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map(key(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn operation() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        Just("add"),
        Just("remove"),
        Just("replace"),
        Just("move"),
        Just("copy"),
        Just("test"),
        Just("frob"),
    ];
    let path = prop_oneof!["(/(a|b|0|1|-|-1|~0|~1|name|)){0,4}", "[a/~0-9]{0,4}"];
    (name, path.clone(), path, any_json()).prop_map(
        |(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}),
    )
}

#[test]
fn patches_never_panic() {
    check(
        200,
        (any_json(), vec(operation(), 0..5)),
        |(document, patch)| {
            let _ = json_patch::apply(&document, &Value::Array(patch));
            Ok(())
        },
    );
    let deployment = builtin().schema("apps", "v1", "Deployment").unwrap();
    check(
        300,
        (any_json(), any_json(), any_json()),
        move |(a, b, c)| {
            let _ = json_patch::apply(&a, &b);
            let _ = merge_patch::apply(&a, &b);
            let _ = merge_patch::create(&a, &b);
            let _ = merge_patch::create_three_way(&a, &b, &c);
            let _ = strategic::apply(&a, &b, deployment);
            let _ = strategic::create(&a, &b, deployment);
            let _ = strategic::create_three_way(&a, &b, &c, deployment);
            let _ = strategic::has_conflicts(&a, &b, deployment);
            Ok(())
        },
    );
}

#[test]
fn typed_walks_never_panic() {
    let deployment = builtin().schema("apps", "v1", "Deployment").unwrap();
    let zero = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    check(
        200,
        (any_json(), any_json(), any_json()),
        move |(mut live, mut applied, entries)| {
            for document in [&mut live, &mut applied] {
                if let Value::Object(fields) = document {
                    fields.insert("apiVersion".to_owned(), json!("apps/v1"));
                    fields.insert("kind".to_owned(), json!("Deployment"));
                }
            }
            if let Some(metadata) = live.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.insert("managedFields".to_owned(), entries);
            }
            let versions = SingleVersion::new("apps/v1", deployment);
            let manager = FieldManager {
                versions: &versions,
                api_version: "apps/v1",
                kind: "Deployment",
                subresource: "",
                reset: &ResetFields::Nothing,
                zero: &zero,
            };
            let _ = manager.apply(&live, &applied, WRITER, false);
            let _ = manager.apply(&live, &applied, WRITER, true);
            let _ = manager.update_or_forget(&live, applied, WRITER);
            Ok(())
        },
    );
}

#[test]
fn deep_nesting_is_refused_without_harm() {
    let mut deep = json!("x");
    for _ in 0..400 {
        let mut map = Map::new();
        map.insert("a".to_owned(), Value::Array(vec![deep]));
        deep = Value::Object(map);
    }
    let deployment = builtin().schema("apps", "v1", "Deployment").unwrap();
    let flat = json!({});
    let refused = |result: Result<Value, MergeError>| {
        assert!(
            matches!(result, Err(MergeError::TooDeep { .. })),
            "{result:?}"
        );
    };
    refused(json_patch::apply(&deep, &json!([])));
    refused(merge_patch::apply(&flat, &deep));
    refused(merge_patch::create(&flat, &deep));
    refused(strategic::apply(&flat, &deep, deployment));
    refused(strategic::create(&deep, &flat, deployment));
    refused(
        TypedValue::new(deep.clone(), deployment, Duplicates::Allow).map(TypedValue::into_value),
    );
}

const WRITER: Writer<'static> = Writer {
    manager: "tester",
    now: "2026-01-01T00:00:00Z",
};

fn widget_schema() -> Schema {
    let item = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "proto": {"type": "string", "default": "TCP"},
        "v": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}}});
    Schema::for_custom_resource(&json!({"type": "object", "properties": {"spec": {
        "type": "object", "properties": {
            "text": {"type": "string"},
            "count": {"type": "integer"},
            "atomic": {"type": "array", "items": {"type": "string"}},
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "map": {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "proto"]},
            "dict": {"type": "object", "additionalProperties": {"type": "string"}},
            "whole": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
        }}}}))
    .unwrap()
}

fn word() -> impl Strategy<Value = String> {
    "[abc]"
}

/// Lists are not empty: an empty one is owned by nobody and pruned with its parents, on the real
/// server, too.
fn words() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::btree_set(word(), 1..3).prop_shuffle_words()
}

/// Sets of words in any order.
trait ShuffleWords {
    fn prop_shuffle_words(self) -> BoxedStrategy<Vec<String>>;
}

impl<S> ShuffleWords for S
where
    S: Strategy<Value = std::collections::BTreeSet<String>> + 'static,
{
    fn prop_shuffle_words(self) -> BoxedStrategy<Vec<String>> {
        self.prop_map(|words| words.into_iter().collect::<Vec<_>>())
            .prop_shuffle()
            .boxed()
    }
}

fn items() -> impl Strategy<Value = Value> {
    let item = (proptest::option::of(word()), proptest::option::of(words()));
    btree_map((word(), proptest::option::of(Just("UDP"))), item, 1..3)
        .prop_map(|map| map.into_iter().collect::<Vec<_>>())
        .prop_shuffle()
        .prop_map(|items| {
            let items = items.into_iter().map(|((name, proto), (v, tags))| {
                let mut item = json!({"name": name});
                if let Some(proto) = proto {
                    item["proto"] = json!(proto);
                }
                if let Some(v) = v {
                    item["v"] = json!(v);
                }
                if let Some(tags) = tags {
                    item["tags"] = json!(tags);
                }
                item
            });
            Value::Array(items.collect())
        })
}

/// A document that fits the widget schema. Who owns nothing is not remembered, so each one has
/// something to own.
fn widget() -> impl Strategy<Value = Value> {
    let dict = || btree_map(word(), word(), 0..3).prop_map(|map| json!(map));
    let any = prop_oneof![
        word().prop_map(Value::from),
        Just(json!([1, "a"])),
        Just(json!({})),
        dict(),
        dict().prop_map(|inner| json!({"deep": inner})),
    ];
    let field = prop_oneof![
        word().prop_map(|text| ("text", json!(text))),
        (0i64..3).prop_map(|count| ("count", json!(count))),
        words().prop_map(|list| ("atomic", json!(list))),
        words().prop_map(|list| ("set", json!(list))),
        items().prop_map(|list| ("map", list)),
        dict().prop_map(|map| ("dict", map)),
        dict().prop_map(|map| ("whole", map)),
        any.prop_map(|value| ("any", value)),
    ];
    vec(field, 0..5).prop_map(|fields| {
        let spec: Map<String, Value> = fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w", "labels": {"always": "owned"}}, "spec": spec})
    })
}

/// One write: by whom, what, and how.
#[derive(Debug, Clone)]
enum Write {
    Apply {
        manager: &'static str,
        document: Value,
    },
    Update {
        manager: &'static str,
        document: Value,
    },
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let manager = || prop_oneof![Just("one"), Just("two"), Just("three")];
    let write = prop_oneof![
        3 => (manager(), widget()).prop_map(|(manager, document)| Write::Apply { manager, document }),
        1 => (manager(), widget()).prop_map(|(manager, document)| Write::Update { manager, document }),
    ];
    vec(write, 1..7)
}

struct Widgets {
    schema: Schema,
    zero: Value,
}

impl Widgets {
    fn new() -> Self {
        Self {
            schema: widget_schema(),
            zero: json!({"apiVersion": "x.io/v1", "kind": "Widget"}),
        }
    }

    fn with<T>(&self, work: impl FnOnce(&FieldManager<'_>) -> T) -> T {
        let versions = SingleVersion::new("x.io/v1", self.schema.view());
        work(&FieldManager {
            versions: &versions,
            api_version: "x.io/v1",
            kind: "Widget",
            subresource: "",
            reset: &ResetFields::Nothing,
            zero: &self.zero,
        })
    }

    fn run(&self, live: &Value, write: &Write) -> Value {
        let now = "2026-01-01T00:00:00Z";
        let mut object = self.with(|fields| match write {
            Write::Apply { manager, document } => fields
                .apply(live, document, Writer { manager, now }, true)
                .unwrap(),
            Write::Update { manager, document } => {
                let mut document = document.clone();
                document["metadata"]["uid"] = json!("u");
                fields
                    .update(live, document, Writer { manager, now })
                    .unwrap()
            }
        });
        object["metadata"]["uid"] = json!("u");
        object
    }
}

#[test]
fn apply_is_idempotent_and_ownership_fits_the_object() {
    let widgets = Widgets::new();
    check(150, writes(), move |writes| {
        let mut live = widgets.zero.clone();
        for write in &writes {
            live = widgets.run(&live, write);
            if let Write::Apply { .. } = write {
                prop_assert_eq!(
                    &widgets.run(&live, write),
                    &live,
                    "applied twice: {:?}",
                    write
                );
            }
            let typed =
                TypedValue::new(live.clone(), widgets.schema.view(), Duplicates::Allow).unwrap();
            // Updates own empty containers, too: those are what a comparison with nothing shows.
            let nothing = TypedValue::new(
                widgets.zero.clone(),
                widgets.schema.view(),
                Duplicates::Allow,
            )
            .unwrap();
            let added = nothing.compare(&typed).unwrap().added;
            let present = typed.with_named_fields(&typed.field_set()).union(&added);
            for owner in decode(&live).unwrap() {
                let missing = owner.set.difference(&present);
                prop_assert!(
                    missing.is_empty(),
                    "{} owns what is not there: {:?} in {}",
                    owner.name,
                    missing.paths(),
                    live
                );
            }
        }
        Ok(())
    });
}

#[test]
fn what_an_applier_drops_is_gone_unless_others_own_it() {
    let widgets = Widgets::new();
    check(100, (widget(), widget()), move |(first, second)| {
        let by = |manager, document: &Value| Write::Apply {
            manager,
            document: document.clone(),
        };
        let once = widgets.run(&widgets.zero, &by("one", &second));
        let both = widgets.run(
            &widgets.run(&widgets.zero, &by("one", &first)),
            &by("one", &second),
        );
        // Only empty containers may remain of the first document.
        prop_assert_eq!(without_empty(&strip(&both)), without_empty(&strip(&once)));
        Ok(())
    });
}

#[test]
fn independent_appliers_may_come_in_any_order() {
    let widgets = Widgets::new();
    check(100, (widget(), widget()), move |(first, mut second)| {
        // Disjoint by construction: each applier has fields of its own.
        for field in ["text", "count", "atomic", "whole", "any"] {
            if first["spec"].get(field).is_some()
                && let Some(spec) = second["spec"].as_object_mut()
            {
                spec.remove(field);
            }
        }
        for list in ["map", "set", "dict"] {
            rename(&mut second["spec"][list]);
        }
        if let Some(spec) = second["spec"].as_object_mut() {
            spec.retain(|_, value| !value.is_null());
        }
        let by = |manager, document: &Value| Write::Apply {
            manager,
            document: document.clone(),
        };
        let (one, two) = (by("one", &first), by("two", &second));
        let forward = widgets.run(&widgets.run(&widgets.zero, &one), &two);
        let backward = widgets.run(&widgets.run(&widgets.zero, &two), &one);
        prop_assert_eq!(sorted(&strip(&forward)), sorted(&strip(&backward)));
        let owners = |object: &Value| -> Vec<(String, String)> {
            let managers = decode(object).unwrap();
            managers
                .into_iter()
                .map(|owner| (owner.name, owner.set.to_fields_v1_text()))
                .collect()
        };
        prop_assert_eq!(owners(&forward), owners(&backward));
        Ok(())
    });
}

/// Makes the keys and items of a value differ from all generated ones.
fn rename(value: &mut Value) {
    match value {
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::String(text) => text.push('2'),
                    item => {
                        let name = item["name"].as_str().unwrap_or_default().to_owned();
                        item["name"] = json!(format!("{name}2"));
                    }
                }
            }
        }
        Value::Object(map) => {
            *map = std::mem::take(map)
                .into_iter()
                .map(|(key, value)| (key + "2", value))
                .collect();
        }
        _ => {}
    }
}

fn strip(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"] = Value::Null;
    object
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(sorted).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), sorted(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), without_empty(value)))
                .filter(|(_, value)| match value {
                    Value::Null => false,
                    Value::Object(map) => !map.is_empty(),
                    Value::Array(items) => !items.is_empty(),
                    _ => true,
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_empty).collect()),
        other => other.clone(),
    }
}

/// A small Deployment with some of its lists.
fn deployment() -> impl Strategy<Value = Value> {
    let env = btree_map(word(), word(), 0..3).prop_map(|env| {
        Value::Array(
            env.iter()
                .map(|(name, value)| json!({"name": name, "value": value}))
                .collect(),
        )
    });
    let container = (proptest::option::of(env), proptest::option::of(word()));
    let containers = btree_map(word(), container, 0..4)
        .prop_map(|map| map.into_iter().collect::<Vec<_>>())
        .prop_shuffle();
    (
        containers,
        words(),
        btree_map(word(), word(), 0..3),
        proptest::option::of(0i64..3),
    )
        .prop_map(|(containers, finalizers, labels, replicas)| {
            let containers = containers.into_iter().map(|(name, (env, image))| {
                let mut container = json!({"name": name});
                if let Some(env) = env {
                    container["env"] = env;
                }
                if let Some(image) = image {
                    container["image"] = json!(image);
                }
                container
            });
            let mut object = json!({"kind": "Deployment",
                "metadata": {"labels": labels, "finalizers": finalizers},
                "spec": {"template": {"spec": {"containers": containers.collect::<Vec<_>>()}}}});
            if let Some(replicas) = replicas {
                object["spec"]["replicas"] = json!(replicas);
            }
            object
        })
}

fn deployment_schema() -> SchemaView<'static> {
    builtin().schema("apps", "v1", "Deployment").unwrap()
}

#[test]
fn created_patches_lead_to_the_target() {
    check(150, (any_json(), any_json()), |(old, new)| {
        let (old, new) = (without_empty(&old), without_empty(&new));
        if old.is_object() && new.is_object() {
            let patch = merge_patch::create(&old, &new).unwrap();
            prop_assert_eq!(merge_patch::apply(&old, &patch).unwrap(), new);
        }
        Ok(())
    });
    check(150, (deployment(), deployment()), |(old, new)| {
        let patch = strategic::create(&old, &new, deployment_schema()).unwrap();
        let reached = strategic::apply(&old, &patch, deployment_schema()).unwrap();
        prop_assert_eq!(without_empty(&reached), without_empty(&new), "by {}", patch);
        Ok(())
    });
}

#[test]
fn three_way_patches_apply_what_changed_and_keep_the_rest() {
    check(
        100,
        (deployment(), deployment(), deployment()),
        |(original, modified, current)| {
            let schema = deployment_schema();
            let patch =
                strategic::create_three_way(&original, &modified, &current, schema).unwrap();
            let reached = strategic::apply(&current, &patch, schema).unwrap();
            // Applying again from what is reached changes nothing.
            let again =
                strategic::create_three_way(&modified, &modified, &reached, schema).unwrap();
            prop_assert_eq!(strategic::apply(&reached, &again, schema).unwrap(), reached);
            Ok(())
        },
    );
}
