use std::time::Duration;

use everflow_env::{Env, MemoryDialer};

use super::*;
use crate::Secret;
use crate::archive::Algorithm;
use crate::testing::{answer, serve};

const INDEX: &str = "apiVersion: v1\nentries:\n  app:\n  - name: app\n    version: 1.0.0\n    urls: [app-1.0.0.tgz]\n";

fn client(env: &Env, url: &str, change: impl FnOnce(&mut Repository)) -> HelmClient {
    let mut repository = Repository::new(Url::parse(url).unwrap());
    change(&mut repository);
    HelmClient::new(env, repository).unwrap()
}

fn soon(env: &Env) -> Deadline {
    Deadline::after(&env.clock, Duration::from_secs(5))
}

#[tokio::test(start_paused = true)]
async fn an_index_is_fetched_loaded_and_searched() {
    let dialer = MemoryDialer::new();
    serve(&dialer, "charts.example", 80, |seen| {
        assert!(seen.line().starts_with("GET /a/index.yaml?q=1 "));
        answer("200 OK", "", INDEX.as_bytes())
    });
    let env = Env::simulated(1, dialer);
    let client = client(&env, "http://charts.example/a/?q=1", |_| {});
    let fetched = client
        .fetch_index(Algorithm::Sha256, &soon(&env))
        .await
        .unwrap();
    assert_eq!(fetched.size, INDEX.len() as u64);
    let loaded = fetched.load(Algorithm::Sha256).await.unwrap();
    assert_eq!((loaded.charts, loaded.versions, loaded.dropped), (1, 1, 0));
    assert!(loaded.file_name().starts_with("index-"));
    let found = client.versions_in(&loaded.path(), "app").await.unwrap();
    assert_eq!(found.unwrap()[0].urls, ["app-1.0.0.tgz"]);
    let path = loaded.path();
    drop(loaded);
    assert!(client.versions_in(&path, "app").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn failures_are_named_as_flux_names_them() {
    let dialer = MemoryDialer::new();
    serve(&dialer, "missing", 80, |_| answer("404 Not Found", "", b""));
    serve(&dialer, "large", 80, |_| {
        answer("200 OK", "", &[b'a'; 2000])
    });
    serve(&dialer, "broken", 80, |_| answer("200 OK", "", b"a: [\n"));
    let _silent = dialer.listen("silent", 80);
    let env = Env::simulated(1, dialer);
    let fetch = async |url: &str| {
        let client = client(&env, url, |repository| repository.helm.index = 1000);
        client.fetch_index(Algorithm::Sha256, &soon(&env)).await
    };
    let error = fetch("http://missing/x").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to cache index to temporary file: failed to fetch http://missing/x/index.yaml : 404 Not Found"
    );
    assert_eq!(error.reason(), "Failed");
    assert_eq!(
        fetch("http://large").await.unwrap_err().to_string(),
        "failed to cache index to temporary file: index exceeds the maximum index file size of 1000 bytes"
    );
    assert_eq!(
        fetch("http://silent").await.unwrap_err().to_string(),
        "failed to cache index to temporary file: Get \"http://silent/index.yaml\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    );
    let broken = fetch("http://broken").await.unwrap();
    let error = broken.load(Algorithm::Sha256).await.unwrap_err();
    assert_eq!(error.reason(), "IndexationFailed");
    assert_eq!(
        error.to_string(),
        "failed to load index: error converting YAML to JSON: yaml: line 1: did not find expected node content"
    );
}

#[tokio::test(start_paused = true)]
async fn credentials_stay_with_the_repository() {
    let env = Env::simulated(1, MemoryDialer::new());
    let secret = |repository: &mut Repository| {
        repository.auth = Some(Auth::Basic {
            username: "user".to_owned(),
            password: Secret::new("pass".to_owned()),
        });
    };
    let sees =
        |client: &HelmClient, url: &str| client.auth_for(&Url::parse(url).unwrap()).is_some();
    let own = client(&env, "https://a.example/charts", secret);
    assert!(sees(&own, "https://a.example/x"));
    assert!(sees(&own, "https://a.example:443/x"));
    for other in [
        "http://a.example/x",
        "https://b.example/x",
        "https://a.example:8443/x",
    ] {
        assert!(!sees(&own, other), "{other}");
    }
    let all = client(&env, "https://a.example/charts", |repository| {
        secret(repository);
        repository.pass_credentials = true;
    });
    assert!(sees(&all, "http://b.example/x"));
    let half = client(&env, "https://a.example/charts", |repository| {
        repository.auth = Some(Auth::Basic {
            username: "user".to_owned(),
            password: Secret::default(),
        });
    });
    assert!(!sees(&half, "https://a.example/x"));
}
