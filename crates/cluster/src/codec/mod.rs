//! Bodies in: JSON with Go's error texts, and Go's view of the built-in types.

pub mod convert;
pub mod gotypes;
pub mod json;
pub mod protobuf;
pub mod quantity;
pub mod restore;
pub mod yaml;
