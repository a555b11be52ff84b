//! What can go wrong on the way.

use std::io;

use everflow_limits::Exceeded;
use everflow_tar::exceeded_in;

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
    /// Work on foreign content has used up what it may use.
    #[error(transparent)]
    Limit(#[from] Exceeded),
    /// A step failed because content passes a limit, or the time for it is over.
    #[error("{message}")]
    LimitIn {
        /// The reason as Flux gives it.
        reason: &'static str,
        /// What was tried and what happened, with the limit.
        message: String,
        /// Which limit.
        #[source]
        exceeded: Exceeded,
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
    /// Work that was given away ended without a result.
    #[error("an internal task failed; this is a bug, and the next attempt starts afresh")]
    Lost,
}

impl From<everflow_connect::Error> for Error {
    fn from(error: everflow_connect::Error) -> Self {
        use everflow_connect::Error as Connect;
        match error {
            Connect::Url(text) => Error::Url(text),
            Connect::Dial(text) => Error::Dial(text),
            Connect::Tls { message, .. } => Error::Tls(message),
            Connect::Deadline => Error::Deadline(""),
            Connect::Protocol(text) => Error::Protocol(text),
            other => Error::Authentication(other.to_string()),
        }
    }
}

impl Error {
    /// The reason as Flux's conditions give it.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Url(_) => "URLInvalid",
            Error::Authentication(_) => "AuthenticationFailed",
            Error::Disk { .. } => "StorageOperationFailed",
            Error::Archive(_) | Error::Digest(_) => "ArchiveOperationFailed",
            Error::Limit(exceeded) => exceeded.reason(),
            Error::Signature { reason, .. }
            | Error::Storage { reason, .. }
            | Error::Source { reason, .. }
            | Error::LimitIn { reason, .. }
            | Error::Unsupported { reason, .. } => reason,
            Error::Registry { .. } => "OCIArtifactPullFailed",
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

    /// Whether the same may succeed later although nothing about it changes: the time was up, or
    /// there was not enough memory at the moment. Of other errors nothing is known.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Request { cause, .. } => cause.is_transient(),
            Error::Deadline(_) => true,
            _ => self.exceeded().is_some_and(Exceeded::is_transient),
        }
    }

    /// The limit that was passed, if it was one.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self {
            Error::Limit(exceeded) | Error::LimitIn { exceeded, .. } => Some(exceeded),
            Error::Request { cause, .. } => cause.exceeded(),
            _ => None,
        }
    }

    /// A step that failed with a reason of Flux's; the limit that made it fail stays known.
    pub(crate) fn step(
        reason: &'static str,
        message: impl Into<String>,
        exceeded: Option<&Exceeded>,
    ) -> Self {
        let message = message.into();
        match exceeded.cloned() {
            None => Error::Source { reason, message },
            Some(exceeded) => Error::LimitIn {
                reason,
                message,
                exceeded,
            },
        }
    }

    /// An archive that cannot be used; the limit that it passes stays known.
    pub(crate) fn archive(message: String, exceeded: Option<&Exceeded>) -> Self {
        match exceeded.cloned() {
            None => Error::Archive(message),
            Some(exceeded) => Error::LimitIn {
                reason: "ArchiveOperationFailed",
                message,
                exceeded,
            },
        }
    }

    /// An error of the disk, unless what was read or written there ended at a limit.
    pub fn disk(action: &'static str, path: &str, cause: io::Error) -> Self {
        match exceeded_in(&cause) {
            Some(exceeded) => Error::Limit(exceeded.clone()),
            None => Error::Disk {
                action,
                path: path.to_owned(),
                cause,
            },
        }
    }

    pub(crate) fn archive_io(error: io::Error) -> Self {
        match exceeded_in(&error) {
            Some(exceeded) => Error::Limit(exceeded.clone()),
            None => Error::Archive(error.to_string()),
        }
    }
}
