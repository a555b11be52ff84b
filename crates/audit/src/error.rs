//! What can go wrong.

use everflow_merge::MergeError;

/// Why a patch cannot be tried.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object is not in the model.
    #[error("{0} is not among the objects")]
    NotFound(String),
    /// Its kind is not one of Kubernetes' own, so that its lists cannot be merged.
    #[error("{0} has a kind whose schema is not known")]
    NoSchema(String),
    /// The patch does not apply.
    #[error("the patch does not apply to {object}: {source}")]
    Patch {
        /// The object.
        object: String,
        /// Why.
        source: MergeError,
    },
}

impl Error {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::NotFound(_) => "NotFound",
            Error::NoSchema(_) => "NoSchema",
            Error::Patch { .. } => "Patch",
        }
    }
}
