//! Remotes that the recordings do not have: buckets with signatures, and GitHub Apps.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everflow_controllers::ControllerKind;
use everflow_fetch::testing::Buckets;
use everflow_json::{Value, json};
use everflow_runtime::client::{At, DeleteOptions};

use super::net::{Answer, serve};
use super::scenario::Scenario;
use super::world::{World, recorded_options};

const NAMESPACE: &str = "remotes";
/// Where buckets are.
pub const BUCKETS: u16 = 9_010;
const GITHUB: u16 = 9_011;

pub fn scenario(namespace: &str) -> Scenario {
    let text = json!({
        "name": namespace, "namespace": namespace,
        "files": {"a.yaml": "a: 1\n"},
        "then": {},
    });
    everflow_json::from_value(text).unwrap()
}

pub async fn found(world: &World, kind: ControllerKind, name: &str) -> Value {
    let at = At::new(&world.namespace, name);
    world.client.get(&kind.resource(), at).await.unwrap()
}

/// The `Ready` condition: status, reason and message.
pub fn ready(object: &Value) -> (String, String, String) {
    let conditions = object["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    let text = |field: &str| {
        let ready = ready.map_or(&Value::Null, |ready| &ready[field]);
        ready.as_str().unwrap_or_default().to_owned()
    };
    (text("status"), text("reason"), text("message"))
}

/// The names and contents of the files in an archive of the store.
fn files(world: &World, object: &Value) -> Vec<(String, String)> {
    use std::io::Read as _;
    let path = object["status"]["artifact"]["path"].as_str().unwrap();
    let bytes = everflow_env::disk::read_all(&*world.env.disk, path, 1 << 20).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
    let mut files = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.push((name, text));
    }
    files.sort();
    files
}

fn bucket(secret: &str) -> Value {
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "Bucket",
        "metadata": {"name": "src"},
        "spec": {"interval": "1m", "endpoint": format!("127.0.0.1:{BUCKETS}"), "insecure": true,
            "bucketName": "apps", "secretRef": {"name": secret}},
    })
}

fn keys(name: &str, secret: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "stringData": {"accesskey": "AKIA", "secretkey": secret},
    })
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_bucket_is_fetched_with_signed_requests() {
    let kind = ControllerKind::Bucket;
    let world = World::start(&scenario(NAMESPACE), recorded_options(), &[kind]).await;
    let buckets = Buckets::new();
    buckets.listen(&world.dialer, "127.0.0.1", BUCKETS);
    buckets.require_signed("AKIA", "right");
    buckets.put("apps", "base/one.yaml", b"one: 1\n");
    buckets.put("apps", "with space+plus.yaml", b"two: 2\n");
    buckets.put("apps", "../../evil.yaml", b"three: 3\n");
    buckets.put("apps", "left/out.yaml", b"ignored");
    buckets.put("apps", ".sourceignore", b"left/\n");
    world.apply(&keys("keys", "right")).await.unwrap();
    world.apply(&bucket("keys")).await.unwrap();
    world.settle().await;
    let first = found(&world, kind, "src").await;
    let (status, reason, message) = ready(&first);
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("True", "Succeeded"),
        "{message}"
    );
    let revision = first["status"]["artifact"]["revision"].as_str().unwrap();
    assert!(message.contains(revision), "{message}");
    assert!(revision.starts_with("sha256:") && revision.len() == 71);
    let names = files(&world, &first);
    let text = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    assert_eq!(
        names,
        [
            text(".sourceignore", "left/\n"),
            text("base/one.yaml", "one: 1\n"),
            // Nothing leads out of the archive.
            text("evil.yaml", "three: 3\n"),
            text("with space+plus.yaml", "two: 2\n")
        ]
    );

    // An interval without a change downloads nothing and writes nothing.
    let (asked, version) = (buckets.seen().len(), &first["metadata"]["resourceVersion"]);
    world.sleep(Duration::from_secs(70)).await;
    let new = buckets.seen().split_off(asked);
    assert!(
        !new.is_empty() && !new.iter().any(|line| line.contains(".yaml")),
        "{new:?}"
    );
    assert_eq!(
        found(&world, kind, "src").await["metadata"]["resourceVersion"],
        *version
    );

    // A change is fetched.
    buckets.put("apps", "base/one.yaml", b"one: 2\n");
    world.sleep(Duration::from_secs(70)).await;
    let second = found(&world, kind, "src").await;
    assert_ne!(
        second["status"]["artifact"]["revision"],
        first["status"]["artifact"]["revision"]
    );
    assert_eq!(files(&world, &second)[1].1, "one: 2\n");

    // Wrong keys: it says so, keeps what it has and goes on trying.
    world.apply(&keys("keys", "wrong")).await.unwrap();
    world.sleep(Duration::from_secs(70)).await;
    let refused = found(&world, kind, "src").await;
    let (status, _, message) = ready(&refused);
    assert_eq!(status, "False");
    assert!(message.contains("signature"), "{message}");
    assert_eq!(refused["status"]["artifact"], second["status"]["artifact"]);
    world.apply(&keys("keys", "right")).await.unwrap();
    world.sleep(Duration::from_secs(120)).await;
    assert_eq!(ready(&found(&world, kind, "src").await).0, "True");

    // It takes its files along when it goes.
    let (at, resource) = (At::new(NAMESPACE, "src"), kind.resource());
    world
        .client
        .delete(&resource, at, &DeleteOptions::default())
        .await
        .unwrap();
    world.sleep(Duration::from_secs(5)).await;
    assert!(world.client.get(&kind.resource(), at).await.is_err());
    assert!(world.env.disk.list("bucket/remotes/src").is_err());
}

/// Makes an RSA key with the real openssl; `None` when it is not here.
fn rsa_key() -> Option<String> {
    let made = Command::new("openssl")
        .args([
            "genpkey",
            "-algorithm",
            "RSA",
            "-pkeyopt",
            "rsa_keygen_bits:2048",
        ])
        .stderr(Stdio::null())
        .output();
    match made {
        Ok(output) if output.status.success() => Some(String::from_utf8(output.stdout).unwrap()),
        _ => {
            println!("skipped: openssl is not on this machine");
            None
        }
    }
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn the_token_of_a_github_app_is_asked_for_once() {
    let Some(key) = rsa_key() else { return };
    let kind = ControllerKind::GitRepository;
    let world = World::start(&scenario(NAMESPACE), recorded_options(), &[kind]).await;
    let (asked, refused) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(Mutex::new(Vec::new())),
    );
    let (count, refuses) = (asked.clone(), refused.clone());
    let repositories = world.git.clone();
    serve(&world.dialer, GITHUB, move |request| {
        if request.target == "/app/installations/7/access_tokens" {
            let number = count.fetch_add(1, Ordering::SeqCst);
            // An hour after the simulated clock's start.
            let body =
                json!({"token": format!("tok-{number}"), "expires_at": "2099-01-01T00:00:00Z"});
            return Answer::new(201, "application/json", body.to_string().into_bytes());
        }
        let signed = request
            .header("authorization")
            .unwrap_or_default()
            .to_owned();
        if signed.is_empty() || refuses.lock().unwrap().contains(&signed) {
            return Answer::status(401);
        }
        super::git::answer(&repositories.lock().unwrap(), request)
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "app"},
        "stringData": {"githubAppID": "1", "githubAppInstallationID": "7",
            "githubAppPrivateKey": key, "githubAppBaseURL": format!("http://127.0.0.1:{GITHUB}")},
    });
    world.apply(&secret).await.unwrap();
    let source = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "src"},
        "spec": {"interval": "1m", "url": format!("http://127.0.0.1:{GITHUB}/remotes.git"),
            "ref": {"branch": "main"}, "provider": "github", "secretRef": {"name": "app"}},
    });
    world.apply(&source).await.unwrap();
    world.settle().await;
    let object = found(&world, kind, "src").await;
    assert_eq!(ready(&object).0, "True", "{object:#}");
    // Many attempts, one token.
    world.sleep(Duration::from_secs(600)).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    // Not for ever.
    world.sleep(Duration::from_secs(3_600)).await;
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    // A token that was taken back is replaced at once.
    {
        use base64::Engine as _;
        let token = base64::engine::general_purpose::STANDARD.encode("x-access-token:tok-1");
        refused.lock().unwrap().push(format!("Basic {token}"));
    }
    world.sleep(Duration::from_secs(120)).await;
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    assert_eq!(ready(&found(&world, kind, "src").await).0, "True");
    let logged = world.logged.lock().unwrap().clone();
    assert!(
        !logged.contains("tok-") && !logged.contains("PRIVATE"),
        "{logged}"
    );
}
