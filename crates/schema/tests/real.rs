//! Against a real kube-apiserver, when `EVERFLOW_REAL=1` asks for it.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::path::PathBuf;

use everflow_corpus::real::{ApiServer, Request};
use everflow_json::{Value, json};
use everflow_schema::openapi::{custom_resources_v3, documents};
use everflow_schema::structural::{
    FieldError, Prune, Validator, apply_defaults, check_embedded, check_lists, embedded_type_error,
    prune, prune_nulls,
};
use everflow_schema::{Schema, builtin, protobuf};

/// A real API server, when `EVERFLOW_REAL` asks for it.
struct Server(ApiServer);

impl Server {
    fn start() -> Option<Self> {
        ApiServer::start("schema").map(Server)
    }

    /// What the server answers, in the given form.
    fn get(&self, path: &str, accept: &str) -> Vec<u8> {
        self.send(Request {
            method: "GET",
            path,
            headers: vec![("Accept", accept.to_owned())],
            body: None,
        })
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let answer = self.send(Request {
            method,
            path,
            headers: vec![("Content-Type", "application/json".to_owned())],
            body: body.map(|body| body.to_string().into_bytes()),
        });
        everflow_json::from_slice(&answer).unwrap_or(Value::Null)
    }

    fn send(&self, request: Request<'_>) -> Vec<u8> {
        self.0.send(&[request]).remove(0).body
    }
}

#[test]
fn documents_are_those_that_the_server_publishes() {
    let Some(server) = Server::start() else {
        return;
    };
    assert_eq!(
        server.ask("GET", "/openapi/v2", None),
        documents().v2().unwrap()
    );
    let index = server.ask("GET", "/openapi/v3", None);
    for path in index["paths"].as_object().unwrap().keys() {
        let published = server.ask("GET", &format!("/openapi/v3/{path}"), None);
        assert_eq!(published, documents().v3(path).unwrap(), "{path}");
    }
    let definitions = definitions();
    for definition in &definitions {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let answer = server.ask("POST", path, Some(definition));
        assert_eq!(answer["kind"], "CustomResourceDefinition", "{answer}");
    }
    let mut versions: Vec<(String, String)> = definitions
        .iter()
        .flat_map(|definition| {
            let group = definition["spec"]["group"].as_str().unwrap();
            let versions = definition["spec"]["versions"].as_array().unwrap();
            versions.iter().map(move |version| {
                (
                    group.to_owned(),
                    version["name"].as_str().unwrap().to_owned(),
                )
            })
        })
        .collect();
    versions.sort();
    versions.dedup();
    for (group, version) in versions {
        let ours = normal(custom_resources_v3(&definitions, &group, &version));
        let path = format!("/openapi/v3/apis/{group}/{version}");
        // The document follows the definitions after a moment.
        let mut published = Value::Null;
        for _ in 0..100 {
            published = normal(server.ask("GET", &path, None));
            if published == ours {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        assert_eq!(published, ours, "{path}");
    }
}

/// The server lists other groups' versions of `DeleteOptions` that mean nothing here.
fn normal(mut document: Value) -> Value {
    let options = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
    if let Some(schema) = document["components"]["schemas"].get_mut(options) {
        schema["x-kubernetes-group-version-kind"] = Value::Null;
    }
    document
}

fn definitions() -> Vec<Value> {
    let mut definitions = vec![json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.wide.everflow.test"},
        "spec": {
            "group": "wide.everflow.test",
            "scope": "Cluster",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [
                {
                    "name": "v1", "served": true, "storage": true,
                    "selectableFields": [{"jsonPath": ".spec.a"}],
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                    },
                    "schema": {"openAPIV3Schema": {
                        "type": "object",
                        "description": "A widget",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["a"],
                                "properties": {
                                    "a": {"type": "string", "default": "x", "enum": ["x", "y"], "nullable": true},
                                    "replicas": {"type": "integer", "format": "int32"},
                                    "either": {
                                        "x-kubernetes-int-or-string": true,
                                        "anyOf": [{"type": "integer"}, {"type": "string"}],
                                    },
                                    "object": {
                                        "type": "object",
                                        "x-kubernetes-embedded-resource": true,
                                        "x-kubernetes-preserve-unknown-fields": true,
                                    },
                                    "any": {"x-kubernetes-preserve-unknown-fields": true},
                                    "map": {
                                        "type": "object",
                                        "additionalProperties": {"type": "integer", "format": "int64"},
                                        "x-kubernetes-map-type": "atomic",
                                    },
                                },
                                "oneOf": [{"required": ["a"]}],
                            },
                            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                        },
                    }},
                },
                {
                    "name": "v1beta1", "served": true, "storage": false,
                    "schema": {"openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    }},
                },
            ],
        },
    })];
    if let Some(corpus) = everflow_corpus::find("apiserver") {
        let mut files: Vec<PathBuf> = std::fs::read_dir(corpus.join("fixtures/crds"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        definitions.extend(
            files
                .iter()
                .map(|file| everflow_json::from_slice(&std::fs::read(file).unwrap()).unwrap()),
        );
    }
    definitions
}

/// A small generator of numbers with a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn value(&mut self, depth: usize) -> Value {
        let scalars = [
            json!(null),
            json!(true),
            json!(false),
            json!(0),
            json!(1),
            json!(-1),
            json!(6),
            json!(2_147_483_648_u32),
            json!(9_007_199_254_740_993_i64),
            json!(1.5),
            json!(1.0),
            json!(0.3),
            json!(1e20),
            json!(""),
            json!("a"),
            json!("b"),
            json!("abcd"),
            json!("ééé"),
            json!("1"),
            json!("50%"),
            json!("x y"),
            json!("2020-01-01T00:00:00Z"),
            json!("2020-01-01"),
            json!("1h"),
            json!("YQ=="),
            json!("10.0.0.1"),
            json!("http://a/b"),
        ];
        match self.below(if depth == 0 { 8 } else { 12 }) {
            0..8 => scalars[self.below(scalars.len())].clone(),
            8 | 9 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
            _ => {
                let names = ["a", "b", "n", "kind", "apiVersion", "other"];
                let count = self.below(4);
                let pairs = (0..count).map(|_| {
                    (
                        names[self.below(names.len())].to_owned(),
                        self.value(depth - 1),
                    )
                });
                Value::Object(pairs.collect())
            }
        }
    }
}

/// Properties that use every keyword.
fn properties() -> Value {
    let text = json!({"type": "string"});
    json!({
        "text": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[a-z]+$"},
        "nullable": {"type": "string", "nullable": true, "enum": ["a", "b"]},
        "default": {"type": "string", "default": "a"},
        "integer": {"type": "integer", "minimum": 1, "maximum": 5},
        "small": {"type": "integer", "format": "int32"},
        "multiple": {"type": "integer", "multipleOf": 3},
        "number": {"type": "number", "minimum": 0.5, "exclusiveMinimum": true, "maximum": 6, "exclusiveMaximum": true},
        "tenth": {"type": "number", "multipleOf": 0.1},
        "float": {"type": "number", "format": "float"},
        "boolean": {"type": "boolean"},
        "time": {"type": "string", "format": "date-time"},
        "date": {"type": "string", "format": "date"},
        "duration": {"type": "string", "format": "duration"},
        "byte": {"type": "string", "format": "byte"},
        "address": {"type": "string", "format": "ipv4"},
        "uri": {"type": "string", "format": "uri"},
        "unheard": {"type": "string", "format": "unheard-of"},
        "choice": {"type": "integer", "enum": [1, 6, 97]},
        "either": {"x-kubernetes-int-or-string": true, "pattern": "^[0-9]+%?$"},
        "declared": {
            "x-kubernetes-int-or-string": true,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
        },
        "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": text},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "map": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
            "items": {"type": "object", "required": ["n"], "properties": {"n": text, "a": {"type": "integer"}}},
        },
        "values": {
            "type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": {"type": "integer"},
        },
        "object": {
            "type": "object", "required": ["a", "b"],
            "properties": {"a": {"type": "integer", "default": 3}, "b": text, "n": {"type": "boolean"}},
        },
        "embedded": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
        },
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "one": {
            "type": "object", "properties": {"a": text, "b": text},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        "some": {"type": "integer", "anyOf": [{"minimum": 6}, {"maximum": 0}], "not": {"enum": [-1]}},
        "all": {"type": "string", "allOf": [{"minLength": 2}, {"pattern": "^a"}]},
    })
}

/// A definition of things with the given schema.
fn things(schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.random.everflow.test"},
        "spec": {
            "group": "random.everflow.test", "scope": "Cluster",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/random.everflow.test/v1/things";

fn seed() -> u64 {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    eprintln!("SEED={seed}");
    seed
}

/// Repeats a check until it holds, for ten seconds.
fn eventually(check: impl Fn() -> bool) {
    for _ in 0..50 {
        if check() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    panic!("not in ten seconds");
}

/// The first answer that is good, or the last of a few: a server that has just begun still changes.
fn settled<T>(ask: impl Fn() -> T, good: impl Fn(&T) -> bool) -> T {
    for _ in 0..5 {
        let answer = ask();
        if good(&answer) {
            return answer;
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    ask()
}

/// The strict schema and the names of its properties.
fn strict() -> (Value, Vec<String>) {
    let properties = properties();
    let names = properties
        .as_object()
        .unwrap()
        .keys()
        .map(ToString::to_string)
        .collect();
    (
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}),
        names,
    )
}

fn thing(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "random.everflow.test/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

fn random_spec(random: &mut Random, names: &[String], round: usize) -> Value {
    let mut spec = everflow_json::Map::new();
    for _ in 0..=random.below(3) {
        let known = &names[(round + random.below(5)) % names.len()];
        let name = if random.below(30) == 0 {
            "unknown"
        } else {
            known
        };
        spec.insert(name.into(), random.value(2));
    }
    spec.into()
}

#[test]
fn random_objects_are_refused_alike() {
    let Some(server) = Server::start() else {
        return;
    };
    let (schema, names) = strict();
    let definition = things(&schema);
    assert!(
        everflow_schema::crd::check_definition(&definition)
            .errors
            .is_empty()
    );
    let answer = server.ask("POST", DEFINITIONS, Some(&definition));
    assert_eq!(answer["kind"], "CustomResourceDefinition", "{answer}");
    eventually(|| server.ask("GET", THINGS, None)["kind"] == "ThingList");
    let validator = Validator::new(Schema::from_structural(&schema).unwrap());
    let mut random = Random(seed());
    let mut wrong = Vec::new();
    for round in 0..600 {
        let object = thing("x", random_spec(&mut random, &names, round));
        let ours = our_answer(&validator, object.clone(), None);
        let ask = || server.ask("POST", &format!("{THINGS}?dryRun=All"), Some(&object));
        // The server may still be taking the new kind in.
        let answer = settled(ask, |answer| ours == their_answer(answer));
        let theirs = their_answer(&answer);
        if ours != theirs {
            wrong.push(format!(
                "{}\n  ours   {ours}\n  theirs {theirs} {}",
                object["spec"], answer["message"]
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn unchanged_parts_may_stay_invalid() {
    let Some(server) = Server::start() else {
        return;
    };
    let (schema, names) = strict();
    let lax = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    server.ask("POST", DEFINITIONS, Some(&things(&lax)));
    eventually(|| server.ask("GET", THINGS, None)["kind"] == "ThingList");
    let mut random = Random(seed());
    for round in 0..100 {
        let object = thing(
            &format!("t{round}"),
            random_spec(&mut random, &names, round),
        );
        let answer = server.ask("POST", THINGS, Some(&object));
        assert_eq!(answer["kind"], "Thing", "{answer}");
    }
    let path = format!("{DEFINITIONS}/things.random.everflow.test");
    let mut definition = server.ask("GET", &path, None);
    definition["spec"]["versions"] = things(&schema)["spec"]["versions"].clone();
    assert_eq!(
        server.ask("PUT", &path, Some(&definition))["kind"],
        "CustomResourceDefinition"
    );
    let probe = thing("probe", json!({"boolean": 1}));
    eventually(|| server.ask("POST", &format!("{THINGS}?dryRun=All"), Some(&probe))["code"] == 422);
    let validator = Validator::new(Schema::from_structural(&schema).unwrap());
    let mut tolerated = 0;
    let mut wrong = Vec::new();
    for round in 0..300 {
        let path = format!("{THINGS}/t{}", round % 100);
        let old = server.ask("GET", &path, None);
        let mut object = old.clone();
        for _ in 0..random.below(3) {
            object["spec"][&names[(round + random.below(5)) % names.len()]] = random.value(2);
        }
        object["metadata"]["labels"] = json!({"round": round.to_string()});
        let answer = server.ask("PUT", &format!("{path}?dryRun=All"), Some(&object));
        let (ours, theirs) = (
            our_answer(&validator, object.clone(), Some(&old)),
            their_answer(&answer),
        );
        tolerated +=
            usize::from(answer["kind"] == "Thing" && !validator.validate(&object).is_empty());
        if ours != theirs {
            let (before, after) = (&old["spec"], &object["spec"]);
            wrong.push(format!(
                "{before}\n  to     {after}\n  ours   {ours}\n  theirs {theirs} {answer}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        tolerated > 20,
        "only {tolerated} invalid values were tolerated"
    );
}

/// The stored spec, or the sorted causes.
fn our_answer(validator: &Validator, mut object: Value, old: Option<&Value>) -> Value {
    let schema = validator.schema().view();
    prune(
        &mut object,
        schema,
        Prune {
            resource_root: true,
        },
    );
    prune_nulls(&mut object, schema);
    apply_defaults(&mut object, schema);
    if let Some(error) = embedded_type_error(&object, schema) {
        return json!(format!(
            "Thing in version \"v1\" cannot be handled as a Thing: {error}"
        ));
    }
    let mut errors = match old {
        Some(old) => validator.validate_update(&object, old),
        None => validator.validate(&object),
    };
    errors.extend(check_embedded(&object, schema, &|_, _| Vec::new()));
    if old.is_none_or(|old| check_lists(old, schema).is_empty()) {
        errors.extend(check_lists(&object, schema));
    }
    if errors.is_empty() {
        return json!({"spec": plain(&object["spec"])});
    }
    let cause = |error: &FieldError| json!([error.kind.reason(), error.field, error.message()]);
    sorted(errors.iter().map(cause).collect())
}

fn their_answer(answer: &Value) -> Value {
    match answer["kind"].as_str() {
        Some("Thing") => json!({"spec": plain(&answer["spec"])}),
        _ if answer["code"] == 400 => answer["message"].clone(),
        _ => causes(answer),
    }
}

fn causes(answer: &Value) -> Value {
    let causes = answer["details"]["causes"].as_array().into_iter().flatten();
    sorted(
        causes
            .map(|cause| json!([cause["reason"], cause["field"], cause["message"]]))
            .collect(),
    )
}

fn sorted(mut causes: Vec<Value>) -> Value {
    causes.sort_by_key(Value::to_string);
    causes.into()
}

/// All numbers as floats: how whole floats are written differs.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), plain(value)))
            .collect(),
        other => other.clone(),
    }
}

#[test]
fn lists_of_all_kinds_decode_and_encode() {
    let Some(server) = Server::start() else {
        return;
    };
    let mut items = 0;
    for resource in builtin().resources() {
        // What cannot be watched is not stored, and comes in any order.
        if !resource.verbs.iter().any(|verb| verb == "watch") {
            continue;
        }
        let root = if resource.group.is_empty() {
            "/api".to_owned()
        } else {
            format!("/apis/{}", resource.group)
        };
        let path = format!("{root}/{}/{}", resource.version, resource.plural);
        // The server, which has just begun, may make an object between the two requests.
        let alike = |(decoded, json): &(Value, Value)| decoded == json;
        let (decoded, json) = settled(|| both_forms(&server, &path), alike);
        items += json["items"].as_array().map_or(0, Vec::len);
        assert_eq!(decoded, json, "{path}");
    }
    assert!(items > 100, "only {items} objects");
}

/// A list as protobuf and as JSON says it, but for what changes all the time.
fn both_forms(server: &Server, path: &str) -> (Value, Value) {
    let body = server.get(path, "application/vnd.kubernetes.protobuf");
    let mut json: Value = everflow_json::from_slice(&server.get(path, "application/json")).unwrap();
    let mut decoded = protobuf::decode(&body).unwrap();
    if json["items"] == json!([]) {
        json["items"] = Value::Null;
    }
    let encoded = protobuf::decode(&protobuf::encode(&json).unwrap()).unwrap();
    assert_eq!(encoded, json, "{path}");
    for list in [&mut json, &mut decoded] {
        list["metadata"] = Value::Null;
        for item in list["items"].as_array_mut().into_iter().flatten() {
            for key in ["resourceVersion", "managedFields"] {
                item["metadata"].as_object_mut().unwrap().remove(key);
            }
            item["spec"]
                .as_object_mut()
                .map(|spec| spec.remove("renewTime"));
        }
    }
    (decoded, json)
}
