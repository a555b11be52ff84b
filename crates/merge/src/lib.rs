//! All ways Kubernetes merges objects, as pure functions on JSON trees.
//!
//! - [`json_patch`] and [`merge_patch`]: the two generic patch formats.
//! - [`fieldpath`]: paths, and sets of them as `metadata.managedFields` records them.
#![forbid(unsafe_code)]

mod depth;
mod error;
pub mod fieldpath;
mod go_text;
pub mod json_patch;
pub mod merge_patch;

pub use depth::MAX_DEPTH;
pub use error::MergeError;
