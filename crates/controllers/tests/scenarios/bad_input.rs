//! Remotes and Secrets that are wrong, hang or lie: what is said of them, that it is tried again, and
//! that no credentials are told to anybody. What the recordings have of these is replayed with them.

use std::io::Write as _;
use std::time::Duration;

use everflow_controllers::ControllerKind;
use everflow_fetch::testing::{Buckets, Fault};
use everflow_json::{Value, json};
use everflow_runtime::events::EVENTS;

use super::net::{Answer, serve};
use super::registry::digest;
use super::remotes::{BUCKETS, found, ready, scenario};
use super::world::{World, recorded_options};

const NAMESPACE: &str = "bad";
const FILES: u16 = 9_020;
const REGISTRY: u16 = 9_021;
/// Stands in everything that is secret.
const SECRET: &str = "hunter2";

/// One source that cannot work.
struct Case {
    name: &'static str,
    kind: ControllerKind,
    spec: Value,
    /// The data of a Secret of the same name.
    secret: Option<(&'static str, Value)>,
    reason: &'static str,
    /// What the message must name.
    words: &'static [&'static str],
}

fn case(
    name: &'static str,
    kind: ControllerKind,
    spec: Value,
    reason: &'static str,
    words: &'static [&'static str],
) -> Case {
    Case {
        name,
        kind,
        spec,
        secret: None,
        reason,
        words,
    }
}

impl Case {
    fn with(mut self, kind: &'static str, data: Value) -> Self {
        self.secret = Some((kind, data));
        self
    }
}

fn git(path: &str) -> Value {
    json!({"url": format!("$GIT/{path}"), "ref": {"branch": "main"}, "timeout": "10s"})
}

fn oci(name: &str) -> Value {
    json!({"url": format!("oci://127.0.0.1:{REGISTRY}/{name}"), "insecure": true,
        "ref": {"tag": "v1"}, "timeout": "10s"})
}

fn charts(path: &str) -> Value {
    json!({"url": format!("http://127.0.0.1:{FILES}/{path}"), "timeout": "10s"})
}

fn chart(name: &str) -> Value {
    json!({"chart": name, "sourceRef": {"kind": "HelmRepository", "name": "good"}})
}

fn bucket(name: &str) -> Value {
    json!({"endpoint": format!("127.0.0.1:{BUCKETS}"), "insecure": true, "bucketName": name,
        "timeout": "10s"})
}

fn git_cases() -> Vec<Case> {
    use ControllerKind::GitRepository as Git;
    let failed = "GitOperationFailed";
    let denied = "AuthenticationFailed";
    vec![
        case("git-url", Git, json!({"url": format!("http://user:{SECRET}@127.0.0.1:9001/none.git")}), failed, &["none.git"]),
        case("git-branch", Git, json!({"url": "$GIT/bad.git", "ref": {"branch": "nope"}}), failed, &["nope", "spec.ref"]),
        case("git-auth", Git, git("auth/bad.git"), failed, &["bad/git-auth"])
            .with("Opaque", json!({"username": "user", "password": SECRET})),
        case("git-token", Git, git("auth/bad.git"), failed, &["bad/git-token"])
            .with("Opaque", json!({"bearerToken": SECRET})),
        case("git-half", Git, git("auth/bad.git"), denied, &["'password' requires 'username'", "bad/git-half"])
            .with("Opaque", json!({"password": SECRET})),
        case("git-ca", Git, json!({"url": "https://127.0.0.1:9001/bad.git"}), failed, &["ca.crt"])
            .with("Opaque", json!({"ca.crt": SECRET})),
        case("git-app", Git, json!({"url": "$GIT/bad.git", "provider": "github"}), denied, &["githubAppPrivateKey", "bad/git-app"])
            .with("Opaque", json!({"githubAppID": "1", "githubAppInstallationID": "2", "githubAppPrivateKey": SECRET})),
        case("git-hang", Git, git("hang/bad.git"), failed, &["deadline", "spec.timeout"]),
        case("git-stall", Git, git("spoiled/stall/bad.git"), failed, &["deadline", "spec.timeout"]),
        case("git-short", Git, git("spoiled/short/bad.git"), failed, &["pack"]),
        case("git-flip", Git, git("spoiled/flip/bad.git"), failed, &["pack"]),
        case("git-count", Git, git("spoiled/count/bad.git"), failed, &["pack"]),
        case("git-version", Git, git("spoiled/version/bad.git"), failed, &["pack"]),
        case("git-size", Git, git("spoiled/size/bad.git"), failed, &["pack"]),
    ]
}

fn oci_cases() -> Vec<Case> {
    use ControllerKind::OCIRepository as Oci;
    let docker = "kubernetes.io/dockerconfigjson";
    let layer = "OCIArtifactLayerOperationFailed";
    vec![
        case("oci-traversal", Oci, oci("traversal"), layer, &["../evil"]),
        case("oci-absolute", Oci, oci("absolute"), layer, &["/evil"]),
        case("oci-hardlink", Oci, oci("hardlink"), layer, &["link"]),
        case("oci-bomb", Oci, oci("bomb"), layer, &["bomb.yaml", "1073741824", "--artifact-max-size"]),
        case("oci-record", Oci, oci("record"), layer, &["extension record of 1 GiB", "1 MiB"]),
        case("oci-garbage", Oci, oci("garbage"), layer, &[]),
        case("oci-other", Oci, oci("other"), layer, &["sha256:"]),
        case("oci-stall", Oci, oci("stall"), layer, &["deadline"]),
        case("oci-manifest", Oci, oci("manifest"), "", &[]),
        case("oci-secret", Oci, oci("traversal"), "AuthenticationFailed", &["bad/oci-secret", ".dockerconfigjson"])
            .with(docker, json!({".dockerconfigjson": format!("{{\"auths\": {{\"127.0.0.1\": {{\"auth\": \"{SECRET}\"}}}}}}")})),
    ]
}

fn helm_cases() -> Vec<Case> {
    use ControllerKind::{HelmChart as Chart, HelmRepository as Repository};
    let denied = "AuthenticationFailed";
    vec![
        case(
            "helm-url",
            Repository,
            json!({"url": format!("http://user:{SECRET}@127.0.0.1:9002/none")}),
            "Failed",
            &["404"],
        ),
        case(
            "helm-garbage",
            Repository,
            charts("garbage"),
            "IndexationFailed",
            &["index"],
        ),
        case(
            "helm-binary",
            Repository,
            charts("binary"),
            "IndexationFailed",
            &["index"],
        ),
        case(
            "helm-large",
            Repository,
            charts("large"),
            "Failed",
            &["52428800"],
        ),
        case("helm-stall", Repository, charts("stall"), "Failed", &[]),
        case(
            "helm-half",
            Repository,
            charts("good"),
            denied,
            &["bad/helm-half", "'username'", "'password'"],
        )
        .with("Opaque", json!({"username": SECRET})),
        case(
            "chart-garbage",
            Chart,
            chart("garbage"),
            "ChartPullError",
            &["gzip"],
        ),
        case(
            "chart-traversal",
            Chart,
            chart("traversal"),
            "ChartPullError",
            &["parent directory"],
        ),
        case(
            "chart-record",
            Chart,
            chart("record"),
            "ChartPullError",
            &["extension record of 1 GiB", "1 MiB"],
        ),
        case(
            "chart-bomb",
            Chart,
            chart("bomb"),
            "ChartPullError",
            &["app/bomb", "104857600", "--helm-chart-max-unpacked-size"],
        ),
        case(
            "chart-large",
            Chart,
            chart("large"),
            "ChartPullError",
            &["10485760"],
        ),
        case("chart-stall", Chart, chart("stall"), "ChartPullError", &[]),
        case(
            "chart-gone",
            Chart,
            chart("gone"),
            "ChartPullError",
            &["404"],
        ),
    ]
}

fn bucket_cases() -> Vec<Case> {
    use ControllerKind::Bucket;
    let denied = "AuthenticationFailed";
    let failed = "BucketOperationFailed";
    vec![
        case("bucket-none", Bucket, bucket("none"), failed, &["none"])
            .with("Opaque", json!({"accesskey": "AKIA", "secretkey": SECRET})),
        case(
            "bucket-half",
            Bucket,
            bucket("apps"),
            denied,
            &["bucket-half", "'accesskey'", "'secretkey'"],
        )
        .with("Opaque", json!({"secretkey": SECRET})),
        case(
            "bucket-refused",
            Bucket,
            bucket("refused"),
            failed,
            &["refused", "bad/bucket-refused"],
        )
        .with("Opaque", json!({"accesskey": "AKIA", "secretkey": SECRET})),
        case("bucket-garbage", Bucket, bucket("garbage"), failed, &[]),
        case(
            "bucket-stall",
            Bucket,
            bucket("stall"),
            failed,
            &["deadline"],
        ),
        case(
            "bucket-secret",
            Bucket,
            {
                let mut spec = bucket("apps");
                spec["secretRef"] = json!({"name": "nobody"});
                spec
            },
            denied,
            &["bad/nobody"],
        ),
    ]
}

/// An archive with one entry, written as it is told.
fn archive(name: &str, kind: tar::EntryType, content: &[u8], size: u64) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(size);
    if kind == tar::EntryType::Link {
        header.set_link_name("/etc/passwd").unwrap();
    }
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512) + 1_024, 0);
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(&bytes).unwrap();
    out.finish().unwrap()
}

/// The layer of an artifact.
fn layer(name: &str) -> Vec<u8> {
    let file = tar::EntryType::Regular;
    match name {
        "traversal" => archive("../evil.yaml", file, b"a: 1\n", 5),
        "absolute" => archive("/evil.yaml", file, b"a: 1\n", 5),
        "hardlink" => archive("link.yaml", tar::EntryType::Link, b"", 0),
        "bomb" => archive("bomb.yaml", file, b"a: 1\n", 1 << 60),
        "record" => archive("name", tar::EntryType::GNULongName, b"x", 1 << 30),
        _ => b"this is no archive".to_vec(),
    }
}

/// A registry whose artifacts are all bad.
fn registry(target: &str) -> Answer {
    let rest = target.strip_prefix("/v2/").unwrap_or_default();
    let Some((name, rest)) = rest.split_once('/') else {
        return Answer::new(200, "application/json", b"{}".to_vec());
    };
    let bytes = layer(name);
    let sum = digest(&bytes);
    if rest.starts_with("manifests/") {
        const MEDIA: &str = "application/vnd.oci.image.manifest.v1+json";
        let manifest = match name {
            "manifest" => b"{\"schemaVersion\": 2, \"layers\": [".to_vec(),
            _ => format!(
                r#"{{"schemaVersion":2,"mediaType":"{MEDIA}","config":{{"mediaType":"application/json","size":2,"digest":"{}"}},"layers":[{{"mediaType":"application/vnd.cncf.flux.content.v1.tar+gzip","size":{},"digest":"{sum}"}}]}}"#,
                digest(b"{}"),
                bytes.len()
            )
            .into_bytes(),
        };
        let own = digest(&manifest);
        return Answer::new(200, MEDIA, manifest).with("Docker-Content-Digest", own);
    }
    let media = "application/octet-stream";
    match name {
        "stall" => Answer::HangAfter {
            sent: 5,
            body: bytes,
        },
        "other" => Answer::new(200, media, vec![b'x'; bytes.len()]),
        _ => Answer::new(200, media, bytes),
    }
}

const INDEX: &str = "apiVersion: v1\nentries:\n";

/// Indexes and charts that are all bad but for one index.
fn files(target: &str) -> Answer {
    let plain = |text: &str| Answer::new(200, "text/plain", text.as_bytes().to_vec());
    match target {
        "/good/index.yaml" => {
            let names = [
                "garbage",
                "traversal",
                "record",
                "bomb",
                "large",
                "stall",
                "gone",
            ];
            let entries = names.map(|name| {
                format!("  {name}:\n  - {{apiVersion: v2, name: {name}, version: 1.0.0, urls: [{name}.tgz]}}\n")
            });
            plain(&format!("{INDEX}{}", entries.concat()))
        }
        "/garbage/index.yaml" => plain("entries: [this is: {no index"),
        "/binary/index.yaml" => Answer::new(200, "text/plain", vec![0xff; 1_000]),
        "/large/index.yaml" => Answer::new(200, "text/plain", vec![b' '; 52_428_801]),
        "/stall/index.yaml" | "/good/stall.tgz" => Answer::HangAfter {
            body: INDEX.as_bytes().to_vec(),
            sent: 10,
        },
        "/good/garbage.tgz" => plain("this is no archive"),
        "/good/traversal.tgz" => {
            let bytes = archive("../../evil.yaml", tar::EntryType::Regular, b"a: 1\n", 5);
            Answer::new(200, "application/gzip", bytes)
        }
        "/good/record.tgz" => {
            let bytes = archive("name", tar::EntryType::GNULongName, b"x", 1 << 30);
            Answer::new(200, "application/gzip", bytes)
        }
        "/good/bomb.tgz" => {
            let bytes = archive("app/bomb", tar::EntryType::Regular, b"x", 1 << 30);
            Answer::new(200, "application/gzip", bytes)
        }
        "/good/large.tgz" => Answer::new(200, "application/gzip", vec![b'x'; 10_485_761]),
        _ => Answer::status(404),
    }
}

fn serve_all(world: &World) {
    serve(&world.dialer, REGISTRY, |asked| registry(&asked.target));
    serve(&world.dialer, FILES, |asked| files(&asked.target));
    let buckets = Buckets::new();
    buckets.listen(&world.dialer, "127.0.0.1", BUCKETS);
    for name in ["apps", "refused", "garbage", "stall"] {
        buckets.put(name, "a.yaml", b"a: 1\n");
    }
    let denied = b"<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>";
    buckets.fault(" /refused", Fault::Status(403, denied.to_vec()));
    buckets.fault(
        " /garbage",
        Fault::Body(b"<ListBucketResult><Contents>".to_vec()),
    );
    buckets.fault("/stall/a.yaml", Fault::Hang(2));
}

async fn set_up(world: &World, cases: &[Case]) {
    serve_all(world);
    let good = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository",
        "metadata": {"name": "good"},
        "spec": {"interval": "10m", "timeout": "5s", "url": format!("http://127.0.0.1:{FILES}/good")},
    });
    world.apply(&good).await.unwrap();
    for case in cases {
        let mut spec = case.spec.clone();
        spec["interval"] = "10m".into();
        if let Some((kind, data)) = &case.secret {
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": kind,
                "metadata": {"name": case.name}, "stringData": data});
            world.apply(&secret).await.unwrap();
            spec["secretRef"] = json!({"name": case.name});
        }
        let object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": case.kind.to_string(),
            "metadata": {"name": case.name}, "spec": spec,
        });
        world.apply(&object).await.unwrap();
    }
}

/// What is wrong with the answer to a case.
fn judge(case: &Case, object: &Value) -> Vec<String> {
    let (status, reason, message) = ready(object);
    println!("{}: {reason}: {message}", case.name);
    let mut wrong = Vec::new();
    let mut check = |good: bool, what: &str| {
        if !good {
            wrong.push(format!(
                "{}: {what}: {status} {reason} {message}",
                case.name
            ));
        }
    };
    check(status == "False", "is not refused");
    check(
        case.reason.is_empty() || reason == case.reason,
        &format!("has not the reason {}", case.reason),
    );
    for word in case.words {
        check(message.contains(word), &format!("does not name {word}"));
    }
    check(message.len() > 20, "says nothing");
    check(message.len() < 1_500, "says too much");
    check(
        !object.to_string().contains(SECRET) || case.spec.to_string().contains(SECRET),
        "tells a secret",
    );
    check(
        !object["status"].to_string().contains(SECRET),
        "tells a secret",
    );
    let observed = &object["status"]["observedGeneration"];
    check(
        *observed == object["metadata"]["generation"],
        "was not looked at",
    );
    check(object["status"]["artifact"].is_null(), "has an artifact");
    wrong
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn failure_is_reported_and_retried() {
    let mut cases = git_cases();
    cases.extend(oci_cases());
    cases.extend(helm_cases());
    cases.extend(bucket_cases());
    let kinds: Vec<ControllerKind> = ControllerKind::ALL
        .iter()
        .copied()
        .filter(|kind| *kind != ControllerKind::Kustomization)
        .collect();
    let mut world = World::start(&scenario(NAMESPACE), recorded_options(), &kinds).await;
    set_up(&world, &cases).await;
    world.settle().await;
    // Those that hang have had their time.
    world.sleep(Duration::from_secs(30)).await;
    let mut wrong = Vec::new();
    for case in &cases {
        wrong.extend(judge(case, &found(&world, case.kind, case.name).await));
    }
    // All of them are tried again.
    let (orphans, flaws) = world.handle().orphans();
    assert!(
        orphans.is_empty() && flaws.is_empty(),
        "{orphans:?} {flaws:?}"
    );
    let list = world
        .client
        .list_all(&EVENTS, Some(NAMESPACE), &Default::default())
        .await
        .unwrap();
    for case in &cases {
        let told = |event: &&Value| event["involvedObject"]["name"] == case.name;
        if !list
            .items
            .iter()
            .any(|event| told(&event) && event["type"] == "Warning")
        {
            wrong.push(format!("{}: nobody was told", case.name));
        }
    }
    let told = format!(
        "{}{:?}{:?}",
        world.logged.lock().unwrap(),
        world.posted.lock().unwrap(),
        list.items
    );
    if let Some(at) = told.find(SECRET) {
        let from = at.saturating_sub(300);
        wrong.push(format!("a secret was told: {}", &told[from..at + 20]));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Nothing was left behind.
    world.stop_engine().await;
    assert!(world.env.disk.list("tmp").unwrap().is_empty());
}
