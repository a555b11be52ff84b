//! A webhook as a real Gitea sent it.

use std::collections::BTreeMap;

use everflow_api::Object;
use everflow_api::notification::Receiver;
use everflow_json::{Value, json};
use everflow_notify::SecretData;
use everflow_notify::provider::Lookup;
use everflow_notify::receiver::{Accepted, Call, Options, Refusal, check};
use everflow_time::Timestamp;
use http::{HeaderMap, HeaderName, HeaderValue};

fn receiver(events: &[&str]) -> Object<Receiver> {
    Object::read(&json!({
        "metadata": {"name": "r", "namespace": "n"},
        "spec": {
            "type": "github", "secretRef": {"name": "s"}, "events": events,
            "resources": [{"kind": "GitRepository", "name": "flux"}],
            "resourceFilter": "req.repository.full_name == 'openova/flux' && req.ref.startsWith('refs/heads/')",
        },
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Succeeded", "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z"}]},
    }))
    .unwrap()
}

#[test]
fn a_push_of_a_real_gitea_is_accepted_by_a_github_receiver() {
    let Some(file) = everflow_corpus::find("flux/notification/gitea-webhook-push.json") else {
        return;
    };
    let recorded: Value = everflow_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let request = &recorded["request"];
    let headers: HeaderMap = request["headers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| {
            let name = HeaderName::from_bytes(pair[0].as_str().unwrap().as_bytes()).unwrap();
            (
                name,
                HeaderValue::from_bytes(pair[1].as_str().unwrap().as_bytes()).unwrap(),
            )
        })
        .collect();
    let body = request["body"].as_str().unwrap().as_bytes();
    let accepted = send(
        &receiver(&["push"]),
        recorded["secret"].as_str().unwrap(),
        &headers,
        body,
    )
    .unwrap();
    let object = json!({"kind": "GitRepository", "metadata": {"name": "flux"}});
    assert!(accepted.filters.evaluator().admit(0, &object).unwrap());

    let refused = |receiver: &Object<Receiver>, secret: &str, body: &[u8]| {
        send(receiver, secret, &headers, body).unwrap_err().status
    };
    assert_eq!(refused(&receiver(&["push"]), "other", body), 400);
    assert_eq!(
        refused(
            &receiver(&["issues"]),
            recorded["secret"].as_str().unwrap(),
            body
        ),
        400
    );
    assert_eq!(
        refused(
            &receiver(&["push"]),
            recorded["secret"].as_str().unwrap(),
            &body[1..]
        ),
        400
    );
}

fn send(
    receiver: &Object<Receiver>,
    token: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Accepted, Refusal> {
    let entries = BTreeMap::from([("token".to_owned(), token.as_bytes().to_vec())]);
    let secret = Lookup::Found(SecretData::new("n/s", entries));
    let call = Call { headers, body };
    check(
        receiver,
        &secret,
        &call,
        None,
        &Options::default(),
        Timestamp::default(),
    )
}
