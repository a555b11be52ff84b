//! Everything goes wrong at random, then nothing does: all objects end as asked for.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use everflow_cluster::faults::{EventVerdict, Verdict};
use everflow_env::{Random as _, SeededRandom};
use everflow_json::json;
use everflow_runtime::client::{At, DeleteOptions, Patch, Selection, WriteOptions};
use support::toy::{MAPS, Running, settled};
use support::{TOYS, World, refuse};

fn break_requests(world: &World, seed: u64) {
    let chance = Arc::new(SeededRandom::new(seed));
    let calm = Arc::new(AtomicBool::new(false));
    let (random, quiet) = (chance.clone(), calm.clone());
    world.faults.before(move |_| {
        let bits = random.next();
        // Calm and stormy times take turns.
        if bits.is_multiple_of(50) {
            quiet.fetch_xor(true, Ordering::SeqCst);
        }
        if quiet.load(Ordering::SeqCst) {
            return Verdict::Pass;
        }
        match bits % 23 {
            0 => refuse(409, "Conflict"),
            1 => refuse(410, "Expired"),
            2 => refuse(429, "TooManyRequests"),
            3 => refuse(500, "InternalError"),
            4 => refuse(503, "ServiceUnavailable"),
            5 => Verdict::Drop,
            6 => Verdict::Delay(Duration::from_secs(40)),
            7 | 8 => Verdict::Delay(Duration::from_millis(random.next() % 4_000)),
            _ => Verdict::Pass,
        }
    });
    let random = chance.clone();
    world.faults.after(move |_, _| match random.next() % 19 {
        0 => Verdict::Drop,
        1 => refuse(504, "Timeout"),
        2 => Verdict::Delay(Duration::from_millis(random.next() % 6_000)),
        _ => Verdict::Pass,
    });
    world.faults.event(move |_, _, _| match chance.next() % 17 {
        0 => EventVerdict::Duplicate,
        1 => EventVerdict::Close,
        2 => EventVerdict::Delay(Duration::from_millis(chance.next() % 10_000)),
        _ => EventVerdict::Pass,
    });
}

/// A user who creates, changes, annotates, tampers and deletes.
async fn user(world: &World, random: &SeededRandom) {
    let name = format!("toy-{}", random.next() % 8);
    let at = At::new("apps", &name);
    let by = WriteOptions::by("user");
    let size = random.next() % 1_000;
    // Whatever the user asks for may be pointless at the moment.
    match random.next() % 9 {
        0..=2 => {
            let toy = json!({"apiVersion": "example.com/v1", "kind": "Toy",
                "metadata": {"name": name, "namespace": "apps"}, "spec": {"size": size}});
            let _ = world.user.create(&TOYS, "apps", &toy, &by).await;
        }
        3 | 4 => {
            let patch = Patch::Merge(json!({"spec": {"size": size}}));
            let _ = world.user.patch(&TOYS, at, &patch, &by).await;
        }
        5 => {
            let request = json!({"reconcile.fluxcd.io/requestedAt": size.to_string()});
            let patch = Patch::Merge(json!({"metadata": {"annotations": request}}));
            let _ = world.user.patch(&TOYS, at, &patch, &by).await;
        }
        6 => {
            let foreign = json!([{"type": "Foreign", "status": size.to_string()}]);
            let patch = Patch::Merge(json!({"status": {"conditions": foreign}}));
            let _ = world.user.patch(&TOYS, at.status(), &patch, &by).await;
        }
        7 => {
            let options = DeleteOptions::default();
            let _ = world.user.delete(&TOYS, at, &options).await;
        }
        _ => {
            let strip = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let _ = world
                .user
                .delete(&TOYS, at, &DeleteOptions::default())
                .await;
            let _ = world.user.patch(&TOYS, at, &strip, &by).await;
            let _ = world
                .user
                .delete(&MAPS, at, &DeleteOptions::default())
                .await;
        }
    }
}

async fn story(seed: u64) -> Vec<String> {
    let world = World::new(seed).await;
    world.client.meter().record();
    let random = SeededRandom::new(seed ^ 0x5eed);
    let work = Duration::from_millis(random.next() % 800);
    let mut running = Running::start(&world, work);
    break_requests(&world, seed);
    for _ in 0..60 {
        user(&world, &random).await;
        world.sleep(random.unit() * 4.0).await;
        running.assert_queue_sound();
        if random.next().is_multiple_of(12) {
            running.kill().await;
            running = Running::start(&world, work);
        }
    }
    world.faults.clear();
    world.sleep(120.0).await;
    running.assert_no_orphan();
    let left = world
        .user
        .list_all(&TOYS, None, &Selection::default())
        .await
        .unwrap();
    for toy in &left.items {
        let name = toy["metadata"]["name"].as_str().unwrap();
        assert!(
            toy["metadata"].get("deletionTimestamp").is_none(),
            "seed {seed}: {toy}"
        );
        let settled = settled(&world, name).await;
        settled.unwrap_or_else(|why| panic!("seed {seed}: {name}: {why}"));
    }
    // Quiet: nothing more is written.
    let before = world.faults.requests().len();
    world.sleep(200.0).await;
    let later = world.faults.requests().split_off(before);
    let writes: Vec<&String> = later
        .iter()
        .filter(|line| !line.starts_with("GET"))
        .collect();
    assert_eq!(writes, Vec::<&String>::new(), "seed {seed}");
    world.client.meter().recorded()
}

#[test]
fn all_objects_converge_after_random_faults() {
    let given = std::env::var("SEEDS").ok();
    let seeds: u64 = given.and_then(|text| text.parse().ok()).unwrap_or(16);
    for seed in 0..seeds {
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(story(seed))
        };
        let first = run();
        if seed < 5 {
            assert_eq!(first, run(), "seed {seed} gives two histories");
        }
    }
}
