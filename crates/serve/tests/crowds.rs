//! Many slow clients, and one that wants to be served.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use everflow_serve::{Limits, raise_open_files};
use support::{get, get_on, is_closed, listen, must_be_served, port, slow_head};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn another_client_is_served_among_six_hundred_slow_heads() {
    let (address, _serving) = listen(Limits::default()).await;
    let mut slow = Vec::new();
    for _ in 0..600 {
        slow.push(slow_head(address).await);
    }
    must_be_served(address).await;
}

#[tokio::test]
async fn clients_are_served_while_dropped_ones_come_back_at_once() {
    let (address, _serving) = listen(Limits::for_connections(64)).await;
    let mut slow = tokio::task::JoinSet::new();
    for _ in 0..300 {
        slow.spawn(async move {
            loop {
                let mut stream = slow_head(address).await;
                // Until it is dropped.
                let _ = stream.read(&mut [0]).await;
            }
        });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    for _ in 0..20 {
        must_be_served(address).await;
    }
}

/// As many as the process may have, at both ends.
#[tokio::test]
async fn ten_thousand_slow_clients_keep_nobody_from_being_served() {
    raise_open_files();
    let open_files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let open_files = usize::try_from(open_files.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    // Each needs a handle here, and those that have a place one at the server.
    let clients = 10_000.min(open_files.saturating_sub(1_000));
    let (address, _serving) = listen(Limits::default()).await;
    let before = resident();
    let mut slow = Vec::new();
    while slow.len() < clients {
        slow.push(slow_head(address).await);
    }
    let asked = Instant::now();
    must_be_served(address).await;
    let took = asked.elapsed();
    let grown = resident().saturating_sub(before) >> 20;
    println!("{clients} slow clients: served in {took:?}, {grown} MiB more for both ends");
    assert!(grown < 256, "{grown} MiB");
    let mut closed = 0;
    for stream in &mut slow[..2_000.min(clients)] {
        closed += usize::from(is_closed(stream).await);
    }
    assert!(closed >= 1_000.min(clients.saturating_sub(600)), "{closed}");
}

/// How many bytes of memory the process has.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<usize> = statm.split(' ').nth(1).and_then(|text| text.parse().ok());
    pages.unwrap_or(0) * 4096
}

#[tokio::test]
async fn requests_under_way_keep_their_places_and_others_wait_for_one() {
    let (address, _serving) = listen(Limits::for_connections(8)).await;
    let mut watches = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        watches.push(stream);
    }
    let waiting = tokio::spawn(async move { get(address, "/").await });
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(!waiting.is_finished());
    for watch in &mut watches {
        // The head of the answer, and nothing after it.
        let mut head = [0; 4096];
        assert!(watch.read(&mut head).await.unwrap() > 0);
        assert!(!is_closed(watch).await);
    }
    drop(watches.pop());
    let answer = waiting.await.unwrap().unwrap();
    assert!(answer.ends_with("0 bytes"), "{answer}");
}

#[tokio::test]
async fn connections_between_requests_make_room() {
    let (address, _serving) = listen(Limits::for_connections(8)).await;
    let mut kept = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        let mut answer = [0; 4096];
        assert!(stream.read(&mut answer).await.unwrap() > 0);
        kept.push(stream);
    }
    must_be_served(address).await;
    assert!(is_closed(&mut kept[7]).await);
    assert!(!is_closed(&mut kept[0]).await);
}

#[tokio::test]
async fn connections_without_a_handshake_end_after_its_span_and_others_are_served() {
    let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = key.cert.der().clone();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.clone()],
            rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = Limits {
        handshake: Duration::from_millis(1_500),
        ..Limits::default()
    };
    let port = port(limits);
    tokio::spawn(async move {
        port.run(listener, std::future::pending(), move |connection| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(connection) = connection.tls(&acceptor).await {
                    let service = hyper::service::service_fn(support::answer);
                    connection.http(service).await;
                }
            }
        })
        .await;
    });
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let asked = Instant::now();
    let stream = TcpStream::connect(address).await.unwrap();
    let mut stream = connector.connect(name, stream).await.unwrap();
    let answer = get_on(&mut stream, "/").await.unwrap();
    assert!(answer.ends_with("0 bytes"), "{answer}");
    assert!(asked.elapsed() < Duration::from_secs(1));
    tokio::time::sleep(Duration::from_secs(2)).await;
    for stream in &mut silent {
        assert!(is_closed(stream).await);
    }
}

#[tokio::test]
async fn slow_heads_end_after_their_span() {
    let limits = Limits {
        head: Duration::from_millis(300),
        ..Limits::default()
    };
    let (address, _serving) = listen(limits).await;
    let mut stream = slow_head(address).await;
    let begun = Instant::now();
    while !is_closed(&mut stream).await {
        let _ = stream.write_all(b"a").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(begun.elapsed() < Duration::from_secs(2));
    }
}

#[tokio::test]
async fn a_stop_lets_requests_finish_and_closes_the_others() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let port = port(Limits::default());
    let serving = tokio::spawn(async move {
        let stopped = async { drop(stopped.await) };
        port.run(listener, stopped, |connection| {
            connection.http(hyper::service::service_fn(support::answer))
        })
        .await;
    });
    let mut idle = slow_head(address).await;
    let mut sending = TcpStream::connect(address).await.unwrap();
    sending
        .write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    stop.send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    sending.write_all(b"cd").await.unwrap();
    let mut answer = String::new();
    sending.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("4 bytes"), "{answer}");
    drop(sending);
    // A head that is not complete is not waited for longer than the grace.
    let begun = Instant::now();
    serving.await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert!(is_closed(&mut idle).await);
    assert!(TcpStream::connect(address).await.is_err());
}
