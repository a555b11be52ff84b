//! What can be wrong with a setup.

/// Why controllers cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No controller is called so.
    #[error("there is no controller for {name:?}; there are controllers for {known}")]
    UnknownKind {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// No feature gate is called so.
    #[error("{name:?} is not a feature gate of this program; known are {known}")]
    UnknownGate {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A feature gate is neither on nor off.
    #[error("the feature gate {text:?} has no value: write NAME=true or NAME=false")]
    GateValue {
        /// What was asked for.
        text: String,
    },
}

impl Error {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::UnknownKind { .. } => "UnknownKind",
            Error::UnknownGate { .. } => "UnknownGate",
            Error::GateValue { .. } => "GateValue",
        }
    }
}
