use crate::{MAX_CONSTRAINT_GROUPS, MAX_CONSTRAINT_LEN, MAX_VERSION_LEN};
use everflow_gotext::quoted;

/// Why a version or a constraint could not be read. The texts are the ones users of Helm know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text does not have the shape of a version.
    #[error("invalid semantic version")]
    InvalidVersion,
    /// The text is empty (strict parsing only).
    #[error("version string empty")]
    Empty,
    /// A number segment holds something else than digits (strict parsing only).
    #[error("invalid characters in version")]
    InvalidCharacters,
    /// A number starts with a zero where that is not allowed.
    #[error("version segment starts with 0")]
    LeadingZero,
    /// The part after `+` is malformed.
    #[error("invalid metadata string")]
    InvalidMetadata,
    /// The part after `-` is malformed.
    #[error("invalid prerelease string")]
    InvalidPrerelease,
    /// The version is longer than [`MAX_VERSION_LEN`].
    #[error("version string is too long (max {MAX_VERSION_LEN} bytes)")]
    VersionTooLong,
    /// A segment of a strictly parsed version is no number that fits 64 bits.
    #[error("{0}")]
    StrictSegment(NumberError),
    /// A segment of a leniently parsed version is no number that fits 64 bits.
    #[error("error parsing version segment: {0}")]
    Segment(NumberError),
    /// The constraint does not have the shape of one; holds the refused part.
    #[error("improper constraint: {}", quoted(.0))]
    ImproperConstraint(String),
    /// A constraint's version looked right but cannot be read.
    #[error("constraint parser error")]
    ConstraintVersion,
    /// The constraint is longer than [`MAX_CONSTRAINT_LEN`].
    #[error("constraint string is too long (max {MAX_CONSTRAINT_LEN} bytes)")]
    ConstraintTooLong,
    /// The constraint has more than [`MAX_CONSTRAINT_GROUPS`] alternatives.
    #[error("too many constraint groups (max {MAX_CONSTRAINT_GROUPS})")]
    TooManyGroups,
}

impl Error {
    /// A stable name of the cause, for conditions and events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::ImproperConstraint(_)
            | Self::ConstraintVersion
            | Self::ConstraintTooLong
            | Self::TooManyGroups => "InvalidConstraint",
            _ => "InvalidVersion",
        }
    }
}

/// A number that cannot be held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("strconv.ParseUint: parsing {}: {}", quoted(.text), if .text.is_empty() { "invalid syntax" } else { "value out of range" })]
pub struct NumberError {
    /// The digits as written.
    pub text: String,
}

/// Why a version does not satisfy a constraint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Mismatch(pub(crate) String);
