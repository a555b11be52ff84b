//! Everything that happened in a run, in order.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Who does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// A replica of Everflow, and which of its lives.
    Replica(usize, u32),
    /// A person or a foreign program.
    User,
    /// The cluster's own controllers.
    Cluster,
    /// The simulator.
    Fault,
}

impl Actor {
    /// The replica.
    pub fn replica(self) -> Option<usize> {
        match self {
            Actor::Replica(index, _) => Some(index),
            _ => None,
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Actor::Replica(index, 0 | 1) => write!(f, "replica {index}"),
            Actor::Replica(index, life) => write!(f, "replica {index} (life {life})"),
            Actor::User => f.write_str("user"),
            Actor::Cluster => f.write_str("cluster"),
            Actor::Fault => f.write_str("FAULT"),
        }
    }
}

/// The lines of a run. Only counted unless they are to be kept.
#[derive(Debug)]
pub struct History {
    start: Instant,
    kept: bool,
    lines: Mutex<(u64, Vec<String>)>,
}

impl History {
    /// Begins now.
    pub fn new(kept: bool) -> Self {
        History {
            start: Instant::now(),
            kept,
            lines: Mutex::default(),
        }
    }

    /// How long the run has lasted.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Adds a line.
    pub fn note(&self, who: Actor, what: impl FnOnce() -> String) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.0 += 1;
        if self.kept {
            let at = self.now();
            let line = format!(
                "{:>5}.{:03}s  {who}: {}",
                at.as_secs(),
                at.subsec_millis(),
                what()
            );
            lines.1.push(line);
        }
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.1.clone()
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).0
    }
}
