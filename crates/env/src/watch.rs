//! A watch channel: a value whose changes can be waited for.
//!
//! It does what tokio's `watch` does, but wakes its receivers in the order in which they began to wait. Tokio's wakes
//! them in an order left to chance that no seed fixes: a simulated run could not be repeated.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::Notify;

struct Shared<T> {
    value: RwLock<T>,
    version: AtomicU64,
    closed: AtomicBool,
    notify: Notify,
}

/// Changes the value.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// Sees the value and waits for its changes.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

/// The value, held for reading.
pub struct Ref<'a, T>(RwLockReadGuard<'a, T>);

/// Nobody is left who could change the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody is left who could change the value")]
pub struct Closed;

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Receiver {
            shared: self.shared.clone(),
            seen: self.seen,
        }
    }
}

impl<T> Shared<T> {
    fn borrow(&self) -> Ref<'_, T> {
        Ref(self.value.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Sender<T> {
    /// With a first value.
    pub fn new(value: T) -> Self {
        Sender {
            shared: Arc::new(Shared {
                value: RwLock::new(value),
                version: AtomicU64::new(0),
                closed: AtomicBool::new(false),
                notify: Notify::new(),
            }),
        }
    }

    /// The value now.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.shared.borrow()
    }

    /// Changes the value and gives back the one before.
    pub fn send_replace(&self, value: T) -> T {
        let mut value = value;
        self.send_if_modified(|known| {
            std::mem::swap(known, &mut value);
            true
        });
        value
    }

    /// Changes the value; those who wait are told when `change` says so.
    pub fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let mut value = self
            .shared
            .value
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut value);
        drop(value);
        if changed {
            self.shared.version.fetch_add(1, Ordering::SeqCst);
            self.shared.notify.notify_waiters();
        }
        changed
    }

    /// Somebody who sees the value, and changes from now on.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver {
            seen: self.shared.version.load(Ordering::SeqCst),
            shared: self.shared.clone(),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.notify.notify_waiters();
    }
}

impl<T> Receiver<T> {
    /// The value now.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.shared.borrow()
    }

    /// The value now; changes until now count as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        self.seen = self.shared.version.load(Ordering::SeqCst);
        self.shared.borrow()
    }

    /// Waits for a change that was not seen yet.
    ///
    /// # Errors
    /// Nobody is left who could change the value.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            let mut told = std::pin::pin!(self.shared.notify.notified());
            told.as_mut().enable();
            let version = self.shared.version.load(Ordering::SeqCst);
            if version != self.seen {
                self.seen = version;
                return Ok(());
            }
            if self.shared.closed.load(Ordering::SeqCst) {
                return Err(Closed);
            }
            told.await;
        }
    }

    /// Waits until the value is as asked for.
    ///
    /// # Errors
    /// Nobody is left who could change the value.
    pub async fn wait_for(&mut self, asked: impl Fn(&T) -> bool) -> Result<(), Closed> {
        while !asked(&self.borrow()) {
            self.changed().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn receiver_sees_each_change_once_and_the_close() {
        let sender = Sender::new(1);
        let mut receiver = sender.subscribe();
        assert_eq!(sender.send_replace(2), 1);
        receiver.changed().await.unwrap();
        assert_eq!(*receiver.borrow(), 2);
        assert!(!sender.send_if_modified(|_| false));
        let mut waiting = receiver.clone();
        let waits = tokio::spawn(async move { waiting.wait_for(|value| *value == 5).await });
        tokio::task::yield_now().await;
        sender.send_replace(5);
        waits.await.unwrap().unwrap();
        receiver.changed().await.unwrap();
        drop(sender);
        assert_eq!(receiver.changed().await, Err(Closed));
    }
}
