//! The client against the embedded API server.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use everflow_cluster::faults::Verdict;
use everflow_json::json;
use everflow_runtime::Error;
use everflow_runtime::client::{
    At, DeleteOptions, Impersonation, Paging, Patch, Selection, WatchEvent, WatchFrom,
    WriteOptions, meta_text, revision,
};
use support::{TOYS, World, refuse};

#[tokio::test(start_paused = true)]
async fn objects_are_written_read_and_deleted() {
    let world = World::new(1).await;
    let by = WriteOptions::by("tester");
    let toy = world.create_toy("one", json!({"size": 1})).await;
    assert_eq!(toy["status"]["observedGeneration"], -1);
    let at = At::new("apps", "one");
    let merge = Patch::Merge(json!({"spec": {"size": 2}}));
    let changed = world.client.patch(&TOYS, at, &merge, &by).await.unwrap();
    assert_eq!(changed["metadata"]["generation"], 2);
    let unstored = by.clone().dry_run();
    let merge = Patch::Merge(json!({"spec": {"size": 3}}));
    world
        .client
        .patch(&TOYS, at, &merge, &unstored)
        .await
        .unwrap();
    assert_eq!(world.toy("one").await["spec"]["size"], 2);
    let status = Patch::Json(json!([{"op": "add", "path": "/status", "value": {"x": 1}}]));
    world
        .client
        .patch(&TOYS, at.status(), &status, &by)
        .await
        .unwrap();
    let apply = Patch::Apply(json!({
        "apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": "one"},
        "spec": {"size": 5},
    }));
    let error = world
        .client
        .patch(&TOYS, at, &apply, &WriteOptions::by("other"))
        .await;
    assert!(matches!(error, Err(Error::Conflict(_))), "{error:?}");
    let forced = WriteOptions::by("other").force();
    let applied = world
        .client
        .patch(&TOYS, at, &apply, &forced)
        .await
        .unwrap();
    let stale = world.client.update(&TOYS, at, &changed, &by).await;
    assert!(matches!(stale, Err(Error::Conflict(_))));
    let other = world
        .client
        .delete(&TOYS, at, &DeleteOptions::uid("other"))
        .await;
    assert!(matches!(other, Err(Error::Conflict(_))), "{other:?}");
    let uid = DeleteOptions::uid(meta_text(&applied, "uid"));
    world.client.delete(&TOYS, at, &uid).await.unwrap();
    assert!(matches!(
        world.client.get(&TOYS, at).await,
        Err(Error::NotFound(_))
    ));
    assert!(world.client.meter().total() >= 9);
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_pages_and_only_whole() {
    let world = World::new(1).await;
    for number in 0..7 {
        world.create_toy(&format!("toy-{number}"), json!({})).await;
    }
    let all = Selection::default();
    let paging = Paging {
        limit: 3,
        next: String::new(),
    };
    let page = world
        .client
        .list(&TOYS, Some("apps"), &all, &paging)
        .await
        .unwrap();
    assert_eq!((page.items.len(), page.next.is_empty()), (3, false));
    assert_eq!(page.items[0]["kind"], "Toy");
    let whole = world.client.list_all(&TOYS, None, &all).await.unwrap();
    assert_eq!(whole.items.len(), 7);
    let metadata = Selection::default().metadata();
    let bare = world.client.list_all(&TOYS, None, &metadata).await.unwrap();
    assert_eq!((bare.items.len(), bare.items[0].get("spec")), (7, None));
    assert_eq!(bare.items[0]["kind"], "Toy");
    let by_name = Selection {
        fields: "metadata.name=toy-3".into(),
        ..Selection::default()
    };
    assert_eq!(
        world
            .client
            .list_all(&TOYS, None, &by_name)
            .await
            .unwrap()
            .items
            .len(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn failures_have_types_and_deadlines() {
    let world = World::new(1).await;
    world.create_toy("one", json!({})).await;
    let at = At::new("apps", "one");
    for (code, reason, expected) in [
        (500, "InternalError", "ServerError"),
        (503, "ServiceUnavailable", "ServerError"),
        (429, "TooManyRequests", "TooManyRequests"),
        (410, "Expired", "Expired"),
        (403, "Forbidden", "Forbidden"),
        (401, "Unauthorized", "Unauthorized"),
        (409, "AlreadyExists", "AlreadyExists"),
        (422, "Invalid", "Invalid"),
        (405, "MethodNotAllowed", "Refused"),
    ] {
        world.faults.before(move |_| refuse(code, reason));
        let error = world.client.get(&TOYS, at).await.unwrap_err();
        assert_eq!(error.reason(), expected, "{error}");
    }
    world.faults.before(|_| Verdict::Drop);
    let error = world.client.get(&TOYS, at).await.unwrap_err();
    assert_eq!(error.reason(), "Transport", "{error}");
    assert!(error.may_have_happened());
    world
        .faults
        .before(|_| Verdict::Delay(Duration::from_secs(3_600)));
    let before = world.env.clock.elapsed();
    let error = world.client.get(&TOYS, at).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "GET /apis/example.com/v1/namespaces/apps/toys/one: no answer within 30s"
    );
    assert_eq!(world.env.clock.elapsed() - before, Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn watches_tell_what_is_and_what_changes() {
    let world = World::new(1).await;
    let toy = world.create_toy("one", json!({})).await;
    let span = Duration::from_secs(100);
    let all = Selection::default();
    let mut watch = world
        .client
        .watch(&TOYS, None, &all, WatchFrom::Everything, span)
        .await
        .unwrap();
    let WatchEvent::Set(first) = watch.next().await.unwrap().unwrap() else {
        panic!()
    };
    assert_eq!(first["metadata"]["uid"], toy["metadata"]["uid"]);
    let told = watch.next().await.unwrap().unwrap();
    assert!(
        matches!(told, WatchEvent::Bookmark { all_told: true, .. }),
        "{told:?}"
    );
    world
        .user
        .delete(&TOYS, At::new("apps", "one"), &DeleteOptions::default())
        .await
        .unwrap();
    let WatchEvent::Gone(gone) = watch.next().await.unwrap().unwrap() else {
        panic!()
    };
    assert!(revision(&gone) > revision(&toy));
    let from = WatchFrom::Revision(revision(&toy));
    let bare = Selection::default().metadata();
    let mut again = world
        .client
        .watch(&TOYS, None, &bare, from, span)
        .await
        .unwrap();
    assert!(matches!(again.next().await, Ok(Some(WatchEvent::Gone(_)))));
    loop {
        match again.next().await.unwrap() {
            Some(WatchEvent::Bookmark { all_told, .. }) => assert!(!all_told),
            Some(other) => panic!("{other:?}"),
            None => break,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn kinds_are_discovered_also_late_ones() {
    let world = World::new(1).await;
    assert_eq!(
        world
            .client
            .resource("example.com/v1", "Toy")
            .await
            .unwrap(),
        TOYS
    );
    let asked = world.faults.requests().len();
    world
        .client
        .resource("example.com/v1", "Toy")
        .await
        .unwrap();
    assert_eq!(world.faults.requests().len(), asked);
    let missing = world
        .client
        .resource("example.com/v1", "Game")
        .await
        .unwrap_err();
    assert_eq!(
        missing.to_string(),
        r#"no matches for kind "Game" in version "example.com/v1""#
    );
    let missing = world
        .client
        .resource("other.com/v1", "Game")
        .await
        .unwrap_err();
    assert_eq!(missing.reason(), "NoKind");
    assert!(
        world
            .client
            .versions()
            .await
            .unwrap()
            .contains(&"example.com/v1".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn requests_can_impersonate_a_user() {
    let world = World::new(1).await;
    let who = Impersonation::service_account("apps", "robot");
    let client = world.client.impersonating(who);
    let heard = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let ear = heard.clone();
    world.faults.before(move |request| {
        *ear.lock().unwrap() = request
            .first_header("impersonate-user")
            .unwrap_or_default()
            .to_owned();
        Verdict::Pass
    });
    let _ = client.get(&TOYS, At::new("apps", "one")).await;
    assert_eq!(*heard.lock().unwrap(), "system:serviceaccount:apps:robot");
}
