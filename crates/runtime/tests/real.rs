//! The runtime on a real Kubernetes API server. Runs when `EVERFLOW_REAL` is set.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod support;

use std::time::Duration;

use everflow_corpus::real::ApiServer;
use everflow_json::{Value, json};
use everflow_runtime::client::{At, DeleteOptions, Patch, Selection, WriteOptions};
use everflow_runtime::events::EVENTS;
use everflow_runtime::lease::{Election, LEASES, LeaseOptions};
use everflow_runtime::status::{StatusWriter, Written};
use everflow_runtime::{Error, Signal};
use support::toy::{MAPS, Running, settled};
use support::{TOYS, World};

async fn eventually(world: &World, names: &[String]) {
    let mut last = String::new();
    for _ in 0..300 {
        last.clear();
        for name in names {
            if let Err(why) = settled(world, name).await {
                last = format!("{name}: {why}");
                break;
            }
        }
        if last.is_empty() {
            return;
        }
        world.sleep(0.1).await;
    }
    panic!("{last}");
}

#[tokio::test]
async fn the_toy_controller_on_a_real_server() {
    let Some(real) = ApiServer::start("runtime") else {
        return;
    };
    let world = World::real(&real.kubeconfig()).await;
    let election = Election::new(
        world.env.clone(),
        world.client.clone(),
        LeaseOptions::new("apps", "toy-controller", "", "one".into()),
    );
    let (leadership, stop_election) = (election.leadership(), Signal::new());
    let electing = tokio::spawn(election.run(stop_election.clone()));
    let running = Running::start_with(&world, &world.client, Duration::ZERO, Some(leadership));
    let names: Vec<String> = (0..50).map(|number| format!("toy-{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        world.create_toy(name, json!({"size": number})).await;
    }
    eventually(&world, &names).await;
    let requests = world.client.meter().requests();
    let patches: u64 = requests
        .iter()
        .filter(|((method, _), _)| method == "PATCH")
        .map(|(_, count)| count)
        .sum();
    assert_eq!(
        patches, 150,
        "finalizer, box and status for each: {requests:?}"
    );
    println!("requests for 50 new objects: {requests:?}");

    // A newer spec, a person's request, a foreign condition and a broken status.
    let by = WriteOptions::by("user");
    let at = |name| At::new("apps", name);
    let patch = Patch::Merge(
        json!({"spec": {"size": 1_000}, "metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "t1"}}}),
    );
    world
        .user
        .patch(&TOYS, at("toy-1"), &patch, &by)
        .await
        .unwrap();
    let foreign = json!({"type": "Policy", "status": "True"});
    let patch =
        Patch::Json(json!([{"op": "add", "path": "/status/conditions/-", "value": foreign}]));
    world
        .user
        .patch(&TOYS, at("toy-2").status(), &patch, &by)
        .await
        .unwrap();
    let patch = Patch::Merge(json!({"spec": {"size": 2_000}}));
    world
        .user
        .patch(&TOYS, at("toy-2"), &patch, &by)
        .await
        .unwrap();
    eventually(&world, &names).await;
    let conditions = world.toy("toy-2").await["status"]["conditions"].clone();
    let kinds: Vec<&str> = conditions
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| condition["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["Ready", "Policy"]);

    // Managers as Flux has them.
    let toy = world.toy("toy-3").await;
    let entries = toy["metadata"]["managedFields"].as_array().unwrap();
    let ours = entries
        .iter()
        .filter(|entry| entry["manager"] == "toy-controller" && entry["operation"] == "Update");
    assert_eq!(ours.count(), 2, "{entries:?}");

    one_write_of_the_status(&world).await;

    // Deleted, also with its box; events told.
    for name in &names {
        world
            .user
            .delete(&TOYS, at(name), &DeleteOptions::default())
            .await
            .unwrap();
    }
    for _ in 0..100 {
        let left = world
            .user
            .list_all(&TOYS, None, &Selection::default())
            .await
            .unwrap();
        if left.items.len() == 1 {
            break;
        }
        world.sleep(0.1).await;
    }
    assert!(matches!(
        world.user.get(&TOYS, at("toy-9")).await,
        Err(Error::NotFound(_))
    ));
    assert!(matches!(
        world.user.get(&MAPS, at("toy-9")).await,
        Err(Error::NotFound(_))
    ));
    let events = world
        .user
        .list_all(&EVENTS, Some("apps"), &Selection::default())
        .await
        .unwrap();
    assert!(events.items.len() >= 50, "{}", events.items.len());
    running.assert_no_orphan();

    running.stop.raise();
    running.task.await.unwrap();
    stop_election.raise();
    electing.await.unwrap();
    let lease = world
        .user
        .get(&LEASES, At::new("apps", "toy-controller-leader-election"))
        .await
        .unwrap();
    assert_eq!(
        lease["spec"]
            .get("holderIdentity")
            .and_then(Value::as_str)
            .unwrap_or_default(),
        ""
    );
}

/// The tests in the patch mean the same to the real server.
async fn one_write_of_the_status(world: &World) {
    let suspended = world.create_toy("still", json!({"suspend": true})).await;
    let writer = StatusWriter {
        env: &world.env,
        client: &world.client,
        resource: &TOYS,
        field_manager: "toy-controller",
        owned: &["Ready"],
        patience: Duration::from_secs(5),
    };
    let status =
        json!({"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]});
    let written = writer.write(&suspended, &status, || false).await.unwrap();
    let Written::Stored(stored) = written else {
        panic!("{written:?}")
    };
    assert_eq!(stored["status"], status);
    // From a copy that has never heard of conditions: found out, read, and written on top.
    let other = json!({"observedGeneration": 1, "x": 1, "conditions": [{"type": "Ready", "status": "False"}]});
    let written = writer.write(&suspended, &other, || false).await.unwrap();
    assert!(matches!(written, Written::Stored(_)), "{written:?}");
    let again = writer
        .write(&world.toy("still").await, &other, || false)
        .await
        .unwrap();
    assert_eq!(again, Written::Unchanged);
    // Letters that Go escapes: the server compares texts.
    let odd = |text: &str| json!({"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "False", "message": text}]});
    let patches = || {
        let requests = world.client.meter().requests();
        let patches = requests.iter().filter(|((method, _), _)| method == "PATCH");
        patches.map(|(_, count)| count).sum::<u64>()
    };
    for text in [
        "GET /api?limit=1&x=<none> > 2",
        "\u{2028}\u{2029}\u{e9}\u{1f600}",
        "fine",
    ] {
        let (known, before) = (world.toy("still").await, patches());
        let written = writer.write(&known, &odd(text), || false).await.unwrap();
        assert!(matches!(written, Written::Stored(_)), "{written:?}");
        assert_eq!(patches() - before, 1, "{text:?}");
    }
    let mut namesake = suspended.clone();
    namesake["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000".into();
    let gone = writer.write(&namesake, &status, || false).await.unwrap();
    assert_eq!(gone, Written::Gone);
}
