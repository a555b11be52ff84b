//! Against a registry in the same process.

use std::time::Duration;

use everflow_env::{Env, MemoryDialer};

use super::*;
use crate::archive::{Algorithm, ArchiveWriter};
use crate::testing::{Fault, Push, Registry};

pub(super) fn world() -> (Registry, Env) {
    let dialer = MemoryDialer::new();
    let registry = Registry::new();
    registry.listen(&dialer, "127.0.0.1", 5000);
    (registry, Env::simulated(1, dialer))
}

pub(super) fn deadline(env: &Env) -> Deadline {
    Deadline::after(&env.clock, Duration::from_secs(60))
}

pub(super) fn client(env: &Env, path: &str) -> OciClient {
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

pub(super) fn packed(files: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = ArchiveWriter::new(
        Vec::new(),
        Algorithm::Sha256,
        crate::archive::Limit::new(1 << 20, "--max"),
    )
    .unwrap();
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
async fn registry_redirects_into_private_networks_are_refused() {
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
    // What a server said that was not asked is not shown.
    assert!(
        error.ends_with("X-Signature=REDACTED: unexpected status code 403 Forbidden"),
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

/// A layer of entries that no honest tool would write.
fn crafted(entries: &[(tar::EntryType, &str, &[u8])]) -> Vec<u8> {
    use std::io::Write as _;
    let mut builder = tar::Builder::new(Vec::new());
    for (kind, name, content) in entries {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    let plain = builder.into_inner().unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&plain).unwrap();
    gzip.finish().unwrap()
}

#[tokio::test(start_paused = true)]
async fn layers_with_evil_content_are_refused() {
    use tar::EntryType;
    let (registry, env) = world();
    let client = client(&env, "team/app");
    let words = "failed to extract layer contents from artifact: ";
    let zeros = vec![0; 3 << 20];
    for (layer, cause) in [
        (
            crafted(&[(EntryType::Regular, "../../etc/passwd", b"x")]),
            "tar contained invalid name error \"../../etc/passwd\"",
        ),
        (
            crafted(&[(EntryType::Regular, "/etc/passwd", b"x")]),
            "tar contained invalid name error \"/etc/passwd\"",
        ),
        (
            crafted(&[(EntryType::Link, "hard", b"")]),
            "tar file entry hard contained unsupported file type",
        ),
        (
            crafted(&[(EntryType::Fifo, "pipe", b"")]),
            "tar file entry pipe contained unsupported file type",
        ),
        (
            crafted(&[(EntryType::Regular, "bomb", &zeros)]),
            "tar \"bomb\" is bigger than max archive size of 1048576 bytes",
        ),
        (
            crafted(&[
                (EntryType::Regular, "a", b"x"),
                (EntryType::Regular, "a/b", b"x"),
            ]),
            "mkdir a: not a directory",
        ),
        (
            b"plain text".to_vec(),
            "requires gzip-compressed body: gzip: invalid header",
        ),
        (vec![0x1f, 0x8b, 8, 0, 0], "tar error: "),
    ] {
        registry.push("team/app", &["v1"], &Push::content(layer));
        let options = PullOptions {
            unpack: crate::archive::artifact_limits(1 << 20, 10),
            ..PullOptions::default()
        };
        let resolution = client
            .resolve(&tag("v1"), "", &deadline(&env))
            .await
            .unwrap();
        let error = client
            .pull(&resolution, &options, &deadline(&env))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "OCIArtifactLayerOperationFailed");
        let error = error.to_string();
        assert!(error.starts_with(&format!("{words}{cause}")), "{error}");
    }
    // Links are left out, as Flux does.
    let linked = crafted(&[
        (EntryType::Symlink, "link", b""),
        (EntryType::Regular, "file", b"x"),
    ]);
    registry.push("team/app", &["v1"], &Push::content(linked));
    pull(&env, &client, &tag("v1")).await.unwrap();
    // Nothing is left behind.
    assert_eq!(env.disk.list("tmp").unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn registries_that_lie_or_fail_are_named() {
    let (registry, env) = world();
    let push = Push::content(packed(&[("a", "1")]));
    registry.push("team/app", &["v1", "1.0.0"], &push);
    let layer = push.layers[0].1.clone();
    let size = layer.len();
    let mut other = layer.clone();
    other[size - 1] ^= 1;
    let manifest = "failed to pull artifact from 'oci://127.0.0.1:5000/team/app': ";
    let opening = "failed to extract the first layer from artifact: ";
    let extracting = "failed to extract layer contents from artifact: ";
    let determining = "failed to determine artifact digest: ";
    let length =
        |bytes: usize| format!("Content-Length header {bytes} does not match expected size {size}");
    for (part, fault, start, words) in [
        (
            "/blobs/",
            Fault::Body(other.clone()),
            extracting,
            "error verifying sha256 checksum after reading".to_owned(),
        ),
        (
            "/blobs/",
            Fault::Body(layer[1..].to_vec()),
            opening,
            length(size - 1),
        ),
        (
            "/blobs/",
            Fault::Unmeasured(layer[1..].to_vec()),
            extracting,
            format!("error verifying size; got {}, want {size}", size - 1),
        ),
        (
            "/blobs/",
            Fault::Unmeasured([layer.clone(), layer.clone()].concat()),
            extracting,
            format!("error verifying size; got more than {size} bytes"),
        ),
        (
            "/blobs/",
            Fault::Cut(10),
            extracting,
            "unexpected EOF".to_owned(),
        ),
        (
            "/blobs/",
            Fault::Hang(10),
            extracting,
            "context deadline exceeded".to_owned(),
        ),
        (
            "/blobs/",
            Fault::Status(404, Vec::new()),
            opening,
            "unexpected status code 404 Not Found".to_owned(),
        ),
        (
            "/manifests/sha256",
            Fault::Body(b"{}".to_vec()),
            manifest,
            "does not match requested digest".to_owned(),
        ),
        (
            "/manifests/sha256",
            Fault::Hang(1),
            manifest,
            "context deadline exceeded".to_owned(),
        ),
        (
            "/manifests/v1",
            Fault::Status(503, b"busy".to_vec()),
            determining,
            "unexpected status code 503 Service Unavailable: busy".to_owned(),
        ),
        (
            "/manifests/v1",
            Fault::Status(
                429,
                br#"{"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]}"#.to_vec(),
            ),
            determining,
            "TOOMANYREQUESTS: slow down".to_owned(),
        ),
        (
            "GET /v2/ ",
            Fault::Hang(0),
            determining,
            "context deadline exceeded".to_owned(),
        ),
        (
            "GET /v2/ ",
            Fault::Status(500, Vec::new()),
            determining,
            "unexpected status code 500 Internal Server Error".to_owned(),
        ),
    ] {
        registry.fault(part, fault.clone());
        let client = client(&env, "team/app");
        let error = pull(&env, &client, &tag("v1")).await.unwrap_err();
        assert!(
            error.starts_with(start) && error.contains(&words),
            "{fault:?}: {error}"
        );
        registry.heal();
    }
    // A blip is not worth a condition.
    registry.fault_once("/blobs/", Fault::Status(503, Vec::new()));
    pull(&env, &client(&env, "team/app"), &tag("v1"))
        .await
        .unwrap();
    // HEAD may be unheard of.
    registry.fault("HEAD ", Fault::Status(405, Vec::new()));
    pull(&env, &client(&env, "team/app"), &tag("v1"))
        .await
        .unwrap();
    registry.heal();
    registry.fault("HEAD ", Fault::Without("Docker-Content-Digest".to_owned()));
    pull(&env, &client(&env, "team/app"), &tag("v1"))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn lists_of_tags_with_garbage_are_named() {
    let (registry, env) = world();
    registry.push(
        "team/app",
        &["1.0.0"],
        &Push::content(packed(&[("a", "1")])),
    );
    let wanted = OciRef {
        semver: "*".to_owned(),
        ..OciRef::default()
    };
    let start = "failed to determine the artifact tag for 'oci://127.0.0.1:5000/team/app': ";
    let none =
        "GET http://127.0.0.1:5000/v2/team/app/tags/list?n=1000: the answer is no list of tags";
    for (fault, words) in [
        (Fault::Body(b"<html>".to_vec()), none),
        (Fault::Body(b"[]".to_vec()), none),
        (Fault::Body(br#"{"tags":[1]}"#.to_vec()), none),
        (
            Fault::Body(br#"{"tags":null}"#.to_vec()),
            "no match found for semver: *",
        ),
        (
            Fault::Header("Link".to_owned(), "garbage".to_owned()),
            "failed to parse link header: missing '<' or '>' in: garbage",
        ),
        (
            Fault::Header(
                "Link".to_owned(),
                "</v2/team/app/tags/list?n=1000>".to_owned(),
            ),
            "the registry gives the same page of tags again and again",
        ),
    ] {
        registry.fault("/tags/list", fault);
        let error = pull(&env, &client(&env, "team/app"), &wanted)
            .await
            .unwrap_err();
        assert!(error.starts_with(&format!("{start}{words}")), "{error}");
        registry.heal();
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_manifests_leads_to_one() {
    let (registry, env) = world();
    let digest = registry.push("team/app", &[], &Push::content(packed(&[("a", "1")])));
    let index = |os: &str| {
        format!(
            r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":1,"digest":"{digest}","platform":{{"os":"{os}","architecture":"amd64"}}}}]}}"#
        )
    };
    let kind = "application/vnd.oci.image.index.v1+json";
    registry.put_manifest("team/app", &["v1"], kind, index("linux").as_bytes());
    pull(&env, &client(&env, "team/app"), &tag("v1"))
        .await
        .unwrap();
    let own = registry.put_manifest("team/app", &["v1"], kind, index("windows").as_bytes());
    let error = pull(&env, &client(&env, "team/app"), &tag("v1"))
        .await
        .unwrap_err();
    assert!(
        error.ends_with(&format!(
            "no child with platform linux/amd64 in index 127.0.0.1:5000/team/app@{own}"
        )),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn charts_are_pulled_by_version() {
    let (registry, env) = world();
    let push = Push {
        layers: vec![(HELM_CHART_LAYER.to_owned(), b"packed".to_vec())],
        config_media_type: "application/vnd.cncf.helm.config.v1+json".to_owned(),
        ..Push::default()
    };
    registry.push("charts/app", &["1.0.0_b1", "0.9.0", "latest"], &push);
    let client = client(&env, "charts/app");
    let versions = client.chart_versions(&deadline(&env)).await.unwrap();
    assert_eq!(versions, ["1.0.0+b1", "0.9.0"]);
    let chart = client.chart("1.0.0+b1", &deadline(&env)).await.unwrap();
    assert_eq!(chart.bytes, b"packed");
    let again = client.chart_by_digest(&chart.digest, &deadline(&env)).await;
    assert_eq!(again.unwrap(), chart);
    let error = client.chart("2.0.0", &deadline(&env)).await.unwrap_err();
    assert_eq!(error.reason(), "ChartPullError");
    assert_eq!(
        error.to_string(),
        "failed to download chart for remote reference: failed to get 'oci://127.0.0.1:5000/charts/app:2.0.0': failed to perform \"FetchReference\" on source: 127.0.0.1:5000/charts/app:2.0.0: not found"
    );
    registry.push("charts/app", &["3.0.0"], &Push::default());
    let error = client.chart("3.0.0", &deadline(&env)).await.unwrap_err();
    assert!(
        error.to_string().contains("minimum number of descriptors"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn plain_http_is_never_used_for_remote_registries() {
    let dialer = MemoryDialer::new();
    let registry = Registry::new();
    registry.listen(&dialer, "far.example", 443);
    registry.listen(&dialer, "far.example", 80);
    let env = Env::simulated(1, dialer);
    registry.push("team/app", &["v1"], &Push::content(packed(&[("a", "1")])));
    let mut remote = Remote::new("oci://far.example/team/app");
    let client = OciClient::new(&env, remote.clone()).unwrap();
    let error = pull(&env, &client, &tag("v1")).await.unwrap_err();
    assert!(
        error.contains("Get \"https://far.example/v2/\": "),
        "{error}"
    );
    assert!(registry.seen().is_empty());
    remote.insecure = true;
    let client = OciClient::new(&env, remote).unwrap();
    pull(&env, &client, &tag("v1")).await.unwrap();
}

/// A gibibyte and more of content in a layer of some megabytes.
#[tokio::test(flavor = "multi_thread")]
async fn pull_that_is_dropped_frees_its_thread_within_a_second() {
    use everflow_env::{ThreadBlocking, ThreadOptions, run_blocking};
    use std::io::Write as _;
    let (registry, mut env) = world();
    let options = ThreadOptions {
        slots: 1,
        ..ThreadOptions::default()
    };
    env.blocking = std::sync::Arc::new(ThreadBlocking::new(options));
    let mut header = tar::Header::new_ustar();
    header.set_path("zeros").unwrap();
    header.set_size(1 << 20);
    header.set_cksum();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(header.as_bytes()).unwrap();
    gzip.write_all(&vec![0; 1 << 20]).unwrap();
    let layer = gzip.finish().unwrap().repeat(1_500);
    registry.push("team/app", &["v1"], &Push::content(layer));
    let client = client(&env, "team/app");
    let resolution = client
        .resolve(&tag("v1"), "", &deadline(&env))
        .await
        .unwrap();
    let options = PullOptions {
        unpack: crate::archive::artifact_limits(u64::MAX, u64::MAX),
        ..PullOptions::default()
    };
    let deadline = deadline(&env);
    let pull = client.pull(&resolution, &options, &deadline);
    let pulled = tokio::time::timeout(Duration::from_secs(2), pull).await;
    assert!(pulled.is_err(), "it was done before it was dropped");
    let began = std::time::Instant::now();
    assert_eq!(run_blocking(&*env.blocking, || 1).await, Some(1));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pushed_artifact_can_be_pulled_and_tagged() {
    let (registry, env) = world();
    let layer = packed(&[("a", "1")]);
    let said = [("k".to_owned(), "v".to_owned())].into();
    let created = "1970-01-01T00:00:00Z".to_owned();
    let artifact = NewArtifact::new(layer.into(), created, said).unwrap();
    let client = as_user(&env, "private/app", login("pass"));
    let digest = client.push("v1", &artifact, &deadline(&env)).await.unwrap();
    let again = client
        .tag(&Target::Tag("v1".to_owned()), "v2", &deadline(&env))
        .await
        .unwrap();
    assert_eq!(digest, again);
    assert_eq!(client.tags(&deadline(&env)).await.unwrap(), ["v1", "v2"]);
    let pulled = pull(&env, &client, &tag("v2")).await.unwrap();
    assert_eq!(pulled.metadata["k"], "v");

    // What the registry has is not sent again.
    let puts = |seen: Vec<String>| seen.iter().filter(|line| line.contains("digest=")).count();
    assert_eq!(puts(registry.seen()), 2);
    client.push("v3", &artifact, &deadline(&env)).await.unwrap();
    assert_eq!(puts(registry.seen()), 2);
}

#[tokio::test(start_paused = true)]
async fn a_push_that_is_refused_names_the_reason() {
    let (_, env) = world();
    let layer = packed(&[("a", "1")]);
    let artifact = NewArtifact::new(layer.into(), String::new(), BTreeMap::new()).unwrap();
    let client = as_user(&env, "private/app", login("wrong"));
    let error = client.push("v1", &artifact, &deadline(&env)).await;
    let text = error.unwrap_err().to_string();
    assert!(text.contains("UNAUTHORIZED"), "{text}");
}
