//! Something that happens once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A flag that is raised once and stays. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Signal {
    shared: Arc<(AtomicBool, Notify)>,
}

impl Signal {
    /// Not raised.
    pub fn new() -> Self {
        Signal::default()
    }

    /// Raises it.
    pub fn raise(&self) {
        self.shared.0.store(true, Ordering::SeqCst);
        self.shared.1.notify_waiters();
    }

    /// Whether it is raised.
    pub fn is_raised(&self) -> bool {
        self.shared.0.load(Ordering::SeqCst)
    }

    /// Waits until it is raised.
    pub async fn raised(&self) {
        loop {
            let notified = self.shared.1.notified();
            if self.is_raised() {
                return;
            }
            notified.await;
        }
    }
}
