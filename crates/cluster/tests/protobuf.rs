//! Answers in protobuf, against what the real server answered.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_cluster::env::ManualEnvironment;
use everflow_cluster::time::Timestamp;
use everflow_cluster::{Answer, ApiServer, Body, Options, Request};
use everflow_corpus::Outcome;
use everflow_json::{Value, json};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn server() -> ApiServer {
    let env = ManualEnvironment::new(Timestamp::from_seconds(1_794_740_000), 3);
    ApiServer::new(Arc::new(env), Options::default())
}

fn send(
    server: &ApiServer,
    method: &str,
    path: &str,
    media: &str,
    accept: &str,
    body: Vec<u8>,
) -> Answer {
    let request = Request::new(method, path, body)
        .header("content-type", media)
        .header("accept", accept)
        .header("user-agent", "corpus/1.0");
    server.handle(&request)
}

fn bytes(answer: Answer) -> Vec<u8> {
    match answer.body {
        Body::Full(bytes) => bytes.to_vec(),
        Body::Watch(mut watch) => watch
            .poll()
            .iter()
            .flat_map(|event| event.line().to_vec())
            .collect(),
    }
}

fn lines(file: &str) -> Option<Vec<Value>> {
    let text = std::fs::read_to_string(everflow_corpus::find(file)?).unwrap();
    Some(
        text.lines()
            .map(|line| everflow_json::from_str(line).unwrap())
            .collect(),
    )
}

/// The collection of an object's path.
fn collection(path: &str) -> &str {
    path.rsplit_once('/').unwrap().0
}

/// An object as a client would create it.
fn fresh(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for key in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "generation",
    ] {
        metadata.remove(key);
    }
    object
}

/// A server with everything that was there when the answers were recorded.
fn filled(objects: &[Value]) -> ApiServer {
    let server = server();
    let namespace = json!({"metadata": {"name": "pb"}}).to_string();
    send(
        &server,
        "POST",
        "/api/v1/namespaces",
        "application/json",
        "application/json",
        namespace.into(),
    );
    for entry in objects {
        let path = collection(entry["path"].as_str().unwrap());
        let body = fresh(&entry["json"]).to_string();
        send(
            &server,
            "POST",
            path,
            "application/json",
            "application/json",
            body.into(),
        );
    }
    server
}

#[test]
fn objects_read_the_same_in_both_forms() {
    let Some(objects) = lines("apiserver/protobuf/objects.jsonl") else {
        return;
    };
    let server = filled(&objects);
    let mut seen = 0;
    for entry in &objects {
        let path = entry["path"].as_str().unwrap();
        let plain = send(&server, "GET", path, "", "application/json", Vec::new());
        if plain.status != 200 {
            continue;
        }
        let packed = send(&server, "GET", path, "", PROTOBUF, Vec::new());
        assert_eq!(packed.header("content-type"), Some(PROTOBUF), "{path}");
        let plain: Value = everflow_json::from_slice(&bytes(plain)).unwrap();
        let unpacked = everflow_schema::protobuf::decode(&bytes(packed)).unwrap();
        assert_eq!(unpacked, plain, "{path}");
        seen += 1;
    }
    assert!(seen * 10 > objects.len() * 9, "{seen} of {}", objects.len());
}

#[test]
fn recorded_protobuf_bodies_are_taken() {
    let (Some(objects), Some(writes)) = (
        lines("apiserver/protobuf/objects.jsonl"),
        lines("apiserver/protobuf/writes.jsonl"),
    ) else {
        return;
    };
    let server = filled(&objects);
    let mut outcome = Outcome::default();
    for case in &writes {
        let request = &case["request"];
        let mut body = STANDARD
            .decode(request["body_base64"].as_str().unwrap())
            .unwrap();
        if case["status"] == 200 {
            // The ids are those of another server.
            let object = everflow_schema::protobuf::decode(&body).unwrap();
            let mut object = fresh(&object);
            let path = request["path"].as_str().unwrap();
            let current = send(&server, "GET", path, "", "application/json", Vec::new());
            let current: Value = everflow_json::from_slice(&bytes(current)).unwrap();
            let revision = &current["metadata"]["resourceVersion"];
            object["metadata"]["resourceVersion"] = revision.clone();
            body = everflow_schema::protobuf::encode(&object).unwrap();
        }
        let text = |key: &str| request[key].as_str().unwrap();
        let answer = send(
            &server,
            text("method"),
            text("path"),
            text("content_type"),
            text("accept"),
            body,
        );
        let found = (
            json!(answer.status),
            json!(answer.header("content-type").unwrap()),
        );
        let wanted = (case["status"].clone(), case["content_type"].clone());
        let mut result = Ok(());
        if found != wanted {
            result = Err(format!("expected {wanted:?}, found {found:?}"));
        }
        let body = bytes(answer);
        if let Some(text) = case["body_text"].as_str() {
            let wanted: Value = everflow_json::from_str(text).unwrap();
            let found: Value = everflow_json::from_slice(&body).unwrap_or_default();
            if wanted != found {
                result = Err(format!("expected {wanted}, found {found}"));
            }
        }
        outcome.record(case["case"].as_str().unwrap(), result);
    }
    outcome.assert("");
}

#[test]
fn recorded_reads_are_answered_in_the_recorded_form() {
    let (Some(objects), Some(reads)) = (
        lines("apiserver/protobuf/objects.jsonl"),
        lines("apiserver/protobuf/reads.jsonl"),
    ) else {
        return;
    };
    let server = filled(&objects);
    let crds = everflow_corpus::find("apiserver/fixtures/crds").unwrap();
    for file in std::fs::read_dir(crds).unwrap().flatten() {
        let body = std::fs::read(file.path()).unwrap();
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        send(
            &server,
            "POST",
            path,
            "application/json",
            "application/json",
            body,
        );
    }
    let mut outcome = Outcome::default();
    for (index, case) in reads.iter().enumerate() {
        let (Some(path), Some(accept)) = (case["path"].as_str(), case["accept"].as_str()) else {
            continue;
        };
        let answer = send(&server, "GET", path, "", accept, Vec::new());
        let found = (
            json!(answer.status),
            json!(answer.header("content-type").unwrap()),
        );
        let wanted = (case["status"].clone(), case["content_type"].clone());
        let result = if found == wanted {
            Ok(())
        } else {
            Err(format!("expected {wanted:?}, found {found:?}"))
        };
        outcome.record(
            format!("{index} {}", case["case"].as_str().unwrap()),
            result,
        );
        let body = bytes(answer);
        if case["status"] != 200 && case["content_type"] == PROTOBUF {
            let recorded = STANDARD
                .decode(case["body_base64"].as_str().unwrap())
                .unwrap();
            assert_eq!(body, recorded, "{case}");
        }
    }
    outcome.assert("");
}
