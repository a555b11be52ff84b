//! A whole cluster that goes back, requests that are done late, and events that nobody can read.

use super::*;

async fn put(service: &ApiService, name: &str, value: &str) -> Value {
    let path = format!("{MAPS}/{name}?fieldManager=test&force=true");
    let applied = applied(name, value);
    let put = send(service, "PATCH", &path, APPLY, &applied).await;
    put.unwrap().1
}

#[tokio::test(start_paused = true)]
async fn a_restored_cluster_gives_revisions_out_again() {
    let server = server(1);
    let service = ApiService::new(server.clone());
    put(&service, "a", "1").await;
    let backup = server.backup();
    let lost = put(&service, "b", "1").await;
    let watch = format!("{MAPS}?watch=true&resourceVersion=0");
    let mut events = open(&service, "GET", &watch, "", "").await.into_body();
    assert!(events.frame().await.unwrap().is_ok());
    server.go_back(&backup);
    assert_eq!(server.store().revision(), backup.revision());
    let broken = tokio::time::timeout(Duration::from_secs(5), events.frame());
    assert!(broken.await.unwrap().unwrap().is_err(), "the watch breaks");
    let (status, _) = send(&service, "GET", &format!("{MAPS}/b"), "", "")
        .await
        .unwrap();
    assert_eq!(status, 404);
    // A watch from a revision that is still to come is told nothing, not even a bookmark.
    let future = format!("{MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion=999");
    let mut events = open(&service, "GET", &future, "", "").await.into_body();
    let again = put(&service, "c", "1").await;
    assert_eq!(
        again["metadata"]["resourceVersion"],
        lost["metadata"]["resourceVersion"]
    );
    let silent = tokio::time::timeout(Duration::from_secs(200), events.frame());
    assert!(silent.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn request_completes_after_its_client_has_left() {
    let server = server(2);
    let plain = ApiService::new(server.clone());
    for breaks in [true, false] {
        let after = Duration::from_secs(5);
        let faults = Arc::new(Script::default());
        faults
            .before
            .lock()
            .unwrap()
            .push(Verdict::Later { after, breaks });
        let service = ApiService::new(server.clone()).with_faults(faults);
        let name = format!("late-{breaks}");
        let path = format!("{MAPS}/{name}?fieldManager=test");
        let body = applied(&name, "1");
        let sent = send(&service, "PATCH", &path, APPLY, &body);
        let given_up = tokio::time::timeout(Duration::from_secs(1), sent).await;
        assert_eq!(given_up.is_ok_and(|sent| sent.is_err()), breaks);
        let there = format!("{MAPS}/{name}");
        let (status, _) = send(&plain, "GET", &there, "", "").await.unwrap();
        assert_eq!(status, 404);
        tokio::time::sleep(after + Duration::from_secs(1)).await;
        let (status, _) = send(&plain, "GET", &there, "", "").await.unwrap();
        assert_eq!(status, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn watch_event_type_can_be_changed_by_a_fault() {
    let faults = Arc::new(Script::default());
    let junk = EventVerdict::Replace("{\"type\":\"ODD\"}\n".into());
    faults.events.lock().unwrap().push(junk);
    let service = ApiService::new(server(3)).with_faults(faults);
    let watch = format!("{MAPS}?watch=true&resourceVersion=0");
    let mut events = open(&service, "GET", &watch, "", "").await.into_body();
    put(&service, "a", "1").await;
    assert_eq!(next_event(&mut events).await.unwrap()["type"], "ODD");
}
