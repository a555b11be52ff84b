//! Services of a cluster with both families of addresses.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use everflow_cluster::env::ManualEnvironment;
use everflow_cluster::time::Timestamp;
use everflow_cluster::{ApiServer, Body, Options, Request};
use everflow_json::{Value, json};

fn cluster(dual_stack: bool) -> ApiServer {
    let start = Timestamp::from_seconds(1_794_740_000);
    let options = Options {
        dual_stack,
        ..Options::default()
    };
    ApiServer::new(Arc::new(ManualEnvironment::new(start, 9)), options)
}

fn send(server: &ApiServer, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let media = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::new(method, path, body.to_string().into_bytes());
    let answer = server.handle(&request.header("content-type", media));
    let Body::Full(bytes) = answer.body else {
        panic!("no answer");
    };
    (answer.status, everflow_json::from_slice(&bytes).unwrap())
}

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn create(server: &ApiServer, name: &str, spec: Value) -> (u16, Value) {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}});
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    send(server, "POST", SERVICES, &service)
}

/// The families of a Service and those that its addresses are of.
fn families(service: &Value) -> (Vec<&str>, Vec<&str>) {
    let texts = |field: &str| -> Vec<&str> {
        let list = service["spec"][field].as_array().unwrap();
        list.iter().map(|text| text.as_str().unwrap()).collect()
    };
    let addresses = texts("clusterIPs");
    assert_eq!(service["spec"]["clusterIP"], addresses[0]);
    let of = |address: &&str| match address.contains(':') {
        true => "IPv6",
        false => "IPv4",
    };
    (texts("ipFamilies"), addresses.iter().map(of).collect())
}

#[test]
fn each_service_has_the_families_that_it_asks_for() {
    let server = cluster(true);
    for (name, spec, expected) in [
        ("plain", json!({}), vec!["IPv4"]),
        ("six", json!({"ipFamilies": ["IPv6"]}), vec!["IPv6"]),
        (
            "prefers",
            json!({"ipFamilyPolicy": "PreferDualStack"}),
            vec!["IPv4", "IPv6"],
        ),
        (
            "requires",
            json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]}),
            vec!["IPv6", "IPv4"],
        ),
        (
            "given",
            json!({"clusterIP": "fd00:10:96::7", "clusterIPs": ["fd00:10:96::7"]}),
            vec!["IPv6"],
        ),
    ] {
        let (status, service) = create(&server, name, spec);
        assert_eq!(status, 201, "{service}");
        assert_eq!(families(&service), (expected.clone(), expected), "{name}");
    }
    let (status, refused) = create(
        &server,
        "again",
        json!({"clusterIP": "fd00:10:96::7", "clusterIPs": ["fd00:10:96::7"]}),
    );
    let message = refused["message"].as_str().unwrap();
    assert!(
        status == 422 && message.contains("already allocated"),
        "{message}"
    );
}

#[test]
fn the_second_address_comes_and_goes_with_the_policy() {
    let server = cluster(true);
    let (_, created) = create(&server, "web", json!({}));
    let path = format!("{SERVICES}/web");
    let prefer = json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}});
    let (status, both) = send(&server, "PATCH", &path, &prefer);
    assert_eq!(status, 200, "{both}");
    let two = vec!["IPv4", "IPv6"];
    assert_eq!(families(&both), (two.clone(), two));
    assert_eq!(both["spec"]["clusterIP"], created["spec"]["clusterIP"]);
    let single = json!({"spec": {"ipFamilyPolicy": "SingleStack"}});
    let (status, one) = send(&server, "PATCH", &path, &single);
    assert_eq!(status, 200, "{one}");
    assert_eq!(families(&one), (vec!["IPv4"], vec!["IPv4"]));
    // What was given back is to be had again.
    let six = both["spec"]["clusterIPs"][1].clone();
    let again = json!({"clusterIP": six, "clusterIPs": [six]});
    assert_eq!(create(&server, "other", again).0, 201);
}

#[test]
fn a_cluster_with_one_family_says_so() {
    let server = cluster(false);
    let (status, refused) = create(&server, "six", json!({"ipFamilies": ["IPv6"]}));
    let message = refused["message"].as_str().unwrap();
    assert_eq!(status, 422);
    assert!(
        message.contains("not configured on this cluster"),
        "{message}"
    );
}
