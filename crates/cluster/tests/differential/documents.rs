//! Random requests on a few kinds whose documents are valid in themselves.

use std::fmt;

use everflow_json::{Map, Value, json};

use crate::random::Random;
use crate::recorded::{self, Sample};

/// One request.
#[derive(Debug, Clone)]
pub struct Operation {
    pub method: String,
    pub path: String,
    pub content_type: &'static str,
    pub body: String,
}

impl Operation {
    pub fn new(method: &str, path: String, content_type: &'static str, body: &Value) -> Self {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        Self {
            method: method.to_owned(),
            path,
            content_type,
            body,
        }
    }

    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("user-agent", "tester/1.0".to_owned()),
            ("accept", "application/json".to_owned()),
        ];
        if !self.body.is_empty() {
            headers.push(("content-type", self.content_type.to_owned()));
        }
        headers
    }

    /// The path of the object that the request is about.
    pub fn object(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        let path = path
            .strip_suffix("/status")
            .or(path.strip_suffix("/scale"))
            .unwrap_or(path);
        match self.method.as_str() {
            "POST" => {
                let body: Value = everflow_json::from_str(&self.body).unwrap_or_default();
                format!(
                    "{path}/{}",
                    body["metadata"]["name"].as_str().unwrap_or_default()
                )
            }
            _ => path.to_owned(),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.content_type.trim_start_matches("application/");
        write!(f, "{} {} {kind} {}", self.method, self.path, self.body)
    }
}

const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const NAMESPACE: &str = "differential";

/// What has to be there first: namespaces and the definition of widgets.
pub fn setup(samples: &[Sample]) -> Vec<Operation> {
    let text = json!({"type": "string"});
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": text, "port": {"type": "integer", "default": 80}, "v": text,
        "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set"}}});
    let spec = json!({"type": "object", "properties": {
        "text": text, "count": {"type": "integer"}, "dflt": {"type": "string", "default": "d"},
        "plain": {"type": "array", "items": text},
        "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "map": {"type": "array", "items": item, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "port"]},
        "dict": {"type": "object", "additionalProperties": text},
        "whole": {"type": "object", "additionalProperties": text, "x-kubernetes-map-type": "atomic"},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "ios": {"x-kubernetes-int-or-string": true}}});
    let schema = json!({"type": "object", "properties": {"spec": spec,
        "status": {"type": "object", "properties": {"n": {"type": "integer"}, "text": text}}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.differential.io"},
        "spec": {"group": "differential.io", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}]}});
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let mut operations = vec![
        Operation::new("POST", "/api/v1/namespaces".to_owned(), JSON, &namespace),
        Operation::new(
            "POST",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
            JSON,
            &definition,
        ),
    ];
    let mut names: Vec<String> = samples
        .iter()
        .filter(|sample| sample.namespaced)
        .map(Sample::namespace)
        .collect();
    names.sort();
    names.dedup();
    for name in names {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        operations.push(Operation::new(
            "POST",
            "/api/v1/namespaces".to_owned(),
            JSON,
            &namespace,
        ));
    }
    operations
}

#[derive(Clone, Copy)]
enum Kind<'s> {
    ConfigMap,
    ServiceAccount,
    Deployment,
    Widget,
    Recorded(&'s Sample),
}

impl Kind<'_> {
    fn is_widget(self) -> bool {
        matches!(self, Self::Widget)
    }

    fn collection(self) -> String {
        let (prefix, plural) = match self {
            Self::Recorded(sample) => return sample.collection(),
            Self::ConfigMap => ("/api/v1", "configmaps"),
            Self::ServiceAccount => ("/api/v1", "serviceaccounts"),
            Self::Deployment => ("/apis/apps/v1", "deployments"),
            Self::Widget => ("/apis/differential.io/v1", "widgets"),
        };
        format!("{prefix}/namespaces/{NAMESPACE}/{plural}")
    }

    fn document(self, random: &mut Random, name: &str) -> Value {
        match self {
            Self::ConfigMap => config_map(random, name),
            Self::ServiceAccount => service_account(random, name),
            Self::Deployment => deployment(random, name),
            Self::Widget => widget(random, name),
            Self::Recorded(sample) => recorded::document(random, sample, name),
        }
    }
}

/// A number of requests on objects of their own.
pub fn sequence(
    random: &mut Random,
    samples: &[Sample],
    round: usize,
    length: usize,
) -> Vec<Operation> {
    let kinds = [
        Kind::ConfigMap,
        Kind::ServiceAccount,
        Kind::Deployment,
        Kind::Widget,
        Kind::Widget,
    ];
    let objects: Vec<(Kind<'_>, String)> = (0..4)
        .map(|index| {
            let kind = match samples {
                [] => *random.pick(&kinds),
                _ if random.one_in(3) => *random.pick(&kinds),
                _ => Kind::Recorded(random.pick(samples)),
            };
            (kind, format!("r{round}-{index}"))
        })
        .collect();
    (0..length)
        .map(|_| {
            let (kind, name) = random.pick(&objects).clone();
            operation(random, kind, &name)
        })
        .collect()
}

fn operation(random: &mut Random, kind: Kind<'_>, name: &str) -> Operation {
    let path = format!("{}/{name}", kind.collection());
    let manager = *random.pick(&["one", "two", "three", "kubectl"]);
    let dry = match kind {
        Kind::Recorded(sample) if sample.is_dry() => "&dryRun=All",
        _ => "",
    };
    let by = format!("fieldManager={manager}{dry}");
    match random.below(16) {
        0..=6 => {
            let force = random.one_in(2);
            let document = kind.document(random, name);
            Operation::new(
                "PATCH",
                format!("{path}?{by}&force={force}"),
                APPLY,
                &document,
            )
        }
        7 | 8 => {
            let document = kind.document(random, name);
            Operation::new(
                "POST",
                format!("{}?{by}", kind.collection()),
                JSON,
                &document,
            )
        }
        9 | 10 => {
            let change = change(random, kind, name);
            Operation::new("PATCH", format!("{path}?{by}"), MERGE, &change)
        }
        11 if !kind.is_widget() => {
            let change = change(random, kind, name);
            Operation::new("PATCH", format!("{path}?{by}"), STRATEGIC, &change)
        }
        11 => {
            let status = json!({"status": {"n": random.below(3)}});
            Operation::new("PATCH", format!("{path}/status?{by}"), MERGE, &status)
        }
        12 => {
            let patch = json_patch(random);
            Operation::new("PATCH", format!("{path}?{by}"), JSON_PATCH, &patch)
        }
        13 if !kind.is_widget() => {
            let document = kind.document(random, name);
            Operation::new("PUT", format!("{path}?{by}"), JSON, &document)
        }
        14 if random.one_in(3) => Operation::new("DELETE", path, JSON, &Value::Null),
        _ => Operation::new("GET", path, JSON, &Value::Null),
    }
}

fn texts(random: &mut Random, keys: &[&str]) -> Value {
    let keys = random.some(keys, 0);
    let entries = keys
        .into_iter()
        .map(|key| (key.to_owned(), json!(random.pick(&["1", "2", "<x>"]))));
    Value::Object(entries.collect())
}

fn metadata(random: &mut Random, name: &str) -> Value {
    let mut metadata = json!({"name": name});
    if random.one_in(2) {
        let keys = random.some(&["a", "b"], 1);
        let labels = keys
            .into_iter()
            .map(|key| (key.to_owned(), json!(random.pick(&["1", "2"]))));
        metadata["labels"] = Value::Object(labels.collect());
    }
    if random.one_in(3) {
        let keys = random.some(&["x.io/a", "x.io/b"], 1);
        metadata["annotations"] = keys
            .into_iter()
            .map(|key| (key.to_owned(), json!("<1>")))
            .collect();
    }
    if random.one_in(6) {
        metadata["finalizers"] = json!(random.some(&["x.io/f", "x.io/g"], 1));
    }
    metadata
}

fn config_map(random: &mut Random, name: &str) -> Value {
    let mut object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(random, name)});
    if !random.one_in(4) {
        object["data"] = texts(random, &["a", "b", "c"]);
    }
    if random.one_in(12) {
        object["data"] = Value::Null;
    }
    object
}

fn service_account(random: &mut Random, name: &str) -> Value {
    let mut object =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(random, name)});
    let references = |names: Vec<&str>| -> Value {
        names
            .into_iter()
            .map(|name| json!({"name": name}))
            .collect()
    };
    if random.one_in(2) {
        object["imagePullSecrets"] = references(random.some(&["a", "b", "c"], 0));
    }
    if random.one_in(2) {
        object["secrets"] = references(random.some(&["a", "b"], 0));
    }
    if random.one_in(3) {
        object["automountServiceAccountToken"] = json!(random.one_in(2));
    }
    object
}

fn container(random: &mut Random, name: &str) -> Value {
    let mut container = json!({"name": name, "image": *random.pick(&["r:1", "r:2"])});
    if random.one_in(2) {
        let names = random.some(&["A", "B", "C"], 0);
        container["env"] = names
            .into_iter()
            .map(|name| json!({"name": name, "value": *random.pick(&["1", "2"])}))
            .collect();
    }
    if random.one_in(3) {
        let ports = random.some(&[80, 81], 1);
        container["ports"] = ports
            .into_iter()
            .map(|port| match random.one_in(2) {
                true => json!({"containerPort": port}),
                false => json!({"containerPort": port, "protocol": "TCP"}),
            })
            .collect();
    }
    if random.one_in(4) {
        container["args"] = json!(random.some(&["a", "b"], 0));
    }
    container
}

fn deployment(random: &mut Random, name: &str) -> Value {
    let names = random.some(&["app", "side", "third"], 1);
    let containers: Vec<Value> = names
        .into_iter()
        .map(|name| container(random, name))
        .collect();
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(random, name),
        "spec": {"selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers}}}});
    if random.one_in(2) {
        object["spec"]["replicas"] = json!(random.below(3));
    }
    if random.one_in(4) {
        object["spec"]["template"]["metadata"]["annotations"] = texts(random, &["t"]);
    }
    object
}

fn widget(random: &mut Random, name: &str) -> Value {
    json!({"apiVersion": "differential.io/v1", "kind": "Widget", "metadata": metadata(random, name),
        "spec": widget_spec(random)})
}

fn widget_spec(random: &mut Random) -> Value {
    let mut spec = Map::new();
    for field in random.some(
        &[
            "text", "count", "dflt", "plain", "set", "map", "dict", "whole", "any", "ios",
        ],
        0,
    ) {
        let value = match field {
            "text" | "dflt" => json!(random.pick(&["1", "2"])),
            "count" => json!(random.below(3)),
            "plain" | "set" => json!(random.some(&["a", "b", "c"], 0)),
            "map" => {
                let keys = random.some(
                    &[("a", None), ("a", Some(81)), ("b", None), ("b", Some(80))],
                    0,
                );
                let mut seen = Vec::new();
                let mut items = Vec::new();
                for (name, port) in keys {
                    if seen.contains(&(name, port.unwrap_or(80))) {
                        continue;
                    }
                    seen.push((name, port.unwrap_or(80)));
                    let mut item = json!({"name": name});
                    if let Some(port) = port {
                        item["port"] = json!(port);
                    }
                    if random.one_in(2) {
                        item["v"] = json!(random.pick(&["1", "2"]));
                    }
                    if random.one_in(3) {
                        item["tags"] = json!(random.some(&["x", "y"], 0));
                    }
                    items.push(item);
                }
                Value::Array(items)
            }
            "dict" | "whole" => texts(random, &["a", "b"]),
            "any" => random
                .pick(&[
                    json!({}),
                    json!({"a": 1}),
                    json!({"a": {"b": [1, {"c": "x"}]}}),
                    json!({"z": "s"}),
                ])
                .clone(),
            _ => random.pick(&[json!(1), json!("1")]).clone(),
        };
        spec.insert(field.into(), value);
    }
    Value::Object(spec)
}

/// A merge patch or strategic merge patch.
fn change(random: &mut Random, kind: Kind<'_>, name: &str) -> Value {
    if let Kind::Recorded(sample) = kind {
        return recorded::change(random, sample, name);
    }
    let label = random.pick(&[json!("9"), Value::Null]).clone();
    if random.one_in(3) {
        return json!({"metadata": {"labels": {"a": label}}});
    }
    match kind {
        Kind::ConfigMap => json!({"data": {"a": label, "d": *random.pick(&["1", "2"])}}),
        Kind::ServiceAccount => json!({"imagePullSecrets": [{"name": *random.pick(&["a", "d"])}]}),
        Kind::Deployment => json!({"spec": {"replicas": random.below(4)}}),
        _ => json!({"spec": widget_spec(random)}),
    }
}

fn json_patch(random: &mut Random) -> Value {
    let operation = match random.below(5) {
        0 => json!({"op": "add", "path": "/metadata/labels", "value": {"a": "7"}}),
        1 => json!({"op": "remove", "path": "/metadata/labels"}),
        2 => json!({"op": "replace", "path": "/metadata/labels/a", "value": "8"}),
        3 => json!({"op": "test", "path": "/metadata/labels/a", "value": "8"}),
        _ => json!({"op": "replace", "path": "/metadata/managedFields", "value": [{}]}),
    };
    json!([operation])
}
