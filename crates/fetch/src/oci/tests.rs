//! Against a registry in the same process.

use std::time::Duration;

use everflow_env::{Env, MemoryDialer};

use super::*;
use crate::archive::{Algorithm, ArchiveWriter};
use crate::testing::{Fault, Push, Registry};

fn world() -> (Registry, Env) {
    let dialer = MemoryDialer::new();
    let registry = Registry::new();
    registry.listen(&dialer, "127.0.0.1", 5000);
    (registry, Env::simulated(1, dialer))
}

fn deadline(env: &Env) -> Deadline {
    Deadline::after(&env.clock, Duration::from_secs(60))
}

fn client(env: &Env, path: &str) -> OciClient {
    OciClient::new(env, Remote::new(format!("oci://127.0.0.1:5000/{path}"))).unwrap()
}

fn as_user(env: &Env, path: &str, auth: RegistryAuth) -> OciClient {
    let mut remote = Remote::new(format!("oci://127.0.0.1:5000/{path}"));
    remote.auth = auth;
    OciClient::new(env, remote).unwrap()
}

fn login(password: &str) -> RegistryAuth {
    RegistryAuth::Login {
        username: "user".to_owned(),
        password: password.into(),
    }
}

fn packed(files: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = ArchiveWriter::new(Vec::new(), Algorithm::Sha256, 1 << 20).unwrap();
    for (path, text) in files {
        let size = text.len() as u64;
        writer
            .file(path.as_bytes(), false, size, &mut text.as_bytes())
            .unwrap();
    }
    writer.finish().unwrap().0
}

fn tag(tag: &str) -> OciRef {
    OciRef {
        tag: tag.to_owned(),
        ..OciRef::default()
    }
}

async fn pull(env: &Env, client: &OciClient, wanted: &OciRef) -> Result<Pulled, String> {
    let work = async {
        let resolution = client.resolve(wanted, "", &deadline(env)).await?;
        client
            .pull(&resolution, &PullOptions::default(), &deadline(env))
            .await
    };
    work.await.map_err(|error: Error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn an_artifact_is_resolved_and_repacked() {
    let (registry, env) = world();
    let content = packed(&[("b/two", "2"), ("a", "1"), ("logo.png", "x")]);
    let mut push = Push::content(content);
    push.annotations.push(("k".to_owned(), "v".to_owned()));
    let digest = registry.push("team/app", &["v1"], &push);
    let client = client(&env, "team/app");
    let resolution = client
        .resolve(&tag("v1"), "", &deadline(&env))
        .await
        .unwrap();
    assert_eq!(resolution.revision, format!("v1@{digest}"));
    assert_eq!(
        resolution.reference.to_string(),
        "127.0.0.1:5000/team/app:v1"
    );
    let pulled = pull(&env, &client, &tag("v1")).await.unwrap();
    assert_eq!(pulled.metadata["k"], "v");
    let stored = everflow_env::disk::read_all(&*env.disk, &pulled.path(), 1 << 20).unwrap();
    assert_eq!(
        crate::archive::digest_of(Algorithm::Sha256, &stored),
        pulled.digest
    );
    assert_eq!(stored.len() as u64, pulled.size);
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&stored[..]));
    let names: Vec<String> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, [".", "a", "b", "b/two"]);
    let path = pulled.path();
    drop(pulled);
    assert!(env.disk.open(&path).is_err());
    // HTTPS was tried, plain HTTP was greeted once, and the tag was asked for by HEAD.
    let seen = registry.seen();
    assert_eq!(seen.iter().filter(|line| *line == "GET /v2/").count(), 1);
    assert!(seen.contains(&"HEAD /v2/team/app/manifests/v1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn all_pages_of_tags_are_read() {
    let (registry, env) = world();
    let push = Push::content(packed(&[("a", "1")]));
    let names: Vec<String> = (0..25).map(|number| format!("1.{number}.0")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    registry.push("team/app", &names, &push);
    registry.set_page(4);
    let client = client(&env, "team/app");
    assert_eq!(client.tags(&deadline(&env)).await.unwrap().len(), 25);
    let wanted = OciRef {
        semver: "1.x".to_owned(),
        ..OciRef::default()
    };
    let resolution = client.resolve(&wanted, "", &deadline(&env)).await.unwrap();
    assert!(resolution.revision.starts_with("1.24.0@sha256:"));
}

#[tokio::test(start_paused = true)]
async fn credentials_are_used_and_never_shown() {
    let (registry, env) = world();
    registry.push(
        "private/app",
        &["v1"],
        &Push::content(packed(&[("a", "1")])),
    );
    let unauthorized = "failed to determine artifact digest: GET http://127.0.0.1:5000/v2/private/app/manifests/v1: UNAUTHORIZED: authentication required";
    let error = pull(&env, &client(&env, "private/app"), &tag("v1"))
        .await
        .unwrap_err();
    assert_eq!(error, unauthorized);
    let wrong = as_user(&env, "private/app", login("hunter2"));
    assert_eq!(
        pull(&env, &wrong, &tag("v1")).await.unwrap_err(),
        unauthorized
    );
    let right = as_user(&env, "private/app", login("pass"));
    pull(&env, &right, &tag("v1")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn tokens_are_fetched_and_renewed() {
    let (registry, env) = world();
    registry.push("team/app", &["v1"], &Push::content(packed(&[("a", "1")])));
    registry.require_token("http://127.0.0.1:5000/token", "first");
    let user = as_user(&env, "team/app", login("pass"));
    pull(&env, &user, &tag("v1")).await.unwrap();
    let seen = registry.seen();
    let asked = "GET /token?scope=repository%3Ateam%2Fapp%3Apull&service=test Basic dXNlcjpwYXNz";
    assert_eq!(
        seen.iter().filter(|line| *line == asked).count(),
        1,
        "{seen:?}"
    );
    // The token is no longer good: a new one is fetched.
    registry.require_token("http://127.0.0.1:5000/token", "second");
    pull(&env, &user, &tag("v1")).await.unwrap();
    let identity = as_user(&env, "team/app", RegistryAuth::Identity("identity".into()));
    pull(&env, &identity, &tag("v1")).await.unwrap();
    let bearer = as_user(&env, "team/app", RegistryAuth::Bearer("second".into()));
    pull(&env, &bearer, &tag("v1")).await.unwrap();
    let error = pull(
        &env,
        &as_user(&env, "team/app", login("hunter2")),
        &tag("v1"),
    )
    .await
    .unwrap_err();
    assert!(
        error.ends_with("UNAUTHORIZED: incorrect username or password"),
        "{error}"
    );
    assert!(!error.contains("hunter2"), "{error}");
    registry.require_token("http://127.0.0.1:5000/token", "anonymous");
    pull(&env, &client(&env, "team/app"), &tag("v1"))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_registry_may_not_send_us_into_our_own_network() {
    let (registry, env) = world();
    registry.push("team/app", &["v1"], &Push::content(packed(&[("a", "1")])));
    registry.require_token("http://169.254.169.254/token", "x");
    let error = pull(&env, &client(&env, "team/app"), &tag("v1"))
        .await
        .unwrap_err();
    assert!(
        error.ends_with("invalid realm in www-authenticate: realm host \"169.254.169.254\" is a private or link-local address"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn blobs_elsewhere_are_fetched_without_credentials() {
    let dialer = MemoryDialer::new();
    let (registry, store) = (Registry::new(), Registry::new());
    registry.listen(&dialer, "127.0.0.1", 5000);
    store.listen(&dialer, "blobs.example", 80);
    let env = Env::simulated(1, dialer);
    let push = Push::content(packed(&[("a", "1")]));
    registry.push("private/app", &["v1"], &push);
    store.push("any", &[], &push);
    let digest = crate::archive::digest_of(Algorithm::Sha256, &push.layers[0].1);
    let signed = format!("http://blobs.example/v2/any/blobs/{digest}?X-Signature=hunter2");
    registry.fault("/blobs/", Fault::Redirect(signed));
    let client = as_user(&env, "private/app", login("pass"));
    pull(&env, &client, &tag("v1")).await.unwrap();
    assert!(store.seen().iter().all(|line| !line.contains("Basic")));
    store.fault("/blobs/", Fault::Status(403, b"no".to_vec()));
    let error = pull(&env, &client, &tag("v1")).await.unwrap_err();
    assert!(
        error.contains("X-Signature=REDACTED: unexpected status code 403 Forbidden: no"),
        "{error}"
    );
    registry.heal();
    registry.fault("/blobs/", Fault::Redirect("http://10.0.0.1/x".to_owned()));
    let error = pull(&env, &client, &tag("v1")).await.unwrap_err();
    assert!(
        error.contains(
            "refusing to be redirected by \"127.0.0.1\" to the private address \"10.0.0.1\""
        ),
        "{error}"
    );
}
