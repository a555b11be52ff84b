//! Structural schemas of custom resources.

mod parse;

pub(crate) use parse::parse;
