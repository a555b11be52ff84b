//! Secrets get into nothing that a run leaves behind: all types of Providers and Receivers, when all goes well and when
//! the other side refuses, repeats what it was sent, hangs, breaks off or is not there.

use everflow_api::notification::{ProviderType, ReceiverType};
use everflow_dispatch::resources::{ALERTS, PROVIDERS, RECEIVERS};
use everflow_dispatch::{EventServer, Options, try_provider};
use everflow_json::{Value, json};
use everflow_notify::Event;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::world::{GIT_REPOSITORIES, Manner, World, call, post_event};

/// All secrets hold this word; the credentials that are made of them hold its Base64.
const WORD: &str = "hunter2";
const HASH: &str = "5394cb7f48332b2de7c17dd8b8384bbc84b7e738";

fn address(kind: ProviderType) -> &'static str {
    use ProviderType as Kind;
    match kind {
        Kind::AzureDevOps => "http://user:hunter2git@h.example/org/project/_git/repository",
        Kind::BitbucketServer => "http://user:hunter2git@h.example/scm/project/repository.git",
        Kind::Sentry => "http://hunter2key@h.example/42",
        Kind::Nats => "nats://user:hunter2nats@h.example:4222",
        Kind::AzureEventHub => {
            "Endpoint=sb://h.example/;SharedAccessKeyName=n;SharedAccessKey=hunter2key;EntityPath=e"
        }
        Kind::GooglePubSub => "project",
        Kind::GitHub
        | Kind::GitLab
        | Kind::Gitea
        | Kind::Bitbucket
        | Kind::GitHubDispatch
        | Kind::GitHubPullRequestComment
        | Kind::GitLabMergeRequestComment
        | Kind::GiteaPullRequestComment => "http://user:hunter2git@h.example/org/repository",
        _ => "http://h.example/hunter2-path/repository?key=hunter2query",
    }
}

/// The Secret of a Provider.
fn credentials(kind: ProviderType) -> Value {
    let mut data = json!({
        "address": address(kind), "token": "hunter2token", "username": "user",
        "password": "hunter2password", "headers": "X-Key: hunter2header\n",
    });
    match kind {
        ProviderType::Bitbucket => data["token"] = "user:hunter2password".into(),
        ProviderType::AzureEventHub => {
            data = json!({"address": address(kind)});
        }
        ProviderType::GooglePubSub => {
            let key = json!({"type": "service_account", "client_email": "e", "private_key": "hunter2key"});
            data["token"] = key.to_string().into();
        }
        _ => {}
    }
    data
}

/// Secrets that cannot be used, for all types.
fn broken() -> Vec<Value> {
    vec![
        json!({"address": "http://user:hunter2x/y@h.example", "token": "hunter2token"}),
        json!({"address": "http://h.example:hunter2x/y", "proxy": "http://hunter2proxy:x"}),
        json!({"address": "hunter2 is no address\u{1}", "token": "hunter2token\nx"}),
        json!({"address": "http://h.example/x", "headers": "X-Key: *hunter2anchor"}),
        json!({"address": "http://h.example/x", "headers": "- hunter2\n- {hunter2: ["}),
        json!({"address": "http://h.example/x", "headers": "X-Key: \"hunter2\\u0001\""}),
        json!({
            "address": "http://h.example/o/r", "githubAppID": "1", "githubAppInstallationID": "2",
            "githubAppPrivateKey": "hunter2pem", "githubAppBaseURL": "http://h.example",
        }),
        json!({"address": "nats://h.example:4222", "creds": "hunter2creds", "nkey": "hunter2nkey"}),
    ]
}

fn kinds() -> impl Iterator<Item = ProviderType> {
    let texts = ProviderType::TEXTS.iter();
    texts.filter_map(|text| ProviderType::from_text(text))
}

/// A Provider for each type and what goes with it, in its ways; `more` are further fields of the Providers.
async fn set_up(world: &World, suffix: &str, more: Value, data: impl Fn(ProviderType) -> Value) {
    for kind in kinds() {
        let name = format!("{}{suffix}", kind.as_str());
        world.secret(&name, data(kind)).await;
        let mut spec = json!({
            "type": kind.as_str(), "channel": "channel/topic", "secretRef": {"name": name},
            "timeout": "5s",
        });
        for (key, value) in more.as_object().unwrap() {
            spec[key.as_str()] = value.clone();
        }
        world.alert(&name, spec).await;
    }
}

fn body(name: &str) -> String {
    let event = json!({
        "involvedObject": {
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "namespace": "apps", "name": name, "uid": "11111111-1111-4111-8111-111111111111",
        },
        "severity": "error", "timestamp": "2026-01-02T03:04:05Z", "message": "m",
        "reason": "BuildFailed", "reportingController": "kustomize-controller",
        "metadata": {
            "kustomize.toolkit.fluxcd.io/revision": format!("main@sha1:{HASH}"),
            "event.toolkit.fluxcd.io/change_request": "7",
        },
    });
    event.to_string()
}

/// What tries of each Provider by hand tell.
async fn tried(world: &World) -> String {
    let event = Event::read(body("tried").as_bytes()).unwrap();
    let mut told = String::new();
    for provider in world.all(&PROVIDERS).await {
        let trial = try_provider(&world.env, &world.user, &provider, &event).await;
        told.push_str(&format!("{trial:?}\n"));
    }
    told
}

/// Has an event told to all Providers, and looks for secrets in what that leaves.
async fn look_for_secrets(world: &mut World, what: &str) {
    let intake = world.start(Options::default()).await;
    let server = EventServer::new(&world.env.clock, intake);
    assert_eq!(post_event(&server, &body("web")).await.0, 202);
    // While they wait, and when all were tried.
    let mut left = String::new();
    for pause in [1, 120] {
        world.sleep(pause).await;
        left.push_str(&world.left_behind().await);
    }
    left.push_str(&tried(world).await);
    no_secret_in(&left, what);
}

fn no_secret_in(left: &str, what: &str) {
    // `user:hunter2password` and the like, as they stand in a header.
    for secret in [WORD, "aHVudGVyM", "h1bnRlcj", "dW50ZXIy"] {
        if let Some(at) = left.find(secret) {
            let start = left[..at]
                .char_indices()
                .rev()
                .nth(300)
                .map_or(0, |(at, _)| at);
            let end = left[at..]
                .char_indices()
                .nth(300)
                .map_or(left.len(), |(end, _)| at + end);
            panic!("{what}: a secret is shown: {}", &left[start..end]);
        }
    }
}

/// A server of NATS that wants to know who it is and then refuses, with the line that it was sent.
fn refuse_by_nats(world: &World) {
    let mut incoming = world.dialer.listen("h.example", 4_222);
    tokio::spawn(async move {
        while let Some(mut stream) = incoming.recv().await {
            tokio::spawn(async move {
                let info = b"INFO {\"auth_required\":true,\"nonce\":\"abc\"}\r\n";
                let _ = stream.write_all(info).await;
                let mut line = vec![0; 4_096];
                let count = stream.read(&mut line).await.unwrap_or_default();
                let line = String::from_utf8_lossy(&line[..count]).replace(['\r', '\n'], " ");
                let refusal = format!("-ERR 'Authorization Violation {line}'\r\n");
                let _ = stream.write_all(refusal.as_bytes()).await;
            });
        }
    });
}

#[tokio::test(start_paused = true)]
async fn no_secret_of_a_provider_is_left_behind_however_it_answers() {
    let manners = [
        Some(Manner::Answers(200)),
        Some(Manner::Repeats(200)),
        Some(Manner::Repeats(400)),
        Some(Manner::Repeats(401)),
        Some(Manner::Repeats(429)),
        Some(Manner::Repeats(500)),
        Some(Manner::Closes),
        Some(Manner::Hangs),
        None,
    ];
    for manner in manners {
        let mut world = World::new().await;
        let got = manner.map(|manner| world.provider("h.example", manner));
        refuse_by_nats(&world);
        set_up(&world, "", json!({}), credentials).await;
        look_for_secrets(&mut world, &format!("{manner:?}")).await;
        if let Some(got) = got {
            let sent = got.lock().unwrap().len();
            assert!(sent >= 20, "{manner:?}: {sent} requests");
        }
        let mut failing = 0;
        for alert in world.all(&ALERTS).await {
            let said = everflow_runtime::client::annotation(&alert, everflow_dispatch::LAST_ERROR);
            failing += usize::from(said.is_some());
        }
        let is_good = matches!(manner, Some(Manner::Answers(200) | Manner::Repeats(200)));
        assert!(is_good || failing >= 20, "{manner:?}: {failing} errors");
    }
}

#[tokio::test(start_paused = true)]
async fn no_secret_of_a_proxy_is_left_behind() {
    for manner in [Some(Manner::Repeats(407)), Some(Manner::Repeats(502)), None] {
        let mut world = World::new().await;
        if let Some(manner) = manner {
            world.provider_at("proxy.example", 3_128, manner);
        }
        let proxy = json!({
            "address": "http://proxy.example:3128", "username": "user", "password": "hunter2proxy",
        });
        world.secret("a-proxy", proxy).await;
        let more = json!({"proxySecretRef": {"name": "a-proxy"}});
        set_up(&world, "", more, credentials).await;
        look_for_secrets(&mut world, &format!("proxy {manner:?}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_secret_that_cannot_be_used_is_left_behind() {
    for (number, data) in broken().into_iter().enumerate() {
        let mut world = World::new().await;
        world.provider("h.example", Manner::Repeats(401));
        refuse_by_nats(&world);
        set_up(&world, "", json!({}), |_| data.clone()).await;
        look_for_secrets(&mut world, &format!("broken {number}")).await;
    }
    let mut world = World::new().await;
    let certificate = json!({"ca.crt": "hunter2ca", "tls.crt": "hunter2crt", "tls.key": "hunter2"});
    world.secret("a-certificate", certificate).await;
    let proxy =
        json!({"address": "http://user:hunter2x/y@h", "username": "u", "password": "hunter2"});
    world.secret("a-proxy", proxy).await;
    let more = json!({"certSecretRef": {"name": "a-certificate"}});
    set_up(&world, "", more, credentials).await;
    let more = json!({"proxySecretRef": {"name": "a-proxy"}});
    set_up(&world, "-by-proxy", more, credentials).await;
    look_for_secrets(&mut world, "certificates").await;
}

#[tokio::test(start_paused = true)]
async fn no_secret_of_a_receiver_is_left_behind_whoever_calls() {
    let mut world = World::new().await;
    let spec = json!({"url": "https://git/x", "interval": "1h"});
    world.object(&GIT_REPOSITORIES, "one", spec).await;
    let data = json!({"token": "hunter2token", "email": "ci@example.com", "audience": "a"});
    world.secret("token", data).await;
    for kind in ReceiverType::TEXTS {
        let mut spec = json!({
            "type": *kind, "secretRef": {"name": "token"}, "events": ["push"],
            "resources": [{"kind": "GitRepository", "name": "one"}],
        });
        if *kind == "generic-oidc" {
            spec = json!({
                "type": *kind, "resources": spec["resources"],
                "oidcProviders": [{
                    "issuerURL": "http://issuer",
                    "validations": [{"expression": "false", "message": "nobody"}],
                }],
            });
        }
        world.object(&RECEIVERS, kind, spec).await;
    }
    let server = world.start_receivers().await;
    let json = ("content-type", "application/json");
    let jwt =
        "Bearer eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwOi8vaXNzdWVyIiwiYSI6Imh1bnRlcjIifQ.aHVudGVyMg";
    let calls: [&[(&str, &str)]; 5] = [
        &[],
        &[
            json,
            ("x-gitlab-token", "hunter2token"),
            ("x-gitlab-event", "push"),
        ],
        &[
            json,
            ("x-gitlab-token", "hunter2other"),
            ("authorization", "hunter2token"),
        ],
        &[
            json,
            ("x-signature", "sha256=hunter2"),
            ("x-hub-signature-256", "sha256=hunter2"),
        ],
        &[
            json,
            ("authorization", jwt),
            ("x-nexus-webhook-signature", "hunter2"),
        ],
    ];
    for kind in ReceiverType::TEXTS {
        let path = world.path(kind).await;
        assert!(path.starts_with("/hook/"), "{kind}");
        for headers in calls {
            for body in ["", "{}", r#"{"a":"hunter2"}"#, r#"{"hunter2"#] {
                let (status, answer) = call(&server, &path, headers, body).await;
                no_secret_in(&format!("{status} {answer:?}"), kind);
            }
        }
    }
    no_secret_in(&world.left_behind().await, "Receivers");
}
