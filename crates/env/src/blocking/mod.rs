//! Work that blocks or takes long, on foreign input above all.

mod threads;
mod turns;

use std::fmt;
use std::sync::Arc;

use everflow_limits::{Budget, Pool, Stop};

pub use threads::{Overdue, ThreadBlocking, ThreadOptions};

use crate::BoxFuture;

/// On whose behalf work is done: slots are shared fairly among kinds and namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane {
    /// The kind of the object, such as `GitRepository`; empty for work of the program itself.
    pub kind: String,
    /// The namespace of the object.
    pub namespace: String,
    /// The object's name, for messages only.
    pub name: String,
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind.is_empty() {
            return f.write_str("the program itself");
        }
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// A piece of work with what it needs to be admitted and ended.
pub struct Job {
    /// On whose behalf.
    pub lane: Lane,
    /// Raised when nobody waits for the result any more.
    pub stop: Stop,
    /// Whether it works on foreign input, which may break the process.
    pub foreign: bool,
    /// The work. It asks its budget whether to go on.
    pub work: Box<dyn FnOnce(&Budget) + Send>,
}

/// A place for work that blocks or takes long: packing, hashing, builds.
pub trait Blocking: Send + Sync + fmt::Debug {
    /// Runs a job. When the future is dropped before it has begun, the job never runs; when it has
    /// begun it goes on until it asks its budget.
    fn run(&self, job: Job) -> BoxFuture<'static, ()>;

    /// Jobs that go on although they were told to stop.
    fn overdue(&self) -> Vec<Overdue> {
        Vec::new()
    }

    /// What all jobs may use together, where that is known.
    fn memory(&self) -> Option<Arc<Pool>> {
        None
    }
}

/// Raises the stop flag unless the work has ended.
struct StopOnDrop {
    stop: Stop,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        // The flag of work that has ended is asked by nobody.
        self.stop.raise();
    }
}

/// Runs work that gives a value and is short whatever its input. `None` means that the work panicked.
pub async fn run_blocking<T: Send + 'static>(
    blocking: &dyn Blocking,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    run_job(blocking, false, |_| work()).await
}

/// Runs work on foreign input. Its budget tells it to stop when the future is dropped, because a
/// deadline is over, something newer is asked for or the program ends; what it charges counts
/// against its share of memory. `None` means that the work panicked.
pub async fn run_budgeted<T: Send + 'static>(
    blocking: &dyn Blocking,
    work: impl FnOnce(&Budget) -> T + Send + 'static,
) -> Option<T> {
    run_job(blocking, true, work).await
}

async fn run_job<T: Send + 'static>(
    blocking: &dyn Blocking,
    foreign: bool,
    work: impl FnOnce(&Budget) -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let stop = Stop::new();
    let _guard = StopOnDrop { stop: stop.clone() };
    let job = Job {
        lane: Lane::default(),
        stop,
        foreign,
        work: Box::new(move |budget| {
            // Nobody waits any more when the sending fails.
            let _ = sender.send(work(budget));
        }),
    };
    blocking.run(job).await;
    receiver.await.ok()
}

/// The same place, on behalf of one object.
#[derive(Debug, Clone)]
pub struct LaneBlocking {
    inner: Arc<dyn Blocking>,
    lane: Lane,
}

impl LaneBlocking {
    /// Work goes to `inner` in the name of `lane`.
    pub fn new(inner: Arc<dyn Blocking>, lane: Lane) -> Self {
        LaneBlocking { inner, lane }
    }
}

impl Blocking for LaneBlocking {
    fn run(&self, mut job: Job) -> BoxFuture<'static, ()> {
        job.lane = self.lane.clone();
        self.inner.run(job)
    }

    fn overdue(&self) -> Vec<Overdue> {
        self.inner.overdue()
    }

    fn memory(&self) -> Option<Arc<Pool>> {
        self.inner.memory()
    }
}

/// At once and on the spot: one thread, one order.
#[derive(Debug, Clone, Copy)]
pub struct InlineBlocking;

impl Blocking for InlineBlocking {
    fn run(&self, job: Job) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let budget = Budget::new(job.stop, DEFAULT_SHARE);
            let work = std::panic::AssertUnwindSafe(|| (job.work)(&budget));
            let _ = std::panic::catch_unwind(work);
        })
    }
}

/// The memory of one piece of work where nobody says otherwise. The largest build of the public
/// repositories that were tried takes a tenth of it.
pub const DEFAULT_SHARE: u64 = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_of_a_job_reaches_its_caller_only() {
        for blocking in [
            Box::new(InlineBlocking) as Box<dyn Blocking>,
            Box::new(ThreadBlocking::new(ThreadOptions {
                slots: 1,
                ..ThreadOptions::default()
            })),
        ] {
            assert_eq!(run_blocking(&*blocking, || 1 + 1).await, Some(2));
            let broken = run_blocking(&*blocking, || -> u32 { panic!("on purpose") }).await;
            assert_eq!(broken, None);
            assert_eq!(run_blocking(&*blocking, || 3).await, Some(3));
        }
    }
}
