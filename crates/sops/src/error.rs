//! Why a file cannot be decrypted.

use everflow_limits::Exceeded;
use thiserror::Error;

use crate::metadata::RecipientKind;

/// Why a file cannot be decrypted. Texts begin as those of Flux and SOPS, and never hold a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("failed to load encrypted {format} data: {problem}")]
    Load {
        /// How it was read.
        format: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// None of the keys fits.
    #[error("cannot get sops data key: {report}")]
    DataKey {
        /// What was tried for each recipient, as SOPS reports it.
        report: String,
    },
    /// The file is for recipients that cannot be asked.
    #[error(
        "cannot get sops data key: the file is encrypted for {} only, and these are not supported \
         yet: add an age or PGP recipient to it",
        Names(recipients)
    )]
    Unsupported {
        /// The kinds, and which of them.
        recipients: Vec<(RecipientKind, String)>,
    },
    /// A value cannot be decrypted.
    #[error("error decrypting sops tree: Error walking tree: {problem} (at {path})")]
    Value {
        /// What is wrong with it.
        problem: String,
        /// Where it is.
        path: String,
    },
    /// The file is not as SOPS left it.
    #[error(
        "failed to verify sops data integrity: {problem}: the file was changed without sops (edit \
         it with sops, or encrypt it with mac_only_encrypted to leave plain values free)"
    )]
    Integrity {
        /// What does not fit.
        problem: String,
    },
    /// The decrypted file cannot be written in the format asked for.
    #[error("failed to emit encrypted {input} file as decrypted {output}: {problem}")]
    Emit {
        /// How it was read.
        input: &'static str,
        /// How it should be written.
        output: &'static str,
        /// What stands in the way.
        problem: String,
    },
    /// Decrypting it would cost more than it may.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

impl Error {
    /// What there is too much of, if that is the cause.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self {
            Error::Exceeded(exceeded) => Some(exceeded),
            _ => None,
        }
    }

    /// A stable word for the cause.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Load { .. } => "Malformed",
            Error::DataKey { .. } => "NoKey",
            Error::Unsupported { .. } => "UnsupportedRecipient",
            Error::Value { .. } => "Undecryptable",
            Error::Integrity { .. } => "IntegrityFailed",
            Error::Emit { .. } => "FormatMismatch",
            Error::Exceeded(exceeded) => exceeded.reason(),
        }
    }
}

/// Why a key cannot be taken in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyError {
    /// An age identity that is none.
    #[error("failed to parse and add to age identities: {0}")]
    Age(String),
    /// A PGP key that is none, or that cannot be used.
    #[error("cannot import armored key data into GnuPG keyring: {0}")]
    Pgp(String),
}

/// Why a part of the work cannot be done, before it is known how to say it.
#[derive(Debug)]
pub(crate) enum Fault {
    /// What is wrong.
    Problem(String),
    /// It would cost more than it may.
    Exceeded(Exceeded),
}

impl Fault {
    /// The same, with what is wrong in other words.
    pub(crate) fn map(self, words: impl FnOnce(String) -> String) -> Fault {
        match self {
            Fault::Problem(problem) => Fault::Problem(words(problem)),
            exceeded => exceeded,
        }
    }

    /// The error, if what is wrong is this one.
    pub(crate) fn or(self, error: impl FnOnce(String) -> Error) -> Error {
        match self {
            Fault::Problem(problem) => error(problem),
            Fault::Exceeded(exceeded) => exceeded.into(),
        }
    }
}

impl From<String> for Fault {
    fn from(problem: String) -> Self {
        Fault::Problem(problem)
    }
}

impl From<&str> for Fault {
    fn from(problem: &str) -> Self {
        Fault::Problem(problem.to_owned())
    }
}

impl From<Exceeded> for Fault {
    fn from(exceeded: Exceeded) -> Self {
        Fault::Exceeded(exceeded)
    }
}

struct Names<'a>(&'a [(RecipientKind, String)]);

impl std::fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (kind, name)) in self.0.iter().enumerate() {
            let before = if index == 0 { "" } else { ", " };
            write!(f, "{before}{kind} ({name})")?;
        }
        Ok(())
    }
}
