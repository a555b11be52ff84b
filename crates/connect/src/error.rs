//! Why there is no connection.

use std::io;

/// Which of the given certificates and keys cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// The certificates to trust.
    Authority,
    /// Our own certificate.
    Certificate,
    /// The key of our own certificate.
    Key,
    /// Certificate and key, which do not fit together.
    Pair,
}

/// Why there is no connection. No message holds a credential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is not one.
    #[error("{0}")]
    Url(String),
    /// No connection.
    #[error("{0}")]
    Dial(String),
    /// No agreement on a secure connection.
    #[error("{message}")]
    Tls {
        /// What happened, in Go's words.
        message: String,
        /// What the handshake with the host itself ended with.
        #[source]
        cause: Option<io::Error>,
    },
    /// The time was up.
    #[error("context deadline exceeded")]
    Deadline,
    /// The proxy broke the rules of its protocol.
    #[error("{0}")]
    Protocol(String),
    /// A kind of proxy that there is not.
    #[error("{0}")]
    Proxy(String),
    /// Certificates or keys that cannot be used.
    #[error("{message}")]
    Unusable {
        /// Which.
        which: Unusable,
        /// What is wrong with it.
        message: String,
    },
}

impl Error {
    /// The stable reason, as Flux's conditions give it.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Url(_) => "URLInvalid",
            Error::Proxy(_) | Error::Unusable { .. } => "AuthenticationFailed",
            Error::Dial(_) | Error::Tls { .. } | Error::Deadline | Error::Protocol(_) => "Failed",
        }
    }

    pub(crate) fn tls(message: impl Into<String>) -> Self {
        Error::Tls {
            message: message.into(),
            cause: None,
        }
    }
}
