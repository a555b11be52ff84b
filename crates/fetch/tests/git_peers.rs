//! Against the real git: both protocol versions, SSH, submodules, ties between versions, signatures
//! by the real gpg and ssh-keygen, and packs that are not what they should be.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use everflow_env::{Env, MemoryDialer};
use everflow_fetch::git::signature::{TrustedKeys, VerifyMode, verify};
use everflow_fetch::git::{
    Checkout, CheckoutOptions, GitAuth, GitClient, GitRef, Remote, SshAuth, Update, write_archive,
};
use everflow_fetch::{Deadline, Error, Secret, Url};
use support::{GitServer, git, git_is_here};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

struct World {
    dialer: MemoryDialer,
    env: Env,
    root: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dialer = MemoryDialer::new();
        World {
            env: Env::simulated(5, dialer.clone()),
            dialer,
            root: tempfile::tempdir().unwrap(),
        }
    }

    /// A repository with work tree that is also served.
    fn repository(&self, name: &str) -> PathBuf {
        let path = self.root.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        git(&path, 1, &["init", "-q", "-b", "main"]);
        path
    }

    async fn update(
        &self,
        remote: Remote,
        reference: &GitRef,
        submodules: bool,
    ) -> Result<Checkout, Error> {
        let client = GitClient::new(&self.env, remote)?;
        let deadline = Deadline::after(&self.env.clock, Duration::from_secs(60));
        match client
            .update(reference, None, submodules, &deadline)
            .await?
        {
            Update::Fetched(checkout) => Ok(*checkout),
            Update::Unchanged(_) => unreachable!(),
        }
    }

    async fn files(&self, checkout: Checkout) -> Vec<(String, u64)> {
        self.env.disk.create_dir("out").unwrap();
        write_archive(&self.env, checkout, "out/x", CheckoutOptions::default())
            .await
            .unwrap();
        let file = self.env.disk.open("out/x").unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            (
                entry.path().unwrap().to_str().unwrap().to_owned(),
                entry.size(),
            )
        });
        entries.collect()
    }
}

fn branch(name: &str) -> GitRef {
    GitRef {
        branch: name.to_owned(),
        ..GitRef::default()
    }
}

fn commit(path: &Path, when: u32, file: &str, content: &[u8]) -> String {
    let full = path.join(file);
    std::fs::create_dir_all(full.parent().unwrap()).unwrap();
    std::fs::write(full, content).unwrap();
    git(path, when, &["add", "-A"]);
    git(path, when, &["commit", "-q", "-m", "change"]);
    git(path, when, &["rev-parse", "HEAD"])
}

/// Many versions of one file, so that packs hold deltas.
fn with_deltas(path: &Path) -> String {
    let mut id = String::new();
    for version in 0..6_u32 {
        let mut text = String::new();
        for line in 0..3000 {
            let shown = if line % 500 == version { version } else { 0 };
            text.push_str(&format!("line {line} of the file, state {shown}\n"));
        }
        std::fs::write(path.join(format!("copy-{version}.txt")), &text).unwrap();
        id = commit(path, version + 1, "big.txt", text.as_bytes());
    }
    git(path, 1, &["gc", "-q", "--aggressive"]);
    id
}

fn remote(url: &str) -> Remote {
    Remote::new(Url::parse(url).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_protocols_bring_the_same() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let path = world.repository("repo");
    let id = with_deltas(&path);
    let first = git(&path, 1, &["rev-list", "--max-parents=0", "HEAD"]);
    for (port, version_2) in [(1, true), (2, false)] {
        GitServer::start(&world.dialer, "h", port, world.root.path(), version_2);
        let url = format!("http://h:{port}/repo/.git");
        let checkout = world
            .update(remote(&url), &branch("main"), false)
            .await
            .unwrap();
        assert_eq!(checkout.revision, format!("main@sha1:{id}"));
        let files = world.files(checkout).await;
        assert_eq!(files.len(), 8);
        let by_id = GitRef {
            commit: first.clone(),
            ..GitRef::default()
        };
        let checkout = world.update(remote(&url), &by_id, false).await.unwrap();
        assert_eq!(checkout.revision, format!("sha1:{first}"));
        assert_eq!(world.files(checkout).await.len(), 3);
        let missing = GitRef {
            commit: "0".repeat(39) + "1",
            ..GitRef::default()
        };
        let error = world
            .update(remote(&url), &missing, false)
            .await
            .unwrap_err();
        assert!(error.to_string().ends_with("object not found"), "{error}");
        // Nothing is left in the temporary area.
        assert_eq!(world.env.disk.list("tmp").unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unchanged_remote_costs_one_question() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let path = world.repository("repo");
    let id = commit(&path, 1, "a", b"1");
    let server = GitServer::start(&world.dialer, "h", 80, world.root.path(), true);
    let client = GitClient::new(&world.env, remote("http://h/repo/.git")).unwrap();
    let deadline = Deadline::after(&world.env.clock, Duration::from_secs(60));
    let have = format!("main@sha1:{id}");
    let update = client
        .update(&branch("main"), Some(&have), false, &deadline)
        .await
        .unwrap();
    assert!(matches!(update, Update::Unchanged(_)));
    // The greeting and the question.
    assert_eq!(server.count(), 2);
    assert!(world.env.disk.list("tmp").is_err());
    let empty = world.repository("empty");
    let error = world
        .update(remote("http://h/empty/.git"), &branch("main"), false)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "EmptyGitRepository", "{error}");
    drop(empty);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ties_between_versions_go_to_the_youngest_commit() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let path = world.repository("repo");
    commit(&path, 1, "a", b"1");
    git(&path, 1, &["tag", "1.0.0+z"]);
    let younger = commit(&path, 5, "a", b"2");
    git(&path, 5, &["tag", "-a", "-m", "x", "1.0.0+a"]);
    commit(&path, 6, "a", b"3");
    git(&path, 6, &["tag", "0.9.0"]);
    for (port, version_2) in [(1, true), (2, false)] {
        GitServer::start(&world.dialer, "h", port, world.root.path(), version_2);
        let reference = GitRef {
            semver: ">=0.1".to_owned(),
            ..GitRef::default()
        };
        let url = format!("http://h:{port}/repo/.git");
        let checkout = world.update(remote(&url), &reference, false).await.unwrap();
        assert_eq!(checkout.revision, format!("1.0.0+a@sha1:{younger}"));
        assert_eq!(checkout.tag.unwrap().name, "1.0.0+a");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submodules_nest_and_are_relative() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let inner = world.repository("inner");
    let inner_id = commit(&inner, 1, "deep.yaml", b"deep");
    let middle = world.repository("middle");
    std::fs::write(
        middle.join(".gitmodules"),
        "[submodule \"inner\"]\n\tpath = parts/inner\n\turl = ../../inner/.git\n",
    )
    .unwrap();
    git(
        &middle,
        1,
        &[
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("160000,{inner_id},parts/inner"),
        ],
    );
    std::fs::write(middle.join("m.yaml"), "m").unwrap();
    git(&middle, 1, &["add", ".gitmodules", "m.yaml"]);
    git(&middle, 1, &["commit", "-q", "-m", "middle"]);
    let middle_id = git(&middle, 1, &["rev-parse", "HEAD"]);
    let outer = world.repository("outer");
    std::fs::write(
        outer.join(".gitmodules"),
        "[submodule \"lib\"]\n\tpath = lib\n\turl = http://h/middle/.git\n",
    )
    .unwrap();
    git(
        &outer,
        1,
        &[
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("160000,{middle_id},lib"),
        ],
    );
    git(&outer, 1, &["add", ".gitmodules"]);
    git(&outer, 1, &["commit", "-q", "-m", "outer"]);
    GitServer::start(&world.dialer, "h", 80, world.root.path(), true);
    let checkout = world
        .update(remote("http://h/outer/.git"), &branch("main"), true)
        .await
        .unwrap();
    let names: Vec<String> = world
        .files(checkout)
        .await
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let expected = [
        ".",
        "lib",
        "lib/.git",
        "lib/m.yaml",
        "lib/parts",
        "lib/parts/inner",
        "lib/parts/inner/.git",
        "lib/parts/inner/deep.yaml",
    ];
    assert_eq!(names, expected);
}

/// An SSH server that runs `git upload-pack`.
struct SshServer {
    root: PathBuf,
    channel: Option<russh::Channel<russh::server::Msg>>,
    version_2: bool,
}

impl russh::server::Handler for SshServer {
    type Error = russh::Error;

    async fn auth_publickey(
        &mut self,
        user: &str,
        _key: russh::server::VerifiedPublicKey<'_>,
    ) -> Result<russh::server::Auth, Self::Error> {
        Ok(match user {
            "git" => russh::server::Auth::Accept,
            _ => russh::server::Auth::reject(),
        })
    }

    async fn channel_open_session(
        &mut self,
        channel: russh::Channel<russh::server::Msg>,
        reply: russh::server::ChannelOpenHandle,
        _session: &mut russh::server::Session,
    ) -> Result<(), Self::Error> {
        self.channel = Some(channel);
        reply.accept().await;
        Ok(())
    }

    async fn env_request(
        &mut self,
        _channel: russh::ChannelId,
        name: &str,
        value: &str,
        _session: &mut russh::server::Session,
    ) -> Result<(), Self::Error> {
        self.version_2 = (name, value) == ("GIT_PROTOCOL", "version=2");
        Ok(())
    }

    async fn exec_request(
        &mut self,
        id: russh::ChannelId,
        command: &[u8],
        session: &mut russh::server::Session,
    ) -> Result<(), Self::Error> {
        session.channel_success(id)?;
        let command = String::from_utf8_lossy(command).into_owned();
        let path = command
            .strip_prefix("git-upload-pack '/")
            .and_then(|rest| rest.strip_suffix('\''))
            .unwrap();
        let mut process = tokio::process::Command::new("git");
        process.arg("upload-pack").arg(self.root.join(path));
        if self.version_2 {
            process.env("GIT_PROTOCOL", "version=2");
        }
        let mut child = process
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let channel = self.channel.take().unwrap();
        let handle = session.handle();
        tokio::spawn(async move {
            let mut stdin = child.stdin.take().unwrap();
            let mut stdout = child.stdout.take().unwrap();
            let mut stderr = child.stderr.take().unwrap();
            let stream = channel.into_stream();
            let (mut from_client, mut to_client) = tokio::io::split(stream);
            let feeding = tokio::spawn(async move {
                let _ = tokio::io::copy(&mut from_client, &mut stdin).await;
            });
            let mut buffer = vec![0; 30_000];
            while let Ok(count @ 1..) = stdout.read(&mut buffer).await {
                to_client.write_all(&buffer[..count]).await.unwrap();
            }
            let mut complaint = Vec::new();
            stderr.read_to_end(&mut complaint).await.unwrap();
            if !complaint.is_empty() {
                let _ = handle.extended_data(id, 1, complaint).await;
            }
            feeding.abort();
            let _ = handle.exit_status_request(id, 0).await;
            let _ = handle.eof(id).await;
            let _ = handle.close(id).await;
        });
        Ok(())
    }
}

/// Makes a key by the real ssh-keygen; `None` when it is not here.
fn keygen(directory: &Path, name: &str, kind: &str, password: &str) -> Option<(String, String)> {
    let path = directory.join(name);
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", kind, "-N", password, "-C", "test", "-f"])
        .arg(&path)
        .stdin(Stdio::null())
        .output();
    match made {
        Ok(output) if output.status.success() => {}
        _ => {
            eprintln!("skipped: ssh-keygen is not on this machine");
            return None;
        }
    }
    let secret = std::fs::read_to_string(&path).unwrap();
    let public = std::fs::read_to_string(path.with_extension("pub")).unwrap();
    Some((secret, public.trim().to_owned()))
}

fn serve_ssh(world: &World, host: &str, host_key: &str) {
    let key = russh::keys::decode_secret_key(host_key, None).unwrap();
    let config = Arc::new(russh::server::Config {
        keys: vec![key],
        auth_rejection_time: Duration::ZERO,
        ..russh::server::Config::default()
    });
    let mut incoming = world.dialer.listen(host, 22);
    let root = world.root.path().to_owned();
    tokio::spawn(async move {
        while let Some(stream) = incoming.recv().await {
            let server = SshServer {
                root: root.clone(),
                channel: None,
                version_2: false,
            };
            let config = config.clone();
            tokio::spawn(async move {
                if let Ok(session) = russh::server::run_stream(config, stream, server).await {
                    let _ = session.await;
                }
            });
        }
    });
}

fn ssh_remote(
    url: &str,
    secret: &str,
    password: Option<&str>,
    known: &str,
) -> Result<Remote, Error> {
    let identity = Secret::new(secret.as_bytes().to_vec());
    let password = password.map(Secret::from);
    let auth = SshAuth::new(identity, password, known.as_bytes().to_vec())?;
    let mut remote = remote(url);
    remote.auth = GitAuth::Ssh(auth);
    Ok(remote)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ssh_checks_the_host_and_proves_who_we_are() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let path = world.repository("repo");
    let id = with_deltas(&path);
    let directory = tempfile::tempdir().unwrap();
    let make =
        |name: &str, kind: &str, password: &str| keygen(directory.path(), name, kind, password);
    let Some((host_secret, host_public)) = make("host", "ed25519", "") else {
        return;
    };
    serve_ssh(&world, "git.test", &host_secret);
    let known = format!("git.test {host_public}\n");
    let url = "ssh://git@git.test/repo/.git";
    for (kind, password) in [
        ("ed25519", ""),
        ("ed25519", "word"),
        ("rsa", ""),
        ("ecdsa", ""),
    ] {
        let name = format!("{kind}-{password}");
        let (secret, _) = make(&name, kind, password).unwrap();
        let given = Some(password).filter(|word| !word.is_empty());
        let remote = ssh_remote(url, &secret, given, &known).unwrap();
        let checkout = world.update(remote, &branch("main"), false).await.unwrap();
        assert_eq!(checkout.revision, format!("main@sha1:{id}"));
        assert_eq!(world.files(checkout).await.len(), 8);
    }
    let (secret, other_public) = make("other", "ed25519", "").unwrap();
    for (url, known, expected) in [
        (
            url,
            format!("elsewhere {host_public}\n"),
            "ssh: handshake failed: knownhosts: key is unknown",
        ),
        (
            url,
            format!("git.test {other_public}\n"),
            "ssh: handshake failed: knownhosts: key mismatch",
        ),
        (
            "ssh://nobody@git.test/repo/.git",
            known.clone(),
            "ssh: handshake failed: ssh: unable to authenticate, attempted methods [none publickey], no supported methods remain",
        ),
        (
            "ssh://git@git.test/nothing.git",
            known.clone(),
            "repository not found: ",
        ),
        (
            "ssh://git@dead.test/x.git",
            known.clone(),
            "dial tcp dead.test:22: connect: connection refused",
        ),
    ] {
        let remote = ssh_remote(url, &secret, None, &known).unwrap();
        let error = world
            .update(remote, &branch("main"), false)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("unable to clone 'ssh://"), "{error}");
        assert!(error.contains(expected), "{error}");
    }
    let (locked, _) = make("locked", "ed25519", "word").unwrap();
    for password in [None, Some("wrong")] {
        let error = ssh_remote(url, &locked, password, &known).unwrap_err();
        assert_eq!(error.reason(), "AuthenticationFailed", "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signatures_by_ssh_are_verified() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let path = world.repository("repo");
    let directory = tempfile::tempdir().unwrap();
    let Some((_, public)) = keygen(directory.path(), "signer", "ed25519", "") else {
        return;
    };
    let (_, stranger) = keygen(directory.path(), "stranger", "ed25519", "").unwrap();
    std::fs::write(path.join("a"), "1").unwrap();
    git(&path, 1, &["add", "-A"]);
    let key = directory.path().join("signer.pub");
    let signing = format!("user.signingkey={}", key.display());
    let with = ["-c", "gpg.format=ssh", "-c", &signing];
    git(
        &path,
        1,
        &[&with[..], &["commit", "-q", "-S", "-m", "signed"]].concat(),
    );
    git(
        &path,
        1,
        &[&with[..], &["tag", "-s", "-m", "signed", "v1"]].concat(),
    );
    git(&path, 1, &["tag", "plain"]);
    check_signatures(
        &world,
        TrustedKeys {
            ssh: vec![public],
            ..TrustedKeys::default()
        },
        TrustedKeys {
            ssh: vec![stranger],
            ..TrustedKeys::default()
        },
        "SHA256:",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signatures_by_gpg_are_verified() {
    if !git_is_here() {
        return;
    }
    if Command::new("gpg").arg("--version").output().is_err() {
        eprintln!("skipped: gpg is not on this machine");
        return;
    }
    for algorithm in ["ed25519", "rsa3072"] {
        let world = World::new();
        let path = world.repository("repo");
        let home = tempfile::tempdir().unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(home.path(), mode).unwrap();
        let gpg = |arguments: &[&str]| {
            let output = Command::new("gpg")
                .env("GNUPGHOME", home.path())
                .args(["--batch", "--pinentry-mode", "loopback", "--passphrase", ""])
                .args(arguments)
                .output()
                .unwrap();
            let shown = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "gpg {arguments:?}: {shown}");
            String::from_utf8(output.stdout).unwrap()
        };
        for name in ["signer", "stranger"] {
            gpg(&[
                "--quick-gen-key",
                &format!("{name} <{name}@example.com>"),
                algorithm,
                "sign",
                "never",
            ]);
        }
        let public = gpg(&["--armor", "--export", "signer@example.com"]);
        let stranger = gpg(&["--armor", "--export", "stranger@example.com"]);
        std::fs::write(path.join("a"), "1").unwrap();
        git(&path, 1, &["add", "-A"]);
        // Through a program, because git is run without our environment's home.
        let program = home.path().join("gpg.sh");
        let script = format!(
            "#!/bin/sh\nGNUPGHOME={} exec gpg \"$@\"\n",
            home.path().display()
        );
        std::fs::write(&program, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let program = format!("gpg.program={}", program.display());
        let with = ["-c", &program, "-c", "user.signingkey=signer@example.com"];
        git(
            &path,
            1,
            &[&with[..], &["commit", "-q", "-S", "-m", "signed"]].concat(),
        );
        git(
            &path,
            1,
            &[&with[..], &["tag", "-s", "-m", "signed", "v1"]].concat(),
        );
        git(&path, 1, &["tag", "plain"]);
        let keys = |ring: String| TrustedKeys {
            pgp: vec![ring],
            ..TrustedKeys::default()
        };
        check_signatures(&world, keys(public), keys(stranger), "").await;
    }
}

async fn check_signatures(world: &World, good: TrustedKeys, bad: TrustedKeys, key_start: &str) {
    GitServer::start(&world.dialer, "h", 80, world.root.path(), true);
    let tag = |name: &str| GitRef {
        tag: name.to_owned(),
        ..GitRef::default()
    };
    let url = "http://h/repo/.git";
    // Keys that do not expire; the signatures were made now.
    let now = 1_900_000_000;
    let signed = world.update(remote(url), &tag("v1"), false).await.unwrap();
    let said = verify(&signed, VerifyMode::TagAndHead, &good, now).unwrap();
    assert!(
        said.starts_with("verified signature of\n\t- tag 'v1@"),
        "{said}"
    );
    assert!(
        said.contains(&format!(
            "\n\t- commit '{}' with key '{key_start}",
            signed.commit.id
        )),
        "{said}"
    );
    for mode in [VerifyMode::Head, VerifyMode::Tag] {
        let error = verify(&signed, mode, &bad, now).unwrap_err();
        assert!(
            error.to_string().contains("no matching key found"),
            "{error}"
        );
        assert!(matches!(
            error.reason(),
            "InvalidCommitSignature" | "InvalidTagSignature"
        ));
    }
    let mut changed = world.update(remote(url), &tag("v1"), false).await.unwrap();
    changed.commit.signed.push(b'x');
    assert!(verify(&changed, VerifyMode::Head, &good, now).is_err());
    let plain = world
        .update(remote(url), &tag("plain"), false)
        .await
        .unwrap();
    let error = verify(&plain, VerifyMode::Tag, &good, now).unwrap_err();
    assert_eq!(error.reason(), "InvalidGitObject");
    assert_eq!(
        error.to_string(),
        "cannot verify signature of tag 'plain' since it is not signed"
    );
    let main = world
        .update(remote(url), &branch("main"), false)
        .await
        .unwrap();
    let error = verify(&main, VerifyMode::Tag, &good, now).unwrap_err();
    assert_eq!(error.reason(), "InvalidVerificationMode");
    verify(&main, VerifyMode::Head, &good, now).unwrap();
}

#[tokio::test]
async fn apps_of_github_get_tokens_by_id_and_by_owner() {
    use everflow_fetch::git::GithubApp;
    use everflow_fetch::http::{Client, ClientOptions};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "", "-f"])
        .arg(&path)
        .stdin(Stdio::null())
        .output();
    if !made.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: ssh-keygen is not on this machine");
        return;
    }
    let key = std::fs::read(&path).unwrap();
    let world = World::new();
    let mut incoming = world.dialer.listen("github", 80);
    tokio::spawn(async move {
        while let Some(mut stream) = incoming.recv().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            assert!(head.contains("authorization: Bearer ey"), "{head}");
            let (status, body) = match head.lines().next().unwrap() {
                "GET /api/v3/app/installations?per_page=100&page=1 HTTP/1.1" => {
                    ("200 OK", r#"[{"id": 7, "account": {"login": "Acme"}}]"#)
                }
                "POST /api/v3/app/installations/7/access_tokens HTTP/1.1" => {
                    ("201 Created", r#"{"token": "t0k", "expires_at": "soon"}"#)
                }
                _ => ("404 Not Found", r#"{"message": "Not Found"}"#),
            };
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let client = Client::new(&world.env, ClientOptions::default()).unwrap();
    let deadline = client.deadline(Duration::from_secs(30));
    let app = |id: Option<&str>, owner: Option<&str>| GithubApp {
        app_id: "12".to_owned(),
        private_key: key.clone().into(),
        installation_id: id.map(str::to_owned),
        installation_owner: owner.map(str::to_owned),
        base_url: Some("http://github/api/v3".to_owned()),
    };
    for (id, owner) in [(Some("7"), None), (None, Some("acme"))] {
        let token = app(id, owner)
            .token(&client, 1000, &deadline)
            .await
            .unwrap();
        assert_eq!(token.token.reveal(), "t0k");
        assert!(!format!("{token:?}").contains("t0k"));
    }
    let error = app(Some("8"), None)
        .token(&client, 0, &deadline)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("404 Not Found: Not Found"),
        "{error}"
    );
    let error = app(None, Some("x"))
        .token(&client, 0, &deadline)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("not installed for \"x\""),
        "{error}"
    );
}
