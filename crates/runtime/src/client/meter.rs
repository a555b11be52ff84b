//! What a client has asked for, and how long it took.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use smol_str::SmolStr;

/// The upper bounds of the buckets of latencies, in seconds.
pub(crate) const LATENCY_BUCKETS: [f64; 9] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 15.0];

/// Latencies by bucket.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latency {
    /// How many took at most as long as each bound, not counting those of lower bounds.
    pub buckets: [u64; LATENCY_BUCKETS.len() + 1],
    /// All of them together, in seconds.
    pub sum: f64,
    /// How many.
    pub count: u64,
}

/// Counts requests. Clones of a client share one.
#[derive(Debug, Default)]
pub struct Meter {
    inner: Mutex<Counts>,
}

#[derive(Debug, Default, Clone)]
struct Counts {
    requests: BTreeMap<(SmolStr, SmolStr), u64>,
    latencies: BTreeMap<SmolStr, Latency>,
    log: Option<Vec<String>>,
}

impl Meter {
    /// Notes one request: its method, what came of it (a code or an error's reason) and how long
    /// it took.
    pub(crate) fn note(&self, method: &str, outcome: &str, span: Duration) {
        let mut counts = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        *counts
            .requests
            .entry((method.into(), outcome.into()))
            .or_default() += 1;
        let seconds = span.as_secs_f64();
        let latency = counts.latencies.entry(method.into()).or_default();
        let bucket = LATENCY_BUCKETS
            .iter()
            .position(|bound| seconds <= *bound)
            .unwrap_or(LATENCY_BUCKETS.len());
        latency.buckets[bucket] += 1;
        latency.sum += seconds;
        latency.count += 1;
    }

    pub(crate) fn sent(&self, line: impl FnOnce() -> String) {
        let mut counts = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = &mut counts.log {
            log.push(line());
        }
    }

    /// From now on, keeps a line for each request that is sent.
    pub fn record(&self) {
        let mut counts = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        counts.log.get_or_insert_default();
    }

    /// The lines kept so far, in order.
    pub fn recorded(&self) -> Vec<String> {
        let counts = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        counts.log.clone().unwrap_or_default()
    }

    /// How many requests there were by method and outcome.
    pub fn requests(&self) -> BTreeMap<(SmolStr, SmolStr), u64> {
        let counts = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        counts.requests.clone()
    }

    /// How many requests there were.
    pub fn total(&self) -> u64 {
        self.requests().values().sum()
    }

    /// How long requests took, by method.
    pub fn latencies(&self) -> BTreeMap<SmolStr, Latency> {
        let counts = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        counts.latencies.clone()
    }
}
