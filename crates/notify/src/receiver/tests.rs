use everflow_api::notification::ReceiverType;
use everflow_json::{Value, json};
use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;
use crate::SecretData;

#[test]
fn the_path_is_a_digest_of_token_name_and_namespace() {
    assert_eq!(
        webhook_path(b"token", "r", "n"),
        "/hook/76987872d995bfb9cb4810cfadd50491badbdc5fc8fe3033e43f1798f478da54"
    );
    // Nothing stands between them.
    assert_eq!(
        webhook_path(b"to", "kenr", "n"),
        webhook_path(b"token", "r", "n")
    );
}

#[test]
fn only_paths_below_hook_are_looked_up() {
    assert_eq!(route("/hook/x?y"), Route::Hook);
    assert_eq!(route("/hook"), Route::Redirect);
    assert_eq!(route("/hooks/x"), Route::Nothing);
}

fn receiver_with(spec: Value) -> Object<Receiver> {
    Object::read(&json!({
        "metadata": {"name": "r", "namespace": "n"},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Succeeded", "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z"}]},
    }))
    .unwrap()
}

fn receiver(kind: &str) -> Object<Receiver> {
    let mut spec = json!({"type": kind, "resources": [{"kind": "GitRepository", "name": "x"}], "resourceFilter": "has(req.a)"});
    if kind == "generic-oidc" {
        let validations = json!([{"expression": "claims.sub == 'me'", "message": "somebody else"}]);
        spec["oidcProviders"] =
            json!([{"issuerURL": "https://issuer.example", "validations": validations}]);
    } else {
        spec["secretRef"] = json!({"name": "s"});
    }
    receiver_with(spec)
}

fn secret(token: &str) -> Lookup {
    let entries = [("token", token), ("email", "e"), ("audience", "a")];
    let entries = entries.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
    Lookup::Found(SecretData::new("n/s", entries.into()))
}

fn headers(all: &[(&str, &str)]) -> HeaderMap {
    let all = all.iter().map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        (name, HeaderValue::from_bytes(value.as_bytes()).unwrap())
    });
    all.collect()
}

fn checked(
    kind: &str,
    token: &str,
    all: &[(&str, &str)],
    body: &[u8],
) -> Result<Accepted, Refusal> {
    let headers = headers(all);
    let call = Call {
        headers: &headers,
        body,
    };
    check(
        &receiver(kind),
        &secret(token),
        &call,
        None,
        &Options::default(),
        Timestamp::default(),
    )
}

#[test]
fn an_empty_token_opens_no_receiver_that_checks_by_it() {
    for kind in [
        "github",
        "gitlab",
        "bitbucket",
        "harbor",
        "nexus",
        "generic-hmac",
    ] {
        let refused = checked(kind, "", &[], b"{}").unwrap_err();
        assert_eq!(refused.status, 400, "{kind}");
        assert!(
            refused.why.contains("the field 'token' is empty"),
            "{kind}: {}",
            refused.why
        );
    }
    assert!(checked("generic", "", &[], b"{}").is_ok());
}

#[test]
fn a_call_with_a_bearer_token_alone_is_taken_by_a_generic_receiver() {
    // As a workflow of Gitea Actions makes it: curl -X POST -H "Authorization: Bearer …" https://…/hook/…
    assert!(checked("generic", "t", &[("authorization", "Bearer x")], b"").is_ok());
}

#[test]
fn bodies_beyond_the_limit_are_refused_before_they_are_looked_at() {
    let body = vec![b' '; LARGEST_BODY + 1];
    assert_eq!(checked("generic", "t", &[], &body).unwrap_err().status, 413);
}

#[test]
fn receivers_that_are_suspended_or_not_ready_answer_503() {
    let mut suspended = receiver("generic");
    suspended.spec.suspend = true;
    let mut not_ready = receiver("generic");
    not_ready.status.conditions.clear();
    let headers = HeaderMap::new();
    let call = Call {
        headers: &headers,
        body: b"",
    };
    for receiver in [suspended, not_ready] {
        assert_eq!(key_source(&receiver, &call).unwrap_err().status, 503);
    }
}

#[test]
fn names_and_labels_become_selectors_and_the_rest_problems() {
    let receiver = receiver_with(
        json!({"type": "generic", "secretRef": {"name": "s"}, "resources": [
            {"kind": "GitRepository", "name": "x"},
            {"kind": "Kustomization", "name": "*", "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "matchLabels": {"a": "b"}},
            {"kind": "Kustomization", "name": "x"},
            {"kind": "GitRepository", "name": "*"},
            {"kind": "GitRepository", "name": "x", "namespace": "other"},
        ]}),
    );
    let options = Options {
        no_cross_namespace_refs: true,
    };
    let (targets, problems) = targets::targets(&receiver, &options);
    assert_eq!(targets.len(), 2);
    assert_eq!(targets[0].select, Select::Name("x".to_owned()));
    assert_eq!(targets[0].api_version, "source.toolkit.fluxcd.io/v1");
    assert!(matches!(&targets[1].select, Select::Labels(labels) if labels["a"] == "b"));
    assert_eq!(
        problems,
        [
            "resources[2]: apiVersion must be specified for kind \"Kustomization\"",
            "resources[3]: matchLabels field not set when using wildcard '*' as name",
            "resources[4]: cross-namespace references are not allowed",
        ]
    );
}

fn some_body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        "[{}\\[\\]\",:a-z0-9 ]{0,80}".prop_map(String::into_bytes),
        Just(
            br#"{"message":{"data":"e30=","publishTime":"x"},"push_data":{"tag":1},"target":[]}"#
                .to_vec()
        ),
    ]
}

proptest! {
    #[test]
    fn any_request_is_answered_by_receivers_of_all_types(
        body in some_body(),
        kind in 0..ReceiverType::TEXTS.len(),
        content_type in prop_oneof![Just("application/json".to_owned()), Just("application/x-www-form-urlencoded".to_owned()), "[ -~]{0,30}"],
        signature in prop_oneof!["(sha1|sha256|sha512)=[0-9a-f]{0,70}", "[ -~]{0,40}"],
        token in prop_oneof!["Bearer [A-Za-z0-9_-]{0,20}\\.[A-Za-z0-9_-]{0,30}\\.[A-Za-z0-9_-]{0,20}", "[ -~]{0,40}"],
    ) {
        let kind = ReceiverType::TEXTS[kind];
        let headers = headers(&[
            ("content-type", &content_type), ("x-hub-signature-256", &signature), ("x-signature", &signature),
            ("x-nexus-webhook-signature", &signature), ("authorization", &token), ("x-gitlab-token", &token),
        ]);
        let call = Call { headers: &headers, body: &body };
        let receiver = receiver(kind);
        let _ = key_source(&receiver, &call);
        let keys = Keys::google(KeySet::default());
        let done = check(&receiver, &secret("hunter2"), &call, Some(Ok(&keys)), &Options::default(), Timestamp::default());
        match done {
            Ok(accepted) => {
                let _ = accepted.filters.evaluator().admit(0, &json!({"metadata": {"name": "x"}}));
            }
            Err(refusal) => {
                prop_assert!(matches!(refusal.status, 400 | 500));
                prop_assert!(!refusal.why.contains("hunter2"));
            }
        }
    }

    #[test]
    fn any_key_set_and_any_discovery_document_are_read_or_refused(body in some_body()) {
        let _ = KeySet::read(&body);
        let _ = Discovery::read(&body, "https://issuer.example");
    }
}

#[test]
fn bodies_that_nest_deeply_are_refused_on_a_small_stack() {
    let depth = 9_000;
    let body = format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let answer = std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(move || {
            let done = checked(
                "generic",
                "t",
                &[("content-type", "application/json")],
                body.as_bytes(),
            );
            done.map(|accepted| accepted.filters.evaluator().admit(0, &json!({})).is_ok())
                .map_err(|refusal| refusal.status)
        })
        .unwrap()
        .join();
    assert_eq!(answer.unwrap(), Err(500));
}
