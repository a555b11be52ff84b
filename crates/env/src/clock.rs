//! Time.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everflow_time::Timestamp;
use tokio::time::Instant;

use crate::BoxFuture;

/// What time it is, and how to wait.
///
/// Timers and deadlines use [`elapsed`](Clock::elapsed), which never jumps; what is written into
/// objects uses [`now`](Clock::now), which may.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The time of day, as this machine believes it to be.
    fn now(&self) -> Timestamp;
    /// How long this clock has been running. It never goes back.
    fn elapsed(&self) -> Duration;
    /// Waits.
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()>;
    /// The mistake that was planted in the process that has this clock.
    #[cfg(feature = "wrong")]
    fn mistake(&self) -> Option<&dyn crate::Mistake> {
        None
    }
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Starts now.
    pub fn new() -> Self {
        SystemClock {
            start: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanos: since.subsec_nanos(),
        }
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span))
    }
}

/// A clock that starts at a fixed moment and follows tokio's timers, so that under a paused
/// runtime time passes only when everyone waits. The time of day can be made to jump.
#[derive(Debug)]
pub struct SimulatedClock {
    start: Instant,
    jumped_nanos: AtomicI64,
}

/// 2026-01-01T00:00:00Z.
const SIMULATED_START: i64 = 1_767_225_600;

impl SimulatedClock {
    /// Starts at the beginning of 2026.
    pub fn new() -> Self {
        SimulatedClock {
            start: Instant::now(),
            jumped_nanos: AtomicI64::new(0),
        }
    }

    /// Moves the time of day, forwards or back. Timers do not notice.
    pub fn jump(&self, span: everflow_time::Duration) {
        self.jumped_nanos.fetch_add(span.0, Ordering::Relaxed);
    }
}

impl Default for SimulatedClock {
    fn default() -> Self {
        SimulatedClock::new()
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let moment = Timestamp::from_seconds(SIMULATED_START) + self.start.elapsed();
        let jumped = self.jumped_nanos.load(Ordering::Relaxed);
        let span = Duration::from_nanos(jumped.unsigned_abs());
        if jumped < 0 {
            moment - span
        } else {
            moment + span
        }
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn simulated_time_passes_only_by_waiting_and_jumps_when_told() {
        let clock = SimulatedClock::new();
        assert_eq!(clock.now().to_string(), "2026-01-01T00:00:00Z");
        clock.sleep(Duration::from_secs(3_600)).await;
        assert_eq!(clock.now().to_string(), "2026-01-01T01:00:00Z");
        clock.jump(everflow_time::Duration::from_seconds(-7_200));
        assert_eq!(clock.now().to_string(), "2025-12-31T23:00:00Z");
        assert_eq!(clock.elapsed(), Duration::from_secs(3_600));
    }
}
