//! A time of leadership.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::client::Fence;
use crate::error::Error;

/// A time of leadership. It ends by the monotonic clock, whatever happens.
#[derive(Clone)]
pub struct Epoch {
    number: u64,
    lease: Arc<str>,
    ends: Arc<AtomicU64>,
    /// The end of another epoch that this one cannot outlast.
    above: Option<Arc<AtomicU64>>,
    usage: Arc<Usage>,
    clock: Arc<dyn everflow_env::Clock>,
}

/// Who works under an epoch.
#[derive(Debug, Default)]
struct Usage {
    leaving: AtomicBool,
    users: AtomicUsize,
    idle: Arc<Notify>,
}

/// Work under an epoch, which is not handed over before this is dropped.
#[derive(Debug)]
pub struct EpochUse(Arc<Usage>);

impl Drop for EpochUse {
    fn drop(&mut self) {
        if self.0.users.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.idle.notify_one();
        }
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch")
            .field("number", &self.number)
            .field("ends", &self.ends())
            .finish_non_exhaustive()
    }
}

impl Epoch {
    /// An epoch that has ended until it is extended. `idle` is told when nobody works under it any more.
    pub(super) fn new(
        number: u64,
        lease: &str,
        clock: Arc<dyn everflow_env::Clock>,
        above: Option<&Epoch>,
        idle: Arc<Notify>,
    ) -> Self {
        Epoch {
            number,
            lease: lease.into(),
            ends: Arc::default(),
            above: above.map(|above| above.ends.clone()),
            usage: Arc::new(Usage {
                idle,
                ..Usage::default()
            }),
            clock,
        }
    }

    /// Which one: it grows with each change of the holder.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The Lease that it is an epoch of, as NAMESPACE/NAME.
    pub fn lease(&self) -> &str {
        &self.lease
    }

    /// Whether it is the same one.
    pub fn is(&self, other: &Epoch) -> bool {
        Arc::ptr_eq(&self.ends, &other.ends)
    }

    /// Whether it still lasts.
    pub fn check(&self) -> Result<(), Error> {
        self.remaining().map(drop)
    }

    /// Begins work under it, unless it is over or about to be handed over.
    pub fn enter(&self) -> Option<EpochUse> {
        self.usage.users.fetch_add(1, Ordering::SeqCst);
        // Counted before it is looked: whoever hands over looks in the other order.
        let entered = EpochUse(self.usage.clone());
        (!self.is_leaving() && self.check().is_ok()).then_some(entered)
    }

    /// Whether it is about to be handed over: what is under way is finished, or stopped at the next safe point, and
    /// nothing more is begun.
    pub fn is_leaving(&self) -> bool {
        self.usage.leaving.load(Ordering::SeqCst)
    }

    pub(crate) fn set_leaving(&self, leaving: bool) {
        self.usage.leaving.store(leaving, Ordering::SeqCst);
    }

    /// Whether somebody works under it.
    pub(crate) fn is_used(&self) -> bool {
        self.usage.users.load(Ordering::SeqCst) > 0
    }

    fn ends(&self) -> Duration {
        let above = self.above.as_ref();
        let above = above.map_or(u64::MAX, |above| above.load(Ordering::SeqCst));
        Duration::from_nanos(self.ends.load(Ordering::SeqCst).min(above))
    }

    pub(super) fn extend(&self, ends: Duration) {
        let nanos = u64::try_from(ends.as_nanos()).unwrap_or(u64::MAX);
        self.ends.fetch_max(nanos, Ordering::SeqCst);
    }

    pub(crate) fn end(&self) {
        self.ends.store(0, Ordering::SeqCst);
    }
}

impl Fence for Epoch {
    fn remaining(&self) -> Result<Duration, Error> {
        let left = self.ends().saturating_sub(self.clock.elapsed());
        match left.is_zero() {
            true => Err(Error::Fenced { epoch: self.number }),
            false => Ok(left),
        }
    }
}
