//! Events: counted, bounded, never in the way.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use everflow_cluster::faults::Verdict;
use everflow_env::MemoryDialer;
use everflow_json::{Value, json};
use everflow_runtime::client::Selection;
use everflow_runtime::events::{EVENTS, Event, Severity, recorder};
use everflow_runtime::metrics::Metrics;
use support::World;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

async fn told(world: &World) -> Vec<Value> {
    let list = world
        .user
        .list_all(&EVENTS, Some("apps"), &Selection::default())
        .await;
    list.unwrap().items
}

#[tokio::test(start_paused = true)]
async fn the_same_event_is_counted() {
    let world = World::new(1).await;
    let mut toy = world.create_toy("one", json!({})).await;
    toy["metadata"]["annotations"] = json!({"event.toolkit.fluxcd.io/team": "blue", "other": "x"});
    let metrics = Metrics::new();
    let (recorder, event_sender) =
        recorder(&world.env, &world.client, &metrics, None, "pod").unwrap();
    tokio::spawn(event_sender.run());
    let event = Event::new(Severity::Info, "NewArtifact", "stored artifact")
        .with("source.toolkit.fluxcd.io/revision", "main@sha1:1");
    for _ in 0..3 {
        recorder.emit("source-controller", &toy, event.clone());
        world.sleep(2.0).await;
    }
    recorder.emit(
        "source-controller",
        &toy,
        Event::new(Severity::Error, "Failed", "broken"),
    );
    world.sleep(1.0).await;
    let events = told(&world).await;
    assert_eq!(events.len(), 2, "{events:?}");
    let normal = events
        .iter()
        .find(|event| event["type"] == "Normal")
        .unwrap();
    assert_eq!(normal["count"], 3);
    assert_eq!(normal["firstTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(normal["lastTimestamp"], "2026-01-01T00:00:04Z");
    assert_eq!(normal["source"], json!({"component": "source-controller"}));
    assert_eq!(normal["reportingComponent"], "source-controller");
    assert_eq!(
        normal["metadata"]["annotations"],
        json!({"event.toolkit.fluxcd.io/team": "blue", "source.toolkit.fluxcd.io/revision": "main@sha1:1"})
    );
    assert_eq!(normal["involvedObject"]["uid"], toy["metadata"]["uid"]);
    assert_eq!(
        events
            .iter()
            .find(|event| event["type"] == "Warning")
            .unwrap()["reason"],
        "Failed"
    );
}

#[tokio::test(start_paused = true)]
async fn event_flood_or_hanging_receiver_blocks_no_attempt() {
    let world = World::new(1).await;
    let toy = world.create_toy("one", json!({})).await;
    let metrics = Metrics::new();
    let (recorder, event_sender) =
        recorder(&world.env, &world.client, &metrics, None, "pod").unwrap();
    tokio::spawn(event_sender.run());
    for number in 0..40 {
        recorder.emit(
            "c",
            &toy,
            Event::new(Severity::Info, "Flood", format!("{number}")),
        );
        world.sleep(0.1).await;
    }
    assert_eq!(told(&world).await.len(), 25);
    assert_eq!(
        metrics.get("everflow_events_dropped_total", &[("why", "too many")]),
        15.0
    );
    world
        .faults
        .before(|_| Verdict::Delay(Duration::from_secs(100_000)));
    let before = world.env.clock.elapsed();
    // Eight lanes take a thousand each.
    for number in 0..20_000 {
        let mut other = toy.clone();
        other["metadata"]["name"] = format!("toy-{number}").into();
        recorder.emit("c", &other, Event::new(Severity::Info, "Flood", "x"));
    }
    assert_eq!(world.env.clock.elapsed(), before);
    assert_eq!(
        metrics.get("everflow_events_dropped_total", &[("why", "full")]),
        12_000.0
    );
}

/// A server that takes a second for each Event would be told of 60 objects in a minute, one after the other.
#[tokio::test(start_paused = true)]
async fn events_are_sent_concurrently_and_in_order_per_object() {
    let world = World::new(1).await;
    let toy = world.create_toy("one", json!({})).await;
    let metrics = Metrics::new();
    let (recorder, event_sender) =
        recorder(&world.env, &world.client, &metrics, None, "pod").unwrap();
    tokio::spawn(event_sender.run());
    world
        .faults
        .before(|_| Verdict::Delay(Duration::from_secs(1)));
    for number in 0..100 {
        let mut other = toy.clone();
        other["metadata"]["name"] = format!("toy-{number}").into();
        for message in ["first", "second"] {
            recorder.emit("c", &other, Event::new(Severity::Info, "Told", message));
        }
    }
    world.sleep(60.0).await;
    let events = told(&world).await;
    assert_eq!(events.len(), 200);
    let revision = |event: &Value| -> u64 {
        let revision = event["metadata"]["resourceVersion"].as_str().unwrap();
        revision.parse().unwrap()
    };
    for number in 0..100 {
        let name = format!("toy-{number}");
        let of = |message: &str| {
            let found = events.iter().find(|event| {
                event["involvedObject"]["name"] == name.as_str() && event["message"] == message
            });
            revision(found.unwrap())
        };
        assert!(of("first") < of("second"), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_posted_to_the_notification_controller() {
    let world = World::new(1).await;
    let mut env = world.env.clone();
    let dialer = MemoryDialer::new();
    let mut incoming = dialer.listen("notify.", 8080);
    env.dialer = std::sync::Arc::new(dialer);
    let toy = world.create_toy("one", json!({})).await;
    let metrics = Metrics::new();
    let (recorder, event_sender) = recorder(
        &env,
        &world.client,
        &metrics,
        Some("http://notify.:8080/"),
        "pod",
    )
    .unwrap();
    tokio::spawn(event_sender.run());
    let heard = tokio::spawn(async move {
        let mut bodies = Vec::new();
        for code in [
            "500 Internal Server Error",
            "202 Accepted",
            "429 Too Many Requests",
        ] {
            let mut stream = incoming.recv().await.unwrap();
            let mut text = String::new();
            while !text.ends_with('}') {
                let mut chunk = [0; 4_096];
                let length = stream.read(&mut chunk).await.unwrap();
                text.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
            }
            let answer = format!("HTTP/1.1 {code}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            bodies.push(text.split_once("\r\n\r\n").unwrap().1.to_owned());
        }
        bodies
    });
    recorder.emit(
        "source-controller",
        &toy,
        Event::new(Severity::Trace, "Quiet", "not for all"),
    );
    recorder.emit(
        "source-controller",
        &toy,
        Event::new(Severity::Info, "NewArtifact", "stored").with("a/b", "c"),
    );
    recorder.emit(
        "source-controller",
        &toy,
        Event::new(Severity::Error, "Failed", "broken"),
    );
    let bodies = heard.await.unwrap();
    assert_eq!(bodies[0], bodies[1], "retried after a failure");
    let first: Value = everflow_json::from_str(&bodies[1]).unwrap();
    assert_eq!(first["involvedObject"]["kind"], "Toy");
    assert_eq!(
        (
            first["severity"].as_str(),
            first["reason"].as_str(),
            first["message"].as_str()
        ),
        (Some("info"), Some("NewArtifact"), Some("stored"))
    );
    assert_eq!(
        (
            &first["metadata"],
            &first["reportingController"],
            &first["reportingInstance"]
        ),
        (
            &json!({"a/b": "c"}),
            &json!("source-controller"),
            &json!("pod")
        )
    );
    assert_eq!(first["timestamp"], "2026-01-01T00:00:00Z");
    let second: Value = everflow_json::from_str(&bodies[2]).unwrap();
    assert_eq!(
        (second["severity"].as_str(), second.get("metadata")),
        (Some("error"), None)
    );
    world.sleep(60.0).await;
    assert_eq!(metrics.get("everflow_events_dropped_total", &[]), 0.0);
}

#[tokio::test(start_paused = true)]
async fn events_of_one_attempt_are_summarised() {
    let world = World::new(1).await;
    let toy = world.create_toy("one", json!({})).await;
    let metrics = Metrics::new();
    let (recorder, event_sender) =
        recorder(&world.env, &world.client, &metrics, None, "pod").unwrap();
    let recorder = recorder.briefly();
    tokio::spawn(event_sender.run());
    let info = |reason: &str, text: &str| Event::new(Severity::Info, reason, text);
    let all = vec![
        info("Progressing", "ConfigMap/a created").with("a", "1"),
        Event::new(Severity::Error, "Failed", "broken"),
        info("Succeeded", "finished").with("b", "2").routine(),
    ];
    recorder.emit_all("c", &toy, all);
    recorder.emit_all("c", &toy, vec![info("Succeeded", "as before").routine()]);
    world.sleep(1.0).await;
    let events = told(&world).await;
    assert_eq!(events.len(), 2, "{events:?}");
    let of = |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap();
    let normal = of("Normal");
    assert_eq!(normal["reason"], "Succeeded");
    assert_eq!(normal["message"], "ConfigMap/a created\nfinished");
    assert_eq!(
        normal["metadata"]["annotations"],
        json!({"a": "1", "b": "2"})
    );
    assert_eq!(of("Warning")["message"], "broken");
}

#[tokio::test(start_paused = true)]
async fn awaited_event_is_stored_before_the_call_returns() {
    let world = World::new(1).await;
    let mut toy = world.create_toy("one", json!({})).await;
    toy["metadata"]["annotations"] = json!({"event.toolkit.fluxcd.io/team": "blue"});
    let metrics = Metrics::new();
    let (recorder, event_sender) =
        recorder(&world.env, &world.client, &metrics, None, "pod").unwrap();
    tokio::spawn(event_sender.run());
    let event = Event::new(Severity::Info, "Pruning", "deletes ten objects");
    recorder.emit_and_wait("c", &toy, event).await;
    let events = told(&world).await;
    assert_eq!(events[0]["message"], "deletes ten objects");
    assert_eq!(
        events[0]["metadata"]["annotations"],
        json!({"event.toolkit.fluxcd.io/team": "blue"})
    );
}
