//! Git over SSH, from the Secret to the artifact.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everflow_controllers::ControllerKind;
use everflow_git::testing::{SshHost, SshStream, keygen, serve_ssh};
use everflow_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::git::{Repository, advertisement, command};
use super::remotes::{found, ready, scenario};
use super::world::{World, recorded_options};

const PORT: u16 = 2_222;
const KIND: ControllerKind = ControllerKind::GitRepository;

type Repositories = Arc<Mutex<BTreeMap<String, Repository>>>;

/// A server that lets one key in and speaks git.
#[derive(Clone)]
struct Server {
    repositories: Repositories,
    trusted: String,
}

impl SshHost for Server {
    fn lets_in(&self, key: &str) -> bool {
        self.trusted.starts_with(key)
    }

    fn serve(
        &self,
        command: String,
        _version: Option<String>,
        mut stream: SshStream,
    ) -> impl Future<Output = Vec<u8>> + Send + 'static {
        let name = command.trim_start_matches("git-upload-pack '/");
        let name = name.trim_end_matches(".git'").to_owned();
        let repositories = self.repositories.clone();
        async move {
            let _ = converse(&mut stream, &repositories, &name).await;
            Vec::new()
        }
    }
}

/// The second version of git's protocol, one command after the other.
async fn converse(
    stream: &mut (impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin),
    repositories: &Repositories,
    name: &str,
) -> Option<()> {
    stream.write_all(&advertisement()).await.ok()?;
    loop {
        let mut body = Vec::new();
        loop {
            let mut length = [0; 4];
            stream.read_exact(&mut length).await.ok()?;
            body.extend_from_slice(&length);
            match usize::from_str_radix(std::str::from_utf8(&length).ok()?, 16).ok()? {
                0 => break,
                1..=4 => continue,
                more => {
                    let start = body.len();
                    body.resize(start + more - 4, 0);
                    stream.read_exact(&mut body[start..]).await.ok()?;
                }
            }
        }
        if body == b"0000" {
            return Some(());
        }
        let answer = command(repositories.lock().unwrap().get(name)?, &body);
        stream.write_all(&answer).await.ok()?;
    }
}

fn secret(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data})
}

fn source(name: &str, secret: &str) -> Value {
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": name},
        "spec": {"interval": "1m", "url": format!("ssh://git@127.0.0.1:{PORT}/ssh.git"),
            "ref": {"branch": "main"}, "secretRef": {"name": secret}},
    })
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_repository_is_fetched_over_ssh() {
    let directory = tempfile::tempdir().unwrap();
    let make = |name: &str, password: &str| keygen(directory.path(), name, "ed25519", password);
    let Some((host_key, host)) = make("host", "") else {
        println!("skipped: ssh-keygen is not on this machine");
        return;
    };
    let (identity, public) = make("identity", "").unwrap();
    let (stranger, _) = make("stranger", "").unwrap();
    let (locked, _) = make("locked", "hunter2-passphrase").unwrap();
    let world = World::start(&scenario("ssh"), recorded_options(), &[KIND]).await;
    let server = Server {
        repositories: world.git.clone(),
        trusted: public,
    };
    serve_ssh(&world.dialer, ("127.0.0.1", PORT), &host_key, server).unwrap();
    let known = format!("[127.0.0.1]:{PORT} {host}\n");
    let other = format!("[127.0.0.1]:{PORT} {}\n", make("other", "").unwrap().1);
    for (name, data) in [
        ("right", json!({"identity": identity, "known_hosts": known})),
        (
            "stranger",
            json!({"identity": stranger, "known_hosts": known}),
        ),
        (
            "spoofed",
            json!({"identity": identity, "known_hosts": other}),
        ),
        ("locked", json!({"identity": locked, "known_hosts": known})),
        (
            "garbage",
            json!({"identity": "hunter2-garbage", "known_hosts": known}),
        ),
        (
            "unknown",
            json!({"identity": identity, "known_hosts": "hunter2"}),
        ),
        ("hostless", json!({"identity": identity})),
        ("keyless", json!({"known_hosts": known})),
    ] {
        world.apply(&secret(name, data)).await.unwrap();
        world.apply(&source(name, name)).await.unwrap();
    }
    world.settle().await;
    let right = found(&world, KIND, "right").await;
    assert_eq!(ready(&right).0, "True", "{right:#}");
    let path = right["status"]["artifact"]["path"].as_str().unwrap();
    assert!(world.env.disk.entry(path).is_ok());

    // What is wrong is said, with the Secret or its key, and without what stands in it.
    for (name, expected, words) in [
        ("stranger", "", &["publickey", "'ssh/stranger'"][..]),
        ("spoofed", "", &["known_hosts", "'ssh/spoofed'"]),
        (
            "locked",
            "AuthenticationFailed",
            &["'ssh/locked'", "'password'"],
        ),
        (
            "garbage",
            "AuthenticationFailed",
            &["'ssh/garbage'", "identity"],
        ),
        ("unknown", "", &["known_hosts"]),
        (
            "hostless",
            "AuthenticationFailed",
            &["'ssh/hostless'", "known_hosts"],
        ),
        (
            "keyless",
            "AuthenticationFailed",
            &["'ssh/keyless'", "identity"],
        ),
    ] {
        let (status, reason, message) = ready(&found(&world, KIND, name).await);
        println!("{name}: {reason}: {message}");
        assert_eq!(status, "False", "{name}");
        assert!(
            expected.is_empty() || reason == expected,
            "{name}: {reason}: {message}"
        );
        for word in words {
            assert!(message.contains(word), "{name}: {message}");
        }
    }
    let (orphans, flaws) = world.handle().orphans();
    assert!(orphans.is_empty() && flaws.is_empty());
    let logged = world.logged.lock().unwrap().clone();
    let told = format!("{logged}{:?}", world.posted.lock().unwrap());
    for leak in ["hunter2", "PRIVATE KEY"] {
        assert!(!told.contains(leak), "{leak} in {told}");
    }

    // A new commit comes at the interval.
    world
        .git
        .lock()
        .unwrap()
        .get_mut("ssh")
        .unwrap()
        .more(&json!({}), &json!({"b.yaml": "b: 1\n"}));
    world.sleep(Duration::from_secs(90)).await;
    let newer = found(&world, KIND, "right").await;
    let revision = |object: &Value| object["status"]["artifact"]["revision"].clone();
    assert_ne!(revision(&newer), revision(&right));
}
