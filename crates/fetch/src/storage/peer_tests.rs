//! Replicas that have each other's artifacts.

use std::sync::Arc;

use everflow_env::disk::{read_all, write_whole};
use everflow_env::{Dialer as _, Env, MemoryDialer, watch};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

const PATH: &str = "gitrepository/apps/web/abc.tar.gz";

/// What a status says.
#[derive(Debug)]
struct Status(Option<String>);

impl NamedArtifacts for Status {
    fn digest(&self, path: &str) -> Option<String> {
        self.0.clone().filter(|_| path == PATH)
    }
}

struct Replica {
    env: Env,
    storage: Storage,
}

/// A replica at an address, which knows where the others are and what the status says.
async fn replica(hosts: &MemoryDialer, name: &str, peers: &[&str], named: Option<&str>) -> Replica {
    let env = Env::simulated(3, hosts.clone());
    let options = StorageOptions {
        advertised: format!("{name}:80"),
        ..StorageOptions::default()
    };
    let storage = Storage::open(&env, options).await.unwrap();
    let peers = peers.iter().map(|peer| format!("{peer}:80")).collect();
    let peers = watch::Sender::new(peers).subscribe();
    let storage = storage.with_peers(peers).unwrap();
    let named = Arc::new(Status(named.map(str::to_owned)));
    let files = FileServer::new(&env, ServerLimits::default()).with_peers(storage.clone(), named);
    let mut incoming = hosts.listen(name, 80);
    tokio::spawn(async move {
        while let Some(stream) = incoming.recv().await {
            let files = files.clone();
            tokio::spawn(async move { files.serve(stream).await });
        }
    });
    Replica { env, storage }
}

async fn publish(replica: &Replica, content: &[u8]) -> Stored {
    let owner = Owner::new("GitRepository", "apps", "web").unwrap();
    let publishing = replica
        .storage
        .publish_bytes(content.to_vec(), &owner, "abc.tar.gz");
    publishing.await.unwrap()
}

async fn get(hosts: &MemoryDialer, from: &str, header: &str) -> String {
    let mut client = hosts.connect(from, 80).await.unwrap();
    let request = format!("GET /{PATH} HTTP/1.1\r\nHost: x\r\n{header}Connection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(start_paused = true)]
async fn any_replica_serves_artifacts_of_its_peers() {
    let hosts = MemoryDialer::new();
    let one = replica(&hosts, "one", &["two"], None).await;
    let stored = publish(&one, b"content").await;
    let digest = stored.digest.to_string();
    // One peer is gone, one has nothing.
    let empty = replica(&hosts, "empty", &[], None).await;
    let two = replica(&hosts, "two", &["gone", "empty", "one"], Some(&digest)).await;
    let answer = get(&hosts, "two", "").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.ends_with("content"), "{answer}");
    assert_eq!(read_all(&*two.env.disk, PATH, 100).unwrap(), b"content");
    assert_eq!(two.env.disk.list(TEMPORARY).unwrap(), []);
    assert!(empty.env.disk.open(PATH).is_err());
    // From then on it holds it itself.
    assert!(two.storage.verify(PATH, &stored.digest).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn replicas_do_not_ask_each_other_in_circles() {
    let hosts = MemoryDialer::new();
    let digest = crate::archive::digest_of(Algorithm::Sha256, b"content").to_string();
    let _one = replica(&hosts, "one", &["two"], Some(&digest)).await;
    let _two = replica(&hosts, "two", &["one"], Some(&digest)).await;
    let answer = get(&hosts, "one", "").await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    // A replica answers another from its disk alone.
    let three = replica(&hosts, "three", &[], None).await;
    publish(&three, b"content").await;
    let four = replica(&hosts, "four", &["three"], Some(&digest)).await;
    let answer = get(&hosts, "four", "X-Everflow-Peer: 1\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert!(four.env.disk.open(PATH).is_err());
}

#[tokio::test(start_paused = true)]
async fn artifact_with_another_digest_is_neither_taken_nor_removed() {
    let hosts = MemoryDialer::new();
    let one = replica(&hosts, "one", &[], None).await;
    publish(&one, b"something else").await;
    let two = replica(&hosts, "two", &["one"], None).await;
    let wanted = crate::archive::digest_of(Algorithm::Sha256, b"content");
    assert!(!two.storage.bring(PATH, &wanted.to_string()).await);
    assert!(two.env.disk.open(PATH).is_err());
    // Whoever claims another digest for what is here does no harm to it.
    write_whole(&*two.env.disk, PATH, b"ours").unwrap();
    assert!(!two.storage.bring(PATH, &wanted.to_string()).await);
    assert_eq!(read_all(&*two.env.disk, PATH, 100).unwrap(), b"ours");
    for odd in [
        "tmp/a/b/c",
        "gitrepository/apps/web/../../x",
        "a/b/c/d/e",
        "",
    ] {
        assert!(!two.storage.bring(odd, &wanted.to_string()).await, "{odd}");
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_of_replicas_are_ours() {
    let hosts = MemoryDialer::new();
    let one = replica(&hosts, "one", &["two"], None).await;
    let ours = |url: &str| one.storage.is_ours(url, PATH);
    assert!(ours(&format!("http://one:80/{PATH}")) && ours(&format!("http://two:80/{PATH}")));
    for other in [
        "http://three:80/",
        "http://two:80/x/",
        "https://two:80/",
        "http://two:80",
    ] {
        assert!(!ours(&format!("{other}{PATH}")), "{other}");
    }
}
