//! Several ways to the API servers: addresses of which each may fail, for one replica or for all. The code that chooses
//! among them is the one that ships; what is here is the network.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use everflow_cluster::ApiService;
use everflow_env::{BoxFuture, Dialer, Env, Stream};
use everflow_runtime::client::Transport;
use everflow_runtime::transport::{ClusterConfig, Endpoint, HttpsTransport};
use everflow_serve::{Limits, Port, RequestBody};
use hyper::service::service_fn;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::history::Actor;
use crate::plan::{Fault, Millis, Weather};
use crate::shared::Shared;

/// The address of the Service of the API servers.
pub const CLUSTER_IP: &str = "cluster-ip";
/// How much of an answer is on its way at once.
const BUFFER: usize = 64 << 10;
/// How many connections a replica may have.
const CONNECTIONS: usize = 2_048;

/// How a way is for a replica right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Nothing is wrong.
    Well,
    /// Nobody listens, and what is open breaks.
    Refuses,
    /// Nothing gets through.
    Cut,
    /// Connections are taken, and what is sent there is lost.
    Mute,
    /// Answers take so long.
    Slow(Millis),
}

impl Weather {
    /// What it makes of a way.
    pub fn of_way(&self, way: &str) -> Option<Condition> {
        let (name, condition) = match self {
            Weather::WayDown(name) => (name, Condition::Refuses),
            Weather::WayCut(name) => (name, Condition::Cut),
            Weather::WayMute(name) => (name, Condition::Mute),
            Weather::WaySlow(name, millis) => (name, Condition::Slow(*millis)),
            _ => return None,
        };
        (name == way).then_some(condition)
    }

    /// Whether it is about one way to the API servers, of which there are others.
    pub fn is_of_a_way(&self) -> bool {
        matches!(
            self,
            Weather::WayDown(_) | Weather::WayCut(_) | Weather::WayMute(_) | Weather::WaySlow(..)
        )
    }
}

/// One way of one life of a replica.
#[derive(Debug, Clone)]
struct Way {
    shared: Arc<Shared>,
    replica: usize,
    life: u32,
    name: Arc<str>,
}

impl Way {
    fn condition(&self) -> Condition {
        if !self.shared.lives(self.replica, self.life) {
            return Condition::Cut;
        }
        let weather = self.shared.weather(self.replica);
        let mut weather = weather.iter();
        let found = weather.find_map(|(_, what, _)| what.of_way(&self.name));
        found.unwrap_or(Condition::Well)
    }

    /// Notes that something is wrong with it, once for each connection.
    fn note(&self) {
        let weather = self.shared.weather(self.replica);
        let found = weather
            .iter()
            .find(|(_, what, _)| what.of_way(&self.name).is_some());
        if let Some((fault, what, _)) = found {
            self.shared.hit(fault.class(), || format!("{what:?}"));
        }
    }

    /// When it may be otherwise.
    fn changes(&self) -> Option<Instant> {
        let now = self.shared.millis();
        let faults = self.shared.faults.iter();
        let moments = faults.filter_map(|fault| match fault {
            Fault::Weather {
                replica,
                from,
                lasts,
                what,
            } if *replica == self.replica && what.of_way(&self.name).is_some() => {
                let moments = [*from, from + lasts];
                moments.into_iter().find(|moment| *moment > now)
            }
            _ => None,
        });
        let next = moments.min()?;
        Some(Instant::now() + Duration::from_millis(next - now))
    }

    async fn changed(&self) {
        match self.changes() {
            Some(moment) => tokio::time::sleep_until(moment).await,
            None => std::future::pending().await,
        }
    }
}

/// The network of a replica: the ways to the API servers, and everything else.
#[derive(Clone)]
pub struct WaysDialer {
    hosts: Arc<dyn Dialer>,
    names: Vec<Arc<str>>,
    shared: Arc<Shared>,
    who: (usize, u32),
    service: ApiService,
    port: Port,
}

impl fmt::Debug for WaysDialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaysDialer")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

/// Puts several ways to a service between it and a replica: what the replica sends requests by. `env` has the network
/// from then on.
pub fn between(
    env: &mut Env,
    service: ApiService,
    (shared, who): (&Arc<Shared>, Actor),
    further: &[String],
) -> Option<Arc<dyn Transport>> {
    let Actor::Replica(replica, life) = who else {
        return None;
    };
    let names = std::iter::once(CLUSTER_IP).chain(further.iter().map(String::as_str));
    env.dialer = Arc::new(WaysDialer {
        hosts: env.dialer.clone(),
        names: names.map(Arc::from).collect(),
        shared: shared.clone(),
        who: (replica, life),
        service,
        port: Port::new(env.clock.clone(), Limits::for_connections(CONNECTIONS)),
    });
    let config = ClusterConfig::at(&format!("http://{CLUSTER_IP}"))?;
    let further: Option<Vec<Endpoint>> = further
        .iter()
        .map(|name| Endpoint::parse(&format!("http://{name}")))
        .collect();
    let transport = HttpsTransport::with_ways(env, config, &further?, None).ok()?;
    Some(Arc::new(transport))
}

impl Dialer for WaysDialer {
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let Some(name) = self.names.iter().find(|name| &***name == host) else {
            return self.hosts.connect(host, port);
        };
        let (replica, life) = self.who;
        let way = Way {
            shared: self.shared.clone(),
            replica,
            life,
            name: name.clone(),
        };
        let (service, port) = (self.service.clone(), self.port.clone());
        Box::pin(async move { open(way, service, port).await })
    }
}

async fn open(way: Way, service: ApiService, port: Port) -> io::Result<Box<dyn Stream>> {
    let who = Actor::Replica(way.replica, way.life);
    let history = &way.shared.history;
    history.note(who, || format!("connects to the API by {}", way.name));
    way.note();
    loop {
        match way.condition() {
            Condition::Refuses => {
                let text = format!("dial tcp {}: connect: connection refused", way.name);
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, text));
            }
            Condition::Cut => way.changed().await,
            _ => break,
        }
    }
    let (ours, theirs) = tokio::io::duplex(BUFFER);
    tokio::spawn(async move {
        port.serve(theirs, |connection| async move {
            let answer = service_fn(move |request: hyper::Request<RequestBody>| {
                let service = service.clone();
                async move { Ok::<_, std::convert::Infallible>(service.answer(request).await) }
            });
            connection.http1(answer).await;
        })
        .await;
    });
    Ok(Box::new(WayStream {
        way,
        stream: ours,
        held: None,
        sleep: None,
        lost: false,
    }))
}

/// A connection by a way, with what is wrong there now.
struct WayStream {
    way: Way,
    stream: DuplexStream,
    /// Bytes that are still on their way, and when they arrive.
    held: Option<(Instant, Vec<u8>)>,
    sleep: Option<Pin<Box<Sleep>>>,
    /// Whether something that was sent is lost: nothing more comes then.
    lost: bool,
}

impl WayStream {
    /// Wakes the task at a moment; ready when it is there.
    fn wait(&mut self, until: Option<Instant>, context: &mut Context<'_>) -> Poll<()> {
        let Some(until) = until else {
            return Poll::Pending;
        };
        let mut sleep = match self.sleep.take() {
            Some(sleep) if sleep.deadline() == until => sleep,
            _ => Box::pin(tokio::time::sleep_until(until)),
        };
        let polled = sleep.as_mut().poll(context);
        self.sleep = Some(sleep).filter(|_| polled.is_pending());
        polled
    }

    fn reset() -> io::Error {
        io::ErrorKind::ConnectionReset.into()
    }
}

impl AsyncRead for WayStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let condition = self.way.condition();
            let changes = self.way.changes();
            if condition == Condition::Refuses {
                return Poll::Ready(Err(WayStream::reset()));
            }
            if self.lost || matches!(condition, Condition::Cut | Condition::Mute) {
                match self.wait(changes, context) {
                    Poll::Ready(()) => continue,
                    Poll::Pending => return Poll::Pending,
                }
            }
            if let Some((due, bytes)) = self.held.take() {
                if due <= Instant::now() {
                    let most = bytes.len().min(buffer.remaining());
                    let (now, later) = bytes.split_at(most);
                    buffer.put_slice(now);
                    self.held = (!later.is_empty()).then(|| (due, later.to_vec()));
                    return Poll::Ready(Ok(()));
                }
                self.held = Some((due, bytes));
                let next = changes.map_or(due, |changes| changes.min(due));
                match self.wait(Some(next), context) {
                    Poll::Ready(()) => continue,
                    Poll::Pending => return Poll::Pending,
                }
            }
            let mut bytes = [0; 8192];
            let most = match condition {
                Condition::Well => buffer.remaining().min(bytes.len()),
                _ => bytes.len(),
            };
            let mut part = ReadBuf::new(&mut bytes[..most]);
            match Pin::new(&mut self.stream).poll_read(context, &mut part) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => match self.wait(changes, context) {
                    Poll::Ready(()) => continue,
                    Poll::Pending => return Poll::Pending,
                },
            }
            match condition {
                Condition::Slow(millis) if !part.filled().is_empty() => {
                    let due = Instant::now() + Duration::from_millis(millis);
                    self.held = Some((due, part.filled().to_vec()));
                }
                _ => {
                    buffer.put_slice(part.filled());
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for WayStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.way.condition() {
                Condition::Refuses => return Poll::Ready(Err(WayStream::reset())),
                Condition::Mute => {
                    self.lost = true;
                    return Poll::Ready(Ok(bytes.len()));
                }
                Condition::Cut => {
                    let changes = self.way.changes();
                    match self.wait(changes, context) {
                        Poll::Ready(()) => continue,
                        Poll::Pending => return Poll::Pending,
                    }
                }
                _ if self.lost => return Poll::Ready(Ok(bytes.len())),
                _ => return Pin::new(&mut self.stream).poll_write(context, bytes),
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
