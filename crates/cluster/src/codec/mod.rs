//! Bodies in: JSON with Go's error texts, and Go's view of the built-in types.

pub mod convert;
pub mod protobuf;
pub mod restore;
pub mod yaml;

pub use everflow_schema::{go_json as json, gotypes, quantity};
