//! The in-process transport says the same as text and as trees.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use everflow_cluster::auth::User;
use everflow_cluster::{ApiServer, ApiService, Options};
use everflow_embedded::{EmbeddedTransport, ServerWorld};
use everflow_env::{Env, MemoryDialer, SeededRandom};
use everflow_json::{Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::{
    At, Client, DeleteOptions, Patch, Resource, Selection, WatchEvent, WatchFrom, WriteOptions,
};
use everflow_runtime::reflector::{Reflector, ReflectorOptions, Watched};

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
const SETS: Resource = Resource::namespaced("apps", "v1", "daemonsets", "DaemonSet");

struct World {
    env: Env,
    client: Client,
}

fn world(trees: bool) -> World {
    let env = Env::simulated(1, MemoryDialer::new());
    let random = Arc::new(SeededRandom::new(2));
    let server = ApiServer::new(
        Arc::new(ServerWorld::new(env.clock.clone(), random)),
        Options::default(),
    );
    let service = ApiService::new(server).as_user(User::admin());
    let transport = EmbeddedTransport::new(service).with_trees(trees);
    let client = Client::new(Arc::new(transport), env.clock.clone());
    World { env, client }
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}})
}

fn set() -> Value {
    let container = json!({"name": "main", "image": "image"});
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "set", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}}})
}

/// Everything that a watch says, from the beginning to its end.
async fn watched(world: &World, resource: &Resource, selection: &Selection) -> Vec<String> {
    let (from, span) = (WatchFrom::Everything, Duration::from_secs(90));
    let stream = world.client.watch(resource, None, selection, from, span);
    let mut stream = stream.await.unwrap();
    let mut told = Vec::new();
    while let Some(event) = stream.next().await.unwrap() {
        if let WatchEvent::Bookmark { all_told: true, .. } = event {
            let (at, options) = (At::new("default", "a"), DeleteOptions::default());
            let gone = world.client.delete(resource, at, &options);
            assert!(matches!(gone.await, Ok(_) | Err(Error::NotFound(_))));
        }
        told.push(format!("{event:?}"));
    }
    told
}

/// What a client is told, of requests of every kind.
async fn conversation(world: &World) -> Vec<String> {
    let (client, by) = (&world.client, WriteOptions::by("test"));
    let mut told: Vec<String> = Vec::new();
    let at = At::new("default", "a");
    let mut answer = |answer: Result<Value, Error>| told.push(format!("{answer:?}"));
    for name in ["a", "b"] {
        answer(client.create(&MAPS, "default", &map(name), &by).await);
    }
    answer(client.create(&SETS, "default", &set(), &by).await);
    answer(client.create(&MAPS, "default", &map("a"), &by).await);
    answer(client.get(&MAPS, at).await);
    answer(client.get_metadata(&MAPS, at).await);
    answer(client.get(&MAPS, At::new("default", "none")).await);
    let change = Patch::Merge(json!({"data": {"a": "2"}}));
    answer(
        client
            .patch(&MAPS, at, &change, &by.clone().without_managed_fields())
            .await,
    );
    let apply = Patch::Apply(map("a"));
    answer(client.patch(&MAPS, at, &apply, &by.clone().force()).await);
    answer(
        client
            .patch(&MAPS, at, &apply, &by.clone().force().dry_run())
            .await,
    );
    let broken = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": 1}));
    answer(client.patch(&MAPS, at, &broken, &by).await);
    let (all, metadata) = (Selection::default(), Selection::default().metadata());
    for selection in [&all, &metadata, &Selection::labelled("app=web").metadata()] {
        for resource in [&MAPS, &SETS] {
            let list = client.list_all(resource, None, selection).await;
            told.push(format!("{list:?}"));
            told.extend(watched(world, resource, selection).await);
        }
    }
    told
}

#[tokio::test(start_paused = true)]
async fn text_and_trees_give_the_same_answers_and_events() {
    let text = conversation(&world(false)).await;
    let trees = conversation(&world(true)).await;
    for (one, two) in text.iter().zip(&trees) {
        assert_eq!(one, two);
    }
    assert_eq!(text.len(), trees.len());
    assert!(text.len() > 30, "{}", text.len());
    assert!(text.iter().any(|line| line.starts_with("Gone")));
}

#[tokio::test(start_paused = true)]
async fn metadata_only_store_shows_no_more_than_metadata() {
    for trees in [false, true] {
        let world = world(trees);
        let by = WriteOptions::by("test");
        let client = &world.client;
        let created = client.create(&MAPS, "default", &map("a"), &by).await;
        created.unwrap();
        let watched = Watched::all(MAPS).metadata();
        let options = ReflectorOptions::default();
        let reflector = Reflector::new(world.env.clone(), world.client.clone(), watched, options);
        let store = reflector.store();
        let running = tokio::spawn(reflector.run());
        store.synced().await;
        let check = || {
            let kept = store.get("default", "a").unwrap().value();
            let fields: Vec<&str> = kept.as_object().unwrap().keys().map(|key| &**key).collect();
            assert_eq!(fields, ["apiVersion", "kind", "metadata"], "trees: {trees}");
            assert!(kept["metadata"].get("managedFields").is_none());
        };
        // As the watch tells it, and as our own write brings it.
        check();
        running.abort();
        let change = Patch::Merge(json!({"data": {"a": "2"}}));
        let at = At::new("default", "a");
        let changed = world.client.patch(&MAPS, at, &change, &by).await.unwrap();
        store.learn(&changed);
        assert_eq!(
            store.get("default", "a").unwrap().revision,
            everflow_runtime::client::revision(&changed)
        );
        check();
    }
}
