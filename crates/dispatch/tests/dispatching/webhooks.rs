//! Webhooks, and what they wake.

use everflow_dispatch::resources::RECEIVERS;
use everflow_json::{Value, json};
use everflow_runtime::client::annotation;

use crate::world::{GIT_REPOSITORIES, World, call};

const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

async fn world() -> World {
    let world = World::new().await;
    world.secret("token", json!({"token": "t0ken"})).await;
    for name in ["one", "two"] {
        let spec = json!({"url": "https://git/x", "interval": "1h"});
        world.object(&GIT_REPOSITORIES, name, spec).await;
    }
    world
}

fn receiver(kind: &str) -> Value {
    json!({
        "type": kind, "secretRef": {"name": "token"},
        "resources": [{"kind": "GitRepository", "name": "one"}],
    })
}

async fn requested(world: &World, name: &str) -> Option<String> {
    let object = world.get(&GIT_REPOSITORIES, name).await;
    annotation(&object, REQUESTED_AT).map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn a_call_by_curl_with_a_bearer_token_is_answered_after_the_object_was_asked_for() {
    let mut world = world().await;
    world.object(&RECEIVERS, "ci", receiver("generic")).await;
    let server = world.start_receivers().await;
    let path = world.path("ci").await;
    // sha256 of token, name and namespace, as Flux has it.
    assert_eq!(path.len(), "/hook/".len() + 64, "{path}");
    // curl -X POST -H "Authorization: Bearer …" https://…/hook/…
    let headers = [
        ("authorization", "Bearer whatever"),
        ("user-agent", "curl/8.5.0"),
        ("accept", "*/*"),
    ];
    assert_eq!(call(&server, &path, &headers, "").await.0, 200);
    assert!(requested(&world, "one").await.is_some());
    assert_eq!(requested(&world, "two").await, None);
    assert_eq!(call(&server, "/hook/nothing", &headers, "").await.0, 404);
    assert_eq!(
        call(&server, &format!("{path}/"), &headers, "").await.0,
        404
    );
    assert_eq!(
        call(&server, &format!("{path}?x"), &headers, "").await.0,
        404
    );
    let (status, answer) = call(&server, "/hook", &headers, "").await;
    assert_eq!((status, answer["location"].as_str()), (307, "/hook/"));
    assert_eq!(
        call(&server, &path, &headers, &"x".repeat((3 << 20) + 1))
            .await
            .0,
        413
    );
}

#[tokio::test(start_paused = true)]
async fn a_wrong_token_is_refused_and_the_right_one_taken_after_it_was_rotated() {
    let mut world = world().await;
    world.object(&RECEIVERS, "gitlab", receiver("gitlab")).await;
    let server = world.start_receivers().await;
    let path = world.path("gitlab").await;
    let json = ("content-type", "application/json");
    assert_eq!(
        call(&server, &path, &[json, ("x-gitlab-token", "other")], "{}")
            .await
            .0,
        400
    );
    assert_eq!(
        call(&server, &path, &[json, ("x-gitlab-token", "t0ken")], "{}")
            .await
            .0,
        200
    );
    let patch = everflow_runtime::client::Patch::Merge(json!({"stringData": {"token": "n3w"}}));
    let at = everflow_runtime::client::At::new("apps", "token");
    let by = everflow_runtime::client::WriteOptions::by("user");
    world
        .user
        .patch(&crate::world::SECRETS, at, &patch, &by)
        .await
        .unwrap();
    assert_eq!(
        call(&server, &path, &[json, ("x-gitlab-token", "t0ken")], "{}")
            .await
            .0,
        400
    );
    assert_eq!(
        call(&server, &path, &[json, ("x-gitlab-token", "n3w")], "{}")
            .await
            .0,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn webhook_answers_503_while_the_api_server_is_unreachable() {
    let mut world = world().await;
    world.object(&RECEIVERS, "ci", receiver("generic")).await;
    let server = world.start_receivers().await;
    let path = world.path("ci").await;
    world.set_away(true);
    let (status, headers) = call(&server, &path, &[], "").await;
    assert_eq!((status, headers["retry-after"].as_str()), (503, "5"));
    world.set_away(false);
    assert_eq!(call(&server, &path, &[], "").await.0, 200);
    assert!(requested(&world, "one").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_calls_shares_requests_and_each_is_answered_after_one_that_follows_it() {
    let mut world = world().await;
    world.object(&RECEIVERS, "ci", receiver("generic")).await;
    let server = world.start_receivers().await;
    let path = world.path("ci").await;
    let before = world.get(&GIT_REPOSITORIES, "one").await;
    let calls = (0..200).map(|_| call(&server, &path, &[], ""));
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(|(status, _)| *status == 200));
    let after = world.get(&GIT_REPOSITORIES, "one").await;
    let version = |object: &Value| {
        object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    assert!(
        version(&after) - version(&before) <= 10,
        "{} to {}",
        version(&before),
        version(&after)
    );
}

#[tokio::test(start_paused = true)]
async fn filters_and_labels_choose_the_objects() {
    let mut world = world().await;
    let mut spec = receiver("generic");
    spec["resources"] = json!([
        {"kind": "GitRepository", "name": "one"}, {"kind": "GitRepository", "name": "two"},
    ]);
    spec["resourceFilter"] = json!("res.metadata.name == req.repository");
    world.object(&RECEIVERS, "ci", spec).await;
    let server = world.start_receivers().await;
    let path = world.path("ci").await;
    let json = [("content-type", "application/json")];
    assert_eq!(
        call(&server, &path, &json, r#"{"repository":"two"}"#)
            .await
            .0,
        200
    );
    assert_eq!(requested(&world, "one").await, None);
    assert!(requested(&world, "two").await.is_some());
    assert_eq!(call(&server, &path, &json, "{}").await.0, 500);
    assert_eq!(call(&server, &path, &json, "[]").await.0, 500);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_without_its_secret_waits_for_it() {
    let mut world = World::new().await;
    world.object(&RECEIVERS, "ci", receiver("generic")).await;
    let _server = world.start_receivers().await;
    let object = world.get(&RECEIVERS, "ci").await;
    let ready = &object["status"]["conditions"].as_array().unwrap();
    assert!(
        ready.iter().any(|one| one["reason"] == "TokenNotFound"),
        "{object}"
    );
    world.secret("token", json!({"token": "t0ken"})).await;
    world.sleep(30).await;
    assert!(world.path("ci").await.starts_with("/hook/"));
}
