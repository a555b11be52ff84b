//! All ways Kubernetes merges objects, as pure functions on JSON trees.
//!
//! - [`json_patch`] and [`merge_patch`]: the two generic patch formats.
//! - [`apply`]: server-side apply and ownership of fields.
//! - [`typed`]: structured merge by the schema model.
//! - [`strategic`]: strategic merge patch, and the making of such patches.
//! - [`fieldpath`]: paths, and sets of them as `metadata.managedFields` records them.
#![forbid(unsafe_code)]

pub mod apply;
mod depth;
mod error;
pub mod fieldpath;
mod go_text;
pub mod json_patch;
pub mod merge_patch;
pub mod strategic;
pub mod typed;

pub use depth::MAX_DEPTH;
pub use error::MergeError;
