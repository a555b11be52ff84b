//! How many requests are under way at once.
//!
//! The server's own signals set it, not a fixed rate: it grows while answers are good, and is
//! halved when the server says that it has too much to do. Writes of statuses have places of their
//! own, so that bulk work does not keep the engine from reporting; leases take none at all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everflow_env::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Never fewer than this.
const LEAST: f64 = 4.0;
/// Never more than this.
const MOST: f64 = 256.0;
/// The first guess.
const FIRST: f64 = 64.0;
/// Writes of statuses that may be under way at once.
const STATUSES: usize = 8;
/// It is halved at most so often: one overload has many answers.
const PATIENCE: Duration = Duration::from_secs(1);

/// Places for requests. Those that find none wait in line.
#[derive(Debug)]
pub(super) struct Budget {
    clock: Arc<dyn Clock>,
    places: Arc<Semaphore>,
    statuses: Arc<Semaphore>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    limit: f64,
    /// Places that exist, those in use that are not to come back not counted.
    places: usize,
    /// Places in use that are not to come back.
    surplus: usize,
    halved: Option<Duration>,
}

/// A place. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    budget: Arc<Budget>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Budget {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Budget {
            clock,
            places: Arc::new(Semaphore::new(FIRST as usize)),
            statuses: Arc::new(Semaphore::new(STATUSES)),
            inner: Mutex::new(Inner {
                limit: FIRST,
                places: FIRST as usize,
                surplus: 0,
                halved: None,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many requests may be under way now.
    pub(super) fn limit(&self) -> usize {
        self.lock().places
    }

    /// Waits for a place, first come, first served.
    pub(super) async fn enter(self: &Arc<Self>) -> Place {
        Place {
            // It is never closed.
            permit: self.places.clone().acquire_owned().await.ok(),
            budget: self.clone(),
        }
    }

    /// Waits for a place for the write of a status.
    pub(super) async fn enter_status(&self) -> Option<OwnedSemaphorePermit> {
        self.statuses.clone().acquire_owned().await.ok()
    }

    /// An answer was good.
    pub(super) fn good(&self) {
        let mut inner = self.lock();
        // One more for each full round of good answers.
        inner.limit = (inner.limit + 1.0 / inner.limit).min(MOST);
        while inner.places < inner.limit as usize {
            inner.places += 1;
            match inner.surplus {
                0 => self.places.add_permits(1),
                _ => inner.surplus -= 1,
            }
        }
    }

    /// The server has too much to do.
    pub(super) fn overloaded(&self) {
        let now = self.clock.elapsed();
        let mut inner = self.lock();
        let lately = |halved: Duration| now.saturating_sub(halved) < PATIENCE;
        if inner.halved.is_some_and(lately) {
            return;
        }
        inner.halved = Some(now);
        inner.limit = (inner.limit / 2.0).max(LEAST);
        let fewer = inner.places - inner.limit as usize;
        inner.places -= fewer;
        inner.surplus += fewer - self.places.forget_permits(fewer);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.budget.lock();
        if inner.surplus > 0
            && let Some(permit) = self.permit.take()
        {
            inner.surplus -= 1;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_env::SimulatedClock;

    #[tokio::test(start_paused = true)]
    async fn the_server_sets_the_pace() {
        let clock = Arc::new(SimulatedClock::new());
        let budget = Arc::new(Budget::new(clock.clone()));
        let mut places = Vec::new();
        for _ in 0..64 {
            places.push(budget.enter().await);
        }
        for _ in 0..50 {
            budget.overloaded();
        }
        assert_eq!(budget.limit(), 32, "one overload has many answers");
        places.truncate(32);
        assert_eq!(budget.places.available_permits(), 0);
        places.truncate(31);
        assert_eq!(budget.places.available_permits(), 1);
        for _ in 0..10 {
            clock.sleep(PATIENCE).await;
            budget.overloaded();
        }
        assert_eq!(budget.limit(), 4);
        places.clear();
        assert_eq!(budget.places.available_permits(), 4);
        for _ in 0..100_000 {
            budget.good();
        }
        assert_eq!(
            (budget.limit(), budget.places.available_permits()),
            (256, 256)
        );
        // One who waits no more takes no place with it.
        let held: Vec<Place> = {
            let mut held = Vec::new();
            for _ in 0..256 {
                held.push(budget.enter().await);
            }
            held
        };
        let impatient = everflow_env::within(&*clock, Duration::from_secs(1), budget.enter()).await;
        assert!(impatient.is_err());
        // Bulk work does not keep statuses from being written.
        let mut statuses = Vec::new();
        for _ in 0..STATUSES {
            statuses.push(budget.enter_status().await);
        }
        assert_eq!(budget.statuses.available_permits(), 0);
        drop(held);
        assert_eq!(budget.places.available_permits(), 256);
    }
}
