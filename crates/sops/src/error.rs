//! Why a file cannot be decrypted.

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
}

impl Error {
    /// A stable word for the cause.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Load { .. } => "Malformed",
            Error::DataKey { .. } => "NoKey",
            Error::Unsupported { .. } => "UnsupportedRecipient",
            Error::Value { .. } => "Undecryptable",
            Error::Integrity { .. } => "IntegrityFailed",
            Error::Emit { .. } => "FormatMismatch",
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
