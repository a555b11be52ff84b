//! The values of a release.

mod compose;
mod layers;
mod preserve;

pub(crate) use compose::key;
pub use compose::{brought_by_secrets, compose, referenced};
pub use preserve::{Preserved, merged_config, preserve};
