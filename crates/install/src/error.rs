//! What can be wrong with what was asked for.

/// Why there are no manifests.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An option has a value that makes no sense.
    #[error("{option}: {why}")]
    Option {
        /// The option, as the command line has it.
        option: &'static str,
        /// What is wrong, and what to write instead.
        why: String,
    },
    /// A controller that this program does not stand for.
    #[error("component {name} is not supported: {why}")]
    Component {
        /// Its name.
        name: String,
        /// What there is instead.
        why: String,
    },
    /// A field of a FluxInstance.
    #[error("FluxInstance {field}: {why}")]
    Instance {
        /// The path of the field.
        field: String,
        /// What is wrong, and what to write instead.
        why: String,
    },
    /// A patch of a FluxInstance.
    #[error("FluxInstance spec.kustomize.patches[{index}] cannot be applied: {why}")]
    Patch {
        /// Its place in the list.
        index: usize,
        /// Why.
        why: String,
    },
}

impl Error {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Option { .. } => "InvalidOption",
            Error::Component { .. } => "ComponentNotSupported",
            Error::Instance { .. } => "InvalidInstance",
            Error::Patch { .. } => "PatchFailed",
        }
    }

    pub(crate) fn option(option: &'static str, why: impl Into<String>) -> Self {
        Error::Option {
            option,
            why: why.into(),
        }
    }

    pub(crate) fn field(field: impl Into<String>, why: impl Into<String>) -> Self {
        Error::Instance {
            field: field.into(),
            why: why.into(),
        }
    }
}
