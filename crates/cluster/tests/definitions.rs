//! Objects of custom kinds are read by the definition there is now, not by the one they were written under.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use everflow_cluster::env::ManualEnvironment;
use everflow_cluster::time::Timestamp;
use everflow_cluster::{ApiServer, Body, Options, Request};
use everflow_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn ask(server: &ApiServer, method: &str, path: &str, body: &Value) -> Value {
    let media = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::new(method, path, body.to_string()).header("content-type", media);
    let answer = server.handle(&request);
    let Body::Full(bytes) = answer.body else {
        panic!("no stream was asked for");
    };
    assert!(answer.status < 300, "{}", String::from_utf8_lossy(&bytes));
    everflow_json::from_slice(&bytes).unwrap()
}

fn definition(properties: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": properties},
                }}},
            }],
        },
    })
}

#[test]
fn changed_definition_applies_to_reads_of_stored_objects() {
    let env = ManualEnvironment::new(Timestamp::from_seconds(1_794_740_000), 9);
    let server = ApiServer::new(Arc::new(env), Options::default());
    let text = json!({"type": "string"});
    let first = definition(&json!({"size": text, "colour": text}));
    ask(&server, "POST", DEFINITIONS, &first);
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"},
        "spec": {"size": "large", "colour": "red"},
    });
    let path = format!("{WIDGETS}/one");
    let stored = ask(&server, "POST", WIDGETS, &widget);
    for _ in 0..2 {
        assert_eq!(ask(&server, "GET", &path, &json!({})), stored);
    }

    // The colour goes, and a shape comes.
    let shape = json!({"type": "string", "default": "round"});
    let second = definition(&json!({"size": text, "shape": shape}));
    let changed = json!({"spec": {"versions": second["spec"]["versions"]}});
    ask(
        &server,
        "PATCH",
        &format!("{DEFINITIONS}/widgets.example.com"),
        &changed,
    );
    let wanted = json!({"size": "large", "shape": "round"});
    for _ in 0..2 {
        assert_eq!(ask(&server, "GET", &path, &json!({}))["spec"], wanted);
        let list = ask(&server, "GET", WIDGETS, &json!({}));
        assert_eq!(list["items"][0]["spec"], wanted);
    }
    let patched = ask(&server, "PATCH", &path, &json!({"spec": {"size": "small"}}));
    assert_eq!(patched["spec"], json!({"size": "small", "shape": "round"}));
    assert_eq!(ask(&server, "GET", &path, &json!({})), patched);
}

#[test]
fn names_of_a_deleted_definition_can_be_reused() {
    let env = ManualEnvironment::new(Timestamp::from_seconds(1_794_740_000), 9);
    let server = ApiServer::new(Arc::new(env), Options::default());
    ask(&server, "POST", DEFINITIONS, &definition(&json!({})));
    let mut other = definition(&json!({}));
    other["metadata"]["name"] = "gizmos.example.com".into();
    other["spec"]["names"]["plural"] = "gizmos".into();
    other["spec"]["names"]["singular"] = "gizmo".into();
    ask(&server, "POST", DEFINITIONS, &other);
    let path = format!("{DEFINITIONS}/gizmos.example.com");
    let state = || {
        let found = ask(&server, "GET", &path, &Value::Null);
        let conditions = found["status"]["conditions"].as_array().cloned();
        let holds = |kind: &str| {
            let mut conditions = conditions.iter().flatten();
            conditions.any(|it| it["type"] == kind && it["status"] == "True")
        };
        (holds("NamesAccepted"), holds("Established"))
    };
    assert_eq!(state(), (false, false));
    ask(
        &server,
        "DELETE",
        &format!("{DEFINITIONS}/widgets.example.com"),
        &json!({}),
    );
    server.tick();
    assert_eq!(state(), (true, true));
    let gizmos = "/apis/example.com/v1/namespaces/default/gizmos";
    assert_eq!(
        ask(&server, "GET", gizmos, &Value::Null)["kind"],
        "WidgetList"
    );
}
