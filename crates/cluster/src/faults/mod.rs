//! Where a simulator gets between clients, servers and what is stored.
//!
//! Each seam is a value that the simulator keeps and hands to an [`ApiService`](crate::ApiService) or a
//! [`Store`](crate::store::Store); without it nothing is different and nothing is paid.
//!
//! - [`Faults`]: a verdict on each request, before and after it is handled, and on each watch event: delay, failure, loss,
//!   repetition, another order, the end of the stream, the end of the server.
//! - [`View`]: what one API server of several has seen so far. Clients behind it get older answers wherever the real
//!   server answers from its cache.
//! - [`Line`]: the connection of one client, which can be cut for good or for a while.
//! - [`FaultyJournal`]: a verdict on each write to what is durable, so that a server dies between two writes of one
//!   request, with or without the first of them.
//! - [`Commits`]: is told of every write, with what was there before.
//! - [`Backup`]: all that a server knows at one moment, for the whole cluster to go back to.
//! - [`MemoryDisk`]: what survives such a death, for the next server to start from; the dead one's writes are refused.
//!
//! Nothing here draws random numbers or looks at a clock but tokio's: the same verdicts give the same run.

mod backup;
mod journal;
mod line;
mod view;

use std::sync::Arc;
use std::time::Duration;

pub use backup::Backup;
use bytes::Bytes;
pub use journal::{FaultyJournal, MemoryDisk, WriteFaults, WriteVerdict};
pub use line::Line;
pub(crate) use line::{Cut, Switch};
pub use view::View;

use crate::rest::request::Request;
use crate::rest::watch::Event;
use crate::status::ApiError;
use crate::store::Stored;

/// What happens to a request or to its answer.
#[derive(Debug)]
pub enum Verdict {
    /// Nothing special.
    Pass,
    /// It takes this much longer; requests behind it overtake it.
    Delay(Duration),
    /// It fails with this Status.
    Fail(Box<ApiError>),
    /// The connection breaks.
    Drop,
    /// It is handled twice, as when something between repeats it; the client sees the second answer.
    Duplicate,
    /// The server dies here: this connection breaks, and so do all others. See [`ApiServer::crash`](crate::ApiServer::crash).
    Crash,
    /// It is handled only after this time, whatever has become of the client by then: it may have given up, or died.
    Later {
        /// After how long.
        after: Duration,
        /// Whether the connection breaks at once; otherwise the client waits for the answer.
        breaks: bool,
    },
}

/// What happens to one watch event.
#[derive(Debug)]
pub enum EventVerdict {
    /// It is delivered.
    Pass,
    /// It is delivered later, and everything behind it, too.
    Delay(Duration),
    /// It is lost.
    Drop,
    /// It is delivered twice.
    Duplicate,
    /// It is delivered behind this many later events of its stream; lost when the stream ends before.
    Behind(usize),
    /// The stream ends before it.
    Close,
    /// The stream ends before it with the word that its history is gone (410).
    Expire,
    /// The server dies before it is sent.
    Crash,
    /// Something else is sent in its place.
    Replace(Bytes),
}

/// The hook at each request and each watch event.
pub trait Faults: Send + Sync + 'static {
    /// Before the request is handled: nothing of it has happened yet.
    fn before(&self, _request: &Request) -> Verdict {
        Verdict::Pass
    }

    /// The request is handled now: whatever is written until [`Faults::after`] follows from it.
    fn handling(&self, _request: &Request) {}

    /// After the request was handled and before its answer is sent: its effects have happened. A second handling
    /// ([`Verdict::Duplicate`]) happens here, too.
    fn after(&self, _request: &Request, _status: u16) -> Verdict {
        Verdict::Pass
    }

    /// Before a watch event is sent.
    fn event(&self, _request: &Request, _event: &Event) -> EventVerdict {
        EventVerdict::Pass
    }
}

/// Is told of everything that is written to a store that was [forked](crate::store::Store::fork) for it.
pub trait Commits: Send + Sync + 'static {
    /// An object was written or, without `new`, deleted; `old` is what was there before.
    fn committed(
        &self,
        table: &str,
        key: &str,
        new: Option<&Arc<Stored>>,
        old: Option<&Arc<Stored>>,
    );
}

/// No faults.
#[derive(Debug, Default)]
pub struct NoFaults;

impl Faults for NoFaults {}
