//! API servers that lag behind, each on its own.

use super::*;
use everflow_cluster::faults::View;

/// Two API servers of one cluster, and what each has seen.
struct Two {
    server: ApiServer,
    near: ApiService,
    far: ApiService,
    view: Arc<View>,
}

impl Two {
    fn new(seed: u64) -> Self {
        let server = server(seed);
        let view = Arc::new(View::new());
        Two {
            near: ApiService::new(server.clone()),
            far: ApiService::new(server.clone()).with_view(view.clone()),
            server,
            view,
        }
    }

    async fn put(&self, name: &str, value: &str) -> u64 {
        let path = format!("{MAPS}/{name}?fieldManager=test&force=true");
        let (_, made) = send(&self.near, "PATCH", &path, APPLY, &applied(name, value))
            .await
            .unwrap();
        made["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    }

    async fn far_get(&self, path: &str) -> (u16, Value) {
        send(&self.far, "GET", path, "", "").await.unwrap()
    }
}

fn values(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["data"]["v"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn cached_reads_of_a_lagging_server_are_old() {
    let two = Two::new(11);
    two.put("a", "1").await;
    two.put("b", "1").await;
    let then = two.server.store().revision();
    two.view.hold_at(then);
    let now = two.put("a", "2").await;
    send(&two.near, "DELETE", &format!("{MAPS}/b"), "", "")
        .await
        .unwrap();
    two.put("c", "2").await;
    // From the cache: old, and all of one moment.
    let (_, old) = two.far_get(&format!("{MAPS}?resourceVersion=0")).await;
    assert_eq!(values(&old), ["1", "1"]);
    assert_eq!(old["metadata"]["resourceVersion"], then.to_string());
    let (_, old) = two.far_get(&format!("{MAPS}/a?resourceVersion=0")).await;
    assert_eq!(old["data"]["v"], "1");
    let (status, _) = two.far_get(&format!("{MAPS}/b?resourceVersion=0")).await;
    assert_eq!(status, 200, "it is not gone yet there");
    let (status, _) = two.far_get(&format!("{MAPS}/c?resourceVersion=0")).await;
    assert_eq!(status, 404, "nor is this one there yet");
    // What it has not seen cannot be waited for.
    let (status, body) = two.far_get(&format!("{MAPS}?resourceVersion={now}")).await;
    assert_eq!(status, 504);
    let message = format!("Timeout: Too large resource version: {now}, current: {then}");
    assert_eq!(body["message"], message);
    // Reads without a revision ask the storage, and so do writes and reads of the other server.
    let (_, fresh) = two.far_get(MAPS).await;
    assert_eq!(values(&fresh), ["2", "2"]);
    let (_, fresh) = two.far_get(&format!("{MAPS}/a")).await;
    assert_eq!(fresh["data"]["v"], "2");
    let exact = format!("{MAPS}?resourceVersion={now}&resourceVersionMatch=Exact");
    assert_eq!(two.far_get(&exact).await.0, 200);
    let (_, near) = send(
        &two.near,
        "GET",
        &format!("{MAPS}?resourceVersion=0"),
        "",
        "",
    )
    .await
    .unwrap();
    assert_eq!(values(&near), ["2", "2"]);
    two.view.catch_up();
    let (_, new) = two.far_get(&format!("{MAPS}?resourceVersion=0")).await;
    assert_eq!(values(&new), ["2", "2"]);
}

#[tokio::test]
async fn watches_of_a_lagging_server_get_no_new_events() {
    let two = Two::new(12);
    let then = two.put("a", "1").await;
    let watch = format!("{MAPS}?watch=true&resourceVersion={then}");
    let mut far = open(&two.far, "GET", &watch, "", "").await.into_body();
    two.view.hold_at(then);
    let middle = two.put("a", "2").await;
    two.put("a", "3").await;
    let quiet = tokio::time::timeout(Duration::from_millis(20), far.frame()).await;
    assert!(quiet.is_err());
    two.view.advance_to(middle);
    let seen = next_event(&mut far).await.unwrap();
    assert_eq!(seen["object"]["data"]["v"], "2");
    two.view.advance_to(then);
    assert_eq!(two.view.limit(), Some(middle), "never back");
    // A watch that begins now begins with what is shown.
    let begin = format!("{MAPS}?watch=true&resourceVersion=0");
    let mut begun = open(&two.far, "GET", &begin, "", "").await.into_body();
    let seen = next_event(&mut begun).await.unwrap();
    assert_eq!(seen["object"]["data"]["v"], "2");
    two.view.catch_up();
    for stream in [&mut far, &mut begun] {
        let seen = next_event(stream).await.unwrap();
        assert_eq!(seen["object"]["data"]["v"], "3");
    }
}

#[tokio::test]
async fn a_consistent_start_waits_for_the_lagging_server() {
    let two = Two::new(13);
    let then = two.put("a", "1").await;
    two.view.hold_at(then);
    let now = two.put("b", "2").await;
    let watch = format!(
        "{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut any = open(
        &two.far,
        "GET",
        &format!("{watch}&resourceVersion=0"),
        "",
        "",
    )
    .await
    .into_body();
    assert_eq!(next_event(&mut any).await.unwrap()["type"], "ADDED");
    let mark = next_event(&mut any).await.unwrap();
    assert_eq!(
        mark["object"]["metadata"]["resourceVersion"],
        then.to_string()
    );
    let mut newest = open(&two.far, "GET", &watch, "", "").await.into_body();
    assert_eq!(next_event(&mut newest).await.unwrap()["type"], "ADDED");
    let quiet = tokio::time::timeout(Duration::from_millis(20), newest.frame()).await;
    assert!(quiet.is_err(), "not complete yet");
    two.view.catch_up();
    let mut chunk = Vec::new();
    while !chunk.windows(8).any(|part| part == b"BOOKMARK") {
        let frame = newest.frame().await.unwrap().unwrap();
        chunk.extend_from_slice(&frame.into_data().unwrap());
    }
    assert_eq!(names(&chunk), ["b", ""]);
    let text = String::from_utf8(chunk).unwrap();
    assert!(text.contains("k8s.io/initial-events-end"));
    assert!(text.contains(&format!(r#""resourceVersion":"{now}""#)));
}

#[tokio::test]
async fn lagging_server_answers_with_retry_after() {
    let env = ManualEnvironment::new(Timestamp::from_seconds(1_794_740_000), 14);
    let options = Options {
        window: 4,
        ..Options::default()
    };
    let server = ApiServer::new(Arc::new(env), options);
    let view = Arc::new(View::new());
    view.hold_at(server.store().revision());
    let far = ApiService::new(server).with_view(view);
    for index in 0..8 {
        let map = json!({"metadata": {"name": format!("m-{index}")}}).to_string();
        send(&far, "POST", MAPS, JSON, &map).await.unwrap();
    }
    let (status, body) = send(&far, "GET", &format!("{MAPS}?resourceVersion=0"), "", "")
        .await
        .unwrap();
    assert_eq!(
        (status, body["message"].as_str()),
        (429, Some("storage is (re)initializing"))
    );
}
