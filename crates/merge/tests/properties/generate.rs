//! Random documents and writes.

use everflow_json::{Map, Value, json};
use everflow_schema::Schema;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Runs a property on a fixed number of cases, the same ones every time.
pub fn check<S: Strategy>(
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

pub fn key() -> impl Strategy<Value = String> {
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
pub fn any_json() -> impl Strategy<Value = Value> {
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
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map>())),
        ]
    })
}

pub fn operation() -> impl Strategy<Value = Value> {
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

pub fn widget_schema() -> Schema {
    Schema::for_custom_resource(&widget_definition()).unwrap()
}

/// The schema of widgets as a definition of custom resources holds it.
pub fn widget_definition() -> Value {
    let item = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "proto": {"type": "string", "default": "TCP"},
        "v": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}}});
    json!({"type": "object", "properties": {"spec": {
    "type": "object", "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "atomic": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "map": {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "proto"]},
        "dict": {"type": "object", "additionalProperties": {"type": "string"}},
        "whole": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
    }}}})
}

pub fn word() -> impl Strategy<Value = String> {
    "[abc]"
}

/// Lists are not empty: an empty one is owned by nobody and pruned with its parents, on the real
/// server, too.
pub fn words() -> impl Strategy<Value = Vec<String>> {
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

pub fn items() -> impl Strategy<Value = Value> {
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
pub fn widget() -> impl Strategy<Value = Value> {
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
        let spec: Map = fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w", "labels": {"always": "owned"}}, "spec": spec})
    })
}

/// One write: by whom, what, and how.
#[derive(Debug, Clone)]
pub enum Write {
    Apply {
        manager: &'static str,
        document: Value,
        force: bool,
    },
    Update {
        manager: &'static str,
        document: Value,
    },
}

fn manager() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("one"), Just("two"), Just("three")]
}

/// Writes that fit the schema; all applies are forced.
pub fn writes() -> impl Strategy<Value = Vec<Write>> {
    let write = prop_oneof![
        3 => (manager(), widget())
            .prop_map(|(manager, document)| Write::Apply { manager, document, force: true }),
        1 => (manager(), widget())
            .prop_map(|(manager, document)| Write::Update { manager, document }),
    ];
    vec(write, 1..7)
}

/// Writes of all kinds: forced or not, with empty lists, nulls, duplicates and wrong types.
pub fn loose_writes() -> impl Strategy<Value = Vec<Write>> {
    let odd = prop_oneof![
        8 => Just(None),
        1 => Just(Some(("text", Value::Null))),
        1 => Just(Some(("text", json!(1)))),
        1 => Just(Some(("count", json!("x")))),
        1 => Just(Some(("set", json!([])))),
        1 => Just(Some(("set", Value::Null))),
        1 => Just(Some(("set", json!(["a", "a"])))),
        1 => Just(Some(("set", json!([null])))),
        1 => Just(Some(("map", json!([])))),
        1 => Just(Some(("map", Value::Null))),
        1 => Just(Some(("map", json!([{"name": "a"}, {"name": "a", "proto": "TCP"}])))),
        1 => Just(Some(("map", json!([{"v": "a"}])))),
        1 => Just(Some(("map", json!([{"name": "a", "v": null, "tags": []}])))),
        1 => Just(Some(("map", json!("x")))),
        1 => Just(Some(("dict", Value::Null))),
        1 => Just(Some(("dict", json!({"a": null})))),
        1 => Just(Some(("dict", json!({"a": 1})))),
        1 => Just(Some(("whole", Value::Null))),
        1 => Just(Some(("whole", json!({})))),
        1 => Just(Some(("any", Value::Null))),
        1 => Just(Some(("any", json!([])))),
        1 => Just(Some(("atomic", json!([])))),
        1 => Just(Some(("atomic", Value::Null))),
        1 => Just(Some(("unknown", json!(1)))),
    ];
    let document = (widget(), odd, any::<bool>()).prop_map(|(mut document, odd, labelled)| {
        if let Some((field, value)) = odd {
            document["spec"][field] = value;
        }
        if !labelled && let Some(metadata) = document["metadata"].as_object_mut() {
            metadata.remove("labels");
        }
        document
    });
    let write = (manager(), document, any::<bool>(), 0..4u8).prop_map(
        |(manager, document, force, kind)| match kind {
            0 => Write::Update { manager, document },
            _ => Write::Apply {
                manager,
                document,
                force,
            },
        },
    );
    vec(write, 1..8)
}

/// A small Deployment with some of its lists.
pub fn deployment() -> impl Strategy<Value = Value> {
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
