//! What can be wrong with what the simulator is given.

use std::path::PathBuf;

/// Why a simulation could not be run. What it finds is no error: see [`Finding`](crate::Finding).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A scenario is not what it should be.
    #[error("{file}: {why}; `everflow sim show basic` prints a scenario to compare with")]
    Scenario {
        /// Where it came from.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// There is no such scenario.
    #[error(
        "there is no scenario {name:?}; `everflow sim list` shows them, and a path ending in .yaml is read as a file"
    )]
    NoScenario {
        /// What was asked for.
        name: String,
    },
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The runtime could not be made.
    #[error("cannot make a runtime: {0}")]
    Runtime(#[source] std::io::Error),
    /// The world could not be set up: the scenario asks for something that the API refuses.
    #[error("{scenario}: {what}: {why}")]
    Setup {
        /// Which scenario.
        scenario: String,
        /// What was done.
        what: String,
        /// What the API said.
        why: String,
    },
    /// Without any fault the scenario does not end as it says.
    #[error("{scenario}: without any fault: {why}")]
    Baseline {
        /// Which scenario.
        scenario: String,
        /// What is wrong.
        why: String,
    },
}

impl Error {
    /// A stable word for the kind of error.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Scenario { .. } => "InvalidScenario",
            Error::NoScenario { .. } => "NoSuchScenario",
            Error::Read { .. } => "ReadFailed",
            Error::Runtime(_) => "RuntimeFailed",
            Error::Setup { .. } => "SetupFailed",
            Error::Baseline { .. } => "FailsWithoutFaults",
        }
    }
}
