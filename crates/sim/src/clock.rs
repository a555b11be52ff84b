//! The clock of one replica: it may be ahead or behind, run fast or slow, and jump.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use everflow_env::{BoxFuture, Clock};
use everflow_time::Timestamp;
use tokio::time::Instant;

/// 2026-01-01T00:00:00Z, as the cluster has it.
const START: i64 = 1_767_225_600;

/// A clock that a seed sets wrong.
#[derive(Debug)]
pub struct WrongClock {
    start: Instant,
    offset_millis: AtomicI64,
    /// How much faster it runs, in millionths; negative when slower.
    drift: i64,
    /// Until when the process stands still, in nanoseconds since the start.
    stopped: Arc<AtomicU64>,
    #[cfg(feature = "wrong")]
    mistake: Option<crate::Mistake>,
}

impl WrongClock {
    /// A clock that is off by so many milliseconds and runs so many millionths too fast.
    pub fn new(start: Instant, offset_millis: i64, drift: i64) -> Self {
        WrongClock {
            start,
            offset_millis: AtomicI64::new(offset_millis),
            drift,
            stopped: Arc::default(),
            #[cfg(feature = "wrong")]
            mistake: None,
        }
    }

    /// The clock of a process with a mistake.
    #[cfg(feature = "wrong")]
    pub fn with_mistake(mut self, mistake: Option<crate::Mistake>) -> Self {
        self.mistake = mistake;
        self
    }

    /// The time of day jumps. Timers do not notice.
    pub fn jump(&self, millis: i64) {
        self.offset_millis.fetch_add(millis, Ordering::Relaxed);
    }

    /// The process stands still for so long, and its clock goes on: nobody in it wakes before.
    pub fn stop_for(&self, span: Duration) {
        let until = self.start.elapsed() + span;
        let until = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
        self.stopped.fetch_max(until, Ordering::Relaxed);
    }

    /// Another process begins.
    pub fn go_on(&self) {
        self.stopped.store(0, Ordering::Relaxed);
    }

    /// For how much longer the process stands still.
    pub fn stopped(&self) -> Option<Duration> {
        left(&self.stopped, self.start)
    }

    fn as_it_runs(&self, real: Duration) -> Duration {
        let nanos = i128::try_from(real.as_nanos()).unwrap_or(i128::MAX);
        let run = nanos + nanos * i128::from(self.drift) / 1_000_000;
        Duration::from_nanos(u64::try_from(run).unwrap_or_default())
    }

    fn really(&self, shown: Duration) -> Duration {
        if self.drift == 0 {
            return shown;
        }
        let nanos = i128::try_from(shown.as_nanos()).unwrap_or(i128::MAX / 2_000_000);
        let real = nanos * 1_000_000 / i128::from(1_000_000 + self.drift);
        // Never short of the moment that was asked for.
        Duration::from_nanos(u64::try_from(real).unwrap_or(u64::MAX)) + Duration::from_micros(1)
    }
}

fn left(stopped: &AtomicU64, start: Instant) -> Option<Duration> {
    let until = Duration::from_nanos(stopped.load(Ordering::Relaxed));
    Some(until.saturating_sub(start.elapsed())).filter(|left| !left.is_zero())
}

impl Clock for WrongClock {
    fn now(&self) -> Timestamp {
        let moment = Timestamp::from_seconds(START) + self.as_it_runs(self.start.elapsed());
        let offset = self.offset_millis.load(Ordering::Relaxed);
        let span = Duration::from_millis(offset.unsigned_abs());
        match offset < 0 {
            true => moment - span,
            false => moment + span,
        }
    }

    fn elapsed(&self) -> Duration {
        self.as_it_runs(self.start.elapsed())
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        let (span, stopped, start) = (self.really(span), self.stopped.clone(), self.start);
        Box::pin(async move {
            tokio::time::sleep(span).await;
            while let Some(left) = left(&stopped, start) {
                tokio::time::sleep(left).await;
            }
        })
    }

    #[cfg(feature = "wrong")]
    fn mistake(&self) -> Option<&dyn everflow_env::Mistake> {
        let mistake = self.mistake.as_ref()?;
        Some(mistake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fast_clock_shows_more_and_sleeps_shorter() {
        let clock = WrongClock::new(Instant::now(), -60_000, 10_000);
        let began = Instant::now();
        clock.sleep(Duration::from_secs(101)).await;
        let real = began.elapsed();
        assert!(real >= Duration::from_secs(100) && real < Duration::from_millis(100_002));
        assert!(clock.elapsed() >= Duration::from_secs(101));
        // Timers wake on whole milliseconds, so the second is what can be told.
        let shown = |clock: &WrongClock| clock.now().to_string()[..19].to_owned();
        assert_eq!(shown(&clock), "2026-01-01T00:00:41");
        clock.jump(60_000);
        assert_eq!(shown(&clock), "2026-01-01T00:01:41");
    }

    #[tokio::test(start_paused = true)]
    async fn timers_do_not_fire_while_the_process_is_stopped() {
        let clock = WrongClock::new(Instant::now(), 0, 0);
        let began = Instant::now();
        clock.stop_for(Duration::from_secs(60));
        clock.sleep(Duration::from_secs(5)).await;
        assert_eq!(began.elapsed().as_secs(), 60);
        assert_eq!(clock.elapsed().as_secs(), 60);
        assert_eq!(clock.stopped(), None);
    }
}
