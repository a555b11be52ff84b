//! Input that is broken, too large or odd: answered as kube-apiserver 1.36.1 answers it, which `answers.jsonl` holds.
//!
//! Bodies and paths there are parts to be joined; a part with a number is repeated that many times.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_cluster::auth::User;
use everflow_cluster::env::ManualEnvironment;
use everflow_cluster::faults::MemoryDisk;
use everflow_cluster::store::Store;
use everflow_cluster::time::Timestamp;
use everflow_cluster::{ApiServer, Body, Options, Request};
use everflow_corpus::Outcome;
use everflow_json::{Value, json};

fn environment() -> Arc<ManualEnvironment> {
    let start = Timestamp::from_seconds(1_794_740_000);
    Arc::new(ManualEnvironment::new(start, 3))
}

fn server() -> ApiServer {
    ApiServer::new(environment(), Options::default())
}

fn joined(parts: &Value) -> Vec<u8> {
    if let Some(encoded) = parts["base64"].as_str() {
        return STANDARD.decode(encoded).unwrap();
    }
    let parts = parts.as_array().into_iter().flatten();
    let texts = parts.map(|part| match part {
        Value::String(text) => text.to_string(),
        repeated => {
            let times = repeated[1].as_u64().unwrap() as usize;
            repeated[0].as_str().unwrap().repeat(times)
        }
    });
    texts.collect::<String>().into_bytes()
}

fn send(server: &ApiServer, method: &str, path: &str, media: &str, body: Vec<u8>) -> (u16, Value) {
    let request = Request::new(method, path, body)
        .header("content-type", media)
        .header("accept", "application/json")
        .header("user-agent", "probe/1");
    let answer = server.handle(&request);
    match answer.body {
        Body::Full(bytes) => (
            answer.status,
            everflow_json::from_slice(&bytes).unwrap_or_default(),
        ),
        Body::Watch(_) => (answer.status, Value::Null),
    }
}

#[test]
fn bad_input_is_answered_as_the_real_server_answers_it() {
    let server = server();
    let mut outcome = Outcome::default();
    for line in include_str!("answers.jsonl").lines() {
        let case: Value = everflow_json::from_str(line).unwrap();
        let text = |key: &str| case[key].as_str().unwrap();
        let path = String::from_utf8(joined(&case["path"])).unwrap();
        let (status, found) = send(
            &server,
            text("method"),
            &path,
            text("media"),
            joined(&case["body"]),
        );
        let result = if case["status"] != status {
            Err(format!(
                "expected {}, found {status} {found}",
                case["status"]
            ))
        } else if status >= 400
            && (case["reason"] != found["reason"] || case["message"] != found["message"])
        {
            Err(format!(
                "expected {} {}, found {found}",
                case["reason"], case["message"]
            ))
        } else {
            Ok(())
        };
        let result = result.map_err(|why: String| why.chars().take(700).collect());
        outcome.record(text("name"), result);
    }
    outcome.assert(include_str!("known-differences.txt"));
}

#[test]
fn rules_below_all_of_are_refused() {
    let rule = json!([{"rule": "true"}]);
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "allOf": [{"x-kubernetes-validations": rule}]}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "toys.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "toys", "singular": "toy", "kind": "Toy", "listKind": "ToyList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let body = definition.to_string().into_bytes();
    let (status, answer) = send(&server(), "POST", path, "application/json", body);
    assert_eq!(status, 422);
    let problem = "x-kubernetes-validations: Forbidden: must be empty to be structural";
    assert!(
        answer["message"].as_str().unwrap().contains(problem),
        "{answer}"
    );
}

/// The real server says so in the difference it shows, and takes a one for it.
#[test]
fn a_negative_grace_period_means_one_second() {
    let server = server();
    let pods = "/api/v1/namespaces/default/pods";
    let make = |name: &str, seconds: i64| {
        let pod = json!({"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": seconds,
            "containers": [{"name": "a", "image": "b"}]}});
        let body = pod.to_string().into_bytes();
        let (status, answer) = send(&server, "POST", pods, "application/json", body);
        assert_eq!(status, 201, "{answer}");
        assert_eq!(
            answer["spec"]["terminationGracePeriodSeconds"],
            seconds.max(1)
        );
        let body = br#"{"spec": {"terminationGracePeriodSeconds": -1}}"#.to_vec();
        let media = "application/merge-patch+json";
        send(&server, "PATCH", &format!("{pods}/{name}"), media, body)
    };
    let (status, answer) = make("ten", 10);
    assert_eq!(status, 422);
    let change =
        "\n- \"TerminationGracePeriodSeconds\": 10,\n+ \"TerminationGracePeriodSeconds\": 1,\n";
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains(change), "{message}");
    assert_eq!(make("one", 1).0, 200);
    assert_eq!(make("minus", -5).0, 200);
}

#[test]
fn deleted_objects_have_the_revision_of_their_deletion() {
    let server = server();
    let path = "/api/v1/namespaces/default/serviceaccounts";
    let body = br#"{"metadata": {"name": "a"}}"#.to_vec();
    let (_, made) = send(&server, "POST", path, "application/json", body);
    let (_, gone) = send(
        &server,
        "DELETE",
        &format!("{path}/a"),
        "application/json",
        Vec::new(),
    );
    let revision = |object: &Value| {
        let text = object["metadata"]["resourceVersion"].as_str();
        text.unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(gone["kind"], "ServiceAccount");
    assert_eq!(revision(&gone), revision(&made) + 1);
}

#[test]
fn secrets_are_not_printed() {
    let options = Options {
        signing_key: Some(b"very-secret-key".to_vec()),
        tokens: vec![("very-secret-token".to_owned(), User::admin())],
        ..Options::default()
    };
    let printed = format!(
        "{options:?} {:?}",
        ApiServer::new(environment(), options.clone())
    );
    assert!(!printed.contains("secret-"), "{printed}");
    assert!(!printed.contains("115, 101, 99"), "{printed}");
}

#[test]
fn tokens_outlive_a_restart_when_the_key_does() {
    let disk = MemoryDisk::new();
    let env = environment();
    let start = |key: &[u8]| {
        let options = Options {
            authorization: true,
            signing_key: Some(key.to_vec()),
            tokens: vec![("root".to_owned(), User::admin())],
            ..Options::default()
        };
        let store = Store::open(100, Box::new(disk.open())).unwrap();
        ApiServer::with_store(env.clone(), options, store)
    };
    let ask = |server: &ApiServer, token: &str, method: &str, path: &str, body: &Value| {
        let request = Request::new(method, path, body.to_string())
            .header("content-type", "application/json")
            .header("authorization", &format!("Bearer {token}"));
        let answer = server.handle(&request);
        let Body::Full(bytes) = answer.body else {
            panic!("no stream was asked for");
        };
        (
            answer.status,
            everflow_json::from_slice::<Value>(&bytes).unwrap_or_default(),
        )
    };
    let first = start(b"one key");
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let robot = json!({"metadata": {"name": "robot"}});
    assert_eq!(ask(&first, "root", "POST", accounts, &robot).0, 201);
    let request = json!({"spec": {}});
    let path = format!("{accounts}/robot/token");
    let (_, answer) = ask(&first, "root", "POST", &path, &request);
    let token = answer["status"]["token"].as_str().unwrap().to_owned();
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let user = "/status/userInfo/username";
    let who = |server: &ApiServer| ask(server, &token, "POST", review, &json!({}));
    let name = "system:serviceaccount:default:robot";
    assert_eq!(who(&first).1.pointer(user), Some(&json!(name)));
    first.crash();
    let second = start(b"one key");
    assert_eq!(who(&second).1.pointer(user), Some(&json!(name)));
    let third = start(b"another key");
    assert_eq!(who(&third).0, 401);
}

/// As deep as it goes: everything that walks objects must bear it, and a restart, too.
#[test]
fn deep_objects_are_kept() {
    let disk = MemoryDisk::new();
    let start = || {
        let store = Store::open(100, Box::new(disk.open())).unwrap();
        let options = Options::default().with_controllers("all").unwrap();
        ApiServer::with_store(environment(), options, store)
    };
    let server = start();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "toys.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "toys", "singular": "toy", "kind": "Toy", "listKind": "ToyList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let body = definition.to_string().into_bytes();
    assert_eq!(send(&server, "POST", path, "application/json", body).0, 201);
    let toys = "/apis/example.com/v1/namespaces/default/toys";
    let toy = |name: &str, depth: usize, more: &str| {
        let (open, close) = (r#"{"a":"#.repeat(depth), "}".repeat(depth));
        format!(r#"{{"apiVersion":"example.com/v1","kind":"Toy","metadata":{{"name":"{name}"}},"x":{open}1{more}{close}}}"#)
            .into_bytes()
    };
    let deep = 248;
    let (status, answer) = send(
        &server,
        "POST",
        toys,
        "application/json",
        toy("a", deep, ""),
    );
    assert_eq!(status, 201, "{}", answer["message"]);
    let apply = "application/apply-patch+yaml";
    for (manager, more) in [("one", ""), ("one", "2"), ("two", "2")] {
        let path = format!("{toys}/b?fieldManager={manager}");
        let (status, answer) = send(&server, "PATCH", &path, apply, toy("b", deep, more));
        assert!(status < 300, "{}", answer["message"]);
    }
    let merge = "application/merge-patch+json";
    let (status, _) = send(
        &server,
        "PATCH",
        &format!("{toys}/a"),
        merge,
        toy("a", deep, "3"),
    );
    assert_eq!(status, 200);
    assert_eq!(send(&server, "GET", toys, "", Vec::new()).0, 200);
    let again = start();
    let (status, _) = send(&again, "GET", &format!("{toys}/a"), "", Vec::new());
    assert_eq!(status, 200);
    let (status, _) = send(&again, "DELETE", toys, "", Vec::new());
    assert_eq!(status, 200);
}
