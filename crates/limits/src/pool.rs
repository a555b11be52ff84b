//! Memory that several pieces of work share.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Exceeded;

/// What all work on foreign input may use together.
#[derive(Debug)]
pub struct Pool {
    limit: u64,
    used: AtomicU64,
}

impl Pool {
    /// So many bytes for all.
    pub fn new(limit: u64) -> Self {
        Pool {
            limit,
            used: AtomicU64::new(0),
        }
    }

    /// The bytes for all.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The bytes that are charged at the moment.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes bytes, all or none.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Exceeded> {
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= self.limit)
            });
        match taken {
            Ok(_) => Ok(()),
            Err(_) => Err(Exceeded::Crowded { limit: self.limit }),
        }
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
