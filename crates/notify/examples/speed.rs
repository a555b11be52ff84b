//! How many events a second are read, deduplicated and matched against 200 Alerts on one core.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Instant;

use everflow_api::Object;
use everflow_json::json;
use everflow_notify::Event;
use everflow_notify::alert::{Labels, Matcher};
use everflow_notify::dedup::{Deduplicator, Key};
use everflow_time::{Duration, Timestamp};

const EVENTS: usize = 50_000;
const ALERTS: usize = 200;

fn main() {
    let alerts: Vec<Matcher> = (0..ALERTS)
        .map(|index| {
            let namespace = format!("ns-{}", index % 20);
            let alert = json!({
                "metadata": {"name": format!("a{index}"), "namespace": namespace},
                "spec": {
                    "providerRef": {"name": "p"},
                    "eventSources": [{"kind": "Kustomization", "name": "*"}, {"kind": "HelmRelease", "name": "*"}],
                    "inclusionList": ["succeeded", "failed"], "exclusionList": ["^waiting.*(socket|timeout)", "dependency"],
                },
            });
            Matcher::new(&Object::read(&alert).unwrap())
        })
        .collect();
    let mut dedup = Deduplicator::new(Duration::from_seconds(300), 100_000);
    let bodies: Vec<String> = (0..EVENTS).map(body).collect();
    let start = Instant::now();
    let mut matches = 0;
    for (index, body) in bodies.iter().enumerate() {
        let mut event = Event::read(body.as_bytes()).unwrap();
        event.clean();
        let now = Timestamp::from_seconds(1_700_000_000 + index as i64 / 5_000);
        if dedup.take(Key::of(&event), now).is_new {
            event.drop_token();
            matches += alerts
                .iter()
                .filter(|alert| alert.matches(&event, Labels::Unavailable).is_match)
                .count();
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{:.0} events a second, {matches} matches",
        EVENTS as f64 / seconds
    );
}

fn body(index: usize) -> String {
    let event = json!({
        "involvedObject": {
            "kind": "Kustomization", "namespace": format!("ns-{}", index % 20), "name": format!("app-{index}"),
            "uid": "11111111-1111-4111-8111-111111111111", "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        },
        "severity": "info", "timestamp": "2026-01-02T03:04:05Z", "reason": "ReconciliationSucceeded",
        "message": format!("Reconciliation finished in {index}ms, next run in 10m0s: all of it succeeded"),
        "reportingController": "kustomize-controller",
        "metadata": {"kustomize.toolkit.fluxcd.io/revision": "main@sha1:5394cb7f48332b2de7c17dd8b8384bbc84b7e738"},
    });
    event.to_string()
}
