//! Stores kept up to date through faults.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everflow_cluster::faults::{EventVerdict, Verdict};
use everflow_json::json;
use everflow_runtime::client::{At, DeleteOptions, Patch, WriteOptions};
use everflow_runtime::reflector::{Reflector, ReflectorOptions, Watched};
use everflow_runtime::store::Store;
use support::{TOYS, World, refuse};

fn start(world: &World, watched: Watched) -> Store {
    let options = ReflectorOptions::default();
    let reflector = Reflector::new(world.env.clone(), world.client.clone(), watched, options);
    let store = reflector.store();
    tokio::spawn(reflector.run());
    store
}

async fn resize(world: &World, name: &str, size: u32) {
    let patch = Patch::Merge(json!({"spec": {"size": size}}));
    let by = WriteOptions::by("user");
    let at = At::new("apps", name);
    world.user.patch(&TOYS, at, &patch, &by).await.unwrap();
}

fn size(store: &Store, name: &str) -> everflow_json::Value {
    let stored = store.get("apps", name);
    stored.map_or(json!(null), |stored| stored.value()["spec"]["size"].clone())
}

#[tokio::test(start_paused = true)]
async fn store_follows_the_server() {
    let world = World::new(1).await;
    world.create_toy("one", json!({"size": 1})).await;
    let store = start(&world, Watched::all(TOYS));
    store.synced().await;
    assert_eq!(size(&store, "one"), 1);
    world.create_toy("two", json!({"size": 2})).await;
    resize(&world, "one", 5).await;
    world.sleep(0.1).await;
    assert_eq!(
        (size(&store, "one"), size(&store, "two")),
        (json!(5), json!(2))
    );
    let at = At::new("apps", "one");
    world
        .user
        .delete(&TOYS, at, &DeleteOptions::default())
        .await
        .unwrap();
    world.sleep(0.1).await;
    assert_eq!(store.len(), 1);
    // An hour with nothing to tell: watches only, and never silent for long.
    let before = world.faults.requests().len();
    for _ in 0..360 {
        world.sleep(10.0).await;
        assert!(
            store.age().unwrap() < Duration::from_secs(155),
            "{:?}",
            store.age()
        );
    }
    let requests = world.faults.requests().split_off(before);
    let lists = requests
        .iter()
        .filter(|line| !line.ends_with("?watch"))
        .count();
    assert!(
        requests.len() < 60 && lists == 0,
        "{} requests, {lists} lists",
        requests.len()
    );
}

#[tokio::test(start_paused = true)]
async fn metadata_is_enough_where_it_is() {
    let world = World::new(1).await;
    world.create_toy("one", json!({"size": 1})).await;
    let store = start(&world, Watched::all(TOYS).metadata());
    store.synced().await;
    let stored = store.get("apps", "one").unwrap().value();
    assert_eq!(
        (stored["kind"].as_str(), stored.get("spec")),
        (Some("Toy"), None)
    );
    resize(&world, "one", 2).await;
    world.sleep(0.1).await;
    assert_eq!(store.get("apps", "one").unwrap().generation, 2);
}

#[tokio::test(start_paused = true)]
async fn servers_without_streaming_lists_are_read_page_by_page() {
    let world = World::new(1).await;
    for number in 0..1_100 {
        world.create_toy(&format!("toy-{number}"), json!({})).await;
    }
    world
        .faults
        .before(|request| match request.param("sendInitialEvents") {
            Some(_) => refuse(422, "Invalid"),
            None => Verdict::Pass,
        });
    let store = start(&world, Watched::all(TOYS));
    store.synced().await;
    assert_eq!(store.len(), 1_100);
    let lists = world.faults.requests();
    assert_eq!(
        lists
            .iter()
            .filter(|line| line.starts_with("GET") && !line.ends_with("?watch"))
            .count(),
        3
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_recovers_from_every_failure_of_its_stream() {
    for fault in [
        "drop", "500", "503", "429", "410", "hang", "close", "lose", "twice", "garbage",
    ] {
        let world = World::new(2).await;
        world.create_toy("one", json!({"size": 1})).await;
        let store = start(&world, Watched::all(TOYS));
        store.synced().await;
        world.faults.before(move |_| match fault {
            "drop" => Verdict::Drop,
            "500" => refuse(500, "InternalError"),
            "503" => refuse(503, "ServiceUnavailable"),
            "429" => refuse(429, "TooManyRequests"),
            "410" => refuse(410, "Expired"),
            "hang" => Verdict::Delay(Duration::from_secs(10_000)),
            _ => Verdict::Pass,
        });
        world.faults.event(move |_, kind, _| match (fault, kind) {
            ("lose", "MODIFIED") => EventVerdict::Drop,
            ("twice", _) => EventVerdict::Duplicate,
            _ => EventVerdict::Close,
        });
        resize(&world, "one", 2).await;
        world.sleep(40.0).await;
        world.create_toy("two", json!({"size": 9})).await;
        resize(&world, "one", 3).await;
        world.sleep(300.0).await;
        world.faults.clear();
        let limit = match fault {
            "lose" => 700.0,
            // A request that still hangs has 30 s, and the pause after it another 30 s.
            "hang" => 65.0,
            _ => 35.0,
        };
        world.sleep(limit).await;
        let seen = (size(&store, "one"), size(&store, "two"));
        assert_eq!(seen, (json!(3), json!(9)), "after {fault}");
        resize(&world, "one", 4).await;
        world.sleep(1.0).await;
        assert_eq!(size(&store, "one"), 4, "after {fault}");
    }
}

/// A toy of size 1 in a store, and of size 2 on the server: its watch stays open, is opened again and again, and tells
/// nothing.
async fn silenced() -> (World, Store) {
    let world = World::new(3).await;
    world.create_toy("one", json!({"size": 1})).await;
    let store = start(&world, Watched::all(TOYS));
    store.synced().await;
    world
        .faults
        .event(|_, _, _| EventVerdict::Delay(Duration::from_secs(100_000)));
    resize(&world, "one", 2).await;
    (world, store)
}

#[tokio::test(start_paused = true)]
async fn silent_watch_is_probed_and_replaced() {
    let (world, store) = silenced().await;
    world.sleep(149.0).await;
    assert_eq!(size(&store, "one"), 1);
    world
        .faults
        .before(|request| match request.param("sendInitialEvents") {
            Some(_) => refuse(422, "Invalid"),
            None => Verdict::Pass,
        });
    world.sleep(5.0).await;
    assert_eq!(size(&store, "one"), 2);
}

/// A cache that stands still tells nothing to whoever watches; some servers answer lists all the same.
#[tokio::test(start_paused = true)]
async fn lists_are_polled_when_watches_stay_silent() {
    let (world, store) = silenced().await;
    // Suspected after 150 s; then a watch to compare with and one to read all again are each given 30 s.
    world.sleep(215.0).await;
    assert_eq!(size(&store, "one"), 2);
}

#[tokio::test(start_paused = true)]
async fn one_failing_kind_does_not_slow_another() {
    let world = World::new(4).await;
    world.create_toy("one", json!({"size": 1})).await;
    world
        .faults
        .before(|request| match request.path.contains("configmaps") {
            true => refuse(500, "InternalError"),
            false => Verdict::Pass,
        });
    let maps = everflow_runtime::client::Resource::namespaced("", "v1", "configmaps", "ConfigMap");
    let broken = start(&world, Watched::all(maps));
    let toys = start(&world, Watched::all(TOYS));
    toys.synced().await;
    assert_eq!(world.env.clock.elapsed(), Duration::ZERO);
    for number in 2..50 {
        resize(&world, "one", number).await;
        world.sleep(1.0).await;
        assert_eq!(size(&toys, "one"), number);
    }
    assert!(!broken.is_synced());
    world.faults.clear();
    world.sleep(31.0).await;
    assert!(broken.is_synced());
}

#[tokio::test(start_paused = true)]
async fn store_keeps_objects_while_nothing_can_be_read() {
    let world = World::new(5).await;
    world.create_toy("one", json!({"size": 1})).await;
    let store = start(&world, Watched::all(TOYS));
    store.synced().await;
    resize(&world, "one", 2).await;
    world.sleep(1.0).await;
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = lists.clone();
    world
        .faults
        .before(move |request| match request.param("sendInitialEvents") {
            Some(_) => refuse(422, "Invalid"),
            None => {
                counted.fetch_add(1, Ordering::SeqCst);
                refuse(410, "Expired")
            }
        });
    world.sleep(200.0).await;
    assert!(lists.load(Ordering::SeqCst) > 2);
    assert_eq!(
        size(&store, "one"),
        2,
        "what is known is kept while nothing can be read"
    );
}

/// A cluster that is restored from a backup: its revisions go back, and watches from later ones are told nothing.
#[tokio::test(start_paused = true)]
async fn restored_server_is_noticed_at_once() {
    let world = World::new(1).await;
    world.create_toy("one", json!({"size": 1})).await;
    let backup = world.server.backup();
    let store = start(&world, Watched::all(TOYS));
    store.synced().await;
    resize(&world, "one", 2).await;
    world.create_toy("two", json!({"size": 2})).await;
    world.sleep(1.0).await;
    assert_eq!(store.len(), 2);
    let mut changes = store.subscribe();
    world.server.go_back(&backup);
    world.sleep(10.0).await;
    assert_eq!((size(&store, "one"), store.len()), (json!(1), 1));
    assert_eq!(store.rewinds(), 1);
    let mut back = Vec::new();
    while let Ok(change) = changes.try_recv() {
        if change.goes_back() {
            back.push(change.name.1);
        }
    }
    assert_eq!(back, ["one"]);
    // Its revisions come by those that were given out before.
    for number in 0..20 {
        resize(&world, "one", 3 + number).await;
    }
    world.sleep(1.0).await;
    assert_eq!(size(&store, "one"), 22);
}

/// The same, when revisions have come past the old ones before anybody could look.
#[tokio::test(start_paused = true)]
async fn restored_server_is_noticed_after_its_revisions_pass_the_old_ones() {
    let world = World::new(1).await;
    world.create_toy("one", json!({"size": 1})).await;
    let backup = world.server.backup();
    let store = start(&world, Watched::all(TOYS));
    store.synced().await;
    resize(&world, "one", 2).await;
    world.sleep(1.0).await;
    world.server.go_back(&backup);
    for number in 0..5 {
        world.create_toy(&format!("new-{number}"), json!({})).await;
    }
    world.sleep(700.0).await;
    assert_eq!((size(&store, "one"), store.len()), (json!(1), 6));
}

/// A first list of which one event cannot be read is no list.
#[tokio::test(start_paused = true)]
async fn first_list_with_an_unreadable_event_is_repeated() {
    for junk in [
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"?\"}}}\n",
        "{\"type\n",
    ] {
        let world = World::new(1).await;
        world.create_toy("one", json!({"size": 1})).await;
        let seen = AtomicUsize::new(0);
        world
            .faults
            .event(move |_, _, _| match seen.fetch_add(1, Ordering::SeqCst) {
                0 => EventVerdict::Replace(junk.into()),
                _ => EventVerdict::Pass,
            });
        let store = start(&world, Watched::all(TOYS));
        world.sleep(10.0).await;
        assert_eq!(size(&store, "one"), 1, "{junk}");
    }
}

/// The answer to a write of ours says more than the server knows after it was restored from a backup, and no event will
/// ever say otherwise.
#[tokio::test(start_paused = true)]
async fn requested_resync_replaces_an_object_lost_in_a_restore() {
    let world = World::new(1).await;
    let mut lost = world.create_toy("one", json!({"size": 1})).await;
    let store = start(&world, Watched::all(TOYS));
    store.synced().await;
    lost["spec"]["size"] = json!(9);
    lost["metadata"]["resourceVersion"] = json!("1000000");
    store.learn(&lost);
    world.sleep(60.0).await;
    assert_eq!(size(&store, "one"), 9);
    store.request_resync();
    world.sleep(0.1).await;
    assert_eq!(size(&store, "one"), 1);
    resize(&world, "one", 2).await;
    world.sleep(0.1).await;
    assert_eq!(size(&store, "one"), 2);
}
