//! Protobuf bodies recorded from a real API server.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_json::{Value, json};
use everflow_schema::protobuf;

fn bytes(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap()).unwrap()
}

/// Free JSON inside these was sent with spaces, which the server keeps in its bytes; a JSON value
/// has none.
const SPACES_INSIDE: [&str; 2] = ["ControllerRevision-min", "ControllerRevision-rich"];

#[test]
fn recorded_objects_decode_and_encode() {
    let Some(corpus) = everflow_corpus::find("apiserver") else {
        return;
    };
    let pairs = common::json_lines(&corpus.join("protobuf/objects.jsonl"));
    let mut wrong = Vec::new();
    for pair in &pairs {
        let body = bytes(&pair["protobuf_base64"]);
        match protobuf::decode(&body) {
            Ok(value) if value == pair["json"] => {}
            Ok(value) => wrong.push(format!(
                "{}: decoded {value}\nrecorded {}",
                pair["case"], pair["json"]
            )),
            Err(error) => wrong.push(format!("{}: {error}", pair["case"])),
        }
        match protobuf::encode(&pair["json"]) {
            Ok(encoded) if SPACES_INSIDE.iter().any(|case| pair["case"] == *case) => {
                assert_ne!(encoded, body);
                assert_eq!(protobuf::decode(&encoded).unwrap(), pair["json"]);
            }
            Ok(encoded) if encoded == body => {}
            Ok(encoded) => wrong.push(format!(
                "{}: encoded\n{encoded:?}\nrecorded\n{body:?}",
                pair["case"]
            )),
            Err(error) => wrong.push(format!("{}: {error}", pair["case"])),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}\n{}",
        wrong.len(),
        pairs.len(),
        wrong.join("\n")
    );
    eprintln!("{} objects decode and encode", pairs.len());
}

#[test]
fn recorded_writes_decode_or_are_refused() {
    let Some(corpus) = everflow_corpus::find("apiserver") else {
        return;
    };
    let objects = common::json_lines(&corpus.join("protobuf/objects.jsonl"));
    for write in common::json_lines(&corpus.join("protobuf/writes.jsonl")) {
        let body = bytes(&write["request"]["body_base64"]);
        let decoded = protobuf::decode(&body);
        if write["status"] == 200 {
            let decoded = decoded.unwrap();
            let name = &decoded["metadata"]["name"];
            let same = objects.iter().find(|pair| {
                pair["json"]["kind"] == decoded["kind"] && &pair["json"]["metadata"]["name"] == name
            });
            assert_eq!(
                protobuf::encode(&decoded).unwrap(),
                body,
                "{}",
                write["case"]
            );
            assert_eq!(
                decoded["spec"],
                same.unwrap()["json"]["spec"],
                "{}",
                write["case"]
            );
        } else {
            let answer: Value =
                everflow_json::from_str(write["body_text"].as_str().unwrap()).unwrap();
            let message = answer["message"].as_str().unwrap();
            let error = decoded.unwrap_err().to_string();
            assert!(
                message.contains(&error),
                "{}: {error}\n{message}",
                write["case"]
            );
        }
    }
}

#[test]
fn recorded_reads_decode_and_encode() {
    let Some(corpus) = everflow_corpus::find("apiserver") else {
        return;
    };
    let mut compared = 0;
    for read in common::json_lines(&corpus.join("protobuf/reads.jsonl")) {
        let is_protobuf = read["content_type"]
            .as_str()
            .is_some_and(|text| text.starts_with("application/vnd.kubernetes.protobuf"));
        if !is_protobuf || read["status"] != read["json_status"] {
            continue;
        }
        let body = bytes(&read["body_base64"]);
        let json = read["json_text"].as_str().unwrap();
        if read["case"].as_str().unwrap().starts_with("watch") {
            let mut encoded = Vec::new();
            for line in json.lines() {
                let event: Value = everflow_json::from_str(line).unwrap();
                let kind = event["type"].as_str().unwrap();
                encoded.extend(protobuf::encode_watch_event(kind, &event["object"]).unwrap());
            }
            assert_eq!(encoded, body, "{}", read["case"]);
        } else {
            // Long answers are recorded up to 3,000 characters.
            let Ok(mut expected) = everflow_json::from_str::<Value>(json) else {
                assert_eq!(json.len(), 3000, "{}", read["case"]);
                protobuf::decode(&body).unwrap();
                continue;
            };
            if read["case"] == "metadata list" {
                // JSON repeats the kind in every item, protobuf has no place for it.
                for item in expected["items"].as_array_mut().unwrap() {
                    item.as_object_mut()
                        .unwrap()
                        .retain(|key, _| key != "kind" && key != "apiVersion");
                }
            }
            if expected["items"] == json!([]) {
                // An empty list and none at all are the same bytes.
                expected["items"] = Value::Null;
            }
            assert_eq!(
                protobuf::decode(&body).unwrap(),
                expected,
                "{}",
                read["case"]
            );
            assert_eq!(
                protobuf::encode(&expected).unwrap(),
                body,
                "{}",
                read["case"]
            );
        }
        compared += 1;
    }
    assert!(compared >= 8, "only {compared} reads");
}

#[test]
fn schemas_in_custom_resource_definitions_survive() {
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "a"},
        "spec": {
            "group": "b", "scope": "Namespaced",
            "names": {"plural": "c", "kind": "D"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "default": {"x": [1, null, "y"]}, "minimum": 1, "maximum": 1.5,
                "properties": {"p": {"additionalProperties": {"type": "string"}}, "q": {"additionalProperties": true}},
                "items": {"type": "string"}, "enum": ["a", 1],
                "dependencies": {"s": ["a", "b"]},
                "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
        "status": {"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null},
    });
    let decoded = protobuf::decode(&protobuf::encode(&object).unwrap()).unwrap();
    assert_eq!(decoded["spec"], object["spec"]);
}

#[test]
fn damaged_bodies_are_refused_without_panic() {
    let Some(corpus) = everflow_corpus::find("apiserver") else {
        return;
    };
    for pair in common::json_lines(&corpus.join("protobuf/objects.jsonl"))
        .iter()
        .step_by(29)
    {
        let body = bytes(&pair["protobuf_base64"]);
        for length in 0..body.len() {
            let _ = protobuf::decode(&body[..length]);
            let mut changed = body.clone();
            changed[length] ^= 0x55;
            let _ = protobuf::decode(&changed);
        }
    }
    let mut deep = Vec::new();
    for _ in 0..300 {
        deep = [&[0x0a][..], &[deep.len() as u8 & 0x7f], &deep].concat();
    }
    let _ = protobuf::decode(&protobuf::Envelope::write(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &deep,
    ));
}
