//! Field paths and sets of them: who owns what.
//!
//! A [`FieldSet`] is a trie of [`PathElement`]s. It reads and writes the `FieldsV1` form of
//! `metadata.managedFields`, and knows the set algebra that server-side apply needs.

mod element;
mod fields_v1;
mod set;
mod value_order;

pub use element::{FieldPath, PathElement};
pub use set::FieldSet;
pub(crate) use set::FieldSetBuilder;
pub(crate) use value_order::values_equal;
