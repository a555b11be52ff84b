//! Actions carried out on a small model of a cluster, undisturbed and with crashes at every step.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cases;
mod crashes;
mod driver;
mod model;
mod sequence;
