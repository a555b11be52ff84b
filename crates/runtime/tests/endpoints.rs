//! Metrics and health over HTTP.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use everflow_runtime::Signal;
use everflow_runtime::http::serve_plain;
use support::toy::Running;
use support::{World, refuse};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn health_endpoints_answer_over_http() {
    let world = World::new(1).await;
    world.faults.before(|_| refuse(503, "ServiceUnavailable"));
    let running = Running::start(&world, Duration::ZERO);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Signal::new();
    let serving = tokio::spawn(serve_plain(
        listener,
        running.handle.endpoints(),
        stop.clone(),
    ));
    let unready = get(address, "/readyz").await;
    assert!(unready.starts_with("HTTP/1.1 503"), "{unready}");
    assert!(unready.contains("Toy: not listed yet"), "{unready}");
    world.faults.clear();
    for _ in 0..100 {
        if get(address, "/readyz").await.starts_with("HTTP/1.1 200") {
            break;
        }
        world.sleep(0.1).await;
    }
    assert!(get(address, "/readyz").await.ends_with("\r\n\r\nok"));
    assert!(get(address, "/healthz/").await.ends_with("\r\n\r\nok"));
    let metrics = get(address, "/metrics").await;
    assert!(metrics.contains("\neverflow_orphan_keys 0\n"), "{metrics}");
    assert!(
        get(address, "/etc/passwd")
            .await
            .starts_with("HTTP/1.1 404")
    );
    stop.raise();
    serving.await.unwrap();
}

#[tokio::test]
async fn slow_clients_have_a_bound_and_others_are_served() {
    let world = World::new(1).await;
    let running = Running::start(&world, Duration::ZERO);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Signal::new();
    tokio::spawn(serve_plain(listener, running.handle.endpoints(), stop));
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        // It may have been dropped already.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ").await;
        slow.push(stream);
    }
    let asking = tokio::time::timeout(Duration::from_secs(1), get(address, "/healthz"));
    assert!(asking.await.unwrap().ends_with("\r\n\r\nok"));
    let mut dropped = 0;
    for mut stream in slow {
        let reading = tokio::time::timeout(Duration::from_millis(1), stream.read_u8());
        dropped += usize::from(matches!(reading.await, Ok(Err(_))));
    }
    assert!(dropped >= 136, "{dropped}");
}
