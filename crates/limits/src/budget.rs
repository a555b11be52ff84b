//! What one piece of work may use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{Exceeded, Pool};

/// A flag that tells work to end. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Not raised.
    pub fn new() -> Self {
        Stop::default()
    }

    /// Tells the work to end. It cannot be taken back.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the work should end.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one piece of work may use: it is asked in long loops and charged for what grows with foreign
/// input. What was charged goes back to the pool when the budget is dropped.
///
/// Charges are estimates of what is held at the same time, not of what was ever allocated: what is
/// freed again is [released](Budget::release), or left charged where work that produces so much in all
/// should end.
#[derive(Debug)]
pub struct Budget {
    stop: Stop,
    share: u64,
    used: AtomicU64,
    pool: Option<Arc<Pool>>,
}

impl Budget {
    /// Without a bound, and never stopped: for trusted input and for tests.
    pub fn unlimited() -> Self {
        Budget::new(Stop::new(), u64::MAX)
    }

    /// At most `share` bytes, until `stop` is raised.
    pub fn new(stop: Stop, share: u64) -> Self {
        Budget {
            stop,
            share,
            used: AtomicU64::new(0),
            pool: None,
        }
    }

    /// A budget of its own with the same flag, share and pool, for what has to own one.
    #[must_use]
    pub fn sibling(&self) -> Self {
        Budget {
            stop: self.stop.clone(),
            share: self.share,
            used: AtomicU64::new(0),
            pool: self.pool.clone(),
        }
    }

    /// The same, with the bytes taken from what all work may use together.
    #[must_use]
    pub fn within(mut self, pool: Arc<Pool>) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Fails when the work should end. Cheap enough for every turn of a loop.
    #[inline]
    pub fn check(&self) -> Result<(), Exceeded> {
        if self.stop.is_raised() {
            return Err(Exceeded::Stopped);
        }
        Ok(())
    }

    /// Charges bytes that are about to be allocated. Also [checks](Budget::check).
    pub fn charge(&self, bytes: usize) -> Result<(), Exceeded> {
        self.check()?;
        let bytes = bytes as u64;
        let used = self.used.load(Ordering::Relaxed);
        if used.checked_add(bytes).is_none_or(|sum| sum > self.share) {
            return Err(Exceeded::Memory { limit: self.share });
        }
        if let Some(pool) = &self.pool {
            pool.take(bytes)?;
        }
        self.used.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Gives back bytes that were charged and are freed now; never more than was charged.
    pub fn release(&self, bytes: usize) {
        let bytes = (bytes as u64).min(self.used.load(Ordering::Relaxed));
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(pool) = &self.pool {
            pool.give_back(bytes);
        }
    }

    /// The bytes that are charged at the moment.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The most bytes that may be charged.
    pub fn share(&self) -> u64 {
        self.share
    }

    /// The flag that ends the work.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }
}

impl Default for Budget {
    fn default() -> Self {
        Budget::unlimited()
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.give_back(self.used.load(Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_stop_ends_checks_and_charges() {
        let stop = Stop::new();
        let budget = Budget::new(stop.clone(), 100);
        assert_eq!(budget.check(), Ok(()));
        stop.raise();
        assert_eq!(budget.check(), Err(Exceeded::Stopped));
        assert_eq!(budget.charge(1), Err(Exceeded::Stopped));
    }

    #[test]
    fn charges_beyond_the_share_fail_and_are_not_counted() {
        let budget = Budget::new(Stop::new(), 100);
        budget.charge(60).unwrap();
        assert_eq!(budget.charge(41), Err(Exceeded::Memory { limit: 100 }));
        assert_eq!(budget.used(), 60);
        budget.release(1_000);
        assert_eq!(budget.used(), 0);
        assert_eq!(
            budget.charge(usize::MAX),
            Err(Exceeded::Memory { limit: 100 })
        );
    }

    #[test]
    fn a_pool_is_shared_and_gets_back_what_a_dropped_budget_held() {
        let pool = Arc::new(Pool::new(100));
        let one = Budget::new(Stop::new(), 80).within(pool.clone());
        let other = Budget::new(Stop::new(), 80).within(pool.clone());
        one.charge(70).unwrap();
        assert_eq!(other.charge(40), Err(Exceeded::Crowded { limit: 100 }));
        drop(one);
        other.charge(40).unwrap();
        other.release(10);
        assert_eq!(pool.used(), 30);
        drop(other);
        assert_eq!(pool.used(), 0);
    }
}
