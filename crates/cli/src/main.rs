//! The `everflow` program.
#![forbid(unsafe_code)]

fn main() {}
