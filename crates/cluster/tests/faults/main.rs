//! The server in process, as a service without sockets, and what a simulator can do to it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod backups;
mod crashes;
mod views;

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use everflow_cluster::env::ManualEnvironment;
use everflow_cluster::faults::{EventVerdict, Faults, Verdict};
use everflow_cluster::rest::watch::Event;
use everflow_cluster::status::ApiError;
use everflow_cluster::time::Timestamp;
use everflow_cluster::{ApiServer, ApiService, Options, Request};
use everflow_json::{Value, json};
use http_body_util::{BodyExt as _, Full};
use tower_service::Service as _;

fn server(seed: u64) -> ApiServer {
    let env = ManualEnvironment::new(Timestamp::from_seconds(1_794_740_000), seed);
    let options = Options::default().with_controllers("all").unwrap();
    ApiServer::new(Arc::new(env), options)
}

type Response = http::Response<everflow_cluster::service::ApiBody>;

async fn open(service: &ApiService, method: &str, path: &str, media: &str, body: &str) -> Response {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .header("accept", "application/json")
        .header("user-agent", "test/1")
        .body(Full::new(Bytes::from(body.to_owned())))
        .unwrap();
    service.clone().call(request).await.unwrap()
}

async fn send(
    service: &ApiService,
    method: &str,
    path: &str,
    media: &str,
    body: &str,
) -> Result<(u16, Value), String> {
    let answer = open(service, method, path, media, body).await;
    let status = answer.status().as_u16();
    let bytes = answer
        .into_body()
        .collect()
        .await
        .map_err(|error| error.to_string())?
        .to_bytes();
    Ok((
        status,
        everflow_json::from_slice(&bytes).unwrap_or_default(),
    ))
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

fn applied(name: &str, value: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}})
        .to_string()
}

async fn next_event(watch: &mut everflow_cluster::service::ApiBody) -> Option<Value> {
    let frame = tokio::time::timeout(Duration::from_secs(5), watch.frame());
    let data = frame.await.ok()??.ok()?.into_data().ok()?;
    everflow_json::from_slice(&data).ok()
}

#[tokio::test]
async fn clients_work_without_sockets() {
    let service = ApiService::new(server(1));
    let watch = format!("{MAPS}?watch=true&resourceVersion=0");
    let mut events = open(&service, "GET", &watch, "", "").await.into_body();
    let path = format!("{MAPS}/a?fieldManager=test");
    let (status, made) = send(&service, "PATCH", &path, APPLY, &applied("a", "1"))
        .await
        .unwrap();
    assert_eq!((status, made["data"]["v"].as_str()), (201, Some("1")));
    let seen = next_event(&mut events).await.unwrap();
    assert_eq!(seen["type"], "ADDED");
    assert_eq!(seen["object"]["metadata"], made["metadata"]);
    let merge = "application/merge-patch+json";
    let change = r#"{"data": {"v": "2"}}"#;
    send(&service, "PATCH", &format!("{MAPS}/a"), merge, change)
        .await
        .unwrap();
    assert_eq!(next_event(&mut events).await.unwrap()["type"], "MODIFIED");
    let (_, list) = send(&service, "GET", MAPS, "", "").await.unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}

/// Does what it is told to the requests and events that come.
#[derive(Default)]
struct Script {
    before: Mutex<Vec<Verdict>>,
    after: Mutex<Vec<Verdict>>,
    events: Mutex<Vec<EventVerdict>>,
}

impl Faults for Script {
    fn before(&self, _request: &Request) -> Verdict {
        self.before.lock().unwrap().pop().unwrap_or(Verdict::Pass)
    }

    fn after(&self, _request: &Request, _status: u16) -> Verdict {
        self.after.lock().unwrap().pop().unwrap_or(Verdict::Pass)
    }

    fn event(&self, _request: &Request, _event: &Event) -> EventVerdict {
        let told = self.events.lock().unwrap().pop();
        told.unwrap_or(EventVerdict::Pass)
    }
}

#[tokio::test]
async fn a_lost_connection_before_or_after_the_write() {
    let script = Arc::new(Script::default());
    let server = server(2);
    let service = ApiService::new(server.clone()).with_faults(script.clone());
    let path = format!("{MAPS}/a?fieldManager=test");
    script.before.lock().unwrap().push(Verdict::Drop);
    let lost = send(&service, "PATCH", &path, APPLY, &applied("a", "1")).await;
    assert!(lost.is_err());
    assert!(server.store().get("/configmaps", "default/a").is_none());
    script.after.lock().unwrap().push(Verdict::Drop);
    let lost = send(&service, "PATCH", &path, APPLY, &applied("a", "1")).await;
    assert!(lost.is_err(), "the client does not hear of it");
    assert!(server.store().get("/configmaps", "default/a").is_some());
    let busy = ApiError::new(429, "TooManyRequests", "later");
    script.before.lock().unwrap().push(Verdict::Fail(busy));
    let (status, _) = send(&service, "GET", MAPS, "", "").await.unwrap();
    assert_eq!(status, 429);
}

#[tokio::test]
async fn duplicated_request_is_answered_by_its_second_run() {
    let script = Arc::new(Script::default());
    let server = server(4);
    let service = ApiService::new(server.clone()).with_faults(script.clone());
    let map = r#"{"metadata": {"name": "a"}}"#;
    script.before.lock().unwrap().push(Verdict::Duplicate);
    let (status, _) = send(&service, "POST", MAPS, JSON, map).await.unwrap();
    assert_eq!(status, 409, "the first one made it, the second is heard");
    assert!(server.store().get("/configmaps", "default/a").is_some());
    script.after.lock().unwrap().push(Verdict::Duplicate);
    let path = format!("{MAPS}/a");
    let gone = send(&service, "DELETE", &path, "", "");
    assert_eq!(gone.await.unwrap().0, 404);
}

#[tokio::test(start_paused = true)]
async fn later_requests_overtake_a_slow_one() {
    let script = Arc::new(Script::default());
    let service = ApiService::new(server(5)).with_faults(script.clone());
    let path = format!("{MAPS}/a?fieldManager=test");
    let slow = Verdict::Delay(Duration::from_secs(3));
    script.before.lock().unwrap().push(slow);
    let (first, second) = (applied("a", "1"), applied("a", "2"));
    let (first, second) = tokio::join!(
        send(&service, "PATCH", &path, APPLY, &first),
        send(&service, "PATCH", &path, APPLY, &second)
    );
    assert_eq!((first.unwrap().0, second.unwrap().0), (200, 201));
    let (_, last) = send(&service, "GET", &format!("{MAPS}/a"), "", "")
        .await
        .unwrap();
    assert_eq!(last["data"]["v"], "1");
}

#[tokio::test(start_paused = true)]
async fn faults_delay_and_reorder_watch_events() {
    let script = Arc::new(Script::default());
    let service = ApiService::new(server(6)).with_faults(script.clone());
    let watch = format!("{MAPS}?watch=true&resourceVersion=0");
    let mut events = open(&service, "GET", &watch, "", "").await.into_body();
    script.events.lock().unwrap().extend([
        EventVerdict::Expire,
        EventVerdict::Delay(Duration::from_secs(3)),
        EventVerdict::Pass,
        EventVerdict::Pass,
        EventVerdict::Behind(2),
    ]);
    for name in ["a", "b", "c", "d", "e"] {
        let path = format!("{MAPS}/{name}?fieldManager=test");
        send(&service, "PATCH", &path, APPLY, &applied(name, "1"))
            .await
            .unwrap();
    }
    let begun = tokio::time::Instant::now();
    let first = events.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(names(&first), ["b", "c", "a"]);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let second = events.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
    assert_eq!(
        names(&second),
        ["d", ""],
        "and then the word that it is over"
    );
    let text = String::from_utf8(second.to_vec()).unwrap();
    assert!(text.contains(r#""code":410"#), "{text}");
    assert!(events.frame().await.is_none());
}

/// The names of the objects in a chunk of events.
fn names(chunk: &[u8]) -> Vec<String> {
    everflow_json::Deserializer::from_slice(chunk)
        .into_iter::<Value>()
        .map(|event| {
            let name = &event.unwrap()["object"]["metadata"]["name"];
            name.as_str().unwrap_or_default().to_owned()
        })
        .collect()
}

#[tokio::test]
async fn many_unselected_events_do_not_hide_a_selected_one() {
    let service = ApiService::new(server(9));
    let watch = format!("{MAPS}?watch=true&resourceVersion=1&labelSelector=ours");
    let mut events = open(&service, "GET", &watch, "", "").await.into_body();
    for index in 0..600 {
        let map = json!({"metadata": {"name": format!("other-{index}")}}).to_string();
        send(&service, "POST", MAPS, JSON, &map).await.unwrap();
    }
    let ours = r#"{"metadata": {"name": "a", "labels": {"ours": ""}}}"#;
    send(&service, "POST", MAPS, JSON, ours).await.unwrap();
    let seen = next_event(&mut events).await.unwrap();
    assert_eq!(seen["object"]["metadata"]["name"], "a");
}

#[tokio::test]
async fn events_are_lost_doubled_and_cut() {
    let script = Arc::new(Script::default());
    let service = ApiService::new(server(3)).with_faults(script.clone());
    let watch = format!("{MAPS}?watch=true&resourceVersion=0");
    let mut events = open(&service, "GET", &watch, "", "").await.into_body();
    script.events.lock().unwrap().extend([
        EventVerdict::Close,
        EventVerdict::Duplicate,
        EventVerdict::Drop,
    ]);
    for name in ["a", "b", "c"] {
        let path = format!("{MAPS}/{name}?fieldManager=test");
        send(&service, "PATCH", &path, APPLY, &applied(name, "1"))
            .await
            .unwrap();
    }
    let mut seen = Vec::new();
    while let Some(Ok(frame)) = events.frame().await {
        let data = frame.into_data().unwrap();
        let lines = everflow_json::Deserializer::from_slice(&data).into_iter::<Value>();
        seen.extend(lines.map(|event| {
            event.unwrap()["object"]["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned()
        }));
    }
    assert_eq!(
        seen,
        ["b", "b"],
        "a is lost, b doubled, the stream ends before c"
    );
}

/// A run of many writes; everything that was answered.
async fn run(seed: u64) -> Vec<Value> {
    let service = ApiService::new(server(seed));
    let mut answers = Vec::new();
    for index in 0..20 {
        let name = format!("cm-{}", index % 7);
        let path = format!("{MAPS}/{name}?fieldManager=m{}&force=true", index % 3);
        let body = applied(&name, &index.to_string());
        answers.push(
            send(&service, "PATCH", &path, APPLY, &body)
                .await
                .unwrap()
                .1,
        );
    }
    let pod = json!({"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pods = "/api/v1/namespaces/default/pods";
    answers.push(
        send(&service, "POST", pods, JSON, &pod.to_string())
            .await
            .unwrap()
            .1,
    );
    answers.push(send(&service, "GET", pods, "", "").await.unwrap().1);
    answers
}

#[tokio::test]
async fn the_same_seed_gives_the_same_answers() {
    let first = run(7).await;
    assert_eq!(first, run(7).await);
    assert_ne!(first, run(8).await);
}
