//! How often a delivery is tried before it has to wait longer: in pauses of 2, 4, 8 … 30 seconds, as often as fits
//! into the timeout of the provider, five times at most.

use std::time::Duration;

use everflow_time::Timestamp;

use crate::failure::{Failure, Retry};

const SHORTEST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const TRIES: u32 = 5;

/// Tries of one delivery within one timeout.
#[derive(Debug, Clone)]
pub struct Attempt {
    deadline: Timestamp,
    tries: u32,
}

/// What follows a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// The whole delivery is tried again, then.
    At(Timestamp),
    /// The attempt is over.
    Over(Failure),
}

impl Attempt {
    /// An attempt that begins now.
    pub fn new(now: Timestamp, timeout: Duration) -> Self {
        Attempt {
            deadline: now + timeout,
            tries: 0,
        }
    }

    /// Until when the provider must have answered.
    pub fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// What follows a try that failed.
    pub fn failed(&mut self, failure: Failure, now: Timestamp) -> Next {
        self.tries += 1;
        let Retry::Soon(pause) = failure.retry else {
            return Next::Over(failure);
        };
        if now >= self.deadline {
            let tries = self.tries;
            let cause = format!(
                "{} giving up after {tries} attempt(s): context deadline exceeded ({})",
                failure.request, failure.cause
            );
            return Next::Over(later(failure, cause));
        }
        if self.tries >= TRIES {
            let cause = format!(
                "{} giving up after {TRIES} attempt(s) ({})",
                failure.request, failure.cause
            );
            return Next::Over(later(failure, cause));
        }
        let own = LONGEST_PAUSE.min(SHORTEST_PAUSE * 2_u32.pow(self.tries - 1));
        let then = now + pause.unwrap_or(own);
        if then >= self.deadline {
            let cause = format!("context deadline exceeded ({})", failure.cause);
            return Next::Over(later(failure, cause));
        }
        Next::At(then)
    }
}

/// The failure when its attempt is over: another attempt may succeed.
fn later(failure: Failure, cause: String) -> Failure {
    Failure {
        cause,
        retry: Retry::Later,
        ..failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Stage;

    fn failure(retry: Retry) -> Failure {
        Failure {
            stage: Stage::Send,
            context: "c: ".to_owned(),
            cause: "why".to_owned(),
            request: "POST http://h".to_owned(),
            retry,
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    #[test]
    fn pauses_double_until_the_timeout() {
        let mut attempt = Attempt::new(at(0), Duration::from_secs(15));
        assert_eq!(
            attempt.failed(failure(Retry::Soon(None)), at(0)),
            Next::At(at(2))
        );
        assert_eq!(
            attempt.failed(failure(Retry::Soon(None)), at(2)),
            Next::At(at(6))
        );
        assert_eq!(
            attempt.failed(failure(Retry::Soon(None)), at(6)),
            Next::At(at(14))
        );
        let Next::Over(over) = attempt.failed(failure(Retry::Soon(None)), at(14)) else {
            panic!("there is no time for another try");
        };
        assert_eq!(over.to_string(), "c: context deadline exceeded (why)");
        assert_eq!(over.retry, Retry::Later);
    }

    #[test]
    fn the_pause_that_a_service_asks_for_is_kept_and_five_tries_are_enough() {
        let mut attempt = Attempt::new(at(0), Duration::from_secs(15));
        let pause = Retry::Soon(Some(Duration::from_secs(1)));
        for second in 0..4 {
            assert_eq!(
                attempt.failed(failure(pause), at(second)),
                Next::At(at(second + 1))
            );
        }
        let Next::Over(over) = attempt.failed(failure(pause), at(4)) else {
            panic!("five tries are enough");
        };
        assert_eq!(
            over.to_string(),
            "c: POST http://h giving up after 5 attempt(s) (why)"
        );
    }

    #[test]
    fn a_lasting_failure_is_not_tried_again() {
        let mut attempt = Attempt::new(at(0), Duration::from_secs(15));
        let next = attempt.failed(failure(Retry::Never), at(0));
        assert_eq!(next, Next::Over(failure(Retry::Never)));
    }
}
