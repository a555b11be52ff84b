//! What can go wrong with git.

use std::io;

use everflow_fetch::Error as Fetch;
use everflow_limits::Exceeded;
use everflow_tar::exceeded_in;

/// Why a repository could not be read or written. No message holds a credential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The way to the server, or what is made of its answer.
    #[error(transparent)]
    Fetch(Fetch),
    /// The address is not one.
    #[error("{0}")]
    Url(String),
    /// The time was up.
    #[error("context deadline exceeded{0}")]
    Deadline(&'static str),
    /// The other side broke the rules of its protocol.
    #[error("{0}")]
    Protocol(String),
    /// A bound was passed.
    #[error("{what} is larger than the limit of {limit}")]
    TooLarge {
        /// What was too large.
        what: String,
        /// The bound.
        limit: u64,
    },
    /// Work on foreign content has used up what it may use.
    #[error(transparent)]
    Limit(#[from] Exceeded),
    /// Two contents were made on purpose to have the same name.
    #[error(
        "the object {0} was made to collide with another one under SHA-1 and is refused: \
         whoever wrote it can exchange its content; remove it from the repository"
    )]
    Collision(String),
    /// Keys, certificates or passwords that cannot be used, or were refused.
    #[error("{0}")]
    Authentication(String),
    /// A file of our own could not be worked with.
    #[error("failed to {action} {path}: {cause}")]
    Disk {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: String,
        /// What the disk said.
        #[source]
        cause: io::Error,
    },
    /// An archive that cannot be written.
    #[error("{0}")]
    Archive(String),
    /// A git operation that failed.
    #[error("{0}")]
    Git(String),
    /// The branch or tag is not there.
    #[error("{0}")]
    RefMissing(String),
    /// There is no commit in the repository.
    #[error("git repository is empty")]
    EmptyRepository,
    /// The server does not have what we asked for by its id.
    #[error("object not found")]
    NotOurRef,
    /// A directory of a sparse checkout is not there.
    #[error(
        "sparse checkout dir '{0}' does not exist in repository: lstat {0}: no such file or directory"
    )]
    SparseMissing(String),
    /// A signature that does not verify.
    #[error("{message}")]
    Signature {
        /// The reason as Flux gives it.
        reason: &'static str,
        /// What happened.
        message: String,
    },
    /// A path of an artifact that should be included is not there.
    #[error("cannot stat {0}: stat {0}: no such file or directory")]
    IncludeMissing(String),
    /// Work that was given away ended without a result.
    #[error("an internal task failed; this is a bug, and the next attempt starts afresh")]
    Lost,
}

impl From<Fetch> for Error {
    fn from(error: Fetch) -> Self {
        match error {
            Fetch::Url(text) => Error::Url(text),
            Fetch::Deadline(text) => Error::Deadline(text),
            Fetch::Protocol(text) => Error::Protocol(text),
            Fetch::TooLarge { what, limit } => Error::TooLarge { what, limit },
            Fetch::Limit(exceeded) => Error::Limit(exceeded),
            Fetch::Authentication(text) => Error::Authentication(text),
            Fetch::Archive(text) => Error::Archive(text),
            Fetch::Disk {
                action,
                path,
                cause,
            } => Error::Disk {
                action,
                path,
                cause,
            },
            Fetch::Lost => Error::Lost,
            other => Error::Fetch(other),
        }
    }
}

impl From<everflow_connect::Error> for Error {
    fn from(error: everflow_connect::Error) -> Self {
        Fetch::from(error).into()
    }
}

impl Error {
    /// The reason as Flux's conditions give it.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Fetch(error) => error.reason(),
            Error::Url(_) => "URLInvalid",
            Error::Authentication(_) => "AuthenticationFailed",
            Error::Disk { .. } => "StorageOperationFailed",
            Error::Archive(_) => "ArchiveOperationFailed",
            Error::Git(_)
            | Error::Collision(_)
            | Error::RefMissing(_)
            | Error::NotOurRef
            | Error::SparseMissing(_) => "GitOperationFailed",
            Error::Limit(exceeded) => exceeded.reason(),
            Error::Signature { reason, .. } => reason,
            Error::IncludeMissing(_) => "CopyFailure",
            Error::EmptyRepository => "EmptyGitRepository",
            Error::Deadline(_) | Error::Protocol(_) | Error::TooLarge { .. } | Error::Lost => {
                "Failed"
            }
        }
    }

    /// Whether the same may succeed later although nothing about it changes.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Fetch(error) => error.is_transient(),
            Error::Deadline(_) => true,
            _ => self.exceeded().is_some_and(Exceeded::is_transient),
        }
    }

    /// The limit that was passed, if it was one.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self {
            Error::Limit(exceeded) => Some(exceeded),
            Error::Fetch(error) => error.exceeded(),
            _ => None,
        }
    }

    /// An error of the disk, unless what was read or written there ended at a limit.
    pub(crate) fn disk(action: &'static str, path: &str, cause: io::Error) -> Self {
        Fetch::disk(action, path, cause).into()
    }

    pub(crate) fn archive_io(error: io::Error) -> Self {
        match exceeded_in(&error) {
            Some(exceeded) => Error::Limit(exceeded.clone()),
            None => Error::Archive(error.to_string()),
        }
    }
}
