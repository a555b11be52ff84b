//! Git over SSH.

use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use everflow_env::{Clock, Env, Stream};
use russh::client::{AuthResult, Config, Handle, Handler};
use russh::keys::ssh_key::{Algorithm, HashAlg};
use russh::keys::{PrivateKey, PrivateKeyWithHashAlg, PublicKeyOrCertificate};
use russh::{ChannelMsg, Preferred};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};

use super::agent::SshAgent;
use super::known_hosts::{self, KnownKeys};
use super::session::Service;
use super::{Remote, host_key};
use crate::{Deadline, Error, Secret};

/// Who we are to an SSH server, and whom we trust.
#[derive(Debug, Clone)]
pub struct SshAuth {
    /// The user; that of the address, or `git`, when empty.
    pub username: String,
    /// The private key (PEM or OpenSSH); empty with an agent.
    pub identity: Secret<Vec<u8>>,
    /// Who signs in place of the private key.
    pub agent: Option<SshAgent>,
    /// The password of the private key.
    pub password: Option<Secret<String>>,
    /// Lines of known hosts.
    pub known_hosts: Vec<u8>,
    /// Names of key exchanges to offer; the usual ones when empty.
    pub key_exchanges: Vec<String>,
    /// Names of host key algorithms to offer; the usual ones when empty.
    pub host_keys: Vec<String>,
}

impl SshAuth {
    /// An identity and known hosts, with the usual algorithms; an error when the key cannot be
    /// used.
    pub fn new(
        identity: Secret<Vec<u8>>,
        password: Option<Secret<String>>,
        known_hosts: Vec<u8>,
    ) -> Result<Self, Error> {
        if identity.reveal().is_empty() {
            return Err(Error::Authentication(
                "invalid 'ssh' auth option: 'identity' is required".to_owned(),
            ));
        }
        let auth = SshAuth {
            identity,
            password,
            ..SshAuth::without_key(known_hosts)?
        };
        auth.key()?;
        Ok(auth)
    }

    /// The keys of an agent and known hosts, with the usual algorithms.
    pub fn by_agent(agent: SshAgent, known_hosts: Vec<u8>) -> Result<Self, Error> {
        Ok(SshAuth {
            agent: Some(agent),
            ..SshAuth::without_key(known_hosts)?
        })
    }

    fn without_key(known_hosts: Vec<u8>) -> Result<Self, Error> {
        if known_hosts.is_empty() {
            return Err(Error::Authentication(
                "invalid 'ssh' auth option: 'known_hosts' is required".to_owned(),
            ));
        }
        Ok(SshAuth {
            username: String::new(),
            identity: Secret::new(Vec::new()),
            agent: None,
            password: None,
            known_hosts,
            key_exchanges: Vec::new(),
            host_keys: Vec::new(),
        })
    }

    fn key(&self) -> Result<PrivateKey, Error> {
        let failed = |cause: &str| {
            Error::Authentication(format!("invalid 'ssh' auth option: 'identity' {cause}"))
        };
        let text = std::str::from_utf8(self.identity.reveal())
            .map_err(|_| failed("is not a private key in PEM format"))?;
        let password = self
            .password
            .as_ref()
            .map(|word| word.reveal().as_str())
            .filter(|word| !word.is_empty());
        match russh::keys::decode_secret_key(text, password) {
            Ok(key) if key.is_encrypted() => Err(failed(
                "is protected by a passphrase: put it under 'password' in the secret",
            )),
            Ok(key) => Ok(key),
            Err(russh::keys::Error::KeyIsEncrypted) => Err(failed(
                "is protected by a passphrase: put it under 'password' in the secret",
            )),
            Err(_) if password.is_some() => Err(failed(
                "is not a private key, or 'password' is not its passphrase",
            )),
            Err(_) => Err(failed("is not a private key in PEM or OpenSSH format")),
        }
    }
}

/// What the check of the host key said, for the message.
#[derive(Clone, Default)]
struct Verdict(Arc<Mutex<Option<String>>>);

struct Checker {
    known: KnownKeys,
    host: String,
    clock: Arc<dyn Clock>,
    verdict: Verdict,
}

impl Handler for Checker {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        server: &PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        let checked = match server {
            PublicKeyOrCertificate::PublicKey { key, .. } => host_key::check_key(&self.known, key),
            PublicKeyOrCertificate::Certificate(certificate) => {
                let now = self.clock.now().seconds;
                host_key::check_certificate(&self.known, certificate, &self.host, now)
            }
        };
        let mut verdict = self
            .verdict
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let fine = checked.is_ok();
        *verdict = checked.err();
        Ok(fine)
    }
}

fn ssh_error(cause: impl std::fmt::Display) -> Error {
    Error::Git(format!("ssh: handshake failed: {cause}"))
}

fn words(error: &russh::Error) -> String {
    match error {
        russh::Error::NoCommonAlgo { kind, ours, theirs } => {
            let kind = match format!("{kind:?}").as_str() {
                "Kex" => "key exchange".to_owned(),
                "Key" => "host key".to_owned(),
                other => other.to_lowercase(),
            };
            format!(
                "ssh: no common algorithm for {kind}; client offered: [{}], server offered: [{}]",
                ours.join(" "),
                theirs.join(" ")
            )
        }
        russh::Error::Disconnect | russh::Error::HUP => "EOF".to_owned(),
        other => other.to_string(),
    }
}

/// How the names of algorithms end that are those of certificates.
const CERTIFIED: &str = "-cert-v01@openssh.com";

/// The algorithms to offer: for the host key only those of keys that are known, so that the
/// server shows one that can be checked.
fn preferred(auth: &SshAuth, known: &KnownKeys) -> Result<Preferred, Error> {
    let mut preferred = Preferred::DEFAULT;
    let unknown = |what: &str, name: &str| {
        Error::Authentication(format!("unsupported SSH {what} algorithm {name:?}"))
    };
    if !auth.key_exchanges.is_empty() {
        let names: Result<Vec<russh::kex::Name>, Error> = auth
            .key_exchanges
            .iter()
            .map(|name| {
                russh::kex::Name::try_from(name.as_str())
                    .map_err(|()| unknown("key exchange", name))
            })
            .collect();
        preferred.kex = Cow::Owned(names?);
    }
    let mut offered: Vec<Algorithm> = preferred.key.to_vec();
    let mut certified = offered.clone();
    if !auth.host_keys.is_empty() {
        (offered, certified) = (Vec::new(), Vec::new());
        for name in &auth.host_keys {
            let (list, plain) = match name.strip_suffix(CERTIFIED) {
                Some(plain) => (&mut certified, plain),
                None => (&mut offered, name.as_str()),
            };
            list.push(Algorithm::new(plain).map_err(|_| unknown("host key", name))?);
        }
    }
    // A server that has a certificate shows it to those who ask for one, and not its key.
    if !known.authorities.is_empty() {
        preferred.host_key_certificates = Cow::Owned(certified);
    }
    if !known.keys.is_empty() {
        let fits = |offer: &Algorithm| {
            known.keys.iter().any(|key| match (offer, key.algorithm()) {
                (Algorithm::Rsa { .. }, Algorithm::Rsa { .. }) => true,
                (offer, own) => *offer == own,
            })
        };
        let fitting: Vec<Algorithm> = offered.iter().filter(|one| fits(one)).cloned().collect();
        if !fitting.is_empty() {
            offered = fitting;
        }
    }
    preferred.key = Cow::Owned(offered);
    Ok(preferred)
}

/// Connects, proves who both sides are, and starts git's program on the server.
pub(super) async fn connect(
    env: &Env,
    remote: &Remote,
    auth: &SshAuth,
    service: Service,
    deadline: &Deadline,
) -> Result<Box<dyn Stream>, Error> {
    let key = match auth.agent {
        Some(_) => None,
        None => Some(auth.key()?),
    };
    let (host, port) = (&remote.url.host, remote.url.port_or_default());
    let known = known_hosts::find(&auth.known_hosts, host, port)?;
    let preferred = preferred(auth, &known)?;
    let proxy = remote.proxy.as_ref();
    let stream =
        everflow_connect::tunnel(env, proxy, host, port, remote.limits.spans(), deadline).await?;
    let verdict = Verdict::default();
    let checker = Checker {
        known,
        host: host.clone(),
        clock: env.clock.clone(),
        verdict: verdict.clone(),
    };
    let config = Arc::new(Config {
        preferred,
        ..Config::default()
    });
    let opening = async {
        let mut handle = russh::client::connect_stream(config, stream, checker)
            .await
            .map_err(|error| {
                let mut said = verdict.0.lock().unwrap_or_else(PoisonError::into_inner);
                ssh_error(said.take().unwrap_or_else(|| words(&error)))
            })?;
        log_in(&mut handle, remote, auth, key).await?;
        start(handle, service, &remote.url.path).await
    };
    deadline.wait(opening).await.ok_or(Error::Deadline(""))?
}

async fn log_in(
    handle: &mut Handle<Checker>,
    remote: &Remote,
    auth: &SshAuth,
    key: Option<PrivateKey>,
) -> Result<(), Error> {
    let username = match auth.username.as_str() {
        "" => remote.url.username.as_deref().unwrap_or("git"),
        name => name,
    };
    let key = match (&auth.agent, key) {
        (Some(agent), _) => return agent.log_in(handle, username).await,
        (None, Some(key)) => key,
        (None, None) => auth.key()?,
    };
    let hash = match key.algorithm() {
        Algorithm::Rsa { .. } => match handle.best_supported_rsa_hash().await {
            Ok(Some(hash)) => hash,
            _ => Some(HashAlg::Sha512),
        },
        _ => None,
    };
    let key = PrivateKeyWithHashAlg::new(Arc::new(key), hash);
    match handle.authenticate_publickey(username, key).await {
        Ok(AuthResult::Success) => Ok(()),
        Ok(AuthResult::Failure { .. }) => Err(ssh_error(
            "ssh: unable to authenticate, attempted methods [none publickey], no supported methods remain",
        )),
        Err(error) => Err(ssh_error(words(&error))),
    }
}

async fn start(
    handle: Handle<Checker>,
    service: Service,
    path: &str,
) -> Result<Box<dyn Stream>, Error> {
    let failed = |error: russh::Error| Error::Git(format!("ssh: {}", words(&error)));
    let channel = handle.channel_open_session().await.map_err(failed)?;
    // Servers that do not take it speak the older protocol.
    if let Some(version) = service.protocol() {
        channel
            .set_env(false, "GIT_PROTOCOL", version)
            .await
            .map_err(failed)?;
    }
    let quoted = path.replace('\'', "'\\''");
    let program = service.program();
    let command = format!("{program} '{quoted}'");
    channel.exec(true, command).await.map_err(failed)?;
    let (ours, theirs) = tokio::io::duplex(256 * 1024);
    let complaint: Arc<Mutex<String>> = Arc::default();
    tokio::spawn(pump(handle, channel, program, theirs, complaint.clone()));
    Ok(Box::new(SshStream {
        stream: ours,
        complaint,
    }))
}

/// Moves bytes between the channel and our stream until one of them ends.
async fn pump(
    handle: Handle<Checker>,
    channel: russh::Channel<russh::client::Msg>,
    program: &'static str,
    stream: DuplexStream,
    complaint: Arc<Mutex<String>>,
) {
    let (mut reader, writer) = channel.split();
    let (mut from_us, mut to_us) = tokio::io::split(stream);
    let incoming = async {
        while let Some(message) = reader.wait().await {
            match message {
                ChannelMsg::Data { data } => {
                    let given = to_us.write_all(&data).await;
                    if given.is_err() {
                        break;
                    }
                }
                ChannelMsg::ExtendedData { data, .. } => {
                    let mut text = complaint.lock().unwrap_or_else(PoisonError::into_inner);
                    if text.len() < 2_000 {
                        text.push_str(&String::from_utf8_lossy(&data));
                    }
                }
                ChannelMsg::Failure => {
                    let mut text = complaint.lock().unwrap_or_else(PoisonError::into_inner);
                    text.push_str(&format!("the server does not run {program}"));
                    break;
                }
                // What the command says last may come after the end of its output.
                ChannelMsg::Close => break,
                _ => {}
            }
        }
        let _ = to_us.shutdown().await;
    };
    let outgoing = async {
        let mut buffer = vec![0; 32 * 1024];
        loop {
            match from_us.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    if writer.data_bytes(buffer[..count].to_vec()).await.is_err() {
                        break;
                    }
                }
            }
        }
        let _ = writer.eof().await;
    };
    // Both directions end when we let go of our end; the connection closes with the handle.
    let incoming = std::pin::pin!(incoming);
    let outgoing = std::pin::pin!(outgoing);
    if let futures_util::future::Either::Right((_, incoming)) =
        futures_util::future::select(incoming, outgoing).await
    {
        incoming.await;
    }
    drop(handle);
}

/// Our end; an early end is explained by what the server complained about.
struct SshStream {
    stream: DuplexStream,
    complaint: Arc<Mutex<String>>,
}

impl AsyncRead for SshStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            return Poll::Ready(Ok(()));
        }
        let text = self
            .complaint
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let text = text.trim();
        Poll::Ready(match text.is_empty() {
            true => Ok(()),
            false => {
                let lower = text.to_lowercase();
                let unknown = lower.contains("not found")
                    || lower.contains("does not exist")
                    || lower.contains("does not appear to be a git repository");
                let text = text.replace('\n', " ");
                Err(io::Error::other(match unknown {
                    true => format!("repository not found: {text}"),
                    false => text,
                }))
            }
        })
    }
}

impl AsyncWrite for SshStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
