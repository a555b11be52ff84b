//! Repositories by SSH, from a server in this process that runs the real `git upload-pack`.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use everflow_fetch::Error;
use everflow_fetch::git::Remote;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{git_is_here, keygen, ssh_auth};
use crate::world::{World, branch, remote, with_deltas};

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
    let mut remote = remote(url);
    remote.auth = ssh_auth(secret, password, known)?;
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
