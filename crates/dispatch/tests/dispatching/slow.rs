//! Clients that take their time, and clients that send anything.

use std::time::Duration;

use everflow_dispatch::resources::RECEIVERS;
use everflow_dispatch::{EventServer, Options};
use everflow_env::{Random as _, SeededRandom};
use everflow_json::json;
use everflow_runtime::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{World, call, post_event};

const POSTERS: usize = 10_000;
/// What each of them has sent of its body.
const SENT: usize = 16 << 10;
/// By so much the process may grow.
const BOUND: usize = 200 << 20;

fn memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4_096)
}

async fn post_slowly(address: std::net::SocketAddr) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let head = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n";
    let mut bytes = head.as_bytes().to_vec();
    bytes.resize(bytes.len() + SENT, b' ');
    let writing = stream.write_all(&bytes);
    tokio::time::timeout(Duration::from_secs(1), writing)
        .await
        .ok()?
        .ok()?;
    Some(stream)
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_slow_posters_take_bounded_memory_and_go_for_others() {
    everflow_serve::raise_open_files();
    let mut world = World::new().await;
    let intake = world.start(Options::default()).await;
    let server = EventServer::new(&world.env.clock, intake);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Signal::new();
    let stopping = stop.clone();
    let serving = tokio::spawn(async move { server.run(listener, stopping).await });
    let before = memory();
    let mut open = Vec::new();
    for _ in 0..POSTERS / 2_500 {
        let batch = (0..2_500).map(|_| post_slowly(address));
        let batch = futures_util::future::join_all(batch).await;
        open.extend(batch.into_iter().flatten());
    }
    assert!(open.len() > POSTERS / 20, "{} got through", open.len());
    if let (Some(before), Some(now)) = (before, memory()) {
        assert!(now < before + BOUND, "from {before} to {now} bytes");
    }
    drop(open);
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    let reading = stream.read_exact(&mut answer);
    tokio::time::timeout(Duration::from_secs(60), reading)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&answer, b"HTTP/1.1 202");
    stop.raise();
    serving.await.unwrap();
}

/// A request with some of its bytes changed, or cut.
fn changed(request: &[u8], random: &SeededRandom) -> Vec<u8> {
    let mut bytes = request.to_vec();
    for _ in 0..random.next() % 6 {
        let at = random.next() as usize % bytes.len();
        bytes[at] = random.next() as u8;
    }
    if random.next().is_multiple_of(4) {
        bytes.truncate(random.next() as usize % bytes.len());
    }
    bytes
}

#[tokio::test(start_paused = true)]
async fn changed_requests_break_neither_server() {
    let mut world = World::new().await;
    world.secret("token", json!({"token": "t0ken"})).await;
    let spec = json!({
        "type": "github", "secretRef": {"name": "token"}, "resourceFilter": "req.a == \"b\"",
        "resources": [{"kind": "GitRepository", "name": "one"}],
    });
    world.object(&RECEIVERS, "hook", spec).await;
    let intake = world.start(Options::default()).await;
    let events = EventServer::new(&world.env.clock, intake);
    let hooks = world.start_receivers().await;
    let path = world.path("hook").await;
    let event = r#"{"involvedObject":{"kind":"Kustomization","name":"x"},"message":"m","metadata":{"a/b":"c"}}"#;
    let headers = "host: x\r\ncontent-type: application/json\r\nx-hub-signature-256: sha256=00";
    let request = |path: &str| {
        let length = event.len();
        format!("POST {path} HTTP/1.1\r\n{headers}\r\ncontent-length: {length}\r\n\r\n{event}")
            .into_bytes()
    };
    let random = SeededRandom::new(11);
    let (to_events, to_hooks) = (request("/"), request(&path));
    for _ in 0..400 {
        for (is_event, request) in [(true, &to_events), (false, &to_hooks)] {
            let (mut ours, theirs) = tokio::io::duplex(64 << 10);
            let bytes = changed(request, &random);
            let serving = async {
                match is_event {
                    true => events.serve(theirs).await,
                    false => hooks.serve(theirs).await,
                }
            };
            let sending = async {
                let _ = ours.write_all(&bytes).await;
                drop(ours);
            };
            futures_util::future::join(serving, sending).await;
        }
    }
    assert_eq!(post_event(&events, "{}").await.0, 202);
    assert_eq!(call(&hooks, &path, &[], "{}").await.0, 400);
}
