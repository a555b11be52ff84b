//! A GitOps repository brought up with no cluster.
//!
//! - [`tree`]: the files of the repository.
//! - [`entry`]: where it begins.
//! - [`kinds`]: the kinds that it uses and nobody defines.
//! - [`picture`]: what there is, how it stands and why.

#![forbid(unsafe_code)]

pub mod entry;
mod error;
pub mod kinds;
pub mod picture;
pub mod tree;

pub use error::Error;
