//! Bodies that move too slowly, in a time that passes at once.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use bytes::Bytes;
use everflow_serve::Limits;
use http_body_util::{BodyExt as _, Empty};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::{answer, port};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

fn connect() -> (DuplexStream, JoinHandle<()>) {
    let (client, server) = duplex(16 << 10);
    let port = port(Limits::default());
    let serving = tokio::spawn(async move {
        port.serve(server, |connection| connection.http(service_fn(answer)))
            .await;
    });
    (client, serving)
}

/// After how many seconds the server ended the connection.
async fn ended(serving: JoinHandle<()>, begun: Instant) -> u64 {
    serving.await.unwrap();
    begun.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_request_body_slower_than_the_pace_is_cut() {
    let (mut client, serving) = connect();
    let begun = Instant::now();
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        .await
        .unwrap();
    tokio::spawn(async move {
        while client.write_all(&[7; 1000]).await.is_ok() {
            sleep(Duration::from_secs(2)).await;
        }
    });
    assert_eq!(ended(serving, begun).await, 60);
}

#[tokio::test(start_paused = true)]
async fn a_request_body_that_keeps_the_pace_is_taken() {
    let (mut client, _serving) = connect();
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        .await
        .unwrap();
    for _ in 0..500 {
        sleep(Duration::from_secs(1)).await;
        client.write_all(&[7; 2000]).await.unwrap();
    }
    let mut answer = [0; 4096];
    let count = client.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..count]);
    assert!(answer.ends_with("1000000 bytes"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_read_slower_than_the_pace_is_cut() {
    let (mut client, serving) = connect();
    let begun = Instant::now();
    client
        .write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 1000];
        while client.read(&mut buffer).await.is_ok_and(|count| count > 0) {
            sleep(Duration::from_secs(2)).await;
        }
    });
    assert_eq!(ended(serving, begun).await, 60);
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_little_to_tell_stays_for_hours() {
    for path in ["/watch", "/events"] {
        let (mut client, serving) = connect();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let reading = tokio::spawn(async move {
            let mut buffer = [0; 1000];
            while client.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
        });
        sleep(Duration::from_secs(10 * 3_600)).await;
        assert!(!serving.is_finished(), "{path}");
        reading.abort();
        serving.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_not_read_is_cut() {
    let (mut client, serving) = connect();
    let begun = Instant::now();
    client
        .write_all(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let seconds = ended(serving, begun).await;
    // Events of 6 bytes every 50 s until the buffer of 16 KiB is full, and a minute.
    assert!((10_000..100_000).contains(&seconds), "{seconds} s");
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn http_2_streams_without_a_window_end_their_connection_and_quiet_watches_do_not() {
    let (client, serving) = connect();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client))
            .await
            .unwrap();
    tokio::spawn(connection);
    let request = |path: &str| {
        let request = http::Request::builder().uri(format!("http://x{path}"));
        request.body(Empty::<Bytes>::new()).unwrap()
    };
    let mut watch = sender.send_request(request("/watch")).await.unwrap();
    sleep(Duration::from_secs(10 * 3_600)).await;
    assert!(!serving.is_finished());
    let begun = Instant::now();
    // Its body is never read, so the window of the stream is used up and stays so.
    let _large = sender.send_request(request("/large")).await.unwrap();
    assert_eq!(ended(serving, begun).await, 60);
    assert!(watch.frame().await.is_none_or(|frame| frame.is_err()));
}

#[tokio::test(start_paused = true)]
async fn heads_and_pauses_have_spans_with_both_versions() {
    // A preface of HTTP/2 that is never complete.
    for beginning in ["", "GET / HTTP/1.1\r\nHost: ", "PRI * HTTP/2.0"] {
        let (mut client, serving) = connect();
        let begun = Instant::now();
        client.write_all(beginning.as_bytes()).await.unwrap();
        assert_eq!(ended(serving, begun).await, 30, "{beginning:?}");
    }
    let (mut client, serving) = connect();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let begun = Instant::now();
    assert_eq!(ended(serving, begun).await, 120);
}
