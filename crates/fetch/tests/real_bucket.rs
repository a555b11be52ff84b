//! Against a real S3 server, which checks signatures: versitygw, which serves a directory. Part of the
//! real tier, see `real/README.md`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use everflow_env::{Env, RealDisk};
use everflow_fetch::archive::Algorithm;
use everflow_fetch::bucket::{BucketAuth, BucketClient, Remote};
use everflow_fetch::{Deadline, Error};
use support::{Running, free_port, until_it_listens};

/// Serves the directories in `root` as buckets.
async fn start(program: &Path, root: &Path) -> (Running, String) {
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let child = Command::new(program)
        .args(["--quiet", "--port", &address, "posix", "--nometa"])
        .arg(root)
        .env("ROOT_ACCESS_KEY", "someone")
        .env("ROOT_SECRET_KEY", "their-secret")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Running(child);
    until_it_listens(port).await;
    (server, address)
}

fn keys(access: &str, secret: &str) -> BucketAuth {
    let data = [("accesskey", access), ("secretkey", secret)]
        .map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
    BucketAuth::from_secret("keys", &BTreeMap::from(data)).unwrap()
}

/// The names in the archive that is made of what the remote holds.
async fn names(env: &Env, remote: Remote) -> Result<Vec<String>, Error> {
    let deadline = Deadline::after(&env.clock, Duration::from_secs(30));
    let client = BucketClient::new(env, remote)?;
    let index = client.index(None, &deadline).await?;
    let fetched = client.fetch(index, Algorithm::Sha256, &deadline).await?;
    let file = env.disk.open(&fetched.path()).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let names = archive.entries().unwrap();
    Ok(names
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_a_real_bucket_are_fetched() {
    let Some(program) = everflow_corpus::real::program("versitygw") else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("buckets");
    for (name, text) in [
        ("apps/one.yaml", "one: 1\n"),
        ("apps/deep er/zwölf+1.yaml", "two: 2\n"),
        ("other/skipped.md", "text"),
        (".sourceignore", "*.md\n"),
    ] {
        let path = root.join("delivery").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    // More than a page of a list.
    for number in 0..1100 {
        let name = format!("delivery/many/{number:04}.yaml");
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("n: {number}\n")).unwrap();
    }
    let (_server, address) = start(&program, &root).await;
    let env = Env::system(RealDisk::new(&place.path().join("store")).unwrap());
    let remote = |auth: BucketAuth, prefix: &str| Remote {
        insecure: true,
        prefix: prefix.to_owned(),
        auth,
        ..Remote::new(&address, "delivery")
    };
    let all = names(&env, remote(keys("someone", "their-secret"), ""))
        .await
        .unwrap();
    let yaml = all.iter().filter(|name| name.ends_with(".yaml")).count();
    assert_eq!(yaml, 1102);
    assert!(all.contains(&"apps/deep er/zwölf+1.yaml".to_owned()));
    assert!(!all.iter().any(|name| name.ends_with(".md")));
    let some = names(&env, remote(keys("someone", "their-secret"), "apps/"))
        .await
        .unwrap();
    assert_eq!(
        some.iter().filter(|name| name.ends_with(".yaml")).count(),
        2
    );

    for auth in [
        keys("someone", "another-secret"),
        keys("stranger", "their-secret"),
        BucketAuth::Anonymous,
    ] {
        let error = names(&env, remote(auth, "")).await.unwrap_err();
        assert_eq!(error.reason(), "BucketOperationFailed");
        let text = error.to_string();
        assert!(!text.contains("secret"), "{text}");
    }
    let missing = Remote {
        bucket: "nothing".to_owned(),
        ..remote(keys("someone", "their-secret"), "")
    };
    let error = names(&env, missing).await.unwrap_err();
    assert_eq!(error.to_string(), "bucket 'nothing' not found");
}
