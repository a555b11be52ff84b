//! A real cluster, over HTTP/2 or HTTP/1.1 and TLS, on connections from the [`Env`]'s dialer, by
//! whichever way to its API servers works.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use everflow_connect::Proxy;
use everflow_env::{BoxFuture, Env, within};
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use http::Method;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::config::{ClientCertificate, ClusterConfig};
use super::connector::{Connector, is_stranger};
use super::credentials::Credentials;
use super::endpoint::Endpoint;
use super::tls;
use super::ways::{Fault, Origin, WayId, Ways};
use crate::client::{Body, ByteStream, Request, Response, Transport, TransportError, to_wire};
use crate::error::Error;
use crate::signal::Signal;

/// How often a connection in use is asked whether it lives, and how long it may think about it.
const PING: Duration = Duration::from_secs(15);
const PONG: Duration = Duration::from_secs(10);
/// The same when there is another way to take.
const QUICK_PING: Duration = Duration::from_secs(2);
const QUICK_PONG: Duration = Duration::from_secs(3);
/// At most so often all connections are given up because one was bad.
const RENEW: Duration = Duration::from_secs(5);
/// A request without an answer for so long makes its way suspect, when there is another.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// How long a server may take to say that it is there.
const TRIAL: Duration = Duration::from_secs(2);
/// What a server is asked to see whether it is there.
const TRIAL_PATH: &str = "/readyz";

type Http = Client<Connector, Full<Bytes>>;

/// What happened to a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WayEvent<'e> {
    /// It did not work, and requests go another way from now on.
    Left {
        /// The way that is left.
        from: &'e Endpoint,
        /// The way that is taken.
        to: &'e Endpoint,
        /// What was wrong.
        why: &'e str,
    },
    /// It works, and requests go there from now on.
    Returned {
        /// The way that was taken before.
        from: &'e Endpoint,
        /// The way that is taken.
        to: &'e Endpoint,
    },
    /// Whoever is there cannot prove to be a server of this cluster.
    Refused {
        /// Where that was.
        at: &'e Endpoint,
        /// What was wrong with the certificate.
        why: &'e str,
    },
    /// Whether a way works, as far as is known now.
    Health {
        /// The way.
        at: &'e Endpoint,
        /// Whether it works.
        works: bool,
        /// Whether it is the one that is taken.
        taken: bool,
    },
}

/// Is told what happens to ways.
pub type WayListener = Arc<dyn Fn(WayEvent<'_>) + Send + Sync>;

/// Sends requests to a real cluster.
#[derive(Debug, Clone)]
pub struct HttpsTransport {
    shared: Arc<Shared>,
}

struct Shared {
    env: Env,
    config: ClusterConfig,
    credentials: Credentials,
    listener: Option<WayListener>,
    /// Whether there is another way than the one that is taken; connections ask.
    alternatives: Arc<AtomicBool>,
    inner: Mutex<Inner>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Inner {
    ways: Ways,
    lines: BTreeMap<WayId, Line>,
    /// Whether a task looks after the ways.
    tended: bool,
}

/// The connections of one way.
#[derive(Debug, Clone)]
struct Line {
    way: WayId,
    endpoint: Endpoint,
    client: Http,
    certificate: Option<Arc<ClientCertificate>>,
    made: Duration,
    bad: bool,
    quick: bool,
    /// Whether anything came back on it.
    worked: bool,
    /// Raised when requests under way on it, and on those that it took the place of, are to go another way.
    left: Signal,
}

/// A request that got no answer on a way.
struct Broken {
    error: TransportError,
    fault: Fault,
    /// Whether the server cannot have seen it.
    unsent: bool,
}

impl HttpsTransport {
    /// A transport to a cluster. Nothing is connected yet, but certificates are checked.
    pub fn new(env: &Env, config: ClusterConfig) -> Result<Self, Error> {
        HttpsTransport::with_ways(env, config, &[], None)
    }

    /// The same with further addresses of the same servers, and somebody who is told what happens
    /// to all of them.
    pub fn with_ways(
        env: &Env,
        config: ClusterConfig,
        further: &[Endpoint],
        listener: Option<WayListener>,
    ) -> Result<Self, Error> {
        let mut ways = Ways::new(config.endpoint());
        ways.set(Origin::Flag, further);
        let shared = Shared {
            env: env.clone(),
            credentials: Credentials::new(env.clock.clone(), config.login.clone()),
            alternatives: Arc::new(AtomicBool::new(ways.len() > 1)),
            inner: Mutex::new(Inner {
                ways,
                lines: BTreeMap::new(),
                tended: false,
            }),
            listener,
            config,
        };
        shared.check_further(further)?;
        let wrong = |error: TransportError| Error::Config {
            path: shared.config.url(),
            why: error.why,
        };
        shared.tls(None).map_err(wrong)?;
        Ok(HttpsTransport {
            shared: Arc::new(shared),
        })
    }

    /// Sets the servers' own addresses, as the cluster told them. They are used only where the
    /// server's certificate is checked; returns whether they are.
    pub fn learn(&self, endpoints: &[Endpoint]) -> bool {
        let can_learn = self.shared.config.can_learn();
        if can_learn {
            let mut inner = self.shared.lock();
            inner.ways.set(Origin::Learned, endpoints);
            let Inner { ways, lines, .. } = &mut *inner;
            lines.retain(|id, _| ways.endpoint(*id).is_some());
            let several = ways.len() > 1;
            drop(inner);
            self.shared.alternatives.store(several, Ordering::Relaxed);
            tend(&self.shared);
        }
        can_learn
    }

    /// The address that requests go to.
    pub fn taken(&self) -> String {
        let inner = self.shared.lock();
        let taken = inner.ways.endpoint(inner.ways.current());
        taken.map(ToString::to_string).unwrap_or_default()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.env.clock.elapsed()
    }

    /// A token that is meant to be kept secret is not sent in clear because a flag says so.
    fn check_further(&self, further: &[Endpoint]) -> Result<(), Error> {
        match further.iter().find(|other| other.tls != self.config.tls) {
            None => Ok(()),
            Some(other) => Err(Error::Config {
                path: other.to_string(),
                why: format!(
                    "it is not used as a further address of {}: both must be https, or both http",
                    self.config.url()
                ),
            }),
        }
    }

    fn tls(
        &self,
        shown: Option<&ClientCertificate>,
    ) -> Result<Option<Arc<rustls::ClientConfig>>, TransportError> {
        let certificate = shown.or(self.config.certificate.as_ref());
        match self.config.tls {
            true => {
                let options = tls::options(&self.config, certificate);
                tls::configure(&options, &self.env.clock).map(Some)
            }
            false => Ok(None),
        }
    }

    fn proxy(&self) -> Option<Arc<Proxy>> {
        let proxy = self.config.proxy.clone()?;
        Some(Arc::new(proxy.trusting(&tls::options(&self.config, None))))
    }

    fn connect(
        &self,
        endpoint: &Endpoint,
        shown: Option<&ClientCertificate>,
        quick: bool,
    ) -> Result<Http, TransportError> {
        // Whatever the address: the server is the one that the configuration means.
        let name = self.config.server_name.as_ref();
        let connector = Connector {
            env: self.env.clone(),
            host: endpoint.host.clone().into(),
            port: endpoint.port,
            name: name.unwrap_or(&self.config.host).clone().into(),
            proxy: self.proxy(),
            tls: self.tls(shown)?,
            alternatives: self.alternatives.clone(),
        };
        let (ping, pong) = match quick {
            true => (QUICK_PING, QUICK_PONG),
            false => (PING, PONG),
        };
        Ok(Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(90))
            .http2_keep_alive_interval(ping)
            .http2_keep_alive_timeout(pong)
            .http2_initial_stream_window_size(1 << 20)
            .http2_initial_connection_window_size(16 << 20)
            .build(connector))
    }

    /// The connections of a way for these credentials: those there are, or new ones.
    fn line(
        &self,
        inner: &mut Inner,
        way: WayId,
        shown: Option<Arc<ClientCertificate>>,
    ) -> Result<Line, TransportError> {
        let (now, quick) = (self.now(), inner.ways.len() > 1);
        // What still runs on older connections of the way ends with it, too.
        let mut left = Signal::new();
        if let Some(kept) = inner.lines.get(&way) {
            left = kept.left.clone();
            let renew = kept.bad && now.saturating_sub(kept.made) >= RENEW;
            if kept.certificate == shown && kept.quick == quick && !renew {
                return Ok(kept.clone());
            }
        }
        let endpoint = inner.ways.endpoint(way).cloned();
        let endpoint = endpoint.unwrap_or_else(|| self.config.endpoint());
        let line = Line {
            way,
            client: self.connect(&endpoint, shown.as_deref(), quick)?,
            endpoint,
            certificate: shown,
            made: now,
            bad: false,
            quick,
            worked: false,
            left,
        };
        inner.lines.insert(way, line.clone());
        Ok(line)
    }

    fn tell(&self, event: WayEvent<'_>) {
        if let Some(listener) = &self.listener {
            listener(event);
        }
    }

    /// Says how each way is, as far as is known.
    fn tell_health(&self) {
        let inner = self.lock();
        let taken = inner.ways.current();
        let all: Vec<(bool, Endpoint, bool)> = inner
            .ways
            .all()
            .map(|(id, endpoint, _, works)| (id == taken, endpoint.clone(), works))
            .collect();
        drop(inner);
        for (taken, at, works) in &all {
            self.tell(WayEvent::Health {
                at,
                works: *works,
                taken: *taken,
            });
        }
    }

    /// A way did not work. Returns whether requests go another way now.
    fn failed(self: &Arc<Self>, line: &Line, broken: &Broken) -> bool {
        let mut inner = self.lock();
        let is_older = inner
            .lines
            .get(&line.way)
            .is_none_or(|kept| kept.made > line.made && kept.worked);
        // What ends late on connections that were given up says nothing of the way, when newer ones work.
        let moved = match is_older {
            true => None,
            false => inner.ways.failed(line.way, broken.fault, self.now()),
        };
        let to = moved.and_then(|id| inner.ways.endpoint(id).cloned());
        let usable = inner.ways.current() != line.way;
        let several = inner.ways.len() > 1;
        // What still runs is cut off only for a way that may work better.
        if usable && inner.ways.has_alternative(line.way) {
            if let Some(kept) = inner.lines.remove(&line.way) {
                kept.left.raise();
            }
            line.left.raise();
        }
        drop(inner);
        // Where there is one way only, the failure of each request says it.
        if broken.fault == Fault::Stranger && several && !is_older {
            let (at, why) = (&line.endpoint, broken.error.why.as_str());
            self.tell(WayEvent::Refused { at, why });
        }
        if let Some(to) = &to {
            let (from, why) = (&line.endpoint, broken.error.why.as_str());
            self.tell(WayEvent::Left { from, to, why });
        }
        if !is_older {
            self.tell_health();
            tend(self);
        }
        usable
    }

    /// A way works.
    fn works(&self, line: &Line) {
        let mut inner = self.lock();
        let kept = inner.lines.get_mut(&line.way);
        if let Some(kept) = kept.filter(|kept| kept.made == line.made) {
            kept.worked = true;
        }
        let from = inner.ways.current();
        let taken = inner.ways.works(line.way, self.now());
        let from = taken.and_then(|_| inner.ways.endpoint(from).cloned());
        drop(inner);
        if let Some(from) = &from {
            let to = &line.endpoint;
            self.tell(WayEvent::Returned { from, to });
            self.tell_health();
        }
    }

    /// Sends a request, by another way when one cannot be taken.
    async fn send(
        self: Arc<Self>,
        mut request: http::Request<Bytes>,
    ) -> Result<Response, TransportError> {
        let shown = self.credentials.show().await?;
        if let Some(authorization) = shown.authorization {
            let headers = request.headers_mut();
            headers.insert(http::header::AUTHORIZATION, authorization);
        }
        let mut tries = self.lock().ways.len();
        loop {
            let line = {
                let mut inner = self.lock();
                let way = inner.ways.current();
                self.line(&mut inner, way, shown.certificate.clone())?
            };
            let broken = match self.attempt(&line, &request).await {
                Ok(response) => return Ok(response),
                Err(broken) => broken,
            };
            let moved = self.failed(&line, &broken);
            tries = tries.saturating_sub(1);
            // What may have taken effect is not done twice: whoever asked decides.
            let again = broken.unsent || request.method() == Method::GET;
            if !moved || !again || tries == 0 {
                return Err(broken.error);
            }
        }
    }

    /// Sends a request on a way.
    async fn attempt(
        self: &Arc<Self>,
        line: &Line,
        request: &http::Request<Bytes>,
    ) -> Result<Response, Broken> {
        let unsent = |error| Broken {
            error,
            fault: Fault::Unreachable,
            unsent: true,
        };
        let request = aimed(request, &line.endpoint).map_err(unsent)?;
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
        let answer = line.client.request(request.map(Full::new));
        let response = self.patiently(line, answer).await?;
        self.works(line);
        Ok(response.map(|body| self.body(line, is_watch, body)))
    }

    /// Waits for an answer. When it takes long and there is another way, it is looked whether this
    /// one still works.
    async fn patiently<T>(
        self: &Arc<Self>,
        line: &Line,
        answer: impl Future<Output = Result<T, hyper_util::client::legacy::Error>>,
    ) -> Result<T, Broken> {
        let broken = |error: hyper_util::client::legacy::Error| Broken {
            error: TransportError::new(&error),
            fault: match is_stranger(&error) {
                true => Fault::Stranger,
                false => Fault::Unreachable,
            },
            unsent: error.is_connect(),
        };
        let mut answer = std::pin::pin!(answer);
        if let Ok(answered) = within(&*self.env.clock, PATIENCE, &mut answer).await {
            return answered.map_err(broken);
        }
        suspect(self, line);
        let left = std::pin::pin!(line.left.raised());
        match select(answer, left).await {
            Either::Left((answered, _)) => answered.map_err(broken),
            Either::Right(_) => Err(Broken {
                error: TransportError::text(format!("{} stopped answering", line.endpoint)),
                fault: Fault::Unreachable,
                unsent: false,
            }),
        }
    }

    /// The body of an answer, which ends when its way is left: a watch in an orderly way, so that it
    /// is taken up at once where it was, other bodies with an error.
    fn body(self: &Arc<Self>, line: &Line, is_watch: bool, body: hyper::body::Incoming) -> Body {
        let (shared, kept) = (Arc::downgrade(self), line.clone());
        let left = {
            let left = line.left.clone();
            Box::pin(async move { left.raised().await })
        };
        let chunks = body.into_data_stream().map(move |chunk| {
            chunk.map_err(|error| {
                let error = TransportError::new(&error);
                let broken = Broken {
                    error: error.clone(),
                    fault: Fault::Unreachable,
                    unsent: false,
                };
                if let Some(shared) = shared.upgrade() {
                    shared.failed(&kept, &broken);
                }
                error
            })
        });
        let stream: ByteStream = match is_watch {
            true => Box::pin(chunks.take_until(left)),
            false => {
                let text = format!("{} stopped answering", line.endpoint);
                let cut = futures_util::stream::once(left)
                    .map(move |()| Err(TransportError::text(text.clone())));
                Box::pin(until_cut(chunks, cut))
            }
        };
        Body::Bytes(stream)
    }

    /// Asks a server whether it is there, on the connections of its way.
    async fn is_there(&self, line: &Line) -> Result<(), Broken> {
        let unreachable = |error| Broken {
            error,
            fault: Fault::Unreachable,
            unsent: false,
        };
        let shown = self.credentials.show().await.map_err(unreachable)?;
        let mut request = http::Request::new(Bytes::new());
        *request.uri_mut() = http::Uri::from_static(TRIAL_PATH);
        if let Some(authorization) = shown.authorization {
            let headers = request.headers_mut();
            headers.insert(http::header::AUTHORIZATION, authorization);
        }
        let request = aimed(&request, &line.endpoint).map_err(unreachable)?;
        let asking = line.client.request(request.map(Full::new));
        let text = |why: String| unreachable(TransportError::text(why));
        match within(&*self.env.clock, TRIAL, asking).await {
            // Some clusters refuse to say: whoever refuses is there.
            Ok(Ok(answer)) if answer.status().is_server_error() => {
                Err(text(format!("{TRIAL_PATH} says {}", answer.status())))
            }
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Broken {
                fault: match is_stranger(&error) {
                    true => Fault::Stranger,
                    false => Fault::Unreachable,
                },
                error: TransportError::new(&error),
                unsent: false,
            }),
            Err(_) => Err(text(format!("no answer within {}s", TRIAL.as_secs()))),
        }
    }

    /// Tries a way, and keeps what comes of it.
    async fn try_way(self: Arc<Self>, way: WayId) {
        self.try_once(way).await;
        self.lock().ways.end_trial(way);
        self.tell_health();
        // Somebody must come back to a way that is still bad.
        tend(&self);
    }

    async fn try_once(self: &Arc<Self>, way: WayId) {
        let shown = self.credentials.show().await;
        let certificate = shown.ok().and_then(|shown| shown.certificate);
        let line = {
            let mut inner = self.lock();
            match inner.ways.endpoint(way).is_some() {
                true => self.line(&mut inner, way, certificate),
                false => return,
            }
        };
        let Ok(line) = line else {
            return;
        };
        match self.is_there(&line).await {
            Ok(()) => self.works(&line),
            Err(broken) => {
                self.failed(&line, &broken);
                // The next trial is made on new connections.
                let mut inner = self.lock();
                let kept = |id: &WayId, kept: &mut Line| *id != way || kept.made > line.made;
                inner.lines.retain(kept);
            }
        }
    }
}

/// The chunks of a body until something is said in between.
fn until_cut(
    chunks: impl futures_util::Stream<Item = Result<Bytes, TransportError>> + Send + 'static,
    cut: impl futures_util::Stream<Item = Result<Bytes, TransportError>> + Send + 'static,
) -> impl futures_util::Stream<Item = Result<Bytes, TransportError>> + Send {
    // The end of the body is told as `None`, for the cut alone would keep the stream open.
    let ended = chunks.map(Some).chain(futures_util::stream::iter([None]));
    futures_util::stream::select(ended, cut.map(Some))
        .take_while(|chunk| std::future::ready(chunk.is_some()))
        .filter_map(std::future::ready)
}

/// A request with the address of a way before its path.
fn aimed(
    request: &http::Request<Bytes>,
    endpoint: &Endpoint,
) -> Result<http::Request<Bytes>, TransportError> {
    let path = request.uri().path_and_query();
    let url = format!("{endpoint}{}", path.map_or("/", |path| path.as_str()));
    let mut aimed = request.clone();
    *aimed.uri_mut() = url
        .parse()
        .map_err(|error| TransportError::text(format!("{url}: {error}")))?;
    Ok(aimed)
}

/// Looks whether a way still works, where there are others.
fn suspect(shared: &Arc<Shared>, line: &Line) {
    let begun = {
        let mut inner = shared.lock();
        inner.ways.len() > 1 && inner.ways.begin_trial(line.way)
    };
    if begun {
        tokio::spawn(shared.clone().try_way(line.way));
    }
}

/// Sees to it that bad ways are tried again, and new ones once, as long as there are any.
fn tend(shared: &Arc<Shared>) {
    let mut inner = shared.lock();
    if inner.ways.len() > 1 && !inner.tended {
        inner.tended = true;
        tokio::spawn(look_after(Arc::downgrade(shared), shared.env.clone()));
    }
}

async fn look_after(shared: Weak<Shared>, env: Env) {
    loop {
        let pause = {
            let Some(shared) = shared.upgrade() else {
                return;
            };
            let mut inner = shared.lock();
            let now = shared.now();
            let due = inner.ways.due(now);
            let next = inner.ways.next_due();
            let Some(next) = next.or((!due.is_empty()).then_some(now)) else {
                // All ways work, or are being tried: whoever fails next begins this again.
                inner.tended = false;
                return;
            };
            drop(inner);
            for way in due {
                tokio::spawn(shared.clone().try_way(way));
            }
            next.saturating_sub(now)
        };
        env.clock.sleep(pause.max(Duration::from_millis(250))).await;
    }
}

impl Transport for HttpsTransport {
    fn send(&self, request: Request<'_>) -> BoxFuture<'static, Result<Response, TransportError>> {
        Box::pin(self.shared.clone().send(to_wire(request)))
    }

    /// New requests go to new connections, or it is looked whether another way is to be taken; what
    /// still runs on the old ones may end.
    fn suspect(&self) {
        let line = {
            let mut inner = self.shared.lock();
            let current = inner.ways.current();
            let line = inner.lines.get_mut(&current);
            if let Some(kept) = line {
                kept.bad = true;
            }
            inner.lines.get(&current).cloned()
        };
        if let Some(line) = line {
            suspect(&self.shared, &line);
        }
    }

    fn refresh(&self) -> bool {
        self.shared.credentials.refused()
    }
}
