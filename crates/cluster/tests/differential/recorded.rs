//! Documents of many kinds, taken from the recordings and broken at random: what manifests can get wrong has to be
//! refused in the same words.

use everflow_json::{Value, json};

use crate::random::Random;

/// A kind and a document of it that the real server took.
#[derive(Clone)]
pub struct Sample {
    pub prefix: String,
    pub plural: String,
    pub namespaced: bool,
    pub document: Value,
}

/// Kinds that would change how either server answers others, or that are made anew each time.
/// Expressions of policies are compared elsewhere.
const LEFT_OUT: [&str; 5] = [
    "Namespace",
    "CustomResourceDefinition",
    "ControllerRevision",
    "CertificateSigningRequest",
    "ValidatingAdmissionPolicy",
];

/// Kinds that would interfere if they were kept.
const DRY: [&str; 2] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
];

impl Sample {
    /// The namespace of the kind: limits and quotas must not reach others.
    pub fn namespace(&self) -> String {
        format!("differential-{}", self.plural)
    }

    pub fn collection(&self) -> String {
        if self.namespaced {
            format!(
                "{}/namespaces/{}/{}",
                self.prefix,
                self.namespace(),
                self.plural
            )
        } else {
            format!("{}/{}", self.prefix, self.plural)
        }
    }

    /// Whether nothing of the kind may be kept.
    pub fn is_dry(&self) -> bool {
        DRY.contains(&self.document["kind"].as_str().unwrap_or_default())
    }
}

/// The recorded documents; none when there are no recordings.
pub fn samples() -> Vec<Sample> {
    let Some(file) = everflow_corpus::find("apiserver/protobuf/objects.jsonl") else {
        return Vec::new();
    };
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text
        .lines()
        .map(|line| everflow_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| sample(&line)).collect()
}

fn sample(line: &Value) -> Option<Sample> {
    let mut document = line["json"].clone();
    if LEFT_OUT.contains(&document["kind"].as_str()?) {
        return None;
    }
    let path = line["path"].as_str()?;
    let (front, _) = path.rsplit_once('/')?;
    let (front, plural) = front.rsplit_once('/')?;
    let (prefix, namespaced) = match front.split_once("/namespaces/") {
        Some((prefix, _)) => (prefix, true),
        None => (front, false),
    };
    clean(&mut document);
    Some(Sample {
        prefix: prefix.to_owned(),
        plural: plural.to_owned(),
        namespaced,
        document,
    })
}

/// Takes away what the server writes itself.
fn clean(document: &mut Value) {
    let metadata = document["metadata"].as_object_mut().unwrap();
    for key in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "generation",
        "namespace",
        "finalizers",
    ] {
        metadata.remove(key);
    }
    let is_job = document["kind"] == "Job";
    if let Some(map) = document.as_object_mut() {
        map.remove("status");
        map.remove("globalDefault");
    }
    if is_job {
        document["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("labels");
        document["spec"]["template"]
            .as_object_mut()
            .unwrap()
            .remove("metadata");
    }
    let is_service = document["kind"] == "Service";
    if let Some(spec) = document.get_mut("spec").and_then(Value::as_object_mut) {
        let mut keys = vec!["clusterIP", "clusterIPs", "healthCheckNodePort", "priority"];
        if is_job {
            keys.push("selector");
        }
        keys.iter().for_each(|key| drop(spec.remove(key)));
        for port in spec
            .get_mut("ports")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
            .filter(|_| is_service)
        {
            port.as_object_mut().unwrap().remove("nodePort");
        }
    }
    replace_text(document, "pb", "differential");
    if let Some(annotations) = document
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.retain(|key, _| {
            !key.contains("is-default-class") && !key.contains("template.generation")
        });
    }
}

/// References to the namespace of the recording follow into ours.
fn replace_text(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) if text == from => *text = to.into(),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| replace_text(item, from, to)),
        Value::Object(map) => map
            .values_mut()
            .for_each(|item| replace_text(item, from, to)),
        _ => {}
    }
}

/// A document of the sample's kind, called `name`, often with something wrong in it.
pub fn document(random: &mut Random, sample: &Sample, name: &str) -> Value {
    let mut document = sample.document.clone();
    replace_text(&mut document, "differential", &sample.namespace());
    document["metadata"]["name"] = json!(name);
    for _ in 0..random.below(3) {
        break_somewhere(random, &mut document);
    }
    document["metadata"]["name"] = json!(name);
    document
}

/// A part of a document as a merge patch.
pub fn change(random: &mut Random, sample: &Sample, name: &str) -> Value {
    let whole = document(random, sample, name);
    let keys: Vec<everflow_json::Text> = whole
        .as_object()
        .unwrap()
        .keys()
        .filter(|key| !matches!(key.as_str(), "kind" | "apiVersion" | "metadata"))
        .cloned()
        .collect();
    if keys.is_empty() || random.one_in(5) {
        let value = random
            .pick(&[json!("9"), Value::Null, json!("b@d")])
            .clone();
        return json!({"metadata": {"labels": {"a": value}}});
    }
    let key = random.pick(&keys).clone();
    match &whole[&key] {
        Value::Object(map) if !map.is_empty() => {
            let inner: Vec<&everflow_json::Text> = map.keys().collect();
            let inner = *random.pick(&inner);
            let value = if random.one_in(4) && map.len() > 1 {
                Value::Null
            } else {
                map[inner].clone()
            };
            json!({ key: { inner.as_str(): value } })
        }
        other => json!({ key: other }),
    }
}

const TEXTS: [&str; 14] = [
    "",
    "x",
    "Bad_Name",
    "a.b",
    "-",
    "TCP",
    "Always",
    "Never",
    "None",
    "10.0.0.1",
    "1.2.3",
    "50%",
    "a/b",
    "waytoolongforanythingthatisalabelbecauseithasmorethansixtythreecharacters",
];
const NUMBERS: [i64; 7] = [-1, 0, 1, 2, 80, 70000, 2_000_000_000];
const AMOUNTS: [&str; 5] = ["0", "-1", "1500m", "1Gi", "100Gi"];

fn places(value: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    match value {
        Value::Object(map) => {
            for (key, item) in map {
                // Types and names decide what is answered at all.
                if path.is_empty() && matches!(key.as_str(), "kind" | "apiVersion") {
                    continue;
                }
                path.push(key.to_string());
                found.push(path.clone());
                places(item, path, found);
                path.pop();
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(index.to_string());
                found.push(path.clone());
                places(item, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

fn break_somewhere(random: &mut Random, document: &mut Value) {
    let mut found = Vec::new();
    places(document, &mut Vec::new(), &mut found);
    found.retain(|path| path.first().map(String::as_str) != Some("metadata") || path.len() > 2);
    if found.is_empty() {
        return;
    }
    let path = random.pick(&found).clone();
    let (last, above) = path.split_last().unwrap();
    let pointer: String = above
        .iter()
        .map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1")))
        .collect();
    let Some(holder) = document.pointer_mut(&pointer) else {
        return;
    };
    match holder {
        Value::Object(map) => {
            if random.one_in(4) && map.len() > 1 {
                map.remove(last);
            } else if let Some(value) = map.get_mut(last) {
                break_value(random, value);
            }
        }
        Value::Array(items) => {
            let index: usize = last.parse().unwrap_or_default();
            match random.below(3) {
                0 if items.len() > 1 => drop(items.remove(index)),
                1 => items.push(items[index].clone()),
                _ => break_value(random, &mut items[index]),
            }
        }
        _ => {}
    }
}

fn break_value(random: &mut Random, value: &mut Value) {
    *value = match &*value {
        Value::String(text) => {
            let amount = text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains('.');
            if amount && !random.one_in(3) {
                json!(random.pick(&AMOUNTS))
            } else {
                json!(random.pick(&TEXTS))
            }
        }
        Value::Number(_) => json!(random.pick(&NUMBERS)),
        Value::Bool(flag) => json!(!flag),
        // Empty lists and maps are as good as missing ones here, and are shown as such in messages.
        other => other.clone(),
    };
}
