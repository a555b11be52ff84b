//! A point in time by which all must be done.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use everflow_env::{Clock, Place, planted, within};

/// A point on a clock. Waits share it, so that many short waits cannot add up to a long one.
#[derive(Debug, Clone)]
pub struct Deadline {
    clock: Arc<dyn Clock>,
    at: Duration,
}

impl Deadline {
    /// So long from now.
    pub fn after(clock: &Arc<dyn Clock>, mut span: Duration) -> Self {
        planted(&**clock, Place::FetchDeadline, &mut span);
        Deadline {
            clock: clock.clone(),
            at: clock.elapsed().saturating_add(span),
        }
    }

    /// What is left; zero when the time is up.
    pub fn left(&self) -> Duration {
        self.at.saturating_sub(self.clock.elapsed())
    }

    /// The same moment, or one so long from now when that comes first.
    pub fn at_most(&self, span: Duration) -> Self {
        Deadline {
            clock: self.clock.clone(),
            at: self.at.min(self.clock.elapsed().saturating_add(span)),
        }
    }

    /// Waits for a future no longer than to this moment; `None` when it was not done by then.
    pub async fn wait<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        within(&*self.clock, self.left(), work).await.ok()
    }

    /// Like [`wait`](Deadline::wait), but no longer than `span`. The error says which of the two
    /// moments came first: `true` for this deadline.
    pub async fn wait_at_most<T>(
        &self,
        mut span: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, bool> {
        planted(&*self.clock, Place::FetchDeadline, &mut span);
        let left = self.left();
        within(&*self.clock, left.min(span), work)
            .await
            .map_err(|_| left <= span)
    }
}
