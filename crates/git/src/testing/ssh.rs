//! An SSH server that lets keys in and hands over what they ask for.

use std::future::Future;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use everflow_env::MemoryDialer;
use russh::server::{Auth, ChannelOpenHandle, Config, Handler, Msg, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId, ChannelStream};

/// The two directions of a channel.
pub type SshStream = ChannelStream<Msg>;

/// What a server does for those who come in as `git`.
pub trait SshHost: Clone + Send + Sync + 'static {
    /// Whether a public key, as OpenSSH writes it, may come in.
    fn lets_in(&self, key: &str) -> bool;

    /// Does what a command asks for; `version` is the protocol that git asked for, if any. The outcome
    /// is what goes to the standard error of the other side.
    fn serve(
        &self,
        command: String,
        version: Option<String>,
        stream: SshStream,
    ) -> impl Future<Output = Vec<u8>> + Send + 'static;
}

/// Serves connections to a host of the dialer, with the private key that proves which one it is.
pub fn serve_ssh(
    dialer: &MemoryDialer,
    (host, port): (&str, u16),
    host_key: &str,
    server: impl SshHost,
) -> Result<(), russh::keys::Error> {
    serve_certified_ssh(dialer, (host, port), host_key, None, server)
}

/// The same with a certificate for the key, as OpenSSH writes it.
pub fn serve_certified_ssh(
    dialer: &MemoryDialer,
    (host, port): (&str, u16),
    host_key: &str,
    certificate: Option<&str>,
    server: impl SshHost,
) -> Result<(), russh::keys::Error> {
    let certificate = certificate.map(russh::keys::Certificate::from_openssh);
    let config = Arc::new(Config {
        keys: vec![russh::keys::decode_secret_key(host_key, None)?],
        certificates: certificate.transpose()?.into_iter().collect(),
        auth_rejection_time: Duration::ZERO,
        ..Config::default()
    });
    let mut incoming = dialer.listen(host, port);
    tokio::spawn(async move {
        while let Some(stream) = incoming.recv().await {
            let visit = Visit {
                server: server.clone(),
                channel: None,
                version: None,
            };
            let config = config.clone();
            tokio::spawn(async move {
                if let Ok(session) = russh::server::run_stream(config, stream, visit).await {
                    let _ = session.await;
                }
            });
        }
    });
    Ok(())
}

/// One connection.
struct Visit<S> {
    server: S,
    channel: Option<Channel<Msg>>,
    version: Option<String>,
}

impl<S: SshHost> Handler for Visit<S> {
    type Error = russh::Error;

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        let key = key.public_key.to_openssh();
        let known = key.is_ok_and(|text| self.server.lets_in(text.trim()));
        Ok(match user == "git" && known {
            true => Auth::Accept,
            false => Auth::reject(),
        })
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.channel = Some(channel);
        reply.accept().await;
        Ok(())
    }

    async fn env_request(
        &mut self,
        _channel: ChannelId,
        name: &str,
        value: &str,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        if name == "GIT_PROTOCOL" {
            self.version = Some(value.to_owned());
        }
        Ok(())
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_success(id)?;
        let Some(channel) = self.channel.take() else {
            return Ok(());
        };
        let command = String::from_utf8_lossy(command).into_owned();
        let serving = self
            .server
            .serve(command, self.version.take(), channel.into_stream());
        let handle = session.handle();
        tokio::spawn(async move {
            let complaint = serving.await;
            if !complaint.is_empty() {
                let _ = handle.extended_data(id, 1, complaint).await;
            }
            let _ = handle.exit_status_request(id, 0).await;
            let _ = handle.eof(id).await;
            let _ = handle.close(id).await;
        });
        Ok(())
    }
}

/// Makes a key with the real ssh-keygen: the secret and the public part. `None` when it is not here.
pub fn keygen(
    directory: &Path,
    name: &str,
    kind: &str,
    password: &str,
) -> Option<(String, String)> {
    let path = directory.join(name);
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", kind, "-N", password, "-C", "test", "-f"])
        .arg(&path)
        .stdin(Stdio::null())
        .output();
    made.ok().filter(|output| output.status.success())?;
    let secret = std::fs::read_to_string(&path).ok()?;
    let public = std::fs::read_to_string(path.with_extension("pub")).ok()?;
    Some((secret, public.trim().to_owned()))
}
