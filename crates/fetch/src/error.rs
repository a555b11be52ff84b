//! What can go wrong on the way.

use std::io;

/// Why content could not be brought here. No message holds a credential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is not one.
    #[error("{0}")]
    Url(String),
    /// A request did not get as far as an answer; the text begins as Go's: `Get "URL": cause`.
    #[error("{verb} \"{url}\": {cause}")]
    Request {
        /// `Get`, `Post` and so on.
        verb: String,
        /// The address without credentials.
        url: String,
        /// What happened.
        #[source]
        cause: Box<Error>,
    },
    /// No connection.
    #[error("{0}")]
    Dial(String),
    /// No agreement on a secure connection.
    #[error("{0}")]
    Tls(String),
    /// The time was up.
    #[error("context deadline exceeded{0}")]
    Deadline(&'static str),
    /// The other side broke the rules of its protocol.
    #[error("{0}")]
    Protocol(String),
    /// The server answered with a status that was not hoped for.
    #[error("unexpected status code {status} for {url}")]
    Status {
        /// The status.
        status: u16,
        /// The address without credentials.
        url: String,
    },
    /// A bound was passed.
    #[error("{what} is larger than the limit of {limit}")]
    TooLarge {
        /// What was too large.
        what: String,
        /// The bound.
        limit: u64,
    },
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
    /// An archive that cannot be read or written.
    #[error("{0}")]
    Archive(String),
    /// A digest that is not one, or does not fit its content.
    #[error("{0}")]
    Digest(String),
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
    /// The artifact store cannot do it.
    #[error("{message}")]
    Storage {
        /// The reason as Flux gives it.
        reason: &'static str,
        /// What happened and what to do.
        message: String,
    },
    /// A registry refused; the text begins as Flux's: `GET URL: CODE: message`.
    #[error("{message}")]
    Registry {
        /// The status of its answer.
        status: u16,
        /// What it said.
        message: String,
    },
    /// A step on the way from a registry or a bucket failed.
    #[error("{message}")]
    Source {
        /// The reason as Flux gives it.
        reason: &'static str,
        /// What was tried and what happened.
        message: String,
    },
    /// Something that Flux can do and we cannot yet.
    #[error("{message}")]
    Unsupported {
        /// The reason as Flux gives it.
        reason: &'static str,
        /// What it is, and what can be done instead.
        message: String,
    },
    /// A path of an artifact that should be included is not there.
    #[error("cannot stat {0}: stat {0}: no such file or directory")]
    IncludeMissing(String),
    /// Work that was given away ended without a result.
    #[error("an internal task failed; this is a bug, and the next attempt starts afresh")]
    Lost,
}

impl Error {
    /// The reason as Flux's conditions give it.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Url(_) => "URLInvalid",
            Error::Authentication(_) => "AuthenticationFailed",
            Error::Disk { .. } => "StorageOperationFailed",
            Error::Archive(_) | Error::Digest(_) => "ArchiveOperationFailed",
            Error::Git(_) | Error::RefMissing(_) | Error::NotOurRef | Error::SparseMissing(_) => {
                "GitOperationFailed"
            }
            Error::Signature { reason, .. }
            | Error::Storage { reason, .. }
            | Error::Source { reason, .. }
            | Error::Unsupported { reason, .. } => reason,
            Error::Registry { .. } => "OCIArtifactPullFailed",
            Error::IncludeMissing(_) => "CopyFailure",
            Error::EmptyRepository => "EmptyGitRepository",
            Error::Request { cause, .. } => cause.reason(),
            Error::Dial(_)
            | Error::Tls(_)
            | Error::Deadline(_)
            | Error::Protocol(_)
            | Error::Status { .. }
            | Error::TooLarge { .. }
            | Error::Lost => "Failed",
        }
    }

    pub(crate) fn disk(action: &'static str, path: &str, cause: io::Error) -> Self {
        Error::Disk {
            action,
            path: path.to_owned(),
            cause,
        }
    }

    pub(crate) fn archive_io(error: io::Error) -> Self {
        Error::Archive(error.to_string())
    }
}
