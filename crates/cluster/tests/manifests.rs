//! What manifests get wrong, and what the real server answers: each case was found by comparing with one.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use everflow_cluster::env::SystemEnvironment;
use everflow_cluster::{ApiServer, Body, Options, Request};
use everflow_json::{Value, json};

fn send(server: &ApiServer, method: &str, path: &str, media: &str, body: &Value) -> (u16, Value) {
    let request = Request::new(method, path, body.to_string())
        .header("content-type", media)
        .header("accept", "application/json");
    let answer = server.handle(&request);
    let body = match &answer.body {
        Body::Full(bytes) => everflow_json::from_slice(bytes).unwrap_or_default(),
        Body::Watch(_) => Value::Null,
    };
    (answer.status, body)
}

fn server() -> ApiServer {
    ApiServer::new(Arc::new(SystemEnvironment::new()), Options::default())
}

fn post(server: &ApiServer, path: &str, body: &Value) -> (u16, String) {
    let (status, answer) = send(server, "POST", path, "application/json", body);
    (
        status,
        answer["message"].as_str().unwrap_or_default().to_owned(),
    )
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SERVICES: &str = "/api/v1/namespaces/default/services";

fn deployment(container: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"},
        "spec": {"selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}}})
}

#[test]
fn containers_are_checked() {
    let server = server();
    let prefix = "Deployment.apps \"x\" is invalid: spec.template.spec.containers[0]";
    for (container, problem) in [
        (json!({"name": "a"}), ".image: Required value"),
        (
            json!({"name": "a", "image": "i", "ports": [{"containerPort": 70000}]}),
            ".ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            json!({"name": "a", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
            ".volumeMounts[0].name: Not found: \"v\"",
        ),
        (
            json!({"name": "a", "image": "i", "imagePullPolicy": "Sometimes"}),
            ".imagePullPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
        ),
        (
            json!({"name": "a", "image": "i", "livenessProbe": {}}),
            ".livenessProbe: Required value: must specify a handler type",
        ),
        (
            json!({"name": "a", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}),
            ".resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
    ] {
        let (status, message) = post(&server, DEPLOYMENTS, &deployment(&container));
        assert_eq!((status, message), (422, format!("{prefix}{problem}")));
    }
}

#[test]
fn a_pod_keeps_its_spec() {
    let server = server();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
    assert_eq!(
        post(&server, "/api/v1/namespaces/default/pods", &pod).0,
        201
    );
    let change = json!({"spec": {"nodeName": "n1"}});
    let path = "/api/v1/namespaces/default/pods/x";
    let (status, answer) = send(
        &server,
        "PATCH",
        path,
        "application/merge-patch+json",
        &change,
    );
    assert_eq!(status, 422);
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.contains("- \"NodeName\": \"\",\n+ \"NodeName\": \"n1\",\n"),
        "{message}"
    );
}

#[test]
fn failed_writes_take_no_port() {
    let server = server();
    let service = |name: &str, selector: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "NodePort", "selector": {"a": selector}, "ports": [{"port": 80, "nodePort": 31000}]}})
    };
    assert_eq!(post(&server, SERVICES, &service("a", "b@d")).0, 422);
    assert_eq!(post(&server, SERVICES, &service("b", "good")).0, 201);
    let (status, message) = post(&server, SERVICES, &service("c", "good"));
    let wanted = "Service \"c\" is invalid: spec.ports[0].nodePort: Invalid value: 31000: provided port is already allocated";
    assert_eq!((status, message.as_str()), (422, wanted));
}

#[test]
fn empty_texts_are_not_missing_where_a_field_can_be_missing() {
    let server = server();
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "x"}, "value": 1, "preemptionPolicy": ""});
    let (status, message) = post(
        &server,
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        &class,
    );
    let wanted =
        "PriorityClass.scheduling.k8s.io \"x\" is invalid: preemptionPolicy: Required value";
    assert_eq!((status, message.as_str()), (422, wanted));
    let mut document = deployment(&json!({"name": "a", "image": "i"}));
    document["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": ""}});
    let (status, message) = post(&server, DEPLOYMENTS, &document);
    assert_eq!(status, 422);
    assert!(
        message.contains(
            "spec.strategy.rollingUpdate.maxSurge: Invalid value: \"\": a valid percent string"
        ),
        "{message}"
    );
}

#[test]
fn a_node_has_its_range_in_both_fields() {
    let server = server();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}, "spec": {"podCIDR": "10.0.0.0/24"}});
    let (status, answer) = send(&server, "POST", "/api/v1/nodes", "application/json", &node);
    assert_eq!(
        (status, &answer["spec"]["podCIDRs"]),
        (201, &json!(["10.0.0.0/24"]))
    );
}

#[test]
fn a_set_makes_one_volume_of_claims_with_one_name() {
    let server = server();
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let mut set = deployment(
        &json!({"name": "a", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}),
    );
    set["kind"] = json!("StatefulSet");
    set["spec"]["volumeClaimTemplates"] = json!([claim, claim]);
    let (status, message) = post(
        &server,
        "/apis/apps/v1/namespaces/default/statefulsets",
        &set,
    );
    assert_eq!((status, message.as_str()), (201, ""));
}
