//! Events on their way to providers.

use std::time::Duration;

use everflow_dispatch::resources::ALERTS;
use everflow_dispatch::{EventServer, LAST_DELIVERY, LAST_ERROR, Options};
use everflow_json::{Value, json};
use everflow_runtime::client::annotation;
use everflow_runtime::events::{Event, EventSink as _, Notice, Severity};

use crate::world::{Manner, World, post_event};

fn notice(world: &World, name: &str, severity: Severity, message: &str) -> Notice {
    Notice {
        involved: json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "namespace": "apps", "name": name, "uid": "11111111-1111-4111-8111-111111111111",
        }),
        labels: Value::Null,
        event: Event::new(severity, "ReconciliationSucceeded", message)
            .with("kustomize.toolkit.fluxcd.io/revision", "main@sha1:1"),
        at: world.env.clock.now(),
        controller: "kustomize-controller".to_owned(),
    }
}

fn body(name: &str, message: &str) -> String {
    let event = json!({
        "involvedObject": {
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "namespace": "apps", "name": name,
        },
        "severity": "info", "timestamp": "2026-01-02T03:04:05Z", "message": message,
        "reason": "ReconciliationSucceeded", "reportingController": "kustomize-controller",
    });
    event.to_string()
}

#[tokio::test(start_paused = true)]
async fn an_event_of_a_controller_reaches_a_generic_provider() {
    let mut world = World::new().await;
    let got = world.provider("hook", Manner::Answers(200));
    world
        .alert(
            "hook",
            json!({"type": "generic", "address": "http://hook/x"}),
        )
        .await;
    let intake = world.start(Options::default()).await;
    assert!(intake.take(notice(&world, "web", Severity::Info, "applied")));
    world.sleep(5).await;
    let sent = got.lock().unwrap().clone();
    assert_eq!(sent.len(), 1, "{sent:?}");
    let event: Value = everflow_json::from_str(&sent[0].1).unwrap();
    assert_eq!(sent[0].0, "/x");
    assert_eq!(event["message"], "applied");
    assert_eq!(event["metadata"], json!({"revision": "main@sha1:1"}));
    assert_eq!(event["reportingInstance"], "host");
    let alert = world.get(&ALERTS, "hook").await;
    assert!(annotation(&alert, LAST_DELIVERY).is_some(), "{alert}");
    assert_eq!(annotation(&alert, LAST_ERROR), None);
    // The same news once more is no news.
    assert!(intake.take(notice(&world, "web", Severity::Info, "applied")));
    world.sleep(5).await;
    assert_eq!(got.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn notifications_for_unreachable_provider_survive_a_crash_and_are_sent_once() {
    let mut world = World::new().await;
    world
        .alert(
            "hook",
            json!({"type": "generic", "address": "http://hook/"}),
        )
        .await;
    let intake = world.start(Options::default()).await;
    let server = EventServer::new(&world.env.clock, intake.clone());
    for name in ["one", "two", "three"] {
        assert_eq!(post_event(&server, &body(name, "m")).await.0, 202);
    }
    world.sleep(60).await;
    let events = world.events().await;
    assert!(
        events
            .iter()
            .any(|(reason, _)| reason == "NotificationDispatchFailed"),
        "{events:?}"
    );
    let alert = world.get(&ALERTS, "hook").await;
    let error = annotation(&alert, LAST_ERROR).unwrap();
    assert!(error.contains("connection refused"), "{error}");
    world.kill().await;
    let got = world.provider("hook", Manner::Answers(200));
    let intake = world.start(Options::default()).await;
    let server = EventServer::new(&world.env.clock, intake);
    assert_eq!(
        post_event(&server, &body("one", "m")).await.0,
        429,
        "it is remembered"
    );
    world.sleep(120).await;
    let mut names: Vec<String> = got
        .lock()
        .unwrap()
        .iter()
        .map(|(_, body)| {
            let event: Value = everflow_json::from_str(body).unwrap();
            event["involvedObject"]["name"].as_str().unwrap().to_owned()
        })
        .collect();
    names.sort();
    assert_eq!(names, ["one", "three", "two"]);
    world.kill().await;
    world.start(Options::default()).await;
    world.sleep(120).await;
    assert_eq!(
        got.lock().unwrap().len(),
        3,
        "what was told is not told again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_delays_no_other() {
    let mut world = World::new().await;
    let hanging = world.provider("dead", Manner::Hangs);
    let got = world.provider("hook", Manner::Answers(200));
    world
        .alert(
            "dead",
            json!({"type": "generic", "address": "http://dead/"}),
        )
        .await;
    world
        .alert(
            "hook",
            json!({"type": "generic", "address": "http://hook/"}),
        )
        .await;
    let intake = world.start(Options::default()).await;
    for number in 0..50 {
        assert!(intake.take(notice(&world, &format!("k{number}"), Severity::Info, "m")));
    }
    world.sleep(2).await;
    assert_eq!(got.lock().unwrap().len(), 50);
    assert!(hanging.lock().unwrap().len() <= 4);
}

#[tokio::test(start_paused = true)]
async fn expired_notifications_are_dropped_and_reported() {
    let mut world = World::new().await;
    world
        .alert(
            "hook",
            json!({"type": "generic", "address": "http://hook/"}),
        )
        .await;
    let options = Options {
        max_age: Duration::from_secs(600),
        ..Options::default()
    };
    let intake = world.start(options).await;
    assert!(intake.take(notice(&world, "web", Severity::Info, "m")));
    world.sleep(1_200).await;
    let events = world.events().await;
    let said = events
        .iter()
        .filter(|(_, message)| message.contains("given up, it is older than 10m0s"));
    assert_eq!(said.count(), 1, "{events:?}");
    let labels = [("result", "lost")];
    assert_eq!(
        world.metrics.get("everflow_notifications_total", &labels),
        1.0
    );
    let got = world.provider("hook", Manner::Answers(200));
    world.sleep(600).await;
    assert_eq!(got.lock().unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn flapping_object_is_grouped_even_after_a_crash() {
    let mut world = World::new().await;
    let got = world.provider("chat", Manner::Answers(200));
    world
        .alert(
            "chat",
            json!({"type": "slack", "address": "http://chat/", "channel": "c"}),
        )
        .await;
    let intake = world.start(Options::default()).await;
    for number in 0..8 {
        assert!(intake.take(notice(
            &world,
            "web",
            Severity::Error,
            &format!("failed {number}")
        )));
        world.sleep(5).await;
    }
    assert_eq!(got.lock().unwrap().len(), 3);
    world.kill().await;
    world.start(Options::default()).await;
    world.sleep(30).await;
    let sent = got.lock().unwrap().clone();
    assert_eq!(sent.len(), 4, "{sent:?}");
    let last: Value = everflow_json::from_str(&sent[3].1).unwrap();
    let text = last["attachments"][0]["text"].as_str().unwrap();
    assert_eq!(
        text,
        "failed 7\n4 more events about this object in the last 5 minutes"
    );
}

#[tokio::test(start_paused = true)]
async fn the_event_server_answers_as_flux_does() {
    let mut world = World::new().await;
    let intake = world.start(Options::default()).await;
    let server = EventServer::new(&world.env.clock, intake);
    let (status, headers) = post_event(&server, &body("x", "m")).await;
    assert_eq!((status, headers["x-ratelimit-limit"].as_str()), (202, "1"));
    let (status, headers) = post_event(&server, &body("x", "m")).await;
    assert_eq!((status, headers.contains_key("retry-after")), (429, true));
    assert_eq!(post_event(&server, "{").await.0, 400);
    assert_eq!(post_event(&server, "").await.0, 400);
    assert_eq!(post_event(&server, "{}").await.0, 202);
    assert_eq!(post_event(&server, "null").await.0, 429);
    assert_eq!(post_event(&server, &"x".repeat((3 << 20) + 1)).await.0, 413);
}

#[tokio::test(start_paused = true)]
async fn notification_is_not_repeated_by_another_replica() {
    let mut world = World::new().await;
    let got = world.provider("hook", Manner::Answers(200));
    world
        .alert(
            "hook",
            json!({"type": "generic", "address": "http://hook/"}),
        )
        .await;
    let options = Options {
        shared_memory: Some("apps".to_owned()),
        ..Options::default()
    };
    let intake = world.start(options.clone()).await;
    assert!(intake.take(notice(&world, "web", Severity::Info, "m")));
    world.sleep(5).await;
    world.kill().await;
    // A disk of its own.
    world.env.disk = std::sync::Arc::new(everflow_env::MemoryDisk::new());
    let intake = world.start(options).await;
    assert!(intake.take(notice(&world, "web", Severity::Info, "m")));
    assert!(intake.take(notice(&world, "web", Severity::Info, "other")));
    world.sleep(5).await;
    assert_eq!(got.lock().unwrap().len(), 2);
    assert!(intake.take(notice(&world, "web", Severity::Info, "m")));
    world.sleep(400).await;
    assert!(intake.take(notice(&world, "web", Severity::Info, "m")));
    world.sleep(5).await;
    assert_eq!(got.lock().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn another_replica_knows_what_was_told_just_before_a_crash() {
    let mut world = World::new().await;
    let got = world.provider("hook", Manner::Answers(200));
    world
        .alert(
            "hook",
            json!({"type": "generic", "address": "http://hook/"}),
        )
        .await;
    let options = Options {
        shared_memory: Some("apps".to_owned()),
        ..Options::default()
    };
    let intake = world.start(options.clone()).await;
    assert!(intake.take(notice(&world, "web", Severity::Info, "m")));
    world.env.clock.sleep(Duration::from_millis(200)).await;
    assert_eq!(got.lock().unwrap().len(), 1);
    world.kill().await;
    world.env.disk = std::sync::Arc::new(everflow_env::MemoryDisk::new());
    let intake = world.start(options).await;
    assert!(intake.take(notice(&world, "web", Severity::Info, "m")));
    world.sleep(5).await;
    assert_eq!(got.lock().unwrap().len(), 1);
}
