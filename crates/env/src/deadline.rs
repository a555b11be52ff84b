//! Deadlines.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::Clock;

/// The time was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("deadline exceeded")
    }
}

impl std::error::Error for Elapsed {}

/// Waits for a future, but no longer than a span. What is not done by then is dropped.
pub async fn within<T>(
    clock: &dyn Clock,
    span: Duration,
    work: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    let mut work = pin!(work);
    // Much of what is waited for is there already, and needs no timer.
    if let Poll::Ready(result) = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await {
        return Ok(result);
    }
    match select(work, clock.sleep(span)).await {
        Either::Left((result, _)) => Ok(result),
        Either::Right(((), _)) => Err(Elapsed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimulatedClock;

    #[tokio::test(start_paused = true)]
    async fn hanging_future_ends_at_the_deadline() {
        let clock = SimulatedClock::new();
        let hang = std::future::pending::<()>();
        assert_eq!(
            within(&clock, Duration::from_secs(5), hang).await,
            Err(Elapsed)
        );
        assert_eq!(clock.elapsed(), Duration::from_secs(5));
        assert_eq!(
            within(&clock, Duration::from_secs(5), async { 3 }).await,
            Ok(3)
        );
    }
}
