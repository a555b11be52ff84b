//! Budgets for work on foreign input.
//!
//! Whatever comes from a tenant (a repository, a chart, an archive, a server's answer) is worked on
//! under a [`Budget`]: long loops ask it whether to go on, and what grows with the input is charged to
//! it. Pure crates take a `&Budget`; who runs the work says how large it is and when it stops.

#![forbid(unsafe_code)]

mod budget;
mod held;
mod pool;

pub use budget::{Budget, Stop};
pub use held::Held;
pub use pool::Pool;

/// Why work on foreign input ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// Nobody waits for the result any more: the deadline is over or the program ends.
    #[error("stopped before it was done: the time for it is over")]
    Stopped,
    /// The work has grown beyond its own share of memory.
    #[error(
        "needs more than the {} of memory that one piece of work may use: make it smaller, or raise {MEMORY_FLAG}",
        Bytes(*.limit)
    )]
    Memory {
        /// The share, in bytes.
        limit: u64,
    },
    /// All work together has used up what the process may use.
    #[error(
        "not enough memory is left for it at the moment ({} for all work together): it is tried again",
        Bytes(*.limit)
    )]
    Crowded {
        /// What all work together may use, in bytes.
        limit: u64,
    },
    /// Too many of something, or too much of it.
    #[error("more than {limit} {what}: make it smaller, or raise {flag}")]
    Count {
        /// What was counted, in the plural: `"objects in one build"`.
        what: &'static str,
        /// How many are allowed.
        limit: u64,
        /// The option that sets the limit, such as `--max-build-objects`.
        flag: &'static str,
    },
    /// Nested deeper than is followed.
    #[error("{what} nested deeper than {limit} levels")]
    Depth {
        /// What is nested.
        what: &'static str,
        /// The deepest level that is followed.
        limit: u64,
    },
}

/// The option that sets the share of memory of one piece of work.
pub const MEMORY_FLAG: &str = "--max-work-memory";

impl Exceeded {
    /// The stable reason code.
    pub fn reason(&self) -> &'static str {
        match self {
            Exceeded::Stopped => "DeadlineExceeded",
            Exceeded::Memory { .. } | Exceeded::Count { .. } | Exceeded::Depth { .. } => {
                "LimitExceeded"
            }
            Exceeded::Crowded { .. } => "MemoryPressure",
        }
    }

    /// Whether the same work may succeed later without a change of its input.
    pub fn is_transient(&self) -> bool {
        matches!(self, Exceeded::Stopped | Exceeded::Crowded { .. })
    }
}

/// Fails when `count` is above `limit`.
pub fn at_most(
    count: u64,
    limit: u64,
    what: &'static str,
    flag: &'static str,
) -> Result<(), Exceeded> {
    if count > limit {
        return Err(Exceeded::Count { what, limit, flag });
    }
    Ok(())
}

/// Prints a number of bytes with its unit: `512 MiB`.
#[derive(Debug, Clone, Copy)]
pub struct Bytes(pub u64);

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        for (size, unit) in UNITS {
            if self.0 >= size && self.0.is_multiple_of(size) {
                return write!(f, "{} {unit}", self.0 / size);
            }
        }
        write!(f, "{} bytes", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_limit_and_the_flag() {
        let error = at_most(11, 10, "objects in one build", "--max-build-objects").unwrap_err();
        let text =
            "more than 10 objects in one build: make it smaller, or raise --max-build-objects";
        assert_eq!(error.to_string(), text);
        assert_eq!(error.reason(), "LimitExceeded");
        assert!(!error.is_transient());
        assert!(
            Exceeded::Memory { limit: 512 << 20 }
                .to_string()
                .contains("512 MiB")
        );
        assert_eq!(at_most(10, 10, "objects", "--x"), Ok(()));
    }

    #[test]
    fn bytes_are_printed_with_the_largest_exact_unit() {
        assert_eq!(Bytes(1 << 30).to_string(), "1 GiB");
        assert_eq!(Bytes(1536).to_string(), "1536 bytes");
        assert_eq!(Bytes(3 << 10).to_string(), "3 KiB");
    }
}
