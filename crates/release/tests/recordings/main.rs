//! What the real helm-controller did, as far as it follows from data alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod corpus;
mod names;
mod records;
mod rendered;
mod values;
mod world;
