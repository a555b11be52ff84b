//! Why an archive is not read to its end.

use std::io;

use everflow_limits::{Bytes, Exceeded};

use crate::budgeted::exceeded_in;

/// The longest name that is shown whole.
const SHOWN: usize = 256;

/// A name for messages: it may be a megabyte long, which nobody would read and no status can hold.
pub fn shown(name: &[u8]) -> String {
    match name.get(..SHOWN) {
        Some(start) if name.len() > SHOWN => format!("{}…", String::from_utf8_lossy(start)),
        _ => String::from_utf8_lossy(name).into_owned(),
    }
}

/// Why an archive is not read to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes cannot be read, or end too early.
    #[error(transparent)]
    Read(io::Error),
    /// A header or record breaks the rules of the format.
    #[error("invalid tar header at byte {at}: {reason}")]
    Header {
        /// Where the header begins.
        at: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// A long name or PAX records, longer than anything that Go reads.
    #[error(
        "the extension record of {} at byte {at} is longer than the {} that a name and its attributes may have", Bytes(*.size), Bytes(*.limit)
    )]
    Record {
        /// Where its header begins.
        at: u64,
        /// How long it says to be.
        size: u64,
        /// How long it may be.
        limit: u64,
    },
    /// A sparse file.
    #[error("{0:?} is a sparse file, which is not supported: pack it without holes")]
    Sparse(String),
    /// More content than allowed, in one entry or in all.
    #[error("{entry:?}: {exceeded}")]
    TooLarge {
        /// The entry that is too much.
        entry: String,
        /// Which limit.
        #[source]
        exceeded: Exceeded,
    },
    /// More entries than allowed.
    #[error("{entry:?}: {exceeded}")]
    TooMany {
        /// The first that is too much.
        entry: String,
        /// Which limit.
        #[source]
        exceeded: Exceeded,
    },
    /// Another limit, or the work should end.
    #[error("{place}: {exceeded}")]
    Limit {
        /// Where it was noticed.
        place: String,
        /// Which limit.
        #[source]
        exceeded: Exceeded,
    },
}

impl Error {
    /// The limit that was passed, if it was one.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self {
            Error::TooLarge { exceeded, .. }
            | Error::TooMany { exceeded, .. }
            | Error::Limit { exceeded, .. } => Some(exceeded),
            _ => None,
        }
    }

    /// An error of reading, at an entry.
    pub fn reading(entry: &str, error: io::Error) -> Self {
        match exceeded_in(&error) {
            Some(exceeded) => Error::limit(entry, exceeded.clone()),
            None => Error::Read(error),
        }
    }

    pub(crate) fn limit(entry: &str, exceeded: Exceeded) -> Self {
        Error::Limit {
            place: format!("{entry:?}"),
            exceeded,
        }
    }

    pub(crate) fn at(at: u64, error: io::Error) -> Self {
        match exceeded_in(&error) {
            Some(exceeded) => Error::Limit {
                place: format!("byte {at}"),
                exceeded: exceeded.clone(),
            },
            None => Error::Read(error),
        }
    }
}
