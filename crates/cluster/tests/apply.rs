//! Properties of server-side apply through the whole server: defaults, checks, storage and all.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use everflow_cluster::env::ManualEnvironment;
use everflow_cluster::time::Timestamp;
use everflow_cluster::{ApiServer, Body, Options, Request};
use everflow_json::{Value, json};
use proptest::collection::btree_map;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

const PATHS: [(&str, &str); 3] = [
    ("ConfigMap", "/api/v1/namespaces/default/configmaps/x"),
    ("Service", "/api/v1/namespaces/default/services/x"),
    (
        "Deployment",
        "/apis/apps/v1/namespaces/default/deployments/x",
    ),
];

/// What is checked for many cases, the same ones every time.
fn check<S: Strategy>(cases: u32, strategy: S, test: impl Fn(S::Value)) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let chance = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    TestRunner::new_with_rng(config, chance)
        .run(&strategy, |value| {
            test(value);
            Ok(())
        })
        .unwrap();
}

struct Cluster {
    server: ApiServer,
    env: Arc<ManualEnvironment>,
}

impl Cluster {
    fn new() -> Self {
        let env = Arc::new(ManualEnvironment::new(
            Timestamp::from_seconds(1_794_740_000),
            9,
        ));
        let server = ApiServer::new(env.clone(), Options::default());
        Cluster { server, env }
    }

    fn apply(&self, kind: usize, manager: &str, force: bool, parts: &Parts) -> (u16, Value) {
        self.env.advance_micros(1_000_000);
        let path = format!("{}?fieldManager={manager}&force={force}", PATHS[kind].1);
        let body = parts.object(kind).to_string();
        let request = Request::new("PATCH", &path, body)
            .header("content-type", "application/apply-patch+yaml")
            .header("accept", "application/json");
        let answer = self.server.handle(&request);
        let Body::Full(bytes) = answer.body else {
            panic!("no stream was asked for");
        };
        (answer.status, everflow_json::from_slice(&bytes).unwrap())
    }
}

/// What an applier wants of an object.
#[derive(Clone, Debug)]
struct Parts {
    labels: std::collections::BTreeMap<String, String>,
    annotations: std::collections::BTreeMap<String, String>,
    /// Entries of a ConfigMap; environment variables of a container; ports of a Service.
    entries: std::collections::BTreeMap<u8, String>,
    container: Option<String>,
    replicas: Option<u8>,
}

fn parts(prefix: &'static str) -> impl Strategy<Value = Parts> {
    let key =
        prop::sample::select(vec!["a", "b", "c"]).prop_map(move |key| format!("{prefix}{key}"));
    let word = || prop::sample::select(vec!["one", "two"]).prop_map(str::to_owned);
    (
        btree_map(key.clone(), word(), 0..3),
        btree_map(key, word(), 0..3),
        btree_map(0u8..4, word(), 0..3),
        option::of(word()),
        option::of(0u8..3),
    )
        .prop_map(
            |(labels, annotations, entries, container, replicas)| Parts {
                labels,
                annotations,
                entries,
                container,
                replicas,
            },
        )
}

impl Parts {
    fn object(&self, kind: usize) -> Value {
        let mut object = json!({"kind": PATHS[kind].0, "metadata": {"name": "x"}});
        for (key, map) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if !map.is_empty() {
                object["metadata"][key] = json!(map);
            }
        }
        match kind {
            0 => {
                object["apiVersion"] = "v1".into();
                for (index, value) in &self.entries {
                    object["data"][format!("k{index}")] = value.as_str().into();
                }
            }
            1 => {
                object["apiVersion"] = "v1".into();
                // A Service needs a port; all appliers agree on that one.
                let mut ports = vec![json!({"name": "base", "port": 70})];
                for (index, value) in &self.entries {
                    let target = value.len() as u64 * 1000;
                    ports.push(json!({"name": format!("p{index}"), "port": 80 + u64::from(*index), "targetPort": target}));
                }
                object["spec"] = json!({"ports": ports});
                if let Some(word) = &self.container {
                    object["spec"]["selector"] = json!({"app": word});
                }
            }
            _ => {
                object["apiVersion"] = "apps/v1".into();
                let env: Vec<Value> = self
                    .entries
                    .iter()
                    .map(|(index, value)| json!({"name": format!("E{index}"), "value": value}))
                    .collect();
                let mut containers = vec![json!({"name": "base", "image": "i"})];
                if !env.is_empty() {
                    containers[0]["env"] = env.into();
                }
                if let Some(name) = &self.container {
                    containers.push(json!({"name": name, "image": "j"}));
                }
                object["spec"] = json!({"selector": {"matchLabels": {"app": "x"}},
                    "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers}}});
                if let Some(replicas) = self.replicas {
                    object["spec"]["replicas"] = replicas.into();
                }
            }
        }
        object
    }
}

/// Every field that somebody owns is there.
fn assert_owned(fields: &Value, value: &Value, path: &str) {
    for (key, below) in fields.as_object().unwrap() {
        let here = format!("{path}/{key}");
        if let Some(name) = key.strip_prefix("f:") {
            let part = value.get(name);
            assert!(part.is_some(), "{here} is owned and not there");
            assert_owned(below, part.unwrap(), &here);
        } else if let Some(keys) = key.strip_prefix("k:") {
            let keys: Value = everflow_json::from_str(keys).unwrap();
            let is_it = |item: &&Value| {
                let mut keys = keys.as_object().unwrap().iter();
                keys.all(|(key, wanted)| &item[key] == wanted)
            };
            let mut items = value.as_array().unwrap().iter();
            let item = items.find(is_it);
            assert!(item.is_some(), "{here} is owned and not there");
            assert_owned(below, item.unwrap(), &here);
        } else {
            assert_eq!(key, ".", "{here}");
        }
    }
}

fn managers(object: &Value) -> Vec<Value> {
    let list = object["metadata"]["managedFields"].as_array();
    list.cloned().unwrap_or_default()
}

/// Ownership is sound: one entry for each manager, and only of what is there.
fn assert_sound(object: &Value) {
    let mut seen = std::collections::BTreeSet::new();
    for entry in managers(object) {
        let id = format!(
            "{} {} {}",
            entry["manager"], entry["operation"], entry["subresource"]
        );
        assert!(seen.insert(id), "a manager twice: {object}");
        assert_owned(&entry["fieldsV1"], object, "");
    }
}

fn step() -> impl Strategy<Value = (usize, bool, Parts)> {
    (0usize..3, any::<bool>(), parts(""))
}

#[test]
fn ownership_stays_valid_and_apply_is_idempotent() {
    let steps = (0usize..3, prop::collection::vec(step(), 1..8));
    check(48, steps, |(kind, steps)| {
        let cluster = Cluster::new();
        let mut before = Value::Null;
        for (manager, force, parts) in steps {
            let manager = ["ann", "bob", "cyd"][manager];
            let (status, object) = cluster.apply(kind, manager, force, &parts);
            if status == 409 {
                assert!(!force, "force takes what it wants: {object}");
                let causes = object["details"]["causes"].as_array().unwrap();
                assert!(!causes.is_empty());
                continue;
            }
            assert!(status == 200 || status == 201, "{status}: {object}");
            assert_sound(&object);
            // What was asked for is there and owned.
            let entry = managers(&object);
            let mut entry = entry.iter();
            let entry =
                entry.find(|entry| entry["manager"] == manager && entry["operation"] == "Apply");
            let asked = parts.object(kind);
            let bare = asked["metadata"] == json!({"name": "x"}) && asked.get("data").is_none();
            assert_eq!(entry.is_some(), kind > 0 || !bare, "{object}");
            // The same once more is nothing at all.
            let (status, again) = cluster.apply(kind, manager, false, &parts);
            assert_eq!((status, &again), (200, &object));
            before = again;
        }
        // Whoever applies nothing but the name gives everything back.
        if !before.is_null() && kind == 0 {
            let nothing = Parts {
                labels: Default::default(),
                annotations: Default::default(),
                entries: Default::default(),
                container: None,
                replicas: None,
            };
            for manager in ["ann", "bob", "cyd"] {
                before = cluster.apply(kind, manager, false, &nothing).1;
            }
            assert_eq!(
                (before.get("data"), before["metadata"].get("labels")),
                (None, None)
            );
            assert_eq!(managers(&before), Vec::<Value>::new());
        }
    });
}

/// An object without what depends on the moment, its lists of named things in one order.
fn settled(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let moment = [
                "resourceVersion",
                "uid",
                "creationTimestamp",
                "time",
                "generation",
            ];
            let drawn = ["clusterIP", "clusterIPs"];
            map.iter()
                .filter(|(key, _)| {
                    !moment.contains(&key.as_str()) && !drawn.contains(&key.as_str())
                })
                .map(|(key, value)| (key.clone(), settled(value)))
                .collect()
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(settled).collect();
            items.sort_by_key(ToString::to_string);
            items.into()
        }
        other => other.clone(),
    }
}

#[test]
fn independent_appliers_commute() {
    // The base is everybody's; the rest is of one alone.
    let both = (0usize..3, parts("ann-"), parts("bob-"), parts("cyd-"));
    check(48, both, |(kind, ann, mut bob, mut cyd)| {
        let keep = |parts: &mut Parts, turn: u8| {
            let entries = std::mem::take(&mut parts.entries).into_iter();
            parts.entries = entries
                .map(|(key, value)| (key + 10 * turn, value))
                .collect();
            (parts.container, parts.replicas) = (None, None);
        };
        keep(&mut bob, 1);
        keep(&mut cyd, 2);
        let orders = [[0, 1, 2], [2, 1, 0], [1, 2, 0]];
        let mut results = Vec::new();
        for order in orders {
            let cluster = Cluster::new();
            let mut last = Value::Null;
            for index in order {
                let (name, parts) = [("ann", &ann), ("bob", &bob), ("cyd", &cyd)][index];
                let (status, object) = cluster.apply(kind, name, false, parts);
                assert!(status < 300, "{status}: {object}");
                assert_sound(&object);
                last = object;
            }
            results.push(settled(&last));
        }
        assert_eq!(results[0], results[1]);
        assert_eq!(results[0], results[2]);
    });
}
