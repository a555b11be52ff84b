//! How fast something moves while it is waited for.

use std::time::Duration;

use crate::limits::Pace;

/// Time spent waiting, and the bytes that moved meanwhile. Several may wait at once.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    waiting: usize,
    /// Since when, while somebody waits.
    since: Duration,
    /// Time spent before that, since enough has moved.
    spent: Duration,
    /// Bytes since enough has moved.
    moved: u64,
    /// When nobody waited any more.
    ended: Duration,
}

impl Meter {
    /// Whether somebody waits.
    pub(crate) fn is_running(&self) -> bool {
        self.waiting > 0
    }

    /// One more waits.
    pub(crate) fn begin(&mut self, now: Duration, pace: Pace) {
        self.waiting += 1;
        if self.waiting > 1 {
            return;
        }
        // What was long ago says nothing about now.
        if now.saturating_sub(self.ended) >= pace.span {
            (self.spent, self.moved) = (Duration::ZERO, 0);
        }
        self.since = now;
    }

    /// One less waits.
    pub(crate) fn end(&mut self, now: Duration) {
        self.waiting = self.waiting.saturating_sub(1);
        if self.waiting == 0 {
            self.spent += now.saturating_sub(self.since);
            self.ended = now;
        }
    }

    /// Bytes moved.
    pub(crate) fn moved(&mut self, bytes: u64, now: Duration, pace: Pace) {
        self.moved = self.moved.saturating_add(bytes);
        if self.moved >= pace.bytes {
            (self.moved, self.spent, self.since) = (0, Duration::ZERO, now);
        }
    }

    /// When it is too slow, unless more moves until then.
    pub(crate) fn deadline(&self, pace: Pace) -> Option<Duration> {
        let left = pace.span.saturating_sub(self.spent);
        self.is_running().then(|| self.since + left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        bytes: 1000,
        span: Duration::from_secs(10),
    };

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn only_time_spent_waiting_counts() {
        let mut meter = Meter::default();
        meter.begin(seconds(1), PACE);
        assert_eq!(meter.deadline(PACE), Some(seconds(11)));
        meter.end(seconds(4));
        assert_eq!(meter.deadline(PACE), None);
        meter.begin(seconds(8), PACE);
        meter.begin(seconds(9), PACE);
        assert_eq!(meter.deadline(PACE), Some(seconds(15)));
        meter.end(seconds(9));
        assert_eq!(meter.deadline(PACE), Some(seconds(15)));
    }

    #[test]
    fn enough_bytes_start_a_new_span_and_few_do_not() {
        let mut meter = Meter::default();
        meter.begin(seconds(0), PACE);
        meter.moved(999, seconds(5), PACE);
        assert_eq!(meter.deadline(PACE), Some(seconds(10)));
        meter.moved(1, seconds(9), PACE);
        assert_eq!(meter.deadline(PACE), Some(seconds(19)));
    }

    #[test]
    fn slowness_of_long_ago_is_forgotten() {
        let mut meter = Meter::default();
        meter.begin(seconds(0), PACE);
        meter.end(seconds(9));
        meter.begin(seconds(30), PACE);
        assert_eq!(meter.deadline(PACE), Some(seconds(40)));
    }
}
