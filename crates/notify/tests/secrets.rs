//! Secrets get into nothing that is shown: not into the debug texts of what is handed out, and not into messages, even when
//! the other side repeats them.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use everflow_api::Object;
use everflow_api::notification::{Alert, Provider, ProviderType};
use everflow_json::{Value, json};
use everflow_notify::dispatch::{Dispatch, Options, dispatch};
use everflow_notify::exchange::{Answer, Outcome, Reply, Request, Step, Unreachable};
use everflow_notify::failure::Failure;
use everflow_notify::provider::{Delivery, DeliveryContext, Lookup, Secrets};
use everflow_notify::{Event, SecretData};

/// All secrets hold this word.
const WORD: &str = "hunter2";
const HASH: &str = "5394cb7f48332b2de7c17dd8b8384bbc84b7e738";

fn credentials(kind: ProviderType) -> BTreeMap<&'static str, String> {
    let address = match kind {
        ProviderType::AzureDevOps => {
            "https://user:hunter2git@h.example/org/project/_git/repository"
        }
        ProviderType::BitbucketServer => {
            "https://user:hunter2git@h.example/scm/project/repository.git"
        }
        ProviderType::Sentry => "https://hunter2key@h.example/42",
        ProviderType::Nats => "nats://user:hunter2nats@h.example:4222",
        ProviderType::AzureEventHub => {
            "Endpoint=sb://h.example/;SharedAccessKeyName=n;SharedAccessKey=hunter2key;EntityPath=e"
        }
        ProviderType::GooglePubSub => "project",
        ProviderType::GitHub
        | ProviderType::GitLab
        | ProviderType::Gitea
        | ProviderType::Bitbucket
        | ProviderType::GitHubDispatch
        | ProviderType::GitHubPullRequestComment
        | ProviderType::GitLabMergeRequestComment
        | ProviderType::GiteaPullRequestComment => {
            "https://user:hunter2git@h.example/org/repository"
        }
        _ => "https://h.example/hunter2-path/repository",
    };
    let mut entries = BTreeMap::from([
        ("address", address.to_owned()),
        ("token", "hunter2token".to_owned()),
        ("username", "user".to_owned()),
        ("password", "hunter2password".to_owned()),
        ("headers", "X-Key: hunter2header\n".to_owned()),
    ]);
    match kind {
        ProviderType::Bitbucket => {
            entries.insert("token", "user:hunter2password".to_owned());
        }
        ProviderType::AzureEventHub => {
            entries.remove("token");
        }
        ProviderType::GooglePubSub => {
            let key = json!({"type": "service_account", "client_email": "e", "private_key": "hunter2key"});
            entries.insert("token", key.to_string());
        }
        _ => {}
    }
    entries
}

fn secret(entries: &BTreeMap<&'static str, String>) -> Lookup {
    let entries = entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
    Lookup::Found(SecretData::new("n/s", entries.collect()))
}

fn delivery(kind: ProviderType) -> Delivery {
    let provider: Object<Provider> = Object::read(&json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "11111111-1111-4111-8111-111111111111"},
        "spec": {"type": kind.as_str(), "channel": "channel/topic", "secretRef": {"name": "s"}, "proxySecretRef": {"name": "p"}},
    }))
    .unwrap();
    let alert: Object<Alert> = Object::read(&json!({
        "metadata": {"name": "a", "namespace": "n"},
        "spec": {"providerRef": {"name": "p"}, "eventSources": []},
    }))
    .unwrap();
    let mut event = Event {
        severity: "error".to_owned(),
        reason: "BuildFailed".to_owned(),
        ..Event::default()
    };
    event.involved.api_version = "kustomize.toolkit.fluxcd.io/v1".to_owned();
    for (key, value) in [
        ("kustomize.toolkit.fluxcd.io/revision", HASH),
        ("event.toolkit.fluxcd.io/change_request", "7"),
    ] {
        event.metadata.insert(key.to_owned(), value.to_owned());
    }
    let Ok(Dispatch::Send(sent)) = dispatch(&event, &alert, Ok(&provider), &Options::default())
    else {
        panic!("{kind}: the event is sent");
    };
    let proxy = BTreeMap::from([
        ("address", "http://proxy.example:3128".to_owned()),
        ("username", "user".to_owned()),
        ("password", "hunter2proxy".to_owned()),
    ]);
    let secrets = Secrets {
        credentials: secret(&credentials(kind)),
        proxy: secret(&proxy),
        certificates: Lookup::None,
    };
    hidden(
        &format!("{secrets:?} {:?}", secrets.credentials),
        kind,
        "the Secrets",
    );
    sent.delivery(&alert, &provider, &secrets, &DeliveryContext::default())
        .unwrap_or_else(|error| panic!("{kind}: {error}"))
}

fn hidden(text: &str, kind: ProviderType, what: &str) {
    assert!(
        !text.contains(WORD),
        "{kind}: {what} shows a secret: {text}"
    );
}

/// All secrets of a provider in one text, as a careless server might repeat them.
fn echo(kind: ProviderType) -> String {
    let values: Vec<String> = credentials(kind).into_values().collect();
    format!("{} hunter2header hunter2proxy", values.join(" "))
}

/// The request as a careless server repeats it.
fn repeated(request: &Request) -> Vec<u8> {
    let headers = request.headers.iter();
    let mut text: String = headers
        .map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()))
        .collect();
    text.insert_str(0, &format!("{}\n", request.address.reveal()));
    text.into_bytes()
}

/// What of a request must not be seen in what is told of it.
fn told_by(request: &Request) -> Vec<String> {
    let sensitive = request
        .headers
        .values()
        .filter(|value| value.is_sensitive());
    let texts = sensitive.map(|value| value.to_str().unwrap());
    let parts = texts.map(|text| text.rsplit(' ').next().unwrap().to_owned());
    parts.filter(|part| part.len() > 8).collect()
}

#[test]
fn nothing_is_shown_of_a_request_that_is_repeated() {
    for kind in ProviderType::TEXTS
        .iter()
        .filter_map(|text| ProviderType::from_text(text))
    {
        let mut delivery = delivery(kind);
        let mut step = delivery.start();
        let mut sent = Vec::new();
        for _ in 0..10 {
            let reply = match &step {
                Step::Send(request) => {
                    sent.extend(told_by(request));
                    Reply::Answer(Answer {
                        status: 401,
                        body: repeated(request),
                        ..Answer::default()
                    })
                }
                Step::GithubToken(_) | Step::GoogleToken(_) => Reply::Token {
                    token: "hunter2exchanged".into(),
                    slug: None,
                },
                Step::Nats(_) => Reply::Published,
                Step::Done(_) => break,
            };
            step = delivery.next(reply);
        }
        let Step::Done(Outcome::Failed(failure)) = step else {
            continue;
        };
        let shown = format!("{failure} {failure:?}");
        hidden(&shown, kind, "a failure");
        for secret in sent {
            assert!(!shown.contains(&secret), "{kind}: {secret} in {shown}");
        }
    }
}

/// Carries out a delivery with one kind of reply to the last request, good ones before.
fn run(kind: ProviderType, good: usize, bad: &Reply) -> Option<Failure> {
    let mut delivery = delivery(kind);
    let mut step = delivery.start();
    for round in 0..10 {
        hidden(&format!("{delivery:?}"), kind, "the delivery");
        hidden(&format!("{step:?}"), kind, "a step");
        let reply = match step {
            Step::Done(Outcome::Failed(failure)) => return Some(failure),
            Step::Done(_) => return None,
            _ if round >= good => bad.clone(),
            Step::Send(_) => Reply::Answer(Answer {
                status: 200,
                body: json!({"login": "me", "username": "me"})
                    .to_string()
                    .into_bytes(),
                ..Answer::default()
            }),
            Step::GithubToken(_) | Step::GoogleToken(_) => Reply::Token {
                token: "hunter2exchanged".into(),
                slug: None,
            },
            Step::Nats(_) => Reply::Published,
        };
        step = delivery.next(reply);
    }
    panic!("{kind}: the delivery does not end");
}

#[test]
fn no_secret_is_shown_whatever_a_provider_answers() {
    let mut failed = BTreeSet::new();
    for kind in ProviderType::TEXTS
        .iter()
        .filter_map(|text| ProviderType::from_text(text))
    {
        let body = echo(kind).into_bytes();
        let replies = [400, 401, 404, 500].map(|status| {
            Reply::Answer(Answer {
                status,
                body: body.clone(),
                ..Answer::default()
            })
        });
        let json_body =
            json!({"message": echo(kind), "error": {"status": "DENIED", "message": echo(kind)}});
        let as_json = Reply::Answer(Answer {
            status: 403,
            body: Value::to_string(&json_body).into_bytes(),
            ..Answer::default()
        });
        let silent = [true, false].map(|is_final| {
            Reply::Unreachable(Unreachable {
                message: echo(kind),
                is_final,
            })
        });
        for bad in replies.iter().chain([&as_json]).chain(&silent) {
            for good in 0..4 {
                let Some(failure) = run(kind, good, bad) else {
                    continue;
                };
                failed.insert(kind);
                hidden(&format!("{failure} {failure:?}"), kind, "a failure");
                let warning = failure.warning(&Event::default().involved);
                hidden(&warning.message, kind, "a warning");
            }
        }
    }
    assert_eq!(
        failed.len(),
        ProviderType::TEXTS.len(),
        "each provider failed in some way"
    );
}
