//! How notifications are sent.

use std::time::Duration;

/// How notifications are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What was not delivered within this time is given up.
    pub max_age: Duration,
    /// The same event is told once in this time: Flux's `--rate-limit-interval`.
    pub interval: Duration,
    /// Alerts and Receivers may not name objects in other namespaces.
    pub no_cross_namespace_refs: bool,
    /// Providers may name ServiceAccounts.
    pub object_level_workload_identity: bool,
    /// Only Alerts and Providers of this namespace.
    pub watch_namespace: Option<String>,
    /// The namespace where replicas tell each other what was told; none where there is one replica.
    pub shared_memory: Option<String>,
    /// So many events may wait to be looked at.
    pub waiting: usize,
    /// So many notifications may wait for all providers together. The oldest of the provider with the most is given
    /// up when there are more.
    pub queued: usize,
    /// So many notifications are sent to one provider at once.
    pub at_once: usize,
    /// Of so many different events it is remembered that they were told.
    pub remembered: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_age: Duration::from_secs(3_600),
            interval: Duration::from_secs(300),
            no_cross_namespace_refs: false,
            object_level_workload_identity: false,
            watch_namespace: None,
            shared_memory: None,
            waiting: 4_096,
            queued: 20_000,
            at_once: 4,
            remembered: 100_000,
        }
    }
}

/// A span as the pure crates have it.
pub(crate) fn span(span: Duration) -> everflow_time::Duration {
    everflow_time::Duration(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
}
