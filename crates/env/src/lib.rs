//! The world as the controllers see it.
//!
//! Whatever is not a pure function of its input goes through an [`Env`]: the time, chance,
//! connections to other machines, files, and work that blocks. The program gives the real ones,
//! the simulator gives ones that it steers, and the code between cannot tell. The Kubernetes API
//! is not in here: it is a client that the runtime holds beside the `Env`.

#![forbid(unsafe_code)]

mod blocking;
mod clock;
mod deadline;
mod dialer;
pub mod disk;
pub mod memory;
mod offline;
mod planted;
mod random;
pub mod tls;
pub mod watch;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use blocking::{
    Blocking, DEFAULT_SHARE, InlineBlocking, Job, Lane, LaneBlocking, Overdue, ThreadBlocking,
    ThreadOptions, run_blocking, run_budgeted,
};
pub use clock::{Clock, SimulatedClock, SystemClock};
pub use deadline::{Elapsed, within};
pub use dialer::{Dialer, MemoryDialer, Stream, TcpDialer};
pub use disk::{BoundedDisk, Disk, MemoryDisk, RealDisk};
pub use offline::OfflineDialer;
#[cfg(feature = "wrong")]
pub use planted::Mistake;
pub use planted::{Place, planted};
pub use random::{Random, SeededRandom, SystemRandom};

/// A future that any thread may finish.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a controller has of the world. Clones share everything.
#[derive(Clone, Debug)]
pub struct Env {
    /// What time it is, and how to wait.
    pub clock: Arc<dyn Clock>,
    /// Chance: jitter, names, salts.
    pub random: Arc<dyn Random>,
    /// Connections to other machines.
    pub dialer: Arc<dyn Dialer>,
    /// The area on disk that is ours.
    pub disk: Arc<dyn Disk>,
    /// A place for work that blocks or takes long.
    pub blocking: Arc<dyn Blocking>,
}

impl Env {
    /// The same world on behalf of one object, whose blocking work takes turns with that of others.
    #[must_use]
    pub fn on_behalf_of(&self, lane: Lane) -> Self {
        let mut env = self.clone();
        env.blocking = Arc::new(LaneBlocking::new(self.blocking.clone(), lane));
        env
    }

    /// The real world, with the files below a directory.
    pub fn system(disk: impl Disk + 'static) -> Self {
        Env::system_with(disk, ThreadOptions::for_memory(memory::limit()))
    }

    /// The same, with bounds for work that blocks.
    pub fn system_with(disk: impl Disk + 'static, threads: ThreadOptions) -> Self {
        Env {
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(SystemRandom),
            dialer: Arc::new(TcpDialer),
            disk: Arc::new(disk),
            blocking: Arc::new(ThreadBlocking::new(threads)),
        }
    }

    /// A world that a seed fixes: time that passes only when everyone waits (under tokio's paused
    /// clock), files in memory, nothing to connect to but what `dialer` offers.
    pub fn simulated(seed: u64, dialer: MemoryDialer) -> Self {
        Env {
            clock: Arc::new(SimulatedClock::new()),
            random: Arc::new(SeededRandom::new(seed)),
            dialer: Arc::new(dialer),
            disk: Arc::new(MemoryDisk::new()),
            blocking: Arc::new(InlineBlocking),
        }
    }
}
