//! The artifact server among clients that take their time.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use everflow_env::{Dialer as _, Env, MemoryDialer, MemoryDisk, RealDisk};
use everflow_fetch::storage::{FileServer, Owner, ServerLimits, Storage, StorageOptions};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const PATH: &str = "/gitrepository/apps/web/file.tar.gz";

async fn publish(env: &Env, bytes: Vec<u8>) {
    let storage = Storage::open(env, StorageOptions::default()).await.unwrap();
    let owner = Owner::new("GitRepository", "apps", "web").unwrap();
    storage
        .publish_bytes(bytes, &owner, "file.tar.gz")
        .await
        .unwrap();
}

/// A server on a port of this machine.
async fn listen(env: &Env) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = FileServer::new(env, ServerLimits::default());
    let serving = tokio::spawn(async move { server.run(listener, std::future::pending()).await });
    (address, serving)
}

async fn get(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: store\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn six_hundred_slow_heads_do_not_lock_out_another_client() {
    let env = Env::system(MemoryDisk::new());
    publish(&env, b"content".to_vec()).await;
    let (address, _serving) = listen(&env).await;
    let mut slow = tokio::task::JoinSet::new();
    for _ in 0..600 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            .await
            .unwrap();
        slow.spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(12)).await;
                if stream.write_all(b"a").await.is_err() {
                    return;
                }
            }
        });
    }
    let asked = Instant::now();
    let answer = tokio::time::timeout(Duration::from_secs(1), async {
        get(&mut TcpStream::connect(address).await.unwrap(), PATH).await
    });
    let answer = answer.await.expect("another client is not served");
    assert!(answer.ends_with("\r\n\r\ncontent"), "{answer}");
    assert!(asked.elapsed() < Duration::from_secs(1));
}

/// The server's end of a connection in memory, and the client's.
async fn connect(env: &Env) -> (impl AsyncRead + AsyncWrite + Unpin, JoinHandle<()>) {
    let dialer = MemoryDialer::new();
    let mut incoming = dialer.listen("store", 80);
    let client = dialer.connect("store", 80).await.unwrap();
    let server = FileServer::new(env, ServerLimits::default());
    let stream = incoming.recv().await.unwrap();
    (
        client,
        tokio::spawn(async move { server.serve(stream).await }),
    )
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_byte_by_byte_is_cut_after_its_span() {
    let env = Env::simulated(3, MemoryDialer::new());
    let (mut client, serving) = connect(&env).await;
    let begun = env.clock.elapsed();
    let dribbling = async {
        for byte in b"GET / HTTP/1.1\r\n".iter().chain([b'a'; 1000].iter()) {
            if client.write_all(&[*byte]).await.is_err() {
                return;
            }
            env.clock.sleep(Duration::from_secs(12)).await;
        }
    };
    tokio::select! {
        biased;
        () = dribbling => {}
        ended = serving => ended.unwrap(),
    }
    assert!(env.clock.elapsed() - begun <= Duration::from_secs(36));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slower_than_the_pace_is_cut() {
    let env = Env::simulated(3, MemoryDialer::new());
    publish(&env, vec![7; 4 << 20]).await;
    let (mut client, serving) = connect(&env).await;
    let request = format!("GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let begun = env.clock.elapsed();
    let reading = async {
        let mut buffer = [0; 100];
        while client.read(&mut buffer).await.unwrap_or(0) > 0 {
            env.clock.sleep(Duration::from_secs(10)).await;
        }
    };
    tokio::select! {
        biased;
        () = reading => {}
        ended = serving => ended.unwrap(),
    }
    assert!(env.clock.elapsed() - begun <= Duration::from_secs(130));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_keeps_the_pace_gets_all_of_a_large_file() {
    let env = Env::simulated(3, MemoryDialer::new());
    publish(&env, vec![7; 4 << 20]).await;
    let (mut client, serving) = connect(&env).await;
    let request = format!("GET {PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let (mut buffer, mut total) = (vec![0; 40 << 10], 0);
    loop {
        match client.read(&mut buffer).await.unwrap() {
            0 => break,
            count => total += count,
        }
        env.clock.sleep(Duration::from_secs(20)).await;
    }
    assert!(total > 4 << 20, "{total} bytes");
    serving.await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn symbolic_links_are_not_followed_out_of_the_storage() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("storage");
    let outside = directory.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    let env = Env::system(RealDisk::new(&root).unwrap());
    publish(&env, b"content".to_vec()).await;
    let sources = root.join("gitrepository/apps/web");
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, sources.join(name)).unwrap();
    };
    link("file.tar.gz", "latest.tar.gz");
    link(outside.join("secret").to_str().unwrap(), "absolute");
    link("../../../../outside/secret", "relative");
    link("/etc/passwd", "passwd");
    link("absolute", "twice");
    link("itself", "itself");
    std::os::unix::fs::symlink(&outside, root.join("gitrepository/apps/elsewhere")).unwrap();
    let (address, _serving) = listen(&env).await;
    let get = async |path: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        get(&mut stream, &format!("/gitrepository/apps/{path}")).await
    };
    let latest = get("web/latest.tar.gz").await;
    assert!(latest.ends_with("\r\n\r\ncontent"), "{latest}");
    for path in [
        "web/absolute",
        "web/relative",
        "web/passwd",
        "web/twice",
        "elsewhere/secret",
    ] {
        let answer = get(path).await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
    let itself = get("web/itself").await;
    assert!(!itself.starts_with("HTTP/1.1 200"), "{itself}");
}
