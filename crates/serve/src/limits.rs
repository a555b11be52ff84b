//! What clients may take.

use std::time::Duration;

/// What the clients of one port may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once. When they are reached, connections without a request under way are dropped for new ones;
    /// when there are none of these, new connections wait.
    pub connections: usize,
    /// Connections of one address at once (of one /64 network with IPv6). Addresses of this machine have no share of
    /// their own: all local programs have the same one, and so do clients that come through a local proxy.
    pub per_address: usize,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long the head of the first request may take, all of it.
    pub head: Duration,
    /// How long after a request the head of the next one may take. It is longer than what clients commonly keep a
    /// connection (90 s), so that they are the ones who close it.
    pub idle: Duration,
    /// How fast bodies must move at least.
    pub pace: Pace,
    /// How long requests under way may take after the stop was asked for.
    pub grace: Duration,
}

/// The least pace: so many bytes in each span in which the other side is waited for. Time in which there is nothing
/// to send, or nobody reads, does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How many bytes.
    pub bytes: u64,
    /// In which time.
    pub span: Duration,
}

impl Limits {
    /// Limits for so many connections, a quarter of them for one address.
    pub fn for_connections(connections: usize) -> Self {
        Limits {
            connections,
            per_address: (connections / 4).max(1),
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            idle: Duration::from_secs(120),
            pace: Pace {
                bytes: 64 << 10,
                span: Duration::from_secs(60),
            },
            grace: Duration::from_secs(2),
        }
    }

    /// The shortest of the spans.
    pub(crate) fn shortest(&self) -> Duration {
        let spans = [self.handshake, self.head, self.idle, self.pace.span];
        spans.into_iter().min().unwrap_or_default()
    }
}

impl Default for Limits {
    /// 512 connections.
    fn default() -> Self {
        Limits::for_connections(512)
    }
}
