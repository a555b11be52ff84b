//! What is queued, and why.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

use everflow_json::is_same;
use smol_str::SmolStr;

/// An object, by kind, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The kind.
    pub kind: SmolStr,
    /// The namespace, empty for objects of the whole cluster.
    pub namespace: SmolStr,
    /// The name.
    pub name: SmolStr,
}

impl Key {
    /// An object's key.
    pub fn new(
        kind: impl Into<SmolStr>,
        namespace: impl Into<SmolStr>,
        name: impl Into<SmolStr>,
    ) -> Self {
        Key {
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl Ord for Key {
    /// By kind, then namespace, then name. Keys are looked up all the time, and most have the kind and the namespace of
    /// their neighbours.
    fn cmp(&self, other: &Self) -> Ordering {
        let parts = [
            (&self.kind, &other.kind),
            (&self.namespace, &other.namespace),
            (&self.name, &other.name),
        ];
        let mut parts = parts
            .map(|(one, two)| (one.as_bytes(), two.as_bytes()))
            .into_iter();
        let differ = parts.find(|(one, two)| !is_same(one, two));
        differ.map_or(Ordering::Equal, |(one, two)| one.cmp(two))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.is_empty() {
            true => write!(f, "{}/{}", self.kind, self.name),
            false => write!(f, "{}/{}/{}", self.kind, self.namespace, self.name),
        }
    }
}

/// Why an attempt is due; the more urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// A person asks for it.
    Request,
    /// The object came, or what it asks for changed.
    Spec,
    /// Something it depends on changed.
    Dependency,
    /// Its time has come.
    Interval,
}

impl Priority {
    /// All, the most urgent first.
    pub const ALL: [Priority; 4] = [
        Priority::Request,
        Priority::Spec,
        Priority::Dependency,
        Priority::Interval,
    ];

    /// Whether it makes an attempt that runs pointless.
    pub fn supersedes(self) -> bool {
        self != Priority::Interval
    }
}

/// When the next attempt is. There is no "never".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// At once.
    Now,
    /// After a span. Failures are forgotten.
    After(Duration),
    /// After a span that grows with each failure of the same cause.
    Backoff {
        /// What failed, as a stable word.
        cause: SmolStr,
        /// Not sooner than this.
        at_least: Duration,
    },
}

/// An attempt to be made now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Of which object.
    pub key: Key,
    /// Why.
    pub priority: Priority,
    /// The number of this attempt, over all objects.
    pub serial: u64,
    /// How long it waited.
    pub waited: Duration,
    /// How many attempts failed in a row before.
    pub failures: u32,
}
