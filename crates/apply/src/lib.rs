//! What to apply in which order, what to prune, and whether it is healthy.
//!
//! The planning is pure: objects as plain JSON trees in, decisions out.

#![forbid(unsafe_code)]

pub mod health;
pub mod inventory;
mod object;
pub mod order;
pub mod policy;

pub use everflow_api::inventory::ObjectId;
pub use object::GroupKind;
