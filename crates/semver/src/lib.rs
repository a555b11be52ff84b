//! Semantic versions and version constraints by the rules Helm and Flux follow
//! (those of Masterminds/semver 3.5), down to the wording of refusals.
//!
//! * [`Version::parse`] is lenient (`v1`, `1.2`, `01.2.3`), [`Version::parse_strict`] is not.
//! * [`Constraint::parse`] reads `>=1.2 <2 || ^3.1, !=3.1.4`, hyphen ranges and x-ranges.
//! * [`Constraint::check`] answers yes or no, [`Constraint::validate`] says why not.
//! * [`Constraint::latest`] picks the highest match out of a list of version strings.
//!
//! ```
//! use everflow_semver::{Constraint, Version};
//!
//! let range = Constraint::parse(">=1.2 <2")?;
//! assert!(range.check(&Version::parse("v1.4.1")?));
//! assert!(!range.check(&Version::parse("1.5.0-rc.1")?));
//! # Ok::<(), everflow_semver::Error>(())
//! ```
#![forbid(unsafe_code)]

mod constraint;
mod error;
mod operator;
mod pattern;
mod version;

pub use constraint::Constraint;
pub use error::{Error, Mismatch, NumberError};
pub use version::{Version, sort_ascending};

/// The longest version string that is read, in bytes.
pub const MAX_VERSION_LEN: usize = 256;
/// The longest constraint string that is read, in bytes.
pub const MAX_CONSTRAINT_LEN: usize = 512;
/// The most `||` alternatives a constraint may have.
pub const MAX_CONSTRAINT_GROUPS: usize = 32;
