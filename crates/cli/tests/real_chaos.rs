//! Replicas of `everflow run` as processes in network namespaces of their own, on two real API servers, while things go
//! wrong. Each episode makes a change, lets something fail while it is delivered, mends it, and waits until everything is
//! Ready; at the end the API servers' audit logs are held against who held what.
//!
//! `EVERFLOW_CHAOS_EPISODES` and `EVERFLOW_CHAOS_SEED` choose more and others, `EVERFLOW_CHAOS_LOAD` as `100,50` how many
//! Kustomizations and HelmReleases are delivered, `EVERFLOW_CHAOS_DIRECTORY` where logs are kept, `EVERFLOW_CHAOS_FLAGS` with
//! which flags the replicas run: leases that end soon else.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::panic,
    dead_code
)]

#[path = "common/charts.rs"]
mod charts;
#[path = "common/delivery.rs"]
mod delivery;
#[path = "common/releases.rs"]
mod releases;
#[path = "../../git/tests/support/mod.rs"]
mod support;

#[path = "real_chaos_parts/audit_log.rs"]
mod audit_log;
#[path = "real_chaos_parts/episode.rs"]
mod episode;
#[path = "real_chaos_parts/failover.rs"]
mod failover;
#[path = "real_chaos_parts/faults.rs"]
mod faults;
#[path = "real_chaos_parts/load.rs"]
mod load;
#[path = "real_chaos_parts/place.rs"]
mod place;
#[path = "real_chaos_parts/proxy.rs"]
mod proxy;
#[path = "real_chaos_parts/replica.rs"]
mod replica;

use std::time::Duration;

use episode::{Chance, Fault, Scene};
use everflow_json::{Value, json};
use everflow_runtime::queue::Key;
use everflow_runtime::shards::shard_of;
use load::Load;
use place::Place;
use replica::{Replica, SHORT};

/// How long a change may take after everything works again.
const PATIENCE: Duration = Duration::from_secs(150);

fn number(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn load_wanted() -> (usize, usize) {
    let given = std::env::var("EVERFLOW_CHAOS_LOAD").unwrap_or_default();
    let pair = given.split_once(',');
    let pair = pair.and_then(|(one, two)| Some((one.parse().ok()?, two.parse().ok()?)));
    pair.unwrap_or((12, 6))
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_deliver_whatever_fails() {
    if !place::is_inside("replicas_deliver_whatever_fails") {
        return;
    }
    let (episodes, seed) = (
        number("EVERFLOW_CHAOS_EPISODES", 6),
        number("EVERFLOW_CHAOS_SEED", 1),
    );
    let place = Place::start(3).await;
    let shards = format!("--shards={}", audit_log::SHARDS);
    let given = std::env::var("EVERFLOW_CHAOS_FLAGS").unwrap_or_else(|_| SHORT.join(" "));
    let mut flags: Vec<&str> = given.split_whitespace().collect();
    flags.push(&shards);
    let replicas = (0..3)
        .map(|number| Replica::new(&place, number, &flags))
        .collect();
    let (kustomizations, releases) = load_wanted();
    let load = Load::start(&place, kustomizations, releases).await;
    let mut scene = Scene {
        place,
        replicas,
        load,
    };
    scene.replicas.iter_mut().for_each(Replica::start);
    let first = scene.load.until_delivered(PATIENCE).await;
    println!("delivered first after {:?}", first.unwrap());

    let mut failed = Vec::new();
    for episode in 0..episodes {
        let mut chance = Chance::new(seed.wrapping_mul(1_000_003).wrapping_add(episode));
        let fault = Fault::pick(&mut chance, episode);
        let what = format!("episode {episode}: {fault:?}");
        let (took, ended) = scene.play(&fault, &mut chance, PATIENCE).await;
        match &took {
            Ok(took) => println!("{what}: delivered {took:.1?} after it was over{ended}"),
            Err(missing) => {
                println!("{what}: NOT DELIVERED{ended}: {missing:#?}");
                failed.push(what);
                break;
            }
        }
    }
    let findings = audit_log::findings(&scene.place.audit_logs());
    let count = audit_log::count(&scene.place.audit_logs());
    let left = scene.load.delete_all(PATIENCE).await;
    println!(
        "{episodes} episodes of seed {seed}, {count} writes of engines: {} findings",
        findings.len()
    );
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(findings.is_empty(), "{findings:#?}");
    assert!(left.is_empty(), "left over: {left:#?}");
}

/// `bench/failover.sh` runs this; it takes ten minutes, and asserts nothing about times.
#[tokio::test(flavor = "multi_thread")]
async fn time_without_delivery() {
    let rounds = number("EVERFLOW_FAILOVER_ROUNDS", 0);
    if rounds == 0 {
        println!("skipped: bench/failover.sh measures how long nothing is delivered");
        return;
    }
    if !place::is_inside("time_without_delivery") {
        return;
    }
    let rounds = usize::try_from(rounds).unwrap();
    let place = Place::start(2).await;
    let load = Load::start(&place, 0, 0).await;
    let flags = std::env::var("EVERFLOW_FAILOVER_FLAGS").unwrap_or_default();
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let mut ours: Vec<Replica> = (0..2)
        .map(|number| Replica::new(&place, number, &flags))
        .collect();
    let of_ours = failover::measure(&place, &load, &mut ours, rounds).await;
    load.unprobe().await;
    drop(ours);
    let mut of_flux = None;
    if std::env::var_os("EVERFLOW_FAILOVER_FLUX").is_some() {
        match failover::Flux::start(&place) {
            Some(mut flux) => {
                of_flux = Some(failover::measure(&place, &load, &mut flux, rounds).await)
            }
            None => println!("Flux's controllers are not at hand: no ratios"),
        }
    }
    for (at, (event, spans)) in of_ours.iter().enumerate() {
        let (middle, most) = failover::shown(spans);
        println!("failover {event:?} everflow: median {middle:.1} s, most {most:.1} s of {rounds}");
        if let Some(of_flux) = &of_flux {
            let (theirs, their_most) = failover::shown(&of_flux[at].1);
            println!(
                "failover {event:?} flux: median {theirs:.1} s, most {their_most:.1} s of {rounds}"
            );
            println!(
                "failover {event:?} ratio: Flux takes {:.1} times as long",
                theirs / middle
            );
        }
    }
}

/// What so many Kustomizations cost the API servers with one replica, and with three.
#[tokio::test(flavor = "multi_thread")]
async fn three_replicas_ask_little_more_than_one() {
    let count = usize::try_from(number("EVERFLOW_CHAOS_REQUESTS", 0)).unwrap();
    if count == 0 {
        println!(
            "skipped: set EVERFLOW_CHAOS_REQUESTS=1000 to count the requests of three replicas and of one"
        );
        return;
    }
    if !place::is_inside("three_replicas_ask_little_more_than_one") {
        return;
    }
    let place = Place::start_with(3, place::AUDIT_ALL).await;
    let load = Load::start(&place, count, 0).await;
    load.delete_all(Duration::ZERO).await;
    let mut replicas: Vec<Replica> = (0..3)
        .map(|number| Replica::new(&place, number, &[]))
        .collect();
    let mut totals = Vec::new();
    for running in [1, 3] {
        replicas[..running].iter_mut().for_each(Replica::start);
        // Leases are shared out, and watches are open.
        tokio::time::sleep(Duration::from_secs(15)).await;
        let left = load.delete_all(PATIENCE).await;
        assert!(left.is_empty(), "{left:?}");
        let before = audit_log::requests(&place.audit_logs());
        load.create().await;
        let took = load.until_delivered(PATIENCE * 4).await.unwrap();
        let after = audit_log::requests(&place.audit_logs());
        let of = |what: &String| after[what] - before.get(what).copied().unwrap_or_default();
        let counts: Vec<(String, usize)> =
            after.keys().map(|what| (what.clone(), of(what))).collect();
        let total: usize = counts.iter().map(|(_, count)| count).sum();
        println!("{running} replicas, {count} Kustomizations, {took:.1?}: {total} requests");
        for (what, count) in counts.iter().filter(|(_, count)| *count > 0) {
            println!("  {count:6} {what}");
        }
        totals.push(total);
    }
    let ratio = totals[1] as f64 / totals[0] as f64;
    println!("three replicas ask {ratio:.2} times as much as one");
    assert!(ratio <= 1.2, "{ratio:.2}");
}

/// A line of an audit log, by its time in seconds.
fn line(at: u32, user: &str, resource: &str, verb: &str, object: &Value) -> String {
    let time = format!("2026-01-01T00:00:{at:02}.000000Z");
    let code = if verb == "create" { 201 } else { 200 };
    let event = json!({
        "verb": verb, "user": {"username": user}, "requestURI": "/", "responseStatus": {"code": code},
        "objectRef": {"resource": resource, "namespace": delivery::NAMESPACE, "name": object["metadata"]["name"].clone()},
        "requestReceivedTimestamp": time, "stageTimestamp": time, "responseObject": object.clone(),
    });
    format!("{event}\n")
}

#[test]
fn audit_log_shows_old_holders_repeated_effects_and_old_content() {
    let key = Key::new("Kustomization", delivery::NAMESPACE, "app-1");
    let shard = shard_of(&key, audit_log::SHARDS);
    let lease = |holder: &str| {
        let name = format!("x-shard-{shard}-of-{}", audit_log::SHARDS);
        json!({"metadata": {"name": name}, "spec": {"holderIdentity": holder}})
    };
    let map = |version: &str, level: &str| json!({"metadata": {"name": "app-1", "resourceVersion": version}, "data": {"level": level}});
    let good = [
        line(1, "engine-0", "leases", "create", &lease("a")),
        line(2, "engine-0", "configmaps", "create", &map("2", "1")),
        line(3, "engine-0", "leases", "update", &lease("")),
        line(4, "engine-1", "leases", "update", &lease("b")),
        line(5, "engine-1", "configmaps", "patch", &map("5", "2")),
    ];
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("audit.log");
    let found = |more: &[String]| {
        std::fs::write(&log, [&good[..], more].concat().concat()).unwrap();
        audit_log::findings(std::slice::from_ref(&log))
    };
    assert_eq!(found(&[]), Vec::<String>::new());
    for (verb, content, told) in [
        ("patch", map("6", "2"), "engine-0 patch configmaps app-1"),
        ("patch", map("6", "1"), "went back from 2 to 1"),
        ("create", map("6", "2"), "was made 2 times"),
    ] {
        let findings = found(&[line(6, "engine-0", "configmaps", verb, &content)]);
        assert!(
            findings.iter().any(|finding| finding.contains(told)),
            "{findings:?}"
        );
    }
    let released = line(6, "engine-1", "leases", "update", &lease(""));
    let after = line(7, "engine-1", "configmaps", "patch", &map("7", "2"));
    assert_eq!(found(&[released, after]).len(), 1);
}
