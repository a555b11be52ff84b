//! Work that blocks.

use std::fmt;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::BoxFuture;

/// A place for work that blocks or takes long: packing, hashing, builds.
pub trait Blocking: Send + Sync + fmt::Debug {
    /// Runs the work. When the future is dropped, work that has begun still ends.
    fn run(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()>;
}

/// Runs work that gives a value. `None` means that the work panicked.
pub async fn run_blocking<T: Send + 'static>(
    blocking: &dyn Blocking,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    blocking
        .run(Box::new(move || {
            // Nobody waits any more when the sending fails.
            let _ = sender.send(work());
        }))
        .await;
    receiver.await.ok()
}

/// Threads of their own, so many at once; the others wait for their turn.
#[derive(Debug, Clone)]
pub struct ThreadBlocking {
    slots: Arc<Semaphore>,
}

impl ThreadBlocking {
    /// At most so many pieces of work at once.
    pub fn new(at_once: usize) -> Self {
        ThreadBlocking {
            slots: Arc::new(Semaphore::new(at_once.max(1))),
        }
    }
}

impl Blocking for ThreadBlocking {
    fn run(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let slots = self.slots.clone();
        Box::pin(async move {
            let slot = slots.acquire_owned().await;
            // A panic stays the caller's: its result does not come.
            let _ = tokio::task::spawn_blocking(move || {
                let _slot = slot;
                work();
            })
            .await;
        })
    }
}

/// At once and on the spot: one thread, one order.
#[derive(Debug, Clone, Copy)]
pub struct InlineBlocking;

impl Blocking for InlineBlocking {
    fn run(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_the_callers_alone() {
        for blocking in [
            Box::new(InlineBlocking) as Box<dyn Blocking>,
            Box::new(ThreadBlocking::new(1)),
        ] {
            assert_eq!(run_blocking(&*blocking, || 1 + 1).await, Some(2));
            let broken = run_blocking(&*blocking, || -> u32 { panic!("on purpose") }).await;
            assert_eq!(broken, None);
            assert_eq!(run_blocking(&*blocking, || 3).await, Some(3));
        }
    }
}
