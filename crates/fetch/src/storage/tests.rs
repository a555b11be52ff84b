use everflow_env::disk::{read_all, write_whole};
use everflow_env::{Dialer, MemoryDialer, MemoryDisk};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::archive::digest_of;

async fn store(options: StorageOptions) -> (Storage, Env) {
    let env = Env::simulated(3, MemoryDialer::new());
    (Storage::open(&env, options).await.unwrap(), env)
}

fn owner() -> Owner {
    Owner::new("GitRepository", "apps", "web").unwrap()
}

#[tokio::test(start_paused = true)]
async fn artifacts_appear_whole_with_url_and_digest() {
    let options = StorageOptions {
        advertised: "source-controller.flux-system.svc.cluster.local.".to_owned(),
        ..StorageOptions::default()
    };
    let (storage, env) = store(options).await;
    let stored = storage
        .publish_bytes(b"content".to_vec(), &owner(), "abc.tar.gz")
        .await
        .unwrap();
    assert_eq!(stored.path, "gitrepository/apps/web/abc.tar.gz");
    assert_eq!(
        stored.url,
        "http://source-controller.flux-system.svc.cluster.local./gitrepository/apps/web/abc.tar.gz"
    );
    assert_eq!(
        (stored.digest.clone(), stored.size),
        (digest_of(Algorithm::Sha256, b"content"), 7)
    );
    assert!(storage.verify(&stored.path, &stored.digest).await.unwrap());
    let url = storage
        .link(&owner(), "abc.tar.gz", "latest.tar.gz")
        .await
        .unwrap();
    assert!(url.ends_with("/gitrepository/apps/web/latest.tar.gz"));
    let linked = read_all(&*env.disk, "gitrepository/apps/web/latest.tar.gz", 100).unwrap();
    assert_eq!(linked, b"content");
    assert_eq!(storage.used().await.unwrap(), 7);
    // Nothing is left of the work.
    assert_eq!(env.disk.list(TEMPORARY).unwrap(), []);
    // A file that is not what the status says is not served any more.
    write_whole(&*env.disk, &stored.path, b"other").unwrap();
    assert!(!storage.verify(&stored.path, &stored.digest).await.unwrap());
    assert!(env.disk.open(&stored.path).is_err());
    assert!(
        !storage
            .verify("gitrepository/x/y/z", &stored.digest)
            .await
            .unwrap()
    );
    storage.remove_owner(&owner()).await.unwrap();
    assert_eq!(storage.used().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_start_empties_the_temporary_area_and_keeps_artifacts() {
    let env = Env::simulated(3, MemoryDialer::new());
    write_whole(&*env.disk, "tmp/git-1/pack", b"half").unwrap();
    write_whole(&*env.disk, "gitrepository/apps/web/a.tar.gz", b"kept").unwrap();
    let storage = Storage::open(&env, StorageOptions::default())
        .await
        .unwrap();
    assert_eq!(env.disk.list(TEMPORARY).unwrap(), []);
    let digest = digest_of(Algorithm::Sha256, b"kept");
    assert!(
        storage
            .verify("gitrepository/apps/web/a.tar.gz", &digest)
            .await
            .unwrap()
    );
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_storing_leaves_the_old_artifact() {
    let disk = Arc::new(MemoryDisk::new());
    let mut env = Env::simulated(3, MemoryDialer::new());
    env.disk = disk.clone();
    let storage = Storage::open(&env, StorageOptions::default())
        .await
        .unwrap();
    let old = storage
        .publish_bytes(b"old".to_vec(), &owner(), "old.tar.gz")
        .await
        .unwrap();
    let place = storage.temporary("test").await.unwrap();
    disk.create(&place.file("new"))
        .unwrap()
        .write_all(b"half")
        .unwrap();
    disk.crash();
    let storage = Storage::open(&env, StorageOptions::default())
        .await
        .unwrap();
    assert!(storage.verify(&old.path, &old.digest).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn garbage_collection_never_removes_the_artifact_in_the_status() {
    let (storage, env) = store(StorageOptions::default()).await;
    let mut paths = Vec::new();
    for name in ["1", "2", "3", "4"] {
        let stored = storage
            .publish_bytes(name.into(), &owner(), name)
            .await
            .unwrap();
        paths.push(stored.path);
    }
    // Too many: the oldest go, but the first is named.
    let removed = storage.collect(&owner(), &[&paths[0]]).await.unwrap();
    assert_eq!(removed, [paths[1].clone(), paths[2].clone()]);
    // Not old enough.
    env.clock.sleep(Duration::from_secs(60)).await;
    assert_eq!(
        storage.collect(&owner(), &[&paths[0]]).await.unwrap(),
        [""; 0]
    );
    env.clock.sleep(Duration::from_secs(1)).await;
    let removed = storage.collect(&owner(), &[&paths[0]]).await.unwrap();
    assert_eq!(removed, [paths[3].clone()]);
    env.clock.sleep(Duration::from_secs(1_000_000)).await;
    assert_eq!(
        storage.collect(&owner(), &[&paths[0]]).await.unwrap(),
        [""; 0]
    );
    assert!(env.disk.open(&paths[0]).is_ok());
    // Links are not counted, and a source without files is fine.
    let nobody = Owner::new("Bucket", "a", "b").unwrap();
    assert_eq!(storage.collect(&nobody, &[]).await.unwrap(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn quota_and_full_disk_errors_are_reported() {
    let options = StorageOptions {
        quota: 10,
        ..StorageOptions::default()
    };
    let (storage, _) = store(options).await;
    storage
        .publish_bytes(vec![0; 8], &owner(), "a")
        .await
        .unwrap();
    let error = storage
        .publish_bytes(vec![0; 3], &owner(), "b")
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("pass the quota of 10"),
        "{error}"
    );
    for name in ["..", "", "a/b", ".hidden", "x.unfinished", "a\nb"] {
        let error = owner().file(name).unwrap_err();
        assert_eq!(error.reason(), "InvalidPath");
    }
}

async fn ask(env: &Env, request: &str) -> String {
    let dialer = MemoryDialer::new();
    let mut incoming = dialer.listen("store", 80);
    let mut client = dialer.connect("store", 80).await.unwrap();
    let server = FileServer::new(env, ServerLimits::default());
    let stream = incoming.recv().await.unwrap();
    tokio::spawn(async move { server.serve(stream).await });
    let request = format!("{request}\r\nHost: store\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(start_paused = true)]
async fn files_are_served_whole_in_parts_and_when_they_are_new() {
    let (storage, env) = store(StorageOptions::default()).await;
    let content: String = (0..200_000)
        .map(|n| char::from(b'a' + (n % 26) as u8))
        .collect();
    storage
        .publish_bytes(content.clone().into(), &owner(), "x.tar.gz")
        .await
        .unwrap();
    let path = "/gitrepository/apps/web/x.tar.gz";
    let whole = ask(&env, &format!("GET {path} HTTP/1.1")).await;
    assert!(
        whole.starts_with("HTTP/1.1 200 OK\r\n"),
        "{}",
        &whole[..300]
    );
    assert!(whole.ends_with(&content));
    let (head, _) = whole.split_once("\r\n\r\n").unwrap();
    for line in [
        "accept-ranges: bytes",
        "content-length: 200000",
        "content-type: application/x-gzip",
    ] {
        assert!(head.contains(line), "{head}");
    }
    let tag = head
        .lines()
        .find_map(|line| line.strip_prefix("etag: "))
        .unwrap();
    let known = ask(
        &env,
        &format!("GET {path} HTTP/1.1\r\nIf-None-Match: {tag}"),
    )
    .await;
    assert!(known.starts_with("HTTP/1.1 304"), "{known}");
    let part = ask(&env, &format!("GET {path} HTTP/1.1\r\nRange: bytes=26-28")).await;
    assert!(
        part.starts_with("HTTP/1.1 206") && part.ends_with("\r\n\r\nabc"),
        "{part}"
    );
    assert!(part.contains("content-range: bytes 26-28/200000"), "{part}");
    let late = ask(
        &env,
        &format!("GET {path} HTTP/1.1\r\nRange: bytes=26-28\r\nIf-Range: \"old\""),
    )
    .await;
    assert!(late.starts_with("HTTP/1.1 200"));
    let beyond = ask(
        &env,
        &format!("GET {path} HTTP/1.1\r\nRange: bytes=200000-"),
    )
    .await;
    assert!(beyond.starts_with("HTTP/1.1 416"), "{beyond}");
    let head = ask(&env, &format!("HEAD {path} HTTP/1.1")).await;
    assert!(
        head.contains("content-length: 200000") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    for bad in [
        "/tmp/x/y/z",
        "/gitrepository/apps/web/none",
        "/gitrepository/apps/web",
    ] {
        let answer = ask(&env, &format!("GET {bad} HTTP/1.1")).await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    }
    assert!(
        ask(&env, "GET / HTTP/1.1")
            .await
            .starts_with("HTTP/1.1 200")
    );
    assert!(
        ask(&env, &format!("PUT {path} HTTP/1.1"))
            .await
            .starts_with("HTTP/1.1 405")
    );
}

#[tokio::test(start_paused = true)]
async fn clients_that_stand_still_are_cut_off() {
    let (storage, env) = store(StorageOptions::default()).await;
    storage
        .publish_bytes(vec![7; 1 << 20], &owner(), "big")
        .await
        .unwrap();
    let dialer = MemoryDialer::new();
    let mut incoming = dialer.listen("store", 80);
    let mut client = dialer.connect("store", 80).await.unwrap();
    let server = FileServer::new(&env, ServerLimits::default());
    let stream = incoming.recv().await.unwrap();
    let serving = tokio::spawn(async move { server.serve(stream).await });
    client
        .write_all(b"GET /gitrepository/apps/web/big HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let before = env.clock.elapsed();
    // The client reads nothing: the server waits its minute and lets go.
    serving.await.unwrap();
    assert_eq!((env.clock.elapsed() - before).as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_file_is_read_again_only_when_it_changed_or_after_a_day() {
    let (storage, env) = store(StorageOptions::default()).await;
    let stored = storage
        .publish_bytes(b"content".to_vec(), &owner(), "abc.tar.gz")
        .await
        .unwrap();
    let looked = async || {
        let whole = storage.verify(&stored.path, &stored.digest).await.unwrap();
        assert!(whole);
        storage.known_whole(&stored.path).unwrap().read
    };
    let first = looked().await;
    env.clock.sleep(Duration::from_secs(3_600)).await;
    assert_eq!(looked().await, first);
    // Written anew with the same content: it is read, and fine.
    write_whole(&*env.disk, &stored.path, b"content").unwrap();
    let second = looked().await;
    assert!(second > first);
    env.clock.sleep(READ_AGAIN).await;
    assert!(looked().await > second);
    // Another digest was asked for: what is known does not count.
    let other = digest_of(Algorithm::Sha256, b"other");
    assert!(!storage.verify(&stored.path, &other).await.unwrap());
    assert!(storage.known_whole(&stored.path).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_copy_for_another_source_is_made_only_of_what_is_whole() {
    let (storage, env) = store(StorageOptions::default()).await;
    let first = storage
        .publish_bytes(b"content".to_vec(), &owner(), "abc.tar.gz")
        .await
        .unwrap();
    let other = Owner::new("GitRepository", "apps", "other").unwrap();
    let content = || (first.digest.clone(), first.size);
    let copied = storage
        .publish_copy(&first.path, &other, "abc.tar.gz", content())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(copied.path, "gitrepository/apps/other/abc.tar.gz");
    assert!(storage.verify(&copied.path, &first.digest).await.unwrap());
    write_whole(&*env.disk, &first.path, b"rotten").unwrap();
    let third = Owner::new("GitRepository", "apps", "third").unwrap();
    for path in [first.path.as_str(), "gitrepository/apps/gone/abc.tar.gz"] {
        let copied = storage.publish_copy(path, &third, "abc.tar.gz", content());
        assert_eq!(copied.await.unwrap(), None);
    }
    assert_eq!(env.disk.list(TEMPORARY).unwrap(), []);
    assert!(env.disk.list("gitrepository/apps/third").is_err());
}
