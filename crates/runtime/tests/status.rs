//! One write of the status: what it must show, whatever the store knows.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everflow_cluster::faults::Verdict;
use everflow_json::{Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{At, DeleteOptions, Patch, WriteOptions};
use everflow_runtime::metadata::{Edited, ensure_finalizer, finalizers, remove_finalizer};
use everflow_runtime::status::{StatusWriter, Written};
use support::{TOYS, World, refuse};

const OWNED: [&str; 4] = ["Ready", "Reconciling", "Stalled", "ArtifactInStorage"];

fn writer(world: &World) -> StatusWriter<'_> {
    StatusWriter {
        env: &world.env,
        client: &world.client,
        resource: const { &TOYS },
        field_manager: "source-controller",
        owned: const { &OWNED },
        patience: Duration::from_secs(20),
    }
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "reason": "Tested", "message": "", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

async fn patch_status(world: &World, manager: &str, patch: Value) -> Value {
    let at = At::new("apps", "one").status();
    let by = WriteOptions::by(manager);
    world
        .user
        .patch(&TOYS, at, &Patch::Merge(patch), &by)
        .await
        .unwrap()
}

fn count(world: &World, start: &str) -> usize {
    world
        .faults
        .requests()
        .iter()
        .filter(|line| line.starts_with(start))
        .count()
}

/// (a) Nothing of what Flux wrote is left behind, and the field manager is Flux's.
#[tokio::test(start_paused = true)]
async fn taking_over_a_status_leaves_no_stale_field() {
    let world = World::new(1).await;
    world.create_toy("one", json!({})).await;
    let old = json!({"status": {
        "observedGeneration": 7, "url": "http://old", "artifact": {"digest": "old", "path": "p"},
        "conditions": [condition("FetchFailed", "True"), condition("Stalled", "True"), condition("Ready", "False")],
    }});
    let known = patch_status(&world, "source-controller", old).await;
    let status = json!({"observedGeneration": 1, "artifact": {"digest": "new"}, "conditions": [condition("Ready", "True")]});
    let owned = ["Ready", "Stalled", "FetchFailed"];
    let writer = StatusWriter {
        owned: &owned,
        ..writer(&world)
    };
    let written = writer.write(&known, &status, || false).await.unwrap();
    let Written::Stored(stored) = written else {
        panic!("{written:?}")
    };
    assert_eq!(stored["status"], status);
    assert_eq!(world.faults.requests().len(), 1);
    let stored = world.user.get(&TOYS, At::new("apps", "one")).await.unwrap();
    let entries = stored["metadata"]["managedFields"].as_array().unwrap();
    let ours: Vec<&Value> = entries
        .iter()
        .filter(|entry| entry["subresource"] == "status")
        .collect();
    assert_eq!(ours.len(), 1, "{entries:?}");
    assert_eq!(
        (ours[0]["manager"].as_str(), ours[0]["operation"].as_str()),
        (Some("source-controller"), Some("Update"))
    );
    assert_eq!(ours[0]["fieldsV1"]["f:status"].get("f:url"), None);
}

/// (b) and (c) Conditions of others survive, also those that the store has not heard of.
#[tokio::test(start_paused = true)]
async fn foreign_conditions_survive_even_when_missing_from_the_cache() {
    let world = World::new(1).await;
    let stale = world.create_toy("one", json!({})).await;
    let foreign = json!({"status": {"conditions": [condition("PolicyChecked", "True"), condition("Ready", "False")]}});
    patch_status(&world, "policy", foreign).await;
    let status = json!({"observedGeneration": 1, "conditions": [condition("Ready", "True"), condition("ArtifactInStorage", "True")]});
    let written = writer(&world)
        .write(&stale, &status, || false)
        .await
        .unwrap();
    let Written::Stored(stored) = written else {
        panic!("{written:?}")
    };
    let kinds: Vec<&str> = stored["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["Ready", "ArtifactInStorage", "PolicyChecked"]);
    assert_eq!((count(&world, "PATCH"), count(&world, "GET")), (2, 1));
    // (d) Unchanged: nothing is written.
    let again = writer(&world)
        .write(&stored, &status, || false)
        .await
        .unwrap();
    assert_eq!(again, Written::Unchanged);
    assert_eq!(count(&world, "PATCH"), 2);
}

/// Someone who changes the status all the time does not keep us from writing ours: sooner when it is
/// the conditions that change.
#[tokio::test(start_paused = true)]
async fn status_is_written_despite_a_persistent_writer() {
    let conditions =
        |number: usize| json!({"conditions": [{"type": "Busy", "status": number.to_string()}]});
    assert_eq!(writes_against(conditions).await, 4);
    let another_field = |number: usize| json!({"url": number.to_string()});
    assert_eq!(writes_against(another_field).await, 7);
}

/// How many writes it takes when someone changes the status just before each.
async fn writes_against(change: impl Fn(usize) -> Value + Send + Sync + 'static) -> usize {
    let world = World::new(1).await;
    let known = world.create_toy("one", json!({})).await;
    let (server, counter) = (world.server.clone(), AtomicUsize::new(0));
    world.faults.before(move |request| {
        if request.method == "PATCH" {
            let number = counter.fetch_add(1, Ordering::SeqCst);
            let patch = json!({"status": change(number)});
            let path = "/apis/example.com/v1/namespaces/apps/toys/one/status?fieldManager=busy";
            let request = everflow_cluster::Request::new("PATCH", path, patch.to_string())
                .header("content-type", "application/merge-patch+json");
            assert_eq!(server.handle(&request).status, 200);
        }
        Verdict::Pass
    });
    let status = json!({"observedGeneration": 1, "conditions": [condition("Ready", "True")]});
    let written = writer(&world)
        .write(&known, &status, || false)
        .await
        .unwrap();
    assert!(matches!(written, Written::Stored(_)));
    assert_eq!(
        world.toy("one").await["status"]["conditions"][0]["type"],
        "Ready"
    );
    count(&world, "PATCH")
}

/// A user's change of the spec, or of labels, does not matter to the write, nor the write to it.
#[tokio::test(start_paused = true)]
async fn status_write_ignores_a_changed_resource_version() {
    let world = World::new(1).await;
    let stale = world.create_toy("one", json!({"size": 1})).await;
    let change = Patch::Merge(json!({"spec": {"size": 2}, "metadata": {"labels": {"a": "b"}}}));
    world
        .user
        .patch(
            &TOYS,
            At::new("apps", "one"),
            &change,
            &WriteOptions::by("user"),
        )
        .await
        .unwrap();
    let status = json!({"observedGeneration": 1, "conditions": [condition("Ready", "True")]});
    writer(&world)
        .write(&stale, &status, || false)
        .await
        .unwrap();
    let toy = world.toy("one").await;
    assert_eq!(
        (
            toy["spec"]["size"].as_i64(),
            toy["metadata"]["labels"]["a"].as_str()
        ),
        (Some(2), Some("b"))
    );
    assert_eq!(toy["status"]["observedGeneration"], 1);
    assert_eq!(world.faults.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_and_lost_answers_found() {
    for fault in ["500", "429", "409", "drop", "lost", "hang"] {
        let world = World::new(1).await;
        let known = world.create_toy("one", json!({})).await;
        let counter = Arc::new(AtomicUsize::new(0));
        let twice = move || counter.fetch_add(1, Ordering::SeqCst) < 2;
        match fault {
            "lost" => world.faults.after(move |_, _| {
                if twice() {
                    Verdict::Drop
                } else {
                    Verdict::Pass
                }
            }),
            _ => world.faults.before(move |_| match (twice(), fault) {
                (false, _) => Verdict::Pass,
                (_, "500") => refuse(500, "InternalError"),
                (_, "429") => refuse(429, "TooManyRequests"),
                (_, "409") => refuse(409, "Conflict"),
                (_, "drop") => Verdict::Drop,
                _ => Verdict::Delay(Duration::from_secs(9)),
            }),
        }
        let status = json!({"observedGeneration": 1, "conditions": [condition("Ready", "True")]});
        let written = writer(&world).write(&known, &status, || false).await;
        assert!(written.is_ok(), "{fault}: {written:?}");
        assert_eq!(world.toy("one").await["status"], status, "{fault}");
    }
    let world = World::new(1).await;
    let known = world.create_toy("one", json!({})).await;
    world.faults.before(|_| refuse(503, "ServiceUnavailable"));
    let failed = writer(&world)
        .write(&known, &json!({"x": 1}), || false)
        .await;
    assert!(matches!(failed, Err(Error::ServerError(_))));
    assert!(world.env.clock.elapsed() < Duration::from_secs(30));
    world.faults.clear();
    let given_up = writer(&world)
        .write(&known, &json!({"x": 1}), || true)
        .await;
    assert_eq!(given_up.unwrap(), Written::GivenUp);
}

#[tokio::test(start_paused = true)]
async fn status_of_a_recreated_object_is_not_written() {
    let world = World::new(1).await;
    let first = world.create_toy("one", json!({})).await;
    world
        .user
        .delete(&TOYS, At::new("apps", "one"), &DeleteOptions::default())
        .await
        .unwrap();
    let status = json!({"observedGeneration": 9});
    let written = writer(&world)
        .write(&first, &status, || false)
        .await
        .unwrap();
    assert_eq!(written, Written::Gone);
    let second = world.create_toy("one", json!({})).await;
    let written = writer(&world)
        .write(&first, &status, || false)
        .await
        .unwrap();
    assert_eq!(written, Written::Gone);
    assert_eq!(world.toy("one").await, second);
    let edited = ensure_finalizer(&world.client, &TOYS, &first, "f.example.com/x", "m")
        .await
        .unwrap();
    assert_eq!(edited, Edited::Gone);
    assert_eq!(world.toy("one").await, second);
}

#[tokio::test(start_paused = true)]
async fn finalizers_are_added_beside_others_and_removed_alone() {
    let world = World::new(1).await;
    let stale = world.create_toy("one", json!({})).await;
    let theirs = Patch::Merge(json!({"metadata": {"finalizers": ["theirs.example.com/f"]}}));
    world
        .user
        .patch(
            &TOYS,
            At::new("apps", "one"),
            &theirs,
            &WriteOptions::by("user"),
        )
        .await
        .unwrap();
    let ours = "finalizers.fluxcd.io";
    let edited = ensure_finalizer(&world.client, &TOYS, &stale, ours, "source-controller")
        .await
        .unwrap();
    let Edited::Stored(stored) = edited else {
        panic!("{edited:?}")
    };
    assert_eq!(finalizers(&stored), ["theirs.example.com/f", ours]);
    let again = ensure_finalizer(&world.client, &TOYS, &stored, ours, "source-controller")
        .await
        .unwrap();
    assert_eq!(again, Edited::Unchanged);
    world
        .user
        .delete(&TOYS, At::new("apps", "one"), &DeleteOptions::default())
        .await
        .unwrap();
    // From a stale copy, and with the answer lost.
    let lost = AtomicUsize::new(0);
    world.faults.after(move |request, _| {
        match request.method == "PATCH" && lost.fetch_add(1, Ordering::SeqCst) == 1 {
            true => Verdict::Drop,
            false => Verdict::Pass,
        }
    });
    let removed = remove_finalizer(&world.client, &TOYS, &stored, ours, "source-controller")
        .await
        .unwrap();
    assert_eq!(
        removed,
        Edited::Unchanged,
        "it was removed by the write whose answer was lost"
    );
    let toy = world.toy("one").await;
    assert_eq!(finalizers(&toy), ["theirs.example.com/f"]);
    let removed = remove_finalizer(&world.client, &TOYS, &toy, "theirs.example.com/f", "user")
        .await
        .unwrap();
    assert_eq!(removed, Edited::Gone);
}

/// A write that its client has given up, and that the server carries out late, undoes nothing.
#[tokio::test(start_paused = true)]
async fn late_write_does_not_undo_newer_state() {
    let world = World::new(1).await;
    let known = world.create_toy("one", json!({})).await;
    let ready = json!([condition("Ready", "True")]);
    let first = json!({"observedGeneration": 1, "inventory": ["a"], "conditions": ready});
    let written = writer(&world).write(&known, &first, || false).await;
    let Ok(Written::Stored(known)) = written else {
        panic!("{written:?}")
    };
    let late = AtomicUsize::new(0);
    world.faults.before(move |request| {
        match request.method == "PATCH" && late.fetch_add(1, Ordering::SeqCst) == 0 {
            true => Verdict::Later {
                after: Duration::from_secs(7),
                breaks: true,
            },
            false => Verdict::Pass,
        }
    });
    let hasty = StatusWriter {
        patience: Duration::ZERO,
        ..writer(&world)
    };
    let failed = json!({"observedGeneration": 1, "inventory": ["a"], "conditions": [condition("Ready", "False")]});
    assert!(hasty.write(&known, &failed, || false).await.is_err());
    let wider = json!({"observedGeneration": 1, "inventory": ["a", "b"], "conditions": ready});
    writer(&world)
        .write(&known, &wider, || false)
        .await
        .unwrap();
    world.sleep(10.0).await;
    assert_eq!(world.toy("one").await["status"], wider);
}

/// A cluster that was restored from a backup hears nothing of generations that have never been.
#[tokio::test(start_paused = true)]
async fn status_is_not_written_for_a_generation_lost_in_a_restore() {
    let world = World::new(1).await;
    world.create_toy("one", json!({"size": 1})).await;
    let backup = world.server.backup();
    let change = Patch::Merge(json!({"spec": {"size": 2}}));
    let by = WriteOptions::by("user");
    let at = At::new("apps", "one");
    world.user.patch(&TOYS, at, &change, &by).await.unwrap();
    let known = patch_status(&world, "toys", json!({"status": {"url": "http://a"}})).await;
    world.server.go_back(&backup);
    let status = json!({"observedGeneration": 2, "conditions": [condition("Ready", "True")]});
    let written = writer(&world).write(&known, &status, || false).await;
    assert_eq!(written.unwrap(), Written::Rewound);
    assert_eq!(world.toy("one").await["status"]["observedGeneration"], -1);
}

/// Somebody else has applied objects meanwhile, and written down which: who does not know of them must not forget them.
#[tokio::test(start_paused = true)]
async fn an_inventory_that_was_not_seen_is_not_overwritten() {
    let world = World::new(1).await;
    let known = world.create_toy("one", json!({"size": 1})).await;
    let entries = |ids: &[&str]| -> Value {
        let entries: Vec<Value> = ids.iter().map(|id| json!({"id": id, "v": "v1"})).collect();
        json!({"inventory": {"entries": entries}})
    };
    patch_status(&world, "toys", json!({"status": entries(&["theirs"])})).await;
    let write = async |known: &Value, ids: &[&str]| {
        let status = entries(ids);
        writer(&world)
            .write(known, &status, || false)
            .await
            .unwrap()
    };
    assert_eq!(write(&known, &["ours"]).await, Written::GivenUp);
    assert!(matches!(
        write(&known, &["ours", "theirs"]).await,
        Written::Stored(_)
    ));
    // Who has seen them may take them out.
    let seen = world.toy("one").await;
    assert!(matches!(write(&seen, &["ours"]).await, Written::Stored(_)));
}
