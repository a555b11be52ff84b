//! What to apply in which order, what to prune, and whether it is healthy.
//!
//! The planning is pure: objects as plain JSON trees in, decisions out.

#![forbid(unsafe_code)]

pub mod change;
pub mod drift;
pub mod effects;
mod error;
pub mod health;
pub mod immutable;
pub mod inventory;
pub mod normalize;
mod object;
pub mod order;
pub mod policy;
pub mod preflight;
pub mod takeover;

pub use error::{ApplyError, held_by, is_looked_after, served_instead};
pub use everflow_api::inventory::ObjectId;
pub use object::GroupKind;
