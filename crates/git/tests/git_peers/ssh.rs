//! Repositories by SSH, from a server in this process that runs the real `git upload-pack`.

use std::path::PathBuf;
use std::process::Stdio;

use everflow_git::Error;
use everflow_git::Remote;
use everflow_git::testing::{SshHost, SshStream, keygen, serve_certified_ssh, serve_ssh};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{git_is_here, ssh_auth};
use crate::world::{World, branch, remote, with_deltas};

/// Runs git's programs for fetching and pushing on the repositories of a directory.
#[derive(Clone)]
pub(crate) struct UploadPack {
    pub(crate) root: PathBuf,
}

impl SshHost for UploadPack {
    fn lets_in(&self, _key: &str) -> bool {
        true
    }

    fn serve(
        &self,
        command: String,
        version: Option<String>,
        stream: SshStream,
    ) -> impl Future<Output = Vec<u8>> + Send + 'static {
        let (program, path) = command.split_once(" '/").unwrap();
        let program = program.strip_prefix("git-").unwrap();
        assert!(matches!(program, "upload-pack" | "receive-pack"));
        let path = path.strip_suffix('\'').unwrap();
        let mut process = tokio::process::Command::new("git");
        process.arg(program).arg(self.root.join(path));
        if let Some(version) = version {
            process.env("GIT_PROTOCOL", version);
        }
        run(process, stream)
    }
}

/// Runs a program on a channel; the outcome is what it complains of.
async fn run(mut process: tokio::process::Command, stream: SshStream) -> Vec<u8> {
    let process = process
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = process.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut stderr = child.stderr.take().unwrap();
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
    feeding.abort();
    complaint
}

pub(crate) fn ssh_remote(
    url: &str,
    secret: &str,
    password: Option<&str>,
    known: &str,
) -> Result<Remote, Error> {
    let mut remote = remote(url);
    remote.auth = ssh_auth(secret, password, known)?;
    Ok(remote)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ssh_verifies_the_host_and_authenticates_with_a_key() {
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
        eprintln!("skipped: ssh-keygen is not on this machine");
        return;
    };
    let server = UploadPack {
        root: world.root.path().to_owned(),
    };
    serve_ssh(&world.dialer, ("git.test", 22), &host_secret, server).unwrap();
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

/// A certificate of the real ssh-keygen for a host's key.
fn certified(directory: &std::path::Path, host: &str, span: &str) -> String {
    let made = std::process::Command::new("ssh-keygen")
        .args([
            "-q",
            "-s",
            "authority",
            "-I",
            "id",
            "-h",
            "-n",
            host,
            "-V",
            span,
        ])
        .arg("host.pub")
        .current_dir(directory)
        .status();
    assert!(made.unwrap().success());
    std::fs::read_to_string(directory.join("host-cert.pub")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_of_hosts_are_taken_from_known_authorities() {
    if !git_is_here() {
        return;
    }
    let world = World::new();
    let id = with_deltas(&world.repository("repo"));
    let directory = tempfile::tempdir().unwrap();
    let make = |name: &str| keygen(directory.path(), name, "ed25519", "");
    let Some((host_secret, host_public)) = make("host") else {
        eprintln!("skipped: ssh-keygen is not on this machine");
        return;
    };
    let (_, authority) = make("authority").unwrap();
    let (secret, other) = make("other").unwrap();
    for (at, name, span) in [
        ("fine.test", "fine.test", "20200101:20400101"),
        ("wrong.test", "fine.test", "20200101:20400101"),
        ("late.test", "late.test", "20200101:20210101"),
    ] {
        let certificate = certified(directory.path(), name, span);
        let server = UploadPack {
            root: world.root.path().to_owned(),
        };
        let place = (at, 22);
        serve_certified_ssh(
            &world.dialer,
            place,
            &host_secret,
            Some(&certificate),
            server,
        )
        .unwrap();
    }
    let go = async |host: &str, known: &str| {
        let url = format!("ssh://git@{host}/repo/.git");
        let remote = ssh_remote(&url, &secret, None, known).unwrap();
        let updated = world.update(remote, &branch("main"), false).await;
        updated
            .map(|checkout| checkout.revision)
            .map_err(|error| error.to_string())
    };
    let known = format!("@cert-authority *.test {authority}\n");
    let revision = format!("main@sha1:{id}");
    assert_eq!(go("fine.test", &known).await, Ok(revision.clone()));
    // Who knows the key alone is shown the key alone.
    let plain = format!("fine.test {host_public}\n");
    assert_eq!(go("fine.test", &plain).await, Ok(revision));
    for (host, known, expected) in [
        (
            "wrong.test",
            known.clone(),
            "not in the set of valid principals",
        ),
        ("late.test", known.clone(), "ssh: cert has expired"),
        (
            "fine.test",
            format!("@cert-authority *.test {other}\n"),
            "certificate signed by unrecognized authority",
        ),
        (
            "fine.test",
            format!("@cert-authority *.else {authority}\n"),
            "knownhosts: key is unknown",
        ),
        (
            "fine.test",
            format!("{known}@revoked nobody {authority}\n"),
            "knownhosts: key is revoked",
        ),
        (
            "fine.test",
            format!("{plain}@revoked nobody {host_public}\n"),
            "knownhosts: key is revoked",
        ),
    ] {
        let error = go(host, &known).await.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
