//! The server among clients that take their time.

use std::time::{Duration, Instant};

use everflow_cluster::ApiService;
use everflow_cluster::server::converse;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

const WATCH: &[u8] = b"GET /api/v1/configmaps?watch=true&resourceVersion=0 HTTP/1.1\r\n\
    Host: x\r\nAuthorization: Bearer secret\r\n\r\n";

/// How long after now, in seconds, a client with a connection of its own is answered.
async fn asked(place: &Place) -> f64 {
    let begun = Instant::now();
    let request = with_token("/api/v1/namespaces").body(empty()).unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(5), place.send(None, request));
    assert_eq!(answer.await.expect("not served").status(), 200);
    begun.elapsed().as_secs_f64()
}

async fn create_config_map(place: &Place, name: &str, size: usize) {
    let data = "x".repeat(size);
    let body = format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"a":"{data}"}}}}"#);
    let request = request("POST", "/api/v1/namespaces/default/configmaps")
        .header("authorization", "Bearer secret")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let service = ApiService::new(place.server.clone()).as_user(User::admin());
    assert_eq!(service.answer(request).await.status(), 201);
}

#[tokio::test]
async fn connections_without_a_handshake_end_and_others_are_served_meanwhile() {
    let place = place().await;
    let mut silent = Vec::new();
    for _ in 0..900 {
        silent.push(TcpStream::connect(place.address).await.unwrap());
    }
    let took = asked(&place).await;
    assert!(took < 1.0, "{took} s");
    let mut gone = tokio::task::JoinSet::new();
    for mut stream in silent {
        gone.spawn(async move { stream.read(&mut [0]).await });
    }
    let all = async {
        while let Some(read) = gone.join_next().await {
            assert!(matches!(read.unwrap(), Ok(0) | Err(_)));
        }
    };
    let all = tokio::time::timeout(Duration::from_secs(15), all).await;
    all.expect("connections without a handshake stay");
}

#[tokio::test]
async fn five_hundred_watchers_stay_among_slow_clients() {
    everflow_serve::raise_open_files();
    let place = place().await;
    let client = place.client(None);
    let mut watchers = Vec::new();
    for _ in 0..500 {
        let stream = TcpStream::connect(place.address).await.unwrap();
        let mut stream = place.over(stream, client.clone()).await;
        stream.write_all(WATCH).await.unwrap();
        // The answer has begun.
        let mut head = [0; 4096];
        assert!(stream.read(&mut head).await.unwrap() > 0);
        watchers.push(stream);
    }
    let mut slow = Vec::new();
    for _ in 0..2_500 {
        let mut stream = TcpStream::connect(place.address).await.unwrap();
        // Part of a record of TLS; the server may have dropped the connection already.
        let _ = stream.write_all(&[22, 3, 1]).await;
        slow.push(stream);
    }
    let took = asked(&place).await;
    assert!(took < 1.0, "{took} s");
    create_config_map(&place, "news", 10).await;
    for watcher in &mut watchers {
        let mut seen = String::new();
        while !seen.contains("\"news\"") {
            let mut bytes = [0; 4096];
            let reading = tokio::time::timeout(Duration::from_secs(5), watcher.read(&mut bytes));
            let count = reading.await.expect("no event").unwrap();
            assert!(count > 0, "the watch ended after {seen}");
            seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_read_its_events_is_cut_and_a_quiet_one_stays() {
    let place = place().await;
    let mut serving = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..2 {
        let (near, far) = tokio::io::duplex(16 << 10);
        let service = ApiService::new(place.server.clone()).as_user(User::admin());
        let tls = place.authority.server_config().unwrap();
        serving.push(tokio::spawn(converse(service, tls, far)));
        let mut stream = place.over(near, place.client(None)).await;
        stream.write_all(WATCH).await.unwrap();
        let mut head = [0; 4096];
        assert!(stream.read(&mut head).await.unwrap() > 0);
        clients.push(stream);
    }
    tokio::time::sleep(Duration::from_secs(1_500)).await;
    assert!(serving.iter().all(|task| !task.is_finished()));
    let mut reading = clients.remove(0);
    let reader = tokio::spawn(async move {
        let mut bytes = vec![0; 64 << 10];
        while reading.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
    });
    for number in 0..4 {
        create_config_map(&place, &format!("large-{number}"), 100_000).await;
    }
    tokio::time::sleep(Duration::from_secs(65)).await;
    assert!(serving[1].is_finished() && !serving[0].is_finished());
    reader.abort();
}
