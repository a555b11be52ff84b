//! A conversation with a git server, over HTTP or SSH.

use std::sync::Arc;

use ::http::header;
use bytes::{Buf, Bytes};
use everflow_env::disk::FileWriter;
use everflow_env::{Env, Stream, run_blocking};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::pkt::{Decoder, Packet, text};
use super::protocol::{self, Capabilities, OldGreeting, Ref, Wants};
use super::{GitAuth, Remote};
use crate::{Deadline, Error, Url};
use everflow_fetch::http::{
    Auth, Body, Client, Request, Response, may_send_credentials, printable,
};

/// Where frames come from.
enum Source {
    Http(Box<Body>),
    Stream,
    Ended,
}

enum Transport {
    /// The address after redirects.
    Http {
        client: Arc<Client>,
        url: Url,
        auth: Option<Auth>,
    },
    Stream(Box<dyn Stream>),
}

/// What a conversation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    /// Objects are fetched.
    Fetch,
    /// Objects are sent. There is the older protocol only.
    Push,
}

impl Service {
    /// The program on the server.
    pub(super) fn program(self) -> &'static str {
        match self {
            Service::Fetch => "git-upload-pack",
            Service::Push => "git-receive-pack",
        }
    }

    /// The version of the protocol to ask for.
    pub(super) fn protocol(self) -> Option<&'static str> {
        match self {
            Service::Fetch => Some("version=2"),
            Service::Push => None,
        }
    }

    fn media_types(self) -> (&'static str, &'static str) {
        match self {
            Service::Fetch => (
                "application/x-git-upload-pack-request",
                "application/x-git-upload-pack-result",
            ),
            Service::Push => (
                "application/x-git-receive-pack-request",
                "application/x-git-receive-pack-result",
            ),
        }
    }
}

/// An open conversation.
pub(crate) struct Session {
    service: Service,
    transport: Transport,
    source: Source,
    decoder: Decoder,
    deadline: Deadline,
    capabilities: Capabilities,
    /// What the older protocol says at once.
    old_refs: Option<Vec<Ref>>,
    /// Bytes that a stream may still give; answers over HTTP have a limit of their own.
    left: u64,
    most: u64,
    /// Bytes of a list of names.
    listing: usize,
    /// Whether another server answers than the one that was asked: what it says is not shown.
    foreign: bool,
}

/// So much of a pack is collected before it goes to disk.
const WRITE_PIECE: usize = 1 << 20;
/// How many names a server may have.
const MOST_REFS: usize = 1_000_000;
/// Bytes of what a server says that it can do. Those of GitHub and GitLab have less than 1,000.
const LARGEST_GREETING: usize = 64 << 10;
/// Bytes between the question for a pack and the pack: a line for each commit without parents.
const LARGEST_PREFACE: usize = 1 << 20;

impl Session {
    /// Opens a conversation and reads the greeting.
    pub(crate) async fn open(
        service: Service,
        client: Option<&Arc<Client>>,
        env: &Env,
        remote: &Remote,
        deadline: &Deadline,
    ) -> Result<Self, Error> {
        let (transport, source, foreign) = match (&remote.auth, client) {
            (GitAuth::Ssh(auth), _) => {
                let stream = super::ssh::connect(env, remote, auth, service, deadline).await?;
                (Transport::Stream(stream), Source::Stream, false)
            }
            (auth, Some(client)) => greet_http(service, client, remote, auth, deadline).await?,
            (_, None) => {
                return Err(Error::Authentication(
                    "invalid 'ssh' auth option: 'identity' is required".to_owned(),
                ));
            }
        };
        let http = matches!(transport, Transport::Http { .. });
        let mut session = Session {
            service,
            transport,
            source,
            decoder: Decoder::default(),
            deadline: deadline.clone(),
            capabilities: Capabilities::default(),
            old_refs: None,
            left: remote.limits.body,
            most: remote.limits.body,
            listing: usize::try_from(remote.listing).unwrap_or(usize::MAX),
            foreign,
        };
        session.read_greeting(http).await?;
        session.capabilities.check_format()?;
        Ok(session)
    }

    async fn read_greeting(&mut self, http: bool) -> Result<(), Error> {
        let mut old = OldGreeting::default();
        let mut version_2 = None;
        let mut first = true;
        let mut size = 0;
        loop {
            let line = match self.packet().await? {
                Some(Packet::Data(line)) => line,
                // Over HTTP the name of the service comes first, with an end of its own.
                Some(Packet::Flush) if first && http => {
                    first = false;
                    continue;
                }
                Some(Packet::Flush) => break,
                _ if version_2.is_none() && old.refs.is_empty() && first => {
                    let program = self.service.program();
                    return Err(Error::Protocol(format!("empty {program} given")));
                }
                _ => return Err(unexpected_end()),
            };
            size += line.len();
            let limit = match version_2 {
                Some(_) => LARGEST_GREETING,
                None => self.listing,
            };
            bounded("the greeting of the git server", size, limit)?;
            let shown = text(&line);
            if shown.starts_with("# service=") {
                continue;
            }
            first = false;
            match (&mut version_2, shown.as_str()) {
                (None, "version 2") if old.refs.is_empty() => {
                    version_2 = Some(Capabilities::version_2());
                }
                (Some(capabilities), _) => capabilities.add(shown),
                (None, _) => {
                    old.add(&line).map_err(|error| self.shown(error))?;
                    bounded("the number of references", old.refs.len(), MOST_REFS)?;
                }
            }
        }
        match version_2 {
            Some(capabilities) => self.capabilities = capabilities,
            None => {
                self.capabilities = old.capabilities;
                self.old_refs = Some(old.refs);
            }
        }
        if http {
            // Read to its end, so that the connection can be used again.
            while self.packet().await?.is_some() {}
        }
        Ok(())
    }

    /// What the server can do.
    pub(super) fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The names that the older protocol tells at once.
    pub(super) fn greeted(&self) -> &[Ref] {
        self.old_refs.as_deref().unwrap_or_default()
    }

    /// The next frame; `None` at the end.
    pub(super) async fn packet(&mut self) -> Result<Option<Packet>, Error> {
        loop {
            let next = self.decoder.next();
            if let Some(packet) = next.map_err(|error| self.shown(error))? {
                if let Packet::Data(line) = &packet
                    && let Some(message) = line.strip_prefix(b"ERR ")
                {
                    return Err(self.shown(remote_error(message)));
                }
                return Ok(Some(packet));
            }
            match self.bytes().await? {
                Some(bytes) => self.decoder.feed(&bytes),
                None if self.decoder.is_empty() => return Ok(None),
                None => return Err(unexpected_end()),
            }
        }
    }

    /// An error that quotes the server, or one that does not when another server was asked.
    fn shown(&self, error: Error) -> Error {
        match error {
            Error::Protocol(_) if self.foreign => Error::Protocol(
                "the server was redirected from another one and does not speak git's protocol, \
                 or refuses: use the address that it redirects to"
                    .to_owned(),
            ),
            error => error,
        }
    }

    async fn bytes(&mut self) -> Result<Option<Bytes>, Error> {
        let bytes = match (&mut self.source, &mut self.transport) {
            (Source::Http(body), _) => body.chunk().await?,
            (Source::Stream, Transport::Stream(stream)) => {
                let mut buffer = vec![0; 32 * 1024];
                let reading = stream.read(&mut buffer);
                let count = self
                    .deadline
                    .wait(reading)
                    .await
                    .ok_or(Error::Deadline(""))?
                    .map_err(|error| Error::Protocol(error.to_string()))?;
                buffer.truncate(count);
                self.left = match self.left.checked_sub(count as u64) {
                    Some(left) => left,
                    None => {
                        return Err(Error::TooLarge {
                            what: "what the git server sent in one conversation".to_owned(),
                            limit: self.most,
                        });
                    }
                };
                (count > 0).then(|| Bytes::from(buffer))
            }
            _ => None,
        };
        if bytes.is_none() {
            self.source = Source::Ended;
        }
        Ok(bytes)
    }

    /// Sends a command; its answer comes as frames.
    pub(super) async fn ask(&mut self, message: Vec<u8>) -> Result<(), Error> {
        match &mut self.transport {
            Transport::Http { client, url, auth } => {
                let target = url.with_suffix(self.service.program());
                let (asks, answers) = self.service.media_types();
                let mut request = Request::post(&target, asks, message)
                    .with_auth(auth.clone())
                    .with_header(header::ACCEPT, answers);
                if self.capabilities.version_2 {
                    request = request.with_header(GIT_PROTOCOL, "version=2");
                }
                let response = client.send(request, &self.deadline).await?;
                let response = checked(response, &target).await?;
                self.decoder = Decoder::default();
                self.source = Source::Http(Box::new(response.body));
            }
            Transport::Stream(stream) => {
                let writing = async {
                    stream.write_all(&message).await?;
                    stream.flush().await
                };
                self.deadline
                    .wait(writing)
                    .await
                    .ok_or(Error::Deadline(""))?
                    .map_err(|error| Error::Protocol(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// The names that begin with one of the prefixes (all names from servers that cannot choose).
    pub(crate) async fn refs(&mut self, prefixes: &[String]) -> Result<Vec<Ref>, Error> {
        if let Some(refs) = &self.old_refs {
            return Ok(refs.clone());
        }
        self.ask(protocol::ls_refs(&self.capabilities, prefixes))
            .await?;
        let mut refs = Vec::new();
        let mut size = 0;
        loop {
            match self.packet().await? {
                Some(Packet::Data(line)) => {
                    size += line.len();
                    bounded("the list of references", size, self.listing)?;
                    let one = protocol::parse_ref(&line);
                    refs.extend(one.map_err(|error| self.shown(error))?);
                }
                Some(Packet::Flush) => return Ok(refs),
                _ => return Err(unexpected_end()),
            }
            bounded("the number of references", refs.len(), MOST_REFS)?;
        }
    }

    /// Whether the server gives any commit that it has, or only those that it names.
    pub(crate) fn gives_any_commit(&self) -> bool {
        self.capabilities.version_2
            || self.capabilities.has("allow-any-sha1-in-want")
            || self.capabilities.has("allow-reachable-sha1-in-want")
    }

    /// Fetches a pack into a file; how large it is.
    pub(crate) async fn fetch(
        mut self,
        env: &Env,
        wants: &Wants,
        path: &str,
        limit: u64,
    ) -> Result<u64, Error> {
        self.ask(protocol::fetch(&self.capabilities, wants)).await?;
        let framed = self.skip_to_pack().await?;
        let create = {
            let (disk, path) = (env.disk.clone(), path.to_owned());
            move || disk.create(&path)
        };
        let mut file = run_blocking(&*env.blocking, create)
            .await
            .ok_or(Error::Lost)?
            .map_err(|error| Error::disk("create", path, error))?;
        let mut piece = Vec::with_capacity(WRITE_PIECE);
        let mut total = 0_u64;
        loop {
            let bytes = match framed {
                true => self.pack_frame().await?,
                false => match self.decoder.take_rest() {
                    rest if rest.is_empty() => self.bytes().await?,
                    rest => Some(rest),
                },
            };
            let ended = bytes.is_none();
            piece.extend_from_slice(&bytes.unwrap_or_default());
            if piece.len() >= WRITE_PIECE || ended {
                total += piece.len() as u64;
                if total > limit {
                    return Err(Error::TooLarge {
                        what: "the pack".to_owned(),
                        limit,
                    });
                }
                (file, piece) = write(env, file, piece, path).await?;
            }
            if ended {
                return Ok(total);
            }
        }
    }

    /// Reads up to the pack; whether it comes in frames.
    async fn skip_to_pack(&mut self) -> Result<bool, Error> {
        let mut size = 0;
        loop {
            match self.packet().await? {
                Some(Packet::Data(line)) => {
                    size += line.len();
                    bounded("what comes before the pack", size, LARGEST_PREFACE)?;
                    let line = text(&line);
                    if self.capabilities.version_2 && line == "packfile" {
                        return Ok(true);
                    }
                    if !self.capabilities.version_2 && line == "NAK" {
                        return Ok(self.capabilities.has("side-band-64k")
                            || self.capabilities.has("side-band"));
                    }
                }
                Some(_) => {}
                None => return Err(unexpected_end()),
            }
        }
    }

    /// The next bytes of a pack that comes in frames.
    pub(super) async fn pack_frame(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            match self.packet().await? {
                Some(Packet::Data(mut frame)) if !frame.is_empty() => match frame.get_u8() {
                    1 => return Ok(Some(frame)),
                    2 => {}
                    3 => return Err(self.shown(remote_error(&frame))),
                    other => {
                        let text = format!("unknown channel {other} in the pack stream");
                        return Err(Error::Protocol(text));
                    }
                },
                Some(Packet::Data(_)) => {}
                Some(Packet::Flush) => return Ok(None),
                Some(_) => {}
                None => return Err(unexpected_end()),
            }
        }
    }
}

async fn write(
    env: &Env,
    mut file: Box<dyn FileWriter>,
    mut piece: Vec<u8>,
    path: &str,
) -> Result<(Box<dyn FileWriter>, Vec<u8>), Error> {
    let work = move || {
        let done = file.write_all(&piece);
        piece.clear();
        done.map(|()| (file, piece))
    };
    run_blocking(&*env.blocking, work)
        .await
        .ok_or(Error::Lost)?
        .map_err(|error| Error::disk("write", path, error))
}

fn bounded(what: &str, count: usize, limit: usize) -> Result<(), Error> {
    match count > limit {
        true => Err(Error::TooLarge {
            what: what.to_owned(),
            limit: limit as u64,
        }),
        false => Ok(()),
    }
}

fn unexpected_end() -> Error {
    Error::Protocol("unexpected EOF: the server ended the conversation early".to_owned())
}

fn remote_error(message: &[u8]) -> Error {
    let message = text(message);
    match message.contains("not our ref") {
        true => Error::NotOurRef,
        false => Error::Protocol(format!("remote error: {}", printable(&message))),
    }
}

const GIT_PROTOCOL: header::HeaderName = header::HeaderName::from_static("git-protocol");

async fn greet_http(
    service: Service,
    client: &Arc<Client>,
    remote: &Remote,
    auth: &GitAuth,
    deadline: &Deadline,
) -> Result<(Transport, Source, bool), Error> {
    let mut url = remote.url.with_suffix("info/refs");
    url.query = Some(format!("service={}", service.program()));
    let auth = match auth {
        GitAuth::Http(auth) => Some(auth.clone()),
        _ => None,
    };
    let mut request = Request::get(&url).with_auth(auth);
    if let Some(version) = service.protocol() {
        request = request.with_header(GIT_PROTOCOL, version);
    }
    let auth = request.auth.clone();
    let response = client.send(request, deadline).await?;
    let response = checked(response, &url).await?;
    let foreign = response.foreign;
    let mut answered = response.url.clone();
    let path = answered.path.strip_suffix("/info/refs").map(str::to_owned);
    let Some(path) = path else {
        return Err(Error::Protocol(format!(
            "redirected to {answered}, which is not a git repository"
        )));
    };
    answered.path = path;
    answered.query = None;
    let transport = Transport::Http {
        client: client.clone(),
        auth: auth.filter(|_| may_send_credentials(&remote.url, &answered)),
        url: answered,
    };
    Ok((transport, Source::Http(Box::new(response.body)), foreign))
}

/// The words of go-git for what a server answers.
async fn checked(response: Response, url: &Url) -> Result<Response, Error> {
    let status = response.status.as_u16();
    if response.status.is_success() {
        return Ok(response);
    }
    let plain = response
        .header(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.starts_with("text/plain"));
    let body = match (response.foreign, plain) {
        (true, _) => format!(
            "redirected to {}, which does not get the credentials of another server: \
             use its address as the URL",
            response.url.origin()
        ),
        (false, true) => printable(&String::from_utf8_lossy(&response.complaint(500).await)),
        (false, false) => String::new(),
    };
    Err(match status {
        401 => Error::Git(format!("authentication required: {body}")),
        403 => Error::Git(format!("authorization failed: {body}")),
        404 => Error::Git(format!("repository not found: {body}")),
        _ => Error::Git(format!(
            "unexpected client error: unexpected requesting \"{url}\" status code: {status}"
        )),
    })
}
