//! Clients that take their time, and clients that send anything.

use std::net::SocketAddr;
use std::time::Duration;

use everflow_dispatch::resources::RECEIVERS;
use everflow_dispatch::{EventServer, Options};
use everflow_env::{Random as _, SeededRandom};
use everflow_json::json;
use everflow_runtime::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{GIT_REPOSITORIES, World, call, exchange, post_event};

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

async fn post_slowly(address: SocketAddr, path: &str) -> Option<TcpStream> {
    // Whoever finds no place in the listener's queue tries again for minutes.
    let connecting = TcpStream::connect(address);
    let mut stream = tokio::time::timeout(Duration::from_secs(5), connecting)
        .await
        .ok()?
        .ok()?;
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n");
    let mut bytes = head.into_bytes();
    bytes.resize(bytes.len() + SENT, b' ');
    let writing = stream.write_all(&bytes);
    tokio::time::timeout(Duration::from_secs(1), writing)
        .await
        .ok()?
        .ok()?;
    Some(stream)
}

/// Has a crowd post slowly, looks at what that takes, and posts as it should be done afterwards.
async fn crowd(address: SocketAddr, path: &str, expected: &str) {
    let before = memory();
    let mut open = Vec::new();
    for _ in 0..POSTERS / 2_500 {
        let batch = (0..2_500).map(|_| post_slowly(address, path));
        let batch = futures_util::future::join_all(batch).await;
        open.extend(batch.into_iter().flatten());
    }
    assert!(open.len() > POSTERS / 20, "{} got through", open.len());
    if let (Some(before), Some(now)) = (before, memory()) {
        assert!(now < before + BOUND, "from {before} to {now} bytes");
    }
    drop(open);
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{{}}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    let reading = stream.read_exact(&mut answer);
    tokio::time::timeout(Duration::from_secs(60), reading)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_slow_posters_take_bounded_memory_and_go_for_others() {
    everflow_serve::raise_open_files();
    let mut world = hooked().await;
    let intake = world.start(Options::default()).await;
    let events = EventServer::new(&world.env.clock, intake);
    let hooks = world.start_receivers().await;
    let path = world.path("hook").await;
    let stop = Signal::new();
    let mut serving = Vec::new();
    let listen = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (to_events, to_hooks) = (listen().await, listen().await);
    let addresses = [&to_events, &to_hooks].map(|listener| listener.local_addr().unwrap());
    let stopping = stop.clone();
    serving.push(tokio::spawn(async move {
        events.run(to_events, stopping).await
    }));
    let stopping = stop.clone();
    serving.push(tokio::spawn(
        async move { hooks.run(to_hooks, stopping).await },
    ));
    // One after the other: both are the same process.
    crowd(addresses[0], "/", "HTTP/1.1 202").await;
    crowd(addresses[1], &path, "HTTP/1.1 200").await;
    stop.raise();
    for server in serving {
        server.await.unwrap();
    }
}

/// A Receiver of the generic type, and what it wakes.
async fn hooked() -> World {
    let world = World::new().await;
    world.secret("token", json!({"token": "t0ken"})).await;
    let spec = json!({"url": "https://git/x", "interval": "1h"});
    world.object(&GIT_REPOSITORIES, "one", spec).await;
    let spec = json!({
        "type": "generic", "secretRef": {"name": "token"},
        "resources": [{"kind": "GitRepository", "name": "one"}],
    });
    world.object(&RECEIVERS, "hook", spec).await;
    world
}

#[tokio::test(start_paused = true)]
async fn bodies_of_unknown_length_are_cut_at_the_limit() {
    let mut world = hooked().await;
    let intake = world.start(Options::default()).await;
    let events = EventServer::new(&world.env.clock, intake);
    let hooks = world.start_receivers().await;
    let path = world.path("hook").await;
    let request = |path: &str, bytes: usize| {
        let body = " ".repeat(bytes);
        format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n\
             {:x}\r\n{body}{{}}\r\n0\r\n\r\n",
            bytes + 2
        )
    };
    const LIMIT: usize = 3 << 20;
    for (bytes, to_events, to_hooks) in [(LIMIT - 2, 202, 200), (LIMIT, 413, 413)] {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let server = events.clone();
        tokio::spawn(async move { server.serve(theirs).await });
        assert_eq!(exchange(ours, request("/", bytes)).await.0, to_events);
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let server = hooks.clone();
        tokio::spawn(async move { server.serve(theirs).await });
        assert_eq!(exchange(ours, request(&path, bytes)).await.0, to_hooks);
    }
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
